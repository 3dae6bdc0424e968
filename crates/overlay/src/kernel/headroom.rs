//! Headroom for tunnel headers in front of containers' datagrams.
//!
//! A socket leaves as much headroom in front of a datagram as the outgoing interface requests. A veth requests none, so
//! the program has to move each datagram: for a small one that takes a quarter of its time, a large one is copied. The
//! kernel has one way to make a veth request headroom (`ndo_set_rx_headroom`): a bridge with a device that needs it. So
//! there is a bridge for this purpose only. It and its vxlan device are never up: nothing is forwarded, and no socket is
//! open.
//!
//! Headroom is an optimization, so no failure here is an error of the path.

use std::collections::BTreeSet;

use latlab_model::overlay::HEADROOM_ALIAS;
use latlab_netlink::{Error, Handle, Interface, Link, LinkChange, LinkKind, NewLink, Vxlan};

use super::object::Owner;

/// The discard port: no tunnel is opened there.
const PORT: u16 = 9;

#[derive(Debug)]
pub(super) struct Headroom {
    bridge: String,
    tunnel: String,
    /// Unique, because vxlan devices of a namespace must differ in VNI or port.
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

    /// Gives headroom to exactly these interfaces.
    pub fn give(&self, containers: &BTreeSet<u32>) -> Result<(), Error> {
        let mut handle = Handle::open()?;
        let links = handle.links()?;
        // Interfaces with these names and without our alias belong to another program.
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
                // Ports of other bridges stay there.
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
        // A killed daemon may have left half of it, with the alias (checked in `give`).
        let _ = handle.apply(&latlab_netlink::delete(&self.tunnel));
        let bridge = NewLink::new(Interface::new(&self.bridge), LinkKind::Bridge).request();
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
            // One is useless without the other.
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
