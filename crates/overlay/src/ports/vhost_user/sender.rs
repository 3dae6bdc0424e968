//! Frames of a batch, into a guest's buffers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use latlab_model::overlay::Interrupts;

use super::shared::{Ring, Shared};
use crate::endpoints::{Counters, DropReason, Transmit};
use crate::frames::{Arena, Batch, Frame, Gso, Headers, Offload};
use crate::rings::{Buffers, Delivery, Fault, Outgoing};

/// Ethernet's header and two VLAN tags, beyond the MTU.
const LINK_BYTES: u32 = 14 + 8;

/// A sending half: one for each dispatcher.
#[derive(Debug)]
pub struct Sender {
    port: Arc<Shared>,
    /// The pair that is preferred, when it is enabled.
    preferred: usize,
    work: Work,
    /// Whether the guest was sent to in this pass, and through which pair.
    sent: Option<usize>,
}

/// What is used again for every frame, so that nothing is allocated.
#[derive(Debug, Default)]
struct Work {
    buffers: Buffers,
    arena: Arena,
}

/// What a pass sent.
#[derive(Default)]
struct Pass {
    frames: u64,
    bytes: u64,
    too_long: u64,
    no_buffer: u64,
}

impl Sender {
    /// For one dispatcher of the port.
    pub(super) fn new(port: Arc<Shared>, preferred: usize) -> Sender {
        Sender {
            port,
            preferred,
            work: Work::default(),
            sent: None,
        }
    }

    /// The pair to send through.
    fn pair(&self) -> usize {
        let enabled = usize::from(self.port.enabled_pairs.load(Relaxed));
        self.preferred % enabled.max(1)
    }
}

impl Transmit for Sender {
    fn transmit(&mut self, batch: &Batch, which: &[u16]) {
        let pair = self.pair();
        let first = self.sent.is_none();
        let Sender { port, work, .. } = self;
        let sent = port.pairs[pair].to_guest.with(|ring| {
            if !ring.enabled || !ring.works(port) {
                return None;
            }
            let (pass, fault) = send(port, work, ring, first, batch, which);
            if let Some(fault) = fault {
                ring.stop(port, fault);
            }
            Some(pass)
        });
        match sent.flatten() {
            Some(pass) => {
                pass.count(port.counters());
                let lost = which.len() as u64 - pass.frames - pass.too_long - pass.no_buffer;
                if lost > 0 {
                    port.counters().drop_frames(DropReason::Down, lost);
                }
                self.sent = Some(pair);
            }
            None => port
                .counters()
                .drop_frames(DropReason::Down, which.len() as u64),
        }
    }

    fn flush(&mut self) {
        let Some(pair) = self.sent.take() else { return };
        let to_guest = &self.port.pairs[pair].to_guest;
        to_guest.with(|ring| tell(&self.port, ring));
    }
}

impl Pass {
    fn count(&self, counters: &Counters) {
        if self.frames > 0 {
            counters.sent.add(self.frames, self.bytes);
            counters.copied.fetch_add(self.bytes, Relaxed);
        }
        for (frames, reason) in [
            (self.too_long, DropReason::TooLong),
            (self.no_buffer, DropReason::NoBuffer),
        ] {
            if frames > 0 {
                counters.drop_frames(reason, frames);
            }
        }
    }
}

/// Sends frames through a ring; `first` is whether none was before in this pass.
fn send(
    port: &Shared,
    work: &mut Work,
    ring: &mut Ring,
    first: bool,
    batch: &Batch,
    which: &[u16],
) -> (Pass, Option<Fault>) {
    let mut pass = Pass::default();
    // Only the first frame of a pass is announced early; what follows waits for the flush.
    let mut early = false;
    match port.interrupts() {
        Interrupts::Early => early = first,
        Interrupts::BeforeData if first && !which.is_empty() => ring.interrupt(port.counters()),
        Interrupts::BeforeData | Interrupts::Batch => {}
    }
    let waiting = ring.queue.ready().unwrap_or_default();
    let hinted = usize::from(waiting).min(which.len());
    ring.queue.warm(hinted as u16);
    for &index in which {
        let frame = &batch.frames()[usize::from(index)];
        match deliver(port, work, ring, batch, frame) {
            Ok(Delivery::Done) => {
                pass.frames += 1;
                pass.bytes += u64::from(frame.len);
                if early {
                    early = false;
                    ring.queue.publish();
                    tell(port, ring);
                }
            }
            Ok(Delivery::NoBuffer) => pass.no_buffer += 1,
            Ok(Delivery::TooLong) => pass.too_long += 1,
            Err(fault) => return (pass, Some(fault)),
        }
    }
    ring.queue.publish();
    (pass, None)
}

/// Interrupts the guest if it wants to know of what was published.
fn tell(port: &Shared, ring: &mut Ring) {
    if ring.fault.is_none() && ring.queue.wants_interrupt() {
        ring.interrupt(port.counters());
    }
}

/// A frame as it is, or in the form that the guest has asked for.
#[inline]
fn deliver(
    port: &Shared,
    work: &mut Work,
    ring: &mut Ring,
    batch: &Batch,
    frame: &Frame,
) -> Result<Delivery, Fault> {
    let offload = &frame.offload;
    if offload.gso == Gso::None && frame.len > u32::from(port.mtu) + LINK_BYTES {
        return Ok(Delivery::TooLong);
    }
    if !ring.features.takes_whole(offload)
        || (offload.checksum.is_some() && !ring.features.takes_partial())
    {
        return adapt(work, ring, batch, frame);
    }
    let mut header = [0; 12];
    if *offload != Offload::default() {
        header[..Offload::BYTES].copy_from_slice(&offload.encode(headers_of(frame)));
    }
    let outgoing = Outgoing {
        header,
        header_bytes: ring.features.header_bytes(),
        head: frame.head(),
        rest: batch.rest(frame),
        bytes: frame.len,
    };
    let mergeable = ring.features.mergeable();
    let log = ring.log.as_deref();
    work.buffers
        .deliver(&mut ring.queue, mergeable, outgoing, log)
}

/// Does here what the receiver did not offer to: sums, and cuts large frames.
#[cold]
fn adapt(
    work: &mut Work,
    ring: &mut Ring,
    batch: &Batch,
    frame: &Frame,
) -> Result<Delivery, Fault> {
    let arena = &mut work.arena;
    arena.clear();
    let ready = match frame.offload.gso {
        Gso::None => arena.complete(&[], batch, frame).is_ok(),
        _ => arena.cut(&[], batch, frame, u16::MAX).is_ok(),
    };
    if !ready {
        return Ok(Delivery::TooLong);
    }
    for piece in 0..arena.len() {
        let outgoing = Outgoing {
            header: [0; 12],
            header_bytes: ring.features.header_bytes(),
            head: arena.head(piece),
            rest: arena.rest(piece),
            bytes: u32::try_from(arena.bytes(piece)).unwrap_or(u32::MAX),
        };
        let mergeable = ring.features.mergeable();
        let log = ring.log.as_deref();
        let delivery = work
            .buffers
            .deliver(&mut ring.queue, mergeable, outgoing, log)?;
        if delivery != Delivery::Done {
            return Ok(delivery);
        }
    }
    Ok(Delivery::Done)
}

/// Bytes of a large frame's headers, which its receiver wants to know.
fn headers_of(frame: &Frame) -> u16 {
    match frame.offload.gso {
        Gso::None => 0,
        _ => Headers::parse(frame.head()).map_or(0, |headers| headers.payload as u16),
    }
}
