//! ICMP echo messages (RFC 792, RFC 4443): the parts that the client needs.

use crate::checksum::checksum;
use crate::net::IcmpSocket;

#[derive(Debug, Clone, Copy)]
pub struct Echo {
    v6: bool,
    socket: IcmpSocket,
    identifier: u16,
}

/// Type, code, checksum, identifier, sequence.
pub const HEADER_BYTES: usize = 8;

impl Echo {
    /// A client's echoes. On a raw socket `identifier` tells them from those of others; on a
    /// datagram socket the kernel replaces and checks it.
    pub fn new(v6: bool, socket: IcmpSocket, identifier: u16) -> Echo {
        Echo {
            v6,
            socket,
            identifier,
        }
    }

    /// Fills in the header of a request around the data that is already there. The 16 bits of
    /// sequence are for people who watch the wire; the client matches by the header in the data.
    pub fn prepare(&self, message: &mut [u8], sequence: u16) {
        message[0] = if self.v6 { 128 } else { 8 };
        message[1..4].fill(0);
        message[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        message[6..8].copy_from_slice(&sequence.to_be_bytes());
        // The kernel computes ICMPv6's checksum itself: it covers the addresses.
        if !self.v6 {
            let sum = checksum(message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// The data of a reply to this client; None for everything else.
    pub fn reply_data<'a>(&self, received: &'a [u8]) -> Option<&'a [u8]> {
        let with_ip_header = !self.v6 && self.socket == IcmpSocket::Raw;
        let message = if with_ip_header {
            after_ipv4_header(received)?
        } else {
            received
        };
        let (header, data) = message.split_at_checked(HEADER_BYTES)?;
        let reply = if self.v6 { 129 } else { 0 };
        let identifier = u16::from_be_bytes([header[4], header[5]]);
        let ours = self.socket == IcmpSocket::Datagram || identifier == self.identifier;
        (header[0] == reply && header[1] == 0 && ours).then_some(data)
    }
}

fn after_ipv4_header(packet: &[u8]) -> Option<&[u8]> {
    let first = *packet.first()?;
    let length = usize::from(first & 0x0f) * 4;
    if first >> 4 != 4 || length < 20 {
        None
    } else {
        packet.get(length..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // By hand: 0x0800 + 0x1234 + 0x0001 + 0x6162 + 0x6300 = 0xde97, whose complement is 0x2168.
        let mut message = *b"\0\0\0\0\0\0\0\0abc";
        Echo::new(false, IcmpSocket::Raw, 0x1234).prepare(&mut message, 1);
        assert_eq!(message[..2], [8, 0]);
        assert_eq!(message[4..8], [0x12, 0x34, 0, 1]);
        // Verified as a receiver does: with its checksum in place a message sums to 0.
        assert_eq!(checksum(&message), 0);
        assert_eq!(u16::from_be_bytes([message[2], message[3]]), 0x2168);
    }

    #[test]
    fn only_replies_to_this_client_count() {
        let echo = Echo::new(false, IcmpSocket::Raw, 7);
        let mut packet = vec![0x45];
        packet.resize(20, 0);
        packet.extend_from_slice(&[0, 0, 0, 0, 0, 7, 0, 9, b'x']);
        assert_eq!(echo.reply_data(&packet), Some(&b"x"[..]));
        for (at, value) in [(0, 0x65), (0, 0x44), (0, 0x4f), (20, 8), (21, 1), (25, 8)] {
            let mut other = packet.clone();
            other[at] = value;
            assert_eq!(echo.reply_data(&other), None, "byte {at} = {value:#x}");
        }
        for length in 0..28 {
            assert_eq!(echo.reply_data(&packet[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn ipv6_and_datagram_sockets_give_no_ip_header() {
        let message = [129, 0, 0, 0, 0, 7, 0, 9, b'x'];
        let data = |socket, id| Echo::new(true, socket, id).reply_data(&message);
        assert_eq!(data(IcmpSocket::Raw, 7), Some(&b"x"[..]));
        assert_eq!(data(IcmpSocket::Raw, 8), None);
        assert_eq!(data(IcmpSocket::Datagram, 8), Some(&b"x"[..]));
        let message = [0, 0, 0, 0, 0, 7, 0, 9];
        let echo = Echo::new(false, IcmpSocket::Datagram, 8);
        assert_eq!(echo.reply_data(&message), Some(&b""[..]));
    }
}
