//! `veth`: two nodes, point to point.
//!
//! Between two namespaces it is a veth pair and nothing else. Between a node and a virtual machine
//! it is a tap whose network side *is* the node's interface, so that nothing is in between either.
//! Two virtual machines need something to carry frames from one tap to the other: a switch.

use std::os::fd::AsFd;

use latlab_netlink::{Handle, LinkKind, MacAddress, NewLink};

use super::bridge;
use crate::links::builder::{End, LinkBuilder};
use crate::links::error::Error;
use crate::links::netns_handle::{NetnsHandle, apply_in, make_tap, port_change};
use crate::links::vm_end::{NicBackend, VmEnd};
use crate::links::{attach, impairment};

pub(super) fn make(link: &LinkBuilder<'_>) -> Result<Vec<VmEnd>, Error> {
    let (a, b) = (link.end(0), link.end(1));
    match (a.is_vm(), b.is_vm()) {
        (false, false) => pair(link, &a, &b).map(|()| Vec::new()),
        (true, true) => bridge::make(link),
        (true, false) => vm(link, &a, &b).map(|end| vec![end]),
        (false, true) => vm(link, &b, &a).map(|end| vec![end]),
    }
}

fn pair(link: &LinkBuilder<'_>, a: &End<'_>, b: &End<'_>) -> Result<(), Error> {
    let (home_a, home_b) = (link.home(a)?, link.home(b)?);
    let near = attach::node_interface(a, home_a.as_ref());
    let far = attach::node_interface(b, home_b.as_ref());
    // The request is made in a namespace of the lab, because what is prepared for the root
    // namespace appears in the one it is made from.
    let at = match home_a.as_ref().filter(|_| home_b.is_some()) {
        Some(netns) => Handle::open_in(netns.as_fd()),
        None => Handle::open_in(link.inside()?.as_fd()),
    };
    let mut handle = at.map_err(link.refused())?;
    handle
        .apply(&NewLink::new(near, LinkKind::Veth(far)).request())
        .map_err(link.refused())?;
    for end in [a, b].into_iter().filter(|end| end.is_host()) {
        attach::move_to_root(link, &mut handle, end)?;
    }
    Ok(())
}

fn vm(link: &LinkBuilder<'_>, vm: &End<'_>, other: &End<'_>) -> Result<VmEnd, Error> {
    if !vm.plan.impairment.is_none() {
        let mut at = NetnsHandle::open(link, link.inside()?)?;
        let home = link.home(other)?;
        let far = attach::node_interface(other, home.as_ref());
        let tap = impairment::shaper(link, &mut at, vm, far)?;
        if other.is_host() {
            attach::move_to_root(link, &mut at.handle, other)?;
        }
        return Ok(vm.vm_end(NicBackend::Tap(tap)));
    }
    // Straight into the root namespace too: a tap without a label vanishes with latlab, and it has
    // its label before QEMU has its descriptor.
    let home = link.network.open_node(other.node)?;
    let name = &other.interface.name;
    let tap = make_tap(link, &home, vm, name)?;
    let change = port_change(link, name).mac(MacAddress(other.interface.mac.0));
    apply_in(link, &home, &[change.request()])?;
    Ok(vm.vm_end(NicBackend::Tap(tap)))
}
