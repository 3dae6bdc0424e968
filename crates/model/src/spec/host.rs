//! `hosts:` the machines of a lab that lies on several, and what only such a lab may or must say.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use super::link::Link;
use super::name::check_name;
use super::node::Node;
use super::reader::Object;
use super::yaml::Yaml;
use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of, shown};
use crate::kinds::{Carrier, LinkKind};

/// The word of a node that leaves the choice of its host to latlab.
pub const AUTO_HOST: &str = "auto";

/// A machine on which latlab deploys a part of a lab.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    pub name: Spanned<String>,
    /// `ssh:` the destination of ssh(1); none: the machine on which latlab is called.
    pub ssh: Option<Spanned<String>>,
    /// `address:` where the other hosts reach it.
    pub address: Spanned<IpAddr>,
    /// `latlab:` the program there, with words before it if need be.
    pub latlab: Option<Spanned<String>>,
}

pub(super) fn read(yaml: &Yaml, errors: &mut Diagnostics) -> Vec<Host> {
    let all = Object::new(yaml, "`hosts`", errors);
    let mut hosts: Vec<Host> = Vec::new();
    for (name, yaml) in all.entries() {
        let name = Spanned::new(name.value.to_string(), name.at);
        check_name("host", &name, errors);
        if *name == *AUTO_HOST {
            let message =
                "no host can be called `auto`: nodes say so of a host that is to be chosen";
            errors.add(name.at, message, "give it another name");
        }
        let mut o = Object::new(yaml, format!("host `{}`", shown(&name)), errors);
        let ssh = read_ssh(&mut o, errors);
        let latlab = o.get("latlab", errors);
        let address = o.need("address", errors);
        o.finish(errors);
        if let Some(address) = address {
            hosts.push(Host {
                name,
                ssh,
                address,
                latlab,
            });
        }
    }
    check_hosts(&hosts, errors);
    hosts
}

/// `ssh:` a destination of ssh(1), which must not look like an option.
pub(super) fn read_ssh(o: &mut Object<'_>, errors: &mut Diagnostics) -> Option<Spanned<String>> {
    let ssh = o.get::<String>("ssh", errors)?;
    if ssh.starts_with('-') || ssh.is_empty() {
        let message = format!("`{}` is no destination of ssh", shown(&ssh));
        errors.add(ssh.at, message, "for example `root@left.example`");
    }
    Some(ssh)
}

fn check_hosts(hosts: &[Host], errors: &mut Diagnostics) {
    let mut here: Option<&Host> = None;
    let mut addresses: HashMap<IpAddr, &Host> = HashMap::new();
    for host in hosts {
        let name = shown(&host.name);
        let address = host.address.value;
        if address.is_unspecified() || address.is_multicast() {
            let message = format!("host `{name}` cannot have the address {address}");
            errors.add(host.address.at, message, "for example `192.0.2.1`");
        }
        if host.ssh.is_none() {
            if let Some(first) = here.replace(host) {
                let first = shown(&first.name);
                let message = format!("hosts `{first}` and `{name}` are both this machine");
                errors.add(host.name.at, message, "one of them lacks its `ssh:`");
            }
        }
        if let Some(first) = addresses.insert(host.address.value, host) {
            let (first, address) = (shown(&first.name), host.address.value);
            let message = format!("hosts `{first}` and `{name}` have one address, {address}");
            errors.add(
                host.address.at,
                message,
                "each is reached at an address of its own",
            );
        }
    }
}

