//! Saved nodes: a node's whole state in a directory, and the same node going on from there.
//!
//! ```text
//! DIR                   mode 0700
//! DIR/snapshot.json     the description; written last, so a directory without it is none
//! DIR/...               the kind's own files, with the lengths and digests that snapshot.json says
//! ```
//!
//! Such a directory holds whatever the node's memory held, so only root may read it. Whatever does not match is refused
//! before anything is changed.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use latlab_model::kinds::NodeKind;
use latlab_model::plan::{NodePlan, VM_MEMORY};
use latlab_model::snapshot::{SavedFile, Snapshot};
use latlab_model::units::Bytes;
use sha2::{Digest, Sha256};

use super::deployed::Lab;
use super::error::{Error, SAVE_IN};
use super::note::Begun;
use super::options::Step;
use super::{machine, space, tune};
use crate::borrowed;
use crate::images::Covers;
use crate::links;
use crate::nodes::mend::{Act, Found};
use crate::nodes::session::After;
use crate::nodes::{Saved, SavedAt, Start, Stood, driver_of};
use crate::packages::Progress;
use crate::sys::file::write_atomically;
use crate::sys::tree;

const READ: &str = "restore a node from";
pub(super) const DESCRIPTION: &str = "snapshot.json";

impl Lab {
    /// Saves a node into a directory that is empty or not there yet. It goes on afterwards, or ends there if it is to.
    /// Returns when it stood still, where that is known. Fails when a node of its kind cannot be saved; nothing of
    /// it is left then.
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
        let save = || {
            check_room(plan, into)?;
            let _note = self.begin(node, &Begun::with_snapshot(Act::Save, into))?;
            let saved = driver.snapshot(&running, into, after).map_err(failed)?;
            let described = self.describe(plan, &saved, into);
            if ends {
                // The node stands still. Without a description there would be nothing to restore it from.
                match &described {
                    Ok(()) => driver.end(&running).map_err(failed)?,
                    Err(_) => driver
                        .settle(&running, Act::Save, Found::Before, &running.dir, plan)
                        .map_err(failed)?,
                }
            }
            described.map(|()| saved.stood)
        };
        save().inspect_err(|_| {
            // Without its description this is no snapshot, and it may hold a node's memory.
            let _ = tree::remove(into);
        })
    }

    /// Fetches the program that saves, restores and moves a node, where it needs one that is not there yet.
    pub fn fetch_tools(&self, node: &str) -> Result<(), Error> {
        let (_, plan) = self.node(node)?;
        self.borrow_for(plan, &|_| {})
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
        let files = saved.files.iter().map(|name| saved_file(into, name));
        let snapshot = Snapshot {
            format: Snapshot::FORMAT.into(),
            lab: self.state.lab.clone(),
            node: node.name.clone(),
            kind: node.kind(),
            saved: machine::now(),
            machine: saved.machine.clone(),
            files: files.collect::<Result<_, _>>()?,
            stopped_ns: saved.stood.map(|stood| stood.lasted().as_nanos() as u64),
        };
        let text = serde_json::to_vec_pretty(&snapshot).expect("a description is plain data");
        Ok(write_atomically(&into.join(DESCRIPTION), &text, 0o600)?)
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
        let saved = read(from)?;
        let origin = self.saved_node(plan, &saved, from)?;
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
        };
        let begun = Begun {
            copied: (origin.name != node).then(|| origin.name.clone()),
            ..Begun::with_snapshot(Act::Restore, from)
        };
        let note = self.begin(node, &begun)?;
        let process = prepared.restore(
            &start,
            &SavedAt {
                directory: from,
                machine: &saved.machine,
                node: origin,
            },
        );
        let restored = process.map_err(failed);
        let restored = restored
            .and_then(|process| self.replace_process(index, process, |_| {}))
            .and_then(|()| self.forget_pause(node));
        match (restored, before) {
            // Refused: what was cut off before is so still.
            (Err(error), Some(before)) => {
                drop(note);
                let again = self.begin(node, &before)?;
                Err(again.stays(error))
            }
            (restored, _) => restored,
        }
    }

    /// The node of which a snapshot is: the one that is to go on, or for a VM another one of its lab.
    fn saved_node<'a>(
        &'a self,
        node: &'a NodePlan,
        saved: &Snapshot,
        from: &Path,
    ) -> Result<&'a NodePlan, Error> {
        if saved.lab == self.state.lab && saved.kind == node.kind() {
            if saved.node == node.name {
                return Ok(node);
            }
            let other = self.node(&saved.node).ok().map(|(_, plan)| plan);
            if let Some(other) = other.filter(|_| node.kind().is_guest()) {
                return Ok(other);
            }
        }
        let Snapshot { lab, node, .. } = saved;
        let reason = format!("it holds node `{node}` of lab `{lab}`");
        Err(refused(READ, from, &reason))
    }
}

