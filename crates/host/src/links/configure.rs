//! The nodes' side: labels, addresses, routes and impairments of the interfaces, and waiting until
//! all of it can be used.
//!
//! One visit to each namespace does everything there in one batch. The visits run on all
//! CPUs; their threads end afterwards, so they may stay in the last namespace.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use latlab_model::overlay::HEADROOM_ALIAS;
use latlab_model::plan::{InterfacePlan, LinkPlan, NodePlan, Plan};
use latlab_netlink::{Handle, InterfaceAddress, Link, LinkChange, Route};

use super::error::Error;
use super::impairment;
use super::namespaces::link_namespaces;
use super::netns_handle::address;
use super::network::Network;
use crate::sys;
use crate::sys::ethtool::{self, Offload};
use crate::sys::netns::{self, on_every_cpu};

/// How long interfaces may take to pass packets once everything is made: a millisecond, but the kernel's workers, which
/// make IPv6 addresses usable, wait for seconds where other programs are on all CPUs.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const READY_RETRY: Duration = Duration::from_millis(1);

/// The nodes whose interfaces the host configures. A guest does it itself.
fn nodes(plan: &Plan) -> Vec<&NodePlan> {
    let ours = plan.nodes.iter().filter(|node| !node.kind().is_guest());
    ours.filter(|node| !node.interfaces.is_empty()).collect()
}

/// The interfaces that a node's kernel has; ports of DPDK may be past it.
fn interfaces(node: &NodePlan) -> impl Iterator<Item = &InterfacePlan> {
    let all = node.interfaces.iter();
    all.filter(|interface| !node.is_past_kernel(&interface.name))
}

/// Gives every node's interfaces what the plan says and brings them up.
pub(super) fn configure(network: &Network, plan: &Plan) -> Result<(), Error> {
    on_every_cpu(&nodes(plan), |node| {
        let mut handle = enter(network, node)?;
        let indexes = indexes(&mut handle, node)?;
        for (interface, &index) in interfaces(node).zip(&indexes) {
            configure_one(network, plan, &mut handle, node, interface, index)?;
        }
        Ok(())
    })
}

/// Moves the calling thread to the node's namespace and opens it.
fn enter(network: &Network, node: &NodePlan) -> Result<Handle, Error> {
    netns::enter(network.open_node(node)?.as_fd())?;
    Handle::open().map_err(Error::of_node(node))
}

fn indexes(handle: &mut Handle, node: &NodePlan) -> Result<Vec<u32>, Error> {
    let names = interfaces(node).map(|interface| &interface.name);
    names
        .map(|name| handle.link_index(name))
        .collect::<Result<_, _>>()
        .map_err(Error::of_node(node))
}

fn configure_one(
    network: &Network,
    plan: &Plan,
    handle: &mut Handle,
    node: &NodePlan,
    interface: &InterfacePlan,
    index: u32,
) -> Result<(), Error> {
    let link = &plan.links[interface.link];
    let impair = &link.endpoints[interface.endpoint].impairment;
    let qdiscs = impairment::requests(index, interface.mtu, impair);
    let impaired = handle.apply_all(&qdiscs);
    impaired.map_err(|error| impairment::refused(&link.name, impair, error))?;

    if has_packet_port(plan, link) {
        // Senders on one machine leave checksums and segments to the receiving kernel, and DPDK's driver does neither.
        switch_off_checksums(link, &interface.name)?;
    }
    let mut requests = vec![
        LinkChange::of_index(index)
            .alias(&network.alias)
            .up(true)
            .request(),
    ];
    requests.extend(interface.addresses.iter().map(|net| address(index, net)));
    requests.extend(interface.routes.iter().map(|route| {
        let destination = (route.to.addr(), route.to.prefix_len());
        Route {
            destination,
            via: Some(route.via),
            interface: Some(index),
        }
        .add()
    }));
    handle.apply_all(&requests).map_err(Error::of_node(node))
}

/// Has an interface send whole checksums. One that cannot be told so leaves them to its parent.
fn switch_off_checksums(link: &LinkPlan, interface: &str) -> Result<(), Error> {
    match ethtool::set_offload(interface, Offload::TxChecksum, false) {
        Err(error) if error.kind() != io::ErrorKind::Unsupported => Err(Error::Sys {
            link: link.name.clone(),
            source: sys::Error::of("switch off checksums of", interface)(error),
        }),
        _ => Ok(()),
    }
}

/// Whether an end of a link is a port of DPDK over packet sockets. Cards of the host fill in checksums on their wire, and
/// go back as they were.
fn has_packet_port(plan: &Plan, link: &LinkPlan) -> bool {
    if link.medium.kind().is_hardware() {
        return false;
    }
    let mut ends = link.endpoints.iter();
    ends.any(|end| {
        let node = &plan.nodes[end.node];
        let name = &node.interfaces[end.interface].name;
        let dpdk = node
            .dpdk
            .as_ref()
            .filter(|dpdk| dpdk.driver.has_interface());
        dpdk.is_some_and(|dpdk| dpdk.ports.contains(name))
    })
}

/// Waits until every node's interfaces pass packets and its addresses can be used.
///
/// An interface that comes up before its other end is started by the kernel's work queue, and until
/// then it drops what it is given to send; after many events at once the queue pauses for a second.
/// Asking for an interface by name makes current kernels catch up with it.
pub(super) fn wait_for_nodes(network: &Network, plan: &Plan) -> Result<(), Error> {
    let deadline = Instant::now() + READY_TIMEOUT;
    on_every_cpu(&nodes(plan), |node| {
        let mut handle = enter(network, node)?;
        let place = || format!("node `{}`", node.name);
        wait(deadline, place, || first_lack(&mut handle, node))
    })
}

