//! Containers: their frames stay in the kernel as far as it knows the way ([`crate::kernel`]); what it
//! does not know comes through a tap, one for each.

use std::path::Path;
use std::sync::Arc;

use latlab_model::overlay::Interface;
use latlab_netlink::Handle;

use super::{Failed, Made, Opened, Way, boxed};
use crate::kernel::{KernelPath, Mac, Port, PortKind, ROUTES, Rate};
use crate::ports::tap;

/// The containers' interfaces.
pub(super) struct Veths {
    name: String,
    path: Option<Arc<KernelPath>>,
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
        let mut bound = spec.macs.iter();
        // Of several, the daemon knows which; in the kernel every route has its source.
        let mac = match (bound.next(), bound.next()) {
            (Some(mac), None) => Some(mac.0),
            _ => None,
        };
        let hint = "name the host's end of a veth (or netkit, mode l2) pair whose other end is in a container";
        self.put(way, device, (PortKind::Container, mac), hint)
    }

    /// Opens a direct link: a wire whose frames containers get without the daemon.
    pub fn open_wire(&mut self, way: &Way<'_>, device: &str) -> Result<Made, Failed> {
        let hint = "name an interface that is there: `ip link`";
        self.put(way, device, (PortKind::Direct, None), hint)
    }

    /// Puts the path at an interface, with a tap for what it does not know.
    fn put(
        &mut self,
        way: &Way<'_>,
        device: &str,
        (kind, mac): (PortKind, Option<Mac>),
        hint: &'static str,
    ) -> Result<Made, Failed> {
        let failed = |error: &dyn std::fmt::Display| Failed::because(way, error.to_string(), hint);
        let mut links = Handle::open().map_err(|error| failed(&error))?;
        let link = links.link(device).map_err(|error| failed(&error))?;
        let link = link.ok_or_else(|| failed(&format!("there is no interface {device}")))?;
        let tap_name = format!("ov{}", link.index);
        let tap = tap::Spec {
            id: way.id,
            device: &tap_name,
            netns: None,
            queues: 1,
            // As large as anything that the interface can send.
            mtu: u16::try_from(link.mtu_bytes).unwrap_or(u16::MAX),
            counters: Arc::clone(&way.counters),
        };
        let (receivers, sender) = tap::open(&tap)
            .map_err(|error| Failed::new(way, &error, "look who has made the tap: `ip -d link`"))?;
        let tap = links
            .link_index(&tap_name)
            .map_err(|error| failed(&error))?;
        let floods = way.network.map(|network| Rate {
            per_second: network.flood,
            burst: network.flood,
        });
        let port = Port {
            id: way.id,
            device: link.index,
            kind,
            network: way.vni(),
            tap: Some(tap),
            mac,
            // What comes from other hosts was limited there.
            floods: floods.filter(|_| kind == PortKind::Container),
        };
        let path = self.open_path(way)?;
        path.attach(&port).map_err(|error| failed(&error))?;
        Ok(Made {
            receivers: boxed(receivers),
            sender: Box::new(sender),
            opened: Opened::InKernel(port),
        })
    }

    /// The path, once it is open.
    pub fn path(&self) -> Option<Arc<KernelPath>> {
        self.path.clone()
    }

    fn open_path(&mut self, way: &Way<'_>) -> Result<Arc<KernelPath>, Failed> {
        if let Some(path) = &self.path {
            return Ok(Arc::clone(path));
        }
        let (path, _) = KernelPath::open(&self.name, ROUTES).map_err(|error| {
            let hint = "`latlab doctor` says whether BPF works here; a tap needs none";
            Failed::because(way, error.to_string(), hint)
        })?;
        let path = Arc::new(path);
        self.path = Some(Arc::clone(&path));
        Ok(path)
    }

    /// Takes the kernel's path away from a container's interface.
    pub fn close(&mut self, port: &Port) {
        if let Some(path) = &self.path {
            // An interface that is gone has taken everything along.
            let _ = path.detach(port);
        }
    }
}
