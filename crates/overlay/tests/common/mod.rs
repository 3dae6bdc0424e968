//! A small world for tests: namespaces, commands in them, and daemons.
//!
//! Nothing of the machine is touched: the thread of a test leaves the machine's network and mounts
//! before anything is made, and everything that it starts inherits that and ends with it.

// Each test program uses a part of it.
#![allow(dead_code)]

pub mod flow;

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use latlab_overlay::control;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::UnshareFlags;

/// Maximum wait for an event: long, because a busy machine is not a fault.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Where a test lives.
pub struct World {
    directory: PathBuf,
}

/// Runs `body` in a world of its own.
pub fn run(name: &str, body: impl FnOnce(&World) + Send) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("{name} skipped: needs root to make namespaces");
        return;
    }
    let directory = std::env::temp_dir().join(format!("latlab-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let world = World { directory };
    let result = std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            world.leave_the_machine();
            body(&world);
        });
        inside.join()
    });
    // The mount on it went with the thread's mount namespace.
    std::fs::remove_dir(&world.directory).unwrap();
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

impl World {
    fn leave_the_machine(&self) {
        // SAFETY: only this thread gets new namespaces; descriptors stay shared.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWNET) }
            .unwrap();
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private).unwrap();
        let flags = MountFlags::empty();
        rustix::mount::mount("test", &self.directory, "tmpfs", flags, None).unwrap();
        rustix::mount::mount_change(&self.directory, MountPropagationFlags::PRIVATE).unwrap();
    }

    /// A file of this world.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Makes a network namespace, pinned at the file that is returned.
    pub fn namespace(&self, name: &str) -> PathBuf {
        let pin = self.path(name);
        std::fs::write(&pin, "").unwrap();
        let target = pin.clone();
        std::thread::spawn(move || {
            // SAFETY: only this thread gets a new namespace, and it ends here.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
            let own = format!(
                "/proc/self/task/{}/ns/net",
                rustix::thread::gettid().as_raw_nonzero()
            );
            rustix::mount::mount_bind(own, &target).unwrap();
        })
        .join()
        .unwrap();
        self.at(&pin, "ip link set lo up");
        pin
    }

    /// Runs a command line in a namespace; it must succeed.
    pub fn at(&self, namespace: &Path, line: &str) -> String {
        let output = self.try_at(namespace, line);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {text}{errors}");
        text
    }

    /// Runs a command line in a namespace.
    pub fn try_at(&self, namespace: &Path, line: &str) -> Output {
        self.command(namespace, line).output().unwrap()
    }

    /// A command line that is to run in a namespace.
    pub fn command(&self, namespace: &Path, line: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", namespace.display()));
        command.args(line.split_whitespace());
        command
    }

    /// Runs a line of the shell in this world's own namespace; it must succeed.
    pub fn sh(&self, line: &str) -> String {
        let output = Command::new("sh").args(["-c", line]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {text}{errors}");
        text
    }

    /// Starts a daemon in this world's own namespace.
    pub fn daemon(&self, name: &str, config: &str) -> Daemon {
        let (file, socket) = (self.path(&format!("{name}.conf")), self.path(name));
        std::fs::write(&file, config).unwrap();
        Daemon::start(&file, &socket, None)
    }

    /// Starts a daemon in a namespace.
    pub fn daemon_at(&self, namespace: &Path, name: &str, config: &str) -> Daemon {
        let (file, socket) = (self.path(&format!("{name}.conf")), self.path(name));
        std::fs::write(&file, config).unwrap();
        Daemon::start(&file, &socket, Some(namespace))
    }
}

/// A process that ends with its handle.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Running {
        // SAFETY: setting a signal is all that the child does before it becomes the program.
        let command = unsafe {
            command.pre_exec(|| {
                rustix::process::set_parent_process_death_signal(Some(
                    rustix::process::Signal::KILL,
                ))
                .map_err(Into::into)
            })
        };
        Running(command.spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether daemons are to keep all that root may: a sanitizer's runtime makes system calls of its own.
pub fn is_unconfined() -> bool {
    std::env::var_os("LATLAB_TEST_UNCONFINED").is_some()
}

/// A daemon and its control socket.
pub struct Daemon {
    pub process: Running,
    pub socket: PathBuf,
    /// The line that reports it ready.
    pub ready: String,
}

impl Daemon {
    pub fn start(config: &Path, socket: &Path, namespace: Option<&Path>) -> Daemon {
        Daemon::start_with(config, socket, namespace, &[])
    }

    /// With further arguments.
    pub fn start_with(
        config: &Path,
        socket: &Path,
        namespace: Option<&Path>,
        arguments: &[String],
    ) -> Daemon {
        let program = env!("CARGO_BIN_EXE_latlab-overlay");
        let mut command = match namespace {
            Some(namespace) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net={}", namespace.display()));
                command.arg(program);
                command
            }
            None => Command::new(program),
        };
        if is_unconfined() {
            command.arg("--unconfined");
        }
        command.arg("--config").arg(config);
        command.arg("--control").arg(socket).args(arguments);
        let mut process = Running::start(command.stdout(Stdio::piped()));
        let mut ready = String::new();
        let stdout = process.0.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut ready).unwrap();
        assert!(
            ready.starts_with("ready"),
            "the daemon said why on its standard error"
        );
        Daemon {
            process,
            socket: socket.into(),
            ready: ready.trim_end().into(),
        }
    }

    /// A conversation with it.
    pub fn client(&self) -> Client {
        Client(control::Client::connect(&self.socket).unwrap())
    }

    /// Says one line; it must be obeyed.
    pub fn tell(&self, line: &str) -> Vec<String> {
        self.client().say(line).unwrap()
    }

    /// The value of a counter of a port, zero if it is not named.
    pub fn counter(&self, port: &str, name: &str) -> u64 {
        let [value] = self.counters(port, [name]);
        value
    }

    /// Several counters of a port, all of one moment.
    pub fn counters<const N: usize>(&self, port: &str, names: [&str; N]) -> [u64; N] {
        let lines = self.tell("counters");
        let line = lines
            .iter()
            .find(|line| line.split(' ').nth(1) == Some(port));
        let words: Vec<&str> = line.expect("a port of that name").split(' ').collect();
        names.map(|name| {
            let mut pairs = words[2..].chunks_exact(2);
            let found = pairs.find(|pair| pair[0] == name);
            found.map_or(0, |pair| pair[1].parse().unwrap())
        })
    }
}

/// A conversation.
pub struct Client(pub control::Client);

impl Client {
    /// Says a line; returns the lines of the answer, or the error.
    pub fn say(&mut self, line: &str) -> Result<Vec<String>, String> {
        let answer = self.0.say(line).expect("the daemon answers");
        answer.map_err(|refusal| refusal.to_string())
    }
}

/// Waits for a condition.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
