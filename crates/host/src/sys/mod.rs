//! The one place where latlab asks the kernel for something by system call.
//!
//! Everything here is mechanism: it makes, finds and removes namespaces, mounts, processes, taps
//! and files, and knows nothing of labs. Policy (what to make, in which order, and the journal
//! that undoes it) is in the modules that call it. `unsafe` is allowed only here, in the few
//! places that have no safe wrapper: leaving a namespace, `clone3`, `sched_setattr`, and ioctls.

pub mod bpf;
pub mod cached;
mod calls;
pub mod cgroup_entry;
pub mod command;
pub mod devices;
mod error;
pub mod ethtool;
pub mod feature;
pub mod file;
pub mod huge_pages;
pub mod inside;
pub mod last_act;
pub mod loop_device;
pub mod mount;
pub mod mount_ns;
pub mod mounts_of;
pub mod named;
pub mod net_settings;
pub mod netns;
pub mod notify;
pub mod proc;
pub mod process;
pub mod random;
pub mod sched;
pub mod sealed;
pub mod seccomp;
pub mod shared;
pub mod sockets;
pub mod spawn;
pub mod sriov;
pub mod syn_filter;
pub mod tap;
pub mod tcp_repair;
pub mod tcp_table;
pub mod tree;
pub mod vfio;

pub use error::{Error, Errors};
