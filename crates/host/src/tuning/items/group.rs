//! Cgroups that latlab creates for the machine's tuning, never for a lab's nodes.
//!
//! Removing one moves its processes to the parent cgroup, where their ancestors came from: processes that were
//! forked in it are in no journal.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::value::Value;
use crate::tuning::root::Root;

/// For emptying a cgroup: a process that forks while it is moved may leave a child behind, one that is exiting
/// still counts, and others may move in.
const TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

pub(super) fn read(root: &Root, path: &Path) -> Value {
    if root.has(path) {
        Value::Present
    } else {
        Value::Absent
    }
}

pub(super) fn writable(root: &Root, path: &Path) -> io::Result<()> {
    let above = root.path(path.parent().unwrap_or(path));
    let access = rustix::fs::Access::WRITE_OK;
    Ok(rustix::fs::access(&above, access)?)
}

pub(super) fn write(root: &Root, path: &Path, value: &Value) -> io::Result<()> {
    let group = root.path(path);
    match value {
        Value::Present => match fs::create_dir(&group) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        },
        Value::Absent => remove(&group),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn remove(group: &Path) -> io::Result<()> {
    let above = group.parent().unwrap_or(group);
    // Threads on version 1, processes on version 2, where a single thread cannot leave.
    let unified = group.join("cgroup.controllers").exists();
    let members = if unified { "cgroup.procs" } else { "tasks" };
    // The kernel frees a removed cgroup's CPUs later; the restores after it need them now.
    let partition = group.join("cpuset.cpus.partition");
    if partition.exists() {
        fs::write(&partition, "member")?;
    }
    let end = Instant::now() + TIMEOUT;
    loop {
        let ids = fs::read_to_string(group.join(members)).unwrap_or_default();
        let mut stuck = None;
        for id in ids.lines() {
            // A process that cannot be moved now may end or move by itself.
            stuck = fs::write(above.join(members), id).err().or(stuck);
        }
        match fs::remove_dir(group) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                thread::sleep(RETRY_INTERVAL);
            }
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => return Err(stuck.unwrap_or(e)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            done => return done,
        }
    }
}
