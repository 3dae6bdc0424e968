//! The sending half: frames of a batch, into a guest's buffers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use latlab_model::overlay::Interrupts;

use super::shared::{Ring, Shared};
use crate::endpoints::{Counters, DropReason, Transmit, add_unshared};
use crate::frames::{Arena, Batch, Frame, Gso, Offload};
use crate::rings::{Buffers, Delivery, Direction, Fault, Outgoing};

/// Maximum number of consecutive frames that do not fit because of tiny buffers, which no real driver offers.
const MAX_CRAMPED: u16 = 64;

/// Bytes beyond the MTU: the Ethernet header and two VLAN tags.
const LINK_BYTES: u32 = 14 + 8;

/// The sending half. Flows are spread over the enabled pairs of rings, so that several of the guest's CPUs receive; frames
/// of one flow stay in order.
#[derive(Debug)]
pub struct Sender {
    port: Arc<Shared>,
    work: Work,
    /// Rings that are checked out, by pair: from the first frame of a pass until the flush.
    held: Vec<Option<Box<Ring>>>,
    /// Frames by pair, while they are spread.
    lists: Vec<Vec<u16>>,
}

#[derive(Debug, Default)]
struct Work {
    buffers: Buffers,
    arena: Arena,
}

#[derive(Default)]
struct Pass {
    frames: u64,
    bytes: u64,
    too_long: u64,
    no_buffer: u64,
}

impl Sender {
    pub(super) fn new(port: Arc<Shared>) -> Sender {
        Sender {
            work: Work::default(),
            held: port.pairs.iter().map(|_| None).collect(),
            lists: port.pairs.iter().map(|_| Vec::with_capacity(64)).collect(),
            port,
        }
    }

    fn through(&mut self, pair: usize, batch: &Batch, which: &[u16]) {
        let Sender {
            port, work, held, ..
        } = self;
        let held = &mut held[pair];
        let first = held.is_none();
        if first {
            *held = port.pairs[pair].to_guest.wait();
        }
        let mut pass = Pass::default();
        if let Some(ring) = held {
            if ring.enabled && ring.works(port) {
                let sent = send(port, work, ring, first, (batch, which), &mut pass);
                if let Err(fault) = sent {
                    ring.stop(port, fault);
                }
            }
        }
        pass.count(&port.counters, which.len() as u64);
    }
}

impl Transmit for Sender {
    fn transmit(&mut self, batch: &Batch, which: &[u16]) {
        let enabled = usize::from(self.port.enabled_pairs.load(Relaxed));
        if enabled <= 1 {
            return self.through(0, batch, which);
        }
        let pairs = enabled.min(self.lists.len());
        for &index in which {
            let flow = batch.frames()[usize::from(index)].flow();
            self.lists[flow as usize % pairs].push(index);
        }
        for pair in 0..pairs {
            let mut list = std::mem::take(&mut self.lists[pair]);
            if !list.is_empty() {
                self.through(pair, batch, &list);
                list.clear();
            }
            self.lists[pair] = list;
        }
    }

    fn flush(&mut self) {
        for (held, pair) in self.held.iter_mut().zip(&self.port.pairs) {
            if let Some(mut ring) = held.take() {
                ring.notify(&self.port);
                pair.to_guest.give_back(ring);
            }
        }
    }

    fn runs(&mut self) -> bool {
        let enabled = usize::from(self.port.enabled_pairs.load(Relaxed));
        let pairs = self.held.iter_mut().zip(&self.port.pairs);
        let mut is_any = false;
        for (held, pair) in pairs.take(enabled) {
            if held.is_none() {
                *held = pair.to_guest.wait_for_change();
            }
            let works = |ring: &mut Box<Ring>| ring.enabled && ring.works(&self.port);
            if !held.as_mut().is_some_and(works) {
                return false;
            }
            is_any = true;
        }
        is_any
    }

