//! `latlab tune export` on real and described machines; what it writes is read by the tools that it is
//! for, where they are installed: the shell, GRUB's `grub-mkconfig` and `grub-script-check`, and, in a
//! guest that was booted with the exported line, tuned.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::enter_with_vms;

fn model_tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests")
}

fn facts(machine: &str) -> String {
    model_tests()
        .join("facts")
        .join(machine)
        .display()
        .to_string()
}

fn export(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_latlab"))
        .args(["tune", "export"])
        .args(arguments)
        .output()
        .expect("latlab starts")
}

fn said(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A directory that goes with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path =
            std::env::temp_dir().join(format!("latlab-export-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const LINE: &str = "nohz_full=2-15,18-31 rcu_nocbs=2-15,18-31 rcu_nocb_poll irqaffinity=0-1,16-17 nohz=on \
    skew_tick=1 nmi_watchdog=0 nosoftlockup mce=ignore_ce audit=0 idle=poll intel_idle.max_cstate=0 \
    tsc=reliable";

#[test]
fn the_line_is_exact_and_names_the_requested_cpus() {
    let xeon = facts("xeon-e5-2665.json");
    let line = said(&export(&[
        "realtime",
        "--facts",
        &xeon,
        "--cpus",
        "2-15,18-31",
        "--cmdline",
    ]));
    assert_eq!(line.trim_end(), LINE);
    let lab = model_tests().join("places/pool.yaml").display().to_string();
    let line = said(&export(&[
        "isolated",
        "--facts",
        &xeon,
        "--lab",
        &lab,
        "--cmdline",
    ]));
    assert!(line.contains("nohz_full=1-7,9-15,17-23,25-31 "), "{line}");
    assert!(line.contains("irqaffinity=0,8,16,24 "), "{line}");
}

#[test]
fn grub_and_the_shell_accept_the_drop_in() {
    let scratch = Scratch::new("grub");
    let file = scratch.0.join("90-latlab.cfg");
    let path = file.display().to_string();
    let xeon = facts("xeon-e5-2665.json");
    let arguments = [
        "realtime",
        "--facts",
        &xeon,
        "--cpus",
        "2-15,18-31",
        "--grub",
        &path,
    ];
    said(&export(&arguments));
    // As Debian's grub-mkconfig reads it, after /etc/default/grub.
    let script =
        format!("set -e; GRUB_CMDLINE_LINUX=quiet; . {path}; printf %s \"$GRUB_CMDLINE_LINUX\"");
    let read = Command::new("sh")
        .args(["-c", &script])
        .output()
        .expect("a shell");
    assert_eq!(said(&read), format!("quiet {LINE}"));
    // A second export writes the same file; a foreign file is left alone.
    said(&export(&arguments));
    fs::write(&file, "GRUB_TIMEOUT=0\n").expect("a file");
    let refused = export(&arguments);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(
        fs::read_to_string(&file).expect("a file"),
        "GRUB_TIMEOUT=0\n"
    );
    let entry = scratch.0.join("grub.cfg");
    fs::write(
        &entry,
        format!("menuentry 'Debian' {{\n\tlinux /vmlinuz root=/dev/sda1 ro quiet {LINE}\n}}\n"),
    )
    .expect("a file");
    match Command::new("grub-script-check").arg(&entry).output() {
        Ok(checked) => {
            said(&checked);
        }
        Err(error) => eprintln!("grub-script-check (package grub-common) was not asked: {error}"),
    }
}

#[test]
fn an_impossible_export_is_refused_before_any_write() {
    let scratch = Scratch::new("refused");
    let file = scratch.0.join("x.cfg").display().to_string();
    let small = facts("small.json");
    for (arguments, words) in [
        (vec!["isolated", "--cpus", "0-1"], "leaves no CPU"),
        (vec!["isolated", "--cpus", "7"], "cannot be isolated"),
        (vec!["isolated", "--cpus", "x"], "is no list of CPUs"),
        (vec!["isolatd"], "no profile `isolatd`"),
    ] {
        let mut all = arguments.clone();
        all.extend(["--facts", &small, "--grub", &file]);
        let output = export(&all);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(words), "{said}");
    }
    assert!(!Path::new(&file).exists());
}

#[test]
fn a_tuned_profile_has_the_line_and_the_kernels_units() {
    let scratch = Scratch::new("tuned");
    let directory = scratch.0.join("latlab-realtime");
    let path = directory.display().to_string();
    let small = facts("small.json");
    said(&export(&["realtime", "--facts", &small, "--tuned", &path]));
    let text = fs::read_to_string(directory.join("tuned.conf")).expect("a file");
    assert!(
        text.contains("\n[bootloader]\ncmdline_latlab=nohz_full=1 rcu_nocbs=1 "),
        "{text}"
    );
    assert!(text.contains("kernel.sched_rt_runtime_us=-1"), "{text}");
}

/// A whole GRUB configuration, made by Debian's own generator from the drop-in, in a mount namespace
/// with a /boot and an /etc/default of its own.
const MAKE: &str = r#"
set -e
mount --make-rprivate /
mount --bind "$1/boot" /boot
mount -t tmpfs none /etc/default
mkdir /etc/default/grub.d
echo GRUB_CMDLINE_LINUX_DEFAULT=quiet > /etc/default/grub
cp "$1/90-latlab.cfg" /etc/default/grub.d/
grub-mkconfig -o /boot/grub/grub.cfg
grub-script-check /boot/grub/grub.cfg
"#;

#[test]
fn grub_boots_with_the_exported_line() {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("latlab-grub");
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir_all(scratch.join("boot/grub")).expect("a directory");
    let probe = Command::new("grub-probe")
        .arg("--target=device")
        .arg(&scratch)
        .output();
    let probed = probe.is_ok_and(|p| p.status.success());
    if !probed || !rustix::process::geteuid().is_root() {
        eprintln!(
            "grub-mkconfig was not asked: it needs grub-common, root, and a disk that it knows"
        );
        return;
    }
    fs::write(scratch.join("boot/vmlinuz-6.1.0-1-amd64"), "x").expect("a file");
    let file = scratch.join("90-latlab.cfg").display().to_string();
    let xeon = facts("xeon-e5-2665.json");
    said(&export(&[
        "realtime",
        "--facts",
        &xeon,
        "--cpus",
        "2-15,18-31",
        "--grub",
        &file,
    ]));
    let made = Command::new("unshare")
        .args(["-m", "sh", "-c", MAKE, "sh"])
        .arg(&scratch)
        .output();
    said(&made.expect("unshare"));
    let text = fs::read_to_string(scratch.join("boot/grub/grub.cfg")).expect("a configuration");
    let lines: Vec<&str> = text
        .lines()
        .filter(|l| l.trim_start().starts_with("linux\t"))
        .collect();
    assert!(!lines.is_empty(), "{text}");
    assert!(lines.iter().all(|l| l.contains(LINE)), "{lines:#?}");
    fs::remove_dir_all(&scratch).expect("removed");
}

/// Starts tuned, and asks it for two profiles: what was exported, and the same with another value.
const TUNED: &str = r#"
set -e
mkdir -p /run/dbus /var/log/tuned
cp -r /mnt/profiles/* /etc/tuned/
dbus-uuidgen --ensure
dbus-daemon --system --fork
# Not the recommended profile first: that only takes time.
echo latlab-isolated > /etc/tuned/active_profile; echo manual > /etc/tuned/profile_mode
tuned -d -l -P
i=0; until tuned-adm active | grep -q latlab; do i=$((i + 1)); [ $i -lt 60 ]; sleep 1; done
tuned-adm profile latlab-isolated
tuned-adm verify
tuned-adm profile latlab-wrong
tuned-adm verify && exit 9
echo the other is refused
"#;

#[test]
fn tuned_finds_the_exported_profile_in_force_in_a_guest_booted_with_its_line() {
    let there = Command::new("tuned-adm").arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: tuned is not installed");
        return;
    }
    enter_with_vms(
        "tuned_finds_the_exported_profile_in_force_in_a_guest_booted_with_its_line",
        |bench| {
            let profiles = bench.root().join("profiles");
            let directory = profiles.join("latlab-isolated");
            let small = facts("small.json");
            let path = directory.display().to_string();
            fs::create_dir(&profiles).expect("a directory");
            said(&export(&["isolated", "--facts", &small, "--tuned", &path]));
            let right = fs::read_to_string(directory.join("tuned.conf")).expect("a file");
            let wrong = right.replace("skew_tick=1", "skew_tick=0");
            assert_ne!(wrong, right);
            fs::create_dir(profiles.join("latlab-wrong")).expect("a directory");
            fs::write(profiles.join("latlab-wrong/tuned.conf"), wrong).expect("a file");
            let line = said(&export(&["isolated", "--facts", &small, "--cmdline"]));
            let lab = format!(
                "name: NAME\ntopology:\n  nodes:\n    a:\n      kind: vm\n      cpus: 2\n      memory: 768MiB\n      \
             boot: \"{}\"\n      binds: [\"{}:/mnt/profiles:ro\"]\n",
                line.trim(),
                profiles.display()
            );
            let lab = bench.deploy("tuned", &lab);
            let done = bench.exec(&lab, "a", &["sh", "-c", TUNED]);
            assert_eq!(done.code, 0, "{done:#?}");
            assert!(
                done.out
                    .contains("current system settings match the preset profile"),
                "{done:#?}"
            );
            assert!(
                done.out.trim_end().ends_with("the other is refused"),
                "{done:#?}"
            );
            bench.latlab(&["destroy", &lab]).good();
        },
    );
}
