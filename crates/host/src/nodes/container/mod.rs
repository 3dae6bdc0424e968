//! A container node: all namespaces, an overlay root, started by an OCI runtime (crun or runc).
//!
//! The runtime is given a prepared world and very little to do. A thread of latlab enters a mount
//! namespace of its own, mounts the node's root there and starts the runtime in it, inside the
//! node's cgroup. This has three consequences:
//!
//! - No mount ever appears in the machine's mount namespace. The container's mounts live in its
//!   own namespace and vanish with its last process, so a crash at any moment leaves only files
//!   below the node's directory and processes in its cgroup.
//! - The runtime sees a plain read-only cgroup tree and leaves cgroups alone. So it works on
//!   version 1, on version 2 and on the mixture that crun refuses, and the limits are latlab's own
//!   everywhere.
//! - Containers start where the machine's `/` cannot be pivoted: in a chroot, or on an initramfs.
//!
//! The default rights are Docker's, with less (no device nodes) and more (its own network).
//! Capabilities, masked paths and the mounts' options are in `config.rs`, system calls in
//! `sys::seccomp`, devices and numbers of processes in its cgroup. Nothing in it gets the host's
//! binaries to execute or to hold: see `sys::spawn::Executable`.
//!
//! The first process is latlab's agent, bound into the container, so any image will do, down to an
//! empty directory. It says when it runs, reaps orphans, and hands SIGTERM on.
//!
//! Commands do not go through the runtime: [`Container::spawn`] enters the container's namespaces
//! itself, which costs a tenth of `crun exec` and makes the command latlab's own child, with its
//! own descriptors, terminal and exit status. A command that is to outlive latlab, or to be kept by a checkpoint, is
//! started by the first process instead ([`Container::detach`]). Removal is the journal's: everything
//! of a container dies with the processes of its cgroup and process namespace.

pub mod checkpoint;
mod config;
mod drain;
mod driver;
pub(super) mod error;
mod exec;
mod handle;
mod hosts;
mod mend;
mod moving;
mod rights;
mod runtimes;
mod standstill;
mod start;
mod workload;

pub use error::Error;
pub use handle::{Container, ContainerConfig, Running};
pub use start::start;
