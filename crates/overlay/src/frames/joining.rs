//! Joins consecutive TCP segments into one large frame, so that a tap's write, a guest's ring or the receiver's stack
//! handles one frame instead of forty.
//!
//! The rules are those of the kernel's receive offload (`tcp_gro_receive`). Segmenting a joined frame gives the original
//! frames, and a segment with a wrong checksum is never joined, because the large frame's would hide that.

use std::ops::Range;

use super::batch::{Batch, HEAD};
use super::checksum::Sum;
use super::headers::Headers;
use super::offload::{Gso, Offload};
use super::sys::Segment;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;

const MAX_PACKET: usize = 0xffff;

#[derive(Debug, Default)]
pub struct Joiner {
    last: Option<Last>,
}

#[derive(Debug)]
struct Last {
    headers: Headers,
    /// The first segment's original head.
    head: [u8; HEAD],
    /// Whether the first segment's checksum is valid, or left to compute.
    is_valid: bool,
    /// Payload of every segment except the last.
    size: usize,
    count: u16,
    payload: usize,
    /// FIN and PSH of the last segment, which end the frame.
    ending: u8,
}

impl Joiner {
    /// Starts joining to the batch's last frame, which is this one.
    pub fn begin(&mut self, frame: &[u8], offload: &Offload) {
        self.last = match offload.gso {
            Gso::None => Last::of(frame, offload),
            _ => None,
        };
    }

    /// Whether the batch's last frame is joined and does not end: more segments are under way.
    #[must_use]
    pub fn awaits_more(&self) -> bool {
        let is_open = |last: &Last| last.ending == 0 && last.payload % last.size == 0;
        self.last
            .as_ref()
            .is_some_and(|last| last.count > 1 && is_open(last))
    }

    /// Joins a frame, which is also in `segment`, to the batch's last one if it continues it; returns whether it does.
    pub fn join(
        &mut self,
        batch: &mut Batch,
        network: u32,
        frame: &[u8],
        segment: Segment,
    ) -> bool {
        let Some(last) = &mut self.last else {
            return false;
        };
        if batch
            .frames()
            .last()
            .is_none_or(|last| last.network != network)
        {
            return false;
        }
        let Some(payload) = last.continued_by(frame) else {
            return false;
        };
        if !is_valid(frame, &last.headers) {
            return false;
        }
        if !last.is_valid {
            // The pseudo header first: the rest may have an odd number of bytes.
            let behind = last.headers.payload - last.headers.transport + last.payload;
            let mut sum = last.headers.pseudo(&last.head, behind);
            batch.sum_last(last.headers.transport, &mut sum);
            last.is_valid = sum.is_valid();
            if !last.is_valid {
                self.last = None;
                return false;
            }
        }
        if !batch.extend_last(segment.slice(payload.start, payload.len())) {
            return false;
        }
        last.count += 1;
        last.ending = frame[last.headers.transport + 13] & (FIN | PSH);
        last.payload += payload.len();
        true
    }

    pub fn end(&mut self, batch: &mut Batch) {
        let Some(last) = self.last.take() else { return };
        if last.count == 1 {
            return;
        }
        let Some(frame) = batch.last_mut() else {
            return;
        };
        let Headers {
            transport,
            payload,
            ipv6,
            ..
        } = last.headers;
        let end = payload + last.payload;
        frame.offload = Offload {
            gso: if ipv6 { Gso::Tcp6 } else { Gso::Tcp4 },
            gso_size: u16::try_from(last.size).unwrap_or(u16::MAX),
            checksum: Some((u16::try_from(transport).unwrap_or(0), 16)),
            ..Offload::default()
        };
        let head = frame.head_mut();
        last.headers.set_end(head, end);
        head[transport + 13] |= last.ending;
        let partial = last.headers.pseudo(head, end - transport).partial();
        head[transport + 16..transport + 18].copy_from_slice(&partial);
    }
}

impl Last {
    fn of(frame: &[u8], offload: &Offload) -> Option<Last> {
        let headers = Headers::parse(frame).ok()?;
        if !headers.tcp || headers.payload > HEAD {
            return None;
        }
        let payload = payload_of(frame, &headers)?;
        let flags = frame[headers.transport + 13];
        if !header_is_valid(frame, &headers) {
            return None;
        }
        // FIN and PSH end a frame; CWR, SYN and others are never joined.
        if payload.is_empty() || flags & !ECE != ACK {
            return None;
        }
        let mut head = [0; HEAD];
        let len = frame.len().min(HEAD);
        head[..len].copy_from_slice(&frame[..len]);
        Some(Last {
            headers,
            head,
            is_valid: offload.checksum.is_some(),
            size: payload.len(),
            count: 1,
            payload: payload.len(),
            ending: 0,
        })
    }

    fn continued_by(&self, frame: &[u8]) -> Option<Range<usize>> {
        let Headers {
            network,
            transport,
            payload,
            ipv6,
            ..
        } = self.headers;
        let (head, ending) = (&self.head, self.ending);
        // All compared bytes precede the payload.
        if frame.len() <= payload || ending != 0 || self.payload % self.size != 0 {
            return None;
        }
        let same = |range: Range<usize>| head[range.clone()] == frame[range];
        let number = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let internet = if ipv6 {
            same(network..network + 4) && same(network + 6..transport)
        } else {
            let before = number(head, network + 4);
            let now = number(frame, network + 4);
            let never_cut = head[network + 6] & 0x40 != 0;
            same(network..network + 2)
                && (now == before.wrapping_add(self.count) || (never_cut && now == before))
                && same(network + 6..network + 10)
                && same(network + 12..transport)
        };
        let position = |bytes: &[u8]| {
            let at = transport + 4;
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let next = position(head).wrapping_add(u32::try_from(self.payload).unwrap_or(0));
        let flags = frame[transport + 13];
        let follows = same(0..network)
            && internet
            && same(transport..transport + 4)
            && position(frame) == next
            && same(transport + 8..transport + 13)
            && flags & !(FIN | PSH) == head[transport + 13]
            && same(transport + 14..transport + 16)
            && same(transport + 18..payload);
        if !follows {
            return None;
        }
        let range = payload_of(frame, &self.headers)?;
        let fits = payload - network + self.payload + range.len() <= MAX_PACKET;
        let fitting = !range.is_empty() && range.len() <= self.size && fits;
        fitting.then_some(range)
    }
}

/// Range of the payload, if the IP length matches the frame's.
fn payload_of(frame: &[u8], headers: &Headers) -> Option<Range<usize>> {
    let end = headers.end(frame);
    (end == frame.len()).then_some(headers.payload..end)
}

/// Whether IPv4's checksum is valid; IPv6 has none.
fn header_is_valid(frame: &[u8], headers: &Headers) -> bool {
    let mut sum = Sum::default();
    sum.add(&frame[headers.network..headers.transport]);
    headers.ipv6 || sum.is_valid()
}

/// Whether a segment's checksums are valid, or TCP's is left to compute.
fn is_valid(frame: &[u8], headers: &Headers) -> bool {
    if !header_is_valid(frame, headers) {
        return false;
    }
    let mut sum = headers.pseudo(frame, frame.len() - headers.transport);
    let at = headers.transport + 16;
    let left = sum.partial() == frame[at..at + 2];
    left || {
        sum.add(&frame[headers.transport..]);
        sum.is_valid()
    }
}
