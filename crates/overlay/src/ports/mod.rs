//! Ports: the ways in which guests are plugged in. One kind a folder.
//!
//! - [`tap`]: a network interface of the kernel whose other side is this daemon

pub mod tap;
