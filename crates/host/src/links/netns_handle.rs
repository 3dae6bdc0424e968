//! A namespace of a link with a netlink handle in it, and what every kind of link makes there.

use std::os::fd::{AsFd, OwnedFd};

use ipnet::IpNet;
use latlab_netlink::{Address, Handle, Interface, LinkChange, LinkKind, NewLink, Request};

use super::builder::{End, LinkBuilder};
use super::error::Error;
use crate::sys::netns::NetNs;
use crate::sys::tap;

pub(super) struct NetnsHandle {
    pub netns: NetNs,
    pub handle: Handle,
}

impl NetnsHandle {
    pub fn open(link: &LinkBuilder<'_>, netns: NetNs) -> Result<Self, Error> {
        let handle = Handle::open_in(netns.as_fd()).map_err(link.refused())?;
        Ok(Self { netns, handle })
    }

    /// Makes a switch called `name` and returns its index. It stays down, and forwards nothing, until
    /// [`configure`](super::configure) switches it on.
    pub fn make_bridge(&mut self, link: &LinkBuilder<'_>, name: &str) -> Result<u32, Error> {
        let interface = Interface::new(name).mtu(Some(link.plan().mtu));
        let kind = LinkKind::Bridge;
        let alias = LinkChange::of(name).alias(&link.network.alias).request();
        let requests = [NewLink::new(interface, kind).request(), alias];
        self.handle.apply_all(&requests).map_err(link.refused())?;
        self.handle.link_index(name).map_err(link.refused())
    }
}

pub(super) fn port(end: usize) -> String {
    format!("p{end}")
}

/// Makes the tap of a virtual machine, called `name`, in the namespace; it is down and unlabelled.
pub(super) fn make_tap(
    link: &LinkBuilder<'_>,
    netns: &NetNs,
    end: &End<'_>,
    name: &str,
) -> Result<Vec<OwnedFd>, Error> {
    tap::create_tap(netns.as_fd(), name, end.node.body.queues()).map_err(link.failed())
}

/// The label and MTU of something in the link that was not made with them.
pub(super) fn port_change(link: &LinkBuilder<'_>, name: &str) -> LinkChange<'static> {
    LinkChange::of(name)
        .alias(&link.network.alias)
        .mtu(link.plan().mtu)
}

/// Gives an interface an address.
pub(super) fn address(interface: u32, net: &IpNet) -> Request<'static> {
    let (address, prefix_length) = (net.addr(), net.prefix_len());
    Address {
        interface,
        address,
        prefix_length,
    }
    .add()
}

pub(super) fn apply_in(
    link: &LinkBuilder<'_>,
    netns: &NetNs,
    requests: &[Request<'_>],
) -> Result<(), Error> {
    Handle::open_in(netns.as_fd())
        .and_then(|mut handle| handle.apply_all(requests))
        .map_err(link.refused())
}
