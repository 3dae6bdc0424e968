//! Containers: frames with a route stay in the kernel ([`crate::kernel`]); others come through a tap per container.

use std::path::Path;
use std::sync::Arc;

use latlab_model::overlay::Interface;
use latlab_netlink::Handle;

use super::context::PortContext;
use super::error::OpenError;
use super::port::{OpenPort, PortHandle};
use crate::kernel::{KernelPath, KernelPort, KernelPortKind, Mac, ROUTES, Rate};
use crate::links::direct;
use crate::ports::tap;

pub(super) struct Veths {
    name: String,
    path: Option<Arc<KernelPath>>,
}

impl Veths {
    pub fn new(name: &str) -> Veths {
        use std::hash::{DefaultHasher, Hash, Hasher};
        // The kernel path's name is short, and this one is a file's path.
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Veths {
            name: format!("{:016x}", hasher.finish()),
            path: None,
        }
    }

    pub fn open(
        &mut self,
        context: &PortContext<'_>,
        config: &Interface,
        device: &str,
        netns: Option<&Path>,
    ) -> Result<OpenPort, OpenError> {
        if netns.is_some() {
            let reason = "a veth is served in the daemon's own namespace only".into();
            let hint = "start the daemon in that namespace (`ip netns exec`), or use a tap there";
            return Err(OpenError::because(context, reason, hint));
        }
        let mut bound = config.macs.iter();
        // The daemon checks several bound addresses; every route in the kernel has one source.
        let mac = match (bound.next(), bound.next()) {
            (Some(mac), None) => Some(mac.0),
            _ => None,
        };
        let hint = "name the host's end of a veth (or netkit, mode l2) pair whose other end is in a container";
        self.attach(context, device, (KernelPortKind::Container, mac), hint)
    }

    /// Opens a direct link, whose frames reach containers without the daemon.
    pub fn open_uplink(
        &mut self,
        context: &PortContext<'_>,
        device: &str,
    ) -> Result<OpenPort, OpenError> {
        let hint = "name an interface that is there: `ip link`";
        self.attach(context, device, (KernelPortKind::Direct, None), hint)
    }

    /// Attaches the path to an interface, with a tap for frames without a route.
    fn attach(
        &mut self,
        context: &PortContext<'_>,
        device: &str,
        (kind, mac): (KernelPortKind, Option<Mac>),
        hint: &'static str,
    ) -> Result<OpenPort, OpenError> {
        let failed =
            |error: &dyn std::fmt::Display| OpenError::because(context, error.to_string(), hint);
        let mut links = Handle::open().map_err(|error| failed(&error))?;
        let link = links.link(device).map_err(|error| failed(&error))?;
        let link = link.ok_or_else(|| failed(&format!("there is no interface {device}")))?;
        let tap_name = format!("ov{}", link.index);
        let tap = tap::TapConfig {
            id: context.id,
            device: &tap_name,
            netns: None,
            queues: 1,
            mtu: u16::try_from(link.mtu_bytes).unwrap_or(u16::MAX),
            counters: Arc::clone(&context.counters),
        };
        let (receivers, sender) = tap::open(&tap).map_err(|error| {
            OpenError::new(context, &error, "look who has made the tap: `ip -d link`")
        })?;
        let tap = links
            .link_index(&tap_name)
            .map_err(|error| failed(&error))?;
        let floods = context.network.map(|network| Rate {
            per_second: network.flood,
            burst: network.flood,
        });
        let port = KernelPort {
            id: context.id,
            device: link.index,
            kind,
            network: context.vni(),
            tap: Some(tap),
            mac,
            // Frames from other hosts were limited there.
            floods: floods.filter(|_| kind == KernelPortKind::Container),
        };
        // A network card discards frames that are addressed to containers.
        let promiscuity = match kind {
            KernelPortKind::Direct => {
                Some(direct::promiscuous(link.index).map_err(|error| failed(&error))?)
            }
            _ => None,
        };
        let path = self.open_path(context)?;
        path.attach(&port).map_err(|error| failed(&error))?;
        let handle = PortHandle::InKernel(port, promiscuity);
        Ok(OpenPort::new(receivers, sender, handle))
    }

    pub fn path(&self) -> Option<Arc<KernelPath>> {
        self.path.clone()
    }

    fn open_path(&mut self, context: &PortContext<'_>) -> Result<Arc<KernelPath>, OpenError> {
        if let Some(path) = &self.path {
            return Ok(Arc::clone(path));
        }
        let (path, _) = KernelPath::open(&self.name, ROUTES).map_err(|error| {
            let hint = "`latlab doctor` says whether BPF works here; a tap needs none";
            OpenError::because(context, error.to_string(), hint)
        })?;
        let path = Arc::new(path);
        self.path = Some(Arc::clone(&path));
        Ok(path)
    }

    pub fn close(&mut self, port: &KernelPort) {
        if let Some(path) = &self.path {
            // An interface that is gone has no programs.
            let _ = path.detach(port);
        }
    }
}
