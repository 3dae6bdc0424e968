//! Comparison of two runs, cell by cell.
//!
//! Only like is compared with like. Runs whose measurements of one name differ in definition, or that have no
//! cell in common, are refused. A different machine or acceleration is refused unless the user insists, and
//! is then printed with the result. Differences that may be under test (kernel, versions, the lab's details)
//! are listed, never refused.
//!
//! Both runs are read from their raw samples, not from their summaries: the interval of a ratio needs the
//! replicates, and a stale summary must not take part.

use serde::Serialize;

use latlab_model::results::{
    Cell, HostBrief, Summary, TailRatio, TopologyLink, TopologyNode, Verdict,
};

use crate::emulation;
use crate::stats::{Claim, judge, tidy};
use crate::style::{Look, WIDTH, style_of};
use crate::summarise::{Analysis, Evidence, Pair, adjust};
use crate::table::{Align, Table, csv_row, wrap};
use crate::text::{plural, quantity, ratio, some_of, verdict};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{first} and {second} cannot be compared: {}", reasons.join("; "))]
pub struct Unlike {
    pub first: String,
    pub second: String,
    /// One clause each.
    pub reasons: Vec<String>,
    /// The user may insist.
    pub forceable: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunComparison {
    /// Always [`RunComparison::FORMAT`].
    pub format: &'static str,
    pub first: String,
    pub second: String,
    /// Differences between the runs beside the results.
    pub differences: Vec<String>,
    /// Cells of both, in the first run's order.
    pub cells: Vec<CellComparison>,
    /// Cells of only one run, or without a result to compare.
    pub left_out: Vec<String>,
}

impl RunComparison {
    pub const FORMAT: &'static str = "latlab.comparison/1";

    pub fn different(&self) -> impl Iterator<Item = &CellComparison> {
        self.cells
            .iter()
            .filter(|c| matches!(c.verdict, Verdict::Better | Verdict::Worse))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellComparison {
    pub id: String,
    /// `median latency`, or a metric's title.
    pub quantity: String,
    /// `ns`, or the metric's unit.
    pub unit: String,
    /// In the first run.
    pub first: f64,
    pub second: f64,
    pub replicates: (usize, usize),
    pub ratio: f64,
    /// 95 % interval of the ratio.
    pub ratio_ci95: Option<(f64, f64)>,
    /// Two-sided Mann–Whitney U test on the replicates' values.
    pub p_value: Option<f64>,
    /// Verdict on the second run against the first, corrected for the number of cells.
    pub verdict: Verdict,
    /// Ratios beyond the median, where both have enough samples.
    pub tails: Vec<TailRatio>,
    /// True of a cell that was emulated in one of the runs.
    pub emulated: bool,
    /// The emulated parts of both runs, each with its emulator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub emulation: Vec<String>,
}

/// Compares the second run with the first. Errors: [`Unlike`] when they are not alike; `force` overrides a difference
/// of machine or acceleration.
pub fn compare(
    first: &Analysis,
    second: &Analysis,
    force: bool,
) -> Result<RunComparison, Box<Unlike>> {
    let (a, b) = (&first.summary, &second.summary);
    let refuse = |reasons, forceable| {
        Box::new(Unlike {
            first: a.id.clone(),
            second: b.id.clone(),
            reasons,
            forceable,
        })
    };
    let unlike = definitions(a, b);
    if !unlike.is_empty() {
        return Err(refuse(unlike, false));
    }
    let machines = machines(a, b);
    if !machines.is_empty() && !force {
        return Err(refuse(machines, true));
    }
    let (mut common, left_out) = common_cells(first, second);
    if common.is_empty() {
        return Err(refuse(
            vec!["they have no cell with results in common".to_owned()],
            false,
        ));
    }
    adjust(common.iter_mut().flat_map(|common| &mut common.pair.tails));
    let claims: Vec<Claim> = common.iter().map(|common| common.pair.claim).collect();
    let cells = common
        .into_iter()
        .zip(judge(&claims))
        .map(|(common, verdict)| common.judged(verdict));
    Ok(RunComparison {
        format: RunComparison::FORMAT,
        first: a.id.clone(),
        second: b.id.clone(),
        cells: cells.collect(),
        differences: [machines, circumstances(a, b)].concat(),
        left_out,
    })
}

struct Common<'a> {
    cell: &'a Cell,
    /// The same in the second run.
    other: &'a Cell,
    base: &'a Evidence,
    new: &'a Evidence,
    pair: Pair,
}

impl Common<'_> {
    fn judged(self, verdict: Verdict) -> CellComparison {
        let (base, new, pair) = (self.base, self.new, self.pair);
        let both = [self.cell, self.other];
        CellComparison {
            id: self.cell.id.clone(),
            quantity: base.quantity.clone(),
            unit: base.unit.clone(),
            first: base.value,
            second: new.value,
            replicates: (base.values.len(), new.values.len()),
            ratio: pair.ratio,
            ratio_ci95: pair.ci95,
            p_value: pair.claim.rank.filter(|_| pair.ci95.is_some()).map(tidy),
            verdict,
            tails: pair.tails,
            emulated: both.iter().any(|cell| cell.environment.emulated),
            emulation: emulation::named(both),
        }
    }
}

/// Cells with results in both runs, and the identifiers of all others.
fn common_cells<'a>(first: &'a Analysis, second: &'a Analysis) -> (Vec<Common<'a>>, Vec<String>) {
    let (mut common, mut left_out) = (Vec::new(), Vec::new());
    for cell in &first.summary.cells {
        let found = || {
            let (base, new) = (
                first.evidence.get(&cell.id)?,
                second.evidence.get(&cell.id)?,
            );
            let mut others = second.summary.cells.iter();
            Some(Common {
                cell,
                other: others.find(|other| other.id == cell.id)?,
                base,
                new,
                pair: Pair::between_runs(new, base)?,
            })
        };
        match found() {
            Some(found) => common.push(found),
            None => left_out.push(cell.id.clone()),
        }
    }
    let only_second = second.summary.cells.iter().map(|cell| &cell.id);
    let known = |id: &&String| first.summary.cells.iter().all(|cell| cell.id != **id);
    left_out.extend(only_second.filter(known).cloned());
    (common, left_out)
}

