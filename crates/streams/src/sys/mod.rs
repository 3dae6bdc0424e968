//! System calls that neither the standard library nor rustix has.

pub mod listener;
#[cfg(target_arch = "x86_64")]
mod registers;
pub mod registrations;
pub mod socket;
pub mod tables;
pub mod task;
#[cfg(target_arch = "x86_64")]
pub mod tracee;
#[cfg(not(target_arch = "x86_64"))]
#[path = "tracee_elsewhere.rs"]
pub mod tracee;
