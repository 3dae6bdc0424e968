//! Data that only root may read: that of a lab on the host, and that of the host in a node.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use common::{Bench, enter, guests};

#[test]
fn other_users_do_not_read_a_labs_environment_nor_enter_its_directories() {
    const NAME: &str = "other_users_do_not_read_a_labs_environment_nor_enter_its_directories";
    enter(NAME, |bench| {
        // As a latlab before this one left it.
        fs::create_dir_all(bench.run_dir()).unwrap();
        fs::set_permissions(bench.run_dir(), fs::Permissions::from_mode(0o755)).unwrap();
        let lab = bench.deploy(
            "private",
            "name: NAME\ntopology:\n  nodes: {a: {kind: native, env: {TOKEN: secret}}}\n",
        );
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let state = bench.labs().join(&lab).join("state.json");
        assert!(fs::read_to_string(&state).unwrap().contains("secret"));
        assert_eq!(format!("{:o}", mode(&state)), "600");
        for directory in [bench.run_dir(), bench.run_dir().join(&lab), bench.labs()] {
            let shown = directory.display().to_string();
            assert_eq!(format!("{:o}", mode(&directory)), "700", "{shown}");
        }
        bench.latlab(&["destroy", &lab]).good();
        bench.assert_clean();
    });
}

/// Files of the host's that are there for the test only.
struct Secrets(PathBuf);

impl Secrets {
    fn new(test: &str) -> Self {
        Self::below("/srv", test)
    }

