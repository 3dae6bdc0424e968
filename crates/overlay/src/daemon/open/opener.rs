//! Opens each kind of port and link.

use std::sync::Arc;

use latlab_model::overlay::{Interface, InterfaceKind, Link, LinkKind};

use super::context::PortContext;
use super::error::OpenError;
use super::port::{OpenPort, PortHandle};
use super::streams;
use super::tunnels::Tunnels;
use super::veths::Veths;
use crate::endpoints::PortId;
use crate::kernel::KernelPath;
use crate::links::direct;
use crate::links::tcp::Role;
use crate::ports::{tap, vhost_user};

pub(in crate::daemon) struct Opener {
    tunnels: Tunnels,
    veths: Veths,
}

impl Opener {
    /// `name` is unique in the network namespace, and survives a restart.
    pub fn new(name: &str) -> Opener {
        Opener {
            tunnels: Tunnels::new(),
            veths: Veths::new(name),
        }
    }

    pub fn interface(
        &mut self,
        context: &PortContext<'_>,
        config: &Interface,
    ) -> Result<OpenPort, OpenError> {
        match &config.kind {
            InterfaceKind::Tap {
                device,
                netns,
                queues,
            } => {
                let tap = tap::TapConfig {
                    id: context.id,
                    device,
                    netns: netns.as_deref(),
                    queues: *queues,
                    mtu: config.mtu,
                    counters: Arc::clone(&context.counters),
                };
                let hint = "look whether the device is there and in use: `ip -d link`";
                let (receivers, sender) =
                    tap::open(&tap).map_err(|error| OpenError::new(context, &error, hint))?;
                Ok(OpenPort::new(receivers, sender, PortHandle::None))
            }
            InterfaceKind::VhostUser {
                socket,
                client,
                queues,
                switches,
            } => {
                let vhost = vhost_user::VhostUserConfig {
                    id: context.id,
                    socket: socket.clone(),
                    client: *client,
                    queues: *queues,
                    mtu: config.mtu,
                    switches: *switches,
                };
                let hint = "look who else listens at the socket, or give another path";
                let port = vhost_user::VhostUser::open(vhost, Arc::clone(&context.counters))
                    .map_err(|error| OpenError::new(context, &error, hint))?;
                let receivers: Vec<_> = (0..usize::from(*queues))
                    .map(|pair| port.receiver(pair))
                    .collect();
                let sender = port.sender();
                let handle = PortHandle::VhostUser(port);
                Ok(OpenPort::new(receivers, sender, handle))
            }
            InterfaceKind::Veth { device, netns } => {
                self.veths.open(context, config, device, netns.as_deref())
            }
        }
    }

    pub fn link(&mut self, context: &PortContext<'_>, link: &Link) -> Result<OpenPort, OpenError> {
        match &link.kind {
            LinkKind::Direct {
                device,
                netns: None,
                ..
            } if context.in_kernel => self.veths.open_uplink(context, device),
            LinkKind::Direct { device, netns, .. } => {
                let direct = direct::DirectConfig {
                    id: context.id,
                    device,
                    netns: netns.as_deref(),
                    network: context.vni(),
                    counters: Arc::clone(&context.counters),
                };
                let hint = "name an interface that is there: `ip link`";
                let (receiver, sender) =
                    direct::open(&direct).map_err(|error| OpenError::new(context, &error, hint))?;
                Ok(OpenPort::new([receiver], sender, PortHandle::None))
            }
            LinkKind::Vxlan { .. } | LinkKind::Udp { .. } | LinkKind::Sealed { .. } => {
                self.tunnels.open(context, &link.kind)
            }
            LinkKind::Connect { remote, tls } => {
                let role = Role::Connect(*remote);
                streams::open(context, role, tls.as_ref(), self.tunnels.origin())
            }
            LinkKind::Listen { local, peer, tls } => {
                let role = Role::Listen(*local, peer.clone());
                streams::open(context, role, tls.as_ref(), self.tunnels.origin())
            }
        }
    }

    /// The link that a new one would replace: to the same host, from the same tunnel endpoint.
    pub fn holder(&self, link: &Link) -> Option<PortId> {
        self.tunnels.holder(&link.kind)
    }

    /// A link replaces the one with its number.
    pub fn inherit(&self, id: PortId, handle: &PortHandle) {
        if let PortHandle::Tunnel(key) = handle {
            self.tunnels.inherit(id, key);
        }
    }

    /// Closes a port; an heir keeps its number.
    pub fn close(&mut self, id: PortId, handle: PortHandle, has_heir: bool) {
        match handle {
            PortHandle::None => {}
            PortHandle::VhostUser(port) => drop(port),
            PortHandle::InKernel(port, promiscuity) => {
                self.veths.close(&port);
                drop(promiscuity);
            }
            PortHandle::Tunnel(key) => self.tunnels.close(id, &key, has_heir),
        }
    }

    pub fn kernel_path(&self) -> Option<Arc<KernelPath>> {
        self.veths.path()
    }

    /// Datagrams from hosts without a link.
    pub fn strangers(&self) -> u64 {
        self.tunnels.strangers()
    }
}

/// Copies the settings that `set interface` may change from `new` to `old`.
pub(in crate::daemon) fn take_settings(old: &mut InterfaceKind, new: &InterfaceKind) {
    if let (
        InterfaceKind::VhostUser { switches, .. },
        InterfaceKind::VhostUser {
            switches: wanted, ..
        },
    ) = (old, new)
    {
        *switches = *wanted;
    }
}