/// Measurements of one name with different definitions, and factors that set different fields.
fn definitions(a: &Summary, b: &Summary) -> Vec<String> {
    let mut reasons = Vec::new();
    for one in &a.measurements {
        let Some(two) = b.measurements.iter().find(|two| two.name == one.name) else {
            continue;
        };
        if one != two {
            reasons.push(format!(
                "measurement {} is defined differently ({} against {})",
                one.name, one.description, two.description
            ));
        }
    }
    for one in &a.factors {
        let two = b.factors.iter().find(|two| two.name == one.name);
        if let Some(two) = two.filter(|two| two.path != one.path) {
            reasons.push(format!(
                "factor {} sets {} against {}",
                one.name, one.path, two.path
            ));
        }
    }
    reasons
}

/// Differences of the machine that make times incomparable unless the user insists.
fn machines(a: &Summary, b: &Summary) -> Vec<String> {
    let facts: [Fact; 4] = [
        ("CPU", |host| host.cpu.clone()),
        ("number of cores", |host| host.cores.to_string()),
        ("hypervisor underneath", |host| {
            let hypervisor = host.hypervisor.as_deref();
            hypervisor.unwrap_or("none").to_owned()
        }),
        ("acceleration of VMs", |host| host.acceleration.clone()),
    ];
    let mut reasons = differing(&a.host, &b.host, &facts);
    let emulated = |summary: &Summary, id: &str| {
        summary
            .cells
            .iter()
            .find(|cell| cell.id == id)
            .map(|cell| cell.environment.emulated)
    };
    let changed: Vec<&str> = a
        .cells
        .iter()
        .filter(|cell| emulated(b, &cell.id).is_some_and(|e| e != cell.environment.emulated))
        .map(|cell| cell.id.as_str())
        .collect();
    if !changed.is_empty() {
        reasons.push(format!("emulated in one run only: {}", some_of(&changed)));
    }
    reasons
}

/// Differences that may be the reason for comparing.
fn circumstances(a: &Summary, b: &Summary) -> Vec<String> {
    let facts: [Fact; 5] = [
        ("kernel", |host| host.kernel.clone()),
        ("distribution", |host| host.distribution.clone()),
        ("cgroup", |host| host.cgroup.clone()),
        ("clock source", |host| host.clocksource.clone()),
        ("memory", |host| host.memory_bytes.to_string()),
    ];
    let mut all = differing(&a.host, &b.host, &facts);
    for (name, version) in &a.versions {
        if let Some(other) = b.versions.get(name).filter(|other| *other != version) {
            all.push(format!("{name} is {version} against {other}"));
        }
    }
    let other_lab = |cell: &&Cell| {
        let other = b.cells.iter().find(|other| other.id == cell.id);
        other.is_some_and(|other| lab(a, cell) != lab(b, other))
    };
    let changed: Vec<&str> = a
        .cells
        .iter()
        .filter(other_lab)
        .map(|cell| cell.id.as_str())
        .collect();
    if !changed.is_empty() {
        all.push(format!("the lab differs in {}", some_of(&changed)));
    }
    all
}

