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
            (PortHandle::InKernel(port, _), _) => {
                let device = port.device;
                Some(match port.kind {
                    KernelPortKind::Container => Attachment::Container { device },
                    _ => Attachment::Direct { device },
                })
            }
            (PortHandle::Tunnel(key), Some(&LinkKind::Vxlan { remote, .. })) => {
                let (SocketAddr::V4(remote), Some(local)) = (remote, key.in_kernel()) else {
                    return None;
                };
                Some(Attachment::Tunnel { remote, local })
            }
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

impl OpenPort {
    pub fn new(
        receivers: impl IntoIterator<Item = impl Receive + 'static>,
        sender: impl Transmit + 'static,
        handle: PortHandle,
    ) -> OpenPort {
        let receivers = receivers.into_iter();
        let receivers = receivers.map(|one| Box::new(one) as Box<dyn Receive>);
        OpenPort {
            receivers: receivers.collect(),
            sender: Box::new(sender),
            handle,
        }
    }
}
