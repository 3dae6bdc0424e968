//! Raw frames on an interface of this host: the link of two hosts that share an Ethernet, and the exit from the overlay.
//!
//! A packet socket with virtio-net headers (`PACKET_VNET_HDR`): large frames stay whole and checksums uncomputed if the
//! interface supports it, with one system call per batch. The interface is promiscuous while the link is open, because
//! frames for guests are not addressed to it. Frames to its own address are the host's, and do not get here; sent frames
//! do not come back. The kernel removes VLAN tags from received frames; they are restored.
//!
//! Beside containers the kernel path has the link's frames ([`crate::kernel`]), and only [`promiscuous`] is needed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use super::netns;
use super::sys::{self, Buffer, Inbox, Outbox};
use crate::endpoints::{Counters, DropReason, PortId, Receive, Transmit};
use crate::frames::{Arena, Batch, Offload};

const MESSAGES: usize = 32;
const MESSAGE_BYTES: usize = 66 << 10;
/// Offset and length of a VLAN tag.
const TAG_AT: usize = 12;
const TAG_BYTES: usize = 4;

#[derive(Debug, Clone)]
pub struct DirectConfig<'a> {
    pub id: PortId,
    pub device: &'a str,
    /// File of the interface's network namespace; the caller's without one.
    pub netns: Option<&'a Path>,
    /// VNI of the frames.
    pub network: u32,
    pub counters: Arc<Counters>,
}

/// Opens a direct link. Errors: an unknown interface, or no `CAP_NET_RAW`.
pub fn open(config: &DirectConfig<'_>) -> io::Result<(Receiver, Transmitter)> {
    let socket = netns::inside(config.netns, || sys::packet_socket(config.device))??;
    super::udp::enlarge_buffers(socket.as_fd());
    let socket = Arc::new(socket);
    let receiver = Receiver {
        socket: socket.clone(),
        id: config.id,
        network: config.network,
        counters: config.counters.clone(),
        inbox: Inbox::new(MESSAGES, MESSAGE_BYTES),
        tags: Buffer::new(MESSAGES * TAG_BYTES),
        messages: 0,
        next: 0,
        borrowed: false,
    };
    let transmitter = Transmitter {
        socket,
        network: config.network,
        counters: config.counters.clone(),
        arena: Arena::default(),
        outbox: Outbox::default(),
    };
    Ok((receiver, transmitter))
}

/// Makes an interface of this index promiscuous until the descriptor is closed.
pub fn promiscuous(device: u32) -> io::Result<OwnedFd> {
    sys::promiscuous_socket(device)
}

#[derive(Debug)]
pub struct Receiver {
    socket: Arc<OwnedFd>,
    id: PortId,
    network: u32,
    counters: Arc<Counters>,
    inbox: Inbox,
    /// VLAN tags to be restored in the messages.
    tags: Buffer,
    messages: usize,
    next: usize,
    borrowed: bool,
}

impl Receiver {
    fn push(&mut self, number: usize, batch: &mut Batch) -> Result<usize, DropReason> {
        let message = self.inbox.message(number);
        if message.truncated {
            return Err(DropReason::TooLong);
        }
        let bytes = &self.inbox.bytes(number)[..message.len];
        let (header, frame) = bytes
            .split_first_chunk::<{ Offload::BYTES }>()
            .ok_or(DropReason::Malformed)?;
        let offload = Offload::parse(header, frame.len()).map_err(|_| DropReason::Malformed)?;
        let start = Offload::BYTES;
        let Some((kind, tag)) = message.vlan.filter(|_| frame.len() > TAG_AT) else {
            let pieces = [self.inbox.segment(number, start..message.len)];
            let pushed = batch.push(self.id, self.network, offload, pieces);
            return pushed
                .map(|()| message.len - start)
                .map_err(|_| DropReason::Malformed);
        };
        let place = number * TAG_BYTES..(number + 1) * TAG_BYTES;
        let [a, b] = kind.to_be_bytes();
        let [c, d] = tag.to_be_bytes();
        self.tags
            .part_mut(place.clone())
            .copy_from_slice(&[a, b, c, d]);
        let behind = |(start, at): (u16, u16)| (start + TAG_BYTES as u16, at);
        let offload = Offload {
            checksum: offload.checksum.map(behind),
            ..offload
        };
        let pieces = [
            self.inbox.segment(number, start..start + TAG_AT),
            self.tags.segment(place),
            self.inbox.segment(number, start + TAG_AT..message.len),
        ];
        let pushed = batch.push(self.id, self.network, offload, pieces);
        pushed
            .map(|()| message.len - start + TAG_BYTES)
            .map_err(|_| DropReason::Malformed)
    }
}

impl Receive for Receiver {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        if self.next == self.messages && !self.borrowed {
            self.next = 0;
            // The kernel reports an error for a frame that no virtio-net header describes (a tunnel's).
            self.messages = self.inbox.receive(self.socket.as_fd()).unwrap_or_else(|_| {
                self.counters.drop_frames(DropReason::Malformed, 1);
                0
            });
        }
        let (mut frames, mut bytes) = (0, 0);
        while batch.room() > 0 && self.next < self.messages {
            let number = self.next;
            self.next += 1;
            match self.push(number, batch) {
                Ok(len) => (frames, bytes) = (frames + 1, bytes + len as u64),
                Err(reason) => self.counters.drop_frames(reason, 1),
            }
        }
        if frames > 0 {
            self.borrowed = true;
            self.counters.received.add(frames as u64, bytes);
        }
        frames
    }

    fn complete(&mut self) {
        self.borrowed = false;
    }

    fn wakeup(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn arm(&mut self) -> bool {
        self.next < self.messages
    }

    fn disarm(&mut self) {}
}

#[derive(Debug)]
pub struct Transmitter {
    socket: Arc<OwnedFd>,
    network: u32,
    counters: Arc<Counters>,
    arena: Arena,
    outbox: Outbox,
}

impl Transmit for Transmitter {
    fn transmit(&mut self, batch: &Batch, which: &[u16]) {
        for &number in which {
            let frame = &batch.frames()[usize::from(number)];
            if frame.network != self.network {
                self.counters.drop_frames(DropReason::Unknown, 1);
                continue;
            }
            self.arena.add(&frame.encoded_offload(), batch, frame);
        }
        if self.arena.is_empty() {
            return;
        }
        let report = self.outbox.send(self.socket.as_fd(), None, &self.arena, 0);
        self.arena.clear();
        report.count(&self.counters, Offload::BYTES);
    }
}