/// The nodes and links of a cell's lab.
fn lab<'s>(summary: &'s Summary, cell: &Cell) -> Option<(&'s [TopologyNode], &'s [TopologyLink])> {
    let lab = summary.topologies.get(cell.topology)?;
    Some((lab.nodes.as_slice(), lab.links.as_slice()))
}

/// A property of a machine: its name, and how it is told.
type Fact = (&'static str, fn(&HostBrief) -> String);

fn differing(one: &HostBrief, two: &HostBrief, facts: &[Fact]) -> Vec<String> {
    let all = facts.iter().map(|(name, of)| (name, of(one), of(two)));
    all.filter(|(_, one, two)| one != two)
        .map(|(name, one, two)| format!("the {name} is {one} against {two}"))
        .collect()
}

pub fn render(comparison: &RunComparison, look: Look) -> String {
    let mut out = format!(
        "{}  against  {}\n",
        look.bold(&comparison.second),
        look.bold(&comparison.first)
    );
    for difference in &comparison.differences {
        out.push_str(&wrap(&format!("differs: {difference}"), WIDTH).join("\n"));
        out.push('\n');
    }
    out.push('\n');
    let mut table = Table::new(&[
        ("cell", Align::Left),
        ("n", Align::Right),
        ("first", Align::Right),
        ("second", Align::Right),
        ("ratio [95 % CI]", Align::Left),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
        ("verdict", Align::Left),
    ]);
    for cell in &comparison.cells {
        let tail = |p: &str| {
            let found = cell.tails.iter().find(|tail| tail.of == p);
            found.map(|tail| ratio(tail.ratio)).unwrap_or_default()
        };
        let interval = cell
            .ratio_ci95
            .map(|(low, high)| format!(" [{}, {}]", ratio(low), ratio(high)))
            .unwrap_or_default();
        let row = vec![
            cell.id.clone(),
            format!("{}, {}", cell.replicates.0, cell.replicates.1),
            quantity(cell.first, &cell.unit),
            quantity(cell.second, &cell.unit),
            format!("{}{interval}", ratio(cell.ratio)),
            tail("p99"),
            tail("p99.9"),
            emulation::marked(cell.verdict, cell.emulated),
        ];
        table.row(row, style_of(cell.verdict));
    }
    out.push_str(&table.render(look));
    if comparison.cells.iter().any(|cell| cell.emulated) {
        let named = comparison.cells.iter().flat_map(|cell| &cell.emulation);
        let named = emulation::distinct(named);
        out.push_str(&look.dim(&emulation::legend_lines(&named)));
    }
    if !comparison.left_out.is_empty() {
        let text = format!("Not in both: {}.", some_of(&comparison.left_out));
        out.push_str(&format!("\n{}\n", wrap(&text, WIDTH).join("\n")));
    }
    let found = comparison.different().count();
    out.push_str(&match found {
        0 => format!(
            "\nNo difference found in {}{}.\n",
            plural(comparison.cells.len(), "cell"),
            undecided(comparison)
        ),
        _ => format!(
            "\nDifferent: {found} of {}.\n",
            plural(comparison.cells.len(), "cell")
        ),
    });
    out
}

/// The number of cells in which there may be a difference all the same.
fn undecided(comparison: &RunComparison) -> String {
    let is_undecided = |cell: &&CellComparison| cell.verdict != Verdict::NoDifference;
    match comparison.cells.iter().filter(is_undecided).count() {
        0 => String::new(),
        count => format!("; {count} of them are undecided: more replicates may tell"),
    }
}

/// One row a cell, all numbers in full.
pub fn csv(comparison: &RunComparison) -> String {
    let mut out = csv_row(&[
        "cell",
        "quantity",
        "unit",
        "first",
        "second",
        "replicates_first",
        "replicates_second",
        "ratio",
        "ratio_ci95_low",
        "ratio_ci95_high",
        "p_value",
        "verdict",
        "tails",
    ]);
    let number = |x: Option<f64>| x.map(|x| x.to_string()).unwrap_or_default();
    for cell in &comparison.cells {
        let tails: Vec<String> = cell
            .tails
            .iter()
            .map(|tail| format!("{}={}", tail.of, tail.ratio))
            .collect();
        out.push_str(&csv_row(&[
            cell.id.clone(),
            cell.quantity.clone(),
            cell.unit.clone(),
            cell.first.to_string(),
            cell.second.to_string(),
            cell.replicates.0.to_string(),
            cell.replicates.1.to_string(),
            cell.ratio.to_string(),
            number(cell.ratio_ci95.map(|ci| ci.0)),
            number(cell.ratio_ci95.map(|ci| ci.1)),
            number(cell.p_value),
            verdict(cell.verdict).to_owned(),
            tails.join(" "),
        ]));
    }
    out
}
