//! How a dispatcher works, whatever its ports are.

use latlab_model::overlay::Yield;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DispatchPolicy {
    pub idle: Yield,
    /// Runs under SCHED_FIFO within its budget (`rt_budget`).
    pub realtime: bool,
}
