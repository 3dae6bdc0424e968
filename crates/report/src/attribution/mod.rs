//! Causes of slow packets: the time of each between its taps, divided by cause without remainder.
//!
//! Everything is computed from the saved tables alone (packets' passages and kernel events), needs no root,
//! and gives the same answer on any machine. The steps, one file each:
//!
//! ```text
//! survey           the slowest packets, the usual work on a packet, the task that forwards them
//! device           the device: a program, or the kernel
//! timeline         tasks and interrupts of each CPU
//! faults           page faults of tasks, from begin to end
//! task_states      states of the device's task
//! steal            times that the hypervisor had a CPU
//! stalls           long work without an event: the device's own time, or a stall of its CPU
//! gaps             gaps in the record
//! device_timeline  causes of delay of the device as a whole, at every instant
//! split            each packet's time between its taps, divided by those
//! prefix_sums      running sums, so that a thousand packets of one queue cost no more than one
//! blame            shares of the causes in the tail, over all packets
//! lanes            tasks and interrupts of each CPU, for drawing
//! ```
//!
//! A device is served first in, first out. While it works on an earlier packet, a later one queues behind it;
//! an interruption of the device delays every packet in it alike. So a cause belongs to the device and an
//! instant, and a packet's share of it is the overlap. Packets that queue only because an interruption let a
//! queue build up have that interruption as their *first* cause, and queueing in the split.
//!
//! Time without a record is `not recorded`. No cause is blamed for being near. Work on one packet that takes far
//! longer than usual without an event is the device's own time, if it is longer than any stall that the spinner
//! threads saw on this CPU before and after the window. One exception: periodic stalls are blamed for slow work
//! that coincides with their period.

mod attribute;
mod blame;
mod capture;
mod cause;
mod device;
mod device_timeline;
mod faults;
mod gaps;
mod knobs;
mod lanes;
mod prefix_sums;
mod softirq;
mod span;
mod split;
mod stalls;
mod steal;
mod survey;
mod task_states;
mod timeline;

#[cfg(test)]
mod tests;

pub use attribute::{Attribution, attribute, conclude, interruptions};
pub use blame::{Blame, BlameRow, blame};
pub use capture::Capture;
pub use cause::Cause;
pub use device::Device;
pub use gaps::Gap;
pub use knobs::{Remedy, remedy};
pub use lanes::{Lane, Lanes, task_name};
pub use latlab_wire::trace::{WORST_PACKETS as WORST, joined};
pub use prefix_sums::Piece;
pub use split::Explained;
pub use survey::{Pick, Survey};
