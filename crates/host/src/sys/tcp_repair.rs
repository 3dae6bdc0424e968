//! Connections that a CRIU which was killed left in repair mode: their kernel neither sends nor answers.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::process::Process;

/// Ends the repair mode of a process's connections. What cannot be reached stays as it is.
pub fn leave(process: &Process) {
    let directory = format!("/proc/{}/fd", process.id().pid);
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let number: Option<RawFd> = entry.file_name().to_string_lossy().parse().ok();
        if !target.to_string_lossy().starts_with("socket:") {
            continue;
        }
        let socket = number.map(|number| pidfd_getfd(process, number, PidfdGetfdFlags::empty()));
        if let Some(Ok(socket)) = socket {
            leave_one(&socket);
        }
    }
}

fn leave_one(socket: &OwnedFd) {
    let mut is_on: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: an open descriptor, and room for one number of the length that is said.
    let asked = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_REPAIR,
            (&raw mut is_on).cast(),
            &raw mut length,
        )
    };
    // Other sockets refuse, and setting it where it is not on would change more.
    if asked != 0 || is_on != 1 {
        return;
    }
    let off: libc::c_int = 0;
    // SAFETY: an open descriptor, and one number of the length that is said.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_REPAIR,
            (&raw const off).cast(),
            length,
        )
    };
}
