//! A descriptor that becomes readable when a guest kicks, and outlives the VMM's eventfds.
//!
//! The VMM replaces its eventfds with each connection, and may make them block. So they are never read. They are in an
//! edge-triggered epoll set: each write makes the set readable, and waiting on the set clears it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, epoll, eventfd};

const NUDGE: u64 = 0;
const KICK: u64 = 1;

#[derive(Debug)]
pub struct Doorbell {
    set: OwnedFd,
    nudge: OwnedFd,
}

impl Doorbell {
    pub fn new() -> io::Result<Doorbell> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let nudge = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&set, &nudge, epoll::EventData::new_u64(NUDGE), flags)?;
        Ok(Doorbell { set, nudge })
    }

    pub fn ring(&self) {
        // The eventfd is readable already if this would block.
        let _ = rustix::io::write(&self.nudge, &1u64.to_ne_bytes());
    }

    pub fn add(&self, kick: &Arc<OwnedFd>) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.set, kick, epoll::EventData::new_u64(KICK), flags)?;
        Ok(())
    }

    pub fn remove(&self, kick: &Arc<OwnedFd>) {
        let _ = epoll::delete(&self.set, kick);
    }

    /// Clears the set; returns the number of kicks (several writes to one eventfd are one).
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
