//! One pass: a batch, from receiving to sending.

use std::sync::Arc;

use super::port_state::BUDGET;
use super::snapshot::Snapshot;
use crate::endpoints::{DropReason, PortId, ReceiveHalf};
use crate::forwarding::{Decider, Learned, Verdict};
use crate::frames::Batch;
use crate::sync::lock;

/// Frames of a batch: enough to share the cost of a system call or of a cache miss, few enough that the first does not
/// wait for the last and their heads stay in the L1 cache.
const BATCH: usize = 32;

pub(super) struct Pass {
    snapshot: Arc<Snapshot>,
    decider: Decider,
    batch: Batch,
    /// Frames by output, and the outputs in use.
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

    pub fn install(&mut self, snapshot: Arc<Snapshot>) {
        self.decider.install(Arc::clone(&snapshot.table));
        let ports = snapshot.ports.len().max(self.lists.len());
        self.lists.resize_with(ports, || Vec::with_capacity(BATCH));
        self.snapshot = snapshot;
    }

    pub const fn decider(&mut self) -> &mut Decider {
        &mut self.decider
    }

    /// Forwards at most one batch from an input; returns the number of frames.
    pub fn run(&mut self, input: &mut dyn ReceiveHalf, now: u64) -> usize {
        self.batch.clear();
        let received = input.receive(&mut self.batch);
        if received > 0 {
            self.decide(now);
            self.send();
        }
        input.complete();
        received
    }

    /// Forwards batches until the input is empty or its budget is used up; returns the number of frames, and whether the
    /// input is empty.
    pub fn drain(&mut self, input: &mut dyn ReceiveHalf, now: u64) -> (u64, bool) {
        let mut received = 0;
        loop {
            let frames = self.run(input, now) as u64;
            received += frames;
            if frames == 0 || received >= BUDGET {
                return (received, frames == 0);
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
        for (flow, egress) in self.decider.drain_new() {
            if let Some(offload) = &self.snapshot.offload {
                offload.learned(&flow, egress);
            }
        }
    }

    fn send(&mut self) {
        for port in self.touched.drain(..) {
            let list = &mut self.lists[usize::from(port.0)];
            if let Some(output) = self.snapshot.port(port) {
                let mut transmit = lock(&output.transmit);
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
