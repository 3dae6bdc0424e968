//! The connection of a link.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use rustix::event::{EventfdFlags, epoll, eventfd};

use super::config::TcpConfig;
use super::stream::Stream;
use crate::sync::lock;

pub(super) const LENGTH_BYTES: usize = 4;

/// State of a link that both halves and the reconnector share.
#[derive(Debug)]
pub(super) struct Shared {
    pub config: TcpConfig,
    stream: Mutex<Option<Stream>>,
    /// Number of connections: a partial record of one does not continue in the next.
    epoch: AtomicU64,
    pub number: AtomicU32,
    pub readable: OwnedFd,
    /// Wakes the reconnector: the connection has ended, or unsent bytes are left.
    pub wake: OwnedFd,
}

impl Shared {
    pub fn new(config: TcpConfig) -> io::Result<Shared> {
        Ok(Shared {
            config,
            stream: Mutex::default(),
            epoch: AtomicU64::new(0),
            number: AtomicU32::new(0),
            readable: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    pub fn lock(&self) -> MutexGuard<'_, Option<Stream>> {
        lock(&self.stream)
    }

    pub fn install(&self, mut stream: Stream) -> io::Result<()> {
        let mut current = self.lock();
        stream.epoch = self.epoch.fetch_add(1, Relaxed) + 1;
        // A closed socket leaves the set by itself.
        let data = epoll::EventData::new_u64(stream.epoch);
        epoll::add(&self.readable, stream.socket(), data, epoll::EventFlags::IN)?;
        *current = Some(stream);
        Ok(())
    }

    pub fn wake_reconnector(&self) {
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok();
    }

    pub fn end(&self, stream: &mut Option<Stream>) {
        *stream = None;
        self.wake_reconnector();
    }
}
