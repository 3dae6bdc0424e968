//! A deployed lab: brought up from a plan, used, and taken down from its journal.
//!
//! ```text
//! plan ─ journal (fsync) ─ namespaces ─ links ─ nodes ─ addresses ─ exec, setup ─ state: ready
//! journal ─ processes ─ cgroups ─ interfaces ─ mounts ─ files ─ journal gone
//! ```
//!
//! Deploying and removing are separate processes as a rule, so nothing is remembered but on disk:
//! the journal says what to unmake, `state.json` what is up. A latlab that makes or unmakes a lab claims it
//! for that time; starting a command shares the claim, so that no command starts behind the back of
//! a removal.

mod cables;
mod copy;
mod deploy;
mod deployed;
mod destroy;
mod error;
mod huge_pages;
mod inside;
mod inspect;
mod interrupt;
mod limits;
mod machine;
mod memory;
mod mend;
mod migrate;
mod note;
mod options;
mod pause;
mod plain;
mod prepare;
mod scripts;
mod snapshot;
mod space;
mod state;
mod taken;
mod tune;
mod unmake;

pub use crate::journal::exists;
pub use crate::nodes::{Moved, Stood};
pub use deployed::Lab;
pub use destroy::{Removed, destroy};
pub use error::Error;
pub use inspect::{inspect, is_of_file, list, plan_of, restarts};
pub use memory::available_bytes;
pub use options::{Options, Step};
pub use scripts::RunScripts;
pub use taken::{cpus_in_use, given_cpus, uses_of_cache};
