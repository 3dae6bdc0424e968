//! `latlab tune`: one file per verb. `choose.rs` selects the profile and its CPUs, `inside.rs` runs a verb in a node.

mod apply;
pub mod args;
mod choose;
mod export;
mod inside;
mod plan;
mod show;
mod verbs;
mod verify;
mod watch;

pub use export::cores_of;
pub use verbs::run;
