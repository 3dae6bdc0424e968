//! Decides about the frames of a batch, and sends them by output.

use std::sync::Arc;

use super::snapshot::Snapshot;
use crate::endpoints::{DropReason, PortId, Transmit};
use crate::forwarding::{Decider, Flow, Held, Hold, Learned, Verdict};
use crate::frames::Batch;
use crate::sync::lock;

/// Frames of a batch: enough to share the cost of a system call or of a cache miss, few enough that the first does not
/// wait for the last and their heads stay in the L1 cache.
pub(super) const BATCH: usize = 32;

pub(super) struct Forwarder {
    pub snapshot: Arc<Snapshot>,
    pub decider: Decider,
    lists: Lists,
    /// Flows to offload once their frames are sent.
    flows: Vec<(Flow, PortId)>,
}

/// Frames by output, and the outputs in use.
#[derive(Default)]
struct Lists {
    by_port: Vec<Vec<u16>>,
    touched: Vec<PortId>,
}

impl Lists {
    fn add(&mut self, at: usize, outputs: &[PortId]) {
        for &port in outputs {
            let Some(list) = self.by_port.get_mut(usize::from(port.0)) else {
                continue;
            };
            if list.is_empty() {
                self.touched.push(port);
            }
            list.push(u16::try_from(at).unwrap_or(u16::MAX));
        }
    }

    /// Adds a frame by its verdict.
    #[inline]
    fn put(&mut self, at: usize, verdict: Verdict<'_>) -> Result<(), DropReason> {
        match verdict {
            Verdict::One(port) => self.add(at, &[port]),
            Verdict::Many(ports) => self.add(at, ports),
            Verdict::Drop(reason) => return Err(reason),
        }
        Ok(())
    }
}

impl Forwarder {
    pub fn new(snapshot: Arc<Snapshot>, learned: Arc<Learned>, seed: u64) -> Forwarder {
        let decider = Decider::new(Arc::clone(&snapshot.table), learned, seed);
        let mut forwarder = Forwarder {
            decider,
            snapshot: Arc::default(),
            lists: Lists::default(),
            flows: Vec::new(),
        };
        forwarder.install(snapshot);
        forwarder
    }

    pub fn install(&mut self, snapshot: Arc<Snapshot>) {
        self.decider.install(Arc::clone(&snapshot.table));
        let lists = &mut self.lists.by_port;
        let ports = snapshot.ports.len().max(lists.len());
        lists.resize_with(ports, || Vec::with_capacity(BATCH));
        self.snapshot = snapshot;
    }

    pub fn decide(&mut self, batch: &mut Batch, now: u64) {
        self.decider.begin(now);
        for at in 0..batch.frames().len() {
            // Out of the way of a frame: this decision is made some ten million times a second.
            if self.decider.holds_addresses() && self.hold(batch, at) {
                continue;
            }
            let frame = &batch.frames()[at];
            let ingress = frame.ingress;
            let (network, verdict) = self.decider.decide(frame);
            match self.lists.put(at, verdict) {
                Ok(()) => batch.frames_mut()[at].network = network,
                Err(reason) => self.count_drop(ingress, reason),
            }
        }
        self.flows.extend(self.decider.drain_new());
    }

    /// Lets a frame for a held address wait. False if it is to be forwarded.
    #[cold]
    fn hold(&mut self, batch: &Batch, at: usize) -> bool {
        let frame = &batch.frames()[at];
        match self.decider.hold(frame) {
            None => false,
            Some(Err(reason)) => {
                self.count_drop(frame.ingress, reason);
                true
            }
            Some(Ok(waiting)) => {
                let held = waiting
                    .hold
                    .take_in(batch, frame, waiting.network, waiting.counters);
                !matches!(held, Held::Over)
            }
        }
    }

    /// Decides about a frame of a batch that has waited. False if it has to go on waiting: the only port that it goes
    /// to has no room for it. `room`: the room of the port that was asked last.
    pub fn decide_released(
        &mut self,
        batch: &Batch,
        at: usize,
        room: &mut Option<(PortId, usize)>,
        may_wait: bool,
    ) -> bool {
        let frame = &batch.frames()[at];
        let (_, verdict) = self.decider.decide_released(frame);
        if let (Verdict::One(port), true) = (verdict, may_wait) {
            let known = room.filter(|(known, _)| *known == port);
            let left = known.map(|(_, left)| left).or_else(|| {
                let output = self.snapshot.port(port)?;
                lock(&output.transmit).buffers_left()
            });
            if let Some(left) = left {
                // A frame takes several of a driver's smallest buffers.
                let need = frame.len as usize / SMALL_BUFFER + 1;
                let Some(left) = left.checked_sub(need) else {
                    *room = Some((port, left));
                    return false;
                };
                *room = Some((port, left));
            }
        }
        match self.lists.put(at, verdict) {
            Ok(()) => self.decider.count_released(frame),
            Err(reason) => self.count_drop(frame.ingress, reason),
        }
        true
    }

    /// Sends the frames of a batch; `waited`: the hold in which they have waited, and where they do not wait once more.
    pub fn send(&mut self, batch: &Batch, waited: Option<&Hold>) {
        let is_armed = self.decider.is_armed();
        for port in self.lists.touched.drain(..) {
            let list = &mut self.lists.by_port[usize::from(port.0)];
            if let Some(output) = self.snapshot.port(port) {
                let mut transmit = lock(&output.transmit);
                if is_armed {
                    hold_back(
                        &self.decider,
                        port,
                        transmit.as_mut(),
                        (batch, list),
                        waited,
                    );
                }
                transmit.transmit(batch, list);
                transmit.flush();
            }
            list.clear();
        }
        // Only now, or later frames of a flow would overtake these in the kernel.
        for (flow, egress) in self.flows.drain(..) {
            if let Some(offload) = &self.snapshot.offload {
                offload.learned(&flow, egress);
            }
        }
    }

    /// Whether a port takes frames now.
    pub fn runs(&self, port: PortId) -> bool {
        let output = self.snapshot.port(port);
        output.is_some_and(|output| {
            let mut transmit = lock(&output.transmit);
            let runs = transmit.runs();
            transmit.flush();
            runs
        })
    }

    fn count_drop(&self, ingress: PortId, reason: DropReason) {
        if let Some(port) = self.snapshot.port(ingress) {
            port.counters.drop_frames(reason, 1);
        }
    }
}

/// Lets frames wait that leave through a port which stands still, and those behind them. The port is locked: frames of
/// other dispatchers meet them here too.
#[cold]
fn hold_back(
    decider: &Decider,
    port: PortId,
    transmit: &mut dyn Transmit,
    (batch, list): (&Batch, &mut Vec<u16>),
    waited: Option<&Hold>,
) {
    let table = decider.table();
    if table.armed().all(|(of, _)| of != port) {
        return;
    }
    let runs = transmit.runs();
    list.retain(|at| {
        let frame = &batch.frames()[usize::from(*at)];
        let Some((hold, counters)) = table.armed_for(frame, port) else {
            return true;
        };
        let is_its_own = waited.is_some_and(|waited| std::ptr::eq(waited, hold.as_ref()));
        if is_its_own || (runs && !hold.has_begun()) {
            return true;
        }
        hold.begin(decider.now());
        hold.take_in(batch, frame, frame.network, counters) == Held::Over
    });
}

/// Bytes of the smallest buffers that drivers offer, of which a frame may take several.
const SMALL_BUFFER: usize = 1024;
