//! A container's processes, kept in a directory and started again from it.
//!
//! CRIU dumps the first process with its descendants: memory, registers, open files, sockets, the pid, mount, IPC and
//! host name namespaces. What belongs to the lab stays where it is and is taken up again: the network namespace with its
//! interfaces, neighbours and rules, the writable layer, the cgroup. So a restore starts the same node, not a copy.
//!
//! The root is mounted again from what it was mounted of, in a mount namespace of latlab's own; CRIU makes the
//! container's from it. Restored processes are children of CRIU, which is in the node's cgroup and carries the lab's
//! label: a latlab that is killed on the way leaves nothing that `destroy` does not find.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::Error;
use super::handle::Container;
use super::start::RootMount;
use crate::borrowed::criu::{self, Criu, Cut, Dumped, Place};
use crate::borrowed::{self, Borrowed, Tool};
use crate::cgroup::NodeCgroup;
use crate::nodes::session::After;
use crate::sys::inside;
use crate::sys::netns::NetNs;
use crate::sys::proc::Stat;
use crate::sys::process::{Process, ProcessId};

/// After a dump the kernel takes the processes apart.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) const DUMP: &str = "dump";
pub(super) const RESTORE: &str = "restore";

/// CRIU, if it is here and works on this machine. Fails with the reason why not.
pub fn proven_criu(agent: &Path, cache: &Path) -> Result<Borrowed, Error> {
    let missing = || Error::Unproven("there is none in PATH or in the cache".into());
    let tool = borrowed::find(Tool::Criu, cache).ok_or_else(missing)?;
    let verdict = borrowed::prove(&tool, agent, cache)?;
    if verdict.works {
        Ok(tool)
    } else {
        Err(Error::Unproven(verdict.reason))
    }
}

/// The image's root directory, which a restore needs as it was.
pub fn image(dir: &Path) -> Result<PathBuf, Error> {
    Ok(RootMount::read(dir)?.image().to_owned())
}

/// Saves a container in an empty directory that only root enters. Returns the names of its files.
pub fn save(
    container: &Container,
    netns: &NetNs,
    tool: &Borrowed,
    into: &Path,
    after: After,
) -> Result<Vec<String>, Error> {
    let init = Process::open(container.process)?.ok_or(Error::Ended)?;
    check_all_below(&container.cgroup, container.process)?;
    if after == After::Ends && !RootMount::read(&container.dir)?.is_lasting {
        let reason = "its writable layer is in memory and would end with it";
        return Err(Error::NotKept(reason.into()));
    }
    let log = container.dir.join("criu-dump.log");
    let criu = Criu {
        tool,
        lab: &container.lab_id,
        netns: netns.as_fd(),
        images: into,
        log: &log,
        cut: Cut::ByCriu,
        taken: &[],
        timeout: criu::TIMEOUT,
    };
    let fate = match after {
        After::GoesOn => Dumped::GoOn,
        After::Ends => Dumped::End,
    };
    let dumped = criu.dump(&init, fate);
    dumped.map_err(|error| explain(DUMP, error, &log))?;
    let mut names = Vec::new();
    let entries = fs::read_dir(into).map_err(Error::io("list", into))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let only_root = fs::set_permissions(&path, Permissions::from_mode(0o600));
        only_root.map_err(Error::io("set the mode of", &path))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    if after == After::Ends {
        init.wait(END_TIMEOUT)?;
        init.collect()?;
    }
    names.sort();
    Ok(names)
}

/// Starts a container whose processes have ended from what was kept of it; its new first process.
pub fn load(
    lab_id: &str,
    dir: &Path,
    netns: &NetNs,
    cgroup: &NodeCgroup,
    tool: &Borrowed,
    from: &Path,
) -> Result<ProcessId, Error> {
    let root = RootMount::read(dir)?;
    let entry = cgroup.entry()?;
    let log = dir.join("criu-restore.log");
    let criu = Criu {
        tool,
        lab: lab_id,
        netns: netns.as_fd(),
        images: from,
        log: &log,
        cut: Cut::ByCriu,
        taken: &[],
        timeout: criu::TIMEOUT,
    };
    let process = inside::with_own_mounts(&dir.join("host"), || {
        let place = Place {
            root: &root.mount(dir)?,
            cgroup: &entry,
        };
        let restored = criu.restore(Some(place), &dir.join("criu-pid"));
        restored.map_err(|error| explain(RESTORE, error, &log))
    })?;
    Ok(process.id())
}

pub(super) fn explain(verb: &'static str, error: criu::Error, log: &Path) -> Error {
    match error {
        criu::Error::Sys(error) => error.into(),
        criu::Error::Refused { reason } => Error::Criu {
            verb,
            reason,
            log: log.to_owned(),
        },
    }
}

/// Processes that the first one did not start would be missing from the images, and end with it.
pub(super) fn check_all_below(cgroup: &NodeCgroup, first: ProcessId) -> Result<(), Error> {
    let all = cgroup.pids()?;
    let mut below = BTreeSet::from([first.pid]);
    // Parents may come after their children.
    loop {
        let is_child = |pid: &&u32| {
            let parent = parent(**pid).filter(|_| !below.contains(pid));
            parent.is_some_and(|parent| below.contains(&parent))
        };
        let children: Vec<u32> = all.iter().filter(is_child).copied().collect();
        if children.is_empty() {
            break;
        }
        below.extend(children);
    }
    match all.iter().find(|pid| !below.contains(pid)) {
        None => Ok(()),
        Some(pid) => Err(Error::NotKept(format!(
            "its first process did not start process {pid} (`{}`)",
            name(*pid)
        ))),
    }
}

fn stat(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default()
}

fn parent(pid: u32) -> Option<u32> {
    /// Its number in proc_pid_stat(5).
    const PPID: usize = 4;
    let parent = Stat::parse(&stat(pid))?.number(PPID)?;
    u32::try_from(parent).ok()
}

/// Whether a process stands still by a signal (proc_pid_stat(5)).
pub(super) fn is_stopped(pid: u32) -> bool {
    let stat = stat(pid);
    let (_, rest) = stat.rsplit_once(')').unwrap_or_default();
    rest.trim_start().starts_with('T')
}

fn name(pid: u32) -> String {
    let stat = stat(pid);
    Stat::parse(&stat).map_or_else(|| "?".to_owned(), |stat| stat.name.to_owned())
}
