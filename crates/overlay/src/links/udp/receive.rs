//! The receiving half of an endpoint: one socket, many peers.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use latlab_wire::overlay::{PrivateHeader, Vxlan};

use super::endpoint::{Endpoint, Form, PeersView, UdpLink};
use super::reassembly::{Outcome, Reassembly};
use super::sealed::send_handshake;
use super::socket::socket;
use crate::endpoints::{DropReason, Receive};
use crate::frames::{Batch, Gso, Joiner, Offload, Segment, uncompleted};
use crate::links::sys::{self, Inbox};
use crate::sync::lock;

/// Messages per call. Each may be many datagrams that the kernel joined.
const MESSAGES: usize = 32;
/// Bytes per message: the maximum that the kernel joins.
const MESSAGE_BYTES: usize = 1 << 16;

#[derive(Debug)]
pub struct Receiver {
    endpoint: Arc<Endpoint>,
    socket: Arc<OwnedFd>,
    view: PeersView,
    inbox: Inbox,
    messages: usize,
    message: usize,
    from: SocketAddr,
    link: Option<Arc<UdpLink>>,
    /// Datagrams of the open message, and the number of delivered ones.
    parts: Vec<Range<usize>>,
    delivered: usize,
    borrowed: bool,
    reassembly: Reassembly,
    /// Joins TCP segments that were cut for VXLAN.
    joiner: Joiner,
    /// Time of the last batch, while slices are awaited.
    now: Instant,
}

impl Endpoint {
    /// A dispatcher's receiving half, for all links. Errors: an address that is not this host's, or that another
    /// program uses (such as the kernel's vxlan device).
    pub fn receiver(self: &Arc<Endpoint>) -> io::Result<Receiver> {
        let socket = Arc::new(socket(self.local)?);
        sys::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)?;
        lock(&self.sockets).push(socket.clone());
        Ok(Receiver::new(self.clone(), socket))
    }
}

impl Receiver {
    fn new(endpoint: Arc<Endpoint>, socket: Arc<OwnedFd>) -> Receiver {
        Receiver {
            view: PeersView::new(&endpoint),
            from: endpoint.local,
            endpoint,
            socket,
            inbox: Inbox::new(MESSAGES, MESSAGE_BYTES),
            messages: 0,
            message: 0,
            link: None,
            parts: Vec::with_capacity(64),
            delivered: 0,
            borrowed: false,
            reassembly: Reassembly::default(),
            joiner: Joiner::default(),
            now: Instant::now(),
        }
    }

    /// Receives the rest of a frame whose segments exceed one message: its tail arrives in the next message, and joined it
    /// costs the guest one frame instead of two.
    fn continues(&mut self) -> bool {
        if !self.joiner.awaits_more() || self.messages == MESSAGES {
            return false;
        }
        let socket = self.socket.as_fd();
        let more = self.inbox.receive_behind(self.messages, socket);
        let before = self.messages;
        self.messages += more.unwrap_or(0);
        self.messages > before
    }

    fn has_undelivered(&self) -> bool {
        self.delivered < self.parts.len() || self.message < self.messages
    }

    /// Opens the next message: finds its link and its datagrams.
    fn open(&mut self, batch: &mut Batch) {
        let number = self.message;
        self.message += 1;
        self.parts.clear();
        self.delivered = 0;
        let message = self.inbox.message(number);
        let from = self.inbox.from(number);
        if self.link.is_none() || from.ip() != self.from.ip() {
            self.joiner.end(batch);
            self.link = self.view.peers.links.get(&from.ip()).cloned();
        }
        self.from = from;
        let starts = (0..message.len).step_by(message.each);
        self.parts
            .extend(starts.map(|start| start..(start + message.each).min(message.len)));
        if message.truncated {
            self.endpoint.strangers.drop_frames(DropReason::TooLong, 1);
            self.parts.clear();
            return;
        }
        let Some(link) = &self.link else {
            let strangers = self.parts.len() as u64;
            self.endpoint
                .strangers
                .drop_frames(DropReason::Unknown, strangers);
            self.parts.clear();
            return;
        };
        if let Some(sealing) = &link.sealing {
            let socket = self.socket.as_fd();
            let bytes = self.inbox.bytes_mut(number);
            let (refused, answer) = sealing.open(bytes, &mut self.parts);
            if refused > 0 {
                link.config
                    .counters
                    .drop_frames(DropReason::Unauthentic, refused);
            }
            if let Some(answer) = answer {
                send_handshake(socket, &answer, from);
            }
        }
    }

    fn deliver(&mut self, batch: &mut Batch) {
        let Some(link) = self.link.clone() else {
            return;
        };
        let (mut frames, mut bytes) = (0_u64, 0);
        while self.delivered < self.parts.len() && batch.room() > 0 {
            let outcome = match self.endpoint.form {
                Form::Vxlan => self.vxlan(&link, batch),
                Form::Private | Form::Sealed(_) => self.private(&link, batch),
            };
            match outcome {
                Ok(0) => {}
                Ok(len) => {
                    frames += 1;
                    bytes += len as u64;
                    self.borrowed = true;
                }
                Err(reason) => link.config.counters.drop_frames(reason, 1),
            }
        }
        if frames > 0 {
            link.config.counters.received.add(frames, bytes);
        }
    }

