//! Connections in repair mode (tcp(7), `TCP_REPAIR`), in which CRIU reads their state. A program that reads from one
//! meanwhile fails with EPERM, and closing it tells the peer nothing.

use std::os::fd::{AsRawFd, OwnedFd};

use libc::c_int;

use super::process::Process;
use super::sockets::{self, set_option};

/// `linux/tcp.h`: off without a window probe. The connection's own state is untouched, so there is nothing to ask the
/// peer, and the network may be cut off yet.
const OFF_WITHOUT_PROBE: c_int = -1;

/// Ends the repair mode of a process's connections. Descriptors that cannot be reached stay as they are.
pub fn leave(process: &Process) {
    for socket in in_repair(process) {
        let set = |level, option, value: c_int| {
            let _ = set_option(&socket, level, option, &value);
        };
        set(libc::IPPROTO_TCP, libc::TCP_REPAIR, OFF_WITHOUT_PROBE);
        // Repair mode has put its own value in the place of the program's. Servers set it, and without it one that
        // starts anew would find its port taken by this connection.
        set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1);
    }
}

/// The connections of a process that are in repair mode.
#[must_use]
pub fn in_repair(process: &Process) -> Vec<OwnedFd> {
    let mut sockets = sockets::of(process);
    sockets.retain(is_in_repair);
    sockets
}

fn is_in_repair(socket: &OwnedFd) -> bool {
    let mut is_on: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
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
    // Other sockets refuse.
    asked == 0 && is_on == 1
}
