//! The journal of a lab, undone.

use std::path::Path;
use std::time::Duration;

use latlab_netlink::{Handle, delete};

use super::error::Error;
use super::huge_pages;
use crate::cgroup::{self, NodeCgroup};
use crate::dirs::Dirs;
use crate::journal::{self, Journal, Undo};
use crate::links;
use crate::sys::{loop_device, mount, proc, process, tree};
use crate::tuning::{self, Root};

/// How long processes may take to end by themselves.
const GRACE: Duration = Duration::from_millis(500);
/// How long disks may take to be free: the kernel writes what they have not got yet.
const RELEASE: Duration = Duration::from_secs(60);
/// How often it is looked for processes that were started while others were ended.
const ROUNDS: usize = 8;

/// Undoes what a lab's journal lists; the caller has claimed it. Returns one line for each interface of the host that
/// is gone.
pub(super) fn unmake(dirs: &Dirs, name: &str) -> Result<Vec<String>, Error> {
    let (mut warnings, mut causes) = (Vec::new(), Vec::new());
    let Some(journal) = Journal::read(dirs, name)? else {
        // The name was claimed and nothing made.
        Journal::forget(dirs, name)?;
        return Ok(warnings);
    };
    let groups = groups_of(&journal, &mut causes);
    thaw(&groups, dirs.paused(name).exists());
    let mut undo_all = |all: &[&Undo]| {
        for undo in all {
            causes.extend(undo_one(undo, &journal.header, dirs, &mut warnings).err());
        }
    };
    // Groups first of what is listed after the processes, and tuning after them: only an empty partition can be removed.
    // Huge pages come last: by then nothing of the lab has any, and the pools are as tuning left them.
    let is_group = |undo: &Undo| matches!(undo, Undo::Cgroup { .. });
    let first = journal.undo.iter().position(is_group);
    let (before, rest) = journal.undo.split_at(first.unwrap_or(journal.undo.len()));
    undo_all(&before.iter().collect::<Vec<_>>());
    let (machine, files): (Vec<&Undo>, Vec<&Undo>) = rest
        .iter()
        .filter(|undo| !is_group(undo))
        .partition(|undo| matches!(undo, Undo::Tuning { .. } | Undo::HugePages));
    // Without a process they are removed beside the files. The kernel takes as long for both.
    let members = groups.iter().filter_map(|group| group.end_members().err());
    let mut left: Vec<String> = members.map(|error| error.to_string()).collect();
    std::thread::scope(|scope| {
        let removal = (!groups.is_empty()).then(|| scope.spawn(|| remove_groups(&groups)));
        undo_all(&files);
        if let Some(removal) = removal {
            let removed = removal.join();
            left.extend(removed.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    undo_all(&machine);
    causes.extend(left);
    if causes.is_empty() {
        Journal::forget(dirs, name)?;
        return Ok(warnings);
    }
    Err(Error::Remains {
        lab: name.to_string(),
        causes,
    })
}

/// The groups of a lab's nodes. One that is not of a node by its path is a cause that the lab remains.
fn groups_of(journal: &Journal, causes: &mut Vec<String>) -> Vec<NodeCgroup> {
    let mut groups = Vec::new();
    for undo in &journal.undo {
        if let Undo::Cgroup { dirs } = undo {
            match NodeCgroup::from_dirs(dirs.clone()) {
                Ok(group) => groups.push(group),
                Err(error) => causes.push(error.to_string()),
            }
        }
    }
    groups
}

/// Lets nodes go on that stand still, also for the time of a snapshot that was cut off: in a freezer of cgroup version 1 not
/// even SIGKILL ends a process. In version 2 it does, so that only those are to go on that are known to be `paused` and
/// may end in peace.
fn thaw(groups: &[NodeCgroup], paused: bool) {
    for group in groups.iter().filter(|g| paused || g.unified().is_none()) {
        // A process that stays is told of when it does not end.
        let _ = group.thaw();
    }
}

/// Removes groups whose processes have ended; why some remain.
fn remove_groups(groups: &[NodeCgroup]) -> Vec<String> {
    let remove = |group: &NodeCgroup| {
        group.remove_own().or_else(|error| {
            group.kill_all()?;
            match error {
                // The last remove waited for the process.
                cgroup::Error::Ending { .. } => Err(error),
                _ => group.remove_own(),
            }
        })
    };
    let failed = groups.iter().filter_map(|group| remove(group).err());
    let failed = failed.map(|error| error.to_string()).collect();
    NodeCgroup::remove_shared(groups);
    failed
}

fn undo_one(
    undo: &Undo,
    header: &journal::Header,
    dirs: &Dirs,
    warnings: &mut Vec<String>,
) -> Result<(), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    match undo {
        Undo::Processes => stop_processes(&header.id),
        // All of them together, beside the files.
        Undo::Cgroup { .. } => Ok(()),
        Undo::Tuning { owner } => revert(dirs, owner),
        Undo::HugePages => huge_pages::give_back(dirs, &header.id).map_err(|e| text(&e)),
        // Cards are then as the host's boot left them.
        Undo::Lent { .. } | Undo::Port { .. } | Undo::Divided { .. }
            if was_booted_since(header) =>
        {
            Ok(())
        }
        Undo::Lent { interface } => {
            let taken = interface.take_back(&dirs.namespaces(&header.lab), &header.id);
            if !taken.map_err(|e| text(&e))? {
                warnings.push(gone(&interface.name, &interface.node));
            }
            Ok(())
        }
        Undo::Port { port } => {
            if !port.give_back().map_err(|e| text(&e))? {
                warnings.push(gone(&port.interface, &port.node));
            }
            Ok(())
        }
        Undo::Divided { card } => card.unite().map_err(|e| text(&e)),
        Undo::Interface { name } => remove_interface(name, &header.id).map_err(|e| text(&e)),
        Undo::Mounts { below } => {
            check_ours(below, dirs).and_then(|()| mount::unmount_below(below).map_err(|e| text(&e)))
        }
        Undo::Storage { path } => remove_storage(path, &header.lab, dirs),
        Undo::Directory { path } => check_ours(path, dirs).and_then(|()| {
            tree::remove(path).map_err(|e| format!("cannot remove {}: {e}", path.display()))
        }),
    }
}

fn gone(interface: &str, node: &str) -> String {
    format!("interface `{interface}` of the host, which node `{node}` had, is gone")
}

fn was_booted_since(header: &journal::Header) -> bool {
    proc::boot_id().is_ok_and(|boot| boot != header.boot_id)
}

/// Removes the storage of a lab. Its loop devices let their images go when the last mount is gone, which was left to
/// the kernel.
fn remove_storage(path: &Path, lab: &str, dirs: &Dirs) -> Result<(), String> {
    if path != dirs.storage(lab) {
        return Err(format!("{} is not a directory of latlab", path.display()));
    }
    let left = loop_device::wait_until_free(path, RELEASE).map_err(|e| e.to_string())?;
    if let Some(device) = left.first() {
        let device = device.file_name().unwrap_or_default().to_string_lossy();
        return Err(format!("a disk of it is in use by {device}"));
    }
    tree::remove(path).map_err(|e| format!("cannot remove {}: {e}", path.display()))
}

/// Ends every process that carries the label, and those that they start meanwhile.
fn stop_processes(id: &str) -> Result<(), String> {
    let mut left = 0;
    let mut search = process::Search::new(id);
    for _ in 0..ROUNDS {
        let ours = search.find().map_err(|e| e.to_string())?;
        if ours.is_empty() {
            return Ok(());
        }
        left = process::stop(&ours, GRACE)
            .map_err(|e| e.to_string())?
            .len();
        // A process stuck in the kernel will not have ended in the next round either.
        if left > 0 {
            break;
        }
    }
    match left {
        0 => Err("its processes start others as fast as they are ended".into()),
        1 => Err("a process of it does not end".into()),
        count => Err(format!("{count} processes of it do not end")),
    }
}

fn check_ours(path: &Path, dirs: &Dirs) -> Result<(), String> {
    if is_ours(path, dirs) {
        return Ok(());
    }
    Err(format!("{} is not a directory of latlab", path.display()))
}

/// A journal that was tampered with cannot make latlab remove files of others.
fn is_ours(path: &Path, dirs: &Dirs) -> bool {
    let plain = path
        .components()
        .all(|c| !matches!(c, std::path::Component::ParentDir));
    plain && path != dirs.run_root() && path.starts_with(dirs.run_root())
}

/// Deletes an interface of the root namespace that carries our alias; any other belongs to others.
fn remove_interface(name: &str, id: &str) -> Result<(), latlab_netlink::Error> {
    let mut handle = Handle::open()?;
    let Some(link) = handle.link(name)? else {
        return Ok(());
    };
    if link.alias.as_deref() != Some(&links::alias(id)) {
        return Ok(());
    }
    match handle.apply(&delete(name)) {
        Err(e) if !e.is_not_found() => Err(e),
        _ => Ok(()),
    }
}

fn revert(dirs: &Dirs, owner: &str) -> Result<(), String> {
    let result = tuning::revert(owner, dirs, &Root::default(), &mut |_, _, _| {});
    let reverted = result.map_err(|e| e.to_string())?;
    // A value that others changed meanwhile is theirs now, and no reason to keep the lab.
    match reverted.failed.first() {
        None => Ok(()),
        Some(problem) => Err(format!("{}: {}", problem.item, problem.reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_below_our_own_are_ours() {
        let dirs = Dirs::below(Path::new("/x"));
        assert!(is_ours(Path::new("/x/run/lab"), &dirs));
        for other in ["/x/run", "/", "/x/run/../../etc", "/etc", "/x/running/lab"] {
            assert!(!is_ours(Path::new(other), &dirs), "{other}");
        }
    }
}
