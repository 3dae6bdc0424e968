//! Storage and huge pages of a native node, whose commands come and go: its mounts are in a namespace that is pinned like its network,
//! and every command gets copies of them in its own.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use crate::nodes::dpdk;
use crate::nodes::driver::{Node, Prepared, Start};
use crate::nodes::session::Error;
use crate::nodes::storage::Held;
use crate::sys;
use crate::sys::process::ProcessId;
use crate::sys::{mount, mount_ns};

/// A native node that has mounts; nothing of it runs.
pub(super) struct PreparedStorage;

impl Prepared for PreparedStorage {
    fn start(&self, start: &Start<'_>) -> Result<Option<ProcessId>, Error> {
        let node = &start.node;
        dpdk::make(node)?;
        let held = node.held();
        let at = node.dir.join("storage");
        fs::create_dir_all(&at).map_err(sys::Error::of("make", at.display()))?;
        let ready = held.iter().map(Held::open);
        let ready: Vec<_> = ready.collect::<Result<_, _>>()?;
        mount_ns::pin(&node.mounts(), &at, places(node).len(), |root| {
            let mut numbered = ready.iter().enumerate();
            numbered.try_for_each(|(number, ready)| ready.mount(&root.join(number.to_string())))?;
            match &start.huge_pages {
                Some(pages) => mount::attach(pages.as_fd(), &root.join(held.len().to_string())),
                None => Ok(()),
            }
        })?;
        Ok(None)
    }
}

/// The mounts for a command, each with its place.
pub(super) fn mounts(node: &Node<'_>) -> Result<Vec<(OwnedFd, PathBuf)>, Error> {
    let places = places(node);
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let trees = mount_ns::mounts(&node.mounts(), places.len())?;
    Ok(trees.into_iter().zip(places).collect())
}

/// The places of its mounts: those of its storage, then that of its huge pages.
fn places(node: &Node<'_>) -> Vec<PathBuf> {
    let storage = node.plan.storage.iter();
    let mut places: Vec<_> = storage.map(|storage| PathBuf::from(&storage.at)).collect();
    places.extend(node.plan.dpdk.is_some().then(|| dpdk::pages(node)));
    places
}
