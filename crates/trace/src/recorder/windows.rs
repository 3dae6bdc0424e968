//! Keeps the events around chosen times and drops the rest.
//!
//! A window must be readable by itself. So for every processor it begins and ends outside of
//! interrupts, and what was in force when it began is kept too: the last switch of each processor, and
//! the last thing that happened to each of the device's tasks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use latlab_wire::trace::{Event, EventKind};

/// Events beyond a window's edge that are kept at most so that it ends outside of interrupts.
const MOST_BEYOND: usize = 256;

/// Goes through one processor's events in the order in which they were written, and keeps those within
/// any window, with what was in force at its begin.
pub struct Keeper<'a> {
    windows: &'a [(u64, u64)],
    /// The window that is next, or that we are in.
    at: usize,
    is_inside: bool,
    beyond: usize,
    depth: Depth,
    /// The events of the interrupt that is under way.
    open: VecDeque<(u64, Event)>,
    switch: Option<(u64, Event)>,
    /// The last thing that happened to each task of the device.
    about: BTreeMap<u32, Option<(u64, Event)>>,
    number: u64,
    kept: BTreeMap<u64, Event>,
}

impl<'a> Keeper<'a> {
    /// `windows` (begin and end in ns) must be joined; `tasks` are those of the device.
    #[must_use]
    pub fn new(windows: &'a [(u64, u64)], tasks: &BTreeSet<u32>) -> Keeper<'a> {
        Keeper {
            windows,
            at: 0,
            is_inside: false,
            beyond: 0,
            depth: Depth::default(),
            open: VecDeque::new(),
            switch: None,
            about: tasks.iter().map(|&task| (task, None)).collect(),
            number: 0,
            kept: BTreeMap::new(),
        }
    }

    /// Takes the next event.
    pub fn take(&mut self, event: Event) {
        self.number += 1;
        while let Some(&(from, to)) = self.windows.get(self.at) {
            if event.time_ns < from {
                break;
            }
            self.enter();
            if event.time_ns <= to {
                self.kept.insert(self.number, event);
                break;
            }
            if self.depth.is_open() && self.beyond < MOST_BEYOND {
                self.beyond += 1;
                self.kept.insert(self.number, event);
                break;
            }
            (self.is_inside, self.beyond) = (false, 0);
            self.at += 1;
        }
        match self.depth.after(&event) {
            true => self.open.push_back((self.number, event)),
            false => self.open.clear(),
        }
        if self.open.len() > MOST_BEYOND {
            self.open.pop_front();
        }
        if event.kind == EventKind::Switch {
            self.switch = Some((self.number, event));
        }
        for task in concerned(&event) {
            if let Some(last) = self.about.get_mut(&task) {
                *last = Some((self.number, event));
            }
        }
    }

    /// A window begins: what is in force is kept.
    fn enter(&mut self) {
        if std::mem::replace(&mut self.is_inside, true) {
            return;
        }
        let about = self.about.values().flatten();
        let in_force = self.open.iter().chain(&self.switch).chain(about);
        self.kept.extend(in_force.copied());
    }

    /// What was kept, in the order in which it was written.
    #[must_use]
    pub fn finish(mut self) -> Vec<Event> {
        if self.at < self.windows.len() {
            // A processor on which nothing happened any more is in the state it was in.
            self.enter();
        }
        self.kept.into_values().collect()
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
        self.is_open()
    }

    fn is_open(&self) -> bool {
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

/// Windows that touch, as one.
#[must_use]
pub fn joined(windows: &[(u64, u64)]) -> Vec<(u64, u64)> {
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
        let (windows, tasks) = (joined(windows), tasks.iter().copied().collect());
        let cpus: BTreeSet<u16> = events.iter().map(|event| event.cpu).collect();
        let of_cpu = |cpu: u16| {
            let mut keeper = Keeper::new(&windows, &tasks);
            let own = events.iter().filter(|event| event.cpu == cpu);
            own.for_each(|event| keeper.take(*event));
            keeper.finish()
        };
        let mut kept: Vec<Event> = cpus.into_iter().flat_map(of_cpu).collect();
        kept.sort_by_key(|event| event.time_ns);
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
