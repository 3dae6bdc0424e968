//! The wire between the hosts of a link whose every end is behind one: a switch in the link's
//! namespace, and in each host's an interface that is plugged into it.

use std::os::fd::AsFd;

use ipnet::IpNet;
use latlab_netlink::{Address, Interface, LinkChange, LinkKind, MacAddress, Neighbour, NewLink};

use super::builder::LinkBuilder;
use super::error::Error;
use super::netns_handle::NetnsHandle;

/// The switch, in the link's namespace.
const UNDERLAY: &str = "underlay";

/// The interface into it, in each host's namespace.
pub(super) const UNDER: &str = "under";

pub(super) struct Underlay {
    at: NetnsHandle,
    switch: u32,
    mtu: u32,
}

impl Underlay {
    pub fn make(link: &LinkBuilder<'_>, mtu: u32) -> Result<Self, Error> {
        let mut at = NetnsHandle::open(link, link.inside()?)?;
        let switch = at.make_bridge(link, UNDERLAY)?;
        let change = LinkChange::of(UNDERLAY).mtu(mtu).request();
        at.handle.apply(&change).map_err(link.refused())?;
        Ok(Self { at, switch, mtu })
    }

    /// Gives the host of this end, whose namespace is `host`, an interface with its address of
    /// `hosts`. It knows where all the others are: a wire that is not switched on yet would let its
    /// first questions go unanswered, and the first frames then wait for a second.
    pub fn plug_in(
        &mut self,
        link: &LinkBuilder<'_>,
        end: usize,
        hosts: &[IpNet],
        host: &mut NetnsHandle,
    ) -> Result<(), Error> {
        let refused = link.refused();
        let mtu = Some(self.mtu);
        let port = format!("p{end}");
        let under = Interface::new(UNDER)
            .mac(Some(hardware_address(end)))
            .mtu(mtu)
            .netns(host.netns.as_fd());
        let pair = NewLink::new(Interface::new(&port).mtu(mtu), LinkKind::Veth(under));
        let alias = &link.network.alias;
        let label = LinkChange::of(&port).alias(alias).request();
        self.at
            .handle
            .apply_all(&[pair.master(self.switch).up().request(), label])
            .map_err(&refused)?;

        let up = LinkChange::of(UNDER).alias(alias).up(true).request();
        host.handle.apply(&up).map_err(&refused)?;
        let interface = host.handle.link_index(UNDER).map_err(&refused)?;
        let own = hosts[end];
        let address = Address {
            interface,
            address: own.addr(),
            prefix_length: own.prefix_len(),
        };
        let mut requests = vec![address.add()];
        let others = hosts.iter().enumerate().filter(|(at, _)| *at != end);
        requests
            .extend(others.map(|(at, net)| {
                Neighbour::permanent(interface, net.addr(), hardware_address(at))
            }));
        host.handle.apply_all(&requests).map_err(&refused)
    }
}

/// The hardware address of a host on the wire, from the locally administered ones.
fn hardware_address(end: usize) -> MacAddress {
    let number = u32::try_from(end).unwrap_or(u32::MAX).to_be_bytes();
    MacAddress([0x02, 0x75, number[0], number[1], number[2], number[3]])
}
