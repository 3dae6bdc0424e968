//! System calls that neither the standard library nor rustix has.

pub mod listener;
pub mod registrations;
pub mod socket;
pub mod tables;
pub mod task;
