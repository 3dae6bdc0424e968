//! Offsets of a frame's headers: Ethernet with VLAN tags, IPv4 or IPv6, TCP or UDP.
//!
//! Only as needed for software segmentation. Frames that cannot be segmented (fragments, tunnels) are refused with a
//! reason.

use super::checksum::Sum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refused {
    /// Headers beyond the frame, or longer than any sane sender's.
    #[error("headers that do not fit the frame")]
    Headers,
    /// Neither TCP nor UDP over IP, or not the offload header's protocol.
    #[error("not the protocol that is to be cut")]
    Protocol,
    #[error("a fragment")]
    Fragment,
    /// The checksum is not that of the outermost transport header.
    #[error("a tunnel inside, which only its sender can cut")]
    Tunnel,
    /// More pieces than [`super::MAX_PIECES`]: a few bytes would become many frames.
    #[error("too many pieces")]
    TooMany,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    pub network: usize,
    pub transport: usize,
    pub payload: usize,
    pub ipv6: bool,
    /// TCP; UDP otherwise.
    pub tcp: bool,
}

const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Two tags are in use (802.1ad).
const MAX_TAGS: usize = 2;
const MAX_EXTENSIONS: usize = 4;

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Refused> {
    match bytes.get(at..at + 2) {
        Some(word) => Ok(u16::from_be_bytes([word[0], word[1]])),
        None => Err(Refused::Headers),
    }
}

fn u8_at(bytes: &[u8], at: usize) -> Result<u8, Refused> {
    bytes.get(at).copied().ok_or(Refused::Headers)
}

impl Headers {
    /// Parses the headers of a frame. Errors: frames other than TCP or UDP over IP, with all headers within `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Headers, Refused> {
        let mut at = 12;
        let mut tags = 0;
        let ethertype = loop {
            let kind = u16_at(bytes, at)?;
            at += 2;
            if !matches!(kind, VLAN | SERVICE_VLAN) {
                break kind;
            }
            if tags == MAX_TAGS {
                return Err(Refused::Headers);
            }
            tags += 1;
            at += 2;
        };
        let network = at;
        let (ipv6, protocol, transport) = match ethertype {
            IPV4 => ipv4(bytes, network)?,
            IPV6 => ipv6(bytes, network)?,
            _ => return Err(Refused::Protocol),
        };
        let (tcp, length) = match protocol {
            TCP => (true, usize::from(u8_at(bytes, transport + 12)? >> 4) * 4),
            UDP => (false, 8),
            _ => return Err(Refused::Protocol),
        };
        let payload = transport + length;
        if (tcp && length < 20) || payload > bytes.len() {
            return Err(Refused::Headers);
        }
        Ok(Headers {
            network,
            transport,
            payload,
            ipv6,
            tcp,
        })
    }

    /// End of the IP packet by its length field. `head` holds these headers.
    pub(super) fn end(&self, head: &[u8]) -> usize {
        let (at, more) = if self.ipv6 { (4, 40) } else { (2, 0) };
        let at = self.network + at;
        self.network + more + usize::from(u16::from_be_bytes([head[at], head[at + 1]]))
    }

    /// Sum of the pseudo header, with `behind` bytes from the transport header on (RFC 9293, 3.1; RFC 8200, 8.1).
    pub(super) fn pseudo(&self, head: &[u8], behind: usize) -> Sum {
        let addresses = if self.ipv6 { 8..40 } else { 12..20 };
        let mut sum = Sum::default();
        sum.add(&head[self.network..][addresses]);
        sum.add_number(u32::from(if self.tcp { TCP } else { UDP }));
        sum.add_number(u32::try_from(behind).unwrap_or(u32::MAX));
        sum
    }

    /// Writes the length into the IP header, and its checksum.
    pub(super) fn set_end(&self, head: &mut [u8], end: usize) {
        let (network, transport) = (self.network, self.transport);
        if self.ipv6 {
            put(head, network + 4, end - network - 40);
            return;
        }
        put(head, network + 2, end - network);
        put(head, network + 10, 0);
        let mut sum = Sum::default();
        sum.add(&head[network..transport]);
        head[network + 10..network + 12].copy_from_slice(&sum.finish());
    }
}

/// Stores the low 16 bits of a number in network order.
pub(super) fn put(bytes: &mut [u8], at: usize, number: usize) {
    let low = number.to_be_bytes();
    bytes[at..at + 2].copy_from_slice(&low[low.len() - 2..]);
}

/// Headers and offset of a checksum that is left to compute although no offload header says so, as in Linux' frames
/// through a veth. Such a checksum is the sum of the pseudo header alone. One in 65536 valid ones looks alike, and
/// computing it again gives the same value.
#[must_use]
pub fn uncompleted(frame: &[u8]) -> Option<(Headers, u16)> {
    let headers = Headers::parse(frame).ok()?;
    let behind = headers.end(frame).checked_sub(headers.transport)?;
    let offset = if headers.tcp { 16 } else { 6 };
    let at = headers.transport + usize::from(offset);
    let partial = headers.pseudo(frame, behind).partial();
    (frame[at..at + 2] == partial).then_some((headers, offset))
}

/// Whether it is IPv6 (no), the protocol, and the offset of its header.
fn ipv4(bytes: &[u8], at: usize) -> Result<(bool, u8, usize), Refused> {
    let first = u8_at(bytes, at)?;
    let length = usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || length < 20 {
        return Err(Refused::Headers);
    }
    if u16_at(bytes, at + 6)? & 0x3fff != 0 {
        return Err(Refused::Fragment);
    }
    Ok((false, u8_at(bytes, at + 9)?, at + length))
}

/// As [`ipv4`], behind the extension headers that may precede a segment (RFC 8200, 4.1).
fn ipv6(bytes: &[u8], at: usize) -> Result<(bool, u8, usize), Refused> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    if u8_at(bytes, at)? >> 4 != 6 {
        return Err(Refused::Headers);
    }
    let mut next = u8_at(bytes, at + 6)?;
    let mut transport = at + 40;
    for _ in 0..MAX_EXTENSIONS {
        match next {
            HOP_BY_HOP | DESTINATION => {}
            // The checksum covers the last destination, which is still in the routing header when
            // segments are left (RFC 8200, 8.1).
            ROUTING if u8_at(bytes, transport + 3)? == 0 => {}
            ROUTING => return Err(Refused::Protocol),
            FRAGMENT => return Err(Refused::Fragment),
            _ => return Ok((true, next, transport)),
        }
        next = u8_at(bytes, transport)?;
        transport += 8 + usize::from(u8_at(bytes, transport + 1)?) * 8;
    }
    match next {
        TCP | UDP => Ok((true, next, transport)),
        _ => Err(Refused::Headers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_refused_and_never_panics() {
        let mut random = crate::frames::random::Random(3);
        for _ in 0..200_000 {
            let len = random.below(160) as usize;
            let mut bytes = random.bytes(len);
            // Valid up to the IP version.
            if len > 15 {
                bytes[12..14].copy_from_slice(
                    &[0x0800_u16, 0x86dd, 0x8100, 0x88a8][random.below(4) as usize].to_be_bytes(),
                );
                bytes[14] = [0x45, 0x60, bytes[14]][random.below(3) as usize];
            }
            if let Ok(headers) = Headers::parse(&bytes) {
                assert!(headers.network < headers.transport && headers.payload <= len);
            }
        }
    }
}
