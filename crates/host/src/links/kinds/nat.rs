//! `nat`: what Docker's users get. The first end is outside, all others are inside.
//!
//! ```text
//! outside node ── outside ─ router ─ inside ─ p1 ── inside node
//!                 └────────── @LINK (a switch) ─ p2 ── inside node
//! ```
//!
//! The link's namespace is the router. Connections from inside to outside are masqueraded: the
//! outside sees the router's address. Every inside node has a published address in the outside
//! subnet; what is sent there is translated to it, for TCP, UDP and ICMP alike. Both pass the
//! kernel's connection tracking, whose cost is part of what such a link measures.

use std::fmt::Write;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use ipnet::IpNet;
use latlab_model::plan::NatPlan;
use latlab_netlink::{LinkChange, Request};

use crate::links::attach;
use crate::links::builder::LinkBuilder;
use crate::links::error::Error;
use crate::links::netns_handle::{NetnsHandle, address};
use crate::links::vm_end::VmEnd;
use crate::sys::netns;
use crate::sys::process::Exit;
use crate::sys::spawn::Spawn;

const OUTSIDE: &str = "outside";
const INSIDE: &str = "inside";

const NFT_TIMEOUT: Duration = Duration::from_secs(10);

/// The router's settings. The link's namespace has no IPv6 by default, so that ports of the switch
/// stay quiet; the two interfaces that route it have it again.
const ROUTER: &[(&str, &str)] = &[
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv6/conf/all/forwarding", "1"),
    ("net/ipv6/conf/outside/disable_ipv6", "0"),
    ("net/ipv6/conf/inside/disable_ipv6", "0"),
];

pub(super) fn make(link: &LinkBuilder<'_>, plan: &NatPlan) -> Result<Vec<VmEnd>, Error> {
    let mut at = NetnsHandle::open(link, link.inside()?)?;
    let switch = at.make_bridge(link, INSIDE)?;
    fix_address(link, &mut at)?;
    let mut taps = Vec::new();
    taps.extend(attach::to_port(link, &mut at, &link.end(0), OUTSIDE)?);
    let inner = link.ends().skip(1);
    taps.extend(attach::to_bridge(link, &mut at, switch, inner)?);
    let set = |(key, value): &(&str, &str)| netns::set_sysctl(key, value);
    let set = at.netns.run(|| ROUTER.iter().try_for_each(set));
    set.and_then(|set| set).map_err(link.failed())?;
    // The rules first: from the moment the router forwards, it translates.
    load_rules(link, plan, &at)?;
    give_addresses(link, plan, &mut at)?;
    Ok(taps)
}

/// Keeps the switch's Ethernet address, which the inside nodes resolve, from changing with its
/// ports: a switch takes the lowest of theirs unless it was given one.
fn fix_address(link: &LinkBuilder<'_>, at: &mut NetnsHandle) -> Result<(), Error> {
    let switch = at.handle.link(INSIDE).map_err(link.refused())?;
    let Some(mac) = switch.and_then(|switch| switch.mac) else {
        return Ok(());
    };
    let change = LinkChange::of(INSIDE).mac(mac).request();
    at.handle.apply(&change).map_err(link.refused())
}

/// The router's own addresses first: masquerading uses the first of a subnet.
fn give_addresses(
    link: &LinkBuilder<'_>,
    plan: &NatPlan,
    at: &mut NetnsHandle,
) -> Result<(), Error> {
    let outside = at.handle.link_index(OUTSIDE).map_err(link.refused())?;
    let inside = at.handle.link_index(INSIDE).map_err(link.refused())?;
    let published = plan.published.iter().flatten();
    let outer = plan.outside.iter().chain(published);
    let outer = outer.map(|net| address(outside, net));
    let inner = plan.inside.iter().map(|net| address(inside, net));
    let requests: Vec<Request<'_>> = outer.chain(inner).collect();
    at.handle.apply_all(&requests).map_err(link.refused())
}

