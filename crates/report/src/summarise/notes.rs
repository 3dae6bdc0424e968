//! The honesty box: what a reader must know before trusting a number. One note a kind, with the
//! cells it concerns; the most serious first.
//!
//! Nothing here removes or corrects a number. A measurement made on an overloaded machine is still
//! what was measured; it is for the reader to see it said beside the number.

use std::collections::{BTreeMap, BTreeSet};

use latlab_model::results::{
    Cell, Counters, IntruderKind, Manifest, Note, QUANTILES, RunState, Severity, TrialOutcome,
    samples_needed,
};
use latlab_samples::Damage;

use super::trials::TrialData;
use crate::text;

/// A ruler whose own reading is this share of what it measures is named.
const FLOOR_SHARE: f64 = 0.5;
/// A clock error of this share of the median is named, of [`CLOCK_SHARE_SERIOUS`] serious.
const CLOCK_SHARE: f64 = 0.1;
const CLOCK_SHARE_SERIOUS: f64 = 0.5;
/// Trials of a cell whose medians lie further apart than this factor are named.
const UNSTABLE_FACTOR: f64 = 1.25;
/// Losses from this share on are a caution rather than a remark.
const LOSS_SHARE: f64 = 0.001;
/// Rows below which equal data may be chance.
const IDENTICAL_ROWS: u64 = 20;
/// The table's last column: few samples are not bemoaned beyond it.
const LAST_TABLE_QUANTILE: f64 = 0.9999;

/// What notes are made of.
pub(super) struct Context<'a> {
    pub manifest: &'a Manifest,
    pub cells: &'a [Cell],
    /// By place in the order of running.
    pub trials: &'a BTreeMap<usize, TrialData>,
    pub damage: &'a [(String, Damage)],
}

/// All notes, the most serious first.
pub(super) fn all(context: &Context<'_>) -> Vec<Note> {
    let kinds: [fn(&Context<'_>) -> Option<Note>; 22] = [
        state,
        damaged,
        unreadable,
        failed,
        wrapped,
        negative,
        identical,
        clock,
        emulated,
        not_kvm,
        overloaded,
        invaded,
        unstable,
        floor,
        miscounted,
        lost,
        corrupted,
        duplicated,
        reordered,
        few_replicates,
        few_samples,
        unknown_cells,
    ];
    let mut notes: Vec<Note> = kinds.iter().filter_map(|kind| kind(context)).collect();
    notes.sort_by_key(|note| note.severity);
    notes
}

fn note(severity: Severity, code: &str, text: String, cells: Vec<String>) -> Note {
    Note {
        severity,
        code: code.to_owned(),
        text,
        cells,
    }
}

impl<'a> Context<'a> {
    fn trials_where(&self, holds: impl Fn(&TrialData) -> bool) -> Vec<&'a TrialData> {
        self.trials.values().filter(|trial| holds(trial)).collect()
    }

    /// Identifiers of the cells of some trials, in the manifest's order.
    fn cells_of(&self, trials: &[&TrialData]) -> Vec<String> {
        self.cells_where(|cell| trials.iter().any(|trial| trial.summary.cell == cell.id))
    }

    fn cells_where(&self, holds: impl Fn(&Cell) -> bool) -> Vec<String> {
        self.cells
            .iter()
            .filter(|cell| holds(cell))
            .map(|cell| cell.id.clone())
            .collect()
    }
}

fn numbers(trials: &[&TrialData]) -> String {
    let numbers: Vec<String> = trials.iter().map(|t| t.summary.trial.to_string()).collect();
    format!(
        "{} {}",
        if trials.len() == 1 { "trial" } else { "trials" },
        text::some_of(&numbers)
    )
}

fn state(context: &Context<'_>) -> Option<Note> {
    let planned = context.manifest.order.len();
    let recorded = context.trials.len();
    let (severity, begin) = match &context.manifest.state {
        RunState::Complete if recorded == planned => return None,
        RunState::Complete => (
            Severity::Serious,
            "The run is marked complete, but records of trials are missing".to_owned(),
        ),
        RunState::Running => (
            Severity::Serious,
            "The run did not end: it is still going on, or it was killed".to_owned(),
        ),
        RunState::Incomplete { reason } => (
            Severity::Serious,
            format!("The run stopped early: {}", reason.trim_end_matches('.')),
        ),
    };
    let text = format!(
        "{begin}. {recorded} of {} left a record.",
        text::plural(planned, "trial")
    );
    Some(note(severity, "incomplete", text, Vec::new()))
}

