//! A container's first process: reports that it runs, starts commands for the host, reaps orphans, and forwards
//! termination signals.
//!
//! The process sleeps unless a child ends or the host asks for something, because it runs on the measured CPUs. It needs
//! no shell and no library of the image, so any directory can be a container's root.
//!
//! Commands that it starts are below it, and only such processes can be kept by a checkpoint: CRIU takes the first process with its
//! descendants. For the same reason it leads a session, and has nothing of the host open.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, wait};

use crate::{os, workload};

/// The descriptor on which the host waits for a byte.
const READY_FD: i32 = 3;

/// The descriptor that the host's seccomp filter for the container is read from, where there is one.
const FILTER_FD: i32 = 4;

/// The hint on a kernel without seccomp.
const WITHOUT: &str = "`security: {seccomp: unconfined}` does without";

/// Interval of the check for remaining processes while ending. Processes started from outside of the container have
/// no parent in it, so their end cannot be waited for.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Runs until SIGTERM; then asks every process of the container to end, and returns when none is
/// left. The kernel ends those that do not, when this process is killed.
pub fn run() -> Result<(), String> {
    // Without a waiting parent, for example when run by hand, there is no descriptor.
    let ready = os::inherited(READY_FD);
    // Nothing of the container runs yet, so nothing runs without the filter. Whatever has that number later is none.
    if let Ok(filter) = os::inherited(FILTER_FD) {
        let read = |mut file: File| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map(|_| bytes)
        };
        read(filter.into())
            .and_then(|bytes| os::install_filter(&bytes))
            .map_err(|e| format!("cannot install the seccomp filter ({WITHOUT}): {e}"))?;
    }
    // Refused to who leads one already.
    let _ = rustix::process::setsid();
    let signals = os::signals(&[libc::SIGCHLD, libc::SIGTERM]);
    let signals = signals.map_err(|e| format!("cannot receive signals: {e}"))?;
    let requests = workload::socket()
        .map_err(|e| format!("cannot make a pair of sockets for the host's requests: {e}"))?;
    if let Ok(ready) = ready {
        // Opened first: once it has reported, the host may mount another /dev.
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.map_err(|e| format!("cannot open /dev/null: {e}"))?;
        rustix::io::write(&ready, b"1").map_err(|e| format!("cannot report to the host: {e}"))?;
        // Its words went to a file of the host's until here.
        os::replace_streams(null.as_fd()).map_err(|e| format!("cannot let go of its log: {e}"))?;
    }
    serve(&signals, &requests)
}

/// Waits for signals and requests until SIGTERM and the end of all others.
fn serve(signals: &OwnedFd, requests: &OwnedFd) -> Result<(), String> {
    let mut ending = false;
    loop {
        let timeout = ending
            .then(|| Timespec::try_from(CHECK_INTERVAL))
            .and_then(Result::ok);
        let waited = [Some(signals), Some(requests).filter(|_| !ending)];
        let waited = waited.into_iter().flatten();
        let mut readable: Vec<_> = waited.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut readable, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(format!("cannot wait for signals: {e}")),
        }
        let asked = readable.get(1).is_some_and(|fd| !fd.revents().is_empty());
        if asked {
            workload::answer(requests);
        }
        if term_received(signals).map_err(|e| format!("cannot read signals: {e}"))? && !ending {
            ending = true;
            os::signal_all(libc::SIGTERM);
        }
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        if ending && !others_run() {
            return Ok(());
        }
    }
}

/// Whether a process other than this one runs. A zombie that its parent outside has yet to reap does not count.
fn others_run() -> bool {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return os::signal_all(0);
    };
    let pids = entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != 1).any(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The state follows the name, which may itself hold parentheses.
        let state = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
    })
}

/// Empties the descriptor; true if SIGTERM was among what it held.
fn term_received(signals: &OwnedFd) -> io::Result<bool> {
    /// `struct signalfd_siginfo` is this long and begins with the signal's number.
    const RECORD_BYTES: usize = 128;
    let mut term = false;
    let mut record = [0; RECORD_BYTES];
    loop {
        match rustix::io::read(signals.as_fd(), &mut record) {
            Ok(RECORD_BYTES) => {
                let number = u32::from_ne_bytes([record[0], record[1], record[2], record[3]]);
                term |= number == libc::SIGTERM as u32;
            }
            Ok(_) | Err(rustix::io::Errno::AGAIN) => return Ok(term),
            Err(e) => return Err(e.into()),
        }
    }
}
