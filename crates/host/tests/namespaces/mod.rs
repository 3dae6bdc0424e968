//! Runs a program again in namespaces of its own, so that it cannot dirty the machine.

// Each program that includes this module uses a part of it.
#![allow(dead_code)]

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

const INSIDE: &str = "LATLAB_TEST_INSIDE";
const AGENT: &str = "LATLAB_TEST_AGENT";

/// Tests of one program run at the same time.
static COUNTER: AtomicUsize = AtomicUsize::new(0);

/// Runs the test `name` in fresh namespaces.
pub fn enter(name: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("{name} skipped: needs root to make namespaces");
        return;
    }
    let arguments = test_arguments(name);
    let agent = build_agent();
    // The second is where latlab itself looks, for tests that deploy whole labs.
    let env = [(AGENT, agent), ("LATLAB_AGENT", agent)];
    let status = run_inside(arguments.to_vec(), &env).unwrap();
    assert!(status.success(), "inside of the namespaces: {status}");
}

/// The arguments with which a test program runs the test `name` alone.
pub fn test_arguments(name: &str) -> [OsString; 4] {
    [name, "--exact", "--nocapture", "--test-threads=1"].map(OsString::from)
}

/// For a program with an agent: true inside of fresh namespaces; outside it runs the program again there, and
/// then is false.
pub fn reenter(agent: &Path) -> io::Result<bool> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(true);
    }
    let status = run_inside(std::env::args_os().skip(1).collect(), &[(AGENT, agent)])?;
    if status.success() {
        Ok(false)
    } else {
        Err(io::Error::other(status.to_string()))
    }
}

fn run_inside(arguments: Vec<OsString>, env: &[(&str, &Path)]) -> io::Result<ExitStatus> {
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let id = format!("{}-{number}", std::process::id());
    Command::new("unshare")
        .args([
            "--mount",
            "--pid",
            "--net",
            "--ipc",
            "--uts",
            "--fork",
            "--kill-child",
        ])
        .args(["--mount-proc", "--propagation", "private"])
        .arg(std::env::current_exe()?)
        .args(arguments)
        .env(INSIDE, id)
        .envs(env.iter().copied())
        .status()
}

/// A name no other run has: the pid of this one outside of the namespaces, and a number.
pub fn id() -> String {
    std::env::var(INSIDE).expect("called inside of the namespaces")
}

pub fn agent() -> PathBuf {
    PathBuf::from(std::env::var_os(AGENT).expect("called inside of the namespaces"))
}

/// The agent that `LATLAB_AGENT` names, or one built beside this test program, once.
fn build_agent() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(agent) = std::env::var_os("LATLAB_AGENT") {
            return agent.into();
        }
        let this = std::env::current_exe().unwrap();
        // .../target/debug/deps/container-0123: the agent comes to .../target/debug.
        let profile = this.ancestors().nth(2).unwrap().to_owned();
        let mut build = Command::new(env!("CARGO"));
        build.args([
            "build",
            "--quiet",
            "--package",
            "latlab-agent",
            "--target-dir",
        ]);
        build.arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(
            build.status().unwrap().success(),
            "the agent does not build"
        );
        profile.join("latlab-agent")
    })
}

/// Makes a network namespace and pins it at `path`.
pub fn pin_network(path: &Path) {
    std::fs::write(path, "").unwrap();
    let mut pinned = OsString::from("--net=");
    pinned.push(path);
    assert!(
        Command::new("unshare")
            .arg(pinned)
            .arg("true")
            .status()
            .unwrap()
            .success()
    );
}
