//! How a probe that serves is told to stop: its standard input ends.
//!
//! A pipe's end needs no signal, no process id and no permission, works through every way of
//! starting a process in a node, and comes by itself when the starter dies. A thread waits for it,
//! so that the measuring thread looks at nothing but its socket; the thread then shuts the sockets
//! down, which wakes the threads that block on them. (Linux wakes receivers even on an unconnected UDP
//! socket, although the call itself reports an error there.)

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread;

use rustix::net::{Shutdown, shutdown};

use crate::error::{Error, Result};
use crate::sys;

pub fn end_of_input() {
    // The input means nothing; an error means that the other end is gone.
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
}

/// Says whether to stop, and wakes those who wait on a socket when it is time.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    requested: AtomicBool,
    /// Weak, because a connection must close when its own thread is done with it.
    sockets: Mutex<Vec<Weak<OwnedFd>>>,
}

impl Stop {
    /// Starts waiting for the end of standard input. `fifo_priority` is the measuring thread's: the
    /// waiting thread runs one above it, else a spinning `SCHED_FIFO` thread on the same CPU would
    /// keep it from ever running. It sleeps until the end.
    pub fn at_end_of_input(fifo_priority: Option<u32>) -> Result<Stop> {
        let stop = Stop::default();
        let waiting = stop.clone();
        let (started, wait_for_start) = mpsc::channel();
        let wait = move || {
            if let Some(priority) = fifo_priority {
                // Refused only if the measuring thread's own was, which is reported there.
                let _ = sys::set_fifo(priority + 1);
            }
            drop(started);
            end_of_input();
            waiting.request();
        };
        thread::Builder::new()
            .name("stop".into())
            .spawn(wait)
            .map_err(|error| Error::machine("start the thread that waits for the end", error))?;
        // The new thread begins with this one's priority, and would never get the CPU of one that
        // starts spinning before it has raised its own. An error is what its drop above gives.
        let _: std::result::Result<(), mpsc::RecvError> = wait_for_start.recv();
        Ok(stop)
    }

    pub fn requested(&self) -> bool {
        self.shared.requested.load(Ordering::Relaxed)
    }

    /// Has `socket` shut down when it is time, at once if it was time already.
    pub fn wake(&self, socket: &Arc<OwnedFd>) {
        let mut sockets = self.sockets();
        sockets.retain(|other| other.strong_count() > 0);
        sockets.push(Arc::downgrade(socket));
        if self.requested() {
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    fn request(&self) {
        let sockets = self.sockets();
        self.shared.requested.store(true, Ordering::Relaxed);
        for socket in sockets.iter().filter_map(Weak::upgrade) {
            // On an unconnected UDP socket this says "not connected" and wakes all the same.
            let _ = shutdown(&socket, Shutdown::Both);
        }
    }

    fn sockets(&self) -> std::sync::MutexGuard<'_, Vec<Weak<OwnedFd>>> {
        // A list of weak references has no state that a panic could leave half done.
        self.shared
            .sockets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use rustix::net::{RecvFlags, recv};

    use super::*;

    #[test]
    fn a_request_wakes_a_blocked_receiver() {
        let stop = Stop::default();
        let socket = Arc::new(OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap()));
        stop.wake(&socket);
        let receiver = thread::spawn({
            let (socket, stop) = (socket.clone(), stop.clone());
            move || {
                let mut buffer = [0; 16];
                let (_, length) = recv(&socket, &mut buffer[..], RecvFlags::empty()).unwrap();
                (length, stop.requested())
            }
        });
        stop.request();
        assert_eq!(receiver.join().unwrap(), (0, true));
    }

    #[test]
    fn a_socket_added_too_late_is_shut_down_at_once() {
        let stop = Stop::default();
        stop.request();
        let socket = Arc::new(OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap()));
        stop.wake(&socket);
        let mut buffer = [0; 16];
        assert_eq!(
            recv(&socket, &mut buffer[..], RecvFlags::empty())
                .unwrap()
                .1,
            0
        );
    }
}
