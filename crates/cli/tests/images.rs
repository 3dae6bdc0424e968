//! Images that are made from packages: `latlab image`, and nodes that use them.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Bench, enter, tool, whole, world};

const RECIPE: &str = "debian: bookworm
packages: [ed]
files:
  /etc/motd: {text: \"from a file of latlab's\\n\"}
  /usr/local/bin/told: {from: told}
run:
  - useradd tester
  - echo \"by $(id -un tester)\" > /srv/made
";

/// On a disk, and gone with the test. Images are made where there is a network, nodes are where there is none.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("cache")).unwrap();
        fs::write(dir.join("told"), "#!/bin/sh\ncat /srv/made\n").unwrap();
        tool(&["chmod", "755", &dir.join("told").display().to_string()]);
        Place(dir)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        fs::write(&file, text).unwrap();
        file
    }

    fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    fn image(&self, cache: &Path, file: &Path, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latlab"));
        command
            .arg("image")
            .arg(file)
            .args(more)
            .env("LATLAB_CACHE_DIR", cache)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    fn made(&self, file: &Path, more: &[&str]) -> String {
        let ran = self.image(&self.cache(), file, more).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{said}");
        String::from_utf8(ran.stdout).unwrap()
    }

    /// Makes an image twice, which is the same bytes both times, and has it in the cache then: what the first one said.
    fn made_twice(&self, file: &Path) -> String {
        let [one, two] = ["one.tar", "two.tar"].map(|name| self.0.join(name).display().to_string());
        let first = self.made(file, &["--output", &one]);
        assert!(first.starts_with("made: sha256:"), "{first}");
        assert_eq!(self.made(file, &["--output", &two]), first);
        tool(&["cmp", &one, &two]);
        let third = self.made(file, &[]);
        assert_eq!(third, first.replace("made:", "in the cache:"));
        self.assert_nothing_left(&self.cache(), &listed(&self.cache()));
        first
    }

    /// A description that is refused leaves what was there.
    fn refused(&self, cache: &Path, text: &str, reason: &str) {
        let before = listed(cache);
        let file = self.file("refused.yaml", text);
        let ran = self.image(cache, &file, &[]).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains(reason), "{reason}: {said}");
        assert!(said.contains("\n  hint: "), "{said}");
        self.assert_nothing_left(cache, &before);
    }

    fn assert_nothing_left(&self, cache: &Path, before: &[String]) {
        assert_eq!(listed(cache), before);
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let ours = |line: &&str| line.contains("/.make-") || line.contains("mmdebstrap");
        assert_eq!(mounts.lines().filter(ours).count(), 0, "{mounts}");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Images and works; not the lock, nor which image a description made.
fn listed(cache: &Path) -> Vec<String> {
    let entries = fs::read_dir(cache.join("images"))
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != "recipes").collect();
    names.sort();
    names
}

fn is_inside() -> bool {
    std::env::var_os("LATLAB_TEST_INSIDE").is_some()
}

#[test]
fn nodes_have_the_packages_and_files_of_a_description() {
    const NAME: &str = "nodes_have_the_packages_and_files_of_a_description";
    let place = (!is_inside()).then(|| {
        let place = Place::new("images");
        let file = place.file("tools.yaml", RECIPE);
        place.made_twice(&file);
        assert_eq!(listed(&place.cache()).len(), 1);
        symlink("/var/cache/latlab/kernels", place.cache().join("kernels")).unwrap();
        place
    });
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("images");
    enter(NAME, |bench| is_used(bench, &dir));
    drop(place);
}

fn is_used(bench: &Bench, dir: &Path) {
    let image = dir.join("tools.yaml").display().to_string();
    let text = format!(
        "name: NAME\ntopology:\n  defaults: {{image: {image}}}\n  \
         nodes: {{c: {{kind: container}}, v: {{kind: vm, memory: 256MiB}}}}\n  \
         links: [{{endpoints: [\"c:eth0\", \"v:eth0\"]}}]\n"
    );
    let lab = bench.file("images", &text);
    let mut deploy = bench.command(&["deploy", &lab]);
    deploy.env("LATLAB_CACHE_DIR", dir.join("cache"));
    common::finish(&mut deploy).good();
    let lab = bench.name("images");
    for node in ["c", "v"] {
        let said = bench.exec(
            &lab,
            node,
            &[
                "sh",
                "-c",
                "cat /etc/motd; told; printf 'a\\nedited\\n.\\n,p\\nQ\\n' | ed -s",
            ],
        );
        let said = said.good().out;
        assert_eq!(
            said, "from a file of latlab's\nby tester\nedited\n",
            "{node}"
        );
    }
    bench.latlab(&["destroy", &lab]).good();
    bench.assert_clean();
}

