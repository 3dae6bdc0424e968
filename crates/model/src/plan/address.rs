//! Addresses: what the lab gives is kept, the rest is assigned.
//!
//! IPv4 comes from 198.18.0.0/15, set aside for benchmarks (RFC 2544), so that a lab cannot shadow
//! a network that somebody uses; IPv6 from one unique local prefix. Assignment depends on nothing
//! but the lab, so the same lab has the same addresses on every machine.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::{EndpointPlan, InterfacePlan, LinkPlan, Medium, NatPlan, NodePlan, Route, VxlanPlan};
use crate::diagnostic::Diagnostics;
use crate::spec::{Lab, Link, LinkKind, Mac};

/// Bytes that VXLAN adds to a frame: inner Ethernet 14, VXLAN 8, UDP 8, IPv4 20 (RFC 7348).
const VXLAN_OVERHEAD: u32 = 50;
/// IANA's port for VXLAN.
const VXLAN_PORT: u16 = 4789;
/// Smallest MTU that IPv6 runs on (RFC 8200).
const IPV6_MIN_MTU: u32 = 1280;

/// Fills in the nodes' interfaces and returns the links.
pub fn assign(lab: &Lab, nodes: &mut [NodePlan], errors: &mut Diagnostics) -> Vec<LinkPlan> {
    let index: HashMap<String, usize> = nodes
        .iter()
        .enumerate()
        .map(|(i, n)| (n.name.clone(), i))
        .collect();
    let mut pool = Pool::default();
    let mut links = Vec::new();
    for (number, link) in lab.links.iter().enumerate() {
        let mtu = link
            .mtu
            .as_ref()
            .map_or(default_mtu(link.kind.value), |m| m.value);
        let mut net = LinkAddresses::new(link, mtu, &mut pool, errors);
        let mut endpoints = Vec::new();
        for (position, end) in link.endpoints.iter().enumerate() {
            let Some(&node) = index.get(end.node.as_str()) else {
                continue;
            };
            let addresses = net.of_end(position, end.addresses.iter().map(|a| a.value));
            let mac = end
                .mac
                .as_ref()
                .map_or_else(|| mac(&lab.name, number, position), |m| m.value);
            endpoints.push(EndpointPlan {
                node,
                interface: nodes[node].interfaces.len(),
                impairment: end.impairment,
            });
            nodes[node].interfaces.push(InterfacePlan {
                name: end.interface.value.clone(),
                mac,
                mtu,
                addresses,
                routes: Vec::new(),
                link: number,
                endpoint: position,
            });
        }
        let medium = net.medium(link, mtu, endpoints.len(), &mut pool);
        if let Medium::Nat(nat) = &medium {
            route_through(nat, &endpoints, nodes);
        }
        links.push(LinkPlan {
            name: link.name.value.clone(),
            medium,
            mtu,
            endpoints,
        });
    }
    find_clashes(lab, &links, nodes, errors);
    links
}

fn default_mtu(kind: LinkKind) -> u32 {
    match kind {
        LinkKind::Vxlan => 1500 - VXLAN_OVERHEAD,
        _ => 1500,
    }
}

/// Hands out subnets, one after the other.
#[derive(Default)]
struct Pool {
    next_v4: u32,
    next_v6: u16,
}

impl Pool {
    /// A subnet for `hosts` addresses; a /24 unless more are needed, because people read those.
    fn v4(&mut self, hosts: usize) -> Option<Ipv4Net> {
        let bits = (usize::BITS - (hosts + 1).leading_zeros()).max(8);
        let size = 1u32.checked_shl(bits)?;
        let start = self.next_v4.div_ceil(size) * size;
        self.next_v4 = start + size;
        let base = u32::from(Ipv4Addr::new(198, 18, 0, 0));
        (self.next_v4 <= 1 << 17)
            .then(|| Ipv4Net::new_assert(Ipv4Addr::from(base + start), 32 - bits as u8))
    }

    fn v6(&mut self) -> Ipv6Net {
        let net = Ipv6Addr::new(0xfd4c, 0x0061, 0x0062, self.next_v6, 0, 0, 0, 0);
        self.next_v6 += 1;
        Ipv6Net::new_assert(net, 64)
    }
}

/// One subnet, handing out host numbers that are free.
struct Subnet {
    net: IpNet,
    used: Vec<IpAddr>,
    last: u128,
}

impl Subnet {
    fn new(net: IpNet, used: &[IpAddr]) -> Subnet {
        Subnet {
            net: net.trunc(),
            used: used.to_vec(),
            last: 0,
        }
    }

