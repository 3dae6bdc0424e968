//! What a guest sends, into a batch.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::announcement::Announcement;
use super::bounce::Bounce;
use super::shared::{Pair, Ring, Shared};
use crate::endpoints::{DropReason, Receive, add_alone};
use crate::frames::{Batch, HEAD, MAX_SEGMENTS, NETWORK_UNKNOWN, Offload, Segment};
use crate::rings::{Chain, Direction, Fault, Piece};

/// The receiving half of a pair of rings.
#[derive(Debug)]
pub struct Receiver {
    port: Arc<Shared>,
    pair: usize,
    /// The ring while it is checked out: from the first frame until the batch is complete; while somebody looks
    /// at it again and again, until it is wanted for a change.
    ring: Option<Box<Ring>>,
    /// Whether somebody looks at it again and again, as from [`Receive::disarm`] to [`Receive::arm`].
    attended: bool,
    chain: Chain,
    bounce: Bounce,
    announcement: Announcement,
    armed: bool,
    /// What the guest has back, and was not asked yet whether it wants to be told.
    owed: Option<Owed>,
}

/// Chains of a guest, and their bytes.
#[derive(Debug, Default, Clone, Copy)]
struct Owed {
    chains: u64,
    bytes: u64,
}

impl Owed {
    /// Whether the guest may be told later: of a large segment, which others follow. It is less than half of what a
    /// Linux socket may have under way, so no program stands still for it. Of a small frame a guest is told while it
    /// waits for the answer: later it would find that out when the answer is there, and that would take longer.
    fn may_wait(self) -> bool {
        self.chains <= 32 && (4 << 10..=68 << 10).contains(&self.bytes)
    }
}

/// What a pass received.
#[derive(Default)]
struct Pass {
    chains: u64,
    frames: u64,
    bytes: u64,
    copied: u64,
    malformed: u64,
}

impl Receiver {
    /// For one pair of the port.
    pub(super) fn new(port: Arc<Shared>, pair: usize) -> Receiver {
        Receiver {
            port,
            pair,
            ring: None,
            attended: false,
            chain: Chain::default(),
            bounce: Bounce::default(),
            announcement: Announcement::default(),
            armed: false,
            owed: None,
        }
    }

    fn rings(&self) -> &Pair {
        &self.port.pairs[self.pair]
    }

    /// Takes chains from the ring until the batch is full or the ring is empty.
    fn drain(&mut self, ring: &mut Ring, batch: &mut Batch) -> Result<Pass, (Pass, Fault)> {
        let mut pass = Pass::default();
        let mut left = batch.room();
        let bounce = !self.port.cut_through();
        while left > 0 {
            let ready = match ring.queue.ready() {
                Ok(0) => break,
                Ok(ready) => ready,
                Err(fault) => return Err((pass, fault)),
            };
            let now = usize::from(ready).min(left);
            ring.queue.warm(Direction::FromGuest, now as u16);
            for _ in 0..now {
                self.chain.clear();
                match ring.queue.pop(Direction::FromGuest, &mut self.chain) {
                    Ok(head) => ring.queue.push(head, 0),
                    Err(fault) => return Err((pass, fault)),
                }
                if ring.enabled {
                    self.take(ring, batch, &mut pass, bounce);
                }
            }
            left -= now;
            pass.chains += now as u64;
        }
        Ok(pass)
    }

    /// Takes the frame that lies in the chain.
    #[inline]
    fn take(&mut self, ring: &Ring, batch: &mut Batch, pass: &mut Pass, bounce: bool) {
        let header_bytes = ring.features.header_bytes();
        let Some((header, mut body)) = Body::after(self.chain.pieces(), header_bytes) else {
            pass.malformed += 1;
            return;
        };
        let bytes = self.chain.bytes() as usize - header_bytes;
        let Some(offload) = offload_of(&header, bytes).filter(|o| ring.features.may_send(o)) else {
            pass.malformed += 1;
            return;
        };
        // Many pieces are the guest's choice, and would be every receiver's work.
        let pushed = if bounce || self.chain.pieces().len() > MAX_SEGMENTS {
            pass.copied += bytes as u64;
            let copy = self.bounce.copy(&mut body, bytes);
            batch.push(self.port.id, NETWORK_UNKNOWN, offload, [copy])
        } else {
            pass.copied += bytes.min(HEAD) as u64;
            batch.push(self.port.id, NETWORK_UNKNOWN, offload, body)
        };
        match pushed {
            Ok(()) => {
                pass.frames += 1;
                pass.bytes += bytes as u64;
            }
            Err(_) => pass.malformed += 1,
        }
    }

    fn count(&self, pass: &Pass) {
        let counters = self.port.counters();
        if pass.frames > 0 {
            // Each pair has a receiver, and those may be with several dispatchers.
            let add = match self.port.pairs.len() {
                1 => add_alone,
                _ => |counter: &AtomicU64, more| _ = counter.fetch_add(more, Relaxed),
            };
            add(&counters.received.frames, pass.frames);
            add(&counters.received.bytes, pass.bytes);
            add(&counters.received.copied, pass.copied);
            add(&counters.batches, 1);
        }
        if pass.malformed > 0 {
            counters.drop_frames(DropReason::Malformed, pass.malformed);
        }
    }

    /// Asks the guest whether it wants to know what it was given back, if more has come since or if that cannot wait.
    fn ask(&mut self, ring: &mut Ring) {
        if self.owed.is_some() {
            // The guest's wish lies beside its index, and that line is fetched from its processor now: asked before,
            // it would have been once more.
            let more = ring.queue.look().is_ok_and(|ready| ready > 0);
            if more || self.owes().is_none() {
                self.owed = None;
                ring.tell(&self.port);
            }
        }
    }

