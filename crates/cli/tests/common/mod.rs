//! Shared by the end-to-end tests: the real binary in private namespaces and directories, and a snapshot of what it
//! left there.

// Each program that includes this module uses a part of it.
#![allow(dead_code)]

pub mod criu;
#[path = "../../../host/tests/guests/evidence.rs"]
mod evidence;
pub mod machine;
#[path = "../../../host/tests/namespaces/mod.rs"]
pub mod namespaces;
pub mod programs;
pub mod python;
pub mod storage;
pub mod streams;
pub mod study;
pub mod world;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Nothing here takes longer, however slow the machine.
pub const TIMEOUT: Duration = Duration::from_secs(180);

/// All of it, VMs included; a quick choice otherwise.
pub fn whole() -> bool {
    std::env::var("LATLAB_TEST_WHOLE").is_ok_and(|v| v == "yes" || v == "1")
}

/// All of these cases, or every third of them in a quick choice.
pub fn some_of<T: Copy>(cases: &[T]) -> Vec<T> {
    cases
        .iter()
        .copied()
        .step_by(if whole() { 1 } else { 3 })
        .collect()
}

/// Tests that boot guests are to run.
pub fn guests() -> bool {
    std::env::var("LATLAB_TEST_GUEST").is_ok_and(|v| v == "1")
}

/// The kinds of nodes to test with.
pub fn kinds() -> &'static [&'static str] {
    match whole() {
        true => &["native", "container", "vm"],
        false => &["native", "container"],
    }
}

/// Runs a test that always boots VMs, as [`enter`] does. What they need from the network is fetched before: inside there
/// is none.
pub fn enter_with_vms(name: &str, body: impl FnOnce(&Bench)) {
    let outside = std::env::var_os("LATLAB_TEST_INSIDE").is_none();
    if outside && rustix::process::geteuid().is_root() {
        static FETCHED: OnceLock<()> = OnceLock::new();
        FETCHED.get_or_init(fetch_kernel);
    }
    enter_namespaces(name, body);
}

/// Runs a test as root of namespaces of its own. In a whole run and in one of guests it may boot VMs.
pub fn enter(name: &str, body: impl FnOnce(&Bench)) {
    if whole() || guests() {
        enter_with_vms(name, body);
    } else {
        enter_namespaces(name, body);
    }
}

fn enter_namespaces(name: &str, body: impl FnOnce(&Bench)) {
    namespaces::enter(name, || {
        let bench = Bench::new();
        body(&bench);
        bench.end();
    });
}

/// Fetches a kernel of the distribution's into the cache, before a test goes where there is no network.
pub fn fetch(kernel: &str) {
    if std::env::var_os("LATLAB_TEST_INSIDE").is_none() && rustix::process::geteuid().is_root() {
        let cache = Path::new("/var/cache/latlab/kernels");
        latlab_host::nodes::vm::kernel::resolve(kernel, cache, &mut |_| {}).unwrap();
    }
}

fn fetch_kernel() {
    let lab = std::env::temp_dir().join(format!("latlab-fetch-{}.yaml", std::process::id()));
    fs::write(&lab, "name: fetch\ntopology: {nodes: {a: {kind: vm}}}\n").unwrap();
    let mut plan = Command::new(env!("CARGO_BIN_EXE_latlab"));
    let planned = plan
        .args(["deploy", "--dry-run"])
        .arg(&lab)
        .output()
        .unwrap();
    assert!(planned.status.success(), "{}", text(&planned.stderr));
    fs::remove_file(lab).unwrap();
}

