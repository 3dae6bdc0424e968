//! What each CPU did and what state a task was in, as steps in time.

use std::collections::{BTreeMap, HashMap};

use latlab_samples::Passage;
use latlab_wire::trace::{Event, EventKind, vector};

use super::holes::Holes;

/// Task states of the kernel that mean "stopped" and "being traced".
const STOPPED: u16 = 4 | 8;
/// Kernel priorities below are real time.
const REALTIME_BELOW: u16 = 100;

/// What runs on a CPU, above its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Top {
    /// Nothing: the task itself.
    Task,
    /// The task's page fault.
    Fault,
    /// A softirq: its number, whether it came with a hardirq, how many packets it took,
    /// and how many of those were the device's own.
    Soft {
        number: u32,
        of_irq: bool,
        polled: u32,
        own: u32,
    },
    /// A hardirq: index of its name.
    Irq(usize),
    /// The local timer, calling nothing but the tick.
    Tick,
    /// The local timer, calling another function: index of its name.
    Timer(usize),
    /// Another interrupt without a number.
    Vector(u8),
}

/// A CPU's state from an instant on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub at_ns: u64,
    /// The task it has; `None` before the first event that tells.
    pub task: Option<u32>,
    pub top: Top,
}

/// What a CPU did.
#[derive(Debug, Default)]
pub struct Processor {
    pub steps: Vec<Step>,
}

