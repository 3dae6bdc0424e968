//! IPv4 and IPv6 addresses of an interface.
//!
//! Addresses are added without duplicate address detection: a lab assigns its own addresses, and an IPv6 address that
//! stays tentative for a second cannot be bound, so "deployed" would not mean "usable".

use std::net::{IpAddr, Ipv4Addr};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{
    AddressAttribute, AddressHeader, AddressHeaderFlags, AddressMessage,
};

use crate::attribute::{attributes, ip_of, u32_of};
use crate::error::Error;
use crate::handle::Handle;
use crate::request::Request;

const IFA_F_TENTATIVE: u32 = 0x40;
const IFA_F_DADFAILED: u32 = 0x08;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    pub interface: u32,
    pub address: IpAddr,
    /// Length of the subnet prefix in bits.
    pub prefix_length: u8,
}

impl Address {
    /// The request that adds it; fails if the interface has it already.
    pub fn add(&self) -> Request<'static> {
        let message = RouteNetlinkMessage::NewAddress(self.message());
        Request::new(&message, NLM_F_CREATE | NLM_F_EXCL, self.action("add"))
    }

    pub fn remove(&self) -> Request<'static> {
        let message = RouteNetlinkMessage::DelAddress(self.message());
        Request::new(&message, 0, self.action("remove"))
    }

    fn action(&self, verb: &str) -> String {
        let (link, address, length) = (self.interface, self.address, self.prefix_length);
        format!("{verb} address {address}/{length} on link #{link}")
    }

    fn message(&self) -> AddressMessage {
        let mut message = AddressMessage::default();
        message.header.index = self.interface;
        message.header.prefix_len = self.prefix_length;
        message.header.family = self.address.into();
        message.attributes = vec![
            AddressAttribute::Local(self.address),
            AddressAttribute::Address(self.address),
        ];
        match self.address {
            IpAddr::V4(address) => {
                let broadcast = broadcast_of(address, self.prefix_length);
                let broadcast = broadcast.map(AddressAttribute::Broadcast);
                message.attributes.extend(broadcast);
            }
            IpAddr::V6(_) => message.header.flags = AddressHeaderFlags::Nodad,
        }
        message
    }
}

/// The directed broadcast address; /31 and /32 have none (RFC 3021).
fn broadcast_of(address: Ipv4Addr, prefix_length: u8) -> Option<Ipv4Addr> {
    (prefix_length <= 30)
        .then(|| Ipv4Addr::from_bits(address.to_bits() | u32::MAX >> prefix_length))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceAddress {
    pub address: Address,
    /// Still under duplicate address detection: it cannot be used yet.
    pub tentative: bool,
    /// Duplicate address detection found another owner: it will never be usable.
    pub duplicate: bool,
}

impl InterfaceAddress {
    fn parse(payload: &[u8]) -> Option<Self> {
        let header = AddressHeader::parse(payload).ok()?;
        let (mut local, mut peer) = (None, None);
        let mut flags = u32::from(header.flags.bits());
        for (kind, value) in attributes(payload.get(8..)?) {
            match kind {
                libc::IFA_LOCAL => local = ip_of(value),
                libc::IFA_ADDRESS => peer = ip_of(value),
                libc::IFA_FLAGS => flags = u32_of(value)?,
                _ => {}
            }
        }
        // On a point-to-point address, IFA_ADDRESS is the far end; IPv6 often has only that one.
        let address = local.or(peer)?;
        Some(Self {
            address: Address {
                interface: header.index,
                address,
                prefix_length: header.prefix_len,
            },
            tentative: flags & IFA_F_TENTATIVE != 0,
            duplicate: flags & IFA_F_DADFAILED != 0,
        })
    }
}

impl Handle {
    pub fn addresses(&mut self) -> Result<Vec<InterfaceAddress>, Error> {
        let message = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let request = Request::new(&message, 0, "list addresses".into());
        self.dump(&request, InterfaceAddress::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcast_addresses() {
        let of = |address: &str, length| broadcast_of(address.parse().unwrap(), length);
        assert_eq!(of("10.1.2.3", 24), Some(Ipv4Addr::new(10, 1, 2, 255)));
        assert_eq!(of("10.1.2.3", 30), Some(Ipv4Addr::new(10, 1, 2, 3)));
        assert_eq!(of("10.1.2.3", 0), Some(Ipv4Addr::BROADCAST));
        assert_eq!(of("10.1.2.3", 31), None);
        assert_eq!(of("10.1.2.3", 33), None);
    }

    #[test]
    fn ipv6_addresses_skip_duplicate_detection() {
        let address = Address {
            interface: 3,
            address: "fd00::1".parse().unwrap(),
            prefix_length: 64,
        };
        assert_eq!(address.message().header.flags, AddressHeaderFlags::Nodad);
        assert_eq!(address.add().action(), "add address fd00::1/64 on link #3");
    }
}
