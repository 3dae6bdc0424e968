//! Room for a tunnel's headers in front of what containers send.
//!
//! A socket leaves as much room in front of a datagram as the interface that it goes to asks for. A veth asks
//! for none, and so each datagram is moved to where there is some: for a small one that is a quarter of the
//! program's time, a large one is copied. The kernel knows one way to make a veth ask (`ndo_set_rx_headroom`):
//! to be in a bridge beside a device that needs room. So there is a bridge for nothing else. It and the vxlan
//! device in it are never up: its ports are disabled and forward nothing, and no socket is open.
//!
//! Without it all works as well, only slower; so nothing fails for want of it.

use std::collections::BTreeSet;

use latlab_model::overlay::HEADROOM_ALIAS;
use latlab_netlink::{
    Bridge, Error, Handle, Interface, Link, LinkChange, LinkKind, NewLink, Vxlan,
};

use super::object::Owner;

/// No tunnel is opened at it: "discard".
const PORT: u16 = 9;

/// The bridge of one kernel path.
#[derive(Debug)]
pub(super) struct Headroom {
    bridge: String,
    tunnel: String,
    /// No two vxlan devices of a namespace have the same network and port.
    vni: u32,
}

impl Headroom {
    pub fn of(owner: &Owner) -> Headroom {
        let hash = owner.hash();
        Headroom {
            bridge: format!("ovroom{hash:08x}"),
            tunnel: format!("ovneed{hash:08x}"),
            vni: hash & 0x00ff_ffff,
        }
    }

    /// Gives room to these interfaces, and to no others.
    pub fn give(&self, containers: &BTreeSet<u32>) -> Result<(), Error> {
        let mut handle = Handle::open()?;
        let links = handle.links()?;
        // What has such a name and not our label is somebody else's.
        let is_ours = |link: &&Link| link.alias.as_deref() == Some(HEADROOM_ALIAS);
        let named = |name: &str| links.iter().find(move |link| link.name == name);
        let both = [named(&self.bridge), named(&self.tunnel)];
        if both.iter().flatten().any(|link| !is_ours(link)) {
            return Ok(());
        }
        let bridge = both[0];
        let bridge = match (bridge, containers.is_empty()) {
            (None, true) => return Ok(()),
            (Some(_), true) => return self.remove(&mut handle),
            (Some(bridge), false) => bridge.index,
            (None, false) => self.make(&mut handle)?,
        };
        for link in &links {
            let master = match (link.master, containers.contains(&link.index)) {
                // One that is somebody else's port stays it.
                (None, true) => bridge,
                (Some(master), false) if master == bridge && link.name != self.tunnel => 0,
                _ => continue,
            };
            handle.apply(&LinkChange::of_index(link.index).master(master).request())?;
        }
        Ok(())
    }

    fn make(&self, handle: &mut Handle) -> Result<u32, Error> {
        let label = |name: &str| LinkChange::of(name).alias(HEADROOM_ALIAS).request();
        // Who was killed while doing this may have left half of it, with the label (`give` has looked).
        let _ = handle.apply(&latlab_netlink::delete(&self.tunnel));
        let kind = LinkKind::Bridge(Bridge::default());
        let bridge = NewLink::new(Interface::new(&self.bridge), kind).request();
        handle.apply_all(&[bridge, label(&self.bridge)])?;
        let bridge = handle.link_index(&self.bridge)?;
        let kind = LinkKind::Vxlan(Vxlan {
            vni: self.vni,
            local: None,
            remote: None,
            parent: None,
            port: PORT,
            udp_checksum: false,
            learning: false,
        });
        let tunnel = NewLink::new(Interface::new(&self.tunnel), kind).master(bridge);
        let made = handle.apply_all(&[tunnel.request(), label(&self.tunnel)]);
        if made.is_err() {
            // One without the other would be of no use.
            let _ = self.remove(handle);
        }
        made.map(|()| bridge)
    }

    fn remove(&self, handle: &mut Handle) -> Result<(), Error> {
        let tunnel = handle.apply(&latlab_netlink::delete(&self.tunnel));
        handle.apply(&latlab_netlink::delete(&self.bridge))?;
        tunnel
    }
}
