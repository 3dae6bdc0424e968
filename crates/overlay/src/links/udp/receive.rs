//! The receiving half of an endpoint: one socket, many peers.

use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use latlab_wire::overlay::{Carried, Vxlan};

use super::reassembly::{Outcome, Reassembly};
use super::{Endpoint, Form, Link, View};
use crate::endpoints::{DropReason, Receive};
use crate::frames::{Batch, Gso, Joiner, Offload, Segment, uncompleted};
use crate::links::sys::Inbox;

/// Messages of one call. Each may be many datagrams that the kernel joined.
const MESSAGES: usize = 32;
/// Room for each: the largest that the kernel joins.
const MESSAGE_BYTES: usize = 1 << 16;

/// A dispatcher's receiving half.
#[derive(Debug)]
pub struct Receiver {
    endpoint: Arc<Endpoint>,
    socket: Arc<OwnedFd>,
    view: View,
    inbox: Inbox,
    /// Messages of the last call, and the one that is being delivered.
    messages: usize,
    message: usize,
    from: SocketAddr,
    link: Option<Arc<Link>>,
    /// The datagrams of that message, and how many are delivered.
    parts: Vec<Range<usize>>,
    delivered: usize,
    /// Batches borrow from the inbox.
    borrowed: bool,
    reassembly: Reassembly,
    /// What VXLAN carries was cut for it.
    joiner: Joiner,
    /// When the last batch was received, while slices are awaited.
    now: Instant,
}

impl Receiver {
    pub(super) fn new(endpoint: Arc<Endpoint>, socket: Arc<OwnedFd>) -> Receiver {
        Receiver {
            view: View::new(&endpoint),
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

    /// Whether more of a frame has arrived that was cut into more than one message takes: its end follows
    /// at its heels, and joined it costs the guest one frame and not two.
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

    fn left(&self) -> bool {
        self.delivered < self.parts.len() || self.message < self.messages
    }

    /// Finds the next message's link and its datagrams.
    fn open(&mut self, batch: &mut Batch) {
        let number = self.message;
        self.message += 1;
        self.parts.clear();
        self.delivered = 0;
        let message = self.inbox.message(number);
        let from = self.inbox.from(number);
        if self.link.is_none() || from.ip() != self.from.ip() {
            self.joiner.end(batch);
            self.link = self.view.table.links.get(&from.ip()).cloned();
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
            let (false_ones, answer) = sealing.open(bytes, &mut self.parts);
            if false_ones > 0 {
                link.spec
                    .counters
                    .drop_frames(DropReason::Unauthentic, false_ones);
            }
            if let Some(answer) = answer {
                super::sealed::send(socket, &answer, from);
            }
        }
    }

    /// Delivers what is left of the open message, as far as there is room.
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
                Err(reason) => link.spec.counters.drop_frames(reason, 1),
            }
        }
        if frames > 0 {
            link.spec.counters.received.add(frames, bytes);
        }
    }

    /// The next datagram is a frame in VXLAN's form. Its length, or why it is none.
    fn vxlan(&mut self, link: &Link, batch: &mut Batch) -> Result<usize, DropReason> {
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
        let offload = left_to_do(frame, link.payload.load(Relaxed));
        batch
            .push(link.spec.id, network, offload, [segment])
            .map_err(|_| DropReason::Malformed)?;
        self.joiner.begin(frame, &offload);
        Ok(frame.len())
    }

    /// The next datagram is a frame in the private form, or a slice of one. The frame's length; zero
    /// when more slices are needed.
    fn private(&mut self, link: &Link, batch: &mut Batch) -> Result<usize, DropReason> {
        let part = self.parts[self.delivered].clone();
        let number = self.message - 1;
        let datagram = &self.inbox.bytes(number)[part.clone()];
        let read = Carried::parse(datagram);
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
                    .map(|part| inbox.segment(number, part.start + Carried::BYTES..part.end));
                let pushed = push(link, batch, &header, offload, pieces);
                self.delivered = first + parts;
                return pushed;
            }
        }
        let counters = |_| link.spec.counters.drop_frames(DropReason::Incomplete, 1);
        match self
            .reassembly
            .add(self.from, &header, slice, self.now, counters)
        {
            Outcome::Waiting => Ok(0),
            Outcome::Refused => Err(DropReason::Malformed),
            Outcome::Whole(header, segment) => push(link, batch, &header, offload, [segment]),
        }
    }

    /// How many of the datagrams from the current one on make the whole frame, when they lie there in
    /// order.
    fn following(&self, number: usize, first: &Carried, len: usize) -> Option<usize> {
        let mut there = len;
        let mut parts = 1;
        while there < first.whole as usize {
            let part = self.parts.get(self.delivered - 1 + parts)?.clone();
            let datagram = &self.inbox.bytes(number)[part];
            let (header, slice) = Carried::parse(datagram).ok()?;
            let expected = Carried {
                offset: u32::try_from(there).ok()?,
                ..*first
            };
            if header != expected {
                return None;
            }
            there += slice.len();
            parts += 1;
        }
        Some(parts)
    }
}

/// What VXLAN does not say: over a virtual wire the kernel's device sends frames with checksums left to
/// compute, and TCP's whole, longer than the wire takes. `payload` is what the wire does take.
fn left_to_do(frame: &[u8], payload: usize) -> Offload {
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

/// Puts a frame of the private form into the batch.
fn push(
    link: &Link,
    batch: &mut Batch,
    header: &Carried,
    offload: Offload,
    pieces: impl IntoIterator<Item = Segment>,
) -> Result<usize, DropReason> {
    batch
        .push(link.spec.id, header.network, offload, pieces)
        .map_err(|_| DropReason::Malformed)?;
    if let Some(frame) = batch.last_mut() {
        frame.hops = header.hops;
        frame.origin = header.origin;
    }
    Ok(header.whole as usize)
}

impl Receive for Receiver {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        if !self.left() && !self.borrowed {
            self.view.refresh(&self.endpoint);
            self.link = None;
            self.message = 0;
            // An error is one that the kernel reports once (an ICMP message), or for ever; both are
            // seen by nobody but a peer that does not answer.
            self.messages = self.inbox.receive(self.socket.as_fd()).unwrap_or(0);
            if self.messages > 0 {
                self.now = Instant::now();
            }
            if !self.reassembly.is_empty() {
                self.now = Instant::now();
                let table = &self.view.table;
                self.reassembly.expire(self.now, |from| {
                    if let Some(link) = table.links.get(&from.ip()) {
                        link.spec.counters.drop_frames(DropReason::Incomplete, 1);
                    }
                });
            }
        }
        let before = batch.frames().len();
        while batch.room() > 0 && (self.left() || self.continues()) {
            if self.delivered == self.parts.len() {
                self.open(batch);
            }
            self.deliver(batch);
        }
        self.joiner.end(batch);
        // Segments that were joined are one frame: counted apart they would make every wake-up look as if it
        // brought so much that polling is worth while.
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
        // The socket itself is what wakes; only what was taken from it already must be told.
        self.left()
    }

    fn disarm(&mut self) {}
}
