//! What is the same for all of latlab's programs in the kernel: how build scripts compile them ([`compile`]), and,
//! with the feature `warnings`, libbpf's reason when the kernel refuses one.

mod compile;
#[cfg(feature = "warnings")]
mod warnings;

pub use compile::compile;
#[cfg(feature = "warnings")]
pub use warnings::{listen, said};
