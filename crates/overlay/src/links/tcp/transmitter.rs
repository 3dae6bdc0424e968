//! The sending half of a TCP link.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use latlab_wire::overlay::PrivateHeader;

use super::reconnector::Reconnector;
use super::shared::{LENGTH_BYTES, Shared};
use crate::endpoints::{DropReason, Transmit};
use crate::frames::{Arena, Batch};
use crate::links::udp::private_header;

#[derive(Debug)]
pub struct Transmitter {
    shared: Arc<Shared>,
    _reconnector: Arc<Reconnector>,
    arena: Arena,
}

impl Transmitter {
    pub(super) fn new(shared: Arc<Shared>, reconnector: Arc<Reconnector>) -> Transmitter {
        Transmitter {
            shared,
            _reconnector: reconnector,
            arena: Arena::default(),
        }
    }

    fn send(&self) {
        let counters = &self.shared.config.counters;
        let all = self.arena.len();
        let mut current = self.shared.lock();
        let Some(stream) = current.as_mut() else {
            counters.drop_frames(DropReason::Down, all as u64);
            return;
        };
        let taken = match stream.write(&self.arena) {
            Ok(taken) => taken,
            Err(_) => {
                counters.drop_frames(DropReason::Down, all as u64);
                self.shared.end(&mut current);
                return;
            }
        };
        if stream.has_unsent() {
            // The next frame may be long in coming.
            self.shared.wake_reconnector();
        }
        drop(current);
        let overhead = LENGTH_BYTES + PrivateHeader::BYTES;
        let bytes: usize = (0..taken).map(|at| self.arena.bytes(at) - overhead).sum();
        counters.sent.add(taken as u64, bytes as u64);
        if taken < all {
            counters.drop_frames(DropReason::NoBuffer, (all - taken) as u64);
        }
    }
}

impl Transmit for Transmitter {
    fn transmit(&mut self, batch: &Batch, which: &[u16]) {
        let config = &self.shared.config;
        for &number in which {
            let frame = &batch.frames()[usize::from(number)];
            let number = self.shared.number.fetch_add(1, Relaxed);
            match private_header(frame, config.origin, number) {
                Ok(header) => {
                    let mut prefix = [0; LENGTH_BYTES + PrivateHeader::BYTES];
                    let len = u32::try_from(PrivateHeader::BYTES).unwrap_or(0) + frame.len;
                    prefix[..LENGTH_BYTES].copy_from_slice(&len.to_be_bytes());
                    prefix[LENGTH_BYTES..].copy_from_slice(&header.encode());
                    self.arena.add(&prefix, batch, frame);
                }
                Err(reason) => config.counters.drop_frames(reason, 1),
            }
        }
        if !self.arena.is_empty() {
            self.send();
            self.arena.clear();
        }
    }
}
