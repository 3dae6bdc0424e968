//! A timeline for ui.perfetto.dev: packets as slices, divided by cause, above the CPUs' timelines. The format
//! is the Trace Event Format (JSON), times in microseconds.

use serde_json::{Map, Value, json};

use super::error::ExplainError;
use super::tables::{Choice, each};
use crate::attribution::Explained;
use latlab_samples::RunDir;
use latlab_wire::trace::{Event, EventKind};

/// Writes the slowest packets of the chosen trials, each with the CPUs around it. Fails when the run directory is not
/// whole, or nothing in it went through taps.
pub fn trace(run: &RunDir, choice: &Choice) -> Result<Value, ExplainError> {
    let mut all = Vec::new();
    each(run, choice, |tables| {
        for (hop, place) in tables.trace.hops.iter().enumerate() {
            let name = &place.device;
            let process = u64::from(tables.trial.trial) * 100 + hop as u64;
            let title = format!("trial {}: packets through {name}", tables.trial.trial);
            all.push(named("process_name", process, 0, &title));
            packets(&tables.attribute(hop)?.attribution.worst, process, &mut all);
        }
        let process = u64::from(tables.trial.trial) * 100 + 99;
        let title = format!("trial {}: CPUs", tables.trial.trial);
        all.push(named("process_name", process, 0, &title));
        cpu_lines(&tables.capture.events, process, &mut all);
        Ok(())
    })?;
    Ok(json!({"traceEvents": all, "displayTimeUnit": "ns"}))
}