    fn hear(&mut self) {
        let kicks = self.rings().doorbell.clear();
        if kicks > 0 {
            self.port.counters().kicks.fetch_add(kicks, Relaxed);
        }
    }
}

impl Receive for Receiver {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let before = batch.frames().len();
        if self.armed {
            self.armed = false;
            self.hear();
        }
        if self.pair == 0 {
            self.announcement.announce(&self.port, batch);
        }
        let kept = self.ring.take();
        let Some(mut ring) = kept.or_else(|| self.rings().from_guest.take()) else {
            return batch.frames().len() - before;
        };
        if ring.works(&self.port) {
            self.ask(&mut ring);
            let pass = match self.drain(&mut ring, batch) {
                Ok(pass) => pass,
                Err((pass, fault)) => {
                    ring.stop(&self.port, fault);
                    pass
                }
            };
            self.count(&pass);
            if pass.chains > 0 {
                let owed = self.owed.get_or_insert_default();
                owed.chains += pass.chains;
                owed.bytes += pass.bytes;
            }
        }
        self.ring = Some(ring);
        batch.frames().len() - before
    }

    fn complete(&mut self) {
        self.bounce.clear();
        let Some(mut ring) = self.ring.take() else {
            return;
        };
        // Of a ring with a mistake nothing more is shown to the guest; the monitor starts it afresh.
        if ring.fault.is_none() {
            ring.queue.publish();
        }
        let slot = &self.rings().from_guest;
        if self.attended && !slot.is_wanted() {
            self.ring = Some(ring);
        } else {
            slot.give_back(ring);
        }
    }

    fn owes(&self) -> Option<u64> {
        let wait = self.port.tx_coalesce();
        let waits = |owed: Owed| (owed.may_wait() && wait > 0).then_some(wait);
        self.owed.and_then(waits)
    }

    fn tell(&mut self) {
        // Of a ring that somebody stops meanwhile, that one tells.
        self.owed = None;
        let port = Arc::clone(&self.port);
        match &mut self.ring {
            Some(ring) => ring.tell(&port),
            None => _ = self.rings().from_guest.with(|ring| ring.tell(&port)),
        }
    }

    fn gathers(&self) -> Option<u64> {
        Some(self.port.kick_coalesce()).filter(|time| *time > 0)
    }

    fn wakeup(&self) -> BorrowedFd<'_> {
        self.rings().doorbell.as_fd()
    }

    fn arm(&mut self) -> bool {
        self.hear();
        self.armed = true;
        self.attended = false;
        self.complete();
        if self.owed.is_some() && self.owes().is_none() {
            self.tell();
        }
        let armed = self.rings().from_guest.with(|ring| {
            if !ring.works(&self.port) {
                return false;
            }
            ring.queue.arm().unwrap_or_else(|fault| {
                ring.stop(&self.port, fault);
                false
            })
        });
        // A ring that is started later rings the bell.
        armed.unwrap_or(false)
    }

    fn disarm(&mut self) {
        if self.armed {
            self.armed = false;
            self.hear();
        }
        self.attended = false;
        self.complete();
        self.rings().from_guest.with(|ring| ring.queue.disarm());
        self.attended = true;
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.attended = false;
        self.complete();
        self.tell();
    }
}

/// A header that was read; none when it cannot be.
#[inline]
fn offload_of(header: &[u8; 12], bytes: usize) -> Option<Offload> {
    let (classic, _) = header.split_first_chunk::<{ Offload::BYTES }>()?;
    if *classic == [0; Offload::BYTES] {
        return Some(Offload::default());
    }
    let mut offload = Offload::parse(classic, bytes).ok()?;
    // That is the device's to say, never the driver's.
    offload.verified = false;
    Some(offload)
}

/// A chain behind its header.
#[derive(Clone)]
pub(super) struct Body<'a> {
    pieces: &'a [Piece],
    at: usize,
}

impl<'a> Body<'a> {
    /// Reads a header of ten or twelve bytes once, over as many pieces as it lies in (CVE-2022-2132 in
    /// DPDK); none when the chain ends in it.
    #[inline]
    fn after(pieces: &'a [Piece], header_bytes: usize) -> Option<([u8; 12], Body<'a>)> {
        let first = pieces.first()?.place;
        match first.read_header() {
            Some(header) if header_bytes == 12 && first.bytes() > 12 => {
                Some((header, Body { pieces, at: 12 }))
            }
            _ => Body::after_pieces(pieces, header_bytes),
        }
    }

    #[cold]
    fn after_pieces(pieces: &'a [Piece], header_bytes: usize) -> Option<([u8; 12], Body<'a>)> {
        let mut header = [0; 12];
        let mut body = Body { pieces, at: 0 };
        let mut read = 0;
        while read < header_bytes {
            let place = body.pieces.first()?.place;
            let here = place.part(body.at, usize::MAX);
            let here = here.read(&mut header[read..header_bytes]);
            read += here;
            body.at += here;
            if body.at == place.bytes() {
                body.pieces = &body.pieces[1..];
                body.at = 0;
            }
        }
        Some((header, body))
    }
}

impl Iterator for Body<'_> {
    type Item = Segment;

    #[inline]
    fn next(&mut self) -> Option<Segment> {
        let (first, rest) = self.pieces.split_first()?;
        let segment = first.place.part(self.at, usize::MAX).segment();
        self.pieces = rest;
        self.at = 0;
        Some(segment)
    }
}
