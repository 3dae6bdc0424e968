//! Timelines of CPUs: tasks and interrupts, as steps in time.

use std::collections::{BTreeMap, HashMap};

use latlab_samples::Passage;
use latlab_wire::trace::{Event, EventKind, vector};

use super::cause::Cause;
use super::faults::Faults;
use super::gaps::Gaps;
use super::softirq::NET_RX;

/// Kernel priorities below are real time.
const REALTIME_BELOW: u16 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuContext {
    Task,
    Fault,
    /// A softirq: its number, whether it followed a hardirq, the packets it took, and those of them that are
    /// the device's own.
    Soft {
        number: u32,
        of_irq: bool,
        polled: u32,
        own: u32,
    },
    /// A hardirq: index of its name.
    Irq(usize),
    /// The local timer with no function but the tick.
    Tick,
    /// The local timer with another function: index of its name.
    Timer(usize),
    Nmi,
    /// Another interrupt without a number.
    Vector(u8),
}

/// A CPU's state from an instant on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub at_ns: u64,
    /// The current task; `None` before the first event that tells.
    pub task: Option<u32>,
    pub context: CpuContext,
}

#[derive(Debug, Default)]
pub struct CpuTimeline {
    pub steps: Vec<Step>,
}

impl CpuTimeline {
    /// The steps between two instants, the first of them beginning at or before `from`.
    pub fn between(&self, from: u64, to: u64) -> &[Step] {
        let begin = self.steps.partition_point(|step| step.at_ns <= from);
        let end = self.steps.partition_point(|step| step.at_ns < to);
        &self.steps[begin.saturating_sub(1)..end.max(begin.saturating_sub(1))]
    }
}

#[derive(Debug, Clone, Default)]
pub struct Task {
    pub name: String,
    pub realtime: bool,
}

/// Times of packets at the taps, by CPU and in order. A softirq raised by a task's transmit has no other sign
/// of its begin.
#[derive(Debug, Default)]
pub struct TapTimes {
    pub ins: BTreeMap<u16, Vec<u64>>,
    pub outs: BTreeMap<u16, Vec<u64>>,
}

impl TapTimes {
    pub fn of<'a>(packets: impl Iterator<Item = &'a Passage>) -> TapTimes {
        let mut marks = TapTimes::default();
        for packet in packets {
            marks
                .ins
                .entry(packet.in_cpu)
                .or_default()
                .push(packet.in_ns);
            if let Some(out_ns) = packet.out_ns {
                marks.outs.entry(packet.out_cpu).or_default().push(out_ns);
            }
        }
        let all = marks.ins.values_mut().chain(marks.outs.values_mut());
        all.for_each(|times| times.sort_unstable());
        marks
    }

    /// Begin of a softirq: a transmitted packet comes out right after it, or went in right before it. Without
    /// a packet only the end is known.
    fn begin(&self, cpu: u16, after: u64, end: u64) -> u64 {
        let between = |times: Option<&Vec<u64>>, first: bool| {
            let times = times?;
            let from = times.partition_point(|&at| at <= after);
            let to = times.partition_point(|&at| at <= end);
            let inside = times.get(from..to)?;
            if first { inside.first() } else { inside.last() }.copied()
        };
        between(self.outs.get(&cpu), true)
            .or_else(|| between(self.ins.get(&cpu), false))
            .unwrap_or(end)
    }
}

#[derive(Debug, Default)]
pub struct Timelines {
    pub cpus: BTreeMap<u16, CpuTimeline>,
    pub tasks: HashMap<u32, Task>,
    names: Vec<String>,
    /// Begin and end of each NET_RX softirq, by CPU.
    pub received: BTreeMap<u16, Vec<(u64, u64)>>,
}

/// A task's name, if an event has it.
pub fn name_of(events: &[Event], pid: u32) -> String {
    let tells = |event: &&Event| match event.kind {
        EventKind::Switch => event.switch().next == pid,
        EventKind::Wakeup => event.a == pid,
        _ => false,
    };
    events.iter().find(tells).map_or(String::new(), Event::text)
}

#[derive(Default)]
struct Pending {
    /// Number of gaps passed.
    gaps: usize,
    last_ns: u64,
    task: Option<u32>,
    soft: Option<CpuContext>,
    /// Index of the running softirq's first step.
    soft_from: usize,
    soft_at: u64,
    hard: Option<CpuContext>,
    hard_from: usize,
    /// The last event was the end of a hardirq, or of a softirq that followed one.
    after_irq: bool,
}

