//! Causes of delay of the device as a whole, at every instant of a stretch of time.

use std::collections::BTreeMap;

use latlab_model::results::{ActionKind, Hwlat, SilentStalls};
use latlab_samples::Passage;
use latlab_wire::trace::{Event, EventKind, vector};

use super::capture::Capture;
use super::cause::Cause;
use super::device::Device;
use super::gaps::Gaps;
use super::softirq::{NET_RX, NET_TX};
use super::span::{Span, push};
use super::steal::{self, Stolen};
use super::task_states::{self, State};
use super::timeline::{CpuContext, Step, TapTimes, Timelines};

/// Longest entry of a timer interrupt, by its own lateness. Beyond it, interrupts were kept off.
const MAX_ENTRY_NS: u64 = 50_000;
/// Packets of a softirq raised by the device's own transmit: its own, and one that just came.
const OWN_PACKETS: u32 = 2;

pub struct DeviceTimeline<'a> {
    pub timelines: Timelines,
    pub stolen: Stolen,
    pub states: Vec<(u64, State)>,
    /// Lateness of each timer interrupt, by CPU and begin.
    late: BTreeMap<(u16, u64), u32>,
    gaps: Gaps,
    /// Slow system calls of the device's task: begin, end and number, in order.
    calls: Vec<(u64, u64, u16)>,
    /// When the device's node stood still for an action, and for which.
    held: Vec<(u64, u64, ActionKind)>,
    capture: &'a Capture,
}