fn damaged(context: &Context<'_>) -> Option<Note> {
    if context.damage.is_empty() {
        return None;
    }
    let describe = |(name, damage): &(String, Damage)| match damage {
        Damage::Missing => format!("{name} (missing)"),
        Damage::Changed => format!("{name} (changed)"),
    };
    let files: Vec<String> = context.damage.iter().map(describe).collect();
    let text = format!(
        "Files are not as they were when the run ended: {}. What follows from them is not what was \
         measured.",
        text::some_of(&files)
    );
    Some(note(Severity::Serious, "checksum", text, Vec::new()))
}

fn unreadable(context: &Context<'_>) -> Option<Note> {
    let trials = context.trials_where(|trial| trial.unreadable);
    let first = trials.first()?.summary.failed.clone().unwrap_or_default();
    let text = format!(
        "Left out because they cannot be read: {} ({first}).",
        numbers(&trials)
    );
    Some(note(
        Severity::Serious,
        "unreadable",
        text,
        context.cells_of(&trials),
    ))
}

fn failed(context: &Context<'_>) -> Option<Note> {
    let failed = |trial: &TrialData| {
        let outcome = trial.record.as_ref().map(|record| &record.outcome);
        matches!(outcome, Some(TrialOutcome::Failed { .. }))
    };
    let trials = context.trials_where(failed);
    let first = trials.first()?.summary.failed.clone().unwrap_or_default();
    let cells = context.cells_of(&trials);
    let gone = context.cells_where(|cell| cells.contains(&cell.id) && cell.replicates == 0);
    let severity = if gone.is_empty() {
        Severity::Caution
    } else {
        Severity::Serious
    };
    let text = format!("Failed and left out: {} ({first}).", numbers(&trials));
    Some(note(severity, "failed", text, cells))
}

fn wrapped(context: &Context<'_>) -> Option<Note> {
    let trials = context.trials_where(|trial| trial.facts.wraps > 0);
    let jumps: u64 = trials.iter().map(|trial| trial.facts.wraps).sum();
    let text = format!(
        "Latency jumps by 2^32 ns between neighbours ({} in {}): the mark of a 32-bit time stamp \
         that wrapped, not of a network.",
        text::plural(jumps as usize, "time"),
        numbers(&trials)
    );
    (jumps > 0).then(|| {
        note(
            Severity::Serious,
            "clock-wrap",
            text,
            context.cells_of(&trials),
        )
    })
}

fn negative(context: &Context<'_>) -> Option<Note> {
    let trials = context.trials_where(|trial| trial.facts.negative > 0);
    let samples: u64 = trials.iter().map(|trial| trial.facts.negative).sum();
    let text = format!(
        "Arrived before they were sent: {} in {}. The two clocks were not mapped well enough, and \
         positive latencies are wrong by as much.",
        text::plural(samples as usize, "sample"),
        numbers(&trials)
    );
    (samples > 0).then(|| {
        note(
            Severity::Serious,
            "negative",
            text,
            context.cells_of(&trials),
        )
    })
}

fn identical(context: &Context<'_>) -> Option<Note> {
    let mut seen: BTreeMap<(u64, u64), Vec<&TrialData>> = BTreeMap::new();
    for trial in context
        .trials
        .values()
        .filter(|t| t.facts.received >= IDENTICAL_ROWS)
    {
        seen.entry((trial.facts.received, trial.facts.fingerprint))
            .or_default()
            .push(trial);
    }
    let same: Vec<&TrialData> = seen
        .into_values()
        .filter(|t| t.len() > 1)
        .flatten()
        .collect();
    let text = format!(
        "The same latencies to the nanosecond in {}: a file was copied or the probe is broken. No \
         two measurements agree like that.",
        numbers(&same)
    );
    (!same.is_empty()).then(|| {
        note(
            Severity::Serious,
            "identical",
            text,
            context.cells_of(&same),
        )
    })
}