/// A snapshot that the lab keeps itself, one for each node, until it is dropped or the lab is destroyed.
impl Lab {
    /// Saves a node where the lab keeps it, instead of what was kept of it before. Returns when it stood still.
    pub fn keep(&self, node: &str, progress: &dyn Fn(&Step<'_>)) -> Result<Option<Stood>, Error> {
        self.drop_kept(node)?;
        let into = self.kept(node);
        let above = into.parent().unwrap_or(Path::new("/"));
        let made = DirBuilder::new().mode(0o700).recursive(true).create(above);
        made.map_err(io_error(SAVE_IN, above))?;
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
        tree::remove(&path).map_err(|source| Error::Io {
            action: "remove",
            path,
            source,
        })
    }

    pub(super) fn kept(&self, name: &str) -> PathBuf {
        self.dirs.kept(&self.state.lab).join(name)
    }
}

/// Reads a description and compares all that it names with what is there.
fn read(from: &Path) -> Result<Snapshot, Error> {
    check_private(READ, from)?;
    let path = from.join(DESCRIPTION);
    let text = fs::read(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => refused(READ, from, "it holds no saved node, or a part of one"),
        _ => Error::Io {
            action: "read",
            path: path.clone(),
            source,
        },
    })?;
    let damaged = || refused(READ, from, &format!("{DESCRIPTION} is damaged"));
    // Another version may have other fields.
    let json: serde_json::Value = serde_json::from_slice(&text).map_err(|_| damaged())?;
    match json.get("format").and_then(serde_json::Value::as_str) {
        Some(Snapshot::FORMAT) => {}
        Some(other) => return Err(refused(READ, from, &format!("its format is `{other}`"))),
        None => return Err(damaged()),
    }
    let saved: Snapshot = serde_json::from_value(json).map_err(|_| damaged())?;
    for file in &saved.files {
        // A name that leads elsewhere is not one of ours.
        let is_plain = Path::new(&file.name).file_name() == Some(file.name.as_ref());
        let is_there = is_plain && from.join(&file.name).exists();
        if !is_there || saved_file(from, &file.name)? != *file {
            let what = if is_there {
                "not what was saved"
            } else {
                "missing"
            };
            let reason = format!("its file `{}` is {what}", file.name);
            return Err(refused(READ, from, &reason));
        }
    }
    Ok(saved)
}

/// A guest's memory may take as much room as it has.
fn check_room(node: &NodePlan, into: &Path) -> Result<(), Error> {
    if node.kind() != NodeKind::Vm {
        return Ok(());
    }
    let stat = rustix::fs::statvfs(into).map_err(|errno| Error::Io {
        action: "look at",
        path: into.to_path_buf(),
        source: errno.into(),
    })?;
    let free = Bytes(stat.f_bavail.saturating_mul(stat.f_frsize));
    let memory = node.memory.unwrap_or(VM_MEMORY);
    if free < memory {
        let reason = format!("its memory may need {memory}, and {free} are free there");
        return Err(refused(SAVE_IN, into, &reason));
    }
    Ok(())
}

fn saved_file(dir: &Path, name: &str) -> Result<SavedFile, Error> {
    let path = dir.join(name);
    let read = || -> io::Result<SavedFile> {
        let mut file = File::open(&path)?;
        let mut digest = Sha256::new();
        let mut chunk = vec![0; 1 << 20];
        let mut bytes = 0;
        loop {
            match file.read(&mut chunk)? {
                0 => break,
                count => {
                    digest.update(&chunk[..count]);
                    bytes += count as u64;
                }
            }
        }
        let digest = digest.finalize();
        Ok(SavedFile {
            name: name.to_owned(),
            bytes,
            sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    };
    read().map_err(|source| Error::Io {
        action: "read",
        path,
        source,
    })
}

fn make_empty(into: &Path) -> Result<(), Error> {
    match DirBuilder::new().mode(0o700).create(into) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(io_error(SAVE_IN, into)(error));
        }
        Err(_) => check_private(SAVE_IN, into)?,
    }
    let mut entries = fs::read_dir(into).map_err(io_error(SAVE_IN, into))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(refused(SAVE_IN, into, "it is not empty")),
    }
}

/// Memory of a node is to be seen by root only, and what is restored runs with the rights it says.
fn check_private(action: &'static str, path: &Path) -> Result<(), Error> {
    let found = fs::symlink_metadata(path).map_err(io_error(action, path))?;
    if !found.is_dir() {
        return Err(refused(action, path, "it is not a directory"));
    }
    if found.uid() != 0 || found.mode() & 0o077 != 0 {
        let reason = "it is not root's alone (mode 0700)";
        return Err(refused(action, path, reason));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("latlab-saved-{name}-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&dir).unwrap();
        fs::write(dir.join("state"), "memory").unwrap();
        let snapshot = Snapshot {
            format: Snapshot::FORMAT.into(),
            lab: "l".into(),
            node: "n".into(),
            kind: NodeKind::Vm,
            saved: "2026-01-01T00:00:00Z".into(),
            machine: "m".into(),
            files: vec![saved_file(&dir, "state").unwrap()],
            stopped_ns: Some(1),
        };
        let text = serde_json::to_string(&snapshot).unwrap();
        fs::write(dir.join(DESCRIPTION), text).unwrap();
        dir
    }

    #[test]
    fn what_was_changed_since_is_refused() {
        let dir = saved("changed");
        assert_eq!(read(&dir).unwrap().node, "n");
        fs::write(dir.join("state"), "memorz").unwrap();
        let error = read(&dir).unwrap_err().to_string();
        assert!(
            error.ends_with("its file `state` is not what was saved"),
            "{error}"
        );
        fs::write(dir.join("state"), "mem").unwrap();
        assert!(read(&dir).is_err());
        fs::remove_file(dir.join("state")).unwrap();
        assert!(read(&dir).is_err());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn descriptions_of_others_are_refused() {
        let dir = saved("others");
        let text = fs::read_to_string(dir.join(DESCRIPTION)).unwrap();
        for (from, to) in [
            ("latlab.snapshot/1", "latlab.snapshot/9"),
            ("\"state\"", "\"../state\""),
            ("\"files\"", "\"file\""),
        ] {
            fs::write(dir.join(DESCRIPTION), text.replace(from, to)).unwrap();
            assert!(read(&dir).is_err(), "{to}");
        }
        fs::remove_file(dir.join(DESCRIPTION)).unwrap();
        let error = read(&dir).unwrap_err().to_string();
        assert!(error.contains("holds no saved node"), "{error}");
        fs::remove_dir_all(dir).unwrap();
    }
}
