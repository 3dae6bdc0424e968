//! Runs a test in namespaces of its own, by starting the test program again inside them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const INSIDE: &str = "LATLAB_TEST_INSIDE";
const AGENT: &str = "LATLAB_TEST_AGENT";

/// Runs `body` in fresh mount, process and network namespaces. `name` is the test's own name.
pub fn enter(name: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    assert!(rustix::process::geteuid().is_root(), "this test needs root");
    let status = Command::new("unshare")
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
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, std::process::id().to_string())
        .env(AGENT, build_agent())
        .status()
        .unwrap();
    assert!(status.success(), "inside of the namespaces: {status}");
}

/// A number no other test has: the pid of this run outside of the namespaces.
pub fn id() -> String {
    std::env::var(INSIDE).expect("called inside of the namespaces")
}

/// The agent's binary.
pub fn agent() -> PathBuf {
    PathBuf::from(std::env::var_os(AGENT).expect("called inside of the namespaces"))
}

/// Builds the agent beside this test program, once.
fn build_agent() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
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
    let mut pinned = std::ffi::OsString::from("--net=");
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
