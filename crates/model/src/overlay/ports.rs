//! UDP ports of the tunnels.

/// The port of VXLAN (RFC 7348, section 5).
pub const VXLAN_PORT: u16 = 4789;

/// The port of this daemon's own format; in the dynamic range, so it has no other owner.
pub const UDP_PORT: u16 = 51_789;
