//! Nodes: one folder a kind, each holding the whole life of that kind. What joins nodes is in
//! [`crate::links`], in which order all of it happens in [`crate::lab`].
//!
//! | file of a kind | content |
//! |---|---|
//! | `driver.rs` | what the lab asks of it: limits, preparation, commands, health |
//! | `start.rs` | from what was prepared to a node that is ready, where a process is started |
//! | `exec.rs` | a command inside |
//! | `stop.rs` | its end, where a caller wants one without a journal |
//! | `error.rs` | its own errors |
//!
//! `driver` is the trait that the kinds implement, `drivers` the list of them. Needs of a kind stand in
//! `latlab_model::kinds::NodeKind::properties`, where planner, facts and `doctor` read them. No kind has a way of
//! its own to be undone: its processes carry the lab's label and are in its cgroup, its mounts and files are
//! below the lab's directory, and the journal lists these.

pub mod container;
pub(crate) mod dpdk;
mod driver;
mod drivers;
mod error;
mod host;
pub(crate) mod mend;
mod native;
mod output;
pub mod piped;
mod preparation;
pub(crate) mod saved;
pub mod session;
mod stood;
pub mod storage;
pub mod vm;

pub use driver::Moved;
pub(crate) use driver::{Node, Prepared, Saved, Start, Switch, Target};
pub(crate) use drivers::driver_of;
pub(crate) use preparation::Preparation;
pub use stood::Stood;
