//! Privileges that the daemon keeps once it has read its configuration.
//!
//! The daemon reads rings of guests, frames of strangers and lines of clients, as root. An attacker who takes it over
//! gets only:
//!
//! | capability | for |
//! |---|---|
//! | `CAP_NET_ADMIN` | interfaces, taps, programs at interfaces, buffers beyond the system's limit (`SO_RCVBUFFORCE`) |
//! | `CAP_NET_RAW` | packet sockets of direct links |
//! | `CAP_NET_BIND_SERVICE` | links at ports below 1024 |
//! | `CAP_SYS_ADMIN` | another network namespace (`setns`), programs and maps by their number (`BPF_*_GET_FD_BY_ID`), which finds maps of a previous daemon; so `CAP_BPF` and `CAP_PERFMON` would add nothing |
//! | `CAP_SYS_NICE` | dispatchers as real-time threads |
//!
//! Not `CAP_DAC_OVERRIDE`: keys, sockets and namespaces are reached where root is the owner or the mode lets it. Not
//! `CAP_SYS_PTRACE`: a namespace is named by a file where it is pinned, not by `/proc/PID/ns/net` of a stranger.
//!
//! - `no_new_privs`: no program that it might start would gain privileges.
//! - **System calls** (`syscalls`): those on a list, some with certain arguments only; others fail with `EPERM`. The
//!   kernel does not even run the filter for calls that are allowed whatever their arguments (Linux 5.11), so frames
//!   pay nothing for it. `CAP_SYS_ADMIN` without mount, ptrace, modules, exec and all namespaces but those of the network
//!   is much less than it is called.
//! - **Files** (`files`, Landlock, Linux 5.13): nothing is executed, written or made but sockets; of `/dev` only the tap's
//!   file can be opened. Without `CAP_MKNOD` there is no other way to a device.

mod capabilities;
mod files;
mod sys;
mod syscalls;
mod thread;

pub use thread::confine;
