//! Steal time of the two endpoints' CPUs while a window is measured, so that the report can set it aside.
//!
//! The watch costs those CPUs the reading of a counter at each context switch. It needs both endpoints'
//! CPUs: steal from a CPU outside the exchange must not be set aside. The CPUs of a virtual machine are those
//! that its threads may use.

use std::collections::BTreeSet;

use latlab_samples::table::Stretch;
use latlab_trace::steal;

use crate::context::Context;
use crate::pin::Pins;

pub(crate) struct Watch(Option<steal::Watch>);

impl Watch {
    /// Begins. If the kernel refuses the program, the time stays unknown, and the summary has none.
    pub fn begin(context: &Context<'_>, pins: Pins) -> Watch {
        let watched =
            endpoint_cpus(context, pins).and_then(|cpus| steal::Watch::begin(&cpus).ok().flatten());
        Watch(watched)
    }

    /// Ends, with times relative to `start_ns`; `None` where steal is unknown or was recorded in part.
    pub fn end(self, start_ns: u64) -> Option<Vec<Stretch>> {
        let taken = self.0?.end().filter(|taken| taken.no_room == 0)?;
        let since = |ns: u64| ns as i64 - start_ns as i64;
        let stretches = taken.stretches.iter().map(|stolen| Stretch {
            cpu: stolen.cpu,
            since_ns: since(stolen.since_ns),
            until_ns: since(stolen.until_ns),
            stolen_ns: stolen.stolen_ns as i64,
        });
        Some(stretches.collect())
    }
}

/// The host's CPUs of the two endpoints, if certain. A guest as the sender has a clock to which the host's
/// times do not apply.
fn endpoint_cpus(context: &Context<'_>, pins: Pins) -> Option<BTreeSet<u16>> {
    let ends = [
        (context.sender(), pins.sender),
        (context.receiver(), pins.receiver),
    ];
    let mut all = BTreeSet::new();
    for (at, (name, pin)) in ends.into_iter().enumerate() {
        let node = context.lab.plan().node(name)?;
        let is_guest = node.kind().is_guest();
        if is_guest && at == 0 {
            return None;
        }
        let cpus: Vec<u32> = if is_guest {
            node.cpuset.as_ref()?.iter().collect()
        } else {
            vec![pin?]
        };
        for cpu in cpus {
            all.insert(u16::try_from(cpu).ok()?);
        }
    }
    Some(all)
}
