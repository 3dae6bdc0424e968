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

use std::os::fd::{AsFd, OwnedFd};

use latlab_model::spec::Cable;
use latlab_netlink::{Handle, Interface, LinkChange, LinkKind, MacAddress, NewLink, Request};

use super::{End, Error, Plug, VmEnd, Wiring, impairment};
use crate::sys::netns::NetNs;
use crate::sys::tap::{self, TapOptions};

/// Pairs made at once, each with the open namespace of its node.
const BATCH: usize = 64;

/// A namespace of the link, open for work.
pub(super) struct Site {
    pub netns: NetNs,
    pub handle: Handle,
}

impl Site {
    pub fn open(link: &Wiring<'_>, netns: NetNs) -> Result<Self, Error> {
        let handle = Handle::open_in(netns.as_fd()).map_err(link.refused())?;
        Ok(Self { netns, handle })
    }

    /// Makes a switch called `name` and returns its index. It stays down, and forwards nothing, until
    /// [`configure`](super::configure) switches it on.
    pub fn make_bridge(&mut self, link: &Wiring<'_>, name: &str) -> Result<u32, Error> {
        let interface = Interface::new(name).mtu(Some(link.plan().mtu));
        let kind = LinkKind::Bridge(latlab_netlink::Bridge::default());
        let alias = LinkChange::of(name).alias(&link.network.alias).request();
        let requests = [NewLink::new(interface, kind).request(), alias];
        self.handle.apply_all(&requests).map_err(link.refused())?;
        self.handle.link_index(name).map_err(link.refused())
    }
}

/// The name of the port of an end.
pub(super) fn port(end: &End<'_>) -> String {
    format!("p{}", end.number)
}

/// Plugs all of `ends` into the switch with this index, in the site's namespace.
pub(super) fn to_bridge(
    link: &Wiring<'_>,
    site: &mut Site,
    bridge: u32,
    ends: impl Iterator<Item = usize>,
) -> Result<Vec<VmEnd>, Error> {
    let (vms, others): (Vec<_>, Vec<_>) = ends.map(|end| link.end(end)).partition(End::is_vm);
    let others: Vec<_> = others.iter().map(|end| (*end, port(end))).collect();
    pairs(link, site, &others, Cable::Veth, Some(bridge))?;
    vms.iter()
        .map(|end| vm(link, site, end, &port(end), Some(bridge)))
        .collect()
}

/// Plugs one end in at a port of this name that belongs to no switch.
pub(super) fn to_port(
    link: &Wiring<'_>,
    site: &mut Site,
    end: &End<'_>,
    port: &str,
) -> Result<Option<VmEnd>, Error> {
    if end.is_vm() {
        return vm(link, site, end, port, None).map(Some);
    }
    pairs(link, site, &[(*end, port.to_owned())], Cable::Veth, None).map(|()| None)
}

/// Makes a pair from a port to the interface of each end.
pub(super) fn pairs(
    link: &Wiring<'_>,
    site: &mut Site,
    ends: &[(End<'_>, String)],
    cable: Cable,
    bridge: Option<u32>,
) -> Result<(), Error> {
    for batch in ends.chunks(BATCH) {
        let homes = batch.iter().map(|(end, _)| match end.is_host() {
            true => Ok(None),
            false => link.network.open_node(end.node).map(Some),
        });
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
        site.handle.apply_all(&requests).map_err(link.refused())?;
    }
    for (end, _) in ends.iter().filter(|(end, _)| end.is_host()) {
        move_to_root(link, &mut site.handle, end)?;
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

/// What the interface of a `host` node is called until it is moved.
fn prepared_name(end: &End<'_>) -> String {
    format!("h{}", end.number)
}

/// Labels the prepared interface of a `host` node and moves it to the root namespace.
pub(super) fn move_to_root(
    link: &Wiring<'_>,
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

/// Makes the tap of a virtual machine, in the site's namespace, as a port called `port`.
fn vm(
    link: &Wiring<'_>,
    site: &mut Site,
    end: &End<'_>,
    port: &str,
    bridge: Option<u32>,
) -> Result<VmEnd, Error> {
    let tap = if end.plan.impairment.is_none() {
        make_tap(link, &site.netns, port)?
    } else {
        impairment::shaper(
            link,
            site,
            end,
            Interface::new(port).mtu(Some(link.plan().mtu)),
        )?
    };
    let mut change = port_change(link, port).up(true);
    if let Some(bridge) = bridge {
        change = change.master(bridge);
    }
    site.handle
        .apply(&change.request())
        .map_err(link.refused())?;
    Ok(end.vm_end(Plug::Tap(tap)))
}

/// Makes a tap called `name` in the namespace; it is down and unlabelled.
pub(super) fn make_tap(link: &Wiring<'_>, netns: &NetNs, name: &str) -> Result<OwnedFd, Error> {
    let mut queues =
        tap::create_tap(netns.as_fd(), name, TapOptions::default()).map_err(link.failed())?;
    Ok(queues.remove(0))
}

/// The label and MTU of something in the link that was not made with them.
pub(super) fn port_change(link: &Wiring<'_>, name: &str) -> LinkChange<'static> {
    LinkChange::of(name)
        .alias(&link.network.alias)
        .mtu(link.plan().mtu)
}

/// Applies requests in the root namespace or a node's.
pub(super) fn apply_in(
    link: &Wiring<'_>,
    netns: &NetNs,
    requests: &[Request<'_>],
) -> Result<(), Error> {
    Handle::open_in(netns.as_fd())
        .and_then(|mut handle| handle.apply_all(requests))
        .map_err(link.refused())
}
