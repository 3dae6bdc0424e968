//! The hosts file of a native node, written with its first command: most nodes of a large lab never run
//! one. Containers and guests get theirs as they start.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::nodes::driver::Node;
use crate::nodes::session::Error;
use crate::sys;
use crate::sys::file::write_atomically;
use crate::sys::named::Names;

/// The names that a command of the node finds.
pub(super) fn of<'a>(
    node: &'a Node<'_>,
    mounts: &'a [(OwnedFd, PathBuf)],
) -> Result<Names<'a>, Error> {
    if !node.hosts.exists() {
        if let Some(directory) = node.hosts.parent() {
            fs::create_dir_all(directory).map_err(sys::Error::of("make", directory.display()))?;
        }
        // Two first commands at once both write it, and either finds it whole.
        write_atomically(&node.hosts, node.hosts_file().as_bytes(), 0o644)?;
    }
    Ok(Names {
        host_name: &node.plan.name,
        hosts: &node.hosts,
        labs: node.labs,
        mounts,
    })
}
