//! A session of a machine's serial console, read on a thread of its own.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use latlab_bmc::Error;
use latlab_model::spec::ManagedHost;

use crate::failure::{Failure, Hint};

/// The tool's own first line.
const BANNER: &[u8] = b"[SOL Session operational";
/// Time in which the tool ends its session.
const END: Duration = Duration::from_secs(3);
pub const POLL: Duration = Duration::from_millis(50);

pub fn create(path: &Path) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    // A console may show what only its administrator is to read.
    options.write(true).create_new(true).mode(0o600);
    options.open(path).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AlreadyExists => "a recording is never overwritten: name a new file",
            _ => "check the path and its permissions",
        };
        Failure::new(format!("cannot create {}: {error}", path.display()), hint)
    })
}

pub fn reason(host: &ManagedHost, said: &str) -> Error {
    let host = host.name.value.clone();
    if said.contains("already active") {
        return Error::Busy { host };
    }
    let line = said.lines().map(str::trim).find(|line| !line.is_empty());
    Error::Refused {
        host,
        action: "go on with the console".into(),
        reason: line.unwrap_or("the session ended").to_owned(),
    }
}

/// A console that is being recorded.
pub struct Session {
    child: Child,
    /// Whether the controller has opened it.
    is_open: Arc<AtomicBool>,
    recorder: thread::JoinHandle<io::Result<u64>>,
    errors: thread::JoinHandle<String>,
}

impl Session {
    /// Starts the tool; the console goes to `to`, as it comes.
    pub fn begin(mut command: Command, to: impl Write + Send + 'static) -> io::Result<Session> {
        command
            // A terminal's Ctrl-C is for latlab alone: the tool's session would not be ended in order.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (Some(stdout), Some(mut stderr)) = (stdout, stderr) else {
            unreachable!("both are pipes");
        };
        let is_open = Arc::new(AtomicBool::new(false));
        let opened = Arc::clone(&is_open);
        let recorder = move || record(BufReader::new(stdout), &opened, to);
        Ok(Session {
            child,
            is_open,
            recorder: thread::spawn(recorder),
            errors: thread::spawn(move || {
                let mut bytes = Vec::new();
                // An error ends what the tool said.
                stderr.read_to_end(&mut bytes).ok();
                String::from_utf8_lossy(&bytes).into_owned()
            }),
        })
    }

    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    pub fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits until it is to end. True: it ended by itself.
    pub fn wait(&mut self, stop: &AtomicBool, end: Option<Instant>) -> io::Result<bool> {
        loop {
            if self.child.try_wait()?.is_some() {
                return Ok(true);
            }
            if stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end) {
                return Ok(false);
            }
            thread::sleep(POLL);
        }
    }

    /// Ends it; how many bytes were recorded, and what the tool said.
    pub fn end(mut self) -> Result<(u64, String), Failure> {
        // The end of its input is the end of its session.
        drop(self.child.stdin.take());
        let end = Instant::now() + END;
        while self.child.try_wait()?.is_none() {
            if Instant::now() >= end {
                self.child.kill()?;
            }
            thread::sleep(POLL);
        }
        let recorded = self.recorder.join().unwrap_or(Ok(0));
        let bytes = recorded.hint("the recording is cut")?;
        Ok((bytes, self.errors.join().unwrap_or_default()))
    }
}

/// Copies the console without the tool's own first line, as it comes.
fn record(mut console: impl BufRead, is_open: &AtomicBool, mut to: impl Write) -> io::Result<u64> {
    let mut bytes = 0;
    let mut line = Vec::new();
    console.read_until(b'\n', &mut line)?;
    if line.starts_with(BANNER) {
        is_open.store(true, Ordering::Relaxed);
    } else {
        to.write_all(&line)?;
        bytes += line.len() as u64;
    }
    loop {
        let piece = match console.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            piece => piece?,
        };
        if piece.is_empty() {
            return Ok(bytes);
        }
        to.write_all(piece)?;
        let length = piece.len();
        bytes += length as u64;
        console.consume(length);
    }
}
