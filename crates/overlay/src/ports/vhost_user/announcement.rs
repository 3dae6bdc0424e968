//! Announces a migrated guest that cannot do so itself (VIRTIO_NET_F_GUEST_ANNOUNCE): a reverse ARP request (RFC 903), as
//! QEMU sends for other devices.

use super::shared::Shared;
use super::sys;
use crate::frames::{Batch, NETWORK_UNKNOWN, Offload};

/// Minimum length of an Ethernet frame, without check sequence.
const FRAME: usize = 60;

#[derive(Debug, Default)]
pub struct Announcement {
    frame: Vec<u8>,
}

impl Announcement {
    /// Sends queued announcements as frames of the guest.
    pub fn announce(&mut self, port: &Shared, batch: &mut Batch) {
        for address in port.announcements() {
            if batch.room() == 0 {
                port.announce(address);
                continue;
            }
            self.frame = reverse_arp(address).to_vec();
            let frame = sys::borrow(&self.frame);
            if batch
                .push(port.id, NETWORK_UNKNOWN, Offload::default(), [frame])
                .is_ok()
            {
                port.counters.received.add(1, FRAME as u64);
            }
        }
    }
}

fn reverse_arp(address: [u8; 6]) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&address);
    frame[12..14].copy_from_slice(&[0x80, 0x35]);
    // Ethernet, IPv4, their lengths, "request reverse".
    frame[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 3]);
    frame[22..28].copy_from_slice(&address);
    frame[32..38].copy_from_slice(&address);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_guest_as_sender_and_target() {
        let frame = reverse_arp([2, 0, 0, 0, 0, 9]);
        assert_eq!(frame[..6], [0xff; 6]);
        assert_eq!(frame[6..12], [2, 0, 0, 0, 0, 9]);
        assert_eq!(frame[22..28], frame[32..38]);
    }
}
