//! Unicast routes of the main table.

use std::collections::HashSet;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::attribute::{attribute, attributes, ip_of, u32_of};
use crate::error::Error;
use crate::handle::Handle;
use crate::request::Request;

/// A route to be added to the main table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Destination address and prefix length in bits; `0.0.0.0/0` or `::/0` is the default route.
    pub destination: (IpAddr, u8),
    /// The next hop; `None` when the destination is on the link itself.
    pub via: Option<IpAddr>,
    /// Index of the interface packets leave through; may be left to the kernel when `via` is set.
    pub interface: Option<u32>,
}

impl Route {
    /// The request that adds it; fails if the same route is there already.
    pub fn add(&self) -> Request<'static> {
        let message = RouteNetlinkMessage::NewRoute(self.message());
        Request::new(&message, NLM_F_CREATE | NLM_F_EXCL, self.action("add"))
    }

    pub fn remove(&self) -> Request<'static> {
        let message = RouteNetlinkMessage::DelRoute(self.message());
        Request::new(&message, 0, self.action("remove"))
    }

    fn action(&self, verb: &str) -> String {
        let (address, length) = self.destination;
        let via = self
            .via
            .map(|via| format!(" via {via}"))
            .unwrap_or_default();
        let link = self
            .interface
            .map(|index| format!(" on link #{index}"))
            .unwrap_or_default();
        format!("{verb} route {address}/{length}{via}{link}")
    }

    fn message(&self) -> RouteMessage {
        let (address, length) = self.destination;
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: address.into(),
            destination_prefix_length: length,
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Static,
            scope: if self.via.is_some() {
                RouteScope::Universe
            } else {
                RouteScope::Link
            },
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        let attributes = &mut message.attributes;
        attributes.push(RouteAttribute::Destination(address.into()));
        attributes.extend(self.via.map(|via| RouteAttribute::Gateway(via.into())));
        attributes.extend(self.interface.map(RouteAttribute::Oif));
        message
    }
}

/// A unicast route of the main table as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteEntry {
    /// Length of the destination prefix in bits; zero is the default route.
    pub prefix_length: u8,
    /// The destination; `None` for a default route.
    pub destination: Option<IpAddr>,
    pub via: Option<IpAddr>,
    pub interface: Option<u32>,
    pub is_ipv6: bool,
}

impl RouteEntry {
    fn parse(payload: &[u8]) -> Option<Self> {
        let header = RouteHeader::parse(payload).ok()?;
        if header.table != RouteHeader::RT_TABLE_MAIN || header.kind != RouteType::Unicast {
            return None;
        }
        let mut route = Self {
            prefix_length: header.destination_prefix_length,
            destination: None,
            via: None,
            interface: None,
            is_ipv6: u8::from(header.address_family) == libc::AF_INET6 as u8,
        };
        for (kind, value) in attributes(payload.get(12..)?) {
            match kind {
                libc::RTA_DST => route.destination = ip_of(value),
                libc::RTA_GATEWAY => route.via = ip_of(value),
                libc::RTA_OIF => route.interface = u32_of(value),
                _ => {}
            }
        }
        Some(route)
    }
}

/// The destination of a route that delivers to this machine itself.
fn parse_local(payload: &[u8]) -> Option<IpAddr> {
    let header = RouteHeader::parse(payload).ok()?;
    if header.kind != RouteType::Local {
        return None;
    }
    attribute(payload.get(12..)?, libc::RTA_DST).and_then(ip_of)
}

impl Handle {
    /// The IPv6 addresses at which the namespace receives. An address is listed, and may be bound,
    /// before it is here: the kernel joins its multicast group and makes its local route in a work
    /// queue, and until then neighbours cannot resolve it.
    pub fn receiving_ipv6(&mut self) -> Result<HashSet<IpAddr>, Error> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet6;
        let message = RouteNetlinkMessage::GetRoute(message);
        let request = Request::new(&message, 0, "list local routes".into());
        Ok(self.dump(&request, parse_local)?.into_iter().collect())
    }

    /// The unicast routes of the main table, IPv4 and IPv6.
    pub fn routes(&mut self) -> Result<Vec<RouteEntry>, Error> {
        let message = RouteNetlinkMessage::GetRoute(RouteMessage::default());
        let request = Request::new(&message, 0, "list routes".into());
        self.dump(&request, RouteEntry::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_route_names_its_gateway() {
        let route = Route {
            destination: ("0.0.0.0".parse().unwrap(), 0),
            via: Some("10.0.0.1".parse().unwrap()),
            interface: None,
        };
        assert_eq!(route.add().action(), "add route 0.0.0.0/0 via 10.0.0.1");
        assert_eq!(route.message().header.scope, RouteScope::Universe);
    }
}
