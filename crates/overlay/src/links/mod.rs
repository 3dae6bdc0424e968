//! Links to other hosts.
//!
//! | kind | constructor | configuration |
//! |---|---|---|
//! | VXLAN, private and sealed UDP | [`udp::Endpoint::new`] for each form and local address; then [`add`](udp::Endpoint::add) and [`transmitter`](udp::Endpoint::transmitter) for each link, [`receiver`](udp::Endpoint::receiver) for each dispatcher | [`udp::UdpLinkConfig`] |
//! | TCP, plain or TLS | [`tcp::open`] | [`tcp::TcpConfig`] |
//! | direct: raw frames on an interface | [`direct::open`] | [`direct::DirectConfig`] |
//!
//! A constructor makes its sockets in the network namespace of the calling thread. All halves implement
//! [`Receive`](crate::endpoints::Receive) or [`Transmit`](crate::endpoints::Transmit), and add to the
//! [`Counters`](crate::endpoints::Counters) of their link.

pub mod direct;
pub mod fuzz;
pub(crate) mod netns;
mod sys;
pub mod tcp;
pub mod udp;
