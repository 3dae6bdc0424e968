//! Configured ports, to compare two configurations.

use std::collections::BTreeMap;

use latlab_model::overlay::{Interface, InterfaceKind, Link, LinkKind, Network, Overlay};

use super::open::take_settings;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PortConfig {
    Interface(Interface),
    Link(Link),
}

pub(super) fn port_configs(overlay: &Overlay) -> BTreeMap<String, PortConfig> {
    let interfaces = overlay
        .interfaces
        .iter()
        .map(|(name, interface)| (name.clone(), PortConfig::Interface(interface.clone())));
    let links = overlay
        .links
        .iter()
        .map(|(name, link)| (name.clone(), PortConfig::Link(link.clone())));
    interfaces.chain(links).collect()
}

impl PortConfig {
    /// Whether it shares a network with containers, whose frames stay in the kernel.
    pub fn is_in_kernel(&self, overlay: &Overlay) -> bool {
        let (own, mut interfaces) = (self.network_name(), overlay.interfaces.values());
        interfaces.any(|interface| {
            let is_veth = matches!(interface.kind, InterfaceKind::Veth { .. });
            is_veth && own.is_none_or(|own| interface.network == *own)
        })
    }

    pub fn network<'a>(&self, overlay: &'a Overlay) -> Option<&'a Network> {
        overlay.networks.get(self.network_name()?)
    }

    /// None: a link of several networks.
    fn network_name(&self) -> Option<&String> {
        match self {
            PortConfig::Interface(interface) => Some(&interface.network),
            PortConfig::Link(link) => match &link.kind {
                LinkKind::Direct { network, .. } => Some(network),
                _ => None,
            },
        }
    }

    /// Whether the port stays open from one configuration to the other: only settings that `set` may change differ.
    pub fn is_same_port(&self, other: &PortConfig) -> bool {
        match (self, other) {
            (PortConfig::Interface(old), PortConfig::Interface(new)) => {
                let mut old = old.clone();
                old.mode = new.mode;
                // Only the table knows both, but for containers, where the kernel path does too.
                if !matches!(old.kind, InterfaceKind::Veth { .. }) {
                    old.macs.clone_from(&new.macs);
                    old.network.clone_from(&new.network);
                }
                take_settings(&mut old.kind, &new.kind);
                old == *new
            }
            _ => self == other,
        }
    }
}