impl Pending {
    /// The task that runs, if no switch told it before.
    fn has_task(&mut self, task: u32) {
        self.task.get_or_insert(task);
    }

    fn begin_softirq(&mut self, event: &Event, next_step: usize) {
        self.hard = None;
        self.soft = Some(CpuContext::Soft {
            number: event.a,
            of_irq: self.after_irq,
            polled: 0,
            own: 0,
        });
        self.soft_from = next_step;
        self.soft_at = event.time_ns;
    }

    fn begin_vector(&mut self, event: &Event, next_step: usize) {
        self.hard = Some(match event.detail {
            vector::LOCAL_TIMER => CpuContext::Tick,
            other => CpuContext::Vector(other),
        });
        self.hard_from = next_step;
    }

    /// Adds packets to the running softirq and all its steps.
    fn add_polled(&mut self, count: u32, steps: &mut [Step]) {
        let Some(CpuContext::Soft { polled, .. }) = &mut self.soft else {
            return;
        };
        *polled += count;
        let total = *polled;
        for step in &mut steps[self.soft_from..] {
            if let CpuContext::Soft { polled, .. } = &mut step.context {
                *polled = total;
            }
        }
    }

    /// The running tick is another timer from its begin on.
    fn name_timer(&mut self, timer: CpuContext, steps: &mut [Step]) {
        self.hard = Some(timer);
        for step in &mut steps[self.hard_from..] {
            if step.context == CpuContext::Tick {
                step.context = timer;
            }
        }
    }

    /// The begin of an NMI handler. It is recorded at its end, and no other event can come in between.
    fn nmi(&self, event: &Event) -> Step {
        let begin_ns = event.time_ns.saturating_sub(event.b);
        self.step(begin_ns.max(self.last_ns), CpuContext::Nmi)
    }

    fn step(&self, at_ns: u64, context: CpuContext) -> Step {
        Step {
            at_ns,
            task: self.task,
            context,
        }
    }

    fn context(&self, at_ns: u64, faults: &Faults) -> CpuContext {
        let fault = self.task.is_some_and(|task| faults.has(task, at_ns));
        self.hard.or(self.soft).unwrap_or(if fault {
            CpuContext::Fault
        } else {
            CpuContext::Task
        })
    }
}

impl Timelines {
    /// Reads the events, which must be in the order of time. `marks` give the begins of softirqs that were
    /// not recorded.
    pub fn of(events: &[Event], marks: &TapTimes, gaps: &Gaps) -> Timelines {
        let mut all = Timelines::default();
        let faults = Faults::of(events, gaps);
        let mut pending_by_cpu: HashMap<u16, Pending> = HashMap::new();
        for event in events {
            let pending = pending_by_cpu.entry(event.cpu).or_default();
            let mut event = *event;
            while let Some(gap) = gaps.lost(event.cpu).get(pending.gaps) {
                if event.time_ns <= gap.0 {
                    break;
                }
                all.forget(event.cpu, *gap, pending);
            }
            if event.kind == EventKind::SoftirqEntry && event.detail == 1 {
                event.time_ns = marks.begin(event.cpu, pending.last_ns, event.time_ns);
            }
            all.apply(&event, pending, &faults);
            pending.last_ns = event.time_ns;
        }
        all
    }

    /// The cause for which a CPU's task stands still; `None` while it runs.
    pub fn cause(&self, context: CpuContext) -> Option<Cause> {
        let name = |index: usize| self.names.get(index).cloned().unwrap_or_default();
        Some(match context {
            CpuContext::Task => return None,
            CpuContext::Fault => Cause::PageFault,
            CpuContext::Soft { number, .. } => Cause::SoftIrq(number),
            CpuContext::Irq(index) => Cause::HardIrq(name(index)),
            CpuContext::Nmi => Cause::Nmi,
            CpuContext::Tick => Cause::Tick,
            CpuContext::Timer(index) => Cause::Timer(name(index)),
            CpuContext::Vector(kind) => Cause::Ipi(kind),
        })
    }

    /// Events were lost: the CPU's context is unknown.
    fn forget(&mut self, cpu: u16, (from, to): (u64, u64), pending: &mut Pending) {
        *pending = Pending {
            gaps: pending.gaps + 1,
            last_ns: to.max(pending.last_ns),
            ..Pending::default()
        };
        self.cpus.entry(cpu).or_default().steps.push(Step {
            at_ns: from,
            task: None,
            context: CpuContext::Task,
        });
    }

