//! Dispatchers that hang, wait or die, each in a process of its own: this program started again.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use latlab_model::overlay::{Mode, Yield};
use latlab_overlay::dispatch::{DispatchPolicy, Dispatcher, Input, InputKey, Snapshot};
use latlab_overlay::endpoints::{Counters, Receive};
use latlab_overlay::frames::Batch;
use latlab_overlay::watchdog::{EXIT_CODE, guard_process};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, Signal, kill_process};

const ROLE: &str = "LATLAB_TEST_WATCHDOG";

/// A port that does one thing when it is looked at.
struct Culprit {
    does: fn(),
    descriptor: OwnedFd,
}

impl Receive for Culprit {
    fn receive(&mut self, _: &mut Batch) -> usize {
        (self.does)();
        0
    }

    fn complete(&mut self) {}

    fn wakeup(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    fn arm(&mut self) -> bool {
        false
    }

    fn disarm(&mut self) {}
}

fn spins() {
    loop {
        std::hint::spin_loop();
    }
}

fn waits() {
    std::thread::sleep(Duration::from_secs(1000));
}

fn dies() {
    panic!("on purpose");
}

fn works() {}

/// The work of the processes below; empty when it runs as one test among others.
#[test]
fn a_daemon_with_a_culprit() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    guard_process();
    let policy = DispatchPolicy {
        idle: Yield::Immediate,
        realtime: false,
    };
    let snapshot = Arc::new(Snapshot::default());
    let dispatcher = Dispatcher::start(3, None, policy, snapshot, Arc::default()).unwrap();
    let does = match role.as_str() {
        "spins" => spins,
        "waits" => waits,
        "dies" => dies,
        _ => works as fn(),
    };
    dispatcher.attach(Input {
        key: InputKey(5),
        name: "culprit".into(),
        receive: Box::new(Culprit {
            does,
            descriptor: eventfd(0, EventfdFlags::NONBLOCK).unwrap(),
        }),
        mode: Mode::VmmDriven,
        counters: Arc::new(Counters::default()),
    });
    // Until the other side has seen enough.
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

fn start(role: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_daemon_with_a_culprit", "--nocapture"]);
    // A backtrace takes as long as a hang where the machine is busy.
    command
        .env(ROLE, role)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// How it ended, and what it said.
fn end_of(mut child: Child) -> (Option<i32>, String) {
    let end = Instant::now() + Duration::from_secs(120);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut said = String::new();
    let mut errors = child.stderr.take().unwrap();
    errors.read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code(), said)
}

#[test]
fn a_dispatcher_that_hangs_or_dies_ends_the_process_and_names_the_port() {
    let roles = ["spins", "waits", "dies"].map(|role| (role, start(role)));
    for (role, child) in roles {
        let (code, said) = end_of(child);
        assert_eq!(code, Some(EXIT_CODE), "{role}: {said}");
        let reason = match role {
            "spins" => "error: dispatcher 3 does not come to an end at `culprit`",
            "waits" => "error: dispatcher 3 waits for ever at `culprit`",
            _ => "error: a thread has panicked",
        };
        assert!(said.contains(reason), "{role}: {said}");
        let warned = said.contains("warning: dispatcher 3 takes long at `culprit`");
        assert_eq!(warned, role != "dies", "{role}: {said}");
    }
}

/// A process that was stopped for longer than a hang may last has not hung.
#[test]
fn a_process_that_was_stopped_goes_on() {
    let mut child = start("works");
    std::thread::sleep(Duration::from_millis(300));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    kill_process(pid, Signal::CONT).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(child.try_wait().unwrap(), None);
    child.stdin.take().unwrap().write_all(&[0]).unwrap();
    let (code, said) = end_of(child);
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("warning"), "{said}");
}