/// Waits until the interfaces of one node, and whatever addresses they have, can be used; `handle` is in its namespace.
pub(super) fn wait_for_node(handle: &mut Handle, node: &NodePlan) -> Result<(), Error> {
    let deadline = Instant::now() + READY_TIMEOUT;
    let place = || format!("node `{}`", node.name);
    wait(deadline, place, || {
        for interface in interfaces(node) {
            let link = handle.link(&interface.name).map_err(Error::of_node(node))?;
            if let Some(lack) = idle(link.as_ref()) {
                return Ok(Some((interface.name.clone(), lack.to_owned())));
            }
        }
        first_unusable(handle).map_err(Error::of_node(node))
    })
}

/// Switches on the switches of all links and waits until everything inside the links works.
///
/// Switches are down while the nodes come up: every new IPv6 address announces itself to the segment, and a thousand
/// announcements flooded to a thousand ports each would keep the machine busy for a second and overflow its queues.
pub(super) fn switch_on(network: &Network, plan: &Plan) -> Result<(), Error> {
    let deadline = Instant::now() + READY_TIMEOUT;
    on_every_cpu(&link_namespaces(plan), |(link, name)| {
        netns::enter(network.open(name)?.as_fd())?;
        let refused = Error::of_link(link);
        let mut handle = Handle::open().map_err(&refused)?;
        let all = handle.links().map_err(&refused)?;
        let is_switch = |link: &&Link| link.kind.as_deref() == Some("bridge") && carries(link);
        let switches = all.iter().filter(is_switch);
        let up: Vec<_> = switches
            .map(|link| LinkChange::of_index(link.index).up(true).request())
            .collect();
        handle.apply_all(&up).map_err(&refused)?;
        let place = || format!("link `{}`", link.name);
        wait(deadline, place, || {
            first_idle(&mut handle).map_err(&refused)
        })
    })
}

type Lack = (String, String);

/// Asks until nothing is lacking; after the deadline, the last lack is the error.
fn wait(
    deadline: Instant,
    place: impl Fn() -> String,
    mut ask: impl FnMut() -> Result<Option<Lack>, Error>,
) -> Result<(), Error> {
    while let Some((interface, reason)) = ask()? {
        if Instant::now() >= deadline {
            return Err(Error::NotReady {
                place: place(),
                interface,
                reason,
            });
        }
        std::thread::sleep(READY_RETRY);
    }
    Ok(())
}

/// Whether frames are to pass an interface at all.
fn carries(link: &Link) -> bool {
    link.alias.as_deref() != Some(HEADROOM_ALIAS)
}

/// The first interface of a link's namespace that does not pass packets or has an address that
/// cannot be used yet. Everything there is ours, so everything counts.
fn first_idle(handle: &mut Handle) -> Result<Option<Lack>, latlab_netlink::Error> {
    for listed in handle.links()?.iter().filter(|link| carries(link)) {
        let link = handle.link(&listed.name)?;
        if let Some(lack) = idle(link.as_ref()) {
            return Ok(Some((listed.name.clone(), lack.to_owned())));
        }
    }
    first_unusable(handle)
}

/// The first address in a namespace that cannot be used yet, and why.
fn first_unusable(handle: &mut Handle) -> Result<Option<Lack>, latlab_netlink::Error> {
    let receiving = handle.receiving_ipv6()?;
    for found in handle.addresses()? {
        if let Some(lack) = unusable(&found, &receiving) {
            let interface = format!("#{}", found.address.interface);
            return Ok(Some((
                interface,
                format!("address {} is {lack}", found.address.address),
            )));
        }
    }
    Ok(None)
}

/// Why an interface does not pass packets; `None` if it does.
fn idle(link: Option<&Link>) -> Option<&'static str> {
    match link {
        None => Some("it is gone"),
        Some(link) if !link.up => Some("it is down"),
        Some(link) if !link.running => Some("it has no carrier"),
        Some(_) => None,
    }
}

/// The first interface of a node that is not ready, and why.
fn first_lack(handle: &mut Handle, node: &NodePlan) -> Result<Option<Lack>, Error> {
    for interface in interfaces(node) {
        let link = handle.link(&interface.name).map_err(Error::of_node(node))?;
        if let Some(lack) = idle(link.as_ref()) {
            return Ok(Some((interface.name.clone(), lack.to_owned())));
        }
    }
    let present = handle.addresses().map_err(Error::of_node(node))?;
    let receiving = handle.receiving_ipv6().map_err(Error::of_node(node))?;
    for interface in interfaces(node) {
        for net in &interface.addresses {
            let mut found = present.iter();
            let found = found.find(|found| found.address.address == net.addr());
            let lack = found.map_or(Some("missing"), |found| unusable(found, &receiving));
            if let Some(lack) = lack {
                let reason = format!("address {net} is {lack}");
                return Ok(Some((interface.name.clone(), reason)));
            }
        }
    }
    Ok(None)
}

/// Why an address cannot be used; `None` if it can.
fn unusable(found: &InterfaceAddress, receiving: &HashSet<IpAddr>) -> Option<&'static str> {
    let address = found.address.address;
    if found.duplicate {
        Some("used by another host")
    } else if found.tentative {
        Some("still being checked")
    } else if address.is_ipv6() && !receiving.contains(&address) {
        Some("not received at yet")
    } else {
        None
    }
}
