//! A tap's two halves.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use super::sys::{self, Deleted, Gather, Slots};
use crate::endpoints::{Counters, DropReason, PortId, Receive, Transmit};
use crate::frames::{Batch, NETWORK_UNKNOWN, Offload};

#[derive(Debug, Clone)]
pub struct TapConfig<'a> {
    pub id: PortId,
    /// Name of the interface, which is made if it does not exist, and is deleted with the daemon then.
    pub device: &'a str,
    /// File of the interface's network namespace; the process's without one.
    pub netns: Option<&'a Path>,
    pub queues: u16,
    /// Without the Ethernet header.
    pub mtu: u16,
    pub counters: Arc<Counters>,
}

/// Opens a tap and sets it up: a receiving half per queue, and a sending half.
pub fn open(config: &TapConfig<'_>) -> io::Result<(Vec<Receiver>, Sender)> {
    let queues = sys::open(config.device, config.netns, config.queues, config.mtu)?;
    let mut receivers = Vec::new();
    for queue in queues {
        receivers.push(Receiver {
            queue: Arc::new(queue),
            id: config.id,
            slots: Slots::new(),
            is_gone: false,
            counters: Arc::clone(&config.counters),
        });
    }
    let first = receivers.first().map(|first| Arc::clone(&first.queue));
    let sender = Sender {
        queue: first.ok_or_else(|| io::Error::other("a tap without a queue"))?,
        gather: Gather::new(),
        counters: Arc::clone(&config.counters),
    };
    Ok((receivers, sender))
}

#[derive(Debug)]
pub struct Receiver {
    queue: Arc<OwnedFd>,
    id: PortId,
    slots: Slots,
    /// The interface was deleted, by the owner of its namespace.
    is_gone: bool,
    counters: Arc<Counters>,
}

impl Receiver {
    #[cold]
    fn note_deleted(&mut self) {
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
                Err(Deleted) => {
                    self.note_deleted();
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

    // The descriptor is level-triggered: it stays readable while there are frames.
    fn arm(&mut self) -> bool {
        false
    }

    fn disarm(&mut self) {}

    fn is_gone(&self) -> bool {
        self.is_gone
    }
}

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
            let header = frame.encoded_offload();
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
        // The interface is down.
        Some(libc::EIO | libc::EBADFD | libc::ENXIO) => DropReason::Down,
        Some(libc::EINVAL | libc::EMSGSIZE) => DropReason::TooLong,
        _ => DropReason::Refused,
    }
}
