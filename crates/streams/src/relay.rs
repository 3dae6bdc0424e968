//! Bytes passed on between two sockets, each way in a thread of its own, until both ways have ended.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read, write};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{Shutdown, shutdown};

/// Connections that are relayed at once.
const MAX_RELAYS: usize = 256;
const BUFFER_BYTES: usize = 64 << 10;
const STACK_BYTES: usize = 256 << 10;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Joins a shadow and an anchor. Gives the shadow back if there are too many already.
pub fn start(shadow: OwnedFd, anchor: OwnedFd) -> Result<(), OwnedFd> {
    if RUNNING.fetch_add(1, Ordering::Relaxed) >= MAX_RELAYS {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
        return Err(shadow);
    }
    for socket in [&shadow, &anchor] {
        if let Ok(flags) = fcntl_getfl(socket) {
            fcntl_setfl(socket, flags - OFlags::NONBLOCK).ok();
        }
    }
    let (shadow, anchor) = (Arc::new(shadow), Arc::new(anchor));
    let ways = [
        (shadow.clone(), anchor.clone()),
        (anchor.clone(), shadow.clone()),
    ];
    let count = Arc::new(AtomicUsize::new(ways.len()));
    for (from, to) in ways {
        let ended = count.clone();
        let way = move || {
            pass(&from, &to);
            if ended.fetch_sub(1, Ordering::AcqRel) == 1 {
                RUNNING.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let builder = thread::Builder::new().stack_size(STACK_BYTES);
        if builder.spawn(way).is_err() && count.fetch_sub(1, Ordering::AcqRel) == 1 {
            RUNNING.fetch_sub(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Passes on all bytes and the end. A reset is passed on as a reset.
fn pass(from: &OwnedFd, to: &OwnedFd) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match read(from.as_fd(), &mut buffer[..]) {
            Ok(0) => {
                shutdown(to, Shutdown::Write).ok();
                return;
            }
            Ok(count) => {
                if write_all(to, &buffer[..count]).is_err() {
                    // The receiver is gone: so is what the sender has yet to say.
                    shutdown(from, Shutdown::Both).ok();
                    return;
                }
            }
            Err(Errno::INTR) => {}
            Err(_) => {
                set_socket_linger(to, Some(std::time::Duration::ZERO)).ok();
                shutdown(to, Shutdown::Both).ok();
                return;
            }
        }
    }
}

fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match write(to.as_fd(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
