//! A virtual machine's end on an interface of another kind: a macvtap.
//!
//! Frames that QEMU writes leave through the macvtap's own queueing discipline, so an impairment of the guest's egress
//! is put there, without a shaper.

use std::os::fd::AsFd;

use latlab_netlink::{Interface, LinkChange, MacAddress};

use super::builder::{End, LinkBuilder};
use super::error::Error;
use super::impairment;
use super::netns_handle::NetnsHandle;
use super::vm_end::{NicBackend, VmEnd};
use crate::sys::tap;

/// The macvtap of an end, before it is made.
pub(super) fn interface<'fd>(end: &End<'_>, name: &str) -> Interface<'fd> {
    Interface::new(name)
        .mac(Some(MacAddress(end.interface.mac.0)))
        .mtu(Some(end.interface.mtu))
}

/// Labels the macvtap called `name`, impairs and opens it.
pub(super) fn open(
    link: &LinkBuilder<'_>,
    at: &mut NetnsHandle,
    end: &End<'_>,
    name: &str,
) -> Result<VmEnd, Error> {
    // The guest joins groups of its own, which the host does not know: without them no neighbour finds it over IPv6.
    let change = LinkChange::of(name).alias(&link.network.alias);
    at.handle
        .apply(&change.all_multicast().request())
        .map_err(link.refused())?;
    let index = at.handle.link_index(name).map_err(link.refused())?;
    impairment::apply(link, &mut at.handle, index, end)?;
    let queues = tap::open_macvtap(at.netns.as_fd(), name, end.node.body.queues());
    Ok(end.vm_end(NicBackend::Tap(queues.map_err(link.failed())?)))
}
