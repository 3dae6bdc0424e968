//! One pass: a batch from where it is received to everywhere it goes.

use std::sync::Arc;

use super::Snapshot;
use crate::endpoints::{DropReason, PortId, Receive};
use crate::forwarding::{Decider, Learned, Verdict};
use crate::frames::Batch;

/// Frames of a batch: enough to share the cost of a system call or of a cache miss, few enough that
/// the first does not wait for the last (and that their heads stay in the first-level cache).
const BATCH: usize = 32;

/// Frames of one port before the next has its turn.
pub(super) const TURN: u64 = 256;

/// What carries frames from input to outputs.
pub(super) struct Pass {
    snapshot: Arc<Snapshot>,
    decider: Decider,
    batch: Batch,
    /// Frames by output, and the outputs that have some.
    lists: Vec<Vec<u16>>,
    touched: Vec<PortId>,
}

impl Pass {
    pub fn new(snapshot: Arc<Snapshot>, learned: Arc<Learned>, seed: u64) -> Pass {
        let decider = Decider::new(Arc::clone(&snapshot.table), learned, seed);
        let mut pass = Pass {
            decider,
            snapshot: Arc::default(),
            batch: Batch::new(BATCH),
            lists: Vec::new(),
            touched: Vec::new(),
        };
        pass.install(snapshot);
        pass
    }

    /// Works by this from now on.
    pub fn install(&mut self, snapshot: Arc<Snapshot>) {
        self.decider.install(Arc::clone(&snapshot.table));
        let ports = snapshot.ports.len().max(self.lists.len());
        self.lists.resize_with(ports, || Vec::with_capacity(BATCH));
        self.snapshot = snapshot;
    }

    pub const fn decider(&mut self) -> &mut Decider {
        &mut self.decider
    }

    /// Takes what an input has, at most a batch, where it goes; returns how many frames that were.
    pub fn run(&mut self, input: &mut dyn Receive, now: u64) -> usize {
        self.batch.clear();
        let received = input.receive(&mut self.batch);
        if received > 0 {
            self.decide(now);
            self.send();
        }
        input.complete();
        received
    }

    /// The same until nothing is left, or it has had its turn; returns how many frames that were, and whether nothing is
    /// left.
    pub fn run_out(&mut self, input: &mut dyn Receive, now: u64) -> (u64, bool) {
        let mut came = 0;
        loop {
            let frames = self.run(input, now) as u64;
            came += frames;
            if frames == 0 || came >= TURN {
                return (came, frames == 0);
            }
        }
    }

    fn decide(&mut self, now: u64) {
        self.decider.begin(now);
        for at in 0..self.batch.frames().len() {
            let frame = &self.batch.frames()[at];
            let ingress = frame.ingress;
            let (network, verdict) = self.decider.decide(frame);
            let one;
            let outputs = match verdict {
                Verdict::One(port) => {
                    one = [port];
                    &one[..]
                }
                Verdict::Many(ports) => ports,
                Verdict::Drop(reason) => {
                    count_drop(&self.snapshot, ingress, reason);
                    continue;
                }
            };
            for &port in outputs {
                let Some(list) = self.lists.get_mut(usize::from(port.0)) else {
                    continue;
                };
                if list.is_empty() {
                    self.touched.push(port);
                }
                list.push(u16::try_from(at).unwrap_or(u16::MAX));
            }
            self.batch.frames_mut()[at].network = network;
        }
        for decision in self.decider.take_fresh() {
            if let Some(settled) = &self.snapshot.settled {
                settled.settled(&decision);
            }
        }
    }

    fn send(&mut self) {
        for port in self.touched.drain(..) {
            let list = &mut self.lists[usize::from(port.0)];
            if let Some(output) = self.snapshot.port(port) {
                // A poisoned lock means that another dispatcher died in it; the port's own state
                // is checked by the port.
                let mut transmit = output
                    .transmit
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                transmit.transmit(&self.batch, list);
                transmit.flush();
            }
            list.clear();
        }
    }
}

fn count_drop(snapshot: &Snapshot, ingress: PortId, reason: DropReason) {
    if let Some(port) = snapshot.port(ingress) {
        port.counters.drop_frames(reason, 1);
    }
}