/// The output and status of a command.
#[derive(Debug)]
pub struct Said {
    /// Exit status; 128 and the signal's number if a signal ended it.
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    fn of(output: &Output) -> Said {
        use std::os::unix::process::ExitStatusExt;
        let status = output.status;
        Said {
            code: status.code().unwrap_or(128 + status.signal().unwrap_or(0)),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// The command was killed after a timeout, or its node sent nothing.
    fn is_without_answer(&self) -> bool {
        self.code == 128 + 9 || self.err.contains("did not answer")
    }

    /// Asserts success.
    #[track_caller]
    pub fn good(self) -> Said {
        assert_eq!(self.code, 0, "{self:#?}");
        self
    }

    /// Asserts failure with this status, one line that contains `what`, and one hint line that contains `hint`.
    #[track_caller]
    pub fn refused(&self, code: i32, what: &str, hint: &str) {
        assert_eq!(
            self.err.lines().count(),
            2,
            "not one line and one hint: {self:#?}"
        );
        self.ended_badly(code, what, hint);
    }

    /// As [`Said::refused`], at the end of what it said of its work.
    #[track_caller]
    pub fn ended_badly(&self, code: i32, what: &str, hint: &str) {
        let lines: Vec<&str> = self.err.lines().collect();
        assert_eq!(self.code, code, "{self:#?}");
        let [.., first, second] = lines[..] else {
            panic!("no line and hint: {self:#?}");
        };
        assert!(
            first.starts_with("latlab: ") && first.contains(what),
            "{what}: {self:#?}"
        );
        assert!(
            second.starts_with("  hint: ") && second.contains(hint),
            "{hint}: {self:#?}"
        );
        println!("    {first}\n    {second}");
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// latlab with directories of its own, and the machine as it was before.
pub struct Bench {
    root: PathBuf,
    before: RefCell<world::World>,
}

impl Bench {
    fn new() -> Bench {
        let root = PathBuf::from(format!("/tmp/latlab-cli-{}", namespaces::id()));
        fs::create_dir_all(&root).unwrap();
        // In memory, and of this mount namespace: should the test be killed, only an empty directory stays.
        tool(&[
            "mount",
            "-t",
            "tmpfs",
            "-o",
            "mode=755,size=2g",
            "latlab-test",
            root.to_str().unwrap(),
        ]);
        fs::create_dir(root.join("files")).unwrap();
        world::reap();
        Bench {
            before: RefCell::new(world::World::now(&root)),
            root,
        }
    }

    /// Nothing of latlab's may be left by any test.
    fn end(&self) {
        let destroyed = self.latlab(&["destroy", "--all", "-y"]);
        assert_eq!(destroyed.code, 0, "{destroyed:#?}");
        self.assert_clean();
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn run_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    pub fn labs(&self) -> PathBuf {
        self.root.join("state/labs")
    }

    /// A lab's name that is unique on the machine, whose cgroups all tests share.
    pub fn name(&self, lab: &str) -> String {
        format!("t{}-{lab}", namespaces::id())
    }

    /// Writes a file; `NAME` in it becomes the lab's name.
    pub fn file(&self, lab: &str, content: &str) -> String {
        let path = self.root.join(format!("files/{lab}.yaml"));
        fs::write(&path, content.replace("NAME", &self.name(lab))).unwrap();
        path.display().to_string()
    }

    /// A directory to be an image: busybox, by the names that tests call.
    pub fn small_root(&self) -> PathBuf {
        let root = self.root.join("rootfs");
        for directory in ["bin", "etc"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
        for name in [
            "sh", "cat", "cmp", "cp", "date", "echo", "head", "od", "ping", "sleep", "tail",
        ] {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).unwrap();
        }
        root
    }

    /// The binary with this bench's directories, not started yet.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latlab"));
        command
            .args(args)
            .current_dir(self.root.join("files"))
            .env("LATLAB_STATE_DIR", self.root.join("state"))
            .env("LATLAB_RUN_DIR", self.run_dir())
            .env("NO_COLOR", "1")
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub fn latlab(&self, args: &[&str]) -> Said {
        finish(&mut self.command(args))
    }

    /// Deploys what `content` describes; returns the lab's name.
    #[track_caller]
    pub fn deploy(&self, lab: &str, content: &str) -> String {
        self.latlab(&["deploy", &self.file(lab, content)]).good();
        self.name(lab)
    }

    /// Runs a command in a node; says what a guest was doing that did not answer.
    pub fn exec(&self, lab: &str, node: &str, command: &[&str]) -> Said {
        let mut args = vec!["exec", lab, node, "--"];
        args.extend(command);
        let said = self.latlab(&args);
        let files = self.run_dir().join(lab).join("nodes").join(node);
        if said.is_without_answer() && evidence::is_guest(&files) {
            eprintln!(
                "{command:?} does not end; the guest:\n{}",
                evidence::of(&files)
            );
        }
        said
    }

    /// From now on, everything present now is foreign and must stay.
    pub fn take_as_given(&self) {
        world::reap();
        *self.before.borrow_mut() = world::World::now(&self.root);
    }

    /// Fails if anything of latlab's is left on the machine, or anything of others' is not.
    #[track_caller]
    pub fn assert_clean(&self) {
        world::reap();
        let now = world::World::now(&self.root);
        let mut left = now.beyond(&self.before.borrow());
        for place in [self.labs(), self.run_dir()] {
            let entries = fs::read_dir(place).into_iter().flatten().flatten();
            left.extend(entries.map(|e| format!("file {}", e.path().display())));
        }
        assert!(left.is_empty(), "left behind: {left:#?}");
        let gone = self.before.borrow().beyond(&now);
        assert!(gone.is_empty(), "others' things are gone: {gone:#?}");
    }
}

/// A test that failed leaves its labs to the end of its namespaces. What a lab tuned is the machine's,
/// not theirs, and its journal goes with them: so it is given back first. The directory goes however a test ends.
impl Drop for Bench {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        if failed {
            for words in [&["destroy", "--all", "-y"][..], &["tune", "revert"]] {
                let said = self.latlab(words);
                eprintln!("{words:?} after a failure: {said:#?}");
            }
        }
        let unmounted = Command::new("umount").arg("-l").arg(&self.root).status();
        let removed = unmounted.and_then(|_| fs::remove_dir(&self.root));
        assert!(
            removed.is_ok() || failed,
            "{}: {removed:?}",
            self.root.display()
        );
    }
}

/// Runs a command to its end, which must come.
pub fn finish(command: &mut Command) -> Said {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    finished(child)
}

/// Waits for the end of a command on pipes, which must come.
pub fn finished(child: Child) -> Said {
    let pid = child.id();
    let (done, waiting) = mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        // Seconds in which the machine stands still are not the command's.
        let second = Duration::from_secs(1);
        let late = RecvTimeoutError::Timeout;
        if (0..TIMEOUT.as_secs()).all(|_| waiting.recv_timeout(second) == Err(late)) {
            // One that ends in this moment says itself what kept it.
            let mut kill = Command::new("kill");
            kill.args(["-KILL", &pid.to_string()]).status().unwrap();
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    watch.join().unwrap();
    Said::of(&output)
}

/// Kills a command of latlab's after `moment`; true if it was still running.
pub fn kill_after(mut child: Child, moment: Duration) -> bool {
    std::thread::sleep(moment);
    let running = child.try_wait().unwrap().is_none();
    if running {
        child.kill().unwrap();
    }
    child.wait().unwrap();
    running
}

/// Sends a signal to a process that is a child of this one and not collected yet.
pub fn signal(pid: u32, name: &str) {
    tool(&["kill", &format!("-{name}"), &pid.to_string()]);
}

/// Runs a tool that must succeed.
#[track_caller]
pub fn tool(argv: &[&str]) -> String {
    let output = Command::new(argv[0]).args(&argv[1..]).output().unwrap();
    assert!(
        output.status.success(),
        "{argv:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < TIMEOUT, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processes whose environment carries a label.
pub fn labelled() -> BTreeSet<u32> {
    world::processes()
        .into_iter()
        .filter(|pid| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ
                .split(|b| *b == 0)
                .any(|v| v.starts_with(b"LATLAB_LAB="))
        })
        .collect()
}
