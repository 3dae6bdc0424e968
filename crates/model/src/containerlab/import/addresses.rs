//! Addresses that commands of nodes add become fields of the links' ends, where the lab means the same by them.
//!
//! An end without an address of its own is given one in the subnet of the others, which no command of a topology
//! does. So a field says the same only if all ends of a link have an address in one subnet, and no other link of a
//! node has that subnet.
//!
//! Fields are applied before all commands. So a command stays where it is if one before it does something else to the
//! interface, for example removes its addresses.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::draft::{Draft, End, Link};
use crate::containerlab::commands::{Configures, split};
use crate::diagnostic::Spanned;

/// Takes addresses, and commands that set an interface up, out of the nodes' commands.
pub(super) fn take(draft: &mut Draft<'_>) {
    find(draft);
    let agreeing: Vec<[bool; 2]> = draft
        .links
        .iter()
        .map(|link| [false, true].map(|ipv6| agrees(link, ipv6)))
        .collect();
    let apart = apart(draft, &agreeing);
    let Draft { nodes, links } = draft;
    for (link, (agreeing, apart)) in links.iter_mut().zip(agreeing.iter().zip(&apart)) {
        for end in &mut link.ends {
            for (address, command) in std::mem::take(&mut end.by_command) {
                let family = usize::from(address.addr().is_ipv6());
                if agreeing[family] && apart[family] {
                    end.addresses.push(address);
                    nodes[end.node].exec[command] = None;
                }
            }
        }
    }
}

/// Notes which commands add addresses to ends, and drops those that only set an end up.
fn find(draft: &mut Draft<'_>) {
    let Draft { nodes, links } = draft;
    let mut ends: HashMap<(usize, String), &mut End> = HashMap::new();
    for end in links.iter_mut().flat_map(|link| &mut link.ends) {
        ends.insert((end.node, end.interface.value.clone()), end);
    }
    for (index, node) in nodes.iter_mut().enumerate() {
        let mut others: HashSet<String> = HashSet::new();
        for (number, command) in node.exec.iter_mut().enumerate() {
            let Some(line) = command.as_ref() else {
                continue;
            };
            let words = split(line).unwrap_or_default();
            let configures = Configures::of(&words);
            let interface = configures.as_ref().map(Configures::interface);
            let is_first = |name: &str| !pieces(name).all(|piece| others.contains(piece));
            let end = interface
                .filter(|name| is_first(name))
                .and_then(|name| ends.get_mut(&(index, name.to_owned())));
            match (configures, end) {
                (Some(Configures::Address(_, address)), Some(end)) if is_of_a_host(address) => {
                    end.by_command
                        .push((Spanned::new(address, line.at), number));
                }
                (Some(Configures::Up(_)), Some(_)) => *command = None,
                _ => others.extend(pieces(line).map(str::to_owned)),
            }
        }
    }
}

/// The names that a command or a shell's line may hold, also within words such as `net.ipv6.conf.eth1.mtu`.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let pieces = line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-');
    pieces.filter(|piece| !piece.is_empty())
}

/// Whether an interface of a lab can have it.
fn is_of_a_host(address: IpNet) -> bool {
    let ip = address.addr();
    let names_many = ip.is_ipv4()
        && address.prefix_len() < 31
        && (ip == address.network() || ip == address.broadcast());
    !(ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || names_many)
}

/// Addresses of one family, those of commands included.
fn of_family(end: &End, ipv6: bool) -> impl Iterator<Item = IpNet> {
    let by_command = end.by_command.iter().map(|(address, _)| address.value);
    let all = end
        .addresses
        .iter()
        .map(|address| address.value)
        .chain(by_command);
    all.filter(move |address| address.addr().is_ipv6() == ipv6)
}

/// Whether all ends of the link have an address in one subnet, and no two the same.
fn agrees(link: &Link, ipv6: bool) -> bool {
    let Some(net) = link
        .ends
        .iter()
        .flat_map(|end| of_family(end, ipv6))
        .next()
        .map(|first| first.trunc())
    else {
        return false;
    };
    let mut seen: HashSet<IpAddr> = HashSet::new();
    link.ends.iter().all(|end| {
        let mut own = of_family(end, ipv6).peekable();
        let is_inside = own
            .peek()
            .is_some_and(|_| of_family(end, ipv6).any(|address| address.trunc() == net));
        is_inside && own.all(|address| seen.insert(address.addr()))
    })
}

/// For each link and family: whether no node has another link that agrees and has a part of the same subnet.
fn apart(draft: &Draft<'_>, agreeing: &[[bool; 2]]) -> Vec<[bool; 2]> {
    let mut of_nodes: Vec<Vec<(IpNet, usize)>> = vec![Vec::new(); draft.nodes.len()];
    for (index, link) in draft.links.iter().enumerate() {
        for ipv6 in [false, true]
            .into_iter()
            .filter(|ipv6| agreeing[index][usize::from(*ipv6)])
        {
            for end in &link.ends {
                of_nodes[end.node].extend(of_family(end, ipv6).map(|address| (address, index)));
            }
        }
    }
    let mut apart = vec![[true; 2]; draft.links.len()];
    for mut nets in of_nodes {
        nets.sort_by_key(|(net, link)| (net.network(), *link));
        // The subnet that reaches furthest so far: what begins inside it overlaps it.
        let mut furthest: Option<(IpNet, usize)> = None;
        for (net, link) in nets {
            if let Some((other, before)) = furthest
                .filter(|(other, before)| net.network() <= other.broadcast() && *before != link)
            {
                let family = usize::from(other.addr().is_ipv6());
                apart[link][family] = false;
                apart[before][family] = false;
            }
            if furthest.is_none_or(|(other, _)| net.broadcast() > other.broadcast()) {
                furthest = Some((net, link));
            }
        }
    }
    apart
}
