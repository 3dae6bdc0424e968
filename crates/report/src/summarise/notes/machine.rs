//! Notes on the machine and its load.

use std::collections::{BTreeMap, BTreeSet};

use latlab_model::results::{Cell, IntruderKind, Note, Severity, StealAside};

use super::context::{Context, note};
use crate::emulation;
use crate::summarise::trials::TrialData;
use crate::text;

/// Share of a result beyond which the ruler's own reading is named.
const FLOOR_SHARE: f64 = 0.5;

/// Factor between the medians of a cell's trials beyond which they are named.
const UNSTABLE_FACTOR: f64 = 1.25;

/// Names of processes that are told.
const CONSUMERS: usize = 3;

pub(super) fn emulated(context: &Context<'_>) -> Option<Note> {
    let cells = context.cells_where(|cell| cell.environment.emulated);
    let named = emulation::named(context.cells);
    let text = match named.is_empty() {
        true => {
            "Some nodes ran under software emulation, which is many times slower than a virtual \
                 machine on hardware: these latencies say nothing of a real one's."
                .to_owned()
        }
        false => format!(
            "Emulated: {}. No latency and no verdict here says anything of real hardware.",
            named.join(", ")
        ),
    };
    (!cells.is_empty()).then(|| note(Severity::Serious, "emulated", text, cells))
}

pub(super) fn not_kvm(context: &Context<'_>) -> Option<Note> {
    let host = &context.manifest.host;
    let reason = host.acceleration_reason.as_deref()?;
    let has_vms = context
        .manifest
        .topologies
        .iter()
        .any(|topology| topology.nodes.iter().any(|node| node.kind == "vm"));
    let text = format!("KVM was not used: {}.", reason.trim_end_matches('.'));
    (has_vms && host.acceleration != "kvm")
        .then(|| note(Severity::Caution, "no-kvm", text, Vec::new()))
}

/// Sensors whose controller said that something is wrong.
pub(super) fn sensors(context: &Context<'_>) -> Option<Note> {
    let is_wrong = |trial: &TrialData| {
        let record = trial.record.as_ref();
        record.is_some_and(|record| record.sensors.iter().any(|sensor| sensor.state != "ok"))
    };
    let trials = context.trials_where(is_wrong);
    let records = trials.iter().filter_map(|trial| trial.record.as_ref());
    let sensors = records.flat_map(|record| &record.sensors);
    let names: BTreeSet<String> = sensors
        .filter(|sensor| sensor.state != "ok")
        .map(|sensor| format!("{} of {}: {}", sensor.name, sensor.host, sensor.state))
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    let text = format!(
        "Sensors of machines were not well beside {}: {}. A machine that is too hot or short of power slows its CPUs.",
        text::plural(trials.len(), "trial"),
        names.join(", ")
    );
    (!trials.is_empty()).then(|| note(Severity::Caution, "sensors", text, Vec::new()))
}

pub(super) fn hwlat(context: &Context<'_>) -> Option<Note> {
    let of = |trial: &'_ TrialData| {
        let trace = trial
            .record
            .as_ref()
            .and_then(|record| record.trace.clone());
        trace.map_or_else(Vec::new, |trace| trace.hwlat)
    };
    let trials = context.trials_where(|trial| !of(trial).is_empty());
    let mut longest: BTreeMap<u64, u64> = BTreeMap::new();
    for one in trials.iter().flat_map(|trial| of(trial)) {
        let known = longest.entry(one.period_ns).or_default();
        *known = one.longest_ns.max(*known);
    }
    let times: Vec<String> = longest
        .iter()
        .map(|(&period, &most)| {
            let every = text::nanos(period as f64);
            format!("every {every} for up to {}", text::nanos(most as f64))
        })
        .collect();
    let text = format!(
        "A hypervisor or a firmware stops CPUs {} and does not count that as stolen: seen before and \
         after {}. What meets a packet is among the causes of the tail.",
        times.join(", "),
        text::plural(trials.len(), "trial")
    );
    (!trials.is_empty()).then(|| note(Severity::Info, "hwlat", text, Vec::new()))
}

