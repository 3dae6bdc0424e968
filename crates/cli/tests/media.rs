//! A live system on a medium: real machines start from it, by BIOS and by UEFI.

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Bench, enter, fetch, tool, until};

/// Firmware of UEFI, which Debian and Ubuntu have in one package.
const FIRMWARE: &str = "/usr/share/ovmf/OVMF.fd";

const INIT: &str = "#!/bin/sh\necho the medium has its image\nexec sleep 1000000\n";

/// Starts a machine, and waits until its console has both the agent's answer and the image's words.
fn starts_from(bench: &Bench, name: &str, words: &[&str]) {
    let log = bench.root().join(format!("{name}.log"));
    let mut machine = Command::new("qemu-system-x86_64")
        .args(["-machine", "q35,graphics=off,accel=tcg", "-m", "512"])
        .args(["-display", "none", "-nodefaults", "-no-reboot"])
        .args(words)
        .args(["-serial", &format!("file:{}", log.display())])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let said = || String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    until(name, || {
        let ended = machine.try_wait().unwrap();
        assert!(ended.is_none(), "{name}: {ended:?}: {}", said());
        said().contains("the medium has its image")
    });
    machine.kill().unwrap();
    machine.wait().unwrap();
    let said = said();
    let answer = said.lines().find(|line| line.contains("latlab: live - "));
    let answer = answer.unwrap_or_else(|| panic!("{name}: {said}"));
    assert!(
        answer.contains("runs with:") && answer.contains("latlab.live no_timer_check a.b=c"),
        "{answer}"
    );
    assert!(!answer.contains("initrd="), "{answer}");
}

#[test]
fn a_machine_starts_a_live_system_from_a_medium() {
    const NAME: &str = "a_machine_starts_a_live_system_from_a_medium";
    fetch("cloud");
    enter(NAME, |bench| {
        let root = bench.small_root();
        fs::create_dir_all(root.join("sbin")).unwrap();
        fs::write(root.join("sbin/init"), INIT).unwrap();
        tool(&["chmod", "755", root.join("sbin/init").to_str().unwrap()]);
        let root = root.to_str().unwrap();
        let [one, two] = ["one.iso", "two.iso"].map(|name| bench.root().join(name));
        let make = |file: &Path| {
            let file = file.to_str().unwrap();
            let words = [
                // Quickly decompressed, which is half of an emulated start.
                "image",
                root,
                "--iso",
                file,
                "--kernel",
                "cloud",
                // On a busy machine the emulated timer is late, and the kernel would take it for broken.
                "--cmdline",
                "no_timer_check a.b=c",
            ];
            bench.latlab(&words)
        };
        let said = make(&one).good();
        assert!(said.out.contains("one.iso: starts Linux"), "{said:#?}");
        fs::write(&two, "an earlier file").unwrap();
        make(&two).good();
        tool(&["cmp", one.to_str().unwrap(), two.to_str().unwrap()]);
        full_disk(bench, root);
        let listed = fs::read_dir(bench.root()).unwrap().flatten();
        let hidden = listed.filter(|e| e.file_name().to_string_lossy().starts_with('.'));
        assert_eq!(hidden.count(), 0, "work is left");
        fs::remove_file(&two).unwrap();

        let medium = one.to_str().unwrap();
        starts_from(bench, "bios-cd", &["-cdrom", medium]);
        if File::open(FIRMWARE).is_err() {
            println!("UEFI is not tried: there is no {FIRMWARE}");
            return;
        }
        let stick = format!("file={medium},format=raw,if=virtio,readonly=on");
        starts_from(bench, "uefi-stick", &["-bios", FIRMWARE, "-drive", &stick]);
    });
}

/// A live system, or a medium, that does not fit leaves the file that was there.
fn full_disk(bench: &Bench, root: &str) {
    let small = bench.root().join("small");
    fs::create_dir(&small).unwrap();
    let path = small.to_str().unwrap();
    let steps = [
        ("size=16m", "No space left"),
        ("size=30m", "exceeds free space"),
    ];
    for (size, reason) in steps {
        tool(&["mount", "-t", "tmpfs", "-o", size, "latlab-test", path]);
        let file = small.join("live.iso");
        fs::write(&file, "an earlier file").unwrap();
        let words = [
            "image",
            root,
            "--kernel",
            "cloud",
            "--iso",
            file.to_str().unwrap(),
        ];
        bench.latlab(&words).ended_badly(2, reason, "room");
        assert_eq!(fs::read_to_string(&file).unwrap(), "an earlier file");
        assert_eq!(fs::read_dir(&small).unwrap().count(), 1);
        tool(&["umount", path]);
    }
}

#[test]
fn a_medium_that_cannot_be_made_is_told_before_the_work() {
    const NAME: &str = "a_medium_that_cannot_be_made_is_told_before_the_work";
    enter(NAME, |bench| {
        let nowhere = bench.latlab(&["image", "empty", "--iso", "/nowhere/live.iso"]);
        nowhere.refused(2, "cannot write into /nowhere", "check the directory");
        let pipe = bench.root().join("pipe").display().to_string();
        tool(&["mkfifo", &pipe]);
        let device = bench.latlab(&["image", "empty", "--iso", &pipe]);
        device.refused(2, "pipe is no file", "dd if=FILE.iso of=DEVICE");
        tool(&["test", "-p", &pipe]);
        let mut without = bench.command(&["image", "empty", "--iso", "live.iso"]);
        let bare = bench.root().join("bin");
        fs::create_dir(&bare).unwrap();
        without.env("PATH", &bare);
        common::finish(&mut without).refused(
            2,
            "there is no xorriso, of the package xorriso",
            "apt-get install",
        );
    });
}
