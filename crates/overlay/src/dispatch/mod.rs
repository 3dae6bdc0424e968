//! The dispatcher threads: each owns the receiving halves of its ports and forwards every frame to its outputs in one
//! pass, without a queue in between.
//!
//! - [`Dispatcher`]: the handle that control uses; `request`: its requests, served between two batches
//! - `worker`: the loop; `pass`: one batch from receiving to sending, and frames that waited (`forwarding::Hold`);
//!   `forwarder`: lists by output
//! - `port_state`: when a port is polled, after [`PollMode`] (guest-driven, VMM-driven, adaptive) and `kick_moderation`
//! - `rt_budget`: when the thread runs under SCHED_FIFO

mod forwarder;
mod handle;
mod input;
mod kick_moderation;
mod pass;
mod poll_mode;
mod port_state;
mod request;
mod rt_budget;
mod snapshot;
mod sys;
mod worker;

pub use handle::{Died, Dispatcher};
pub use input::{Input, InputKey};
pub use poll_mode::PollMode;
pub use snapshot::{DispatchPolicy, Output, Snapshot};
