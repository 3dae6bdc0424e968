//! Keeps the events around chosen times and drops the rest.
//!
//! A window must be readable by itself. So for every processor it begins and ends outside of
//! interrupts, and what was in force when it began is kept too: the last switch of each processor, and
//! the last thing that happened to each of the device's tasks.

use std::collections::{BTreeMap, BTreeSet};

use latlab_wire::trace::{Event, EventKind};

/// Events beyond a window's edge that are kept at most so that it ends outside of interrupts.
const MOST_BEYOND: usize = 256;

/// The events within any of `windows` (begin and end in ns), with what was in force at their begin.
/// `events` in the order of time; `tasks` are those of the device.
#[must_use]
pub fn keep(events: &[Event], windows: &[(u64, u64)], tasks: &BTreeSet<u32>) -> Vec<Event> {
    let windows = joined(windows);
    let mut chosen = vec![false; events.len()];
    let mut processors: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    let mut about: BTreeMap<u32, Vec<usize>> = tasks.iter().map(|&t| (t, Vec::new())).collect();
    for (at, event) in events.iter().enumerate() {
        processors.entry(event.cpu).or_default().push(at);
        for task in concerned(event) {
            if let Some(list) = about.get_mut(&task) {
                list.push(at);
            }
        }
    }
    for list in processors.values() {
        keep_processor(events, list, &windows, &mut chosen);
    }
    for list in about.values() {
        for &(from, _) in &windows {
            let before = list.partition_point(|&at| events[at].time_ns < from);
            if let Some(&last) = list[..before].last() {
                chosen[last] = true;
            }
        }
    }
    let kept = events.iter().zip(&chosen).filter(|&(_, &chosen)| chosen);
    kept.map(|(event, _)| *event).collect()
}

fn keep_processor(events: &[Event], list: &[usize], windows: &[(u64, u64)], chosen: &mut [bool]) {
    let mut depth = Depth::default();
    // How deep in interrupts the processor is after each of its events.
    let depths: Vec<bool> = list.iter().map(|&at| depth.after(&events[at])).collect();
    let mut last_switch = Vec::with_capacity(list.len());
    let mut switch = None;
    for &at in list {
        last_switch.push(switch);
        if events[at].kind == EventKind::Switch {
            switch = Some(at);
        }
    }
    for &(from, to) in windows {
        let mut begin = list.partition_point(|&at| events[at].time_ns < from);
        let mut end = list.partition_point(|&at| events[at].time_ns <= to);
        for _ in 0..MOST_BEYOND {
            if begin == 0 || !depths[begin - 1] {
                break;
            }
            begin -= 1;
        }
        for _ in 0..MOST_BEYOND {
            if end == list.len() || end == 0 || !depths[end - 1] {
                break;
            }
            end += 1;
        }
        list[begin..end].iter().for_each(|&at| chosen[at] = true);
        let before = last_switch.get(begin).copied().unwrap_or(switch);
        if let Some(at) = before {
            chosen[at] = true;
        }
    }
}

/// Whether a processor is inside of an interrupt or a fault.
#[derive(Default)]
struct Depth {
    hard: bool,
    soft: bool,
    fault: bool,
}

impl Depth {
    fn after(&mut self, event: &Event) -> bool {
        match event.kind {
            EventKind::IrqEntry | EventKind::VectorEntry => self.hard = true,
            EventKind::IrqExit | EventKind::VectorExit => self.hard = false,
            EventKind::SoftirqEntry => self.soft = true,
            EventKind::SoftirqExit => self.soft = false,
            EventKind::FaultEntry => self.fault = true,
            EventKind::FaultExit => self.fault = false,
            EventKind::Switch => *self = Depth::default(),
            _ => {}
        }
        self.hard || self.soft || self.fault
    }
}

fn concerned(event: &Event) -> Vec<u32> {
    match event.kind {
        EventKind::Switch => vec![event.a, event.switch().next],
        EventKind::Wakeup => vec![event.a],
        _ => Vec::new(),
    }
}

fn joined(windows: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut sorted = windows.to_vec();
    sorted.sort_unstable();
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (from, to) in sorted {
        match all.last_mut() {
            Some((_, end)) if from <= *end => *end = to.max(*end),
            _ => all.push((from, to)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_wire::trace::{Switch, TEXT_BYTES};

    fn event(time_ns: u64, cpu: u16, kind: EventKind) -> Event {
        Event {
            time_ns,
            steal_ns: 0,
            cpu,
            kind,
            detail: 0,
            a: 0,
            b: 0,
            text: [0; TEXT_BYTES],
        }
    }

    fn switch(time_ns: u64, cpu: u16, previous: u32, next: u32) -> Event {
        let mut event = event(time_ns, cpu, EventKind::Switch);
        let switch = Switch {
            previous,
            state: 0,
            throttled: false,
            preempted: false,
            next,
            priority: 120,
        };
        event.a = previous;
        (event.b, event.detail) = switch.packed();
        event
    }

    fn times(events: &[Event], windows: &[(u64, u64)], tasks: &[u32]) -> Vec<u64> {
        let kept = keep(events, windows, &tasks.iter().copied().collect());
        kept.iter().map(|event| event.time_ns).collect()
    }

    #[test]
    fn a_window_has_what_was_in_force_before_it() {
        let events = [
            switch(10, 0, 0, 7),
            switch(20, 1, 9, 0),
            switch(30, 0, 7, 8),
            event(40, 0, EventKind::NapiPoll),
            event(60, 0, EventKind::NapiPoll),
            event(90, 0, EventKind::NapiPoll),
        ];
        assert_eq!(times(&events, &[(50, 70)], &[]), [20, 30, 60]);
        assert_eq!(times(&events, &[(50, 70)], &[9]), [20, 30, 60]);
        assert_eq!(times(&events, &[(15, 35)], &[7]), [10, 20, 30]);
        assert_eq!(times(&events, &[], &[7]), [0u64; 0]);
    }

    #[test]
    fn a_window_is_not_cut_inside_an_interrupt() {
        let events = [
            event(10, 0, EventKind::SoftirqEntry),
            event(20, 0, EventKind::IrqEntry),
            event(30, 0, EventKind::IrqExit),
            event(40, 0, EventKind::SoftirqExit),
            event(50, 0, EventKind::FaultEntry),
            event(60, 0, EventKind::FaultExit),
        ];
        assert_eq!(times(&events, &[(25, 35)], &[]), [10, 20, 30, 40]);
        assert_eq!(times(&events, &[(45, 55)], &[]), [50, 60]);
    }

    #[test]
    fn overlapping_windows_are_one() {
        assert_eq!(joined(&[(5, 9), (1, 6), (20, 21)]), [(1, 9), (20, 21)]);
    }
}