const WITH_KERNEL: &str = "debian: bookworm
packages: [kmod]
kernel: cloud
files: {/usr/local/bin/told: {from: told}}
run: [\"echo by an image > /srv/made\"]
";

#[test]
fn vms_boot_the_kernel_of_their_image() {
    const NAME: &str = "vms_boot_the_kernel_of_their_image";
    let place = (!is_inside()).then(|| {
        let place = Place::new("images-kernel");
        let file = place.file("tools.yaml", WITH_KERNEL);
        let first = place.made_twice(&file);
        for name in ["one.tar", "two.tar"] {
            fs::remove_file(place.0.join(name)).unwrap();
        }

        // A live system has it, too.
        let live = place.0.join("live");
        let said = place.made(&file, &["--live", &live.display().to_string()]);
        let kernel = first.lines().find_map(|line| line.strip_prefix("kernel "));
        let (release, origin) = kernel.unwrap().split_once(' ').unwrap();
        assert!(release.ends_with("-cloud-amd64"), "{first}");
        assert!(
            origin.starts_with(&format!("(linux-image-{release} ")),
            "{first}"
        );
        assert!(
            said.ends_with(&format!("starts Linux {release}\n")),
            "{said}"
        );
        fs::remove_dir_all(live).unwrap();
        fs::write(place.0.join("release"), release).unwrap();
        for name in fs::read_dir("/var/cache/latlab/kernels").unwrap().flatten() {
            let to = place.cache().join("kernels").join(name.file_name());
            let _ = symlink(name.path(), to);
        }
        place
    });
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("images-kernel");
    enter(NAME, |bench| boots(bench, &dir));
    drop(place);
}

/// The lab has the description itself, and the file that it names beside it.
fn boots(bench: &Bench, dir: &Path) {
    let release = fs::read_to_string(dir.join("release")).unwrap();
    let image = WITH_KERNEL.trim_end().replace('\n', ", ");
    let text = format!(
        "name: {}\ntopology:\n  defaults:\n    image: {{{image}}}\n  nodes:\n    c: {{kind: container}}\n    \
         own: {{kind: vm, root: disk, memory: 512MiB}}\n    \
         other: {{kind: vm, root: disk, memory: 512MiB, kernel: standard}}\n  \
         links: [{{type: bridge, endpoints: ['c:eth0', 'own:eth0', 'other:eth0']}}]\n",
        bench.name("kernels")
    );
    let lab = dir.join("lab.yaml").display().to_string();
    fs::write(&lab, text).unwrap();
    let cache = dir.join("cache");
    let latlab = |words: &[&str]| {
        common::finish(bench.command(words).env("LATLAB_CACHE_DIR", &cache)).good()
    };
    latlab(&["deploy", &lab]);
    let name = bench.name("kernels");
    let exec = |node: &str, script: &str| {
        let words = ["sh", "-c", script];
        bench.exec(&name, node, &words).good().out
    };
    for node in ["c", "own", "other"] {
        assert_eq!(exec(node, "told"), "by an image\n", "{node}");
    }
    assert_eq!(exec("own", "uname -r").trim(), release);
    assert!(!exec("other", "uname -r").contains("cloud"));
    // Modules of the image belong to the kernel that runs.
    let loaded = exec("own", "modprobe dummy && grep -c ^dummy /proc/modules");
    assert_eq!(loaded, "1\n");
    let said = latlab(&["cache", "--format", "json"]).out;
    let all: serde_json::Value = serde_json::from_str(&said).unwrap();
    let of = |kind: &str| {
        let all = all.as_array().unwrap().iter();
        all.filter(|e| e["kind"] == kind && e["labs"][0] == name.as_str())
            .count()
    };
    assert_eq!(
        (of("image"), of("disk"), of("initramfs")),
        (1, 2, 2),
        "{said}"
    );
    latlab(&["destroy", &name]);

    let study = format!(
        "name: kernels\nlab: {lab}\nmeasurements: [{{probe: rr, protocol: udp, from: c, to: own, duration: 200ms}}]\n\
         replicates: 1\n"
    );
    let study = bench.file("study", &study);
    let runs = bench.root().join("runs");
    latlab(&["run", &study, "--runs", runs.to_str().unwrap()]);
    let made = fs::read_dir(&runs).unwrap().next().unwrap().unwrap();
    let run = latlab_samples::RunDir::open(made.path()).unwrap();
    let trial = run.read_trial(1).unwrap().unwrap();
    let kernel = trial.starts.iter().find(|start| start.node == "own");
    let kernel = kernel.and_then(|start| start.kernel.clone()).unwrap();
    let named = format!("{release} (linux-image-{release} ");
    assert!(kernel.starts_with(&named), "{kernel}");
    bench.assert_clean();
}

#[test]
fn an_image_that_cannot_be_made_leaves_nothing() {
    let place = Place::new("images-refused");
    let cache = place.cache();
    place.refused(
        &cache,
        "debian: bookworm\npakages: [ed]\n",
        "unknown key `pakages`",
    );
    place.refused(
        &cache,
        "debian: bookworm\nfiles: {/a: {from: nowhere}}\n",
        "nowhere",
    );
    // Nothing listens on port 9 of this machine.
    let nobody = "debian: bookworm\nmirror: http://127.0.0.1:9/debian\n";
    place.refused(&cache, nobody, "Could not connect");
    let unknown = "debian: no-such-release\nmirror: http://deb.debian.org/debian\n";
    place.refused(&cache, unknown, "does not have a Release file");
    let file = place.file("good.yaml", "debian: bookworm\n");
    let nowhere = place.0.join("nowhere/image.tar").display().to_string();
    let refused = place
        .image(&cache, &file, &["--output", &nowhere])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(listed(&cache).is_empty());
    if whole() {
        place.refused(
            &cache,
            "debian: bookworm\npackages: [no-such-package]\n",
            "Unable to locate package",
        );
        place.refused(
            &cache,
            "debian: bookworm\nkernel: linux-image-9.9.9-amd64\n",
            "the package lists have none of linux-image-9.9.9-amd64",
        );
        place.refused(
            &cache,
            "debian: bullseye\nkernel: standard\n",
            "is too old: guests and live systems need Linux 5.12",
        );
        let small = place.0.join("small");
        fs::create_dir(&small).unwrap();
        let small_path = small.display().to_string();
        tool(&[
            "mount",
            "-t",
            "tmpfs",
            "-o",
            "size=40m",
            "latlab-test",
            &small_path,
        ]);
        let full =
            std::panic::catch_unwind(|| place.refused(&small, "debian: bookworm\n", "space"));
        tool(&["umount", &small_path]);
        full.unwrap();
    }
}

/// A killed latlab leaves a directory, which the next one removes, and no process.
#[test]
fn a_killed_making_ends_with_all_that_it_started() {
    let place = Place::new("images-killed");
    let cache = place.cache();
    let file = place.file("tools.yaml", RECIPE);
    let mut making = place
        .image(&cache, &file, &[])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&mut making, "it begins", || {
        listed(&cache).iter().any(|name| name.starts_with(".make-")) && count(&cache) > 0
    });
    making.kill().unwrap();
    making.wait().unwrap();
    let begun = Instant::now();
    while count(&cache) > 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "processes are left"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    place.assert_nothing_left(&cache, &listed(&cache));
    assert_eq!(listed(&cache).len(), 1);
    let nobody = place.file(
        "refused.yaml",
        "debian: bookworm\nmirror: http://127.0.0.1:9/debian\n",
    );
    let ran = place.image(&cache, &nobody, &[]).output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(listed(&cache).is_empty());
}

fn wait_for(making: &mut Child, what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(
            making.try_wait().unwrap().is_none(),
            "it has ended before {what}"
        );
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes of mmdebstrap that work in this cache.
fn count(cache: &Path) -> usize {
    let mark = cache.display().to_string();
    let is_its = |pid: &u32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        command.contains("mmdebstrap") && command.contains(&mark)
    };
    world::processes().iter().filter(|pid| is_its(pid)).count()
}
