//! Sends, times and records: runs the measurements of a study on deployed labs and writes the run
//! directory.
//!
//! The end points run inside the nodes (`latlab-probe`, started through the node's session) and
//! hand over their raw samples when the measured window is over; nothing here runs in that window.
//! One file a kind of measurement: [`rr`], [`packets`], `stream`, [`forward`]. Beside each the ruler itself is
//! measured ([`floor`], [`ruler`]), the machine is asked whether it kept up ([`checks`]) and what interrupts it
//! from underneath ([`hwlat`]), and where sender and receiver have different clocks, one is mapped to the other
//! ([`clock`]).

pub mod checks;
pub mod clock;
mod devices;
pub mod endpoint;
pub mod floor;
pub mod forward;
mod guard;
pub mod hwlat;
pub mod iperf;
mod noise;
pub mod osnoise;
pub mod packets;
mod pin;
mod processors;
pub mod rr;
pub mod rtla;
pub mod ruler;
pub mod run;
pub mod steal;
mod stream;
pub mod trial;
