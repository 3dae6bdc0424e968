//! The end of what a container's kernel has under way with its peers, before it is dumped.
//!
//! CRIU finds connections by their descriptors. One that no program has accepted, or that its program has closed with
//! bytes on their way, has none: it would be missing at the new place, where the kernel answers its peer with a reset. So
//! listening sockets take no new ones, programs accept those that wait, then the container stands still, and bytes of
//! closed connections reach their peers while the network is there.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::error::Error;
use super::handle::Container;
use crate::cgroup::{self, NodeCgroup};
use crate::nodes::stood::{Stood, monotonic_ns};
use crate::sys::process::Process;
use crate::sys::tcp_table::{self, Kernels};
use crate::sys::{sockets, syn_filter};

/// A server that is about to accept does so within this time, and a peer that reads has taken what a socket's buffer holds.
const TIMEOUT: Duration = Duration::from_secs(4);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A container that stands still for a dump. It goes on when this ends.
pub(super) struct Drained<'a> {
    cgroup: &'a NodeCgroup,
    is_frozen: bool,
    /// When it began to stand still.
    stopped_ns: u64,
}

impl Drained<'_> {
    /// Fails with the container as it was.
    pub(super) fn make(container: &Container) -> Result<Drained<'_>, Error> {
        let cgroup = &container.cgroup;
        let mut drained = Drained {
            cgroup,
            is_frozen: false,
            stopped_ns: 0,
        };
        each_socket(cgroup, |socket| {
            // One without the filter may have a connection that CRIU refuses.
            let _ = syn_filter::attach(socket);
        });
        let pid = container.process.pid;
        await_none(
            pid,
            |left| left.incoming,
            "not accepted by its programs yet",
        )?;
        drained.stopped_ns = monotonic_ns();
        match cgroup.freeze() {
            Ok(()) => drained.is_frozen = true,
            // CRIU stops its processes later.
            Err(cgroup::Error::NoFreezer) => return Ok(drained),
            Err(error) => return Err(error.into()),
        }
        let what = "closed by its programs, with bytes to send";
        if tcp_table::has_orphans() {
            await_none(pid, |left| left.closing, what)?;
        }
        Ok(drained)
    }

    /// The directory of the group, where CRIU finds that it is frozen.
    pub(super) fn frozen(&self) -> Option<&Path> {
        self.cgroup.frozen_in().filter(|_| self.is_frozen)
    }

    /// Has listening sockets take new connections again: of a container whose network is cut off, before it is dumped.
    pub(super) fn release_listeners(&self) {
        each_socket(self.cgroup, syn_filter::detach);
    }

    /// Has the container go on after a dump; when it stood still for that, if it could be frozen.
    pub(super) fn go_on(self) -> Option<Stood> {
        let stopped_ns = self.is_frozen.then_some(self.stopped_ns);
        drop(self);
        let running_ns = monotonic_ns();
        stopped_ns.map(|stopped_ns| Stood {
            stopped_ns,
            running_ns,
        })
    }

    /// Ends the freeze after a dump that left the processes stopped; when they began to stand still.
    pub(super) fn end(self) -> Result<u64, Error> {
        self.cgroup.thaw()?;
        let stopped_ns = self.stopped_ns;
        // The processes never run again.
        std::mem::forget(self);
        Ok(stopped_ns)
    }
}

impl Drop for Drained<'_> {
    fn drop(&mut self) {
        release(self.cgroup);
    }
}

/// Has a container go on that was drained, also by a latlab that is no more.
pub(super) fn release(cgroup: &NodeCgroup) {
    each_socket(cgroup, syn_filter::detach);
    let _ = cgroup.thaw();
}

fn each_socket(cgroup: &NodeCgroup, act: impl Fn(BorrowedFd<'_>)) {
    for pid in cgroup.pids().unwrap_or_default() {
        if let Ok(Some(process)) = Process::of_pid(pid) {
            for socket in sockets::of(&process) {
                act(socket.as_fd());
            }
        }
    }
}

fn await_none(pid: u32, of: fn(&Kernels) -> usize, what: &str) -> Result<(), Error> {
    let end = Instant::now() + TIMEOUT;
    loop {
        let left = of(&tcp_table::of_process(pid)?);
        if left == 0 {
            return Ok(());
        }
        if Instant::now() >= end {
            let plural = if left == 1 { "" } else { "s" };
            return Err(Error::Undrained(format!(
                "{left} connection{plural} {what}"
            )));
        }
        sleep(POLL_INTERVAL);
    }
}
