//! Ports: the ways in which guests are plugged in. One kind a folder.
//!
//! - [`vhost_user`]: a virtual machine, by the rings in its memory
//! - [`tap`]: a network interface of the kernel whose other side is this daemon

pub mod tap;
pub mod vhost_user;
