//! What the device as a whole was held up by, at every instant of a stretch of time.

use std::collections::BTreeMap;

use latlab_model::results::Hwlat;
use latlab_samples::Passage;
use latlab_wire::trace::{Event, EventKind, vector};

use super::holes::Holes;
use super::steal::Stolen;
use super::timeline::{Marks, State, Step, Timelines, Top};
use super::{Capture, Cause, Device, timeline};

/// The interruptions of one kind are one episode when the device had less than this between them.
const APART_NS: u64 = 100_000;
/// A timer's interrupt says how long its way in was. Longer ones are not its way: somebody kept interrupts
/// off.
const WAY_IN_NS: u64 = 50_000;
/// Packets that a softirq of the device's own sending takes: its own, and one that just came.
const OWN_PACKETS: u32 = 2;

/// A stretch of time and what it was spent on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub start_ns: u64,
    pub end_ns: u64,
    pub cause: Cause,
    /// The CPU it was spent on or waited for, where that is known.
    pub cpu: Option<u16>,
}

impl Span {
    pub fn new(start_ns: u64, end_ns: u64, cause: Cause, cpu: Option<u16>) -> Span {
        Span {
            start_ns,
            end_ns,
            cause,
            cpu,
        }
    }

    /// The same, between other instants.
    pub fn within(&self, start_ns: u64, end_ns: u64) -> Span {
        Span {
            start_ns,
            end_ns,
            ..self.clone()
        }
    }
}

/// The same interruption, possibly in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Episode {
    pub cause: Cause,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Of this, the time that it really had.
    pub active_ns: u64,
}

/// What is known of the machine, ready to be asked.
pub struct Server<'a> {
    pub timelines: Timelines,
    pub stolen: Stolen,
    pub states: Vec<(u64, State)>,
    /// For how long each of a CPU's timer interrupts was due when it began.
    late: BTreeMap<(u16, u64), u32>,
    holes: Holes,
    capture: &'a Capture,
}

