//! Compilation of latlab's BPF programs in build scripts ([`compile`]) and, with the feature `warnings`, the reasons of
//! libbpf when the kernel refuses a program.

mod compile;
#[cfg(feature = "warnings")]
mod warnings;

pub use compile::compile;
#[cfg(feature = "warnings")]
pub use warnings::{listen, said};
