//! The overlay: one Ethernet for guests and hosts.
//!
//! A user-space switch that sits directly on the guests' virtio rings, and a path inside the kernel
//! for containers, joined to other hosts by links. After VNET/P (Cui 2013, chapters 4 and 5), with
//! what has been learned since: the routes on source and destination, the dispatch modes, early
//! interrupts and cut-through forwarding are its; rings shared with the guest (vhost-user), frames
//! that stay whole (GSO) and BPF are today's form of the rest.
//!
//! The way of a frame, one dispatcher's pass:
//!
//! ```text
//! endpoint.receive ─► Batch of Frames ─► forwarding (cache, table) ─► lists per output ─► endpoint.transmit ─► complete
//! (ring, tap, socket)   heads copied once,   who may, who gets it                        one copy, or an iovec
//!                       the rest is borrowed
//! ```
//!
//! - [`frames`]: what a frame is while it is in the switch; headers, checksums, segmentation
//! - [`endpoints`]: what every port and every link can do
//! - [`forwarding`]: where a frame goes
//! - [`dispatch`]: the threads that take it there
//! - [`links`]: the ways to other hosts
//! - [`ports`]: how guests are plugged in
//! - [`rings`]: the memory that a guest shares, and what it may do to it
//! - [`watchdog`]: sees whether the threads get on
//! - [`tls`]: certificates, for links and for control
//! - [`daemon`]: a configuration, and what is open because of it
//! - [`confine`]: what the daemon may do of what root may
//! - [`control`]: how the configuration is changed and looked at
//! - [`kernel`]: the way past all this, for containers

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
pub mod tls;
pub mod watchdog;
