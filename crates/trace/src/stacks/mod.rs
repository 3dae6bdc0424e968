//! Sampled stacks: where in its code a thread is, at regular times of its running.
//!
//! The kernel takes the samples (`bpf/stacks.bpf.c`), of chosen threads only. Of a user's stack it copies the top:
//! few programs have frame pointers. After the window, while the processes still live, each copy is unwound with
//! the tables of the mapped files, and addresses get the names of their functions. The result is text in the
//! folded form, which other tools read.
//!
//! Files that are mapped into a container or by QEMU may be hostile. Each is copied once, within bounds, from the
//! process's own mappings and not by its path, and only parsers in Rust read it.

mod files;
mod maps;
mod names;
mod sampler;
mod unwind;

pub use sampler::{Sampled, Sampler};
