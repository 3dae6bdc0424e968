//! Taps: network interfaces of the kernel that end in this daemon, for hosts, containers and virtual machines without
//! vhost-user.
//!
//! Frames carry a virtio-net header, so that large ones stay whole and checksums uncomputed in both directions. Every
//! queue is one descriptor, and every frame costs one system call.

mod port;
mod sys;

pub use port::{Receiver, Sender, TapConfig, open};
