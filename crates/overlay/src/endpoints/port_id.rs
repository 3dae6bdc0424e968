//! Numbers of ports.

/// Maximum number of interfaces and links together. The number after them counts traffic of tunnels' uplinks
/// (`daemon::route_offload`).
pub(crate) const MAX_PORTS: u16 = 4095;

/// A port's number: interfaces and links alike, small and dense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u16);
