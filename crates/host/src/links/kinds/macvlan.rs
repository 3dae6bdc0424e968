//! `macvlan`: every end is a slice of one parent interface, told apart by Ethernet address.
//!
//! The parent is an interface of the host if the lab names one; the slices can then talk to what
//! is beyond it (but, as always with macvlan, not to the host itself). Otherwise it is one end of
//! a veth pair inside the link, whose other end leads nowhere: the slices can talk to each other.
//!
//! A virtual machine gets a macvtap.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use latlab_netlink::{Handle, Interface, LinkChange, LinkKind, NewLink, Request};

use crate::links::builder::{End, LinkBuilder};
use crate::links::error::Error;
use crate::links::netns_handle::{NetnsHandle, port};
use crate::links::vm_end::VmEnd;
use crate::links::{attach, macvtap};

/// The parent, if the host gives none, and the end of it that leads nowhere.
const PARENT: &str = "parent";
const BEYOND: &str = "beyond";

/// The kernel removes the interfaces of a lab that was just destroyed in the background. Until it
/// has, their addresses are taken on a parent that stays.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(10);
const REMOVAL_RETRY: Duration = Duration::from_millis(5);

pub(super) fn make(link: &LinkBuilder<'_>, parent: Option<&str>) -> Result<Vec<VmEnd>, Error> {
    let mut at = NetnsHandle::open(link, link.inside()?)?;
    // Slices are made from the namespace the parent is in.
    let (mut on_host, parent) = match parent {
        Some(name) => {
            let handle = Handle::open_in(link.network.root.as_fd()).map_err(link.refused())?;
            (Some(handle), name)
        }
        None => {
            make_parent(link, &mut at)?;
            (None, PARENT)
        }
    };
    let maker = on_host.as_mut().unwrap_or(&mut at.handle);
    let index = maker.link_index(parent).map_err(link.refused())?;
    let ends: Vec<End<'_>> = link.ends().map(|end| link.end(end)).collect();
    for end in ends.iter().filter(|end| !end.is_vm()) {
        // One for the root namespace is prepared inside, wherever the parent is.
        let home = link.home(end)?;
        let interface = attach::node_interface(end, home.as_ref());
        let interface = interface.netns(home.as_ref().unwrap_or(&at.netns).as_fd());
        slice(
            link,
            maker,
            &NewLink::new(interface, LinkKind::Macvlan(index))
                .up()
                .request(),
        )?;
    }
    let mut taps = Vec::new();
    for end in ends.iter().filter(|end| end.is_vm()) {
        let name = port(end.number);
        let interface = macvtap::interface(end, &name).netns(at.netns.as_fd());
        let kind = LinkKind::Macvtap {
            parent: index,
            is_alone: false,
        };
        slice(link, maker, &NewLink::new(interface, kind).up().request())?;
        taps.push((end, name));
    }
    for end in ends.iter().filter(|end| end.is_host()) {
        attach::move_to_root(link, &mut at.handle, end)?;
    }
    taps.iter()
        .map(|(end, name)| macvtap::open(link, &mut at, end, name))
        .collect()
}

fn make_parent(link: &LinkBuilder<'_>, at: &mut NetnsHandle) -> Result<(), Error> {
    let mtu = Some(link.plan().mtu);
    let beyond = LinkKind::Veth(Interface::new(BEYOND).mtu(mtu));
    let alias = &link.network.alias;
    let requests = [
        NewLink::new(Interface::new(PARENT).mtu(mtu), beyond)
            .up()
            .request(),
        LinkChange::of(PARENT).alias(alias).request(),
        LinkChange::of(BEYOND).alias(alias).up(true).request(),
    ];
    at.handle.apply_all(&requests).map_err(link.refused())
}

/// Makes a slice, waiting for a predecessor's removal if its address is still taken.
fn slice(link: &LinkBuilder<'_>, maker: &mut Handle, request: &Request<'_>) -> Result<(), Error> {
    let deadline = Instant::now() + REMOVAL_TIMEOUT;
    loop {
        match maker.apply(request) {
            Err(error) if is_taken(&error) && Instant::now() < deadline => {
                std::thread::sleep(REMOVAL_RETRY);
            }
            result => return result.map_err(link.refused()),
        }
    }
}

fn is_taken(error: &latlab_netlink::Error) -> bool {
    matches!(error.errno(), Some(libc::EADDRINUSE | libc::EBUSY))
}
