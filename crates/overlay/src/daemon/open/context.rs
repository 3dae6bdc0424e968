//! Context of a port to be opened.

use std::sync::Arc;

use latlab_model::overlay::Network;

use crate::endpoints::{Counters, PortId};

pub(in crate::daemon) struct PortContext<'a> {
    pub name: &'a str,
    pub id: PortId,
    pub counters: Arc<Counters>,
    /// Number of dispatchers: a tunnel endpoint has a socket for each.
    pub dispatchers: u16,
    /// The network of an interface or of a direct link.
    pub network: Option<&'a Network>,
    /// Whether the network has containers.
    pub in_kernel: bool,
}

impl PortContext<'_> {
    pub fn vni(&self) -> u32 {
        self.network.map_or(0, |network| network.vni)
    }
}
