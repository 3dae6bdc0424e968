//! The end of a container.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use super::error::Error;
use crate::cgroup::NodeCgroup;
use crate::sys;
use crate::sys::process::{Process, ProcessId};

/// After SIGKILL a process ends unless it is stuck in the kernel.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// Ends a container: SIGTERM to all its processes, at most `grace` for them to end, then SIGKILL. One that has ended
/// is success. Fails when processes outlive SIGKILL.
pub fn stop(process: ProcessId, cgroup: &NodeCgroup, grace: Duration) -> Result<(), Error> {
    let Some(init) = Process::open(process)? else {
        return Ok(());
    };
    // The agent passes SIGTERM on and ends when it is alone; with it ends the process namespace.
    init.signal(Signal::TERM)?;
    if !init.wait(grace)? {
        init.signal(Signal::KILL)?;
        cgroup.kill_all()?;
        // Killed processes are gone from the group, and hold nothing, before they can be
        // collected. The first process remains until the last command started from
        // outside is collected there, which may be the caller of this; so only without a group
        // is its own end what there is to wait for.
        if cgroup.dirs().is_empty() && !init.wait(KILL_TIMEOUT)? {
            return Err(Error::Stuck(process));
        }
    }
    init.collect()?;
    Ok(())
}

/// Removes what [`start`](super::start()) made, whole or half, running or not: the processes of its cgroup, the group,
/// and the node's directory. What is not there is removed already. Fails when processes or files remain; it can be
/// called again.
pub fn delete(dir: &Path, cgroup: &NodeCgroup) -> Result<(), Error> {
    cgroup.kill_all()?;
    cgroup.remove()?;
    // Our mounts are in a namespace that is gone. If others have mounted something here,
    // removing through it would remove their files.
    if sys::inside::has_mounts_below(dir)? {
        let busy = io::Error::from_raw_os_error(libc::EBUSY);
        return Err(Error::io(
            "remove, because something is mounted below it,",
            dir,
        )(busy));
    }
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(Error::io("remove", dir)),
    }
}
