//! Neighbour entries (ARP, NDP) and forwarding entries of bridges and VXLAN devices.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::neighbour::{
    NeighbourAttribute, NeighbourFlags, NeighbourHeader, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::attribute::{attributes, ip_of};
use crate::error::Error;
use crate::handle::Handle;
use crate::link::MacAddress;
use crate::request::Request;

#[derive(Debug, Clone, Copy)]
pub struct Neighbour;

impl Neighbour {
    /// A permanent entry: `address` is at `mac` on this interface; replaces what was there.
    pub fn permanent(interface: u32, address: IpAddr, mac: MacAddress) -> Request<'static> {
        let mut message = NeighbourMessage::default();
        message.header = NeighbourHeader {
            family: address.into(),
            ifindex: interface,
            state: NeighbourState::Permanent,
            ..NeighbourHeader::default()
        };
        message.attributes = vec![
            NeighbourAttribute::Destination(address.into()),
            NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()),
        ];
        let action = format!("add neighbour {address} at {mac} on link #{interface}");
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        let message = RouteNetlinkMessage::NewNeighbour(message);
        Request::new(&message, flags, action)
    }

    /// Makes a VXLAN device also send every frame of unknown, broadcast or multicast destination
    /// to `remote`: the all-zero forwarding entry, one append per remote endpoint.
    pub fn flood_to(vxlan_index: u32, remote: IpAddr) -> Request<'static> {
        let zero = MacAddress([0; 6]);
        let action = format!("flood link #{vxlan_index} to {remote}");
        let message = forwarding_entry(vxlan_index, zero, remote);
        Request::new(&message, NLM_F_CREATE | NLM_F_APPEND, action)
    }

    /// Tells a VXLAN device that `mac` is behind the tunnel endpoint `remote`.
    pub fn forward(vxlan_index: u32, mac: MacAddress, remote: IpAddr) -> Request<'static> {
        let action = format!("forward {mac} on link #{vxlan_index} to {remote}");
        let message = forwarding_entry(vxlan_index, mac, remote);
        Request::new(&message, NLM_F_CREATE | NLM_F_REPLACE, action)
    }
}

fn forwarding_entry(interface: u32, mac: MacAddress, remote: IpAddr) -> RouteNetlinkMessage {
    let mut message = NeighbourMessage::default();
    message.header = NeighbourHeader {
        family: AddressFamily::Bridge,
        ifindex: interface,
        state: NeighbourState::Permanent,
        flags: NeighbourFlags::Own,
        ..NeighbourHeader::default()
    };
    message.attributes = vec![
        NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()),
        NeighbourAttribute::Destination(remote.into()),
    ];
    RouteNetlinkMessage::NewNeighbour(message)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourEntry {
    pub interface: u32,
    pub address: Option<IpAddr>,
    pub mac: Option<MacAddress>,
}

impl NeighbourEntry {
    fn parse(payload: &[u8]) -> Option<Self> {
        let header = NeighbourHeader::parse(payload).ok()?;
        let mut entry = Self {
            interface: header.ifindex,
            address: None,
            mac: None,
        };
        for (kind, value) in attributes(payload.get(12..)?) {
            match kind {
                libc::NDA_DST => entry.address = ip_of(value),
                libc::NDA_LLADDR => entry.mac = value.try_into().ok().map(MacAddress),
                _ => {}
            }
        }
        Some(entry)
    }
}

impl Handle {
    pub fn neighbours(&mut self) -> Result<Vec<NeighbourEntry>, Error> {
        let message = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
        let request = Request::new(&message, 0, "list neighbours".into());
        self.dump(&request, NeighbourEntry::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_their_action() {
        let remote = "10.0.0.2".parse().unwrap();
        assert_eq!(
            Neighbour::flood_to(4, remote).action(),
            "flood link #4 to 10.0.0.2"
        );
        let mac = MacAddress([2, 0, 0, 0, 0, 9]);
        assert_eq!(
            Neighbour::permanent(4, remote, mac).action(),
            "add neighbour 10.0.0.2 at 02:00:00:00:00:09 on link #4"
        );
    }
}