fn clock(context: &Context<'_>) -> Option<Note> {
    // Share of the trial's own median that the clock's error bound amounts to.
    let share = |trial: &TrialData| {
        let error = trial.summary.clock_error_ns? as f64;
        let median = trial.summary.spread_ns?.median.abs();
        Some(if median > 0.0 {
            error / median
        } else {
            f64::INFINITY
        })
    };
    let trials = context.trials_where(|trial| share(trial).is_some_and(|s| s >= CLOCK_SHARE));
    let worst = trials.iter().copied().max_by(|a, b| {
        share(a)
            .unwrap_or_default()
            .total_cmp(&share(b).unwrap_or_default())
    })?;
    let serious = share(worst).unwrap_or_default() >= CLOCK_SHARE_SERIOUS;
    let text = format!(
        "One-way times between two clocks carry an error of up to {} in {}, {} of the median there. \
         Differences smaller than that mean nothing.",
        text::nanos(worst.summary.clock_error_ns.unwrap_or_default() as f64),
        text::plural(trials.len(), "trial"),
        text::quantity(share(worst).unwrap_or_default(), "1"),
    );
    let severity = if serious {
        Severity::Serious
    } else {
        Severity::Caution
    };
    Some(note(severity, "clock", text, context.cells_of(&trials)))
}

fn emulated(context: &Context<'_>) -> Option<Note> {
    let cells = context.cells_where(|cell| cell.environment.emulated);
    let text =
        "Some nodes ran under software emulation, which is many times slower than a virtual \
                machine on hardware: these latencies say nothing of a real one's."
            .to_owned();
    (!cells.is_empty()).then(|| note(Severity::Serious, "emulated", text, cells))
}

