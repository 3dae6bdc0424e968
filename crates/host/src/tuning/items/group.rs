//! Control groups that latlab makes for the machine's tuning, never for a lab's nodes.
//!
//! Removing one gives back whatever runs in it to the group above, where its parents came from:
//! processes that were born in it are in no journal.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::ABSENT;
use crate::tuning::root::Root;

/// The value of a group that is there.
pub const PRESENT: &str = "present";

/// A process that forks while it is moved may leave a child behind, one that ends is not moved and still
/// counts, and others may move in: so it is tried again for as long.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Between two sweeps.
const PAUSE: Duration = Duration::from_millis(1);

pub(super) fn read(root: &Root, path: &Path) -> Option<String> {
    Some(if root.has(path) { PRESENT } else { ABSENT }.to_string())
}

pub(super) fn writable(root: &Root, path: &Path) -> io::Result<()> {
    let above = root.path(path.parent().unwrap_or(path));
    let access = rustix::fs::Access::WRITE_OK;
    Ok(rustix::fs::access(&above, access)?)
}

pub(super) fn write(root: &Root, path: &Path, value: &str) -> io::Result<()> {
    let group = root.path(path);
    match value {
        PRESENT => match fs::create_dir(&group) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        },
        _ => remove(&group),
    }
}

fn remove(group: &Path) -> io::Result<()> {
    let above = group.parent().unwrap_or(group);
    // Threads on version 1, processes on version 2, where a thread cannot leave alone.
    let unified = group.join("cgroup.controllers").exists();
    let members = if unified { "cgroup.procs" } else { "tasks" };
    // The kernel takes a removed group apart later; what is restored after it needs its processors now.
    let partition = group.join("cpuset.cpus.partition");
    if partition.exists() {
        fs::write(&partition, "member")?;
    }
    let end = Instant::now() + TIMEOUT;
    loop {
        let ids = fs::read_to_string(group.join(members)).unwrap_or_default();
        let mut stuck = None;
        for id in ids.lines() {
            // One that cannot be moved now may end or move by itself.
            stuck = fs::write(above.join(members), id).err().or(stuck);
        }
        match fs::remove_dir(group) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                thread::sleep(PAUSE);
            }
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => return Err(stuck.unwrap_or(e)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            done => return done,
        }
    }
}
