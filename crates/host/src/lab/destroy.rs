//! Taking a lab down from its journal, whatever state it is in.
//!
//! Every step is idempotent and runs whether or not the ones before it succeeded; what could not be
//! done is collected and said, and the journal stays until all of it is done.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use latlab_netlink::{Handle, delete};

use super::{Error, Lab, TIMEOUT, scripts, tune};
use crate::cgroup::NodeCgroup;
use crate::dirs::Dirs;
use crate::journal::{self, Claim, Journal, Undo};
use crate::links;
use crate::sys::{mount, process};

/// How long processes may take to end by themselves.
const GRACE: Duration = Duration::from_millis(500);
/// How often it is looked for processes that were started while others were ended.
const ROUNDS: usize = 8;

/// A lab that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// Teardown scripts that failed, one line each. They do not keep a lab from going.
    pub warnings: Vec<String>,
}

/// Removes a lab by name; `None` when there is none.
///
/// # Errors
/// What could not be removed; running it again tries again.
pub fn destroy(dirs: &Dirs, name: &str) -> Result<Option<Removed>, Error> {
    let Some(claim) = Claim::existing(dirs, name, true, TIMEOUT)? else {
        return Ok(None);
    };
    claimed(dirs, name, claim).map(Some)
}

/// Removes a lab that is claimed.
fn claimed(dirs: &Dirs, name: &str, claim: Claim) -> Result<Removed, Error> {
    let (claim, warnings) = torn_down(dirs, name, claim);
    unmake(dirs, name)?;
    drop(claim);
    Ok(Removed { warnings })
}

/// Runs the teardown scripts of a lab that is up; one that is not has nothing to run them in.
fn torn_down(dirs: &Dirs, name: &str, claim: Claim) -> (Option<Claim>, Vec<String>) {
    let Ok(mut lab) = Lab::open(dirs, name) else {
        return (Some(claim), Vec::new());
    };
    lab.claim = Some(claim);
    let warnings = scripts::teardown(&lab);
    // With the rest of it go the connections to guests that are about to go too.
    (lab.claim.take(), warnings)
}

impl Lab {
    /// Removes it. If somebody else did meanwhile, that is as good.
    ///
    /// # Errors
    /// As [`destroy`].
    pub fn destroy(self) -> Result<(), Error> {
        let (dirs, name, id) = (
            self.dirs.clone(),
            self.state.lab.clone(),
            self.state.id.clone(),
        );
        drop(self);
        let claim = Claim::existing(&dirs, &name, true, TIMEOUT)?;
        match claim.filter(|_| Journal::id(&dirs, &name) == Some(id)) {
            Some(claim) => claimed(&dirs, &name, claim).map(drop),
            None => Ok(()),
        }
    }
}

/// Undoes what a lab's journal lists; the caller has claimed it.
pub(super) fn unmake(dirs: &Dirs, name: &str) -> Result<(), Error> {
    let Some(journal) = Journal::read(dirs, name)? else {
        // The name was claimed and nothing made.
        return Ok(Journal::forget(dirs, name)?);
    };
    let mut causes = Vec::new();
    for undo in &journal.undo {
        if let Err(cause) = undo_one(undo, &journal.header, dirs) {
            causes.push(cause);
        }
    }
    if causes.is_empty() {
        return Ok(Journal::forget(dirs, name)?);
    }
    Err(Error::Remains {
        lab: name.to_string(),
        causes,
    })
}

fn undo_one(undo: &Undo, header: &journal::Header, dirs: &Dirs) -> Result<(), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    match undo {
        Undo::Processes => stop_processes(&header.id),
        Undo::Cgroup { dirs } => {
            let group = NodeCgroup::from_dirs(dirs.clone()).map_err(|e| text(&e))?;
            group
                .kill_all()
                .and_then(|()| group.remove())
                .map_err(|e| text(&e))
        }
        Undo::Tuning { owner } => tune::revert(dirs, owner),
        Undo::Interface { name } => remove_interface(name, &header.id).map_err(|e| text(&e)),
        Undo::Mounts { below } => match is_ours(below, dirs) {
            true => mount::unmount_below(below).map_err(|e| text(&e)),
            false => Err(format!("{} is not a directory of latlab", below.display())),
        },
        Undo::Directory { path } => match is_ours(path, dirs) {
            true => remove_tree(path).map_err(|e| format!("cannot remove {}: {e}", path.display())),
            false => Err(format!("{} is not a directory of latlab", path.display())),
        },
    }
}

/// Ends every process that carries the label, and those that they start meanwhile.
fn stop_processes(id: &str) -> Result<(), String> {
    let mut left = 0;
    for _ in 0..ROUNDS {
        let ours = process::labelled(id).map_err(|e| e.to_string())?;
        if ours.is_empty() {
            return Ok(());
        }
        left = process::stop(&ours, GRACE)
            .map_err(|e| e.to_string())?
            .len();
        // What is stuck in the kernel will not have ended in the next round either.
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

/// A journal that was tampered with cannot make latlab remove somebody's files.
fn is_ours(path: &Path, dirs: &Dirs) -> bool {
    let plain = path
        .components()
        .all(|c| !matches!(c, std::path::Component::ParentDir));
    plain && path != dirs.run_root() && path.starts_with(dirs.run_root())
}

/// Deletes an interface of the root namespace that carries our alias; any other is somebody's.
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

/// Removes a directory with all it holds, and never through a mount: what is mounted there belongs
/// to somebody.
fn remove_tree(path: &Path) -> io::Result<()> {
    if crate::sys::inside::has_mounts_below(path).map_err(io::Error::other)? {
        return Err(io::Error::other("something is mounted below it"));
    }
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
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
