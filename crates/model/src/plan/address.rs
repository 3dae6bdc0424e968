//! Addresses: what the lab gives is kept, the rest is assigned.
//!
//! IPv4 comes from 198.18.0.0/15, set aside for benchmarks (RFC 2544), so that a lab cannot shadow
//! a network in use; IPv6 from one unique local prefix. Assignment depends on nothing
//! but the lab, so the same lab has the same addresses on every machine.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::link::{EndpointPlan, LinkPlan, Medium, NatPlan};
use super::node::{InterfacePlan, NodePlan, Route};
use crate::diagnostic::{Diagnostics, Mark, Spanned};
use crate::kinds::VXLAN_OVERHEAD;
use crate::spec::{Endpoint, Lab, Link, LinkKind, Mac};

/// Smallest MTU that IPv6 runs on (RFC 8200).
const IPV6_MIN_MTU: u32 = 1280;

/// Fills in the nodes' interfaces and returns the links.
pub fn assign(lab: &Lab, nodes: &mut [NodePlan], errors: &mut Diagnostics) -> Vec<LinkPlan> {
    let index: HashMap<String, usize> = nodes
        .iter()
        .enumerate()
        .map(|(i, n)| (n.name.clone(), i))
        .collect();
    let mut pool = Pool::of(lab);
    let mut links = Vec::new();
    for (number, link) in lab.links.iter().enumerate() {
        let mtu = link.mtu.map_or(default_mtu(link), |m| m.value);
        let mut net = LinkAddresses::new(link, mtu, &mut pool, errors);
        let mut endpoints = Vec::new();
        for (position, end) in link.endpoints.iter().enumerate() {
            let Some(&node) = index.get(end.node.as_str()) else {
                continue;
            };
            let addresses = net.of_end(position, end, errors);
            let own = || mac(&lab.name, number, position);
            let mac = end.mac.map_or_else(own, |m| m.value);
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
        let mut ends = endpoints.iter();
        let has_vms = ends.any(|end: &EndpointPlan| nodes[end.node].kind().is_guest());
        let medium = Medium::of(link, mtu, has_vms, net.nat, &mut || {
            let net = pool.subnet(false, link, errors);
            let mut subnet = net.map(|n| Subnet::new(n, HashSet::new()));
            let ends = link.endpoints.iter();
            ends.filter_map(|_| subnet.as_mut()?.next()).collect()
        });
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
    find_overlaps(lab, nodes, errors);
    links
}

fn default_mtu(link: &Link) -> u32 {
    match link.kind.value {
        LinkKind::Vxlan => 1500 - VXLAN_OVERHEAD,
        LinkKind::Overlay => 1500 - link.carrier().overhead(),
        _ => 1500,
    }
}

/// Subnets of links, and the networks of addresses.
fn given(lab: &Lab) -> impl Iterator<Item = IpNet> + '_ {
    let ends = lab.links.iter().flat_map(|link| &link.endpoints);
    let addresses = ends.flat_map(|end| &end.addresses);
    let subnets = lab.links.iter().flat_map(|link| &link.subnets);
    subnets.chain(addresses).map(|net| net.value.trunc())
}

struct Pool {
    next_v4: u32,
    next_v6: u16,
    /// Smallest number of host bits: a /24 unless the lab has hundreds of links, because people read
    /// those; else what fits.
    min_bits: u32,
    exhausted: bool,
    /// Networks that the lab itself gives, of either family.
    given: Vec<IpNet>,
}

/// Addresses in 198.18.0.0/15.
const POOL_V4: u32 = 1 << 17;
/// A /24.
const READABLE_BITS: u32 = 8;

impl Pool {
    fn of(lab: &Lab) -> Pool {
        let wanted: u64 = lab
            .links
            .iter()
            .map(|l| {
                let subnets = match l.kind.value {
                    LinkKind::Nat | LinkKind::Vxlan | LinkKind::Overlay => 2,
                    _ => 1,
                };
                subnets << Pool::bits(l.endpoints.len(), READABLE_BITS)
            })
            .sum();
        Pool {
            next_v4: 0,
            next_v6: 0,
            min_bits: if wanted <= u64::from(POOL_V4) {
                READABLE_BITS
            } else {
                0
            },
            exhausted: false,
            given: given(lab).collect(),
        }
    }

    fn is_given(&self, net: &IpNet) -> bool {
        let mut given = self.given.iter();
        given.any(|other| other.contains(net) || net.contains(other))
    }

    /// Host bits for the ends of a link, its router's two sides, and the subnet's first and last
    /// address, which name the whole.
    fn bits(ends: usize, min_bits: u32) -> u32 {
        (usize::BITS - (ends + 3).leading_zeros()).max(min_bits)
    }

    fn v4(&mut self, ends: usize) -> Option<IpNet> {
        let bits = Pool::bits(ends, self.min_bits);
        let size = 1u32.checked_shl(bits)?;
        let base = u32::from(Ipv4Addr::new(198, 18, 0, 0));
        loop {
            let start = self.next_v4.checked_next_multiple_of(size)?;
            let end = start.checked_add(size).filter(|e| *e <= POOL_V4)?;
            self.next_v4 = end;
            let net = Ipv4Net::new(Ipv4Addr::from(base + start), 32 - bits as u8);
            let net = IpNet::V4(net.ok()?);
            if !self.is_given(&net) {
                return Some(net);
            }
        }
    }

    fn v6(&mut self) -> Option<IpNet> {
        loop {
            let net = Ipv6Addr::new(0xfd4c, 0x0061, 0x0062, self.next_v6, 0, 0, 0, 0);
            self.next_v6 = self.next_v6.checked_add(1)?;
            let net = IpNet::V6(Ipv6Net::new(net, 64).ok()?);
            if !self.is_given(&net) {
                return Some(net);
            }
        }
    }

    fn subnet(&mut self, ipv6: bool, link: &Link, errors: &mut Diagnostics) -> Option<IpNet> {
        let net = if ipv6 {
            self.v6()
        } else {
            self.v4(link.endpoints.len())
        };
        // One message is enough: every later link lacks one too.
        if net.is_none() && !self.exhausted {
            self.exhausted = true;
            let message = format!("no subnet is left for link `{}`", *link.name);
            let hint = "198.18.0.0/15 is all assigned; give some links their own `subnets:`";
            errors.add(link.at, message, hint);
        }
        net
    }
}

struct Subnet {
    net: IpNet,
    used: HashSet<IpAddr>,
    last: u128,
}

impl Subnet {
    fn new(net: IpNet, used: HashSet<IpAddr>) -> Subnet {
        let net = net.trunc();
        Subnet { net, used, last: 0 }
    }

    fn next(&mut self) -> Option<IpNet> {
        loop {
            self.last = self.last.checked_add(1)?;
            let candidate = match self.net.network() {
                IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from(
                    u32::from(a).checked_add(u32::try_from(self.last).ok()?)?,
                )),
                IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from(u128::from(a).checked_add(self.last)?)),
            };
            let last = match &self.net {
                IpNet::V4(n) => candidate == n.broadcast(),
                IpNet::V6(_) => false,
            };
            if last || !self.net.contains(&candidate) {
                return None;
            }
            if !self.used.contains(&candidate) {
                return IpNet::new(candidate, self.net.prefix_len()).ok();
            }
        }
    }

    /// The next address, for `whom`.
    fn take(&mut self, whom: &str, at: Mark, errors: &mut Diagnostics) -> Option<IpNet> {
        let next = self.next();
        if next.is_none() {
            let message = format!("subnet {} has no address left for {whom}", self.net);
            errors.add(
                at,
                message,
                "use a larger subnet, that is, a shorter prefix",
            );
        }
        next
    }
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
        // A `nat` has its first end outside.
        let (outer, inner) = link
            .endpoints
            .split_at(usize::from(is_nat).min(link.endpoints.len()));
        let families: &[bool] = if mtu < IPV6_MIN_MTU {
            &[false]
        } else {
            &[false, true]
        };
        let mut side = |ends: &[Endpoint], number: usize| -> Vec<Subnet> {
            let mut subnets = Vec::new();
            for ipv6 in families.iter().copied() {
                let explicit = link.subnets.iter().filter(|s| s.addr().is_ipv6() == ipv6);
                let explicit = explicit.map(|s| s.value).nth(number);
                let net = side_subnet(link, ends, ipv6, explicit, errors)
                    .or_else(|| pool.subnet(ipv6, link, errors));
                let used = ends.iter().flat_map(|e| &e.addresses).map(|a| a.addr());
                subnets.extend(net.map(|n| Subnet::new(n, used.collect())));
            }
            subnets
        };
        let mut addresses = LinkAddresses {
            main: side(inner, 0),
            outside: if is_nat { side(outer, 1) } else { Vec::new() },
            nat: NatPlan::default(),
            is_nat,
        };
        if is_nat {
            refuse_overlap(link, &addresses.main, &addresses.outside, errors);
            let mut router = |subnets: &mut Vec<Subnet>| -> Vec<IpNet> {
                let whom = format!("the router of link `{}`", *link.name);
                let each = subnets.iter_mut();
                each.filter_map(|s| s.take(&whom, link.at, errors))
                    .collect()
            };
            addresses.nat.inside = router(&mut addresses.main);
            addresses.nat.outside = router(&mut addresses.outside);
        }
        addresses
    }

    /// Addresses of the end at `position`: those given, and one of each family not given.
    fn of_end(&mut self, position: usize, end: &Endpoint, errors: &mut Diagnostics) -> Vec<IpNet> {
        let mut addresses: Vec<IpNet> = end.addresses.iter().map(|a| a.value).collect();
        let whom = format!("`{}:{}`", *end.node, *end.interface);
        let at = end.node.at;
        let outer = self.is_nat && position == 0;
        let subnets = if outer {
            &mut self.outside
        } else {
            &mut self.main
        };
        for subnet in subnets {
            let ipv6 = subnet.net.addr().is_ipv6();
            if addresses.iter().all(|a| a.addr().is_ipv6() != ipv6) {
                addresses.extend(subnet.take(&whom, at, errors));
            }
        }
        if self.is_nat && !outer {
            let whom = format!("{whom} as the outside sees it");
            let outside = self.outside.iter_mut();
            let published = outside.filter_map(|s| s.take(&whom, at, errors));
            self.nat.published.push(published.collect());
        }
        addresses
    }
}

