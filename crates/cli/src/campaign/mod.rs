//! `latlab campaign`: a study in parts, measured by many machines.
//!
//! `submit` writes the campaign's directory (`record.rs`) and starts the parts, by Slurm (`slurm.rs`) or over ssh
//! (`ssh.rs`). Each machine measures a part by `part.rs`, which writes a run directory into the campaign's. What is measured
//! is what stands in these directories (`progress.rs`), so that nothing is lost with the process that submitted it.
//! `latlab merge` joins them.

mod cancel;
mod part;
mod progress;
mod ranges;
mod record;
mod resume;
mod slurm;
mod ssh;
mod status;
mod study;
mod submit;
mod verbs;

pub use record::parts_of;
pub use verbs::run;
