//! When the hypervisor underneath took CPUs away.
//!
//! An exchange that took 300 µs because the machine itself did not run for 290 of them says nothing about
//! what is measured. So the endpoints' CPUs are watched while a window is measured, and what was
//! taken from them is set aside later, from files (`latlab_report`). The machine's own accounting
//! (`/proc/stat`) is too coarse for that: it moves in steps of a hundredth of a second.

mod watch;
mod word;

pub use watch::{Taken, Watch};
pub(crate) use word::from_run_queue;
