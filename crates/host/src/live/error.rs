//! Errors of live systems.

use std::io;
use std::path::{Path, PathBuf};

use crate::cache;
use crate::images;
use crate::nodes::vm::{initramfs, kernel, modules};
use crate::sys;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Sys(#[from] sys::Error),
    #[error(
        "cannot make a live system of `host`: this machine's own root is none to start another with"
    )]
    OwnRoot,
    #[error("{} has files and is no live system", .0.display())]
    Foreign(PathBuf),
    #[error("{} is no live system: {reason}", path.display())]
    Record { path: PathBuf, reason: String },
    #[error("the command line of {} has {bytes} bytes, and a kernel takes {limit}", path.display())]
    LongLine {
        path: PathBuf,
        bytes: usize,
        limit: usize,
    },
    #[error("cannot write the medium: {} is no file", .0.display())]
    NoFile(PathBuf),
    #[error("cannot make a medium: there is no {needed}, of the package {package}")]
    NoTool {
        needed: &'static str,
        package: &'static str,
    },
    #[error("cannot make a medium: {name}: {reason}")]
    Tool { name: &'static str, reason: String },
    #[error("there is no latlab-agent beside latlab")]
    NoAgent,
    #[error(transparent)]
    Cache(#[from] cache::Error),
    #[error(transparent)]
    Image(#[from] images::Error),
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    #[error(transparent)]
    Initramfs(#[from] initramfs::Error),
    #[error(transparent)]
    Modules(#[from] modules::Error),
}

impl Error {
    /// Advice for the person.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::OwnRoot => "name a description of packages (.yaml), a directory, or `empty`",
            Self::Foreign(_) => "name a new directory, or one of an earlier `--live`",
            Self::Record { .. } => "`latlab image IMAGE --live DIR` makes one",
            Self::LongLine { .. } => "ask for fewer parameters",
            Self::NoFile(_) => {
                "name a file; `dd if=FILE.iso of=DEVICE bs=4M conv=fsync` copies it onto a stick"
            }
            Self::NoTool { .. } => {
                "`apt-get install xorriso mtools grub-common grub-pc-bin grub-efi-amd64-bin` has all of it"
            }
            Self::NoAgent => "build it, or set LATLAB_AGENT",
            Self::Cache(error) => error.hint(),
            Self::Image(error) => error.hint(),
            Self::Kernel(error) => error
                .hint()
                .unwrap_or("`--kernel` takes standard, rt, cloud, or the path of a vmlinuz"),
            Self::Initramfs(_) | Self::Modules(_) => "another kernel may have it: `--kernel`",
            Self::Sys(_) | Self::Tool { .. } => "check the directory, its permissions and its room",
        }
    }

    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let failed = sys::Error::of(action, path.display());
        |source: io::Error| Self::Sys(failed(source))
    }
}
