//! The hosts file of a native node, written with its first command: most nodes of a large lab never run
//! one. Containers and guests get theirs as they start.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::nodes::driver::Node;
use crate::nodes::session::Error;
use crate::sys::named::Names;

/// The names that a command of the node finds.
pub(super) fn of<'a>(node: &'a Node<'_>) -> Result<Names<'a>, Error> {
    if !node.hosts.exists() {
        write(&node.hosts, &node.hosts_file())
            .map_err(|error| Error::Other(format!("write {}: {error}", node.hosts.display())))?;
    }
    Ok(Names {
        host_name: &node.plan.name,
        hosts: &node.hosts,
        labs: node.labs,
    })
}

/// Two first commands at once both write it, and either finds it whole.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let own: PathBuf =
        path.with_extension(format!("{}", rustix::thread::gettid().as_raw_nonzero()));
    fs::write(&own, text)?;
    fs::rename(&own, path)
}
