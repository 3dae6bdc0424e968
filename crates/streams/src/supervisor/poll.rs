//! The poller: epoll(7) with tokens that are never used twice.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

/// Events that are taken at once.
const EVENTS: usize = 64;

#[derive(Debug)]
pub(super) struct Poller {
    set: OwnedFd,
    next: u64,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            set: epoll::create(CreateFlags::CLOEXEC)?,
            next: 0,
        })
    }

    pub(super) fn token(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn add(&self, file: impl AsFd, token: u64, events: EventFlags) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::add(&self.set, file, data, events)?)
    }

    /// Watches a file that is closed here afterwards, until it is ready once. The registration ends with the last
    /// reference that a program has.
    pub(super) fn add_once(&self, file: impl AsFd, token: u64) -> io::Result<()> {
        let events = EventFlags::IN | EventFlags::ONESHOT;
        let data = EventData::new_u64(token);
        match epoll::add(&self.set, &file, data, events) {
            // An earlier wait left it, when the file had the same number here.
            Err(Errno::EXIST) => Ok(epoll::modify(&self.set, &file, data, events)?),
            result => Ok(result?),
        }
    }

    pub(super) fn remove(&self, file: impl AsFd) {
        epoll::delete(&self.set, file).ok();
    }

    pub(super) fn wait(&self, timeout: Duration) -> io::Result<Vec<(u64, EventFlags)>> {
        let mut events = Vec::with_capacity(EVENTS);
        let timeout = Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match epoll::wait(&self.set, spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(events
            .iter()
            .map(|event| (event.data.u64(), event.flags))
            .collect())
    }
}
