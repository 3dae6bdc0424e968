//! Page faults of tasks: each from its begin to its end, on whichever CPU that is.
//!
//! The kernel tells no end of a fault at a bad address, nor of one in a read that is allowed to fail. Such a fault is not
//! used, or the task would be in it for ever: a fault is the last one of its task that began before an end.

use std::collections::{HashMap, HashSet};

use latlab_wire::trace::{Event, EventKind};

use super::gaps::Gaps;

#[derive(Debug, Default)]
pub struct Faults {
    /// Begin and end, by task and in order.
    of_task: HashMap<u32, Vec<(u64, u64)>>,
}

impl Faults {
    /// Reads the events, which must be in the order of time.
    pub fn of(events: &[Event], gaps: &Gaps) -> Faults {
        let mut all = Faults::default();
        let mut open: HashMap<u32, u64> = HashMap::new();
        let mut interrupted: HashSet<u16> = HashSet::new();
        for event in events {
            match event.kind {
                EventKind::IrqEntry | EventKind::VectorEntry => {
                    interrupted.insert(event.cpu);
                }
                EventKind::IrqExit
                | EventKind::VectorExit
                | EventKind::SoftirqEntry
                | EventKind::Switch => {
                    interrupted.remove(&event.cpu);
                }
                // An interrupt brings in no page: it only tries to read, as a sampler does the stack.
                EventKind::FaultEntry if !interrupted.contains(&event.cpu) => {
                    open.insert(event.a, event.time_ns);
                }
                EventKind::FaultExit => {
                    // Where events were lost, it may be the end of another fault.
                    let begin = open.remove(&event.a);
                    if let Some(begin) = begin.filter(|&at| !gaps.is_lost(at, event.time_ns)) {
                        let of_task = all.of_task.entry(event.a).or_default();
                        of_task.push((begin, event.time_ns));
                    }
                }
                _ => {}
            }
        }
        all
    }

    /// Whether a task is in a fault at an instant.
    pub fn has(&self, task: u32, at_ns: u64) -> bool {
        let Some(all) = self.of_task.get(&task) else {
            return false;
        };
        let begun = all.partition_point(|&(begin, _)| begin <= at_ns);
        begun > 0 && at_ns < all[begun - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::super::gaps::Gap;
    use super::super::tests;
    use super::*;

    const TASK: u32 = 7;

    fn event(time_ns: u64, cpu: u16, kind: EventKind) -> Event {
        Event {
            a: TASK,
            ..tests::event(time_ns, cpu, kind)
        }
    }

    fn found(events: &[Event], gaps: &[Gap]) -> Vec<(u64, u64)> {
        let all = Faults::of(events, &Gaps::of(gaps));
        all.of_task.get(&TASK).cloned().unwrap_or_default()
    }

    #[test]
    fn a_fault_ends_on_whichever_cpu() {
        let events = [
            event(10, 0, EventKind::FaultEntry),
            event(30, 1, EventKind::FaultExit),
            event(40, 1, EventKind::FaultEntry),
            event(50, 1, EventKind::FaultExit),
        ];
        assert_eq!(found(&events, &[]), [(10, 30), (40, 50)]);
        let all = Faults::of(&events, &Gaps::default());
        let inside = [9, 10, 29, 30, 40, 50].map(|at_ns| all.has(TASK, at_ns));
        assert_eq!(inside, [false, true, true, false, true, false]);
        assert!(!all.has(TASK + 1, 20));
    }

    #[test]
    fn a_fault_without_an_end_is_none() {
        let events = [
            event(10, 0, EventKind::FaultEntry),
            event(20, 0, EventKind::FaultEntry),
            event(30, 0, EventKind::FaultExit),
            event(40, 0, EventKind::FaultExit),
            event(50, 0, EventKind::FaultEntry),
        ];
        assert_eq!(found(&events, &[]), [(20, 30)]);
    }

    #[test]
    fn a_read_in_an_interrupt_begins_no_fault() {
        let events = [
            event(10, 0, EventKind::FaultEntry),
            event(20, 0, EventKind::VectorEntry),
            event(21, 0, EventKind::FaultEntry),
            event(22, 0, EventKind::VectorExit),
            event(30, 0, EventKind::FaultExit),
            event(40, 0, EventKind::VectorEntry),
            event(41, 1, EventKind::FaultEntry),
            event(42, 1, EventKind::FaultExit),
        ];
        assert_eq!(found(&events, &[]), [(10, 30), (41, 42)], "of that CPU");
    }

    #[test]
    fn no_fault_goes_on_where_events_were_lost() {
        let events = [
            event(10, 0, EventKind::FaultEntry),
            event(30, 0, EventKind::FaultExit),
        ];
        let gap = |is_lost| Gap {
            cpu: 1,
            from_ns: 20,
            to_ns: 25,
            is_lost,
        };
        assert_eq!(found(&events, &[gap(true)]), []);
        assert_eq!(
            found(&events, &[gap(false)]),
            [(10, 30)],
            "its end is known"
        );
    }
}
