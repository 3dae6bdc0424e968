//! A timeline for ui.perfetto.dev: packets as slices, split into their causes, above what the
//! processors did. The format is the Trace Event Format (JSON), times in microseconds.

use serde_json::{Map, Value, json};

use super::{Choice, ExplainError, each};
use crate::attribution::Explained;
use latlab_samples::RunDir;
use latlab_wire::trace::{Event, EventKind};

/// Writes the slowest packets of the chosen trials, each with the processors around it.
///
/// # Errors
/// When the run directory is not whole, or nothing in it went through taps.
pub fn trace(run: &RunDir, choice: &Choice) -> Result<Value, ExplainError> {
    let mut all = Vec::new();
    each(run, choice, |tables| {
        for (hop, place) in tables.trace.hops.iter().enumerate() {
            let name = &place.device;
            let process = u64::from(tables.trial.trial) * 100 + hop as u64;
            let title = format!("trial {}: packets through {name}", tables.trial.trial);
            all.push(named("process_name", process, 0, &title));
            packets(&tables.look(hop)?.attribution.worst, process, &mut all);
        }
        let process = u64::from(tables.trial.trial) * 100 + 99;
        let title = format!("trial {}: processors", tables.trial.trial);
        all.push(named("process_name", process, 0, &title));
        processors(&tables.capture.events, process, &mut all);
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

/// Packets that overlap in time go on lines of their own.
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
            let args = match parts.is_empty() {
                true => json!({"processor": piece.cpu}),
                false => json!({"processor": piece.cpu, "ns of each": parts}),
            };
            all.push(slice(&name, process, line as u64, from, to, &args));
        }
    }
}

/// Tasks on one line a processor, interrupts on another.
fn processors(events: &[Event], process: u64, all: &mut Vec<Value>) {
    let mut tasks: std::collections::BTreeMap<u16, (u64, String)> = Default::default();
    let mut open: std::collections::BTreeMap<(u16, u8), Vec<(u64, String)>> = Default::default();
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
            kind => {
                let Some((class, begins)) = class(kind) else {
                    continue;
                };
                let stack = open.entry((event.cpu, class)).or_default();
                if begins {
                    stack.push((event.time_ns, describe(event)));
                } else if let Some((from, name)) = stack.pop() {
                    let slice = slice(&name, process, line + 1, from, event.time_ns, &json!({}));
                    all.push(slice);
                }
            }
        }
    }
}

fn class(kind: EventKind) -> Option<(u8, bool)> {
    Some(match kind {
        EventKind::IrqEntry => (0, true),
        EventKind::IrqExit => (0, false),
        EventKind::SoftirqEntry => (1, true),
        EventKind::SoftirqExit => (1, false),
        EventKind::VectorEntry => (2, true),
        EventKind::VectorExit => (2, false),
        EventKind::HrtimerEntry => (3, true),
        EventKind::HrtimerExit => (3, false),
        EventKind::FaultEntry => (4, true),
        EventKind::FaultExit => (4, false),
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
