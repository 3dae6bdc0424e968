//! A wire with nothing on it: two network namespaces of their own that a veth pair joins. What is timed
//! over it is the error of whatever times.
//!
//! Nothing pins the two, so that they vanish with the value, however its process ends. Hence there is
//! no journal: no object of it can be left.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;

use latlab_netlink::{Address, Handle, Interface, LinkChange, LinkKind, NewLink};

use crate::sys::{Error, netns, netns::NetNs};

/// Addresses for documentation (RFC 5737): they exist in these two namespaces only.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];

pub struct Wire {
    pub near: NetNs,
    pub far: NetNs,
}

impl Wire {
    pub const INTERFACE: &'static str = "wire0";

    pub fn new() -> Result<Wire, Error> {
        let wire = Wire {
            near: namespace()?,
            far: namespace()?,
        };
        let end = |netns: &NetNs, address| -> Result<(), latlab_netlink::Error> {
            let mut handle = Handle::open_in(netns.as_fd())?;
            handle.apply(&LinkChange::of(Self::INTERFACE).up(true).request())?;
            let address = Address {
                interface: handle.link_index(Self::INTERFACE)?,
                address,
                prefix_length: 24,
            };
            handle.apply(&address.add())
        };
        let make = || {
            let near = Interface::new(Self::INTERFACE).netns(wire.near.as_fd());
            let far = Interface::new(Self::INTERFACE).netns(wire.far.as_fd());
            let pair = NewLink::new(near, LinkKind::Veth(far));
            Handle::open()?.apply(&pair.request())?;
            end(&wire.near, IpAddr::V4(ADDRESSES[0]))?;
            end(&wire.far, IpAddr::V4(ADDRESSES[1]))
        };
        make().map_err(|error: latlab_netlink::Error| {
            let kind = std::io::ErrorKind::Other;
            Error::because("make", "an empty wire", kind, error.to_string())
        })?;
        Ok(wire)
    }

    /// Where to send from, and where to.
    #[must_use]
    pub fn addresses(&self, port: u16) -> (SocketAddr, SocketAddr) {
        let [near, far] = ADDRESSES.map(IpAddr::V4);
        (SocketAddr::new(near, 0), SocketAddr::new(far, port))
    }
}

fn namespace() -> Result<NetNs, Error> {
    netns::on_thread(|| netns::unshare().and_then(|()| NetNs::current()))
}