fn named(what: &str, process: u64, thread: u64, name: &str) -> Value {
    json!({"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}})
}

fn slice(name: &str, process: u64, thread: u64, from: u64, to: u64, args: &Value) -> Value {
    json!({
        "ph": "X", "name": name, "pid": process, "tid": thread,
        "ts": from as f64 / 1e3, "dur": (to - from) as f64 / 1e3, "args": args,
    })
}

/// Packets that overlap in time go on separate lines.
fn packets(worst: &[Explained], process: u64, all: &mut Vec<Value>) {
    let mut sorted: Vec<&Explained> = worst.iter().collect();
    sorted.sort_by_key(|one| one.passage.in_ns);
    let mut lines: Vec<u64> = Vec::new();
    for one in sorted {
        let (from, to) = (one.passage.in_ns, one.passage.in_ns + one.latency_ns());
        let free = lines.iter().position(|&until| until <= from);
        let line = free.unwrap_or(lines.len());
        if free.is_none() {
            lines.push(0);
            all.push(named("thread_name", process, line as u64, "packets"));
        }
        lines[line] = to;
        let args = json!({
            "flow": one.passage.flow,
            "seq": one.passage.sequence,
            "first cause": one.first.to_string(),
        });
        let name = format!("packet {}", one.passage.sequence);
        all.push(slice(&name, process, line as u64, from, to, &args));
        for piece in &one.pieces {
            let name = piece.cause.to_string();
            let (from, to) = (piece.start_ns, piece.end_ns);
            let parts = piece.parts.iter();
            let parts: Map<String, Value> = parts
                .map(|(cause, ns)| (cause.to_string(), json!(ns)))
                .collect();
            let args = if parts.is_empty() {
                json!({"CPU": piece.cpu})
            } else {
                json!({"CPU": piece.cpu, "ns of each": parts})
            };
            all.push(slice(&name, process, line as u64, from, to, &args));
        }
    }
}

/// Tasks on one line a CPU, interrupts on another.
fn cpu_lines(events: &[Event], process: u64, all: &mut Vec<Value>) {
    let mut tasks: std::collections::BTreeMap<u16, (u64, String)> = Default::default();
    let mut open: std::collections::BTreeMap<u16, Interrupts> = Default::default();
    for event in events {
        let line = u64::from(event.cpu) * 2;
        match event.kind {
            EventKind::Switch => {
                let name = format!("{} ({})", event.text(), event.switch().next);
                match tasks.insert(event.cpu, (event.time_ns, name)) {
                    Some((from, name)) if from < event.time_ns => {
                        all.push(slice(&name, process, line, from, event.time_ns, &json!({})));
                    }
                    Some(_) => {}
                    None => {
                        let name = format!("CPU {}", event.cpu);
                        all.push(named("thread_name", process, line, &name));
                        let name = format!("CPU {} interrupts", event.cpu);
                        all.push(named("thread_name", process, line + 1, &name));
                    }
                }
            }
            _ => {
                let over = open.entry(event.cpu).or_default().after(event);
                all.extend(over.into_iter().map(|(from, name)| {
                    slice(&name, process, line + 1, from, event.time_ns, &json!({}))
                }));
            }
        }
    }
}

/// Events under way on a CPU, by class: begin and name.
#[derive(Default)]
struct Interrupts([Vec<(u64, String)>; 5]);

impl Interrupts {
    /// Classes that an event ends. A timer's function ends where the next one of its interrupt begins, or
    /// with the interrupt.
    fn after(&mut self, event: &Event) -> Vec<(u64, String)> {
        let Some((class, begins)) = class(event.kind) else {
            return Vec::new();
        };
        if begins {
            let over = match class {
                TIMER => self.timers_since(self.innermost()),
                _ => Vec::new(),
            };
            self.0[class].push((event.time_ns, describe(event)));
            return over;
        }
        let ended = self.0[class].pop();
        let mut over = match class {
            IRQ | SOFT | VECTOR => self.timers_since(ended.as_ref().map_or(0, |(from, _)| *from)),
            _ => Vec::new(),
        };
        over.extend(ended);
        over
    }

    /// Begin of the innermost interrupt under way.
    fn innermost(&self) -> u64 {
        let last = |class: usize| self.0[class].last().map(|(from, _)| *from);
        [IRQ, SOFT, VECTOR]
            .into_iter()
            .filter_map(last)
            .max()
            .unwrap_or(0)
    }

    fn timers_since(&mut self, from: u64) -> Vec<(u64, String)> {
        let timers = &mut self.0[TIMER];
        timers.split_off(timers.partition_point(|timer| timer.0 < from))
    }
}

const IRQ: usize = 0;
const SOFT: usize = 1;
const VECTOR: usize = 2;
const TIMER: usize = 3;
const FAULT: usize = 4;

fn class(kind: EventKind) -> Option<(usize, bool)> {
    Some(match kind {
        EventKind::IrqEntry => (IRQ, true),
        EventKind::IrqExit => (IRQ, false),
        EventKind::SoftirqEntry => (SOFT, true),
        EventKind::SoftirqExit => (SOFT, false),
        EventKind::VectorEntry => (VECTOR, true),
        EventKind::VectorExit => (VECTOR, false),
        EventKind::HrtimerEntry => (TIMER, true),
        EventKind::HrtimerExit => (TIMER, false),
        EventKind::FaultEntry => (FAULT, true),
        EventKind::FaultExit => (FAULT, false),
        _ => return None,
    })
}

fn describe(event: &Event) -> String {
    use crate::attribution::Cause;
    use latlab_wire::trace::vector;
    match event.kind {
        EventKind::IrqEntry => Cause::HardIrq(event.text()).to_string(),
        EventKind::SoftirqEntry => Cause::SoftIrq(event.a).to_string(),
        EventKind::VectorEntry if event.detail == vector::LOCAL_TIMER => "local timer".into(),
        EventKind::VectorEntry => Cause::Ipi(event.detail).to_string(),
        EventKind::HrtimerEntry => Cause::Timer(event.text()).to_string(),
        _ => Cause::PageFault.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_wire::trace::{TEXT_BYTES, vector};

    fn ended(events: &[(u64, EventKind, &str)]) -> Vec<(String, u64, u64)> {
        let mut open = Interrupts::default();
        let of = |&(time_ns, kind, text): &(u64, EventKind, &str)| {
            let mut event = Event {
                time_ns,
                steal_ns: 0,
                cpu: 0,
                kind,
                detail: vector::LOCAL_TIMER,
                a: 8,
                b: 0,
                text: [0; TEXT_BYTES],
            };
            event.set_text(text);
            event
        };
        let over = events.iter().map(of).flat_map(|event| {
            let over = open.after(&event).into_iter();
            over.map(move |(from, name)| (name, from, event.time_ns))
        });
        over.collect()
    }

    fn timer(name: &str) -> String {
        crate::attribution::Cause::Timer(name.into()).to_string()
    }

    #[test]
    fn a_timers_function_is_over_where_the_next_begins_or_its_interrupt_ends() {
        use EventKind::*;
        let events = [
            (10, VectorEntry, ""),
            (11, HrtimerEntry, "one"),
            (15, HrtimerEntry, "two"),
            (19, VectorExit, ""),
        ];
        let expected = [
            (timer("one"), 11, 15),
            (timer("two"), 15, 19),
            ("local timer".into(), 10, 19),
        ];
        assert_eq!(ended(&events), expected);
    }

    #[test]
    fn an_interrupt_inside_does_not_end_a_timer_of_a_soft_one() {
        use EventKind::*;
        let events = [
            (10, SoftirqEntry, ""),
            (11, HrtimerEntry, "soft"),
            (20, VectorEntry, ""),
            (21, HrtimerEntry, "hard"),
            (25, VectorExit, ""),
            (30, SoftirqExit, ""),
        ];
        let soft = crate::attribution::Cause::SoftIrq(8).to_string();
        let expected = [
            (timer("hard"), 21, 25),
            ("local timer".into(), 20, 25),
            (timer("soft"), 11, 30),
            (soft, 10, 30),
        ];
        assert_eq!(ended(&events), expected);
    }

    #[test]
    fn a_record_that_tells_a_functions_end_is_believed() {
        use EventKind::*;
        let events = [
            (10, VectorEntry, ""),
            (11, HrtimerEntry, "one"),
            (14, HrtimerExit, ""),
            (19, VectorExit, ""),
        ];
        let expected = [(timer("one"), 11, 14), ("local timer".into(), 10, 19)];
        assert_eq!(ended(&events), expected);
    }
}
