//! Containers: their frames stay in the kernel as far as it knows the way ([`crate::kernel`]); what it
//! does not know comes through a tap, one for each.

use std::path::Path;
use std::sync::Arc;

use latlab_model::overlay::Interface;
use latlab_netlink::Handle;

use super::{Failed, Made, Opened, Way, boxed};
use crate::kernel::{KernelPath, Port, PortKind, ROUTES, Rate};
use crate::ports::tap;

/// The containers' interfaces.
pub(super) struct Veths {
    name: String,
    path: Option<KernelPath>,
}

impl Veths {
    pub fn new(name: &str) -> Veths {
        use std::hash::{DefaultHasher, Hash, Hasher};
        // The kernel has room for a short name only, and this one is a path.
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Veths {
            name: format!("{:016x}", hasher.finish()),
            path: None,
        }
    }

    /// Opens a container's interface in the daemon's own namespace.
    pub fn open(
        &mut self,
        way: &Way<'_>,
        spec: &Interface,
        device: &str,
        netns: Option<&Path>,
    ) -> Result<Made, Failed> {
        if netns.is_some() {
            let reason = "a veth is served in the daemon's own namespace only".into();
            let hint = "start the daemon in that namespace (`ip netns exec`), or use a tap there";
            return Err(Failed::because(way, reason, hint));
        }
        let kernel = |error: &dyn std::fmt::Display| {
            let hint = "name the host's end of a veth pair whose other end is in a container";
            Failed::because(way, error.to_string(), hint)
        };
        let mut links = Handle::open().map_err(|error| kernel(&error))?;
        let index = links.link_index(device).map_err(|error| kernel(&error))?;
        let tap_name = format!("ov{index}");
        let tap = tap::Spec {
            id: way.id,
            device: &tap_name,
            netns: None,
            queues: 1,
            mtu: spec.mtu,
            counters: Arc::clone(&way.counters),
        };
        let (receivers, sender) = tap::open(&tap)
            .map_err(|error| Failed::new(way, &error, "look who has made the tap: `ip -d link`"))?;
        let tap_index = links
            .link_index(&tap_name)
            .map_err(|error| kernel(&error))?;
        let mut bound = spec.macs.iter();
        let flood = way.network.map_or(0, |network| network.flood);
        let port = Port {
            id: way.id,
            device: index,
            kind: PortKind::Container,
            network: way.vni(),
            tap: Some(tap_index),
            // Of several, the daemon knows which; in the kernel every route has its source.
            mac: match (bound.next(), bound.next()) {
                (Some(mac), None) => Some(mac.0),
                _ => None,
            },
            floods: Some(Rate {
                per_second: flood,
                burst: flood,
            }),
        };
        let path = self.path(way)?;
        path.attach(&port).map_err(|error| kernel(&error))?;
        Ok(Made {
            receivers: boxed(receivers),
            sender: Box::new(sender),
            opened: Opened::Veth(port),
        })
    }

    fn path(&mut self, way: &Way<'_>) -> Result<&KernelPath, Failed> {
        if self.path.is_none() {
            let (path, _) = KernelPath::open(&self.name, ROUTES).map_err(|error| {
                let hint = "`latlab doctor` says whether BPF works here; a tap needs none";
                Failed::because(way, error.to_string(), hint)
            })?;
            self.path = Some(path);
        }
        self.path.as_ref().ok_or_else(|| {
            let reason = "the kernel's path vanished".into();
            Failed::because(way, reason, "restart the daemon")
        })
    }

    /// Takes the kernel's path away from a container's interface.
    pub fn close(&mut self, port: &Port) {
        if let Some(path) = &self.path {
            // An interface that is gone has taken everything along.
            let _ = path.detach(port);
        }
    }
}
