//! Control's requests to a dispatcher, served between two batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use latlab_model::overlay::Mode;

use super::input::{Input, InputKey};
use super::snapshot::{DispatchPolicy, Snapshot};
use crate::forwarding::Matrix;

/// Key of control's own wakeup in the dispatcher's epoll set.
pub(super) const CONTROL: u64 = u64::MAX;

pub(super) enum Request {
    Install(Arc<Snapshot>),
    Attach(Box<Input>),
    Detach(InputKey, Sender<Option<Input>>),
    SetMode(InputKey, Mode),
    SetPolicy(DispatchPolicy),
    Matrix(Sender<Matrix>),
    Hits(Sender<(u64, u64)>),
    Sync(Sender<()>),
    Stop,
}

pub(super) struct Requests {
    pub queue: Receiver<Request>,
    pub is_pending: Arc<AtomicBool>,
}

impl Requests {
    /// Whether requests may be queued. Relaxed first: an exchange at every poll would wait for all stores to guests.
    pub fn take_pending(&self) -> bool {
        self.is_pending.load(Ordering::Relaxed) && self.is_pending.swap(false, Ordering::Acquire)
    }
}
