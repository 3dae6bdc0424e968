//! The dispatcher threads: each owns the receiving halves of its ports and takes every frame from
//! there to its outputs, in one piece of work, without a queue in between.
//!
//! - [`Pace`]: when a port is looked at (guest-driven, VMM-driven, adaptive)
//! - `worker`: the loop; `pass`: one batch from receiving to sending
//! - `stream`: whether frames may be gathered first
//! - `urgency`: whether it goes before the other threads of its processor
//! - [`Dispatcher`]: the handle of control; what it asks for happens between two batches

mod handle;
mod pace;
mod pass;
mod stream;
mod sys;
mod urgency;
mod worker;

use std::sync::{Arc, Mutex};

use crate::endpoints::{Counters, PortId, Receive, Transmit};
use crate::forwarding::Table;
use latlab_model::overlay::{Mode, Yield};

pub use handle::{Dispatcher, Gone};
pub use pace::Pace;

/// How dispatchers work, whatever their ports are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
    /// What is done when there is nothing to do.
    pub idle: Yield,
    /// Whether they go before the other threads of their processor, as long as they work briefly.
    pub realtime: bool,
}

/// The receiving half of a port or of a tunnel, for a dispatcher.
pub struct Input {
    /// Chosen by control, to find it again.
    pub key: InputKey,
    /// The name of its port, as people know it.
    pub name: String,
    /// Receives.
    pub receive: Box<dyn Receive>,
    /// When it is looked at.
    pub mode: Mode,
    /// Where changes of its mode are counted.
    pub counters: Arc<Counters>,
}

/// The name of an input within its dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InputKey(pub u32);

/// A port as a destination.
pub struct Output {
    /// Sends. One dispatcher at a time does, for a whole batch.
    pub transmit: Mutex<Box<dyn Transmit>>,
    /// What is counted about the port.
    pub counters: Arc<Counters>,
}

/// Everything a dispatcher asks while it works; never changed, only replaced.
#[derive(Default)]
pub struct Snapshot {
    /// Where frames go.
    pub table: Arc<Table>,
    /// The ports, by number.
    pub ports: Vec<Option<Arc<Output>>>,
    /// Who is told of decisions that last.
    pub settled: Option<Arc<dyn Settled>>,
}

/// Where a kind of frame goes from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Where such frames come in.
    pub ingress: PortId,
    /// The number of their network.
    pub network: u32,
    /// Their sender.
    pub source: [u8; 6],
    /// Their receiver.
    pub destination: [u8; 6],
    /// The one port where they go.
    pub egress: PortId,
}

/// Somebody who can take frames their way without a dispatcher, once it has decided about one.
pub trait Settled: Send + Sync {
    /// A dispatcher has decided so. Must not wait.
    fn settled(&self, decision: &Decision);
}

impl Snapshot {
    fn port(&self, id: PortId) -> Option<&Arc<Output>> {
        self.ports.get(usize::from(id.0))?.as_ref()
    }
}