    fn next(&mut self) -> Option<IpNet> {
        let base = self.net.network();
        for number in self.last + 1.. {
            let candidate = match base {
                IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from(
                    u32::from(a).checked_add(u32::try_from(number).ok()?)?,
                )),
                IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from(u128::from(a).checked_add(number)?)),
            };
            let last = match &self.net {
                IpNet::V4(n) => candidate == n.broadcast(),
                IpNet::V6(_) => false,
            };
            if last || !self.net.contains(&candidate) {
                return None;
            }
            self.last = number;
            if !self.used.contains(&candidate) {
                return Some(with_prefix(candidate, self.net.prefix_len()));
            }
        }
        None
    }
}

fn with_prefix(address: IpAddr, length: u8) -> IpNet {
    IpNet::new(address, length).unwrap_or_else(|_| IpNet::from(address))
}

/// The subnets of one link while its ends are numbered. For a `nat`, `main` is the inside.
struct LinkAddresses {
    main: Vec<Subnet>,
    outside: Vec<Subnet>,
    nat: NatPlan,
    is_nat: bool,
}

impl LinkAddresses {
    fn new(link: &Link, mtu: u32, pool: &mut Pool, errors: &mut Diagnostics) -> LinkAddresses {
        let is_nat = link.kind.value == LinkKind::Nat;
        let given = |wanted: bool| -> Vec<IpAddr> {
            let ends = link.endpoints.iter().enumerate();
            let ends = ends.filter(|(i, _)| !is_nat || (*i == 0) == wanted);
            ends.flat_map(|(_, e)| e.addresses.iter().map(|a| a.addr()))
                .collect()
        };
        let (inner_used, outer_used) = (given(false), given(true));
        let used = if is_nat { &inner_used } else { &outer_used };
        let mut subnets = link.subnets.iter();
        let mut family = |ipv6: bool, used: &[IpAddr], inner: bool, errors: &mut Diagnostics| {
            if ipv6 && mtu < IPV6_MIN_MTU {
                return None;
            }
            let explicit = subnets
                .clone()
                .find(|n| n.addr().is_ipv6() == ipv6)
                .map(|n| n.value);
            if explicit.is_some() && !inner {
                // The inner subnet of that family was used; a second one is the outer.
                subnets.next();
            }
            let from_ends = link
                .endpoints
                .iter()
                .enumerate()
                .filter(|(i, _)| !is_nat || (*i == 0) != inner);
            let from_ends = from_ends
                .flat_map(|(_, e)| e.addresses.iter())
                .find(|a| a.addr().is_ipv6() == ipv6)
                .map(|a| a.value);
            let chosen = from_ends.or(if inner { explicit } else { None });
            let net = match chosen {
                Some(net) => net,
                None if ipv6 => IpNet::V6(pool.v6()),
                None => match pool.v4(link.endpoints.len() + 2) {
                    Some(net) => IpNet::V4(net),
                    None => {
                        let hint = "give `subnets:` to some links; 198.18.0.0/15 is all assigned";
                        errors.add(link.at, "no IPv4 subnet is left for this link", hint);
                        return None;
                    }
                },
            };
            Some(Subnet::new(net, used))
        };
        let main: Vec<Subnet> = [false, true]
            .into_iter()
            .filter_map(|v6| family(v6, used, true, errors))
            .collect();
        let outside: Vec<Subnet> = match is_nat {
            true => [false, true]
                .into_iter()
                .filter_map(|v6| family(v6, &outer_used, false, errors))
                .collect(),
            false => Vec::new(),
        };
        let mut link = LinkAddresses {
            main,
            outside,
            nat: NatPlan {
                outside: vec![],
                inside: vec![],
                published: vec![],
            },
            is_nat,
        };
        if is_nat {
            link.nat.inside = link.main.iter_mut().filter_map(Subnet::next).collect();
            link.nat.outside = link.outside.iter_mut().filter_map(Subnet::next).collect();
        }
        link
    }

    /// Addresses of the end at `position`: those given, and one of each family not given.
    fn of_end(&mut self, position: usize, given: impl Iterator<Item = IpNet>) -> Vec<IpNet> {
        let mut addresses: Vec<IpNet> = given.collect();
        let outer = self.is_nat && position == 0;
        let subnets = if outer {
            &mut self.outside
        } else {
            &mut self.main
        };
        for subnet in subnets {
            let ipv6 = subnet.net.addr().is_ipv6();
            if addresses.iter().all(|a| a.addr().is_ipv6() != ipv6) {
                addresses.extend(subnet.next());
            }
        }
        if self.is_nat && position > 0 {
            let outside = self.outside.iter_mut();
            self.nat
                .published
                .push(outside.filter_map(Subnet::next).collect());
        }
        addresses
    }

