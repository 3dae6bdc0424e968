//! A port for a virtual machine: vhost-user-net, the device's side.
//!
//! The VMM (QEMU, cloud-hypervisor, DPDK's virtio-user) shares the guest's memory and gives the addresses of the rings.
//! Dispatchers then work on the rings without the VMM. The protocol's messages are the `vhost` crate's. Its framework for
//! backends is not used: it wakes only on kicks, does not log written pages while rings run, and keeps frames of disabled
//! rings.
//!
//! - `port`: the handle; `connection`: the thread that serves the VMM; `device`: the VMM's messages, put into effect
//! - `receiver`, `sender`: the halves that dispatchers use
//! - `shared`: state of both sides; `doorbell`: how a sleeping dispatcher is woken
//! - [`fuzz`]: two ports without a VMM

mod announcement;
mod body;
mod bounce;
mod connection;
mod device;
mod doorbell;
mod features;
pub mod fuzz;
mod messages;
mod port;
mod receiver;
mod sender;
mod shared;
mod sys;

pub use port::{VhostUser, VhostUserConfig};
pub use receiver::Receiver;
pub use sender::Sender;
