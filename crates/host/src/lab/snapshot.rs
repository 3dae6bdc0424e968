//! A node kept in a directory, and started again from it.
//!
//! ```text
//! DIR                   mode 0700
//! DIR/snapshot.json     what it is of; written last, so a directory without it is none
//! DIR/...               the kind's own files, with the sizes that snapshot.json says
//! ```
//!
//! A snapshot is of one node of one deployment: the node's writable layer, its network and its cgroup stay in the lab
//! and are not in it. Whatever does not match is refused before anything is changed.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::deploy::state_of;
use super::deployed::{CLAIM_TIMEOUT, Lab};
use super::error::{Error, KEEP_IN};
use crate::borrowed;
use crate::journal::{Claim, Journal};
use crate::nodes::session::After;
use crate::nodes::{Node, driver_of};
use crate::packages::Progress;
use crate::sys::file::write_atomically;

const READ: &str = "start a node from";
const DESCRIPTION: &str = "snapshot.json";

/// How a node is kept.
pub struct Keep<'a> {
    /// End it where it was kept.
    pub stop: bool,
    pub progress: &'a mut dyn FnMut(Progress),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    format: String,
    lab: String,
    /// The deployment's identifier.
    id: String,
    node: String,
    kind: String,
    /// `uname -r`.
    kernel: String,
    /// Its needs of the machine and the node, in the kind's words.
    identity: String,
    /// Bytes by name.
    files: BTreeMap<String, u64>,
}

impl Description {
    const FORMAT: &'static str = "latlab.snapshot/1";
}

impl Lab {
    /// Keeps a node in a directory that is empty or not there yet; it goes on unless it is to end. Fails when the lab has
    /// no such node, or its kind cannot be kept.
    pub fn snapshot(&mut self, node: &str, into: &Path, keep: &mut Keep<'_>) -> Result<(), Error> {
        self.check_goes_on(node)?;
        self.claim_alone()?;
        self.borrow_for(node, &mut *keep.progress)?;
        let running = self.to_stop(node)?;
        let after = if keep.stop {
            After::Ends
        } else {
            After::GoesOn
        };
        let identity = self.identity(&running)?;
        make_empty(into)?;
        let into = &fs::canonicalize(into).map_err(io_error(KEEP_IN, into))?;
        let driver = driver_of(&running.plan.body);
        let kept = driver.snapshot(&running, into, after);
        kept.map_err(|source| {
            // Without its description this is no snapshot, and it may hold a node's memory.
            let _ = empty(into);
            self.unusable(node, source)
        })?;
        let description = Description {
            files: files(into)?,
            ..self.described(&running, identity)
        };
        let text = serde_json::to_vec_pretty(&description).expect("a document of texts");
        Ok(write_atomically(&into.join(DESCRIPTION), &text, 0o600)?)
    }

    /// Starts a node from a directory; what runs of it is ended first. Fails when the directory is no snapshot of this
    /// node; then nothing was changed.
    pub fn restore(
        &mut self,
        node: &str,
        from: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        self.check_goes_on(node)?;
        self.claim_alone()?;
        let (index, _) = self.node(node)?;
        let from = &fs::canonicalize(from).map_err(io_error(READ, from))?;
        let description = read(from)?;
        self.borrow_for(node, progress)?;
        let running = self.to_stop(node)?;
        let expected = self.described(&running, self.identity(&running)?);
        check(from, &description, &expected)?;
        if let Some(group) = &running.cgroup {
            let ended = group.end_all();
            ended.map_err(|source| self.unusable(node, source.into()))?;
        }
        let restored = driver_of(&running.plan.body).restore(&running, from);
        let process = restored.map_err(|source| self.unusable(node, source))?;
        self.state.nodes[index] = state_of(process);
        self.save()
    }

    /// Until this value is dropped, no other latlab starts a command, or makes or unmakes the lab.
    fn claim_alone(&mut self) -> Result<(), Error> {
        if self.claim.is_none() {
            let claim = Claim::existing(&self.dirs, &self.state.lab, true, CLAIM_TIMEOUT)?;
            let same = Journal::id(&self.dirs, &self.state.lab).as_ref() == Some(&self.state.id);
            let claim = claim.filter(|_| same);
            self.claim = Some(claim.ok_or_else(|| Error::NoLab(self.state.lab.clone()))?);
        }
        Ok(())
    }