impl<'a> DeviceTimeline<'a> {
    /// `seen` is a time and CPU at which the device's task is known to run.
    pub fn new(
        capture: &'a Capture,
        packets: &[&Passage],
        device: &Device,
        seen: &[(u64, u16)],
    ) -> DeviceTimeline<'a> {
        let gaps = Gaps::of(&capture.gaps);
        let (states, calls) = match device {
            Device::Kernel => Default::default(),
            Device::Task { pid, .. } => {
                let states = task_states::states(&capture.events, *pid, seen);
                let states = gaps.invalidate_states(states, &outs(packets, *pid));
                (states, calls(&capture.events, *pid))
            }
        };
        let marks = TapTimes::of(packets.iter().copied());
        let mut timelines = Timelines::of(&capture.events, &marks, &gaps);
        timelines.count_own(&marks.outs);
        DeviceTimeline {
            timelines,
            stolen: steal::stolen(&capture.events, packets),
            late: late(&capture.events),
            states,
            gaps,
            calls,
            held: Vec::new(),
            capture,
        }
    }

    /// The same for a device in a node.
    pub fn in_node(mut self, node: Option<&str>) -> Self {
        let all = self.capture.held.iter();
        let own = all.filter(|held| Some(held.node.as_str()) == node);
        self.held = own
            .map(|held| (held.from_ns, held.to_ns, held.act))
            .collect();
        self
    }

    /// The timeline of a task that runs on one CPU except in `pauses`.
    pub fn for_spinner(
        capture: &'a Capture,
        task: u32,
        cpu: u16,
        pauses: &[(u64, u64)],
    ) -> DeviceTimeline<'a> {
        let gaps = Gaps::of(&capture.gaps);
        DeviceTimeline {
            timelines: Timelines::of(&capture.events, &TapTimes::default(), &gaps),
            stolen: steal::stolen_within(&capture.events, cpu, pauses),
            states: task_states::states(&capture.events, task, &[(0, cpu)]),
            late: late(&capture.events),
            gaps,
            calls: Vec::new(),
            held: Vec::new(),
            capture,
        }
    }

    pub fn hwlat(&self) -> &'a [Hwlat] {
        &self.capture.hwlat
    }

    /// Other interruptions without events.
    pub fn stalls(&self) -> &'a [SilentStalls] {
        &self.capture.stalls
    }

    /// The device's slow system calls between two instants, cut to them.
    pub fn calls(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64, u16)> {
        let next = self.calls.partition_point(|&(_, end, _)| end <= from);
        let inside = self.calls[next..]
            .iter()
            .take_while(move |call| call.0 < to);
        inside.map(move |&(begin, end, number)| (begin.max(from), end.min(to), number))
    }

    pub fn call_name(&self, number: u16) -> String {
        let known = self.capture.calls.get(&number);
        known.cloned().unwrap_or_else(|| format!("number {number}"))
    }

    /// Due time of a timer interrupt that began at `begin_ns`, if known.
    pub fn due(&self, cpu: u16, begin_ns: u64) -> Option<u64> {
        let late_ns = u64::from(*self.late.get(&(cpu, begin_ns))?);
        (late_ns <= MAX_ENTRY_NS).then(|| begin_ns.saturating_sub(late_ns))
    }

    /// The interrupt that was due, but not begun, on a CPU between two instants.
    pub fn pending_interrupt(&self, cpu: u16, from: u64, to: u64) -> Option<Cause> {
        let mut later = self.late.range((cpu, from)..=(cpu, u64::MAX));
        let (&(_, begin), _) = later.next()?;
        let is_due = self.due(cpu, begin)? < to;
        let span = self.task_spans(begin, begin + 1).into_iter().next();
        span.filter(|_| is_due).map(|span| span.cause)
    }

    /// The periodic interruption in whose phase an interruption began.
    pub fn underneath(&self, cpu: u16, begin_ns: u64) -> Option<Cause> {
        // The expected and the seen begin have this uncertainty each.
        let off = 2 * Hwlat::JITTER_NS;
        let is_it = |one: &&Hwlat| {
            let last = one.last_begin(begin_ns + off);
            one.cpu == cpu && last.is_some_and(|last| last.abs_diff(begin_ns) <= off)
        };
        self.hwlat().iter().find(is_it).map(Cause::from)
    }

    /// Causes of delay of a program between two instants. If it is delayed at the first, the first span
    /// starts at the begin of that delay.
    pub fn task_spans(&self, from: u64, to: u64) -> Vec<Span> {
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
                State::Running(cpu) => self.cpu_spans(cpu, begin, end, &mut spans, |step| {
                    self.interrupted_by(step).unwrap_or(Cause::Running)
                }),
                State::Runnable { cpu, woken } => {
                    self.cpu_spans(cpu, begin, end, &mut spans, |step| {
                        self.blocked_by(step, woken)
                    });
                }
                State::Throttled => off(&mut spans, Cause::Throttled),
                State::Stopped => off(&mut spans, Cause::Stopped),
                State::Asleep(call) => {
                    let call = call.map(|number| self.call_name(number));
                    off(&mut spans, Cause::Asleep(call));
                }
                State::Unknown => off(&mut spans, Cause::NotRecorded),
            }
        }
        if self.states.is_empty() {
            push(&mut spans, Span::new(from, to, Cause::NotRecorded, None));
        }
        self.without_held(self.gaps.mask_spans(spans))
    }

    /// Activities of the kernel on one CPU while it had a packet, received in the context of `sender`.
    pub fn kernel_spans(&self, cpu: u16, sender: u32, from: u64, to: u64) -> Vec<Span> {
        let mut spans = Vec::new();
        self.cpu_spans(cpu, from, to, &mut spans, |step| match step.context {
            CpuContext::Fault if self.is_softirqd(step) => Cause::Running,
            _ => self.in_kernel(step, sender, Cause::Running),
        });
        self.without_held(self.gaps.mask_spans(spans))
    }

    /// The spans with the time in which the node stood still cut out.
    fn without_held(&self, spans: Vec<Span>) -> Vec<Span> {
        if self.held.is_empty() {
            return spans;
        }
        let mut cut = Vec::new();
        for span in spans {
            let next = self.held.partition_point(|&(_, to, _)| to <= span.start_ns);
            let held = self.held[next..].iter().take_while(|h| h.0 < span.end_ns);
            let parts = held.map(|&(from, to, act)| (from, to, Cause::Held(act), None));
            span.push_divided(parts, &mut cut);
        }
        cut
    }

    /// The time in which the kernel handed a packet to a program, by cause.
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
        // A program has the packet from its wake-up on.
        let end = self.woken(packet.in_ns, end).unwrap_or(end);
        self.cpu_spans(packet.in_cpu, packet.in_ns, end, &mut spans, |step| {
            self.in_kernel(step, packet.in_task, Cause::Delivery)
        });
        self.without_held(self.gaps.mask_spans(spans))
    }

    /// The work of a CPU while the kernel has a packet of `sender` on it; `work` if it handles packets.
    fn in_kernel(&self, step: &Step, sender: u32, work: Cause) -> Cause {
        match step.context {
            CpuContext::Soft {
                number: NET_TX | NET_RX,
                ..
            } => work,
            CpuContext::Task if step.task == Some(sender) || self.is_softirqd(step) => work,
            CpuContext::Task => self.blocked_by(step, true),
            _ => self.interrupted_by(step).unwrap_or(work),
        }
    }

    fn woken(&self, from: u64, to: u64) -> Option<u64> {
        let next = self.states.partition_point(|&(at, _)| at < from);
        let woken = |state| matches!(state, State::Runnable { woken: true, .. });
        let found = self.states[next..].iter().find(|&&(_, state)| woken(state));
        found.map(|&(at, _)| at).filter(|&at| at < to)
    }

    /// Divides a stretch of one CPU's time by its steps and by steal.
    fn cpu_spans(
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
        // A watched CPU may have no events.
        let timeline = self.timelines.cpus.get(&cpu);
        let steps = timeline.map_or(&[][..], |timeline| timeline.between(begin, to));
        let first = steps.first().map_or(to, |step| step.at_ns);
        if first > begin {
            let before = Step {
                at_ns: begin,
                task: None,
                context: CpuContext::Task,
            };
            self.without_steal(cpu, begin, first.min(to), cause(&before), spans);
        }
        for (index, step) in steps.iter().enumerate() {
            let end = steps.get(index + 1).map_or(to, |next| next.at_ns);
            let start = step.at_ns.max(begin);
            self.without_steal(cpu, start, end.min(to), cause(step), spans);
        }
    }

    fn without_steal(&self, cpu: u16, from: u64, to: u64, cause: Cause, spans: &mut Vec<Span>) {
        let stolen = self.stolen.get(&cpu).map_or(&[][..], Vec::as_slice);
        let next = stolen.partition_point(|&(_, end)| end <= from);
        let stolen = stolen[next..].iter().take_while(|s| s.0 < to);
        let parts = stolen.map(|&(start, end)| (start, end, Cause::Steal, Some(cpu)));
        Span::new(from, to, cause, Some(cpu)).push_divided(parts, spans);
    }

    /// The interrupt of the task on a CPU, if any.
    fn interrupted_by(&self, step: &Step) -> Option<Cause> {
        match step.context {
            // The device's transmit raises a softirq for its own packet.
            CpuContext::Soft {
                number: NET_TX | NET_RX,
                of_irq: false,
                polled,
                ..
            } if polled <= OWN_PACKETS => None,
            // That softirq may run at the end of an unrelated hardirq. It is the device's if it took the
            // device's packets only.
            CpuContext::Soft {
                number: NET_RX,
                polled,
                own,
                ..
            } if own > 0 && polled <= own => None,
            context => self.timelines.cause(context),
        }
    }

    /// The task or interrupt that has the CPU which the device wants.
    fn blocked_by(&self, step: &Step, woken: bool) -> Cause {
        match step.task {
            None => Cause::NotRecorded,
            Some(0) => match self.interrupted_by(step) {
                Some(cause) => cause,
                None if woken => Cause::IdleExit,
                // A runnable task on a free CPU: only throttling does that.
                None => Cause::Throttled,
            },
            Some(task) => match self.interrupted_by(step) {
                // An interrupt of that task would interrupt the device as well; a page fault is the task's
                // own.
                Some(cause) if cause != Cause::PageFault => cause,
                _ if self.is_softirqd(step) => match step.context {
                    CpuContext::Soft { number, .. } => Cause::SoftIrq(number),
                    _ => Cause::SoftIrq(NET_RX),
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

fn late(events: &[Event]) -> BTreeMap<(u16, u64), u32> {
    let is_late = |event: &&Event| {
        let is_timer = event.kind == EventKind::VectorEntry && event.detail == vector::LOCAL_TIMER;
        is_timer && event.a > 0
    };
    let late = events.iter().filter(is_late);
    late.map(|event| ((event.cpu, event.time_ns), event.a))
        .collect()
}

/// Slow system calls of a task.
fn calls(events: &[Event], task: u32) -> Vec<(u64, u64, u16)> {
    let own = |event: &&Event| event.kind == EventKind::Call && event.a == task;
    let call = |event: &Event| (event.call().begin_ns, event.time_ns, event.call().number);
    events.iter().filter(own).map(call).collect()
}

/// Time and CPU of the packets that came out in a task, in order.
fn outs(packets: &[&Passage], task: u32) -> Vec<(u64, u16)> {
    let own = packets.iter().filter(|packet| packet.out_task == task);
    let mut all: Vec<(u64, u16)> = own.filter_map(|p| Some((p.out_ns?, p.out_cpu))).collect();
    all.sort_unstable();
    all
}
