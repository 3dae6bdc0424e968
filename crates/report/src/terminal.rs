//! The summary as a table for people, at most 100 columns wide, and as CSV for programs.
//!
//! A latency cell shows its median with the 95 % interval, the tail as far out as the samples suffice, and
//! the verdict. Where a number is missing, the table gives the reason.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use latlab_model::results::{
    Cell, Comparison, Group, Latency, Metric, Note, RunState, Severity, Summary, TailRatio,
    TrialSummary,
};

use crate::emulation;
use crate::stats::SIGNIFICANCE;
pub use crate::style::Look;
use crate::style::{WIDTH, style_of};
use crate::table::{Align, Table, wrap};
use crate::text::{count, nanos, percentile, plural, ratio_with_interval, verdict, with_interval};

/// Percentiles of the table beyond the median.
const TAIL: [f64; 3] = [0.99, 0.999, 0.9999];

pub fn render(summary: &Summary, look: Look) -> String {
    let mut out = heading(summary, look);
    for group in &summary.groups {
        out.push('\n');
        out.push_str(&render_group(summary, group, look));
    }
    out.push_str(&crate::effects::tables(summary, look));
    out.push_str(&crate::scaling::tables(summary, look));
    out.push_str(&crate::sweeps::tables(summary, look));
    out.push_str(&tails(summary, look));
    out.push_str(&crate::lives::tables(summary, look));
    out.push_str(&crate::paper::tables(summary, look));
    if !summary.notes.is_empty() {
        // Writing to a String cannot fail, here and below.
        let _ = write!(out, "\n{}\n", look.bold("Before you trust these numbers"));
        for note in &summary.notes {
            out.push_str(&render_note(summary, note, look));
        }
    }
    out
}

/// For each device between taps: the explained share of its slow packets' time, the main cause, and the taps'
/// own error.
fn tails(summary: &Summary, look: Look) -> String {
    let mut table = Table::new(&[
        ("slowest", Align::Left),
        ("through", Align::Left),
        ("from", Align::Right),
        ("unexplained", Align::Right),
        ("most of their time", Align::Left),
        ("empty wire", Align::Left),
    ]);
    let label = |cell: &Cell| match &summary.measurements[..] {
        [_] => name(cell),
        _ => format!("{} {}", cell.measurement, name(cell)),
    };
    for tail in &summary.tails {
        let cell = summary.cells.iter().find(|cell| cell.id == tail.cell);
        let blame = tail.blames.last();
        let most = blame.and_then(|blame| blame.rows.first()).map(|row| {
            let cause = tail.causes.get(row.cause).map_or("", |c| c.name.as_str());
            format!("{:.0} % {cause}", row.share * 100.0)
        });
        let ruler = tail.ruler.map(|ruler| {
            let beyond = ruler.p9999_ns.map_or("*".to_owned(), nanos);
            format!("{}, p99.99 {beyond}", nanos(ruler.median_ns))
        });
        table.row(
            vec![
                cell.map_or_else(|| tail.cell.clone(), label),
                tail.device.clone(),
                nanos(tail.threshold_ns as f64),
                blame.map_or(String::new(), |b| format!("{:.1} %", b.unexplained * 100.0)),
                most.unwrap_or_else(|| "nothing was recorded".to_owned()),
                ruler.unwrap_or_else(|| "not measured".to_owned()),
            ],
            None,
        );
    }
    table.section(look)
}

