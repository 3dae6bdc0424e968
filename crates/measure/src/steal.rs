//! Watches, while a window is measured, when the hypervisor underneath takes the processors of the two
//! ends away, so that the report can set that time aside.
//!
//! It costs those processors a look at a counter whenever they change tasks. Only where both ends are
//! known to run is it worth anything: what was stolen from a processor that took no part in the exchange
//! must not be set aside. A virtual machine's processors are those that its threads may use.

use std::collections::BTreeSet;

use latlab_model::spec::NodeKind;
use latlab_samples::table::Stretch;
use latlab_trace::steal;

use crate::pin::Pins;
use crate::trial::Context;

/// The watch, if there is anything to watch.
pub(crate) struct Watch(Option<steal::Watch>);

impl Watch {
    /// Begins. A kernel that takes no such program leaves the time unknown, which the summary then
    /// says by its absence.
    pub fn begin(context: &Context<'_>, pins: Pins) -> Watch {
        let watched =
            processors(context, pins).and_then(|cpus| steal::Watch::begin(&cpus).ok().flatten());
        Watch(watched)
    }

    /// Ends, with what was taken in times since `start_ns`; `None` where that is not known, or not whole.
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

/// The host's processors on which the two ends run, as far as that is certain. A guest that asks has a
/// clock of its own, on which nothing of the host's can be laid.
fn processors(context: &Context<'_>, pins: Pins) -> Option<BTreeSet<u16>> {
    let nodes = &context.lab.plan().nodes;
    let ends = [
        (context.sender(), pins.sender),
        (context.receiver(), pins.receiver),
    ];
    let mut all = BTreeSet::new();
    for (at, (name, pin)) in ends.into_iter().enumerate() {
        let node = nodes.iter().find(|node| node.name == name)?;
        let is_guest = node.kind == NodeKind::Vm;
        if is_guest && at == 0 {
            return None;
        }
        let cpus: Vec<u32> = match is_guest {
            true => node.cpuset.as_ref()?.iter().collect(),
            false => vec![pin?],
        };
        for cpu in cpus {
            all.insert(u16::try_from(cpu).ok()?);
        }
    }
    Some(all)
}