    /// Delivers the next datagram as VXLAN; returns the frame's length.
    fn vxlan(&mut self, link: &UdpLink, batch: &mut Batch) -> Result<usize, DropReason> {
        let part = self.parts[self.delivered].clone();
        self.delivered += 1;
        let number = self.message - 1;
        let read = Vxlan::parse(&self.inbox.bytes(number)[part.clone()]);
        let (header, frame) = read.map_err(|_| DropReason::Malformed)?;
        let network = header.network;
        let segment = self
            .inbox
            .segment(number, part.start + Vxlan::BYTES..part.end);
        if self.joiner.join(batch, network, frame, segment) {
            return Ok(frame.len());
        }
        self.joiner.end(batch);
        let offload = implied_offload(frame, link.payload.load(Relaxed));
        batch
            .push(link.config.id, network, offload, [segment])
            .map_err(|_| DropReason::Malformed)?;
        self.joiner.begin(frame, &offload);
        Ok(frame.len())
    }

    /// Delivers the next datagram as a frame in the private form, or as a slice of one; returns the frame's length, or
    /// zero while slices are missing.
    fn private(&mut self, link: &UdpLink, batch: &mut Batch) -> Result<usize, DropReason> {
        let part = self.parts[self.delivered].clone();
        let number = self.message - 1;
        let datagram = &self.inbox.bytes(number)[part.clone()];
        let read = PrivateHeader::parse(datagram);
        self.delivered += 1;
        let (header, slice) = read.map_err(|_| DropReason::Malformed)?;
        if header.origin == self.endpoint.origin {
            return Err(DropReason::Loop);
        }
        let offload = Offload::parse(&header.offload, header.whole as usize)
            .map_err(|_| DropReason::Malformed)?;
        if header.offset == 0 {
            if let Some(parts) = self.following(number, &header, slice.len()) {
                let first = self.delivered - 1;
                let inbox = &self.inbox;
                let pieces = self.parts[first..first + parts]
                    .iter()
                    .map(|part| inbox.segment(number, part.start + PrivateHeader::BYTES..part.end));
                let pushed = push(link, batch, &header, offload, pieces);
                self.delivered = first + parts;
                return pushed;
            }
        }
        let counters = |_| link.config.counters.drop_frames(DropReason::Incomplete, 1);
        match self
            .reassembly
            .add(self.from, &header, slice, self.now, counters)
        {
            Outcome::Waiting => Ok(0),
            Outcome::Refused => Err(DropReason::Malformed),
            Outcome::Whole(header, segment) => push(link, batch, &header, offload, [segment]),
        }
    }

    /// The number of consecutive datagrams, from the current one on, that make up the whole frame in order.
    fn following(&self, number: usize, first: &PrivateHeader, len: usize) -> Option<usize> {
        let mut joined = len;
        let mut parts = 1;
        while joined < first.whole as usize {
            let part = self.parts.get(self.delivered - 1 + parts)?.clone();
            let datagram = &self.inbox.bytes(number)[part];
            let (header, slice) = PrivateHeader::parse(datagram).ok()?;
            let expected = PrivateHeader {
                offset: u32::try_from(joined).ok()?,
                ..*first
            };
            if header != expected {
                return None;
            }
            joined += slice.len();
            parts += 1;
        }
        Some(parts)
    }
}

/// The offloads that a VXLAN header cannot describe. Over a virtual link the kernel's device sends frames with
/// uncomputed checksums, and TCP frames longer than `payload`, the link's maximum.
fn implied_offload(frame: &[u8], payload: usize) -> Offload {
    let Some((headers, offset)) = uncompleted(frame) else {
        return Offload::default();
    };
    let mut offload = Offload {
        checksum: Some((u16::try_from(headers.transport).unwrap_or(0), offset)),
        ..Offload::default()
    };
    let size = payload.saturating_sub(Vxlan::BYTES + headers.payload);
    if headers.tcp && frame.len() + Vxlan::BYTES > payload && size > 0 {
        offload.gso = if headers.ipv6 { Gso::Tcp6 } else { Gso::Tcp4 };
        offload.gso_size = u16::try_from(size).unwrap_or(u16::MAX);
    }
    offload
}

fn push(
    link: &UdpLink,
    batch: &mut Batch,
    header: &PrivateHeader,
    offload: Offload,
    pieces: impl IntoIterator<Item = Segment>,
) -> Result<usize, DropReason> {
    batch
        .push(link.config.id, header.network, offload, pieces)
        .map_err(|_| DropReason::Malformed)?;
    if let Some(frame) = batch.last_mut() {
        frame.hops = header.hops;
        frame.origin = header.origin;
    }
    Ok(header.whole as usize)
}

impl Receive for Receiver {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        if !self.has_undelivered() && !self.borrowed {
            self.view.refresh(&self.endpoint);
            self.link = None;
            self.message = 0;
            // Errors are reported once (an ICMP message) or for ever; either way the peer is not reachable.
            self.messages = self.inbox.receive(self.socket.as_fd()).unwrap_or(0);
            if self.messages > 0 {
                self.now = Instant::now();
            }
            if !self.reassembly.is_empty() {
                self.now = Instant::now();
                let peers = &self.view.peers;
                self.reassembly.expire(self.now, |from| {
                    if let Some(link) = peers.links.get(&from.ip()) {
                        link.config.counters.drop_frames(DropReason::Incomplete, 1);
                    }
                });
            }
        }
        let before = batch.frames().len();
        while batch.room() > 0 && (self.has_undelivered() || self.continues()) {
            if self.delivered == self.parts.len() {
                self.open(batch);
            }
            self.deliver(batch);
        }
        self.joiner.end(batch);
        // Joined segments count as one frame. Counted apart, every wakeup would seem to justify polling.
        batch.frames().len() - before
    }

    fn complete(&mut self) {
        self.borrowed = false;
        self.reassembly.complete();
    }

    fn wakeup(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn arm(&mut self) -> bool {
        // The socket stays readable; only messages that were taken from it already matter.
        self.has_undelivered()
    }

    fn disarm(&mut self) {}
}
