//! Links over UDP, in three forms: VXLAN, the private form, and the private form encrypted.
//!
//! An [`Endpoint`] is this host's side, one per local address and form. Every dispatcher has one [`Receiver`] of it, a
//! socket in the address's `SO_REUSEPORT` group, so the kernel spreads the peers' flows. Every link has a
//! [`Transmitter`]. The source address identifies a datagram's link, the VXLAN or private header its network (whether
//! that exists here is forwarding's question).
//!
//! - The outer checksum is never zero: `UDP_SEGMENT` and `UDP_GRO` need it, and only it protects the outer header.
//! - Each dispatcher sends from [`SOURCE_PORTS`] sockets, chosen by the inner flow (RFC 7348, section 5): one source
//!   port would use one queue of the receiver's NIC and one dispatcher there. More sockets would split a batch into more
//!   system calls. The sealed form sends from the receivers' socket, because a session is between two addresses.
//! - A datagram above the path MTU is fragmented by IP (`IP_PMTUDISC_WANT`). Smaller ones have the don't-fragment bit, so
//!   that the path MTU is discovered. Only datagrams that cannot be segmented need fragments: VXLAN segments TCP to the
//!   path MTU, and the private form has slices.
//!
//! Links change under traffic: receivers check once per batch whether the peers have changed, with one atomic load.

mod endpoint;
mod path;
mod reassembly;
mod receive;
pub mod sealed;
mod socket;
mod transmit;

pub use endpoint::{Endpoint, Form, UdpLinkConfig};
pub(in crate::links) use reassembly::{Outcome, Reassembly};
pub use receive::Receiver;
pub(in crate::links) use socket::enlarge_buffers;
pub(in crate::links) use transmit::private_header;
pub use transmit::{SOURCE_PORTS, Transmitter};
