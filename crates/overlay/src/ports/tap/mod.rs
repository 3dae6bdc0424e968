//! Taps: a network interface of the kernel whose cable ends in this daemon, for hosts, containers and
//! virtual machines without vhost-user.
//!
//! Frames carry a virtio-net header, so that large ones stay whole and checksums uncomputed in both
//! directions. Every queue is one descriptor; one system call a frame is what a tap costs.

mod sys;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use crate::endpoints::{Counters, DropReason, PortId, Receive, Transmit};
use crate::frames::{Batch, Gso, Headers, NETWORK_UNKNOWN, Offload};
use sys::{Gather, Gone, Slots};

/// A tap as it is configured.
#[derive(Debug, Clone)]
pub struct Spec<'a> {
    /// The number of its port.
    pub id: PortId,
    /// Its name; it is made if there is none, and vanishes with the daemon then.
    pub device: &'a str,
    /// A file that is the network namespace where it lives; this process's if there is none.
    pub netns: Option<&'a Path>,
    /// Queues.
    pub queues: u16,
    /// Largest packet, without the Ethernet header.
    pub mtu: u16,
    /// What is counted about it.
    pub counters: Arc<Counters>,
}

/// Opens a tap and sets it up: for each queue what receives, and what sends.
///
/// # Errors
///
/// The kernel's, with what was tried.
pub fn open(spec: &Spec<'_>) -> io::Result<(Vec<Receiver>, Sender)> {
    let queues = sys::open(spec.device, spec.netns, spec.queues, spec.mtu)?;
    let mut receivers = Vec::new();
    for queue in queues {
        receivers.push(Receiver {
            queue: Arc::new(queue),
            id: spec.id,
            slots: Slots::new(),
            is_gone: false,
            counters: Arc::clone(&spec.counters),
        });
    }
    let first = receivers.first().map(|first| Arc::clone(&first.queue));
    let sender = Sender {
        queue: first.ok_or_else(|| io::Error::other("a tap without a queue"))?,
        gather: Gather::new(),
        counters: Arc::clone(&spec.counters),
    };
    Ok((receivers, sender))
}

/// What the kernel sends out of the interface.
#[derive(Debug)]
pub struct Receiver {
    queue: Arc<OwnedFd>,
    id: PortId,
    slots: Slots,
    /// The interface was deleted, by whoever has the namespace where it lives.
    is_gone: bool,
    counters: Arc<Counters>,
}

impl Receiver {
    #[cold]
    fn has_gone(&mut self) {
        if !std::mem::replace(&mut self.is_gone, true) {
            let what = "its tap was deleted; delete the interface and add it again";
            self.counters.note(what.to_string());
        }
    }
}

impl Receive for Receiver {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let (mut frames, mut bytes, mut malformed) = (0, 0, 0);
        for slot in 0..batch.room().min(Slots::COUNT) {
            let (header, frame) = match self.slots.read(slot, &self.queue) {
                Ok(Some(read)) => read,
                Ok(None) => break,
                Err(Gone) => {
                    self.has_gone();
                    break;
                }
            };
            let Ok(offload) = Offload::parse(&header, frame.len()) else {
                malformed += 1;
                continue;
            };
            let len = frame.len();
            match batch.push(self.id, NETWORK_UNKNOWN, offload, [frame]) {
                Ok(()) => (frames, bytes) = (frames + 1, bytes + len as u64),
                Err(_) => malformed += 1,
            }
        }
        if frames > 0 {
            self.counters.received.add(frames, bytes);
            self.counters
                .batches
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        if malformed > 0 {
            self.counters.drop_frames(DropReason::Malformed, malformed);
        }
        usize::try_from(frames).unwrap_or(usize::MAX)
    }

    fn complete(&mut self) {}

    fn wakeup(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }

    // The descriptor is readable as long as there are frames: nothing can be missed, and nothing has
    // to be asked for.
    fn arm(&mut self) -> bool {
        false
    }

    fn disarm(&mut self) {}

    fn is_gone(&self) -> bool {
        self.is_gone
    }
}

/// What the interface receives.
#[derive(Debug)]
pub struct Sender {
    queue: Arc<OwnedFd>,
    gather: Gather,
    counters: Arc<Counters>,
}

impl Transmit for Sender {
    fn transmit(&mut self, batch: &Batch, which: &[u16]) {
        let (mut frames, mut bytes) = (0, 0);
        for &at in which {
            let frame = &batch.frames()[usize::from(at)];
            // A hint for whoever cuts the frame; the kernel insists on it for large ones.
            let headers = match frame.offload.gso {
                Gso::None => 0,
                _ => Headers::parse(frame.head()).map_or(0, |headers| headers.payload),
            };
            let header = frame.offload.encode(u16::try_from(headers).unwrap_or(0));
            let heads = [&header, frame.head()];
            match self.gather.write(&self.queue, heads, batch.rest(frame)) {
                Ok(()) => (frames, bytes) = (frames + 1, bytes + u64::from(frame.len)),
                Err(error) => self.counters.drop_frames(reason(&error), 1),
            }
        }
        if frames > 0 {
            self.counters.sent.add(frames, bytes);
        }
    }
}

fn reason(error: &io::Error) -> DropReason {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => DropReason::NoBuffer,
        // An interface that is down takes nothing.
        Some(libc::EIO | libc::EBADFD | libc::ENXIO) => DropReason::Down,
        Some(libc::EINVAL | libc::EMSGSIZE) => DropReason::TooLong,
        _ => DropReason::Refused,
    }
}
