//! What a file descriptor is that somebody passed.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The kernel's name for it: a path, or the kind of what has none.
pub fn name(fd: &OwnedFd) -> io::Result<String> {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
    Ok(link.to_string_lossy().into_owned())
}
