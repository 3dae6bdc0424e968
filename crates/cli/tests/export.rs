//! `latlab tune export` on real and described machines; what it writes is read by the tools that it is
//! for, where they are installed: GRUB's own checker and the shell. (`tests/guest` asks tuned.)

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
fn the_line_is_exact_and_names_the_processors_that_were_asked_for() {
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
    // Written once more it is the same file; somebody else's is left alone.
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
fn what_cannot_be_is_refused_before_anything_is_written() {
    let scratch = Scratch::new("refused");
    let file = scratch.0.join("x.cfg").display().to_string();
    let small = facts("small.json");
    for (arguments, words) in [
        (vec!["isolated", "--cpus", "0-1"], "leaves no processor"),
        (vec!["isolated", "--cpus", "7"], "cannot be isolated"),
        (vec!["isolated", "--cpus", "x"], "is no list of processors"),
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