    fn borrow_for(&self, node: &str, progress: &mut dyn FnMut(Progress)) -> Result<(), Error> {
        let (_, plan) = self.node(node)?;
        if let Some(tool) = driver_of(&plan.body).borrows() {
            borrowed::get(tool, self.dirs.cache(), progress)?;
        }
        Ok(())
    }

    fn identity(&self, node: &Node<'_>) -> Result<String, Error> {
        let identity = driver_of(&node.plan.body).identity(node);
        identity.map_err(|source| self.unusable(&node.plan.name, source))
    }

    fn described(&self, node: &Node<'_>, identity: String) -> Description {
        let release = rustix::system::uname();
        Description {
            format: Description::FORMAT.into(),
            lab: self.state.lab.clone(),
            id: self.state.id.clone(),
            node: node.plan.name.clone(),
            kind: node.plan.kind().to_string(),
            kernel: release.release().to_string_lossy().into_owned(),
            identity,
            files: BTreeMap::new(),
        }
    }
}

fn refused(action: &'static str, path: &Path, reason: impl Into<String>) -> Error {
    Error::Snapshot {
        action,
        path: path.to_owned(),
        reason: reason.into(),
    }
}

fn io_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| refused(action, path, source.to_string())
}

fn make_empty(into: &Path) -> Result<(), Error> {
    match DirBuilder::new().mode(0o700).create(into) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(io_error(KEEP_IN, into)(error));
        }
        Err(_) => check_private(KEEP_IN, into)?,
    }
    let mut entries = fs::read_dir(into).map_err(io_error(KEEP_IN, into))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(refused(KEEP_IN, into, "it is not empty")),
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

fn empty(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)?.flatten() {
        fs::remove_file(entry.path())?;
    }
    Ok(())
}

/// All files but the description, with their sizes.
fn files(directory: &Path) -> Result<BTreeMap<String, u64>, Error> {
    let failed = io_error(READ, directory);
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != DESCRIPTION {
            all.insert(name, entry.metadata().map_err(&failed)?.len());
        }
    }
    Ok(all)
}

fn read(from: &Path) -> Result<Description, Error> {
    check_private(READ, from)?;
    let text = fs::read(from.join(DESCRIPTION));
    let text = text.map_err(|_| refused(READ, from, format!("it has no {DESCRIPTION}")))?;
    // Another version may have other fields.
    let format = serde_json::from_slice::<serde_json::Value>(&text).ok();
    let format = format.and_then(|json| Some(json.get("format")?.as_str()?.to_owned()));
    match format.as_deref() {
        Some(Description::FORMAT) => {}
        Some(other) => return Err(refused(READ, from, format!("its format is `{other}`"))),
        None => return Err(refused(READ, from, format!("{DESCRIPTION} is damaged"))),
    }
    let damaged = |_| refused(READ, from, format!("{DESCRIPTION} is damaged"));
    serde_json::from_slice(&text).map_err(damaged)
}

fn check(from: &Path, found: &Description, expected: &Description) -> Result<(), Error> {
    let pairs = [
        ("lab", &found.lab, &expected.lab),
        ("deployment", &found.id, &expected.id),
        ("node", &found.node, &expected.node),
        ("kind", &found.kind, &expected.kind),
        ("kernel", &found.kernel, &expected.kernel),
        ("state", &found.identity, &expected.identity),
    ];
    for (what, found, expected) in pairs {
        if found != expected {
            let reason = format!("its {what} is `{found}`, not `{expected}`");
            return Err(refused(READ, from, reason));
        }
    }
    let there = files(from)?;
    for (name, bytes) in &found.files {
        match there.get(name) {
            Some(now) if now == bytes => {}
            Some(now) => {
                let reason = format!("{name} has {now} of {bytes} bytes");
                return Err(refused(READ, from, reason));
            }
            None => return Err(refused(READ, from, format!("{name} is missing"))),
        }
    }
    Ok(())
}
