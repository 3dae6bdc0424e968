//! Timestamps of packets in the kernel, and what the kernel did meanwhile.
//!
//! Three recorders, BPF programs (`bpf/*.bpf.c`), write into shared memory and wake no
//! thread: [`taps`] note when each packet passes one point of the network, [`recorder`] notes what
//! the CPUs did, [`steal`] notes when a hypervisor took them away. They use one clock, and all
//! are read when the window is over. Conclusions are drawn elsewhere, from files, without any of this.
//!
//! This is the only crate that knows libbpf.

pub mod error;
pub mod recorder;
pub mod steal;
pub mod sys;
pub mod taps;

pub use error::Error;

/// Whether the kernel describes its own types, by which the recorders find what they read in it.
pub(crate) fn has_types() -> bool {
    std::path::Path::new("/sys/kernel/btf/vmlinux").exists()
}