    fn below(place: &str, test: &str) -> Self {
        let dir = PathBuf::from(format!("{place}/latlab-{test}-{}", std::process::id()));
        fs::create_dir_all(dir.join("closed")).unwrap();
        for (name, mode) in [
            ("private", 0o600),
            ("public", 0o644),
            ("closed/inner", 0o644),
        ] {
            fs::write(dir.join(name), "secret\n").unwrap();
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(dir.join("closed"), fs::Permissions::from_mode(0o750)).unwrap();
        Self(dir)
    }
}

impl Drop for Secrets {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn a_container_of_the_hosts_files_sees_only_public_ones() {
    const NAME: &str = "a_container_of_the_hosts_files_sees_only_public_ones";
    enter(NAME, container);
}

fn container(bench: &Bench) {
    let secrets = Secrets::new("closed");
    let here = secrets.0.display();
    // A place that is no part of the system, with public files too.
    let others = Secrets::below("/mnt", "closed");
    let there = others.0.display();
    let lab = bench.deploy(
        "covered",
        "name: NAME\ntopology:\n  nodes: {a: {kind: container}}\n",
    );
    let attack = format!(
        "cat {here}/public; for f in /etc/shadow /etc/gshadow /etc/shadow- {here}/private {here}/closed/inner \
         {there}/private {there}/closed/inner /boot/*; do grep -qs . $f && echo GOT $f; done; ls -A /mnt; \
         ls -A /root {here}/closed; echo mine > /root/x && cat /root/x"
    );
    let said = bench.exec(&lab, "a", &["sh", "-c", &attack]).good();
    let lists = format!("/root:\n\n{here}/closed:\n");
    let either = [
        format!("secret\n{lists}mine\n"),
        format!("secret\n{here}/closed:\n\n/root:\nmine\n"),
    ];
    assert!(either.contains(&said.out), "{said:?}");
    bench.latlab(&["destroy", &lab]).good();
    bench.assert_clean();
}

/// Attempts to get below the covers of `$D/private` and the directory `$D/closed`, in a shell.
const UNCOVER: [&str; 14] = [
    "cat $D/private $D/closed/inner",
    "chmod 777 $D/private $D/closed; chown 12:34 $D/private $D/closed; cat $D/private $D/closed/*",
    "ln $D/private $D/linked; cat $D/linked; cp -a $D/closed $D/copied; cat $D/copied/*",
    "mv $D/private $D/moved; mv $D/closed $D/away; cat $D/moved $D/away/*",
    "rm -rf $D/private $D/closed; touch $D/private; mkdir $D/closed; cat $D/private $D/closed/*",
    "mv $D $D-moved; cat $D-moved/private $D-moved/closed/*; mkdir -p $D; cat $D/private $D/closed/*",
    "for n in trusted user; do for k in opaque redirect metacopy origin; do \
       setfattr -x $n.overlay.$k $D/closed; setfattr -n $n.overlay.$k -v n $D/closed; \
       setfattr -n $n.overlay.$k -v /public $D/private; done; done; cat $D/private $D/closed/*",
    "umount $D/private; umount -l $D/closed; cat $D/private $D/closed/*",
    "mount -o remount,lowerdir=/ /; cat $D/private $D/closed/*",
    "mkdir -p /tmp/m; mount --bind / /tmp/m; cat /tmp/m$D/private /tmp/m$D/closed/*",
    "mkdir -p /tmp/m /tmp/u /tmp/w; for o in redirect_dir=on,metacopy=on userxattr index=off; do \
       mount -t overlay x -o lowerdir=$D:/,upperdir=/tmp/u,workdir=/tmp/w,$o /tmp/m; \
       cat /tmp/m/private /tmp/m/closed/* /tmp/m$D/private /tmp/m$D/closed/*; umount /tmp/m; done",
    "unshare -m sh -c 'umount -l /; umount $D/private; cat $D/private'",
    "unshare -Urm sh -c 'umount $D/private $D/closed; mount -t tmpfs x /srv; umount /srv; cat $D/private $D/closed/*'",
    "cat /proc/self/root$D/private /proc/1/root$D/private /proc/1/cwd$D/closed/*",
];

#[test]
fn covers_stay_on_also_where_a_node_may_unmount() {
    enter("covers_stay_on_also_where_a_node_may_unmount", |bench| {
        let secrets = Secrets::new("covers");
        let here = secrets.0.display();
        let lab = bench.deploy(
            "covers",
            "name: NAME\ntopology:\n  nodes:\n    a: {kind: container}\n    b: {kind: container, \
             runtime: runc}\n    c: {kind: container, security: {capabilities: [SYS_ADMIN], \
             seccomp: unconfined}}\n",
        );
        for node in ["a", "b", "c"] {
            for way in UNCOVER {
                let attack = format!("D={here}; export D; {way}");
                let said = bench.exec(&lab, node, &["sh", "-c", &attack]);
                assert!(!said.out.contains("secret"), "{node}: {way}: {said:?}");
            }
        }
        bench.latlab(&["destroy", &lab]).good();
        let kept = ["private", "closed/inner"].map(|name| secrets.0.join(name));
        for file in kept {
            assert_eq!(fs::read_to_string(file).unwrap(), "secret\n");
        }
        bench.assert_clean();
    });
}

#[test]
fn a_lab_hides_more_of_the_hosts_files_from_its_nodes() {
    enter(
        "a_lab_hides_more_of_the_hosts_files_from_its_nodes",
        |bench| {
            let secrets = Secrets::new("hidden");
            let here = secrets.0.display();
            let kinds = if guests() {
                &["container", "vm"][..]
            } else {
                &["container"]
            };
            for kind in kinds {
                let lab = |hide: &str| {
                    let node = format!("{{kind: {kind}, hide: [{here}/public, \"{hide}\"]}}");
                    format!("name: NAME\ntopology:\n  nodes: {{a: {node}}}\n")
                };
                let file = bench.file("typo", &lab("/srv/latlab-absent"));
                let refused = bench.latlab(&["deploy", &file]);
                assert_eq!(refused.code, 2, "{refused:?}");
                assert!(
                    refused.err.contains("cannot hide /srv/latlab-absent: "),
                    "{refused:?}"
                );
                let name = bench.deploy("hides", &lab("/usr/share/doc"));
                let look =
                    format!("cat {here}/public; ls -A /usr/share/doc; ls -d {here} /usr/share/doc");
                let said = bench.exec(&name, "a", &["sh", "-c", &look]);
                assert_eq!(
                    said.out,
                    format!("{here}\n/usr/share/doc\n"),
                    "{kind}: {said:?}"
                );
                bench.latlab(&["destroy", &name]).good();
            }
            bench.assert_clean();
        },
    );
}