pub(super) fn overloaded(context: &Context<'_>) -> Option<Note> {
    let trials = context.trials_where(|trial| trial.used && trial.summary.overloaded);
    // By check: the number of trials in which it failed (both endpoints are asked), and its worst value.
    let mut checks: BTreeMap<&str, (usize, f64, String)> = BTreeMap::new();
    let mut consumers: BTreeMap<&str, f64> = BTreeMap::new();
    for trial in &trials {
        let failed = trial.summary.checks.iter().filter(|check| !check.passed);
        let names: BTreeSet<&str> = failed.clone().map(|check| check.name.as_str()).collect();
        for name in names {
            checks.entry(name).or_default().0 += 1;
        }
        for check in failed {
            for consumer in &check.consumers {
                *consumers.entry(&consumer.name).or_default() += consumer.share;
            }
            // Where the limit is zero, more is worse.
            let excess = match check.limit > 0.0 {
                true => check.value / check.limit,
                false => check.value,
            };
            let entry = checks.entry(&check.name).or_default();
            if entry.2.is_empty() || excess > entry.1 {
                let shown = |value| text::quantity(value, &check.unit);
                entry.1 = excess;
                entry.2 = format!("up to {}, limit {}", shown(check.value), shown(check.limit));
            }
        }
    }
    let list: Vec<String> = checks
        .into_iter()
        .map(|(name, (times, _, worst))| format!("{name} in {times} ({worst})"))
        .collect();
    let used = context.trials.values().filter(|trial| trial.used).count();
    let text = format!(
        "The machine did not keep up in {} of {}: {}.{} These trials are included and marked.",
        trials.len(),
        text::plural(used, "trial"),
        list.join("; "),
        beside(consumers)
    );
    context.note_on(&trials, Severity::Caution, "overloaded", text)
}

/// A sentence on the processes beside the lab that had the most of the CPUs, and on what helps against them.
fn beside(consumers: BTreeMap<&str, f64>) -> String {
    let mut consumers: Vec<_> = consumers.into_iter().collect();
    consumers.sort_by(|a, b| b.1.total_cmp(&a.1));
    let names = consumers
        .iter()
        .take(CONSUMERS)
        .map(|(name, _)| format!("`{name}`"));
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(
            " Beside the lab, {} had most of the CPUs: end them, keep them away by `tuning: isolated` of the lab, or \
             have such trials repeated by `retries: 3` of the study.",
            names.join(", ")
        ),
    }
}

pub(super) fn repeated(context: &Context<'_>) -> Option<Note> {
    let trials = context.trials_where(|trial| trial.summary.repeats > 0);
    let discarded: u32 = trials.iter().map(|trial| trial.summary.repeats).sum();
    let text = format!(
        "Repeated, because others took the CPUs meanwhile: {}; {} discarded. That was decided by the checks \
         `steal` and `foreign-load` alone and not by a result. Discarded attempts are kept in \
         `trials/NNNN-discarded-N`.",
        text::plural(trials.len(), "trial"),
        text::plural(discarded as usize, "attempt")
    );
    context.note_on(&trials, Severity::Info, "repeated", text)
}

/// An interval knows nothing of machine states that the replicates did not meet; trials that disagree are a
/// sign of such states.
pub(super) fn unstable(context: &Context<'_>) -> Option<Note> {
    let factor = |cell: &Cell| {
        let used = context
            .trials
            .values()
            .filter(|t| t.used && t.summary.cell == cell.id);
        let medians: Vec<f64> = used
            .filter_map(|t| t.summary.spread_ns)
            .map(|spread| spread.median)
            .collect();
        let low = medians
            .iter()
            .copied()
            .min_by(f64::total_cmp)
            .filter(|&low| low > 0.0)?;
        let high = medians.into_iter().max_by(f64::total_cmp)?;
        Some((high / low, low, high))
    };
    let apart = |cell: &Cell| factor(cell).is_some_and(|(factor, ..)| factor > UNSTABLE_FACTOR);
    let cells = context.cells_where(apart);
    let most = |cell: &Cell| factor(cell).map_or(0.0, |(factor, ..)| factor);
    let worst = context
        .cells
        .iter()
        .max_by(|a, b| most(a).total_cmp(&most(b)))?;
    let (_, low, high) = factor(worst)?;
    let text = format!(
        "Trials of the same cell disagree: their medians lie further apart than a factor of \
         {UNSTABLE_FACTOR} in {}, most in {} (from {} to {}). The machine was not in one state.",
        text::plural(cells.len(), "cell"),
        worst.id,
        text::nanos(low),
        text::nanos(high)
    );
    (!cells.is_empty()).then(|| note(Severity::Caution, "unstable", text, cells))
}

