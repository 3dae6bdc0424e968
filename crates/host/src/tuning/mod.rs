//! The machine's knobs: planned, applied, verified, and reverted.
//!
//! ```text
//! profile + cores ─ plan ─► changes ─ apply ─► journal, then the kernel ─ verify ─► drift
//!                                              journal ─ revert ─► the original values
//! ```
//!
//! A **knob** ([`knobs`], one per file) knows which items to set and to which values. An **item** ([`items`], one
//! kind per file) is a single thing whose value is read, written, compared and restored. Journal, undo and
//! reports know items only, so a new knob changes none of them.
//!
//! **Owners.** `tune apply` has the owner `user`, a lab has `lab NAME`. Several owners may share an item if they
//! want the same value; the original returns when the last of them leaves. A conflicting value is refused
//! before anything is changed. Values that follow only from the set of isolated CPUs never conflict: the CPUs
//! of all owners are isolated together (`cpu_split`).
//!
//! **Undo.** An item is restored only while it has the value that latlab wrote. A value that another program
//! wrote meanwhile is left and reported. An item that vanished needs no undo. A reboot leaves nothing to
//! restore: no setting here outlives the kernel that was tuned.

mod apply;
mod cpu_split;
mod engine;
mod error;
pub mod items;
pub mod journal;
pub mod knobs;
mod owner;
mod plan;
mod revert;
mod root;
mod state;

pub use apply::{Applied, KnobResult, apply};
pub use engine::Problem;
pub use error::Error;
pub use knobs::partition_cpus;
pub use owner::{USER, lab_owner};
pub use plan::{Change, Target, plan};
pub use revert::{Reverted, revert};
pub use root::Root;
pub use state::{Drift, Shown, show, verify};

#[cfg(test)]
mod tests;
