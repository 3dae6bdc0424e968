//! Ports of guests, one folder per kind.
//!
//! - [`vhost_user`]: a virtual machine, by the rings in its memory
//! - [`tap`]: a network interface of the kernel

pub mod tap;
pub mod vhost_user;
