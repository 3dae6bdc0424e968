//! The receiving half: a guest's frames, into a batch.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::announcement::Announcement;
use super::body::Body;
use super::bounce::Bounce;
use super::shared::{Pair, Ring, Shared};
use crate::endpoints::{DropReason, Receive, add_unshared};
use crate::frames::{Batch, HEAD, MAX_SEGMENTS, NETWORK_UNKNOWN, Offload};
use crate::rings::{Chain, Direction, Fault};

#[derive(Debug)]
pub struct Receiver {
    port: Arc<Shared>,
    pair: usize,
    /// The ring while it is checked out: until the batch is complete or, while a dispatcher polls, until it is wanted for a
    /// change.
    ring: Option<Box<Ring>>,
    /// Whether a dispatcher polls: from [`Receive::disarm`] to [`Receive::arm`].
    is_polled: bool,
    chain: Chain,
    bounce: Bounce,
    announcement: Announcement,
    armed: bool,
    /// Used chains without a completion interrupt yet.
    unsignalled: Option<Unsignalled>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Unsignalled {
    chains: u64,
    bytes: u64,
}

impl Unsignalled {
    /// Whether the completion interrupt may wait: after a large segment, which others follow. It is less than half of a
    /// Linux socket's bytes in flight, so it blocks no program. Small frames are signalled at once: otherwise the guest
    /// frees them on the reply's critical path.
    fn may_wait(self) -> bool {
        self.chains <= 32 && (4 << 10..=68 << 10).contains(&self.bytes)
    }
}

#[derive(Default)]
struct Pass {
    chains: u64,
    frames: u64,
    bytes: u64,
    copied: u64,
    malformed: u64,
}

impl Receiver {
    pub(super) fn new(port: Arc<Shared>, pair: usize) -> Receiver {
        Receiver {
            port,
            pair,
            ring: None,
            is_polled: false,
            chain: Chain::default(),
            bounce: Bounce::default(),
            announcement: Announcement::default(),
            armed: false,
            unsignalled: None,
        }
    }

    fn rings(&self) -> &Pair {
        &self.port.pairs[self.pair]
    }

    /// Takes chains from the ring until the batch is full or the ring is empty.
    fn drain(&mut self, ring: &mut Ring, batch: &mut Batch) -> Result<Pass, (Pass, Fault)> {
        let mut pass = Pass::default();
        let mut left = batch.room();
        let bounce = !self.port.cut_through.load(Relaxed);
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
        // The guest chooses the number of pieces, and every receiver would pay for it.
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
        let counters = &self.port.counters;
        if pass.frames > 0 {
            // Receivers of several pairs may belong to several dispatchers.
            let add = match self.port.pairs.len() {
                1 => add_unshared,
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

    /// Sends the completion interrupt if more frames have come, or if it cannot wait.
    fn signal_if_due(&mut self, ring: &mut Ring) {
        if self.unsignalled.is_some() {
            // The guest's event index shares a cache line with its available index, which is fetched now: read earlier, the
            // line would be fetched twice.
            let more = ring.queue.look().is_ok_and(|ready| ready > 0);
            if more || self.completion_due().is_none() {
                self.unsignalled = None;
                ring.notify(&self.port);
            }
        }
    }

    fn clear_doorbell(&mut self) {
        let kicks = self.rings().doorbell.clear();
        if kicks > 0 {
            self.port.counters.kicks.fetch_add(kicks, Relaxed);
        }
    }
}

impl Receive for Receiver {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let before = batch.frames().len();
        if self.armed {
            self.armed = false;
            self.clear_doorbell();
        }
        if self.pair == 0 {
            self.announcement.announce(&self.port, batch);
        }
        let kept = self.ring.take();
        let Some(mut ring) = kept.or_else(|| self.rings().from_guest.take()) else {
            return batch.frames().len() - before;
        };
        if ring.works(&self.port) {
            self.signal_if_due(&mut ring);
            let pass = match self.drain(&mut ring, batch) {
                Ok(pass) => pass,
                Err((pass, fault)) => {
                    ring.stop(&self.port, fault);
                    pass
                }
            };
            self.count(&pass);
            if pass.chains > 0 {
                let unsignalled = self.unsignalled.get_or_insert_default();
                unsignalled.chains += pass.chains;
                unsignalled.bytes += pass.bytes;
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
        // A ring with a fault publishes nothing more; the VMM restarts it.
        if ring.fault.is_none() {
            ring.queue.publish();
        }
        let slot = &self.rings().from_guest;
        if self.is_polled && !slot.is_wanted() {
            self.ring = Some(ring);
        } else {
            slot.give_back(ring);
        }
    }

    fn completion_due(&self) -> Option<u64> {
        let wait = self.port.tx_coalesce.load(Relaxed);
        let waits = |unsignalled: Unsignalled| (unsignalled.may_wait() && wait > 0).then_some(wait);
        self.unsignalled.and_then(waits)
    }

    fn notify(&mut self) {
        // A thread that stops the ring meanwhile notifies.
        self.unsignalled = None;
        let port = Arc::clone(&self.port);
        match &mut self.ring {
            Some(ring) => ring.notify(&port),
            None => _ = self.rings().from_guest.with(|ring| ring.notify(&port)),
        }
    }

    fn coalesce_window(&self) -> Option<u64> {
        Some(self.port.kick_coalesce.load(Relaxed)).filter(|time| *time > 0)
    }

    fn wakeup(&self) -> BorrowedFd<'_> {
        self.rings().doorbell.as_fd()
    }

    fn arm(&mut self) -> bool {
        self.clear_doorbell();
        self.armed = true;
        self.is_polled = false;
        self.complete();
        if self.unsignalled.is_some() && self.completion_due().is_none() {
            self.notify();
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
        // A ring that is started later rings the doorbell.
        armed.unwrap_or(false)
    }

    fn disarm(&mut self) {
        if self.armed {
            self.armed = false;
            self.clear_doorbell();
        }
        self.is_polled = false;
        self.complete();
        self.rings().from_guest.with(|ring| ring.queue.disarm());
        self.is_polled = true;
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.is_polled = false;
        self.complete();
        self.notify();
    }
}

/// Parses a header; none if it is invalid.
#[inline]
fn offload_of(header: &[u8; 12], bytes: usize) -> Option<Offload> {
    let (classic, _) = header.split_first_chunk::<{ Offload::BYTES }>()?;
    if *classic == [0; Offload::BYTES] {
        return Some(Offload::default());
    }
    let mut offload = Offload::parse(classic, bytes).ok()?;
    // Only the device may set this flag, never the driver.
    offload.verified = false;
    Some(offload)
}
