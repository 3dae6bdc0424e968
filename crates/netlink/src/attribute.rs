//! Reading netlink attributes leniently: what is known is taken, what is not is skipped.
//!
//! The typed parsers of `netlink-packet-route` refuse a whole message when one attribute has a length they do not
//! expect, which a newer kernel may well send. A dump read for inspection wants the opposite.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::NlasIterator;

/// The attributes of `bytes` as (type, value); stops quietly at a truncated one.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(Result::ok).map(|nla| {
        let kind = nla.kind();
        let length = nla.value_length();
        (kind, &nla.into_inner()[4..4 + length])
    })
}

/// The value of the first attribute of this type.
pub(crate) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(other, value)| (other == kind).then_some(value))
}

/// A native-endian u32, if the value has that size.
pub(crate) fn u32_of(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.try_into().ok()?))
}

/// A string without its terminating zero; invalid UTF-8 is replaced.
pub(crate) fn string_of(value: &[u8]) -> String {
    let end = value
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// An IPv4 or IPv6 address, told apart by length.
pub(crate) fn ip_of(value: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(value) {
        return Some(Ipv4Addr::from(octets).into());
    }
    Some(Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_attribute_ends_the_walk() {
        // One good attribute (length 8, type 3), then one that claims more than is there.
        let bytes = [8, 0, 3, 0, 1, 0, 0, 0, 40, 0, 4, 0, 9];
        let seen: Vec<_> = attributes(&bytes).collect();
        assert_eq!(seen, vec![(3, &[1u8, 0, 0, 0][..])]);
    }

    #[test]
    fn values_of_the_wrong_size_are_none() {
        assert_eq!(u32_of(&[1, 2]), None);
        assert_eq!(ip_of(&[10, 0, 0]), None);
        assert_eq!(ip_of(&[10, 0, 0, 1]), Some("10.0.0.1".parse().unwrap()));
        assert_eq!(string_of(b"eth0\0junk"), "eth0");
    }
}
