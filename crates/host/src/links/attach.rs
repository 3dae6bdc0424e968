//! Plugging a node into the inside of a link, the same for every kind that has a switch or router.
//!
//! The link's side is an interface ("port") in a namespace of the link. On the other side of it is:
//!
//! - for a `native` or `container` node, its interface, made directly in its namespace as the other
//!   end of a veth pair (an overlay's may be a netkit pair);
//! - for a `host` node the same, except that the interface is prepared beside the port, labelled,
//!   and only then moved to the root namespace;
//! - for a `vm`, QEMU: the port is a tap. If the guest is to be impaired, a shaper sits in between
//!   (see [`impairment`](super::impairment)).
//!
//! Pairs for a switch of a thousand ports go to the kernel in batches. A batch holds the open
//! namespaces of its nodes, so its size is bounded by what a process may have open.

use std::os::fd::AsFd;

use latlab_model::kinds::Cable;
use latlab_netlink::{Handle, Interface, LinkChange, LinkKind, MacAddress, NewLink};

use super::builder::{End, LinkBuilder};
use super::error::Error;
use super::impairment;
use super::netns_handle::{NetnsHandle, make_tap, port, port_change};
use super::vm_end::{NicBackend, VmEnd};
use crate::sys::netns::NetNs;

/// Pairs made at once, each with the open namespace of its node.
const BATCH: usize = 64;

/// Plugs all of `ends` into the switch with this index, in the link's namespace.
pub(super) fn to_bridge(
    link: &LinkBuilder<'_>,
    at: &mut NetnsHandle,
    bridge: u32,
    ends: impl Iterator<Item = usize>,
) -> Result<Vec<VmEnd>, Error> {
    let (vms, others): (Vec<_>, Vec<_>) = ends.map(|end| link.end(end)).partition(End::is_vm);
    let others: Vec<_> = others.iter().map(|end| (*end, port(end.number))).collect();
    pairs(link, at, &others, Cable::Veth, Some(bridge))?;
    vms.iter()
        .map(|end| vm(link, at, end, &port(end.number), Some(bridge)))
        .collect()
}

/// Plugs one end in at a port of this name that belongs to no switch.
pub(super) fn to_port(
    link: &LinkBuilder<'_>,
    at: &mut NetnsHandle,
    end: &End<'_>,
    port: &str,
) -> Result<Option<VmEnd>, Error> {
    if end.is_vm() {
        return vm(link, at, end, port, None).map(Some);
    }
    pairs(link, at, &[(*end, port.to_owned())], Cable::Veth, None).map(|()| None)
}

/// Makes a pair from a port to the interface of each end.
pub(super) fn pairs(
    link: &LinkBuilder<'_>,
    at: &mut NetnsHandle,
    ends: &[(End<'_>, String)],
    cable: Cable,
    bridge: Option<u32>,
) -> Result<(), Error> {
    for batch in ends.chunks(BATCH) {
        let homes = batch.iter().map(|(end, _)| link.home(end));
        let homes = homes.collect::<Result<Vec<_>, Error>>()?;
        let mut requests = Vec::with_capacity(2 * batch.len());
        for ((end, port), home) in batch.iter().zip(&homes) {
            let far = node_interface(end, home.as_ref());
            let near = Interface::new(port).mtu(Some(link.plan().mtu));
            let kind = match cable {
                Cable::Veth => LinkKind::Veth(far),
                Cable::Netkit => LinkKind::Netkit(far),
            };
            let mut pair = NewLink::new(near, kind).up();
            if let Some(bridge) = bridge {
                pair = pair.master(bridge);
            }
            requests.push(pair.request());
            requests.push(LinkChange::of(port).alias(&link.network.alias).request());
        }
        at.handle.apply_all(&requests).map_err(link.refused())?;
    }
    for (end, _) in ends.iter().filter(|(end, _)| end.is_host()) {
        move_to_root(link, &mut at.handle, end)?;
    }
    Ok(())
}

/// The interface of a node as it is made: in its `home` under its own name, or, for a `host` node,
/// prepared beside what makes it.
pub(super) fn node_interface<'fd>(end: &End<'_>, home: Option<&'fd NetNs>) -> Interface<'fd> {
    let name = match home {
        Some(_) => end.interface.name.clone(),
        None => prepared_name(end),
    };
    let interface = Interface::new(name)
        .mac(Some(MacAddress(end.interface.mac.0)))
        .mtu(Some(end.interface.mtu));
    match home {
        Some(home) => interface.netns(home.as_fd()),
        None => interface,
    }
}

/// The name of a `host` node's interface until it is moved.
fn prepared_name(end: &End<'_>) -> String {
    format!("h{}", end.number)
}

pub(super) fn move_to_root(
    link: &LinkBuilder<'_>,
    handle: &mut Handle,
    end: &End<'_>,
) -> Result<(), Error> {
    let name = prepared_name(end);
    let refused = link.refused();
    handle
        .apply(&LinkChange::of(&name).alias(&link.network.alias).request())
        .map_err(&refused)?;
    let index = handle.link_index(&name).map_err(&refused)?;
    let change = LinkChange::rename(index, &end.interface.name).netns(link.network.root.as_fd());
    handle.apply(&change.request()).map_err(&refused)
}

/// Makes the tap of a virtual machine, in the link's namespace, as a port called `port`.
fn vm(
    link: &LinkBuilder<'_>,
    at: &mut NetnsHandle,
    end: &End<'_>,
    port: &str,
    bridge: Option<u32>,
) -> Result<VmEnd, Error> {
    let tap = if end.plan.impairment.is_none() {
        make_tap(link, &at.netns, end, port)?
    } else {
        impairment::shaper(
            link,
            at,
            end,
            Interface::new(port).mtu(Some(link.plan().mtu)),
        )?
    };
    let mut change = port_change(link, port).up(true);
    if let Some(bridge) = bridge {
        change = change.master(bridge);
    }
    at.handle.apply(&change.request()).map_err(link.refused())?;
    Ok(end.vm_end(NicBackend::Tap(tap)))
}
