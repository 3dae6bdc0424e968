//! Cgroups: limits, accounting and a sure way to stop everything a node started.
//!
//! There is one mechanism for native, container and VM nodes. latlab makes the group itself, at
//! `latlab/<lab>/<node>` below the root of each hierarchy. The first process of the node joins it
//! before running any foreign code, and its children inherit the membership. Container runtimes and QEMU are not asked to manage groups, so a limit
//! means the same in every environment.
//!
//! On version 1 a group is made only in the hierarchies that have something to do: the ones that carry a limit that
//! was asked for, one that lists the processes, one that counts CPU time. Where systemd has mounted the unified tree
//! beside version 1, that tree does the listing, the counting and the killing.
//!
//! The paths are data ([`Cgroups::dirs`]) before they are directories, because the journal must
//! hold them before the machine changes; [`NodeCgroup::from_dirs`] takes them back to undo.
//!
//! Controllers that were enabled for children of a root stay enabled after the last lab is gone.
//! Other programs may rely on them by then, and without children they do nothing.

mod cpuset;
mod discover;
mod error;
mod files;
mod hierarchies;
mod limits;
mod node;
mod settings;

pub use error::Error;
pub(crate) use error::{DEVICES, PROCESSES};
pub use files::PARTITION;
pub(crate) use files::TOP;
pub use files::lab_group;
pub use hierarchies::Cgroups;
pub use limits::{HugePages, Limits};
pub use node::{CpuUsage, NodeCgroup};
