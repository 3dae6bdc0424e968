//! Keeps the events around chosen times and drops the rest.
//!
//! A window must be readable by itself. So for every CPU it begins and ends outside of interrupts. The state
//! at its begin is kept too: the last switch of each CPU, and the last event of each of the device's tasks. So is
//! the last begin or end of a page fault of each of these: a fault goes on while its task sleeps.
//!
//! Events come in a stream, and the windows may change between two of them: some are dropped, others added. A
//! window that is added late is kept from there on. The times that were kept are returned with the events, so
//! that missing events are not mistaken for silence.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use latlab_wire::trace::{Event, EventKind, joined};

/// Events kept beyond a window's edge at most, so that it ends outside of interrupts.
const MAX_BEYOND: usize = 256;

pub type Window = (u64, u64);

/// Filters one CPU's events in the order of writing: keeps those within any window, with the state at its
/// begin.
#[derive(Default)]
pub struct WindowFilter {
    /// Windows that are not over, sorted and disjoint.
    windows: VecDeque<Window>,
    is_inside: bool,
    beyond: usize,
    depth: Depth,
    /// Events of the interrupt under way.
    open: VecDeque<(u64, Event)>,
    switch: Option<(u64, Event)>,
    /// The last event of each task of the device.
    about: BTreeMap<u32, Option<(u64, Event)>>,
    /// The last begin or end of a page fault of each of them.
    faults: BTreeMap<u32, (u64, Event)>,
    number: u64,
    /// Time up to which events were taken.
    known_ns: u64,
    /// The last stretch grows while inside a window.
    kept: Vec<Stretch>,
    count: usize,
}

/// A stretch of time without omissions, its events numbered in the order of writing.
struct Stretch {
    window: Window,
    events: Vec<(u64, Event)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// In the order of writing.
    pub events: Vec<Event>,
    /// Times of the kept events, sorted and disjoint.
    pub windows: Vec<Window>,
}

impl WindowFilter {
    /// `tasks` are the known ones of the device.
    #[must_use]
    pub fn new(tasks: &BTreeSet<u32>) -> WindowFilter {
        let mut filter = WindowFilter::default();
        filter.know(tasks);
        filter
    }

    pub fn know(&mut self, tasks: &BTreeSet<u32>) {
        for &task in tasks {
            self.about.entry(task).or_default();
        }
    }

    /// Replaces the windows by these (joined).
    pub fn look_for(&mut self, windows: &[Window]) {
        let known = self.known_ns;
        let mut since = known;
        if self.is_inside {
            if let Some(stretch) = self.kept.last_mut() {
                since = stretch.window.0;
                stretch.window.1 = known.max(since);
            }
        }
        let rest = windows.iter().filter(|window| window.1 >= since);
        self.windows = rest.copied().collect();
        let here = |window: &Window| window.0 <= known;
        self.is_inside = self.is_inside && self.windows.front().is_some_and(here);
    }

    /// Drops kept events outside these windows (joined).
    pub fn let_go(&mut self, windows: &[Window]) {
        let last = self.kept.len().wrapping_sub(usize::from(self.is_inside));
        let mut number = 0;
        self.kept.retain(|stretch| {
            let next = windows.partition_point(|window| window.1 < stretch.window.0);
            let touches = |window: &Window| window.0 <= stretch.window.1;
            number += 1;
            number > last || windows.get(next).is_some_and(touches)
        });
        self.count = self.kept.iter().map(|stretch| stretch.events.len()).sum();
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    #[must_use]
    pub fn known_ns(&self) -> u64 {
        self.known_ns
    }

    /// Marks events before `from_ns` as incomplete: the state is unknown.
    pub fn lost_until(&mut self, from_ns: u64) {
        let windows = std::mem::take(&mut self.windows);
        self.look_for(&[]);
        self.windows = windows;
        self.depth = Depth::default();
        (self.switch, self.beyond) = (None, 0);
        self.open.clear();
        self.about.values_mut().for_each(|last| *last = None);
        self.faults.clear();
        self.known_ns = self.known_ns.max(from_ns);
        self.windows.retain(|window| window.1 >= from_ns);
    }

    pub fn take(&mut self, event: Event) {
        self.number += 1;
        while let Some(&(from, to)) = self.windows.front() {
            if event.time_ns < from {
                break;
            }
            self.enter();
            if event.time_ns <= to {
                self.keep(event);
                break;
            }
            if self.depth.is_open() && self.beyond < MAX_BEYOND {
                self.beyond += 1;
                self.keep(event);
                break;
            }
            self.leave();
        }
        if self.depth.after(&event) {
            self.open.push_back((self.number, event));
        } else {
            self.open.clear();
        }
        if self.open.len() > MAX_BEYOND {
            self.open.pop_front();
        }
        if event.kind == EventKind::Switch {
            self.switch = Some((self.number, event));
        }
        for task in concerned(&event).into_iter().flatten() {
            if let Some(last) = self.about.get_mut(&task) {
                *last = Some((self.number, event));
            }
        }
        if self.depth.is_of_a_fault(&event) && self.about.contains_key(&event.a) {
            self.faults.insert(event.a, (self.number, event));
        }
        self.known_ns = self.known_ns.max(event.time_ns);
    }

    fn keep(&mut self, event: Event) {
        if let Some(stretch) = self.kept.last_mut() {
            stretch.events.push((self.number, event));
            self.count += 1;
        }
    }

    fn enter(&mut self) {
        let Some(&window) = self.windows.front() else {
            return;
        };
        if std::mem::replace(&mut self.is_inside, true) {
            return;
        }
        let about = self.about.values().flatten();
        let about = about.chain(self.faults.values());
        let in_force = self.open.iter().chain(&self.switch).chain(about);
        let events: Vec<(u64, Event)> = in_force.copied().collect();
        self.count += events.len();
        let from = window.0.max(self.known_ns.min(window.1));
        self.kept.push(Stretch {
            window: (from, from),
            events,
        });
    }

    fn leave(&mut self) {
        let window = self.windows.pop_front();
        if let (Some(stretch), Some(window)) = (self.kept.last_mut(), window) {
            // The window may extend further, to end outside of interrupts.
            stretch.window.1 = window.1.max(self.known_ns).max(stretch.window.0);
        }
        (self.is_inside, self.beyond) = (false, 0);
    }

    #[must_use]
    pub fn finish(mut self) -> Kept {
        // A CPU without further events stays in its state.
        while !self.windows.is_empty() {
            self.enter();
            self.leave();
        }
        let windows = joined(self.kept.iter().map(|stretch| stretch.window));
        let all = self.kept.into_iter().flat_map(|stretch| stretch.events);
        let events: BTreeMap<u64, Event> = all.collect();
        Kept {
            events: events.into_values().collect(),
            windows,
        }
    }
}

/// Whether a CPU is inside of an interrupt or a fault.
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
            EventKind::FaultEntry if self.is_of_a_fault(event) => self.fault = true,
            EventKind::FaultExit => self.fault = false,
            EventKind::Switch => *self = Depth::default(),
            _ => {}
        }
        self.is_open()
    }

    /// Begin or end of a fault. In a hardirq no page comes in: a read failed there, and has no end.
    fn is_of_a_fault(&self, event: &Event) -> bool {
        match event.kind {
            EventKind::FaultEntry => !self.hard,
            EventKind::FaultExit => true,
            _ => false,
        }
    }

    fn is_open(&self) -> bool {
        self.hard || self.soft || self.fault
    }
}

