//! Sockets of other processes (pidfd_getfd(2)), and options of sockets.

use std::ffi::c_int;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::error::checked;
use super::process::Process;

/// Copies of a process's sockets, without those that cannot be reached.
#[must_use]
pub fn of(process: &Process) -> Vec<OwnedFd> {
    let directory = format!("/proc/{}/fd", process.id().pid);
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sockets = entries.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        let number: RawFd = entry.file_name().to_str()?.parse().ok()?;
        let is_socket = target.to_string_lossy().starts_with("socket:");
        is_socket.then(|| pidfd_getfd(process, number, PidfdGetfdFlags::empty()).ok())?
    });
    sockets.collect()
}

/// Sets an option that has no safe wrapper. What the value points to must live for as long as the kernel uses it.
pub(super) fn set_option<T>(
    socket: impl AsFd,
    level: c_int,
    option: c_int,
    value: &T,
) -> io::Result<()> {
    let pointer: *const T = value;
    let length = size_of::<T>() as libc::socklen_t;
    let number = socket.as_fd().as_raw_fd();
    // SAFETY: an open descriptor; the kernel reads `length` bytes at the address of a live value of that size.
    checked(unsafe { libc::setsockopt(number, level, option, pointer.cast(), length) })
}