pub(super) fn invaded(context: &Context<'_>) -> Option<Note> {
    let intruders = |trial: &TrialData| trial.record.as_ref().map_or(0, |r| r.intruders.len());
    let trials = context.trials_where(|trial| intruders(trial) > 0);
    let all = trials.iter().filter_map(|trial| trial.record.as_ref());
    let mut time: BTreeMap<(IntruderKind, &str), (u64, u64)> = BTreeMap::new();
    for one in all.flat_map(|record| &record.intruders) {
        let (ran, times) = time.entry((one.kind, one.name.as_str())).or_default();
        *ran += one.ran_ns.unwrap_or(0);
        *times += one.times.unwrap_or(0);
    }
    let mut most: Vec<_> = time.into_iter().collect();
    most.sort_by_key(|(_, sums)| std::cmp::Reverse(*sums));
    let shown = most.iter().map(|((kind, name), (ran, times))| match kind {
        IntruderKind::Process => format!("process {name} for {}", text::nanos(*ran as f64)),
        IntruderKind::KernelThread => {
            format!("kernel thread {name} for {}", text::nanos(*ran as f64))
        }
        IntruderKind::Interrupt => {
            format!("interrupt {name} {}", text::plural(*times as usize, "time"))
        }
    });
    let text = format!(
        "On the lab's dedicated CPUs something else ran too, in {}: {}.",
        text::plural(trials.len(), "trial"),
        text::some_of(&shown.collect::<Vec<_>>())
    );
    context.note_on(&trials, Severity::Info, "invaded", text)
}

pub(super) fn floor(context: &Context<'_>) -> Option<Note> {
    let share = |trial: &TrialData| {
        // Taps time packets without a probe; their own error stands beside the result.
        if trial.record.as_ref().is_some_and(|one| one.trace.is_some()) {
            return None;
        }
        let median = trial.summary.spread_ns?.median;
        (median > 0.0).then(|| trial.summary.floor.map(|floor| floor.median_ns / median))?
    };
    let trials = context.trials_where(|trial| share(trial).is_some_and(|s| s >= FLOOR_SHARE));
    let worst = trials
        .iter()
        .filter_map(|trial| share(trial))
        .max_by(f64::total_cmp)?;
    let text = format!(
        "The probe's own floor (the same exchange over loopback) is up to {} of the median in {}: \
         most of each latency there is the probe and the kernel, not the link.",
        text::quantity(worst, "1"),
        text::plural(trials.len(), "trial")
    );
    context.note_on(&trials, Severity::Info, "floor", text)
}

pub(super) fn steal_aside(context: &Context<'_>) -> Option<Note> {
    let aside = |cell: &Cell| cell.latency.as_ref()?.steal_aside.clone();
    let cells = context.cells_where(|cell| aside(cell).is_some_and(|a| a.exchanges > 0));
    let sum = |of: fn(&StealAside) -> u64| {
        let all = context.cells.iter().filter_map(aside);
        all.fold(0, |sum: u64, aside| sum.saturating_add(of(&aside)))
    };
    let text = format!(
        "The hypervisor underneath took a CPU of theirs away from {} exchanges, for {} in all. \
         \"Steal aside\" is without that time: without as much of it as certainly fell into each of \
         them, on both sides of a ratio.",
        text::count(sum(|aside| aside.exchanges)),
        text::nanos(sum(|aside| aside.stolen_ns) as f64)
    );
    (!cells.is_empty()).then(|| note(Severity::Info, "steal-aside", text, cells))
}
