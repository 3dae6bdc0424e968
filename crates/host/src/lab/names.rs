//! The hosts file of a native node, written with its first command: most nodes of a large lab never run
//! one. Containers and guests get theirs as they start.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use latlab_model::kinds::Bind;

use super::deployed::Lab;
use super::error::Error;
use crate::nodes::native::NativeNames;
use crate::sys::named::HOSTS;

/// Whether the lab itself says what a node finds at the place of its hosts file.
pub(super) fn is_bound(binds: &[Bind]) -> bool {
    let mut targets = binds.iter().map(|bind| Path::new(&bind.target));
    targets.any(|target| Path::new(HOSTS).starts_with(target))
}

impl Lab {
    pub(super) fn native_names(&self, node: &str) -> Result<NativeNames, Error> {
        let hosts = self.dirs.hosts(&self.state.lab).join(node);
        if !hosts.exists() {
            write(&hosts, &self.plan().names.hosts(node)).map_err(|source| Error::Io {
                action: "write",
                path: hosts.clone(),
                source,
            })?;
        }
        Ok(NativeNames {
            host_name: node.to_owned(),
            hosts,
            labs: self.dirs.run_root().to_owned(),
        })
    }
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