    fn medium(self, link: &Link, mtu: u32, ends: usize, pool: &mut Pool) -> Medium {
        match link.kind.value {
            LinkKind::Veth => Medium::Veth,
            LinkKind::Bridge => Medium::Bridge,
            LinkKind::Nat => Medium::Nat(self.nat),
            LinkKind::Macvlan => Medium::Macvlan {
                parent: link.parent.as_ref().map(|p| p.value.clone()),
            },
            LinkKind::Vxlan => {
                let net = pool.v4(ends).map(IpNet::V4);
                let mut subnet = net.map(|n| Subnet::new(n, &[]));
                let underlay = (0..ends).filter_map(|_| subnet.as_mut()?.next()).collect();
                Medium::Vxlan(VxlanPlan {
                    vni: link.vni.as_ref().map_or(1, |v| v.value),
                    port: link.port.as_ref().map_or(VXLAN_PORT, |p| p.value),
                    underlay_mtu: mtu + VXLAN_OVERHEAD,
                    underlay,
                })
            }
        }
    }
}

/// Inner nodes reach the outer subnet through the router. The outer node needs no route: it sees
/// only the router's own addresses.
fn route_through(nat: &NatPlan, endpoints: &[EndpointPlan], nodes: &mut [NodePlan]) {
    for end in endpoints.iter().skip(1) {
        let routes = nat.inside.iter().filter_map(|gateway| {
            let ipv6 = gateway.addr().is_ipv6();
            let to = nat
                .outside
                .iter()
                .find(|o| o.addr().is_ipv6() == ipv6)?
                .trunc();
            Some(Route {
                to,
                via: gateway.addr(),
            })
        });
        nodes[end.node].interfaces[end.interface]
            .routes
            .extend(routes);
    }
}

/// A locally administered unicast address that depends on nothing but the lab (FNV-1a).
fn mac(lab: &str, link: usize, position: usize) -> Mac {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in format!("{lab}/{link}/{position}").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let b = hash.to_be_bytes();
    Mac([0x02, b[0] ^ b[5], b[1] ^ b[6], b[2] ^ b[7], b[3], b[4]])
}

/// Addresses and MACs used twice on one link, and one node with two interfaces in one subnet.
fn find_clashes(lab: &Lab, links: &[LinkPlan], nodes: &[NodePlan], errors: &mut Diagnostics) {
    for (spec, link) in lab.links.iter().zip(links) {
        let mut seen: HashMap<IpAddr, String> = HashMap::new();
        let mut macs: HashMap<Mac, String> = HashMap::new();
        for (end, spec_end) in link.endpoints.iter().zip(&spec.endpoints) {
            let node = &nodes[end.node];
            let interface = &node.interfaces[end.interface];
            let name = format!("{}:{}", node.name, interface.name);
            for (i, address) in interface.addresses.iter().enumerate() {
                if let Some(other) = seen.insert(address.addr(), name.clone()) {
                    let at = spec_end.addresses.get(i).map_or(spec_end.node.at, |a| a.at);
                    let message =
                        format!("address {} clash: `{name}` and `{other}`", address.addr());
                    errors.add(at, message, "give each end of a link its own address");
                }
            }
            if let Some(other) = macs.insert(interface.mac, name.clone()) {
                let at = spec_end.mac.as_ref().map_or(spec_end.node.at, |m| m.at);
                let message = format!(
                    "MAC address {} clash: `{name}` and `{other}`",
                    interface.mac
                );
                errors.add(at, message, "give each end of a link its own MAC address");
            }
        }
    }
    for (node, spec) in nodes.iter().zip(&lab.nodes) {
        for (i, a) in node.interfaces.iter().enumerate() {
            for b in &node.interfaces[..i] {
                let overlap = a
                    .addresses
                    .iter()
                    .flat_map(|x| b.addresses.iter().map(move |y| (x, y)));
                if let Some((x, y)) = overlap
                    .into_iter()
                    .find(|(x, y)| x.contains(&y.trunc()) || y.contains(&x.trunc()))
                {
                    let message = format!(
                        "node `{}` has `{}` ({x}) and `{}` ({y}) in one subnet: address clash",
                        node.name, a.name, b.name
                    );
                    errors.add(
                        spec.name.at,
                        message,
                        "use different subnets on different links",
                    );
                }
            }
        }
    }
}