/// Requirements of a lab with `hosts`, which every node and every link between hosts has to meet.
pub(super) fn check(hosts: &[Host], nodes: &[Node], links: &[Link], errors: &mut Diagnostics) {
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let mut host_of: BTreeMap<&str, &str> = BTreeMap::new();
    // Nodes whose host is not known yet.
    let mut chosen: Vec<&str> = Vec::new();
    for node in nodes {
        let name = shown(&node.name);
        match &node.fields.host {
            None if hosts.is_empty() => {}
            None => {
                let message = format!("node `{name}` has no `host`, and the lab has several");
                let hint = format!("add `host:` (one of: {}, or auto)", names.join(", "));
                errors.add(node.name.at, message, hint);
            }
            Some(host) if hosts.is_empty() => {
                let message = format!("`host` of node `{name}`: the lab has no `hosts`");
                let hint = "add `hosts:` above `topology:`, or remove it";
                errors.add(host.at, message, hint);
            }
            Some(host) if host.value == AUTO_HOST => {
                chosen.push(&*node.name);
            }
            Some(host) if !names.contains(&host.as_str()) => {
                let message = format!(
                    "node `{name}` is on host `{}`, which `hosts` lacks",
                    shown(host)
                );
                errors.add(host.at, message, hint_one_of(host, &names));
            }
            Some(host) => {
                host_of.insert(&node.name, host);
            }
        }
    }
    for link in links {
        let is_open = link
            .endpoints
            .iter()
            .any(|end| chosen.contains(&&**end.node));
        check_link(link, hosts, (&host_of, is_open), errors);
    }
}

/// A cable between hosts is in no file of one machine.
fn check_cards(link: &Link, places: &[&str], errors: &mut Diagnostics) {
    if link.wants_wire() {
        let message = format!(
            "link `{}` joins hosts {}, and names no interfaces of theirs",
            shown(&link.name),
            places.join(", ")
        );
        let hint = "one for each end, in their order, of the host of its node: `interfaces: [enp3s0f0, enp1s0f1]`";
        errors.add(link.kind.at, message, hint);
    }
}

fn check_link(
    link: &Link,
    hosts: &[Host],
    (host_of, is_open): (&BTreeMap<&str, &str>, bool),
    errors: &mut Diagnostics,
) {
    let name = shown(&link.name);
    let ends = link.endpoints.iter();
    let mut places: Vec<&str> = ends
        .filter_map(|end| host_of.get(&**end.node).copied())
        .collect();
    places.sort_unstable();
    places.dedup();
    if places.len() < 2 && is_open {
        return;
    }
    if places.len() < 2 {
        if let Some(port) = link.port.filter(|_| link.kind.value == LinkKind::Overlay) {
            let message = format!("`port` of link `{name}` is for links between hosts");
            errors.add(port.at, message, "remove it");
        }
        if let Some(carrier) = link.carrier.filter(|c| c.value == Carrier::Sealed) {
            let message = format!("link `{name}` is sealed, and all of its ends are on one host");
            let hint = "`carrier: udp` is the same without encryption";
            errors.add(carrier.at, message, hint);
        }
        return;
    }
    if link.kind.value == LinkKind::Phys {
        check_cards(link, &places, errors);
        return;
    }
    let refused = |at: Mark, is: &str, errors: &mut Diagnostics| {
        let places = places.join(", ");
        let message = format!("link `{name}` joins hosts {places}, and is {is}");
        let hint = "between hosts: `type: overlay` with `carrier: sealed`, or `udp` or `vxlan` over a wire that you trust";
        errors.add(at, message, hint);
    };
    match (link.kind.value, link.carrier) {
        (LinkKind::Overlay, Some(carrier)) => match carrier.value {
            carrier if carrier.is_between_hosts() => {}
            other => refused(carrier.at, &format!("of carrier {}", other.word()), errors),
        },
        (LinkKind::Overlay, None) => refused(link.kind.at, "without a carrier", errors),
        (kind, _) => refused(link.kind.at, &format!("of type {kind}"), errors),
    }
    if let Some(streams) = link.streams.filter(|streams| !streams.value.is_off()) {
        refused(
            streams.at,
            "one with streams, which end at a machine",
            errors,
        );
    }
    let family = |host: &Host| host.address.is_ipv6();
    let of_link = |host: &&Host| places.contains(&host.name.as_str());
    let mut joined = hosts.iter().filter(of_link);
    if let Some(first) = joined.next() {
        if let Some(other) = joined.find(|host| family(host) != family(first)) {
            let (first, other_name) = (shown(&first.name), shown(&other.name));
            let message =
                format!("hosts `{first}` and `{other_name}` have addresses of two families");
            errors.add(other.address.at, message, "give both IPv4 or both IPv6");
        }
    }
}