/// The subnet that the text fixes for one side of a link: that of its first fixed address, or one of
/// `subnets:`. Every end with fixed addresses must have one in it, or the others cannot reach it.
fn side_subnet(
    link: &Link,
    ends: &[Endpoint],
    ipv6: bool,
    explicit: Option<IpNet>,
    errors: &mut Diagnostics,
) -> Option<IpNet> {
    let of_family = |end: &Endpoint| -> Vec<Spanned<IpNet>> {
        let all = end.addresses.iter().copied();
        all.filter(|a| a.addr().is_ipv6() == ipv6).collect()
    };
    let first = ends.iter().flat_map(of_family).next();
    let net = explicit.or(first.map(|a| a.value))?.trunc();
    for end in ends {
        let given = of_family(end);
        if let (Some(wrong), true) = (given.first(), given.iter().all(|a| a.trunc() != net)) {
            let (node, interface) = (&*end.node, &*end.interface);
            let message = format!(
                "address {} of `{node}:{interface}` is not in {net}, the subnet of link `{}`",
                wrong.value, *link.name
            );
            let hint =
                "the ends of a link reach each other in one subnet; compare the prefix lengths too";
            errors.add(wrong.at, message, hint);
        }
    }
    Some(net)
}

/// Refuses a nat whose two sides have addresses in common: its router could not tell where they are.
fn refuse_overlap(link: &Link, inside: &[Subnet], outside: &[Subnet], errors: &mut Diagnostics) {
    for outer in outside.iter().map(|subnet| subnet.net) {
        let meets = |inner: &IpNet| inner.contains(&outer) || outer.contains(inner);
        let Some(inner) = inside.iter().map(|subnet| subnet.net).find(meets) else {
            continue;
        };
        let of_ends = link.endpoints.iter().take(1).flat_map(|end| &end.addresses);
        let mut given = link.subnets.iter().rev().chain(of_ends);
        let given = given.find(|net| net.value.trunc() == outer);
        let message = format!(
            "the outside of link `{}`, {outer}, overlaps its inside, {inner}",
            *link.name
        );
        let hint = "a nat routes between two subnets: give each side one of its own";
        errors.add(given.map_or(link.at, |net| net.at), message, hint);
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

/// A locally administered unicast address that depends on nothing but the lab.
fn mac(lab: &str, link: usize, position: usize) -> Mac {
    let hash = hash(&format!("{lab}/{link}/{position}"));
    let [.., a, b, c, d, e] = hash.to_be_bytes();
    Mac([0x02, a, b, c, d, e])
}

/// The same on every machine: FNV-1a, which spreads the last byte over few bits only, and MurmurHash3's finalizer, which
/// spreads each bit over all.
pub(crate) fn hash(text: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

fn find_clashes(lab: &Lab, links: &[LinkPlan], nodes: &[NodePlan], errors: &mut Diagnostics) {
    for (spec, link) in lab.links.iter().zip(links) {
        let mut seen: HashMap<IpAddr, &Endpoint> = HashMap::new();
        let mut macs: HashMap<Mac, &Endpoint> = HashMap::new();
        let named = |e: &Endpoint| format!("`{}:{}`", *e.node, *e.interface);
        let mut clash = |what: String, at: Mark, end: &Endpoint, other: &Endpoint| {
            let (end, first, line) = (named(end), named(other), other.node.at.line);
            let message = format!("{what} of {end} is already that of {first} on line {line}");
            errors.add(at, message, "give each end of a link an address of its own");
        };
        for (end, spec_end) in link.endpoints.iter().zip(&spec.endpoints) {
            let interface = &nodes[end.node].interfaces[end.interface];
            for (i, address) in interface.addresses.iter().enumerate() {
                let address = address.addr();
                if let Some(other) = seen.insert(address, spec_end) {
                    let at = spec_end.addresses.get(i).map_or(spec_end.node.at, |a| a.at);
                    clash(format!("address {address}"), at, spec_end, other);
                }
            }
            let mac = interface.mac;
            if let Some(other) = macs.insert(mac, spec_end) {
                let at = spec_end.mac.as_ref().map_or(spec_end.node.at, |m| m.at);
                clash(format!("MAC address {mac}"), at, spec_end, other);
            }
        }
    }
}

/// Nodes with two interfaces in one subnet: the kernel would send through either.
fn find_overlaps(lab: &Lab, nodes: &[NodePlan], errors: &mut Diagnostics) {
    for node in nodes {
        let mut subnets: Vec<(IpAddr, IpAddr, &InterfacePlan, &IpNet)> = Vec::new();
        for interface in &node.interfaces {
            let all = interface.addresses.iter();
            subnets.extend(all.map(|a| (a.network(), a.broadcast(), interface, a)));
        }
        subnets
            .sort_by_key(|(start, _, interface, _)| (*start, interface.link, interface.endpoint));
        // The subnet that reaches furthest so far: what begins inside it overlaps it.
        let mut furthest: Option<&(IpAddr, IpAddr, &InterfacePlan, &IpNet)> = None;
        for this in &subnets {
            let (start, end, interface, address) = this;
            if let Some((_, reach, other, other_address)) = furthest {
                if start <= reach
                    && (interface.link, interface.endpoint) != (other.link, other.endpoint)
                {
                    let message = format!(
                        "`{0}:{1}` ({address}) is in the same subnet as `{0}:{2}` ({other_address})",
                        node.name, interface.name, other.name
                    );
                    let place = &lab.links[interface.link].endpoints[interface.endpoint];
                    let hint = "give each link of a node its own subnet";
                    errors.add(place.interface.at, message, hint);
                }
            }
            if furthest.is_none_or(|(_, reach, ..)| end > reach) {
                furthest = Some(this);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_ends_of_many_labs_have_the_same_mac() {
        // Names that differ in little, as tests and scripts give them.
        let ends = (0..500).flat_map(|lab| (0..20).map(move |link| (lab, link)));
        let macs = ends.flat_map(|(lab, link)| (0..20).map(move |end| (lab, link, end)));
        let macs = macs.map(|(lab, link, end)| mac(&format!("lab-{lab:x}"), link, end).0);
        let different: HashSet<_> = macs.collect();
        assert_eq!(different.len(), 500 * 20 * 20);
    }
}
