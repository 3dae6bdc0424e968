//! Raw frames on an interface of this host: the link of two hosts that share an Ethernet, and the way
//! out of the overlay to what is not in it.
//!
//! A packet socket with a virtio-net header (`PACKET_VNET_HDR`), so that large frames stay whole and
//! checksums uncomputed as far as the interface can, one system call a batch. The interface is put into
//! promiscuous mode as long as the link is open, because frames for guests are not addressed to it, and
//! what leaves through the socket does not come back. The kernel takes VLAN tags out of what it
//! receives; they are put back.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use super::netns;
use super::sys::{self, Buffer, Inbox, Outbox};
use crate::endpoints::{Counters, DropReason, PortId, Receive, Transmit};
use crate::frames::{Arena, Batch, Gso, Headers, Offload};

/// Messages of one call.
const MESSAGES: usize = 32;
/// The largest frame with its header.
const MESSAGE_BYTES: usize = 66 << 10;
/// Where a VLAN tag belongs, and its size.
const TAG_AT: usize = 12;
const TAG_BYTES: usize = 4;

/// A direct link as it is configured.
#[derive(Debug, Clone)]
pub struct Spec<'a> {
    /// Its number.
    pub id: PortId,
    /// The interface.
    pub device: &'a str,
    /// A file that is the network namespace where it lives; the caller's if there is none.
    pub netns: Option<&'a Path>,
    /// The network whose frames pass.
    pub network: u32,
    /// What is counted about it.
    pub counters: Arc<Counters>,
}

/// Opens a direct link: what receives, and what sends.
///
/// # Errors
///
/// An interface that is not there, or a caller without the capability (`CAP_NET_RAW`).
pub fn open(spec: &Spec<'_>) -> io::Result<(Receiver, Transmitter)> {
    let socket = netns::inside(spec.netns, || sys::packet_socket(spec.device))??;
    super::udp::enlarge(socket.as_fd());
    let socket = Arc::new(socket);
    let receiver = Receiver {
        socket: socket.clone(),
        id: spec.id,
        network: spec.network,
        counters: spec.counters.clone(),
        inbox: Inbox::new(MESSAGES, MESSAGE_BYTES),
        tags: Buffer::new(MESSAGES * TAG_BYTES),
        messages: 0,
        next: 0,
        borrowed: false,
    };
    let transmitter = Transmitter {
        socket,
        network: spec.network,
        counters: spec.counters.clone(),
        arena: Arena::new(),
        outbox: Outbox::new(),
    };
    Ok((receiver, transmitter))
}

/// The receiving half.
#[derive(Debug)]
pub struct Receiver {
    socket: Arc<OwnedFd>,
    id: PortId,
    network: u32,
    counters: Arc<Counters>,
    inbox: Inbox,
    /// VLAN tags that belong into the messages.
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
            // One that the kernel cannot describe in a header (a tunnel's) is an error in its place.
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

/// The sending half.
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
            // The kernel insists on the length of the headers of what it is to cut.
            let headers = match frame.offload.gso {
                Gso::None => 0,
                _ => Headers::parse(frame.head()).map_or(0, |read| read.payload),
            };
            let header = frame.offload.encode(u16::try_from(headers).unwrap_or(0));
            self.arena.add(&header, batch, frame);
        }
        if self.arena.is_empty() {
            return;
        }
        let report = self.outbox.send(self.socket.as_fd(), None, &self.arena, 0);
        self.arena.clear();
        report.count(&self.counters, Offload::BYTES);
    }
}
