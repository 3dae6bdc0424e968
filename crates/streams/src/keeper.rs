//! The keeper: a process that holds a copy of each listener, in case the supervisor ends.
//!
//! Without a listener, a filtered call fails with ENOSYS, and a held one would never be answered. The keeper has the kernel
//! carry all of them out: connections are plain from then on, and streams that are open stay so, since programs hold both
//! ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::control;
use crate::ledger;
use crate::sys::listener::Listener;

/// Calls whose numbers follow the last one that was written down: it may have ended before it wrote the next one.
const UNWRITTEN: u64 = 8;

/// Collects listeners from `supervisor` until it ends, then answers for it. `held` has the calls that it held.
pub fn run(supervisor: OwnedFd, held: OwnedFd) -> io::Result<()> {
    let mut listeners = Vec::new();
    loop {
        match control::receive(supervisor.as_fd()) {
            Ok((bytes, None)) if bytes.is_empty() => break,
            // One that finds no room in our table has its place all the same.
            Ok((_, listener)) => listeners.push(listener.map(Listener::new)),
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => break,
            Err(error) => return Err(error.into()),
        }
        forget_ended(&mut listeners)?;
    }
    drop(supervisor);
    let_go(&listeners, &ledger::read(&File::from(held))?);
    let listeners = listeners.into_iter().flatten().collect();
    answer_all(listeners)
}

/// Drops listeners without a task. Their places stay, because sessions are named by their order.
fn forget_ended(listeners: &mut [Option<Listener>]) -> io::Result<()> {
    for place in listeners {
        let Some(listener) = place else { continue };
        let descriptor = listener.descriptor();
        let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        poll(&mut polled, Some(&rustix::event::Timespec::default()))?;
        if polled[0].revents().contains(PollFlags::HUP) {
            *place = None;
        }
    }
    Ok(())
}

fn let_go(listeners: &[Option<Listener>], held: &[ledger::Found]) {
    for (session, call) in held {
        let Some(Some(listener)) = listeners.get(*session) else {
            continue;
        };
        for id in (0..=UNWRITTEN).filter_map(|more| call.checked_add(more)) {
            listener.proceed(id).ok();
        }
    }
}

fn answer_all(mut listeners: Vec<Listener>) -> io::Result<()> {
    while !listeners.is_empty() {
        let descriptors = listeners.iter().map(Listener::descriptor);
        let mut polled: Vec<PollFd<'_>> = descriptors
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
            .collect();
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let seen: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        for (listener, seen) in listeners.iter().zip(&seen) {
            if seen.contains(PollFlags::IN) {
                if let Some(call) = listener.receive()? {
                    listener.proceed(call.id).ok();
                }
            }
        }
        let mut seen = seen.iter();
        listeners.retain(|_| {
            let seen = seen.next().copied().unwrap_or(PollFlags::empty());
            seen.contains(PollFlags::IN) || !seen.intersects(PollFlags::HUP | PollFlags::ERR)
        });
    }
    Ok(())
}