impl<'a> Server<'a> {
    /// `seen` is an instant at which the device's task is known to run, and where.
    pub fn new(
        capture: &'a Capture,
        packets: &[&Passage],
        device: &Device,
        seen: &[(u64, u16)],
    ) -> Server<'a> {
        let holes = Holes::of(&capture.holes);
        let states = match device {
            Device::Kernel => Vec::new(),
            Device::Task { pid, .. } => {
                let states = timeline::states(&capture.events, *pid, seen);
                holes.doubt(states, &outs(packets, *pid))
            }
        };
        let marks = Marks::of(packets.iter().copied());
        let mut timelines = Timelines::of(&capture.events, &marks, &holes);
        timelines.count_own(&marks.outs);
        Server {
            timelines,
            stolen: super::steal::stolen(&capture.events, packets),
            late: late(&capture.events),
            states,
            holes,
            capture,
        }
    }

    /// A task of which is known that it runs on one CPU, but for the times `gaps`.
    pub fn of_runner(capture: &'a Capture, task: u32, cpu: u16, gaps: &[(u64, u64)]) -> Server<'a> {
        let holes = Holes::of(&capture.holes);
        Server {
            timelines: Timelines::of(&capture.events, &Marks::default(), &holes),
            stolen: super::steal::stolen_within(&capture.events, cpu, gaps),
            states: timeline::states(&capture.events, task, &[(0, cpu)]),
            late: late(&capture.events),
            holes,
            capture,
        }
    }

    /// What interrupts CPUs regularly and is no event.
    pub fn hwlat(&self) -> &'a [Hwlat] {
        &self.capture.hwlat
    }

    /// From when on an interrupt was on its way that began at an instant, as far as that is known.
    pub fn due(&self, cpu: u16, begin_ns: u64) -> Option<u64> {
        let late_ns = u64::from(*self.late.get(&(cpu, begin_ns))?);
        (late_ns <= WAY_IN_NS).then(|| begin_ns.saturating_sub(late_ns))
    }

    /// The interrupt that was on its way to a CPU between two instants.
    pub fn on_its_way(&self, cpu: u16, from: u64, to: u64) -> Option<Cause> {
        let mut later = self.late.range((cpu, from)..=(cpu, u64::MAX));
        let (&(_, begin), _) = later.next()?;
        let is_due = self.due(cpu, begin)? < to;
        let span = self.of_task(begin, begin + 1).into_iter().next();
        span.filter(|_| is_due).map(|span| span.cause)
    }

    /// What comes regularly from underneath the kernel, if an interruption that began at an instant came at its
    /// time.
    pub fn underneath(&self, cpu: u16, begin_ns: u64) -> Option<Cause> {
        // Where it is expected is as uncertain as when it was seen.
        let off = 2 * Hwlat::JITTER_NS;
        let is_it = |one: &&Hwlat| {
            let last = one.last_begin(begin_ns + off);
            one.cpu == cpu && last.is_some_and(|last| last.abs_diff(begin_ns) <= off)
        };
        self.hwlat().iter().find(is_it).map(Cause::from)
    }

    /// What held a program up between two instants. If it was held up already at the first, the first
    /// span begins where that began.
    pub fn of_task(&self, from: u64, to: u64) -> Vec<Span> {
        let mut spans = Vec::new();
        let first = self
            .states
            .partition_point(|&(at, _)| at <= from)
            .saturating_sub(1);
        for (index, &(at, state)) in self.states.iter().enumerate().skip(first) {
            if at >= to {
                break;
            }
            let ends = self.states.get(index + 1).map_or(u64::MAX, |next| next.0);
            let held = !matches!(state, State::Running(_) | State::Unknown);
            let begin = if held { at } else { at.max(from) };
            let (begin, end) = (begin, ends.min(to));
            if begin >= end {
                continue;
            }
            let off =
                |spans: &mut Vec<Span>, cause| push(spans, Span::new(begin, end, cause, None));
            match state {
                State::Running(cpu) => self.on(cpu, begin, end, &mut spans, |step| {
                    self.interrupting(step).unwrap_or(Cause::Running)
                }),
                State::Runnable { cpu, woken } => {
                    self.on(cpu, begin, end, &mut spans, |step| {
                        self.holding(step, woken)
                    });
                }
                State::Throttled => off(&mut spans, Cause::Throttled),
                State::Stopped => off(&mut spans, Cause::Stopped),
                State::Asleep => off(&mut spans, Cause::Asleep),
                State::Unknown => off(&mut spans, Cause::NotRecorded),
            }
        }
        if self.states.is_empty() {
            push(&mut spans, Span::new(from, to, Cause::NotRecorded, None));
        }
        self.holes.blind(spans)
    }

    /// What the kernel did with a packet on one CPU, which it got in the context of `sender`.
    pub fn of_kernel(&self, cpu: u16, sender: u32, from: u64, to: u64) -> Vec<Span> {
        let mut spans = Vec::new();
        self.on(cpu, from, to, &mut spans, |step| {
            match (step.top, step.task) {
                (Top::Soft { number: 2 | 3, .. }, _) => Cause::Running,
                (Top::Task, Some(task)) if task == sender => Cause::Running,
                (Top::Task | Top::Fault, _) if self.is_softirqd(step) => Cause::Running,
                (Top::Task, _) => self.holding(step, true),
                _ => self.interrupting(step).unwrap_or(Cause::Running),
            }
        });
        self.holes.blind(spans)
    }

    /// Until when the kernel was handing a packet to a program, and what that time was spent on.
    pub fn delivery(&self, packet: &Passage, to: u64) -> Vec<Span> {
        let mut spans = Vec::new();
        let Some(received) = self.timelines.received.get(&packet.in_cpu) else {
            return spans;
        };
        let next = received.partition_point(|&(_, end)| end <= packet.in_ns);
        let end = match received.get(next) {
            Some(&(begin, end)) if begin < to => end.min(to),
            _ => return spans,
        };
        // A program that is woken has it from then on.
        let end = self.woken(packet.in_ns, end).unwrap_or(end);
        self.on(
            packet.in_cpu,
            packet.in_ns,
            end,
            &mut spans,
            |step| match (step.top, step.task) {
                (Top::Soft { number: 2 | 3, .. }, _) => Cause::Delivery,
                (Top::Task, Some(task)) if task == packet.in_task => Cause::Delivery,
                (Top::Task, _) if self.is_softirqd(step) => Cause::Delivery,
                (Top::Task, _) => self.holding(step, true),
                _ => self.interrupting(step).unwrap_or(Cause::Delivery),
            },
        );
        self.holes.blind(spans)
    }

    fn woken(&self, from: u64, to: u64) -> Option<u64> {
        let next = self.states.partition_point(|&(at, _)| at < from);
        let woken = |state| matches!(state, State::Runnable { woken: true, .. });
        let found = self.states[next..].iter().find(|&&(_, state)| woken(state));
        found.map(|&(at, _)| at).filter(|&at| at < to)
    }

    /// Cuts a stretch of one CPU's time along its steps and what was stolen from it.
    fn on(
        &self,
        cpu: u16,
        from: u64,
        to: u64,
        spans: &mut Vec<Span>,
        cause: impl Fn(&Step) -> Cause,
    ) {
        let complete = self
            .capture
            .watched
            .iter()
            .find(|(watched, _)| *watched == cpu);
        let known_from = complete.map_or(to, |&(_, from)| from.clamp(from.min(to), to));
        let begin = from.max(known_from).min(to);
        push(spans, Span::new(from, begin, Cause::NotRecorded, Some(cpu)));
        let Some(processor) = self.timelines.processors.get(&cpu) else {
            // Watched, and nothing happened there.
            let nothing = Step {
                at_ns: begin,
                task: None,
                top: Top::Task,
            };
            self.less_stolen(cpu, begin, to, cause(&nothing), spans);
            return;
        };
        let steps = processor.between(begin, to);
        let first = steps.first().map_or(to, |step| step.at_ns);
        if first > begin {
            let before = Step {
                at_ns: begin,
                task: None,
                top: Top::Task,
            };
            self.less_stolen(cpu, begin, first.min(to), cause(&before), spans);
        }
        for (index, step) in steps.iter().enumerate() {
            let end = steps.get(index + 1).map_or(to, |next| next.at_ns);
            let start = step.at_ns.max(begin);
            self.less_stolen(cpu, start, end.min(to), cause(step), spans);
        }
    }

    fn less_stolen(&self, cpu: u16, from: u64, to: u64, cause: Cause, spans: &mut Vec<Span>) {
        let mut at = from;
        let held = Span::new(from, to, cause, Some(cpu));
        if let Some(stolen) = self.stolen.get(&cpu) {
            let next = stolen.partition_point(|&(_, end)| end <= from);
            for &(start, end) in stolen[next..].iter().take_while(|s| s.0 < to) {
                push(spans, held.within(at, start.clamp(at, to)));
                let (start, end) = (start.max(at), end.min(to));
                push(spans, Span::new(start, end, Cause::Steal, Some(cpu)));
                at = end.clamp(at, to);
            }
        }
        push(spans, held.within(at, to));
    }

    /// What interrupts the task on a CPU, if anything does.
    fn interrupting(&self, step: &Step) -> Option<Cause> {
        let name = |index: usize| self.timelines.names.get(index).cloned().unwrap_or_default();
        match step.top {
            Top::Task => None,
            Top::Fault => Some(Cause::PageFault),
            // What it sends is carried on in a softirq of its own making.
            Top::Soft {
                number: 2 | 3,
                of_irq: false,
                polled,
                ..
            } if polled <= OWN_PACKETS => None,
            // That may run when a hardirq ends, which has nothing to do with it, as long as it
            // takes none but the device's own.
            Top::Soft {
                number: 3,
                polled,
                own,
                ..
            } if own > 0 && polled <= own => None,
            Top::Soft { number, .. } => Some(Cause::SoftIrq(number)),
            Top::Irq(index) => Some(Cause::HardIrq(name(index))),
            Top::Tick => Some(Cause::Tick),
            Top::Timer(index) => Some(Cause::Timer(name(index))),
            Top::Vector(kind) => Some(Cause::Ipi(kind)),
        }
    }

    /// Who has the CPU that somebody else could use.
    fn holding(&self, step: &Step, woken: bool) -> Cause {
        match step.task {
            None => Cause::NotRecorded,
            Some(0) => match self.interrupting(step) {
                Some(cause) => cause,
                None if woken => Cause::IdleExit,
                // It could run, the CPU is free, and still it does not: only a limit does that.
                None => Cause::Throttled,
            },
            Some(task) => match self.interrupting(step) {
                // What comes upon that task would come upon the device as well; its faults are its own.
                Some(cause) if cause != Cause::PageFault => cause,
                _ if self.is_softirqd(step) => match step.top {
                    Top::Soft { number, .. } => Cause::SoftIrq(number),
                    _ => Cause::SoftIrq(3),
                },
                _ => {
                    let known = self.timelines.tasks.get(&task).cloned().unwrap_or_default();
                    Cause::Waiting {
                        task: known.name,
                        realtime: known.realtime,
                    }
                }
            },
        }
    }

    fn is_softirqd(&self, step: &Step) -> bool {
        let known = step.task.and_then(|task| self.timelines.tasks.get(&task));
        known.is_some_and(|known| known.name.starts_with("ksoftirqd/"))
    }
}

