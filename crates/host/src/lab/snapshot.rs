//! Saved nodes: a node's whole state in a directory, and the same node going on from there.
//!
//! A directory that does not match is refused before anything is changed.

use std::cell::Cell;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use latlab_model::kinds::NodeKind;
use latlab_model::plan::{NodePlan, VM_MEMORY};
use latlab_model::snapshot::{SavedAs, Snapshot};
use latlab_model::units::Bytes;

use super::deployed::Lab;
use super::error::{Error, SAVE_IN};
use super::note::Begun;
use super::options::Step;
use super::plain::Plain;
use super::{machine, space, tune};
use crate::borrowed;
use crate::images::Covers;
use crate::links;
use crate::nodes::mend::{Act, Found};
use crate::nodes::saved::{self, Unusable};
use crate::nodes::session::After;
use crate::nodes::{Saved, Start, Stood, driver_of};
use crate::packages::Progress;
use crate::sys;
use crate::sys::file::{make_private, write_atomically};
use crate::sys::tree;

const READ: &str = "restore a node from";

impl Lab {
    /// Saves a node into a directory that is empty or not there yet. It goes on afterwards, or ends there if it is to.
    /// Returns when it stood still, where that is known. Fails when a node of its kind cannot be saved; nothing of
    /// it is left then. A whole snapshot stays, also when the node does not end.
    pub fn snapshot(
        &self,
        node: &str,
        into: &Path,
        ends: bool,
        progress: &dyn Fn(&Step<'_>),
    ) -> Result<Option<Stood>, Error> {
        let (_, plan) = self.node(node)?;
        let _alone = self.claim_alone()?;
        self.check_nothing_begun(node)?;
        space::check_unstored(plan)?;
        if !plan.kind().is_guest() {
            self.check_not_paused(node)?;
        }
        self.borrow_for(plan, progress)?;
        let mut running = self.running(node)?;
        if plan.kind().properties().has_process {
            running.cgroup = Some(self.cgroup(plan)?);
        }
        make_empty(into)?;
        let into = &fs::canonicalize(into).map_err(io_error(SAVE_IN, into))?;
        let after = if ends { After::Ends } else { After::GoesOn };
        let driver = driver_of(&plan.body);
        let failed = |source| self.unusable(node, source);
        let is_whole = Cell::new(false);
        let save = || {
            check_room(plan, into)?;
            let _note = self.begin(node, &Begun::with_snapshot(Act::Save, into))?;
            let plain = self.make_plain(node)?;
            let saved = driver.snapshot(&running, into, after).map_err(failed)?;
            if ends {
                plain.into_iter().for_each(Plain::stay);
            }
            let described = self.describe(plan, &saved, into);
            is_whole.set(described.is_ok());
            if ends {
                // The node stands still. Without a description there would be nothing to restore it from.
                match &described {
                    Ok(()) => driver.end(&running).map_err(failed)?,
                    Err(_) => driver
                        .settle(
                            &running,
                            Act::Save,
                            Found::Before,
                            &running.dir,
                            &running.identity(),
                        )
                        .map_err(failed)?,
                }
            }
            described.map(|()| saved.stood)
        };
        save().inspect_err(|_| {
            // Without its description this is no snapshot, and it may hold a node's memory. With it the snapshot may be all
            // that is left of a node that was to end.
            if !is_whole.get() {
                let _ = tree::remove(into);
            }
        })
    }

    /// Fetches the program that saves, restores and moves a node, where it needs one that is not there yet, and proves it.
    /// Fails where it does not work.
    pub fn prepare_tools(&self, node: &str) -> Result<(), Error> {
        let (_, plan) = self.node(node)?;
        self.borrow_for(plan, &|_| {})?;
        let proven = driver_of(&plan.body).prove(&self.running(node)?);
        proven.map_err(|source| self.unusable(node, source))
    }

    pub(super) fn borrow_for(
        &self,
        node: &NodePlan,
        progress: &dyn Fn(&Step<'_>),
    ) -> Result<(), Error> {
        if let Some(tool) = driver_of(&node.body).borrows() {
            let mut told = |fetched: Progress| progress(&Step::Preparing(&fetched.to_string()));
            borrowed::get(tool, self.dirs.cache(), &mut told)?;
        }
        Ok(())
    }

    fn describe(&self, node: &NodePlan, saved: &Saved, into: &Path) -> Result<(), Error> {
        let files = saved.files.iter().map(|name| saved::describe(into, name));
        let snapshot = Snapshot {
            format: Snapshot::FORMAT.into(),
            lab: self.state.lab.clone(),
            saved_as: SavedAs::of(node, &self.plan().names),
            kind: node.kind(),
            saved: machine::now(),
            machine: saved.machine.clone(),
            files: files.collect::<Result<_, _>>().map_err(unusable(READ))?,
            stopped_ns: saved.stood.map(|stood| stood.lasted().as_nanos() as u64),
        };
        let text = serde_json::to_vec_pretty(&snapshot).expect("a description is plain data");
        Ok(write_atomically(
            &into.join(saved::DESCRIPTION),
            &text,
            0o600,
        )?)
    }

    /// Ends what runs of a node and lets it go on where it was saved. A VM may also go on as a copy of another one of its
    /// lab. Fails before anything is changed when the directory is of a node that it cannot go on from, is damaged, or
    /// was saved on another machine.
    pub fn restore(
        &self,
        node: &str,
        from: &Path,
        progress: &dyn Fn(&Step<'_>),
    ) -> Result<(), Error> {
        let (index, plan) = self.node(node)?;
        let _alone = self.claim_alone()?;
        let before = self.begun(node)?;
        if let Some(begun) = before.as_ref().filter(|begun| begun.act == Act::Move) {
            return Err(self.cut_off(node, begun));
        }
        if !plan.kind().is_guest() {
            self.check_not_paused(node)?;
        }
        let from = &fs::canonicalize(from).map_err(io_error(READ, from))?;
        let saved = saved::read(from).map_err(unusable(READ))?;
        self.check_origin(plan, &saved, from)?;
        self.borrow_for(plan, progress)?;
        let failed = |source| self.unusable(node, source);
        let Some(prepared) = self.prepare_again(plan, progress)? else {
            return Err(refused(
                READ,
                from,
                "it is of a node that has nothing to restore",
            ));
        };
        let run = self.dirs.run(&self.state.lab);
        let start = Start {
            node: self.running(node)?,
            cgroup: &self.cgroup(plan)?,
            place: tune::place(&self.state.plan, plan),
            inside: None,
            covers: &Covers::default(),
            backends: links::backends(&self.state.plan, plan, self.host_of(index), &run),
            huge_pages: None,
        };
        let is_copy = !saved.saved_as.is_same_guest(&start.node.identity());
        let begun = Begun {
            copied: is_copy.then(|| saved.saved_as.clone()),
            ..Begun::with_snapshot(Act::Restore, from)
        };
        let mut note = self.begin(node, &begun)?;
        // Filters are restored without their listener.
        let plain = self.exclude_streams(node)?;
        let restored = prepared.restore(&start, &saved, from).map_err(failed);
        let process = match (restored, &before) {
            (Ok(process), _) => process,
            // Refused: what was cut off before is so still.
            (Err(error), Some(before)) => {
                drop(note);
                let mut again = self.begin(node, before)?;
                return Err(again.stays(error));
            }
            (Err(error), None) => return Err(error),
        };
        plain.into_iter().for_each(Plain::stay);
        if let Some(cut_off) = before.filter(|begun| begun.act == Act::Save) {
            self.drop_partial(&cut_off.directory);
        }
        let noted = self.replace_process(index, process, |_| {});
        // Without it the lab does not know the node's process.
        noted.map_err(|error| note.stays(error))?;
        self.forget_pause(node)
    }

    /// Refuses a snapshot of another node, unless both are VMs.
    fn check_origin(&self, node: &NodePlan, saved: &Snapshot, from: &Path) -> Result<(), Error> {
        let is_same = saved.lab == self.state.lab && saved.saved_as.node == node.name;
        if saved.kind == node.kind() && (is_same || node.kind().is_guest()) {
            return Ok(());
        }
        let (lab, node) = (&saved.lab, &saved.saved_as.node);
        let reason = format!("it holds node `{node}` of lab `{lab}`");
        Err(refused(READ, from, &reason))
    }
}

/// A snapshot that the lab keeps itself, one for each node, until it is dropped or the lab is destroyed.
impl Lab {
    /// Saves a node where the lab keeps it, instead of what was kept of it before. Returns when it stood still.
    pub fn keep(&self, node: &str, progress: &dyn Fn(&Step<'_>)) -> Result<Option<Stood>, Error> {
        self.drop_kept(node)?;
        let into = self.place_to_keep(node)?;
        self.snapshot(node, &into, false, progress)
    }

    /// Lets a node go on where it was kept.
    pub fn go_back(&self, node: &str, progress: &dyn Fn(&Step<'_>)) -> Result<(), Error> {
        self.restore(node, &self.kept(node), progress)
    }

    /// Removes what is kept of a node, if anything.
    pub fn drop_kept(&self, node: &str) -> Result<(), Error> {
        self.node(node)?;
        let path = self.kept(node);
        Ok(tree::remove(&path).map_err(sys::Error::of("remove", path.display()))?)
    }

    /// As [`kept`](Self::kept), in a directory that is there.
    pub(super) fn place_to_keep(&self, name: &str) -> Result<PathBuf, Error> {
        let all = self.dirs.kept(&self.state.lab);
        make_private(&all).map_err(io_error(SAVE_IN, &all))?;
        Ok(self.kept(name))
    }

    fn kept(&self, name: &str) -> PathBuf {
        self.dirs.kept(&self.state.lab).join(name)
    }
}

/// A guest's memory may take as much room as it has.
fn check_room(node: &NodePlan, into: &Path) -> Result<(), Error> {
    if node.kind() != NodeKind::Vm {
        return Ok(());
    }
    let failed = sys::Error::of("look at", into.display());
    let stat = rustix::fs::statvfs(into).map_err(failed)?;
    let free = Bytes(stat.f_bavail.saturating_mul(stat.f_frsize));
    let memory = node.memory.unwrap_or(VM_MEMORY);
    if free < memory {
        let reason = format!("its memory may need {memory}, and {free} are free there");
        return Err(refused(SAVE_IN, into, &reason));
    }
    Ok(())
}

fn make_empty(into: &Path) -> Result<(), Error> {
    match DirBuilder::new().mode(0o700).create(into) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(io_error(SAVE_IN, into)(error));
        }
        Err(_) => saved::check_private(into).map_err(unusable(SAVE_IN))?,
    }
    let mut entries = fs::read_dir(into).map_err(io_error(SAVE_IN, into))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(refused(SAVE_IN, into, "it is not empty")),
    }
}

fn unusable(action: &'static str) -> impl FnOnce(Unusable) -> Error {
    move |Unusable { path, reason }| Error::Snapshot {
        action,
        path,
        reason,
    }
}

fn refused(action: &'static str, path: &Path, reason: &str) -> Error {
    Error::Snapshot {
        action,
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

fn io_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| refused(action, path, &source.to_string())
}