    /// Sets for every softirq the number of the device's packets that came out in it. `outs` are their times
    /// by CPU, in order.
    pub fn count_own(&mut self, outs: &BTreeMap<u16, Vec<u64>>) {
        for (cpu, received) in &self.received {
            let (Some(outs), Some(timeline)) = (outs.get(cpu), self.cpus.get_mut(cpu)) else {
                continue;
            };
            for &(begin, end) in received {
                let first = outs.partition_point(|&out| out < begin);
                let count = outs[first..].partition_point(|&out| out <= end) as u32;
                if count == 0 {
                    continue;
                }
                let first = timeline.steps.partition_point(|step| step.at_ns < begin);
                let inside = timeline.steps[first..].iter_mut();
                for step in inside.take_while(|step| step.at_ns < end) {
                    if let CpuContext::Soft { own, .. } = &mut step.context {
                        *own = count;
                    }
                }
            }
        }
    }

    fn apply(&mut self, event: &Event, pending: &mut Pending, faults: &Faults) {
        let timeline = self.cpus.entry(event.cpu).or_default();
        let mut after_irq = false;
        match event.kind {
            EventKind::Switch => {
                let switch = event.switch();
                pending.task = Some(switch.next);
                // An interrupt does not outlive the task that it interrupted: one whose end was lost is over.
                (pending.soft, pending.hard) = (None, None);
                let known = self.tasks.entry(switch.next).or_default();
                known.name = event.text();
                known.realtime = switch.next != 0 && switch.priority < REALTIME_BELOW;
            }
            EventKind::Wakeup => {
                self.tasks.entry(event.a).or_default().name = event.text();
                // A wake-up neither changes this CPU's task nor ends an interrupt.
                return;
            }
            EventKind::FaultEntry => pending.has_task(event.a),
            EventKind::FaultExit => {}
            EventKind::SoftirqEntry => {
                pending.begin_softirq(event, timeline.steps.len());
            }
            EventKind::SoftirqExit => {
                if let Some(CpuContext::Soft { number, of_irq, .. }) = pending.soft.take() {
                    after_irq = of_irq;
                    if number == NET_RX {
                        let ends = self.received.entry(event.cpu).or_default();
                        ends.push((pending.soft_at, event.time_ns));
                    }
                }
            }
            EventKind::NapiPoll => {
                pending.add_polled(event.a, &mut timeline.steps);
                return;
            }
            EventKind::IrqEntry => {
                self.names.push(event.text());
                pending.hard = Some(CpuContext::Irq(self.names.len() - 1));
            }
            EventKind::VectorEntry => {
                pending.begin_vector(event, timeline.steps.len());
            }
            EventKind::HrtimerEntry => {
                let name = event.text();
                if pending.hard == Some(CpuContext::Tick) && !name.starts_with("tick_") {
                    self.names.push(name);
                    let timer = CpuContext::Timer(self.names.len() - 1);
                    pending.name_timer(timer, &mut timeline.steps);
                }
                return;
            }
            EventKind::IrqExit | EventKind::VectorExit => {
                pending.hard = None;
                after_irq = true;
            }
            EventKind::Nmi => {
                timeline.steps.push(pending.nmi(event));
                after_irq = pending.after_irq;
            }
            // Neither an interrupt nor another task; the others are of older records.
            EventKind::Call | EventKind::HrtimerExit | EventKind::VmExit | EventKind::VmEntry => {
                return;
            }
        }
        pending.after_irq = after_irq;
        let context = pending.context(event.time_ns, faults);
        timeline.steps.push(pending.step(event.time_ns, context));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_tell_the_begin_of_an_unrecorded_softirq() {
        let packet = |in_ns, out_ns| Passage {
            in_ns,
            out_ns: Some(out_ns),
            out_cpu: 1,
            ..Passage::default()
        };
        let packets = [packet(100, 900), packet(300, 950), packet(1_500, 2_000)];
        let marks = TapTimes::of(packets.iter());
        assert_eq!(marks.begin(1, 500, 1_000), 900, "the first that came out");
        assert_eq!(marks.begin(1, 920, 1_000), 950, "behind what happened last");
        assert_eq!(marks.begin(0, 50, 400), 300, "the last that went in");
        assert_eq!(marks.begin(0, 300, 400), 400, "nothing is known");
        assert_eq!(marks.begin(7, 0, 400), 400);
    }
}
