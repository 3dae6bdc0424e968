//! The state that dispatchers read.

use std::sync::{Arc, Mutex};

use latlab_model::overlay::Yield;

use crate::endpoints::{Counters, PortId, Transmit};
use crate::forwarding::{FlowSink, Table};

pub struct Output {
    /// Locked by one dispatcher at a time, for a whole batch.
    pub transmit: Mutex<Box<dyn Transmit>>,
    pub counters: Arc<Counters>,
}

/// How a dispatcher works, whatever its ports are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DispatchPolicy {
    pub idle: Yield,
    /// Runs under SCHED_FIFO within its budget (`rt_budget`).
    pub realtime: bool,
}

/// Table and ports; immutable, and replaced as a whole.
#[derive(Default)]
pub struct Snapshot {
    pub table: Arc<Table>,
    pub ports: Vec<Option<Arc<Output>>>,
    /// Takes over flows once they are decided.
    pub offload: Option<Arc<dyn FlowSink>>,
}

impl Snapshot {
    pub(super) fn port(&self, id: PortId) -> Option<&Arc<Output>> {
        self.ports.get(usize::from(id.0))?.as_ref()
    }
}
