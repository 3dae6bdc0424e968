//! Memory for the records of a measurement. Its ends keep one of each packet until the window is over.

use super::document::Plan;
use crate::diagnostic::Diagnostics;
use crate::spec::{Ends, Measurement, Probe};

/// Bytes of a record in the probe that keeps it, with what the probe notes beside it: the most of all probes.
pub const RECORD_BYTES: u64 = 32;

/// Refuses records that do not fit into half of a node's memory, where that is limited.
pub(super) fn check_records(m: &Measurement, ends: &Ends, plan: &Plan, errors: &mut Diagnostics) {
    let (rate, window_ns) = match m.probe {
        Probe::Packets | Probe::Forward => (Some(m.rate), m.duration.0 + m.warmup.0),
        // Without a rate, the probe takes what there is.
        Probe::Rr => (m.pace, m.duration.0),
        Probe::Stream | Probe::Workload => (None, 0),
    };
    let Some(rate) = rate else { return };
    let packets = u128::from(rate) * u128::from(window_ns) / 1_000_000_000;
    // Cards' times have records of their own.
    let each = 1 + u128::from(m.timestamps.is_hardware());
    let needed = packets * each * u128::from(RECORD_BYTES);
    let receiver = (m.probe == Probe::Packets).then_some(&ends.to);
    for end in [Some(&ends.from), receiver].into_iter().flatten() {
        let memory = plan.node(&end.node).and_then(|node| node.memory);
        let Some(memory) = memory.filter(|memory| needed > u128::from(memory.0 / 2)) else {
            continue;
        };
        let message = format!(
            "measurement `{}` keeps the times of {packets} packets in node `{}`: {} MiB, and the node has {memory}",
            *m.name,
            end.node,
            needed >> 20
        );
        let hint =
            "lower `rate` or `duration`, or raise the node's `memory`: half of it may be taken";
        errors.add(m.name.at, message, hint);
    }
}
