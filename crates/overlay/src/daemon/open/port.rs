//! An open port.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use latlab_model::overlay::{Interface, InterfaceKind, Link, LinkKind};

use super::tunnel_key::TunnelKey;
use crate::daemon::route_offload::Attachment;
use crate::endpoints::{Receive, Transmit};
use crate::kernel::{KernelPort, KernelPortKind};
use crate::ports::vhost_user::VhostUser;

pub(in crate::daemon) type Receivers = Vec<Box<dyn Receive>>;

pub(in crate::daemon) struct OpenPort {
    pub receivers: Receivers,
    pub sender: Box<dyn Transmit>,
    pub handle: PortHandle,
}

pub(in crate::daemon) enum PortHandle {
    None,
    VhostUser(VhostUser),
    /// A port of the kernel path, and what keeps an uplink promiscuous.
    InKernel(KernelPort, Option<OwnedFd>),
    /// A share of a tunnel endpoint's sockets. One of its links has the receiving halves, and hands them over when it is
    /// removed.
    Tunnel(TunnelKey),
}

impl PortHandle {
    pub fn attachment(&self, link: Option<&Link>) -> Option<Attachment> {
        match (self, link.map(|link| &link.kind)) {
            (PortHandle::InKernel(port, _), _) => Some(match port.kind {
                KernelPortKind::Container => Attachment::Container {
                    device: port.device,
                },
                _ => Attachment::Direct {
                    device: port.device,
                },
            }),
            (
                _,
                Some(LinkKind::Vxlan {
                    remote: SocketAddr::V4(remote),
                    ..
                }),
            ) => match self {
                PortHandle::Tunnel(key) => key.in_kernel().map(|local| Attachment::Tunnel {
                    remote: *remote,
                    local,
                }),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn apply(&self, interface: &Interface) {
        if let (PortHandle::VhostUser(port), InterfaceKind::VhostUser { switches, .. }) =
            (self, &interface.kind)
        {
            port.set(*switches);
        }
    }
}

pub(super) fn boxed<R: Receive + 'static>(receivers: Vec<R>) -> Receivers {
    let boxed = receivers
        .into_iter()
        .map(|receive| Box::new(receive) as Box<dyn Receive>);
    boxed.collect()
}
