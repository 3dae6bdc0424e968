//! Storage of a native node, whose commands come and go: its mounts are in a namespace that is pinned like its network,
//! and every command gets copies of them in its own.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::nodes::driver::{Node, Prepared, Start};
use crate::nodes::session::Error;
use crate::nodes::storage::Held;
use crate::sys;
use crate::sys::mount_ns;
use crate::sys::process::ProcessId;

/// A native node that has storage; nothing of it runs.
pub(super) struct PreparedStorage;

impl Prepared for PreparedStorage {
    fn start(&self, start: &Start<'_>) -> Result<Option<ProcessId>, Error> {
        let node = &start.node;
        let held = node.held();
        let at = node.dir.join("storage");
        fs::create_dir_all(&at).map_err(sys::Error::of("make", at.display()))?;
        let ready = held.iter().map(Held::open);
        let ready: Vec<_> = ready.collect::<Result<_, _>>()?;
        mount_ns::pin(&node.mounts(), &at, held.len(), |root| {
            let mut numbered = ready.iter().enumerate();
            numbered.try_for_each(|(number, ready)| ready.mount(&root.join(number.to_string())))
        })?;
        Ok(None)
    }
}

/// The mounts for a command, each with its place.
pub(super) fn mounts(node: &Node<'_>) -> Result<Vec<(OwnedFd, PathBuf)>, Error> {
    let storage = &node.plan.storage;
    if storage.is_empty() {
        return Ok(Vec::new());
    }
    let trees = mount_ns::mounts(&node.mounts(), storage.len())?;
    let places = storage.iter().map(|storage| PathBuf::from(&storage.at));
    Ok(trees.into_iter().zip(places).collect())
}