    fn buffers_left(&mut self) -> Option<usize> {
        let enabled = usize::from(self.port.enabled_pairs.load(Relaxed)).max(1);
        let mut least = None;
        for pair in self.port.pairs.iter().take(enabled) {
            let Some(mut ring) = pair.to_guest.wait() else {
                continue;
            };
            if ring.enabled && ring.works(&self.port) {
                let room = ring.queue.look().map_or(usize::MAX, usize::from);
                least = Some(least.map_or(room, |least: usize| least.min(room)));
            }
            pair.to_guest.give_back(ring);
        }
        least
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Pass {
    /// Adds the results of `frames` frames; the rest found no running ring.
    fn count(&self, counters: &Counters, frames: u64) {
        if self.frames > 0 {
            // One dispatcher at a time holds the sender.
            add_unshared(&counters.sent.frames, self.frames);
            add_unshared(&counters.sent.bytes, self.bytes);
            add_unshared(&counters.sent.copied, self.bytes);
        }
        for (frames, reason) in [
            (self.too_long, DropReason::TooLong),
            (self.no_buffer, DropReason::NoBuffer),
            (
                frames - self.frames - self.too_long - self.no_buffer,
                DropReason::Down,
            ),
        ] {
            if frames > 0 {
                counters.drop_frames(reason, frames);
            }
        }
    }
}

/// Sends frames through a ring; `first`: the first of this pass.
///
/// Counts in place: a copy would wait for all stores to the guest's memory.
fn send(
    port: &Shared,
    work: &mut Work,
    ring: &mut Ring,
    first: bool,
    (batch, which): (&Batch, &[u16]),
    pass: &mut Pass,
) -> Result<(), Fault> {
    // Only the first frame of a pass is signalled early; later ones wait for the flush.
    let mut early = false;
    match port.interrupts() {
        Interrupts::Early => early = first,
        Interrupts::BeforeData if first && !which.is_empty() => ring.interrupt(port),
        Interrupts::BeforeData | Interrupts::Batch => {}
    }
    let waiting = ring.queue.ready().unwrap_or_default();
    let hinted = usize::from(waiting).min(which.len());
    ring.queue.warm(Direction::ToGuest, hinted as u16);
    for &index in which {
        let frame = &batch.frames()[usize::from(index)];
        match deliver(port, work, ring, batch, frame)? {
            Delivery::Done => {
                pass.frames += 1;
                pass.bytes += u64::from(frame.len);
                ring.cramped = 0;
                if early {
                    early = false;
                    ring.queue.publish();
                    ring.notify(port);
                }
            }
            Delivery::NoBuffer => pass.no_buffer += 1,
            Delivery::TooLong => pass.too_long += 1,
            Delivery::Cramped => {
                pass.no_buffer += 1;
                ring.cramped += 1;
                if ring.cramped >= MAX_CRAMPED {
                    return Err(Fault::Cramped);
                }
            }
        }
    }
    ring.queue.publish();
    Ok(())
}

/// Delivers a frame unchanged, or adapted to the features of the guest.
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
        header[..Offload::BYTES].copy_from_slice(&frame.encoded_offload());
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

/// Computes checksums and segments, for a guest without the features.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::PortId;
    use crate::frames::Segment;
    use crate::ports::vhost_user::fuzz;
    use crate::rings::Queue;
    use crate::rings::driver::{Buffer, Driver, Guest};

    const SIZE: u16 = 256;

    #[test]
    fn flows_are_spread_over_enabled_pairs_and_stay_in_order() {
        let guest = Guest::new(4 << 20).unwrap();
        let mut at = Guest::START;
        let mut drivers = Vec::new();
        for pair in 0..3 {
            let mut driver = Driver::new(at, SIZE);
            at = driver.end();
            for head in 0..SIZE {
                let buffer = (1 << 20) + (u64::from(pair * SIZE + head) << 10);
                driver.describe(&guest, head, Buffer::write(Guest::START + buffer, 1024));
                driver.offer(&guest, head);
            }
            drivers.push(driver);
        }
        let queues = drivers
            .iter()
            .map(|d| Queue::new(d.setup(), guest.memory(), None).unwrap());
        // The third pair exists, but is not enabled.
        let mut sender = fuzz::receives(queues.collect(), 2, 1 << 32 | 1 << 15).unwrap();
        let mut batch = Batch::new(128);
        for number in 0..128_u8 {
            let mut frame = [0; 60];
            frame[..13].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, number % 16, 8]);
            frame[59] = number;
            let bytes = Segment::of(Box::leak(Box::new(frame)));
            batch
                .push(PortId(1), 0, Offload::default(), [bytes])
                .unwrap();
        }
        let all: Vec<u16> = (0..128).collect();
        sender.transmit(&batch, &all);
        sender.flush();
        let mut seen = Vec::new();
        for (pair, driver) in drivers.iter_mut().enumerate() {
            let (mut frames, mut last) = (0, [None; 16]);
            while let Some((head, bytes)) = driver.used(&guest) {
                assert_eq!(bytes, 72);
                let buffer =
                    Guest::START + (1 << 20) + ((pair as u64 * 256 + u64::from(head)) << 10);
                let frame = guest.read(buffer + 12, 60);
                let before = last[usize::from(frame[11])].replace(frame[59]);
                assert!(before < Some(frame[59]), "in order");
                frames += 1;
            }
            seen.push((frames, last.map(|l| l.is_some())));
        }
        assert_eq!(seen[0].0 + seen[1].0, 128);
        assert!(
            seen[0].0 >= 16 && seen[1].0 >= 16,
            "both are used: {seen:?}"
        );
        assert_eq!(seen[2].0, 0);
        let both = (0..16).filter(|flow| seen[0].1[*flow] && seen[1].1[*flow]);
        assert_eq!(both.count(), 0, "one pair per flow");
    }
}
