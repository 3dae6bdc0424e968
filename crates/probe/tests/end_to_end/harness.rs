//! Runs probes as processes, in a network namespace of the test's own where that is possible.
//!
//! As root every test enters a fresh namespace with nothing but a loopback device, which all the
//! processes it starts inherit. Otherwise it uses the machine's loopback; all ports are chosen by
//! the kernel, so nothing collides.

use std::io::Read;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use latlab_wire::samples::{Decoder, Message, Ready, Record, Report, SampleKind};

/// Far beyond what any probe in these tests takes: a test that hangs shall fail, not block.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Enters a fresh network namespace with its loopback up, if this process may.
pub fn isolate() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // SAFETY: a new network namespace for this thread; no file descriptor or memory is unshared.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }
        .expect("root may make a network namespace");
    let status = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    assert!(status.expect("ip runs").success(), "bring the loopback up");
}

/// The output of a probe, and how it ended.
#[derive(Debug, Default)]
pub struct Outcome {
    pub exit_code: Option<i32>,
    pub ready: Option<Ready>,
    pub kind: Option<SampleKind>,
    pub records: Vec<Record>,
    pub report: Option<Report>,
    pub errors: Vec<String>,
    pub stderr: String,
}

impl Outcome {
    /// The report of a probe that ended well.
    pub fn good_report(&self) -> &Report {
        assert_eq!(self.exit_code, Some(0), "{self:#?}");
        assert_eq!(self.errors, Vec::<String>::new());
        self.report.as_ref().expect("a report")
    }

    /// The one error of a probe that did not.
    pub fn error(&self, exit_code: i32) -> &str {
        assert_eq!(self.exit_code, Some(exit_code), "{self:#?}");
        assert_eq!(self.errors.len(), 1, "{self:#?}");
        assert_eq!(
            self.stderr,
            format!("latlab-agent probe: {}\n", self.errors[0])
        );
        &self.errors[0]
    }
}

/// Takes the counters of one probe out of a report.
macro_rules! counters {
    ($report:expr, $variant:ident) => {
        match &$report.counters {
            latlab_wire::samples::Counters::$variant(counters) => counters,
            other => panic!("expected {}, got {other:?}", stringify!($variant)),
        }
    };
}

pub(crate) use counters;

/// A probe under way. Killed, by its process id, if a test ends before it does.
pub struct Probe {
    child: Child,
    /// Pieces of standard output; its end closes the channel.
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<Vec<u8>>,
    decoder: Decoder,
    outcome: Outcome,
}

impl Probe {
    /// Starts a probe. Its standard input stays open until [`finish`](Self::finish).
    pub fn start(args: &[&str]) -> Probe {
        let mut child = Command::new(env!("CARGO_BIN_EXE_probe"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the probe starts");
        let stdout = pieces(child.stdout.take().expect("it was piped"));
        let stderr = pieces(child.stderr.take().expect("it was piped"));
        Probe {
            child,
            stdout,
            stderr,
            decoder: Decoder::new(),
            outcome: Outcome::default(),
        }
    }

    /// Starts a probe that serves, and waits until it does; gives its address too.
    pub fn serve(args: &[&str]) -> (Probe, SocketAddr) {
        let mut probe = Probe::start(args);
        while probe.outcome.ready.is_none() {
            assert!(probe.read(), "{args:?} ended early: {:#?}", probe.outcome);
        }
        let local = probe.outcome.ready.as_ref().and_then(|ready| ready.local);
        (probe, local.expect("a server tells its address"))
    }

    /// Runs a probe from start to end.
    pub fn run(args: &[&str]) -> Outcome {
        Probe::start(args).wait()
    }

    /// Stops or continues the process.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it is our child");
    }

    /// Ends its standard input, then collects what it says.
    pub fn finish(self) -> Outcome {
        self.finish_then(|_| {})
    }

    /// The same, with something done in between.
    pub fn finish_then(mut self, between: impl FnOnce(&Probe)) -> Outcome {
        drop(self.child.stdin.take());
        between(&self);
        self.wait()
    }

    /// Collects what it says until it ends by itself.
    pub fn wait(mut self) -> Outcome {
        while self.read() {}
        self.decoder.finish().expect("whole messages");
        let mut stderr = Vec::new();
        while let Some(piece) = next(&self.stderr) {
            stderr.extend(piece);
        }
        self.outcome.stderr = String::from_utf8(stderr).expect("errors are UTF-8");
        // Both its outputs are closed: it is ending.
        self.outcome.exit_code = self.child.wait().expect("it is our child").code();
        std::mem::take(&mut self.outcome)
    }

    /// Reads a piece of output; false at its end.
    fn read(&mut self) -> bool {
        let Some(piece) = next(&self.stdout) else {
            return false;
        };
        self.decoder.push(&piece);
        while let Some(message) = self.decoder.next_message().expect("good messages") {
            match message {
                Message::Ready(ready) => self.outcome.ready = Some(ready),
                Message::Progress(_) => {}
                Message::Samples(samples) => {
                    self.outcome.kind = Some(samples.kind);
                    self.outcome.records.extend(samples.records);
                }
                Message::Report(report) => self.outcome.report = Some(*report),
                Message::Error(error) => self.outcome.errors.push(error),
            }
        }
        true
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // Either it has ended, or the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads in a thread, so that waiting for a probe that hangs can end.
fn pieces(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The next piece; None at the end.
fn next(pieces: &Receiver<Vec<u8>>) -> Option<Vec<u8>> {
    match pieces.recv_timeout(TIMEOUT) {
        Ok(piece) => Some(piece),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => panic!("the probe says nothing and does not end"),
    }
}
