//! Flows that the switch has decided about.

use crate::endpoints::port_id::PortId;

/// Frames that enter at one port with the same addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    pub ingress: PortId,
    pub network: u32,
    pub source: [u8; 6],
    pub destination: [u8; 6],
}

/// Offloads flows: forwards them without a dispatcher once the switch has decided about one frame.
pub trait FlowSink: Send + Sync {
    /// The flow goes to `egress` until the table or an address changes. Must not block.
    fn learned(&self, flow: &Flow, egress: PortId);
}
