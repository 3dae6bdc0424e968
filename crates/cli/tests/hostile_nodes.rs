//! Hostile programs in the nodes of a lab as the document describes it, without any setting of its own: what a container
//! does with the host's devices and binaries, and a guest with the host's files and memory.
//!
//! `escape.rs` and `guest_attacks.rs` of `latlab-host` have more ways. These start latlab's programs by their path.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use common::{Bench, enter, guests};

const CONTAINERS: &str = "name: NAME\ntopology:\n  nodes:\n    a: {kind: container}\n    \
    b: {kind: container, runtime: runc}\n";

/// The line of a way that succeeded.
const GOT: &str = "GOTCHA";

/// The number of a disk of the host's, with something to read.
fn a_disk() -> String {
    let disks = fs::read_dir("/sys/block").unwrap();
    let disks = disks.map(|disk| disk.unwrap().path());
    let read = |path: PathBuf| fs::read_to_string(path).unwrap();
    let with_sectors = |disk: &PathBuf| read(disk.join("size")).trim() != "0";
    let mut disks: Vec<PathBuf> = disks.filter(with_sectors).collect();
    disks.sort();
    let disk = disks.last().expect("a disk in /sys/block");
    read(disk.join("dev")).trim().replace(':', " ")
}

/// Runs ways in a node; those that succeeded.
fn succeeded(bench: &Bench, lab: &str, node: &str, ways: &[(&str, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, way) in ways {
        let (first, rest) = GOT.split_at(3);
        let line = format!("got() {{ echo {first}''{rest}; }}; {{ {way}; }} 2>&1; true");
        let said = bench.exec(lab, node, &["sh", "-c", &line]).good();
        if said.out.contains(GOT) {
            found.push(format!("{node}: {name}: {}", said.out));
        }
    }
    found
}

#[test]
fn a_container_reaches_no_device_and_no_priority() {
    const NAME: &str = "a_container_reaches_no_device_and_no_priority";
    enter(NAME, |bench| {
        let lab = bench.deploy("hostile", CONTAINERS);
        let open = |kind: &str, number: &str| {
            format!(
                "mknod /device {kind} {number} && head -c 1 /device > /dev/null && got; rm -f /device"
            )
        };
        let ways = [
            ("a disk", open("b", &a_disk())),
            ("a loop device", open("b", "7 0")),
            ("the kernel's log", open("c", "1 11")),
            ("memory", open("c", "1 1")),
            ("a real-time priority", "chrt -f 99 true && got".into()),
            (
                "a negative nice value",
                "test $(nice -n -10 nice) -lt 0 && got".into(),
            ),
        ];
        for node in ["a", "b"] {
            let found = succeeded(bench, &lab, node, &ways);
            assert_eq!(found, Vec::<String>::new());
        }
    });
}

/// Directories within each other, more than a process may have descriptors.
#[test]
fn a_container_leaves_no_tree_that_stays() {
    enter("a_container_leaves_no_tree_that_stays", |bench| {
        let lab = bench.deploy("deep", CONTAINERS);
        let dig = "import os\nos.mkdir('/deep')\nos.chdir('/deep')\nfor _ in range(30000):\n    os.mkdir('d')\n    os.chdir('d')\n";
        for node in ["a", "b"] {
            bench.exec(&lab, node, &["python3", "-c", dig]).good();
        }
        bench.latlab(&["destroy", &lab, "-y"]).good();
        assert!(!bench.run_dir().join(&lab).exists());
    });
}

/// CVE-2019-5736: a script whose interpreter is the program that starts it.
#[test]
fn a_container_does_not_run_the_hosts_latlab() {
    enter("a_container_does_not_run_the_hosts_latlab", |bench| {
        let lab = bench.deploy("trap", CONTAINERS);
        for node in ["a", "b"] {
            let trap = "echo '#!/proc/self/exe' > /usr/bin/trap; chmod +x /usr/bin/trap";
            bench.exec(&lab, node, &["sh", "-c", trap]).good();
            for program in ["trap", "/usr/bin/trap"] {
                let said = bench.exec(&lab, node, &[program]);
                let text = format!("{}{}", said.out, said.err);
                assert!(text.starts_with("latlab-agent: "), "{node}: {text}");
            }
        }
    });
}

/// A directory of the host's that is there for the test only.
struct Target(PathBuf);

impl Target {
    fn new() -> Self {
        let dir = PathBuf::from(format!("/srv/latlab-hostile-{}", common::namespaces::id()));
        fs::create_dir_all(dir.join("closed")).unwrap();
        for (name, mode) in [
            ("private", 0o600),
            ("public", 0o644),
            ("closed/inner", 0o644),
        ] {
            fs::write(dir.join(name), "latlab-secret\n").unwrap();
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(dir.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        Self(dir)
    }

    /// Names, modes, owners, times, and the public file's content.
    fn state(&self) -> String {
        let list = "cd $0; find . -printf '%p %M %u %g %s %T@ %n\\n' | sort; cat public";
        common::tool(&["sh", "-c", list, self.0.to_str().unwrap()])
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn a_guest_neither_reads_nor_writes_what_is_the_hosts_nor_fills_its_memory() {
    const NAME: &str = "a_guest_neither_reads_nor_writes_what_is_the_hosts_nor_fills_its_memory";
    if !guests() {
        eprintln!("skipped: guest tests boot virtual machines: set LATLAB_TEST_GUEST=1");
        return;
    }
    common::fetch("cloud");
    enter(NAME, |bench| {
        let target = Target::new();
        let here = target.0.display();
        let before = target.state();
        let lab = bench.deploy(
            "hostile",
            "name: NAME\ntopology:\n  nodes:\n    a: {kind: vm}\n    b: {kind: vm, kernel: cloud}\n",
        );
        let read = |what: &str| format!("grep -rqs . /m{what} && got");
        let mut ways = vec![
            ("passwords", read("/etc/shadow")),
            ("group passwords", read("/etc/gshadow")),
            ("a file of root's only", read(&format!("{here}/private"))),
            (
                "a file in root's directory",
                read(&format!("{here}/closed")),
            ),
            ("root's home", "ls -A /m/root | grep -q . && got".into()),
            (
                "the host's processes",
                "head -c 1 /m/proc/1/environ | grep -q . && got".into(),
            ),
            ("the host's /run", "ls -A /m/run | grep -q . && got".into()),
            (
                "latlab's state",
                "ls -A /m/var/lib/latlab | grep -q . && got".into(),
            ),
        ];
        let view = "mkdir /m /raw; mount --bind / /m";
        bench.exec(&lab, "a", &["sh", "-c", view]).good();
        let mut found = succeeded(bench, &lab, "a", &ways);
        let view = format!("{view}; mount -t virtiofs root /raw; mount -o remount,rw /raw; true");
        bench.exec(&lab, "b", &["sh", "-c", &view]).good();
        for (name, way) in [
            ("a new file", "echo x > $at/new && got"),
            ("more in a file", "echo x >> $at/public && got"),
            ("a file's removal", "rm -f $at/public && got"),
            ("set-user-ID", "chmod u+s $at/public && got"),
            ("a block device", "mknod $at/disk b 254 0 && got"),
        ] {
            ways.push((name, format!("at=/raw{here}; {way}")));
        }
        found.extend(succeeded(bench, &lab, "b", &ways));
        found.extend(flood(bench, &lab));
        assert_eq!(found, Vec::<String>::new());
        assert_eq!(target.state(), before, "the host's files changed");
    });
}

/// The guests' servers print without end, as they do for guests that make them warn.
fn flood(bench: &Bench, lab: &str) -> Option<String> {
    const PRINTED: usize = 8 << 20;
    let dir = bench.run_dir().join(lab).display().to_string();
    let size = || {
        let said = common::tool(&["du", "-sb", &dir]);
        let bytes = said.split_whitespace().next();
        bytes.unwrap().parse::<usize>().unwrap()
    };
    let (before, mut flooded) = (size(), 0);
    for pid in common::labelled() {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if !["qemu-system-x86\n", "virtiofsd\n"].contains(&name.as_str()) {
            continue;
        }
        let stderr = fs::File::options()
            .write(true)
            .open(format!("/proc/{pid}/fd/2"));
        let warnings = b"a warning\n".repeat(PRINTED / 10);
        stderr.unwrap().write_all(&warnings).unwrap();
        flooded += 1;
    }
    assert!(flooded > 2, "{flooded} servers");
    std::thread::sleep(Duration::from_millis(500));
    let grown = size().saturating_sub(before);
    let is_bounded = grown < PRINTED / 4 * flooded;
    (!is_bounded).then(|| format!("{grown} bytes of logs"))
}