impl Processor {
    /// The steps in force between two instants, the first of them beginning at or before `from`.
    pub fn between(&self, from: u64, to: u64) -> &[Step] {
        let begin = self.steps.partition_point(|step| step.at_ns <= from);
        let end = self.steps.partition_point(|step| step.at_ns < to);
        &self.steps[begin.saturating_sub(1)..end.max(begin.saturating_sub(1))]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Unknown,
    Running(u16),
    /// Could run, on this CPU; `woken` from sleep, otherwise preempted.
    Runnable {
        cpu: u16,
        woken: bool,
    },
    Throttled,
    Stopped,
    Asleep,
}

/// What is known of a task by its number.
#[derive(Debug, Clone, Default)]
pub struct Task {
    pub name: String,
    pub realtime: bool,
}

/// When packets passed taps, by CPU and in order: of a softirq that a task's own sending made,
/// that is all that tells when it began.
#[derive(Debug, Default)]
pub struct Marks {
    pub ins: BTreeMap<u16, Vec<u64>>,
    pub outs: BTreeMap<u16, Vec<u64>>,
}

impl Marks {
    pub fn of<'a>(packets: impl Iterator<Item = &'a Passage>) -> Marks {
        let mut marks = Marks::default();
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

    /// What was sent comes out right behind the beginning, or went in right before it. Without either
    /// nothing is known of the time before the end.
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

/// Everything the events tell.
#[derive(Debug, Default)]
pub struct Timelines {
    pub processors: BTreeMap<u16, Processor>,
    pub tasks: HashMap<u32, Task>,
    pub names: Vec<String>,
    /// When each softirq for received packets ended, by CPU: begin and end.
    pub received: BTreeMap<u16, Vec<(u64, u64)>>,
}

/// A task's name, if an event tells it.
pub fn name_of(events: &[Event], pid: u32) -> String {
    let tells = |event: &&Event| match event.kind {
        EventKind::Switch => event.switch().next == pid,
        EventKind::Wakeup => event.a == pid,
        _ => false,
    };
    events.iter().find(tells).map_or(String::new(), Event::text)
}

/// What is under way on one CPU while its events are read.
#[derive(Default)]
struct Stack {
    /// Losses that are behind us.
    holes: usize,
    /// When anything happened last.
    last_ns: u64,
    task: Option<u32>,
    faulting: std::collections::HashSet<u32>,
    soft: Option<Top>,
    /// Where the running softirq's steps begin.
    soft_from: usize,
    soft_at: u64,
    hard: Option<Top>,
    hard_from: usize,
    /// The last event was the end of a hardirq, or of a soft one that came with it.
    after_irq: bool,
}

impl Stack {
    fn top(&self) -> Top {
        let fault = self.task.is_some_and(|task| self.faulting.contains(&task));
        self.hard
            .or(self.soft)
            .unwrap_or(if fault { Top::Fault } else { Top::Task })
    }
}

impl Timelines {
    /// Reads the events, which must be in the order of time. `marks` tell when a softirq began that
    /// nobody looked at.
    pub fn of(events: &[Event], marks: &Marks, holes: &Holes) -> Timelines {
        let mut all = Timelines::default();
        let mut stacks: HashMap<u16, Stack> = HashMap::new();
        for event in events {
            let stack = stacks.entry(event.cpu).or_default();
            let mut event = *event;
            while let Some(hole) = holes.lost(event.cpu).get(stack.holes) {
                if event.time_ns <= hole.0 {
                    break;
                }
                all.forget(event.cpu, *hole, stack);
            }
            if event.kind == EventKind::SoftirqEntry && event.detail == 1 {
                event.time_ns = marks.begin(event.cpu, stack.last_ns, event.time_ns);
            }
            all.apply(&event, stack);
            stack.last_ns = event.time_ns;
        }
        all
    }

    /// Events were lost: what is under way now is not known.
    fn forget(&mut self, cpu: u16, (from, to): (u64, u64), stack: &mut Stack) {
        *stack = Stack {
            holes: stack.holes + 1,
            last_ns: to.max(stack.last_ns),
            ..Stack::default()
        };
        self.processors.entry(cpu).or_default().steps.push(Step {
            at_ns: from,
            task: None,
            top: Top::Task,
        });
    }

    /// Says of every softirq how many of the device's packets came out in it. `outs` are their
    /// times by CPU, in order.
    pub fn count_own(&mut self, outs: &BTreeMap<u16, Vec<u64>>) {
        for (cpu, received) in &self.received {
            let (Some(outs), Some(processor)) = (outs.get(cpu), self.processors.get_mut(cpu))
            else {
                continue;
            };
            for &(begin, end) in received {
                let first = outs.partition_point(|&out| out < begin);
                let count = outs[first..].partition_point(|&out| out <= end) as u32;
                if count == 0 {
                    continue;
                }
                let first = processor.steps.partition_point(|step| step.at_ns < begin);
                let inside = processor.steps[first..].iter_mut();
                for step in inside.take_while(|step| step.at_ns < end) {
                    if let Top::Soft { own, .. } = &mut step.top {
                        *own = count;
                    }
                }
            }
        }
    }

    fn apply(&mut self, event: &Event, stack: &mut Stack) {
        let processor = self.processors.entry(event.cpu).or_default();
        let mut after_irq = false;
        match event.kind {
            EventKind::Switch => {
                let switch = event.switch();
                stack.task = Some(switch.next);
                // Interrupts do not outlive the task they came upon; one whose end was lost is over.
                (stack.soft, stack.hard) = (None, None);
                let known = self.tasks.entry(switch.next).or_default();
                known.name = event.text();
                known.realtime = switch.next != 0 && switch.priority < REALTIME_BELOW;
            }
            EventKind::Wakeup => {
                self.tasks.entry(event.a).or_default().name = event.text();
                // It says nothing of what this CPU does, nor ends an interrupt.
                return;
            }
            EventKind::FaultEntry => {
                if let Some(task) = stack.task.or(Some(event.a)) {
                    stack.task = Some(task);
                    stack.faulting.insert(task);
                }
            }
            EventKind::FaultExit => {
                stack.faulting.remove(&event.a);
            }
            EventKind::SoftirqEntry => {
                stack.hard = None;
                stack.soft = Some(Top::Soft {
                    number: event.a,
                    of_irq: stack.after_irq,
                    polled: 0,
                    own: 0,
                });
                stack.soft_from = processor.steps.len();
                stack.soft_at = event.time_ns;
            }
            EventKind::SoftirqExit => {
                if let Some(Top::Soft { number, of_irq, .. }) = stack.soft.take() {
                    after_irq = of_irq;
                    if number == 3 {
                        let ends = self.received.entry(event.cpu).or_default();
                        ends.push((stack.soft_at, event.time_ns));
                    }
                }
            }
            EventKind::NapiPoll => {
                if let Some(Top::Soft { polled, .. }) = &mut stack.soft {
                    *polled += event.a;
                    let total = *polled;
                    for step in &mut processor.steps[stack.soft_from..] {
                        if let Top::Soft { polled, .. } = &mut step.top {
                            *polled = total;
                        }
                    }
                }
                return;
            }
            EventKind::IrqEntry => {
                self.names.push(event.text());
                stack.hard = Some(Top::Irq(self.names.len() - 1));
            }
            EventKind::VectorEntry => {
                stack.hard = Some(match event.detail {
                    vector::LOCAL_TIMER => Top::Tick,
                    other => Top::Vector(other),
                });
                stack.hard_from = processor.steps.len();
            }
            EventKind::HrtimerEntry => {
                let name = event.text();
                if stack.hard == Some(Top::Tick) && !name.starts_with("tick_") {
                    self.names.push(name);
                    let timer = Top::Timer(self.names.len() - 1);
                    stack.hard = Some(timer);
                    for step in &mut processor.steps[stack.hard_from..] {
                        step.top = timer;
                    }
                }
                return;
            }
            EventKind::IrqExit | EventKind::VectorExit => {
                stack.hard = None;
                after_irq = true;
            }
            // Ends of what is not looked into, and what is recorded at its end only.
            EventKind::HrtimerExit | EventKind::Nmi | EventKind::VmExit | EventKind::VmEntry => {
                return;
            }
        }
        stack.after_irq = after_irq;
        let step = Step {
            at_ns: event.time_ns,
            task: stack.task,
            top: stack.top(),
        };
        processor.steps.push(step);
    }
}

/// The states of one task, each from an instant on. `seen` are instants at which it is known to run
/// somewhere: a task that never leaves its CPU has no event of its own.
pub fn states(events: &[Event], pid: u32, seen: &[(u64, u16)]) -> Vec<(u64, State)> {
    let mut all: Vec<(u64, State)> = Vec::new();
    for event in events {
        let state = match event.kind {
            EventKind::Switch => {
                let switch = event.switch();
                if switch.next == pid {
                    State::Running(event.cpu)
                } else if switch.previous == pid {
                    if all.is_empty() {
                        // It was running until now.
                        all.push((0, State::Running(event.cpu)));
                    }
                    left(&switch, event.cpu)
                } else {
                    continue;
                }
            }
            EventKind::Wakeup if event.a == pid => match all.last() {
                Some((_, State::Asleep | State::Stopped | State::Unknown)) | None => {
                    let cpu = event.b as u16;
                    State::Runnable { cpu, woken: true }
                }
                Some(_) => continue,
            },
            _ => continue,
        };
        all.push((event.time_ns, state));
    }
    match (all.first().copied(), seen.first()) {
        (None, Some(&(_, cpu))) => all.push((0, State::Running(cpu))),
        (Some((first, _)), Some(&(at, cpu))) if first > 0 && at < first => {
            all.insert(0, (0, State::Running(cpu)));
        }
        (Some((first, _)), _) if first > 0 => all.insert(0, (0, State::Unknown)),
        _ => {}
    }
    all
}

fn left(switch: &latlab_wire::trace::Switch, cpu: u16) -> State {
    if switch.throttled {
        State::Throttled
    } else if switch.preempted || switch.state == 0 {
        State::Runnable { cpu, woken: false }
    } else if switch.state & STOPPED != 0 {
        State::Stopped
    } else {
        State::Asleep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nobody_looked_packets_tell_when_a_soft_interrupt_began() {
        let packet = |in_ns, out_ns| Passage {
            in_ns,
            out_ns: Some(out_ns),
            out_cpu: 1,
            ..Passage::default()
        };
        let packets = [packet(100, 900), packet(300, 950), packet(1_500, 2_000)];
        let marks = Marks::of(packets.iter());
        assert_eq!(marks.begin(1, 500, 1_000), 900, "the first that came out");
        assert_eq!(marks.begin(1, 920, 1_000), 950, "behind what happened last");
        assert_eq!(marks.begin(0, 50, 400), 300, "the last that went in");
        assert_eq!(marks.begin(0, 300, 400), 400, "nothing is known");
        assert_eq!(marks.begin(7, 0, 400), 400);
    }
}
