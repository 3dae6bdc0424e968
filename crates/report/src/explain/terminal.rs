//! The blame table and the slowest packets, for people.

use std::fmt::Write as _;

use latlab_model::results::Ruler;

use super::code::Code;
use super::explanation::Explanation;
use crate::attribution::{Blame, Device, Explained};
use crate::text::{count, nanos, percentile};

/// Rows of a blame table.
const CAUSES: usize = 12;
/// Functions of a device.
const FUNCTIONS: usize = 10;

/// One device in one cell, with its `most` slowest packets.
#[must_use]
pub fn render(one: &Explanation, most: usize) -> String {
    let mut out = String::new();
    let a = &one.attribution;
    let device = match &a.device {
        Device::Task { pid, name } => format!("{name} (task {pid})"),
        Device::Kernel => "the kernel itself, no program is between the taps".into(),
    };
    let trials: Vec<String> = one
        .trials
        .iter()
        .map(|part| part.trial.to_string())
        .collect();
    writeln!(out, "{}  {}: {device}", one.cell, one.hop.device).ok();
    writeln!(
        out,
        "  {} packets from {} to {} in trial {}; the {} slowest explained, from {} on",
        a.packets,
        one.hop.before,
        one.hop.behind,
        trials.join(", "),
        a.worst.len(),
        nanos(a.threshold_ns as f64),
    )
    .ok();
    writeln!(out, "  {}", ruler(one.ruler().as_ref())).ok();
    writeln!(out, "  {}", counters(one)).ok();
    for blame in one.blames() {
        out.push_str(&table(&blame));
    }
    if let Some(code) = &one.code {
        out.push_str(&functions(code));
    }
    if most > 0 && !a.worst.is_empty() {
        writeln!(out, "\n  the slowest packets").ok();
    }
    for (packet, trial) in a.worst.iter().zip(&one.of_trial).take(most) {
        out.push_str(&line(packet, *trial));
    }
    if !a.unknown.is_empty() {
        writeln!(out, "\n  what is not known").ok();
    }
    for text in &a.unknown {
        writeln!(out, "    {text}").ok();
    }
    out
}

#[must_use]
pub fn ruler(ruler: Option<&Ruler>) -> String {
    let Some(ruler) = ruler else {
        return "the taps' own error was not measured".into();
    };
    let tail = match ruler.p9999_ns {
        Some(ns) => format!("p99.99 {}", nanos(ns)),
        None => "too few packets for p99.99".into(),
    };
    let median = nanos(ruler.median_ns);
    format!("the taps over an empty wire: median {median}, {tail}")
}

fn counters(one: &Explanation) -> String {
    let c = &one.hop.counters;
    let overwritten = one.trials.iter().map(|part| part.overwritten).sum();
    let all = [
        (c.lost, "lost"),
        (c.duplicated, "duplicated"),
        (c.reordered, "reordered"),
        (c.unmatched, "unmatched"),
        (c.corrupted, "corrupted"),
        (one.hop.impossible, "of impossible time"),
        (one.hop.no_room, "without room in a tap"),
        (overwritten, "kernel events overwritten"),
    ];
    let all = all.map(|(number, what)| format!("{} {what}", count(number)));
    all.join(", ")
}

fn table(blame: &Blame) -> String {
    let what = if blame.quantile > 0.0 {
        let percentile = percentile(blame.quantile);
        format!("beyond {percentile} ({})", nanos(blame.latency_ns as f64))
    } else {
        "all explained".into()
    };
    let mut out = format!("\n  {what}: {} packets, ", blame.beyond);
    // The last table has the same packets.
    if blame.explained < blame.beyond {
        let explained = blame.explained;
        out += &format!("of which only the {explained} slowest are explained: see all explained\n");
        return out;
    }
    let unexplained = blame.unexplained() * 100.0;
    writeln!(out, "{unexplained:.1} % of their time unexplained").ok();
    writeln!(
        out,
        "    {:>7}  {:>8}  {:<48}  knob",
        "of time", "first of", "cause"
    )
    .ok();
    for row in blame.rows.iter().take(CAUSES) {
        writeln!(
            out,
            "    {:>5.1} %  {:>8}  {:<48}  {}",
            row.share * 100.0,
            row.first_of,
            row.cause.to_string(),
            row.remedy.map_or("-".into(), |remedy| remedy.text()),
        )
        .ok();
    }
    if blame.rows.len() > CAUSES {
        writeln!(out, "    and {} smaller ones", blame.rows.len() - CAUSES).ok();
    }
    out
}

fn functions(code: &Code) -> String {
    let (slow, otherwise) = (code.slow.samples, code.otherwise.samples);
    let mut out = format!(
        "\n  where in its code, by {} samples/s: {} in the slowest 1 % of its packets, {} otherwise\n",
        count(code.rate.into()),
        count(slow),
        count(otherwise),
    );
    if code.lost > 0 {
        writeln!(out, "    {} samples found no room", count(code.lost.into())).ok();
    }
    if slow == 0 {
        return out;
    }
    writeln!(out, "    {:>7}  {:>9}  function", "in slow", "otherwise").ok();
    for function in code.functions().iter().take(FUNCTIONS) {
        let (slow, otherwise) = (function.slow * 100.0, function.otherwise * 100.0);
        writeln!(
            out,
            "    {slow:>5.1} %  {otherwise:>7.1} %  {}",
            function.name
        )
        .ok();
    }
    out
}

fn line(packet: &Explained, trial: u32) -> String {
    let mut costs: Vec<(String, u64)> = packet
        .by_cause()
        .into_iter()
        .map(|(cause, ns)| (cause.to_string(), ns))
        .collect();
    costs.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let costs: Vec<String> = costs
        .iter()
        .take(4)
        .map(|(cause, ns)| format!("{} {cause}", nanos(*ns as f64)))
        .collect();
    let behind = packet.behind.as_ref();
    let behind = behind.map_or(String::new(), |cause| format!(" (queue left by {cause})"));
    let function = packet.function.as_ref();
    let function = function.map_or(String::new(), |name| format!("; in {name}"));
    format!(
        "    {:>9}  trial {trial} flow {} packet {}: {}{behind}{function}\n",
        nanos(packet.latency_ns() as f64),
        packet.passage.flow,
        packet.passage.sequence,
        costs.join(", "),
    )
}
