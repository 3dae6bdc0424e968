//! Identification of passed file descriptors.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The kernel's name of a descriptor: a path, or a kind such as `anon_inode:[eventfd]`.
pub fn name(fd: &OwnedFd) -> io::Result<String> {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
    Ok(link.to_string_lossy().into_owned())
}