fn load_rules(link: &LinkBuilder<'_>, plan: &NatPlan, at: &NetnsHandle) -> Result<(), Error> {
    let inner = link.ends().skip(1).map(|end| -> Vec<IpAddr> {
        let addresses = link.end(end).interface.addresses.iter();
        addresses.map(IpNet::addr).collect()
    });
    let inner: Vec<Vec<IpAddr>> = inner.collect();
    let nft = Spawn::new("nft", &link.network.lab_id).args(["-f", "-"]);
    let output = nft
        .netns(at.netns.as_fd())
        .run(rules(plan, &inner).as_bytes(), NFT_TIMEOUT)
        .map_err(link.failed())?;
    if output.exit == Exit::Code(0) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = said.lines().next().unwrap_or("it said nothing").to_owned();
    Err(Error::Rules {
        link: link.plan().name.clone(),
        reason,
    })
}

/// The rule set for `nft`; `inner` holds the addresses of every inside end.
///
/// IPv4 masquerades as Docker does. For IPv6 the address is named: the kernel would choose among
/// all addresses of the interface, and the published ones are there too.
fn rules(plan: &NatPlan, inner: &[Vec<IpAddr>]) -> String {
    let mut text = String::from("table inet latlab {\n  chain prerouting {\n");
    text += "    type nat hook prerouting priority dstnat; policy accept;\n";
    for (family, ipv6) in [("ip", false), ("ip6", true)] {
        let map = translations(plan, inner, ipv6);
        if !map.is_empty() {
            let _ = writeln!(
                text,
                "    iifname \"{OUTSIDE}\" dnat {family} to {family} daddr map {{ {map} }}"
            );
        }
    }
    text += "  }\n  chain postrouting {\n";
    text += "    type nat hook postrouting priority srcnat; policy accept;\n";
    let _ = writeln!(
        text,
        "    oifname \"{OUTSIDE}\" meta nfproto ipv4 masquerade"
    );
    if let Some(own) = plan.outside.iter().find(|net| net.addr().is_ipv6()) {
        let _ = writeln!(text, "    oifname \"{OUTSIDE}\" snat ip6 to {}", own.addr());
    }
    text + "  }\n}\n"
}

/// `published : inner` for every inside end that has both in this family.
fn translations(plan: &NatPlan, inner: &[Vec<IpAddr>], ipv6: bool) -> String {
    let pairs = plan.published.iter().zip(inner);
    let pairs = pairs.filter_map(|(published, addresses)| {
        let mut published = published.iter().map(IpNet::addr);
        let outer = published.find(|a| a.is_ipv6() == ipv6)?;
        let inner = addresses.iter().find(|a| a.is_ipv6() == ipv6)?;
        Some(format!("{outer} : {inner}"))
    });
    pairs.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(all: &[&str]) -> Vec<IpNet> {
        all.iter().map(|net| net.parse().unwrap()).collect()
    }

    #[test]
    fn every_inside_end_is_published_in_both_families() {
        let plan = NatPlan {
            outside: nets(&["198.18.1.1/24", "fd00:1::1/64"]),
            inside: nets(&["198.18.0.1/24", "fd00::1/64"]),
            published: vec![
                nets(&["198.18.1.3/24", "fd00:1::3/64"]),
                nets(&["198.18.1.4/24", "fd00:1::4/64"]),
            ],
        };
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let inner = [
            vec![address("198.18.0.2"), address("fd00::2")],
            vec![address("198.18.0.3"), address("fd00::3")],
        ];
        let text = rules(&plan, &inner);
        let v4 = "dnat ip to ip daddr map { 198.18.1.3 : 198.18.0.2, 198.18.1.4 : 198.18.0.3 }";
        assert!(text.contains(v4), "{text}");
        assert!(text.contains("fd00:1::4 : fd00::3"), "{text}");
        assert!(text.contains("snat ip6 to fd00:1::1\n"), "{text}");
    }

    #[test]
    fn without_ipv6_nothing_of_it_is_in_the_rules() {
        let plan = NatPlan {
            outside: nets(&["198.18.1.1/24"]),
            inside: nets(&["198.18.0.1/24"]),
            published: vec![nets(&["198.18.1.3/24"])],
        };
        let text = rules(&plan, &[vec!["198.18.0.2".parse().unwrap()]]);
        assert!(!text.contains("ip6"), "{text}");
        assert!(text.contains("masquerade"), "{text}");
    }
}
