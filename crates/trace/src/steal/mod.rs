//! Steal time of CPUs over a window.
//!
//! An exchange that took 300 µs because the machine did not run for 290 of them says nothing about its
//! subject. So the endpoints' CPUs are watched while a window is measured, and their steal is set aside
//! later, from files (`latlab_report`). The kernel's own accounting (`/proc/stat`) is too coarse: it moves in
//! steps of a hundredth of a second.

mod watch;
mod word;

pub use watch::{Taken, Watch};
pub(crate) use word::from_run_queue;
