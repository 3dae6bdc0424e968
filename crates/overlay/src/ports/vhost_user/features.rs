//! Features that a vhost-user port offers, and those that a guest accepted.
//!
//! The offered set is fixed in the program: a guest that was started with one set cannot reconnect to a restarted daemon
//! with a smaller one (Open vSwitch's commit a5669fd51: an endless loop of reconnections).

use crate::frames::{Gso, Offload};

const fn bit(number: u32) -> u64 {
    1 << number
}

/// The guest may leave checksums to us (VIRTIO_NET_F_CSUM),
const CSUM: u64 = bit(0);
/// and takes frames without (VIRTIO_NET_F_GUEST_CSUM).
const GUEST_CSUM: u64 = bit(1);
const MTU: u64 = bit(3);
const GUEST_TSO4: u64 = bit(7);
const GUEST_TSO6: u64 = bit(8);
const GUEST_ECN: u64 = bit(9);
const HOST_TSO4: u64 = bit(11);
const HOST_TSO6: u64 = bit(12);
const HOST_ECN: u64 = bit(13);
const MRG_RXBUF: u64 = bit(15);
const STATUS: u64 = bit(16);
const CTRL_VQ: u64 = bit(17);
const GUEST_ANNOUNCE: u64 = bit(21);
const MQ: u64 = bit(22);
/// Written pages are logged (VHOST_F_LOG_ALL).
const LOG_ALL: u64 = bit(26);
const ANY_LAYOUT: u64 = bit(27);
const INDIRECT_DESC: u64 = bit(28);
const EVENT_IDX: u64 = bit(29);
/// Rings can be enabled and disabled (VHOST_USER_F_PROTOCOL_FEATURES).
const PROTOCOL_FEATURES: u64 = bit(30);
const VERSION_1: u64 = bit(32);
const IN_ORDER: u64 = bit(35);
const GUEST_USO4: u64 = bit(54);
const GUEST_USO6: u64 = bit(55);
const HOST_USO: u64 = bit(56);

/// Offered features. `STATUS`, `CTRL_VQ` and `GUEST_ANNOUNCE` are implemented by the VMM, which requires the port's
/// consent.
pub const OFFERED: u64 = CSUM
    | GUEST_CSUM
    | MTU
    | GUEST_TSO4
    | GUEST_TSO6
    | GUEST_ECN
    | HOST_TSO4
    | HOST_TSO6
    | HOST_ECN
    | MRG_RXBUF
    | STATUS
    | CTRL_VQ
    | GUEST_ANNOUNCE
    | MQ
    | LOG_ALL
    | ANY_LAYOUT
    | INDIRECT_DESC
    | EVENT_IDX
    | PROTOCOL_FEATURES
    | VERSION_1
    | IN_ORDER
    | GUEST_USO4
    | GUEST_USO6
    | HOST_USO;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features(u64);

impl Features {
    /// Acknowledged features; none if some were not offered.
    #[must_use]
    pub fn new(bits: u64) -> Option<Features> {
        (bits & !OFFERED == 0).then_some(Features(bits))
    }

    const fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }

    /// Bytes of the virtio header in front of each frame (virtio 1.2, 5.1.6.1).
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        if self.has(MRG_RXBUF) || self.has(VERSION_1) {
            12
        } else {
            10
        }
    }

    /// Whether a frame may span several buffers.
    #[must_use]
    pub const fn mergeable(self) -> bool {
        self.has(MRG_RXBUF)
    }

    #[must_use]
    pub const fn event_index(self) -> bool {
        self.has(EVENT_IDX)
    }

    #[must_use]
    pub const fn indirect(self) -> bool {
        self.has(INDIRECT_DESC)
    }

    #[must_use]
    pub const fn logs(self) -> bool {
        self.has(LOG_ALL)
    }

    /// Whether rings start disabled.
    #[must_use]
    pub const fn enables_rings(self) -> bool {
        self.has(PROTOCOL_FEATURES)
    }

    #[must_use]
    pub const fn may_send(self, offload: &Offload) -> bool {
        let sums = offload.checksum.is_none() || self.has(CSUM);
        let cuts = match offload.gso {
            Gso::None => true,
            Gso::Tcp4 => self.has(HOST_TSO4),
            Gso::Tcp6 => self.has(HOST_TSO6),
            Gso::Udp => self.has(HOST_USO),
        };
        sums && cuts && (!offload.ecn || self.has(HOST_ECN))
    }

    #[must_use]
    pub const fn takes_partial(self) -> bool {
        self.has(GUEST_CSUM)
    }

    #[must_use]
    pub const fn takes_whole(self, offload: &Offload) -> bool {
        let kind = match offload.gso {
            Gso::None => true,
            Gso::Tcp4 => self.has(GUEST_TSO4),
            Gso::Tcp6 => self.has(GUEST_TSO6),
            Gso::Udp => self.has(GUEST_USO4 | GUEST_USO6),
        };
        kind && (!offload.ecn || self.has(GUEST_ECN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_that_were_not_offered_are_refused() {
        assert_eq!(Features::new(1 << 34), None, "packed rings");
        let modern = Features::new(VERSION_1).unwrap();
        assert_eq!(modern.header_bytes(), 12);
        assert_eq!(Features::default().header_bytes(), 10);
    }

    #[test]
    fn large_frames_need_the_receivers_features() {
        let large = Offload {
            gso: Gso::Tcp4,
            ecn: true,
            gso_size: 1448,
            checksum: Some((34, 16)),
            verified: false,
        };
        let plain = Features::new(VERSION_1 | GUEST_CSUM | GUEST_TSO4).unwrap();
        assert!(!plain.takes_whole(&large), "marks congestion");
        let with_ecn = Features::new(VERSION_1 | GUEST_CSUM | GUEST_TSO4 | GUEST_ECN).unwrap();
        assert!(with_ecn.takes_whole(&large));
        assert!(!with_ecn.may_send(&large));
    }
}