fn not_kvm(context: &Context<'_>) -> Option<Note> {
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

fn overloaded(context: &Context<'_>) -> Option<Note> {
    let trials = context.trials_where(|trial| trial.used && trial.summary.overloaded);
    // By check: in how many trials it failed (both ends are asked), and the worst it was.
    let mut checks: BTreeMap<&str, (usize, f64, String)> = BTreeMap::new();
    for trial in &trials {
        let failed = trial.summary.checks.iter().filter(|check| !check.passed);
        let names: BTreeSet<&str> = failed.clone().map(|check| check.name.as_str()).collect();
        for name in names {
            checks.entry(name).or_default().0 += 1;
        }
        for check in failed {
            let excess = check.value / check.limit;
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
        "The machine did not keep up in {} of {}: {}. These trials are included and marked.",
        trials.len(),
        text::plural(used, "trial"),
        list.join("; ")
    );
    (!trials.is_empty()).then(|| {
        note(
            Severity::Caution,
            "overloaded",
            text,
            context.cells_of(&trials),
        )
    })
}

/// No interval can tell of a state of the machine that the replicates happened not to meet; trials
/// that disagree are the hint that there are such states.
fn unstable(context: &Context<'_>) -> Option<Note> {
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

/// Processors of the lab's own on which something else ran.
fn invaded(context: &Context<'_>) -> Option<Note> {
    let intruders = |trial: &TrialData| trial.record.as_ref().map_or(0, |r| r.intruders.len());
    let trials = context.trials_where(|trial| intruders(trial) > 0);
    trials.first()?;
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
        "On processors that belong to the lab alone something else ran too, in {}: {}.",
        text::plural(trials.len(), "trial"),
        text::some_of(&shown.collect::<Vec<_>>())
    );
    Some(note(
        Severity::Info,
        "invaded",
        text,
        context.cells_of(&trials),
    ))
}

fn floor(context: &Context<'_>) -> Option<Note> {
    let share = |trial: &TrialData| {
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
    Some(note(
        Severity::Info,
        "floor",
        text,
        context.cells_of(&trials),
    ))
}

fn miscounted(context: &Context<'_>) -> Option<Note> {
    let differs = |trial: &TrialData| {
        let counted = trial.summary.counters;
        trial.used
            && trial
                .record
                .as_ref()
                .is_some_and(|record| record.samples.is_some())
            && (counted.received != trial.facts.received
                || counted.sent != trial.facts.rows
                || counted.sent != counted.received.saturating_add(counted.lost))
    };
    let trials = context.trials_where(differs);
    let first = trials.first()?;
    let text = format!(
        "Counters and samples disagree in {} (the first: {} sent, {} received, {} lost by the \
         record; {} rows with {} latencies in the file).",
        numbers(&trials),
        text::count(first.summary.counters.sent),
        text::count(first.summary.counters.received),
        text::count(first.summary.counters.lost),
        text::count(first.facts.rows),
        text::count(first.facts.received),
    );
    Some(note(
        Severity::Caution,
        "counters",
        text,
        context.cells_of(&trials),
    ))
}

/// Cells with a nonzero counter, and the counter summed over them.
fn counted(context: &Context<'_>, counter: fn(&Counters) -> u64) -> (u64, u64, Vec<String>) {
    let cells = context.cells_where(|cell| counter(&cell.counters) > 0);
    let among = || context.cells.iter().filter(|cell| cells.contains(&cell.id));
    let total = among()
        .map(|cell| counter(&cell.counters))
        .fold(0, u64::saturating_add);
    let sent = among()
        .map(|cell| cell.counters.sent)
        .fold(0, u64::saturating_add);
    (total, sent, cells)
}

fn lost(context: &Context<'_>) -> Option<Note> {
    let (lost, sent, cells) = counted(context, |counters| counters.lost);
    let share = |cell: &Cell| cell.counters.lost as f64 / cell.counters.sent.max(1) as f64;
    let worst = context
        .cells
        .iter()
        .max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let severity = if share(worst) >= LOSS_SHARE {
        Severity::Caution
    } else {
        Severity::Info
    };
    let text = format!(
        "Lost: {} of {} in {}, at most {} ({}). Percentiles are of what arrived.",
        text::count(lost),
        text::count(sent),
        text::plural(cells.len(), "cell"),
        text::quantity(share(worst), "1"),
        worst.id
    );
    (lost > 0).then(|| note(severity, "lost", text, cells))
}

fn corrupted(context: &Context<'_>) -> Option<Note> {
    let (bad, _, cells) = counted(context, |c| c.corrupted.saturating_add(c.unmatched));
    let text = format!(
        "Arrived damaged, or belonged to nothing that was sent: {}.",
        text::count(bad)
    );
    (bad > 0).then(|| note(Severity::Caution, "corrupted", text, cells))
}

fn duplicated(context: &Context<'_>) -> Option<Note> {
    let (again, _, cells) = counted(context, |counters| counters.duplicated);
    let text = format!(
        "Arrived more than once: {}. Only the first counts.",
        text::count(again)
    );
    (again > 0).then(|| note(Severity::Caution, "duplicated", text, cells))
}

fn reordered(context: &Context<'_>) -> Option<Note> {
    let (late, _, cells) = counted(context, |counters| counters.reordered);
    let text = format!(
        "Arrived after one that was sent later: {}.",
        text::count(late)
    );
    (late > 0).then(|| note(Severity::Info, "reordered", text, cells))
}

fn few_replicates(context: &Context<'_>) -> Option<Note> {
    let cells = context.cells_where(|cell| cell.replicates > 0 && cell.replicates < 3);
    let text =
        "Fewer than three usable replicates: no interval and no verdict, because one or two \
                trials do not show how much trials differ."
            .to_owned();
    (!cells.is_empty()).then(|| note(Severity::Caution, "few-replicates", text, cells))
}

fn few_samples(context: &Context<'_>) -> Option<Note> {
    let lacks = |cell: &Cell, p: f64| {
        cell.latency
            .as_ref()
            .is_some_and(|latency| latency.samples < samples_needed(p))
    };
    let table = QUANTILES
        .iter()
        .copied()
        .filter(|&p| p <= LAST_TABLE_QUANTILE);
    let lacking: Vec<(f64, usize)> = table
        .map(|p| {
            (
                p,
                context.cells.iter().filter(|cell| lacks(cell, p)).count(),
            )
        })
        .filter(|&(_, cells)| cells > 0)
        .collect();
    let first = lacking.first()?.0;
    let list: Vec<String> = lacking
        .iter()
        .map(|&(p, cells)| {
            let needed = text::count(samples_needed(p));
            format!(
                "{} (needs {needed}) in {}",
                text::percentile(p),
                text::plural(cells, "cell")
            )
        })
        .collect();
    let text = format!("Left out for want of samples: {}.", list.join(", "));
    Some(note(
        Severity::Info,
        "few-samples",
        text,
        context.cells_where(|cell| lacks(cell, first)),
    ))
}

fn unknown_cells(context: &Context<'_>) -> Option<Note> {
    let known = |id: &str| context.manifest.cells.iter().any(|cell| cell.id == id);
    let stray: Vec<String> = context
        .manifest
        .order
        .iter()
        .filter(|planned| !known(&planned.cell))
        .map(|planned| planned.trial.to_string())
        .collect();
    let text = format!(
        "The manifest plans trials of cells that it does not describe: trial {}. They are left out.",
        text::some_of(&stray)
    );
    (!stray.is_empty()).then(|| note(Severity::Serious, "unknown-cell", text, Vec::new()))
}
