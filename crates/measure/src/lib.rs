//! Runs the measurements of a study on deployed labs and writes the run directory.
//!
//! The endpoints run inside the nodes (`latlab-probe`, started through the node's session) and hand over
//! their raw samples when the measured window is over; no code of this crate runs in the window. Each kind of
//! measurement has a file: [`rr`], [`packets`], `stream`, [`forward`], [`workload`]. Beside each, the ruler itself is
//! measured ([`floor`], [`ruler`]), the machine is checked for overload ([`checks`]) and for interruptions from
//! underneath the kernel ([`hwlat`]), and a receiver's different clock is mapped to the sender's ([`clock`]).

mod actions;
mod affinity;
pub mod checks;
pub mod clock;
pub mod context;
mod cpu_times;
mod devices;
pub mod endpoint;
pub mod error;
pub mod floor;
pub mod forward;
mod guard;
mod hardware;
pub mod hwlat;
pub mod iperf;
pub mod measured;
mod memory;
pub mod nodes;
mod noise;
pub mod osnoise;
mod others;
pub mod packets;
mod pin;
mod probes;
mod repeat;
pub mod rr;
pub mod rtla;
pub mod ruler;
pub mod run;
pub mod steal;
mod stream;
mod thermal;
mod transit;
pub mod trial;
pub mod watch;
pub mod workload;

pub use cpu_times::by_cpu;