/// For how long timers' interrupts were due.
fn late(events: &[Event]) -> BTreeMap<(u16, u64), u32> {
    let is_late = |event: &&Event| {
        let is_timer = event.kind == EventKind::VectorEntry && event.detail == vector::LOCAL_TIMER;
        is_timer && event.a > 0
    };
    let late = events.iter().filter(is_late);
    late.map(|event| ((event.cpu, event.time_ns), event.a))
        .collect()
}

/// When and where packets came out in a task, in order.
fn outs(packets: &[&Passage], task: u32) -> Vec<(u64, u16)> {
    let own = packets.iter().filter(|packet| packet.out_task == task);
    let mut all: Vec<(u64, u16)> = own.filter_map(|p| Some((p.out_ns?, p.out_cpu))).collect();
    all.sort_unstable();
    all
}

/// Adds a span, joined to the one before if that is of the same cause.
pub fn push(spans: &mut Vec<Span>, span: Span) {
    if span.start_ns >= span.end_ns {
        return;
    }
    match spans.last_mut() {
        Some(last)
            if last.end_ns == span.start_ns && last.cause == span.cause && last.cpu == span.cpu =>
        {
            last.end_ns = span.end_ns;
        }
        _ => spans.push(span),
    }
}

/// Joins the interruptions of one kind that follow each other closely. What was itself interrupted, by
/// another task or an interrupt of another kind, is one all the same.
pub fn episodes(spans: &[Span]) -> Vec<Episode> {
    let mut all: Vec<Episode> = Vec::new();
    // For how long something else had taken the CPU, in all, at the end of each episode.
    let mut taken_at: Vec<u64> = Vec::new();
    let mut taken = 0;
    for span in spans {
        let length = span.end_ns - span.start_ns;
        let before = taken;
        if span.cause.takes_the_processor() {
            taken += length;
        }
        if span.cause.is_ordinary() {
            continue;
        }
        let is_near = |at: &usize| {
            let apart = span.start_ns.saturating_sub(all[*at].end_ns);
            all[*at].cause == span.cause && apart.saturating_sub(before - taken_at[*at]) < APART_NS
        };
        match (0..all.len()).rev().take(16).find(is_near) {
            Some(at) => {
                all[at].end_ns = span.end_ns;
                all[at].active_ns += length;
                taken_at[at] = taken;
            }
            None => {
                all.push(Episode {
                    cause: span.cause.clone(),
                    start_ns: span.start_ns,
                    end_ns: span.end_ns,
                    active_ns: length,
                });
                taken_at.push(taken);
            }
        }
    }
    all
}
