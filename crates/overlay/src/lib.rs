//! The overlay: one Ethernet for guests and hosts.
//!
//! A user-space switch on the guests' virtio rings, and a path inside the kernel for containers, joined to other hosts
//! by links. The design follows VNET/P (Cui 2013, chapters 4 and 5): routes on source and destination, dispatch modes,
//! early interrupts and cut-through forwarding. Rings shared with the guest (vhost-user), frames that stay whole (GSO)
//! and BPF are today's form of the rest.
//!
//! One dispatcher's pass:
//!
//! ```text
//! endpoint.receive ─► Batch of Frames ─► forwarding (cache, table) ─► lists per output ─► endpoint.transmit ─► complete
//! (ring, tap, socket)   heads copied once,   permission, destination                     one copy, or an iovec
//!                       the rest is borrowed
//! ```
//!
//! - [`frames`]: frames in the switch; headers, checksums, segmentation
//! - [`endpoints`]: interfaces and counters of ports and links
//! - [`forwarding`]: forwarding decisions
//! - [`dispatch`]: the threads that forward
//! - [`links`]: links to other hosts
//! - [`ports`]: ports of guests
//! - [`rings`]: virtio rings in a guest's memory
//! - [`watchdog`]: detects threads that hang
//! - [`tls`]: certificates, for links and for control
//! - [`daemon`]: a configuration, and what is open because of it
//! - [`confine`]: privileges that the daemon keeps
//! - [`control`]: changes and queries of the configuration
//! - [`kernel`]: the path inside the kernel, for containers

pub mod confine;
pub mod control;
pub mod daemon;
pub mod dispatch;
pub mod endpoints;
pub mod forwarding;
pub mod frames;
pub mod kernel;
pub mod links;
pub mod ports;
pub mod rings;
mod strangers;
mod sync;
pub mod tls;
pub mod watchdog;