fn heading(summary: &Summary, look: Look) -> String {
    let state = match &summary.state {
        RunState::Complete => String::new(),
        RunState::Running => " (unfinished)".to_owned(),
        RunState::Incomplete { .. } => " (incomplete)".to_owned(),
    };
    let host = &summary.host;
    let mut machine = match host.is_known() {
        true => format!(
            "{} · {} · Linux {}",
            host.cpu,
            plural(host.cores as usize, "core"),
            host.kernel
        ),
        false => "the machine is not known".to_owned(),
    };
    // A study without VMs does not mention acceleration.
    let mut nodes = summary.topologies.iter().flat_map(|t| &t.nodes);
    if nodes.any(|node| node.kind == "vm") {
        let _ = write!(machine, " · VMs by {}", host.acceleration);
    }
    let trials = format!(
        "{}, {} planned of each, in random order (seed {})",
        plural(summary.trials.len(), "trial"),
        summary.replicates,
        summary.seed
    );
    let mut out = format!("{}{state}\n", look.bold(&summary.id));
    for line in wrap(&machine, WIDTH).into_iter().chain([trials]) {
        let _ = writeln!(out, "{line}");
    }
    out
}

fn render_group(summary: &Summary, group: &Group, look: Look) -> String {
    let info = summary
        .measurements
        .iter()
        .find(|info| info.name == group.measurement);
    let axis = info
        .and_then(|info| info.latency.as_deref())
        .map(|axis| format!(", {axis}"));
    let mut out = format!("{}{}\n", look.bold(&group.title), axis.unwrap_or_default());
    let cells: Vec<&Cell> = group
        .cells
        .iter()
        .filter_map(|id| summary.cells.iter().find(|cell| cell.id == *id))
        .collect();
    let timed = cells.iter().any(|cell| cell.latency.is_some())
        || info.is_none_or(|info| info.latency.is_some());
    let baseline = group.baseline.as_ref();
    let baseline = baseline.and_then(|id| summary.cells.iter().find(|cell| cell.id == *id));
    let rows = cells.into_iter();
    let rows: Vec<Row<'_>> = rows.map(|cell| Row::of(cell, baseline)).collect();
    out.push_str(&if timed {
        latency_table(&rows, look)
    } else {
        metric_table(&rows, look)
    });
    out
}

/// A cell in a group: it is compared with that group's baseline, or is it.
struct Row<'s> {
    cell: &'s Cell,
    comparison: Option<&'s Comparison>,
    /// One of the two sides was emulated.
    is_emulated: bool,
}

