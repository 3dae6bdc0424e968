//! The wire between the hosts of a link whose every end is behind one: between two hosts a pair of interfaces, between
//! more a switch in the link's namespace, and in each host's an interface that is plugged into it.
//!
//! A switch between two hosts would cost each frame another queue, a lookup and, on machines with Docker or Kubernetes,
//! a visit to the firewall, which a cable between two machines does not have.

use std::os::fd::AsFd;

use ipnet::IpNet;
use latlab_netlink::{Interface, LinkChange, LinkKind, MacAddress, Neighbour, NewLink, Request};

use super::builder::LinkBuilder;
use super::error::Error;
use super::netns_handle::{NetnsHandle, address};

/// The switch, in the link's namespace.
const UNDERLAY: &str = "underlay";

/// The interface of each host, in its namespace.
pub(super) const UNDER: &str = "under";

/// The wire, and the MTU of the interfaces at it.
pub(super) struct Underlay {
    wire: Wire,
    mtu: u32,
}

enum Wire {
    /// Both hosts have their interfaces already.
    Pair,
    Switch {
        at: NetnsHandle,
        switch: u32,
    },
}

impl Underlay {
    pub fn make(link: &LinkBuilder<'_>, mtu: u32) -> Result<Self, Error> {
        let wire = match link.ends().len() {
            2 => Self::pair(link, mtu)?,
            _ => Self::switch(link, mtu)?,
        };
        Ok(Self { wire, mtu })
    }

    fn pair(link: &LinkBuilder<'_>, mtu: u32) -> Result<Wire, Error> {
        let refused = link.refused();
        let mut one = NetnsHandle::open(link, link.tunnel(0)?)?;
        let mut two = NetnsHandle::open(link, link.tunnel(1)?)?;
        let near = under(0, mtu);
        let far = under(1, mtu).netns(two.netns.as_fd());
        let pair = NewLink::new(near, LinkKind::Veth(far)).request();
        one.handle.apply(&pair).map_err(&refused)?;
        // Both, before a host is dressed: what is at the wire first would find it without carrier.
        for host in [&mut one, &mut two] {
            host.handle.apply(&switch_on(link)).map_err(&refused)?;
        }
        Ok(Wire::Pair)
    }

    fn switch(link: &LinkBuilder<'_>, mtu: u32) -> Result<Wire, Error> {
        let mut at = NetnsHandle::open(link, link.inside()?)?;
        let switch = at.make_bridge(link, UNDERLAY)?;
        let change = LinkChange::of(UNDERLAY).mtu(mtu).request();
        at.handle.apply(&change).map_err(link.refused())?;
        Ok(Wire::Switch { at, switch })
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
        if let Wire::Switch { at, switch } = &mut self.wire {
            let port = format!("p{end}");
            let far = under(end, self.mtu).netns(host.netns.as_fd());
            let near = Interface::new(&port).mtu(Some(self.mtu));
            let pair = NewLink::new(near, LinkKind::Veth(far));
            let label = LinkChange::of(&port).alias(&link.network.alias).request();
            at.handle
                .apply_all(&[pair.master(*switch).up().request(), label])
                .map_err(&refused)?;
            host.handle.apply(&switch_on(link)).map_err(&refused)?;
        }
        let interface = host.handle.link_index(UNDER).map_err(&refused)?;
        let mut requests = vec![address(interface, &hosts[end])];
        let others = hosts.iter().enumerate().filter(|(at, _)| *at != end);
        requests
            .extend(others.map(|(at, net)| {
                Neighbour::permanent(interface, net.addr(), hardware_address(at))
            }));
        host.handle.apply_all(&requests).map_err(&refused)
    }
}

/// The interface of a host, as it is made.
fn under(end: usize, mtu: u32) -> Interface<'static> {
    let mac = hardware_address(end);
    Interface::new(UNDER).mac(Some(mac)).mtu(Some(mtu))
}

fn switch_on(link: &LinkBuilder<'_>) -> Request<'static> {
    LinkChange::of(UNDER)
        .alias(&link.network.alias)
        .up(true)
        .request()
}

/// The hardware address of a host on the wire, from the locally administered ones.
fn hardware_address(end: usize) -> MacAddress {
    let number = u32::try_from(end).unwrap_or(u32::MAX).to_be_bytes();
    MacAddress([0x02, 0x75, number[0], number[1], number[2], number[3]])
}
