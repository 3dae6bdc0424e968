//! Requirements of the nodes' storage on this machine, seen before anything is made.

use std::path::{Path, PathBuf};

use latlab_model::kinds::NodeKind;
use latlab_model::plan::{NodePlan, Plan, StoragePlan};
use latlab_model::units::Bytes;

use super::error::Error;
use crate::dirs::Dirs;
use crate::sys::{self, inside};

pub(super) fn check(dirs: &Dirs, plan: &Plan, agent: &Path) -> Result<(), Error> {
    if plan.nodes.iter().all(|node| node.storage.is_empty()) {
        return Ok(());
    }
    let labs = labs(dirs);
    for node in &plan.nodes {
        for storage in &node.storage {
            if node.kind() == NodeKind::Native {
                check_place(dirs, node, storage, agent)?;
            }
            check_medium(&labs, node, storage)?;
        }
    }
    check_room(&labs, plan)
}

/// Refuses to save or move a node whose storage or huge pages stay where they are.
pub(super) fn check_unstored(node: &NodePlan) -> Result<(), Error> {
    if node.dpdk.is_some() {
        let whose = match node.kind().is_guest() {
            true => "its programs were told which cards are their ports",
            false => "its huge pages are this machine's",
        };
        let reason = format!("it can be neither saved nor moved: {whose}");
        return Err(Error::storage(node, reason, "use a node without `dpdk`"));
    }
    match node.storage.first() {
        None => Ok(()),
        Some(storage) => Err(Error::storage(
            node,
            format!(
                "it can be neither saved nor moved: its {} at `{}` stays on the host",
                storage.kind, storage.at
            ),
            "use a node without `storage`",
        )),
    }
}

/// A native node sees the host's files, among which latlab makes no directory.
fn check_place(
    dirs: &Dirs,
    node: &NodePlan,
    storage: &StoragePlan,
    agent: &Path,
) -> Result<(), Error> {
    let at = Path::new(&storage.at);
    let Some(there) = at.canonicalize().ok().filter(|at| at.is_dir()) else {
        let reason = format!(
            "its storage is at `{}`, and the host has no such directory",
            storage.at
        );
        let hint =
            "a native node sees the host's files: name a directory that is there, as /mnt or /srv";
        return Err(Error::storage(node, reason, hint));
    };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let mut needed = [agent, dirs.run_root()].into_iter().map(real);
    match needed.find(|path| path.starts_with(&there)) {
        None => Ok(()),
        Some(path) => {
            let reason = format!(
                "its storage at `{}` would cover latlab's own {}",
                storage.at,
                path.display()
            );
            Err(Error::storage(
                node,
                reason,
                "name another directory, as /mnt or /srv",
            ))
        }
    }
}

/// The nearest directory that is there of the one that has the labs.
fn labs(dirs: &Dirs) -> PathBuf {
    let labs = dirs.labs();
    let there = labs.ancestors().find(|path| path.exists());
    there.unwrap_or(Path::new("/")).to_path_buf()
}

fn check_medium(labs: &Path, node: &NodePlan, storage: &StoragePlan) -> Result<(), Error> {
    if !storage.kind.is_on_disk() || !inside::is_in_memory(labs)? {
        return Ok(());
    }
    let reason = format!(
        "its {} at `{}` would be in memory, as latlab's state in {} is",
        storage.kind,
        storage.at,
        labs.display()
    );
    let hint = "name a directory on a disk by LATLAB_STATE_DIR, or use `type: tmpfs`";
    Err(Error::storage(node, reason, hint))
}

fn check_room(labs: &Path, plan: &Plan) -> Result<(), Error> {
    let stat = rustix::fs::statvfs(labs).map_err(sys::Error::of("look at", labs.display()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let mut wanted = 0u64;
    for node in &plan.nodes {
        let on_disk = node.storage.iter().filter(|s| s.kind.is_on_disk());
        for size in on_disk.filter_map(|storage| storage.size) {
            wanted = wanted.saturating_add(size.0);
        }
        if wanted > free {
            let reason = format!(
                "the storage up to it has {}; {} are free in {}",
                Bytes(wanted),
                Bytes(free),
                labs.display()
            );
            return Err(Error::storage(
                node,
                reason,
                "lower `size`, or make room there",
            ));
        }
    }
    Ok(())
}
