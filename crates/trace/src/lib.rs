//! Timestamps of packets in the kernel, and the kernel's events meanwhile.
//!
//! Four recorders, BPF programs (`bpf/*.bpf.c`), write into shared memory and wake no thread. [`taps`]
//! record each packet at one point of the network, [`recorder`] records events of the CPUs, [`steal`] records
//! CPU time that a hypervisor took, [`stacks`] records where in its code a thread is. They use one clock, and all are
//! read when the window is over. Conclusions are drawn by other crates, from files.

pub mod error;
mod object;
pub mod recorder;
pub mod stacks;
pub mod steal;
pub mod sys;
pub mod taps;

pub use error::Error;

/// Whether the kernel has BTF, which the recorders need to find fields of its structures.
pub(crate) fn has_types() -> bool {
    std::path::Path::new("/sys/kernel/btf/vmlinux").exists()
}
