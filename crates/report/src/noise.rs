//! Interruptions of a CPU-bound thread, by cause.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::attribution::{Capture, Cause, Remedy, interruptions, remedy};
use crate::text::nanos;

#[derive(Debug, Clone, Copy)]
pub struct Spinner<'a> {
    pub cpu: u16,
    pub task: u32,
    pub runtime_ns: u64,
    /// Begin and end of each interruption.
    pub gaps: &'a [(u64, u64)],
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Noise {
    pub cpu: u16,
    pub runtime_ns: u64,
    pub noise_ns: u64,
    /// Share of the rest, 0 to 1.
    pub available: f64,
    pub max_ns: u64,
    /// The causes, the one with the longest interruption first.
    pub causes: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub cause: String,
    pub kind: &'static str,
    pub count: u64,
    pub total_ns: u64,
    pub max_ns: u64,
    pub remedy: Option<Remedy>,
}

/// Names every interruption by the cause with the most time in it. Entry and exit of an interrupt have no
/// events, so a short one is a little longer than its events. An interruption without an event is
/// unexplained, or comes from underneath the kernel if it is in phase with others.
#[must_use]
pub fn noise(capture: &Capture, spinner: &Spinner<'_>) -> Noise {
    let mut causes: BTreeMap<Cause, (u64, u64, u64)> = BTreeMap::new();
    let named = interruptions(capture, spinner.task, spinner.cpu, spinner.gaps);
    for (&(begin, end), pieces) in spinner.gaps.iter().zip(named) {
        let cause = pieces
            .into_iter()
            .filter(|(cause, _)| *cause != Cause::Running)
            .max_by_key(|(_, ns)| *ns)
            .map_or(Cause::Unexplained, |(cause, _)| cause);
        let (count, total, max) = causes.entry(cause).or_default();
        *count += 1;
        *total += end - begin;
        *max = (end - begin).max(*max);
    }
    let mut rows: Vec<Row> = causes
        .into_iter()
        .map(|(cause, (count, total_ns, max_ns))| Row {
            cause: cause.to_string(),
            kind: cause.kind(),
            count,
            total_ns,
            max_ns,
            remedy: remedy(&cause),
        })
        .collect();
    rows.sort_by(|a, b| b.max_ns.cmp(&a.max_ns).then_with(|| a.cause.cmp(&b.cause)));
    let noise_ns = rows.iter().map(|row| row.total_ns).sum();
    Noise {
        cpu: spinner.cpu,
        runtime_ns: spinner.runtime_ns,
        noise_ns,
        available: 1.0 - noise_ns as f64 / spinner.runtime_ns.max(1) as f64,
        max_ns: rows.first().map_or(0, |row| row.max_ns),
        causes: rows,
    }
}

/// The table for people, in the manner of `rtla osnoise top`.
#[must_use]
pub fn render(all: &[Noise], unknown: &[String]) -> String {
    let mut out = String::new();
    let head = ["CPU", "runtime", "noise", "available", "longest"];
    writeln!(
        out,
        "{:>5} {:>10} {:>10} {:>11} {:>10}",
        head[0], head[1], head[2], head[3], head[4]
    )
    .ok();
    for one in all {
        writeln!(
            out,
            "{:>5} {:>10} {:>10} {:>9.3} % {:>10}",
            one.cpu,
            nanos(one.runtime_ns as f64),
            nanos(one.noise_ns as f64),
            one.available * 100.0,
            nanos(one.max_ns as f64),
        )
        .ok();
    }
    for one in all {
        writeln!(out, "\nCPU {}", one.cpu).ok();
        writeln!(
            out,
            "  {:>8} {:>10} {:>10}  {:<44}  knob",
            "count", "total", "longest", "cause"
        )
        .ok();
        for row in &one.causes {
            writeln!(
                out,
                "  {:>8} {:>10} {:>10}  {:<44}  {}",
                row.count,
                nanos(row.total_ns as f64),
                nanos(row.max_ns as f64),
                row.cause,
                row.remedy.map_or("-".into(), |remedy| remedy.text()),
            )
            .ok();
        }
    }
    if !unknown.is_empty() {
        writeln!(out, "\nwhat is not known").ok();
    }
    for text in unknown {
        writeln!(out, "  {text}").ok();
    }
    out
}

#[cfg(test)]
mod tests {
    use latlab_model::results::Hwlat;
    use latlab_wire::trace::{Event, EventKind, TEXT_BYTES, vector};

    use super::*;

    fn event(time_ns: u64, kind: EventKind, steal_ns: u64) -> Event {
        Event {
            time_ns,
            steal_ns,
            cpu: 3,
            kind,
            detail: vector::LOCAL_TIMER,
            a: 0,
            b: 0,
            text: [0; TEXT_BYTES],
        }
    }

    #[test]
    fn every_interruption_has_one_cause() {
        let capture = Capture {
            held: Vec::new(),
            events: vec![
                event(1_000, EventKind::VectorEntry, 0),
                event(3_000, EventKind::VectorExit, 0),
                event(50_000, EventKind::VectorEntry, 30_000),
                event(51_000, EventKind::VectorExit, 30_000),
                Event {
                    a: 8_000,
                    ..event(120_000, EventKind::VectorEntry, 30_000)
                },
                event(121_000, EventKind::VectorExit, 30_000),
            ],
            watched: vec![(3, 0)],
            hwlat: vec![Hwlat {
                cpu: 3,
                period_ns: 10_000_000,
                begins_ns: vec![70_000],
                longest_ns: 4_000,
            }],
            ..Capture::default()
        };
        let gaps = [
            (900, 3_200),
            (19_000, 51_500),
            (68_000, 72_000),
            (90_000, 95_000),
            // While the interrupt was due.
            (113_000, 114_000),
        ];
        let spinner = Spinner {
            cpu: 3,
            task: 9,
            runtime_ns: 100_000,
            gaps: &gaps,
        };
        let noise = noise(&capture, &spinner);
        let found: Vec<(&str, u64, u64)> = noise
            .causes
            .iter()
            .map(|row| (row.kind, row.count, row.max_ns))
            .collect();
        assert_eq!(
            found,
            [
                ("steal", 1, 32_500),
                ("unexplained", 1, 5_000),
                ("hwlat", 1, 4_000),
                ("tick", 2, 2_300)
            ]
        );
        assert_eq!(noise.noise_ns, 44_800);
        let text = render(&[noise], &["nothing else".into()]);
        assert!(
            text.contains("55.200 %") && text.contains("nothing else"),
            "{text}"
        );
    }
}
