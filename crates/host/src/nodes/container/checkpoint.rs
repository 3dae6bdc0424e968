//! A container's processes, kept in a directory and started again from it.
//!
//! CRIU dumps the first process with its descendants: memory, registers, open files, sockets, the pid, mount, IPC and
//! host name namespaces. What belongs to the lab stays where it is and is taken up again: the network namespace with its
//! interfaces, neighbours and rules, the writable layer, the cgroup. So a restore starts the same node, not a copy.
//!
//! The root is mounted again from what it was mounted of, in a mount namespace of latlab's own; CRIU makes the
//! container's from it. Restored processes are children of CRIU, which is in the node's cgroup and carries the lab's
//! label: a latlab that is killed on the way leaves nothing that `destroy` does not find.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::drain::{self, Drained};
use super::error::Error;
use super::handle::Container;
use super::mend;
use super::standstill::{self, DUMP_LOG, PID_FILE, RESTORE_LOG};
use super::start::RootMount;
use crate::borrowed::criu::{self, Criu, Dumped, End, Place};
use crate::borrowed::{self, Borrowed, Tool};
use crate::cgroup::NodeCgroup;
use crate::nodes::Stood;
use crate::nodes::mend::{Act, Found};
use crate::nodes::session::After;
use crate::sys::inside;
use crate::sys::netns::NetNs;
use crate::sys::notify::NotifyFilter;
use crate::sys::proc::Stat;
use crate::sys::process::{Process, ProcessId};

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

/// Saves a container in an empty directory that only root enters. Returns the names of its files, and when it stood still
/// if that is known. One that is to end stands still, its network cut off, until [`end`] or `mend::settle`.
pub fn save(
    container: &Container,
    netns: &NetNs,
    tool: &Borrowed,
    into: &Path,
    after: After,
) -> Result<(Vec<String>, Option<Stood>), Error> {
    let init = Process::open(container.process)?.ok_or(Error::Ended)?;
    check_all_below(&container.cgroup, container.process)?;
    if after == After::Ends && !RootMount::read(&container.dir)?.is_lasting {
        let reason = "its writable layer is in memory and would end with it";
        return Err(Error::NotKept(reason.into()));
    }
    let log = container.dir.join(DUMP_LOG);
    let fate = match after {
        After::GoesOn => Dumped::GoOn,
        After::Ends => Dumped::Stand,
    };
    standstill::note_stopped(container)?;
    let drained = Drained::make(container)?;
    let criu = Criu {
        frozen: drained.frozen(),
        end: End::Own(&container.cgroup),
        ..Criu::new(tool, &container.lab_id, netns.as_fd(), into, &log)
    };
    let dumped = criu.dump(&init, fate);
    let stood = drained.go_on().filter(|_| after == After::GoesOn);
    dumped.map_err(|error| {
        // A CRIU that was killed leaves what it did so far.
        let _ = mend::settle(container, netns, Act::Save, Found::Before);
        explain(DUMP, error, &log)
    })?;
    let images = allow_held_calls(into).and_then(|()| only_for_root(into));
    let files = images.inspect_err(|_| {
        // The container may stand still, cut off.
        let _ = mend::settle(container, netns, Act::Save, Found::Before);
    })?;
    Ok((files, stood))
}

/// Sets the modes of the images; their names.
fn only_for_root(images: &Path) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    let entries = fs::read_dir(images).map_err(Error::io("list", images))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let only_root = fs::set_permissions(&path, Permissions::from_mode(0o600));
        only_root.map_err(Error::io("set the mode of", &path))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Has the filters in these images hold no calls. A listener cannot be restored, and without one a held call fails.
pub(super) fn allow_held_calls(images: &Path) -> Result<(), Error> {
    let path = images.join("seccomp.img");
    let mut bytes = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(Error::io("read", &path))?,
    };
    let filter = NotifyFilter::default();
    let (held, allowed) = (filter.bytes(), filter.bytes_without_listener());
    let mut places = Vec::new();
    let mut start = 0;
    while let Some(place) = find(&bytes[start..], &held) {
        places.push(start + place);
        start += place + held.len();
    }
    if places.is_empty() {
        return Ok(());
    }
    for place in places {
        bytes[place..place + held.len()].copy_from_slice(&allowed);
    }
    fs::write(&path, bytes).map_err(Error::io("write", &path))
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Ends a container that was saved and stands still.
pub fn end(container: &Container) -> Result<(), Error> {
    if let Some(init) = Process::open(container.process)? {
        standstill::end(&init)?;
    }
    standstill::forget_stopped(&container.dir);
    Ok(())
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
    let log = dir.join(RESTORE_LOG);
    let criu = Criu {
        end: End::Own(cgroup),
        ..Criu::new(tool, lab_id, netns.as_fd(), from, &log)
    };
    let process = inside::with_own_mounts(&dir.join("host"), || {
        let place = Place {
            root: &root.mount(dir)?,
            cgroup: &entry,
        };
        let restored = criu.restore(Some(place), &dir.join(PID_FILE));
        restored.map_err(|error| explain(RESTORE, error, &log))
    })?;
    // Listening sockets were dumped as they stood then.
    drain::release(cgroup);
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
    /// Processes end, and others become parents, while they are looked at.
    const LOOKS: usize = 5;
    let mut last = None;
    for _ in 0..LOOKS {
        let all = cgroup.pids()?;
        let below = standstill::below(&all, first.pid);
        let others = all.iter().filter(|pid| !below.contains(pid));
        last = others.filter_map(|pid| Some((*pid, name(*pid)?))).next();
        if last.is_none() {
            return Ok(());
        }
    }
    let (pid, name) = last.unwrap_or_default();
    Err(Error::NotKept(format!(
        "its first process did not start process {pid} (`{name}`)"
    )))
}

/// None of a process that has ended.
fn name(pid: u32) -> Option<String> {
    let stat = standstill::stat(pid);
    Stat::parse(&stat).map(|stat| stat.name.to_owned())
}
