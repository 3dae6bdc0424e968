//! Processes of a container that stand still for a dump: which of them stood still before, how they go on, and how they
//! end.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use super::drain;
use super::error::Error;
use super::handle::Container;
use crate::cgroup::NodeCgroup;
use crate::sys::proc::Stat;
use crate::sys::process::{self, Process};
use crate::sys::tcp_repair;

/// After a dump the kernel takes the processes apart.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(30);
/// Files in the container's directory: processes that stood still by a signal of their own before a dump, and limits
/// that are doubled.
const STOPPED: &str = "stopped";
pub(super) const LIMITS: &str = "limits";
/// The first process that CRIU has restored.
pub(super) const PID_FILE: &str = "criu-pid";
pub(super) const DUMP_LOG: &str = "criu-dump.log";
pub(super) const RESTORE_LOG: &str = "criu-restore.log";

/// Processes that stand still by a signal of their own. A file has them until [`forget_stopped`].
pub(super) fn note_stopped(container: &Container) -> Result<BTreeSet<u32>, Error> {
    let mut all = container.cgroup.pids()?;
    all.retain(|pid| is_stopped(*pid));
    let lines: Vec<String> = all.iter().map(u32::to_string).collect();
    let path = container.dir.join(STOPPED);
    fs::write(&path, lines.join("\n")).map_err(Error::io("write", &path))?;
    Ok(all.into_iter().collect())
}

pub(super) fn forget_stopped(dir: &Path) {
    // One that stays is replaced by the next.
    let _ = fs::remove_file(dir.join(STOPPED));
}

pub(super) fn stopped_before(dir: &Path) -> BTreeSet<u32> {
    let text = fs::read_to_string(dir.join(STOPPED)).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Ends the first process of a container, and with it all others.
pub(super) fn end(first: &Process) -> Result<(), Error> {
    first.signal(Signal::KILL)?;
    if !process::await_kill(first)? {
        let reason = "its processes of before do not end";
        return Err(Error::NotMoved(reason.into()));
    }
    first.collect()?;
    Ok(())
}

/// Ends what CRIU has made of a copy. What stays is ended with the lab.
pub(super) fn end_others(cgroup: &NodeCgroup, sources: &BTreeSet<u32>) {
    let others = cgroup.pids().unwrap_or_default();
    let others = others.into_iter().filter(|pid| !sources.contains(pid));
    let others = others.filter_map(|pid| Process::of_pid(pid).ok().flatten());
    let others: Vec<Process> = others.collect();
    for process in &others {
        let _ = process.signal(Signal::KILL);
    }
    for process in &others {
        let _ = process.wait(END_TIMEOUT);
    }
}

/// Lets a container go on after a dump, also after one that was cut off.
pub(super) fn go_on(cgroup: &NodeCgroup, stopped: &BTreeSet<u32>) {
    for pid in cgroup.pids().unwrap_or_default() {
        let Ok(Some(process)) = Process::of_pid(pid) else {
            continue;
        };
        tcp_repair::leave(&process);
        if !stopped.contains(&pid) {
            let _ = process.signal(Signal::CONT);
        }
    }
    drain::release(cgroup);
}

/// Whether a process stands still by a signal (proc_pid_stat(5)).
pub(super) fn is_stopped(pid: u32) -> bool {
    let stat = stat(pid);
    let (_, rest) = stat.rsplit_once(')').unwrap_or_default();
    rest.trim_start().starts_with('T')
}

/// Those of these processes that descend from the first one, and itself.
pub(super) fn below(all: &[u32], first: u32) -> BTreeSet<u32> {
    let mut below = BTreeSet::from([first]);
    // Parents may come after their children.
    loop {
        let is_child = |pid: &&u32| {
            let parent = parent(**pid).filter(|_| !below.contains(pid));
            parent.is_some_and(|parent| below.contains(&parent))
        };
        let children: Vec<u32> = all.iter().filter(is_child).copied().collect();
        if children.is_empty() {
            return below;
        }
        below.extend(children);
    }
}

pub(super) fn parent(pid: u32) -> Option<u32> {
    /// Its number in proc_pid_stat(5).
    const PPID: usize = 4;
    let parent = Stat::parse(&stat(pid))?.number(PPID)?;
    u32::try_from(parent).ok()
}

pub(super) fn stat(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default()
}
