//! Processes that are stopped while their descriptors are exchanged, and the exchange.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::held::{Held, Session};
use crate::descriptors::Place;
use crate::ledger::Ledger;
use crate::sys::listener::Call;
use crate::sys::tracee::{LATE, Tracee};

/// A held call comes within some 20 µs.
const TIMEOUT: Duration = Duration::from_millis(500);
const INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// The arguments of our own call: no program accepts from no descriptor with flags that do not exist.
const OURS: [u64; 6] = [u64::MAX, 0, 0, 0x1a7_1ab0, 0, 0];

/// Stopped processes, by all their threads, until they are let go.
pub(super) struct Stopped {
    processes: BTreeMap<u32, Vec<Tracee>>,
    /// Threads that did not stop in time, of processes that run.
    stuck: Vec<Tracee>,
    /// Calls of others that came meanwhile.
    pub calls: Vec<Held>,
    ledger: Rc<Ledger>,
}

impl Stopped {
    pub(super) fn new(ledger: Rc<Ledger>) -> Self {
        Self {
            processes: BTreeMap::new(),
            stuck: Vec::new(),
            calls: Vec::new(),
            ledger,
        }
    }

    pub(super) fn has(&self, process: u32) -> bool {
        self.processes.contains_key(&process)
    }

    /// Stops all threads of a process. Errors: another program traces it, a thread does not stop.
    pub(super) fn stop(&mut self, process: u32) -> Result<(), Errno> {
        let mut threads = Vec::new();
        let result = stop_threads(process, &mut threads);
        match result {
            Ok(()) => drop(self.processes.insert(process, threads)),
            Err(_) => self.stuck.extend(released(threads, LATE)),
        }
        result
    }

    /// Lets all go on. Returns the calls of others that came meanwhile, and threads that cannot be let go yet.
    pub(super) fn let_go(mut self) -> (Vec<Held>, Vec<Tracee>) {
        let threads = self.processes.into_values().flatten();
        self.stuck.extend(released(threads, LATE));
        (self.calls, self.stuck)
    }

    /// Puts `file` at the descriptor of a stopped process of a session.
    pub(super) fn replace(
        &mut self,
        place: Place,
        session: &Rc<Session>,
        file: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> Result<(), Errno> {
        let threads = self.processes.get_mut(&place.process);
        let tracee = threads.and_then(|threads| threads.first_mut());
        let tracee = tracee.ok_or(Errno::SRCH)?;
        let thread = tracee.thread();
        let (calls, ledger) = (&mut self.calls, &self.ledger);
        let exchange = || {
            let call = next_call(session, thread, calls, ledger)?;
            let listener = &session.listener;
            let replaced = listener.replace(call.id, file, place.number, close_on_exec);
            listener.answer(call.id, replaced)?;
            replaced
        };
        tracee.call(libc::SYS_accept4, OURS, exchange).map(|_| ())
    }
}

/// Lets threads go on; those that do not stop in this time, and so cannot be let go.
pub(super) fn released(
    threads: impl IntoIterator<Item = Tracee>,
    limit: Duration,
) -> impl Iterator<Item = Tracee> {
    let threads = threads.into_iter();
    threads.filter_map(move |thread| thread.release(limit))
}

/// Stops all threads of a process. After an error, some of these run and some do not.
fn stop_threads(process: u32, threads: &mut Vec<Tracee>) -> Result<(), Errno> {
    let mut seen = BTreeSet::new();
    // A thread that was not stopped yet may have made another one.
    loop {
        let all = threads_of(process).into_iter();
        let new: Vec<u32> = all.filter(|thread| seen.insert(*thread)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let asked = threads.len();
        for thread in new {
            match Tracee::interrupt(thread) {
                Ok(tracee) => threads.push(tracee),
                Err(Errno::SRCH) => {}
                Err(Errno::PERM) if has_ended(process, thread) => {}
                Err(error) => return Err(error),
            }
        }
        let mut result = Ok(());
        for mut tracee in threads.split_off(asked) {
            let stopped = result.and_then(|()| tracee.await_stop());
            if stopped != Err(Errno::SRCH) {
                threads.push(tracee);
                result = stopped;
            }
        }
        result?;
    }
}

/// The call of our own thread. Those of others are kept.
fn next_call(
    session: &Rc<Session>,
    thread: u32,
    others: &mut Vec<Held>,
    ledger: &Rc<Ledger>,
) -> Result<Call, Errno> {
    let end = Instant::now() + TIMEOUT;
    while Instant::now() < end {
        let descriptor = session.listener.descriptor();
        let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        match poll(&mut polled, Some(&INTERVAL)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        let Ok(Some(call)) = session.listener.receive() else {
            continue;
        };
        if call.task == thread && call.arguments == OURS {
            return Ok(call);
        }
        others.push(Held {
            session: session.clone(),
            _entry: ledger.note(session.number, call.id),
            call,
        });
    }
    Err(Errno::TIMEDOUT)
}

fn threads_of(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task"));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Whether a thread runs no more, though it is listed still: no one can trace it.
fn has_ended(process: u32, thread: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat"));
    let stat = stat.unwrap_or_default();
    // The name before the state may have any characters.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_none_or(|state| state.starts_with(['Z', 'X']))
}
