//! Errors of the way into a node, as opposed to failures of the command there.

use super::container::error as container;
use super::saved;
use super::vm::channel::error as channel;
use super::vm::clock::error as clock;
use super::vm::error as vm;
use super::vm::{initramfs, kernel};
use crate::{cgroup, images, sys};

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum Error {
    Sys(#[from] sys::Error),
    Cgroup(#[from] cgroup::Error),
    Container(#[from] container::Error),
    Vm(#[from] vm::Error),
    Channel(#[from] channel::Error),
    Clock(#[from] clock::Error),
    Kernel(#[from] kernel::Error),
    Initramfs(#[from] initramfs::Error),
    Image(#[from] images::Error),
    Snapshot(#[from] saved::Unusable),
    #[error("{0}")]
    Other(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStarted {
    Missing,
    Forbidden,
    NoDirectory,
}

impl NotStarted {
    /// The status of a shell in this case.
    pub fn shell_code(self) -> u8 {
        match self {
            NotStarted::Missing => 127,
            NotStarted::Forbidden | NotStarted::NoDirectory => 126,
        }
    }

    fn of_errno(errno: i32) -> Option<NotStarted> {
        match errno {
            libc::ENOENT => Some(NotStarted::Missing),
            libc::EACCES | libc::ENOEXEC | libc::EISDIR => Some(NotStarted::Forbidden),
            _ => None,
        }
    }
}

impl Error {
    /// Whether the command itself could not be run. Each kind of node finds that out in its own way.
    pub fn not_started(&self) -> Option<NotStarted> {
        match self {
            Error::Sys(error) | Error::Container(container::Error::Sys(error)) => {
                match error.action {
                    // Searching `PATH` gives no number of the kernel's.
                    "execute" if error.is_not_found() => Some(NotStarted::Missing),
                    "execute" => error.source.raw_os_error().and_then(NotStarted::of_errno),
                    "enter directory" => Some(NotStarted::NoDirectory),
                    _ => None,
                }
            }
            Error::Container(container::Error::Command { .. }) => Some(NotStarted::Missing),
            Error::Channel(channel::Error::Refused { errno, message })
            | Error::Vm(vm::Error::Channel(channel::Error::Refused { errno, message })) => {
                // The agent's words, because an error number does not tell what was not found.
                if message.starts_with("enter directory ") {
                    return Some(NotStarted::NoDirectory);
                }
                NotStarted::of_errno(i32::try_from(*errno).ok()?)
            }
            _ => None,
        }
    }
}
