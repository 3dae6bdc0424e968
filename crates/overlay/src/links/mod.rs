//! Links: the ways to other hosts.
//!
//! | kind | constructor | what it needs |
//! |---|---|---|
//! | VXLAN, private and sealed UDP | [`udp::Endpoint::new`], one for each form and local address; then [`add`](udp::Endpoint::add) and [`transmitter`](udp::Endpoint::transmitter) for each link, [`receiver`](udp::Endpoint::receiver) for each dispatcher | [`udp::Spec`] |
//! | TCP, plain or TLS | [`tcp::open`] | [`tcp::Spec`] |
//! | direct: raw frames on an interface | [`direct::open`] | [`direct::Spec`] |
//!
//! A constructor makes its sockets in the network namespace of the thread that calls it. All halves
//! implement [`Receive`](crate::endpoints::Receive) and [`Transmit`](crate::endpoints::Transmit), and
//! count into the [`Counters`](crate::endpoints::Counters) of their link.

pub mod direct;
pub mod fuzz;
mod netns;
mod sys;
pub mod tcp;
pub mod udp;