impl<'s> Row<'s> {
    fn of(cell: &'s Cell, baseline: Option<&Cell>) -> Row<'s> {
        let is_here = |c: &&Comparison| Some(&c.baseline) == baseline.map(|b| &b.id);
        Row {
            cell,
            comparison: cell.comparison.as_ref().filter(is_here),
            is_emulated: cell.environment.emulated
                || baseline.is_some_and(|cell| cell.environment.emulated),
        }
    }

    /// The ratio and the verdict of a comparison, this row's or none.
    fn compared(&self, comparison: Option<&Comparison>) -> [String; 2] {
        let Some(comparison) = comparison else {
            return [String::new(), String::new()];
        };
        let shown = ratio_with_interval(comparison.ratio, comparison.ratio_ci95);
        [
            shown,
            emulation::marked(comparison.verdict, self.is_emulated),
        ]
    }
}

fn latency_table(rows: &[Row<'_>], look: Look) -> String {
    let mut table = Table::new(&[
        ("cell", Align::Left),
        ("n", Align::Right),
        ("median [95 % CI]", Align::Left),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
        ("p99.99", Align::Right),
        ("ratio [95 % CI]", Align::Left),
        ("verdict", Align::Left),
    ]);
    let mut starved = false;
    for of in rows {
        let cell = of.cell;
        let mut row = vec![name(cell), cell.replicates.to_string()];
        match &cell.latency {
            Some(latency) => {
                row.push(median(latency));
                for p in TAIL {
                    let value = latency
                        .quantiles
                        .iter()
                        .find(|q| q.p == p)
                        .and_then(|q| q.value_ns);
                    starved |= value.is_none();
                    row.push(value.map_or_else(|| "*".to_owned(), nanos));
                }
            }
            None => row.extend(["no samples", "", "", ""].map(str::to_owned)),
        }
        row.extend(of.compared(of.comparison));
        table.row(row, verdict_style(of.comparison));
    }
    table.render(look) + &look.dim(&legend(rows, starved)) + &tail_table(rows, look)
}

/// Comparisons beyond the median with the baseline. Of many cells, those without a difference are only named.
fn tail_table(rows: &[Row<'_>], look: Look) -> String {
    let mut table = Table::new(&[
        ("tails", Align::Left),
        ("p99 [95 % CI]", Align::Left),
        ("p99.9", Align::Left),
        ("p99.99", Align::Left),
        ("standard deviation", Align::Left),
    ]);
    let (mut shown, mut same) = (0, Vec::new());
    for Row {
        cell, comparison, ..
    } in rows
    {
        let Some(comparison) = comparison.filter(|c| !c.tails.is_empty()) else {
            continue;
        };
        if rows.len() > MANY && !comparison.tails.iter().any(differs) {
            same.push(name(cell));
            continue;
        }
        let figures = |tails: &[TailRatio]| {
            ["p99", "p99.9", "p99.99", "sd"].map(|of| {
                let tail = tails.iter().find(|tail| tail.of == of);
                tail.map_or("*".to_owned(), |t| {
                    ratio_with_interval(t.ratio, t.ratio_ci95)
                })
            })
        };
        let tails = figures(&comparison.tails).to_vec();
        table.row([vec![name(cell)], tails].concat(), None);
        if !comparison.tails_steal_aside.is_empty() {
            let tails = figures(&comparison.tails_steal_aside).to_vec();
            table.row([vec!["steal aside".to_owned()], tails].concat(), None);
        }
        shown += 1;
    }
    let mut out = match shown {
        0 => String::new(),
        _ => table.render(look),
    };
    if !same.is_empty() {
        let words = format!(
            "No difference to be seen in the tails of: {}.",
            same.join(", ")
        );
        for line in wrap(&words, WIDTH) {
            let _ = writeln!(out, "  {line}");
        }
    }
    out
}

/// Larger groups leave out rows without a difference.
const MANY: usize = 8;

fn differs(tail: &TailRatio) -> bool {
    tail.p_value.is_some_and(|p| p <= SIGNIFICANCE)
}

fn metric_table(rows: &[Row<'_>], look: Look) -> String {
    let mut table = Table::new(&[
        ("cell", Align::Left),
        ("n", Align::Right),
        ("metric", Align::Left),
        ("median [95 % CI]", Align::Left),
        ("ratio [95 % CI]", Align::Left),
        ("verdict", Align::Left),
    ]);
    for of in rows {
        let cell = of.cell;
        if cell.metrics.is_empty() {
            let row = [
                name(cell),
                cell.replicates.to_string(),
                "no results".to_owned(),
            ];
            table.row(row.to_vec(), None);
        }
        for (index, metric) in shown(cell).enumerate() {
            let compared = of.comparison.filter(|c| c.quantity == metric.title);
            let (name, replicates) = match index {
                0 => (name(cell), cell.replicates.to_string()),
                _ => (String::new(), String::new()),
            };
            let mut row = vec![
                name,
                replicates,
                metric.title.replace("CPU per byte", "CPU/byte"),
                with_interval(metric.spread.median, metric.ci95, &metric.unit),
            ];
            row.extend(of.compared(compared));
            table.row(row, verdict_style(compared));
        }
    }
    table.render(look) + &look.dim(&legend(rows, false))
}

/// The metrics of a cell that its group's table has: what a workload costs has a table of its own.
fn shown(cell: &Cell) -> impl Iterator<Item = &Metric> {
    let tabled = |name: &str| crate::scaling::METRICS.contains(&name);
    let metrics = cell.metrics.iter();
    metrics.filter(move |metric| cell.scaling.is_none() || !tabled(&metric.name))
}

/// The environment, with marks that [`LEGEND`] explains.
fn name(cell: &Cell) -> String {
    let emulated = if cell.environment.emulated { " ~" } else { "" };
    let overloaded = if cell.overloaded > 0 { " !" } else { "" };
    let repeated = if cell.repeated > 0 { " +" } else { "" };
    format!("{}{emulated}{overloaded}{repeated}", cell.label)
}

fn legend(rows: &[Row<'_>], starved: bool) -> String {
    let marks = [
        (
            "! overloaded in some trials",
            rows.iter().any(|row| row.cell.overloaded > 0),
        ),
        (
            "+ some trials repeated",
            rows.iter().any(|row| row.cell.repeated > 0),
        ),
        ("* not enough samples", starved),
    ];
    let named = emulation::named(rows.iter().map(|row| row.cell));
    let is_emulated = rows.iter().any(|row| row.is_emulated);
    let mut shown: Vec<String> = marks
        .iter()
        .filter(|mark| mark.1)
        .map(|mark| mark.0.to_owned())
        .collect();
    // Names of emulated parts take a line of their own.
    let lines = match is_emulated && !named.is_empty() {
        true => emulation::legend_lines(&named),
        false => String::new(),
    };
    if is_emulated && named.is_empty() {
        shown.insert(0, emulation::legend(&named));
    }
    match shown.is_empty() {
        true => lines,
        false => format!("{lines}  {}\n", shown.join("   ")),
    }
}

fn median(latency: &Latency) -> String {
    let Some(half) = latency.quantiles.iter().find(|q| q.p == 0.5) else {
        return String::new();
    };
    half.value_ns.map_or_else(
        || "not enough samples".to_owned(),
        |value| with_interval(value, half.ci95_ns, "ns"),
    )
}

fn verdict_style(comparison: Option<&Comparison>) -> Option<Style> {
    style_of(comparison?.verdict)
}

fn render_note(summary: &Summary, note: &Note, look: Look) -> String {
    let (mark, style) = match note.severity {
        Severity::Serious => ("!!", AnsiColor::Red.on_default().bold()),
        Severity::Caution => (" !", AnsiColor::Yellow.on_default()),
        Severity::Info => (" ·", Style::new()),
    };
    let concerned = match note.cells.len() {
        0 => String::new(),
        all if all == summary.cells.len() => " [all cells]".to_owned(),
        1 | 2 => format!(" [{}]", note.cells.join(", ")),
        some => format!(" [{} of {}]", some, plural(summary.cells.len(), "cell")),
    };
    let mut out = String::new();
    for (index, line) in wrap(&format!("{}{concerned}", note.text), WIDTH - 4)
        .iter()
        .enumerate()
    {
        let lead = if index == 0 {
            look.paint(style, mark)
        } else {
            "  ".to_owned()
        };
        let _ = writeln!(out, " {lead} {line}");
    }
    out
}

/// One row a cell and quantity, all numbers in full and in base units.
pub fn csv(summary: &Summary) -> String {
    let mut out = crate::table::csv_row(&[
        "cell",
        "measurement",
        "group",
        "label",
        "replicates",
        "overloaded",
        "emulated",
        "quantity",
        "unit",
        "samples",
        "value",
        "ci95_low",
        "ci95_high",
        "baseline",
        "ratio",
        "ratio_ci95_low",
        "ratio_ci95_high",
        "p_value",
        "verdict",
    ]);
    for cell in &summary.cells {
        for line in csv_lines(cell) {
            out.push_str(&crate::table::csv_row(&line));
        }
    }
    out
}

fn csv_lines(cell: &Cell) -> Vec<Vec<String>> {
    let line = |quantity: &str, unit: &str, samples: u64, value: f64, ci: Option<(f64, f64)>| {
        let compared = cell.comparison.as_ref().filter(|comparison| {
            comparison.quantity == quantity || (quantity == "p50" && unit == "ns")
        });
        let number = |x: Option<f64>| x.map(|x| x.to_string()).unwrap_or_default();
        let ratio_ci = compared.and_then(|comparison| comparison.ratio_ci95);
        vec![
            cell.id.clone(),
            cell.measurement.clone(),
            cell.group.clone(),
            cell.label.clone(),
            cell.replicates.to_string(),
            cell.overloaded.to_string(),
            cell.environment.emulated.to_string(),
            quantity.to_owned(),
            unit.to_owned(),
            samples.to_string(),
            value.to_string(),
            number(ci.map(|ci| ci.0)),
            number(ci.map(|ci| ci.1)),
            compared
                .map(|comparison| comparison.baseline.clone())
                .unwrap_or_default(),
            number(compared.map(|comparison| comparison.ratio)),
            number(ratio_ci.map(|ci| ci.0)),
            number(ratio_ci.map(|ci| ci.1)),
            number(compared.and_then(|comparison| comparison.p_value)),
            compared
                .map(|comparison| verdict(comparison.verdict).to_owned())
                .unwrap_or_default(),
        ]
    };
    let mut lines = Vec::new();
    if let Some(latency) = &cell.latency {
        lines.push(line("min", "ns", latency.samples, latency.min_ns, None));
        for quantile in &latency.quantiles {
            if let Some(value) = quantile.value_ns {
                let name = percentile(quantile.p);
                lines.push(line(&name, "ns", latency.samples, value, quantile.ci95_ns));
            }
        }
        lines.push(line("max", "ns", latency.samples, latency.max_ns, None));
        lines.push(line("sd", "ns", latency.samples, latency.sd_ns, None));
        if let Some(aside) = &latency.steal_aside {
            for quantile in &aside.quantiles {
                if let Some(value) = quantile.value_ns {
                    let name = format!("{} steal aside", percentile(quantile.p));
                    lines.push(line(&name, "ns", latency.samples, value, quantile.ci95_ns));
                }
            }
            let name = "sd steal aside";
            lines.push(line(name, "ns", latency.samples, aside.sd_ns, None));
        }
    }
    for metric in &cell.metrics {
        let samples = metric.values.len() as u64;
        lines.push(line(
            &metric.title,
            &metric.unit,
            samples,
            metric.spread.median,
            metric.ci95,
        ));
    }
    lines
}

/// One line for the end of a run: how many trials, and how many of them are marked.
pub fn tally(summary: &Summary) -> String {
    let number = |is: fn(&&TrialSummary) -> bool| summary.trials.iter().filter(is).count();
    let repeated = match number(|trial| trial.repeats > 0) {
        0 => String::new(),
        count => format!(", {count} repeated"),
    };
    let latencies = summary.cells.iter().filter_map(|c| c.latency.as_ref());
    format!(
        "{} in {}, {} samples; {} failed, {} overloaded{repeated}",
        plural(summary.trials.len(), "trial"),
        plural(summary.cells.len(), "cell"),
        count(latencies.map(|latency| latency.samples).sum()),
        number(|trial| trial.failed.is_some()),
        number(|trial| trial.overloaded),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn the_table_is_plain_and_fits() {
        let out = render(&synthetic::summary(), Look::default());
        println!("{out}");
        assert!(!out.contains('\u{1b}'));
        for line in out.lines() {
            assert!(
                line.chars().count() <= WIDTH,
                "{}: {line}",
                line.chars().count()
            );
        }
        assert!(out.contains("rr-udp · link veth, round trip"));
        assert!(out.contains("not enough samples") && out.contains("worse"));
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let summary = synthetic::summary();
        let coloured = render(&summary, Look { colour: true });
        let mut plain = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            plain.push_str(before);
            rest = after.split_once('m').unwrap().1;
        }
        plain.push_str(rest);
        assert_eq!(plain, render(&summary, Look::default()));
    }

    #[test]
    fn csv_has_one_shape_and_full_numbers() {
        let summary = synthetic::summary();
        let out = csv(&summary);
        let columns = out.lines().next().unwrap().split(',').count();
        assert!(out.lines().all(|line| line.split(',').count() == columns));
        let median = summary.cells[0].latency.as_ref().unwrap().quantiles[0]
            .value_ns
            .unwrap();
        assert!(out.contains(&format!(",p50,ns,4000,{median},")), "{out}");
    }
}