fn concerned(event: &Event) -> [Option<u32>; 2] {
    match event.kind {
        EventKind::Switch => [Some(event.a), Some(event.switch().next)],
        EventKind::Wakeup => [Some(event.a), None],
        _ => [None, None],
    }
}

/// The parts of the windows that are not `known`; both joined.
#[must_use]
pub fn without(windows: &[Window], known: &[Window]) -> Vec<Window> {
    let mut rest = Vec::new();
    for &(from, to) in windows {
        let mut at = from;
        let next = known.partition_point(|window| window.1 < from);
        for window in known[next..].iter().take_while(|window| window.0 <= to) {
            if at < window.0 {
                rest.push((at, window.0));
            }
            at = at.max(window.1);
        }
        if at < to {
            rest.push((at, to));
        }
    }
    rest
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
            call: None,
        };
        event.a = previous;
        (event.b, event.detail) = switch.packed();
        event
    }

    fn times(events: &[Event], windows: &[(u64, u64)], tasks: &[u32]) -> Vec<u64> {
        let (windows, tasks) = (
            joined(windows.iter().copied()),
            tasks.iter().copied().collect(),
        );
        let cpus: BTreeSet<u16> = events.iter().map(|event| event.cpu).collect();
        let of_cpu = |cpu: u16| {
            let mut filter = WindowFilter::new(&tasks);
            filter.look_for(&windows);
            let own = events.iter().filter(|event| event.cpu == cpu);
            own.for_each(|event| filter.take(*event));
            filter.finish().events
        };
        let mut kept: Vec<Event> = cpus.into_iter().flat_map(of_cpu).collect();
        kept.sort_by_key(|event| event.time_ns);
        kept.iter().map(|event| event.time_ns).collect()
    }

    #[test]
    fn a_window_has_the_state_before_it() {
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
    fn a_read_that_fails_in_an_interrupt_opens_nothing() {
        let events = [
            event(10, 0, EventKind::VectorEntry),
            event(20, 0, EventKind::FaultEntry),
            event(30, 0, EventKind::VectorExit),
            event(40, 0, EventKind::NapiPoll),
        ];
        assert_eq!(times(&events, &[(5, 15)], &[]), [10, 20, 30]);
        assert_eq!(times(&events, &[(35, 45)], &[0]), [40]);
    }

    /// The fault that is under way at a window's begin may have begun on another CPU, long before.
    #[test]
    fn a_window_has_the_last_of_the_devices_faults() {
        let fault = |time_ns, cpu, kind, task| {
            let mut event = event(time_ns, cpu, kind);
            event.a = task;
            event
        };
        let events = [
            fault(10, 0, EventKind::FaultEntry, 7),
            fault(15, 0, EventKind::FaultEntry, 9),
            switch(20, 0, 7, 0),
            switch(30, 1, 0, 7),
            fault(40, 1, EventKind::FaultExit, 7),
            switch(50, 1, 7, 0),
            switch(60, 0, 0, 7),
        ];
        assert_eq!(times(&events, &[(5, 12)], &[7]), [10, 15, 20]);
        assert_eq!(times(&events, &[(25, 26)], &[7]), [10, 20]);
        assert_eq!(times(&events, &[(25, 26)], &[]), [20]);
        assert_eq!(times(&events, &[(70, 75)], &[7]), [10, 40, 50, 60]);
    }

    #[test]
    fn overlapping_windows_are_one() {
        assert_eq!(joined([(5, 9), (1, 6), (20, 21)]), [(1, 9), (20, 21)]);
    }
}
