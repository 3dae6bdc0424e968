//! What becomes readable when a guest kicks: one descriptor that stays, whatever the monitor hands in.
//!
//! The monitor's event descriptors come and go with reconnections, and they are the monitor's: it may
//! make them block or pass something that is no event at all. So they are never read. They lie in an
//! epoll set, edge-triggered: each write makes the set readable, and asking the set clears it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, epoll, eventfd};

const NUDGE: u64 = 0;
const KICK: u64 = 1;

/// A set of events.
#[derive(Debug)]
pub struct Doorbell {
    set: OwnedFd,
    nudge: OwnedFd,
}

impl Doorbell {
    /// Nobody rings yet.
    ///
    /// # Errors
    ///
    /// No more file descriptors.
    pub fn new() -> io::Result<Doorbell> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let nudge = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&set, &nudge, epoll::EventData::new_u64(NUDGE), flags)?;
        Ok(Doorbell { set, nudge })
    }

    /// Wakes the dispatcher for another reason than a kick.
    pub fn ring(&self) {
        // It is readable already if this would block.
        let _ = rustix::io::write(&self.nudge, &1u64.to_ne_bytes());
    }

    /// From now on this rings too.
    ///
    /// # Errors
    ///
    /// What cannot be waited for.
    pub fn add(&self, kick: &Arc<OwnedFd>) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.set, kick, epoll::EventData::new_u64(KICK), flags)?;
        Ok(())
    }

    /// Not any more.
    pub fn remove(&self, kick: &Arc<OwnedFd>) {
        // It is in the set, or was never accepted there.
        let _ = epoll::delete(&self.set, kick);
    }

    /// Clears it; returns how many kicks that were (several in a row are one).
    pub fn clear(&self) -> u64 {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(NUDGE),
        }; 4];
        let now = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let found = epoll::wait(&self.set, &mut events, Some(&now)).unwrap_or(0);
        let kicks = events[..found].iter();
        kicks.filter(|e| e.data.u64() == KICK).count() as u64
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}
