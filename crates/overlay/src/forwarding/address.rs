//! Ethernet addresses as numbers.

/// An Ethernet address in the lower 48 bits.
pub(super) type Address = u64;

pub(super) const fn address(mac: [u8; 6]) -> Address {
    u64::from_be_bytes([0, 0, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]])
}

pub(super) const fn mac(address: Address) -> [u8; 6] {
    let bytes = address.to_be_bytes();
    [bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]
}

/// Whether an address is a group's: the lowest bit of the first byte (IEEE 802.3, 3.2.3).
pub(super) const fn is_group(address: Address) -> bool {
    address >> 40 & 1 == 1
}
