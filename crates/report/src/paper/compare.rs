//! Ratios of both, and whether the paper's direction is found here.
//!
//! Absolute figures of two machines say nothing about each other, so only ratios to the first column are compared. A
//! ratio says one of three things: more, less, or the same within [`SAME`]. The paper's ratio says one of them. It holds
//! if the whole 95 % interval of the ratio here says the same, does not hold if none of it does, and cannot be told if
//! the interval reaches over a border. An emulated VM tells nothing of a real one.

use latlab_model::paper::{Column, Paper, Published, Row, Table};
use latlab_model::results::{
    Direction, PaperComparison, PaperRow, PaperTable, PaperValue, PaperVerdict, Summary,
};
use latlab_model::spec::Better;

use super::figure::{Figure, find};
use crate::stats::{Estimate, ratio, tidy};

/// Ratios within this factor of 1 are the same: differences below 5 % depend on machine and version.
const SAME: f64 = 1.05;

/// A paper beside the runs of its studies.
pub fn compare(paper: &Paper, summaries: &[&Summary]) -> PaperComparison {
    let tables = paper.tables.iter();
    PaperComparison {
        name: paper.name.word().to_owned(),
        title: paper.title.clone(),
        authors: paper.authors.clone(),
        published: paper.published.clone(),
        testbed: paper.testbed.clone(),
        tables: tables.map(|table| of_table(table, summaries)).collect(),
        absent: paper.absent.clone(),
    }
}

/// The tables and rows of a paper that one run measures; nothing, if it measures none.
pub fn of_run(paper: &Paper, summary: &Summary) -> Option<PaperComparison> {
    let mut own = paper.clone();
    own.absent.clear();
    for table in &mut own.tables {
        let columns = &table.columns;
        table.rows.retain(|row| {
            let mut studies = columns.iter().map(|c| c.select.and(&row.select).study);
            studies.any(|study| study.as_deref() == Some(&summary.study))
        });
    }
    own.tables.retain(|table| !table.rows.is_empty());
    (!own.tables.is_empty()).then(|| compare(&own, &[summary]))
}

fn of_table(table: &Table, summaries: &[&Summary]) -> PaperTable {
    let rows = table.rows.iter();
    PaperTable {
        title: table.title.clone(),
        place: table.place.clone(),
        columns: table.columns.iter().map(|c| c.name.clone()).collect(),
        rows: rows.map(|row| of_row(table, row, summaries)).collect(),
        note: table.note.clone(),
    }
}

fn of_row(table: &Table, row: &Row, summaries: &[&Summary]) -> PaperRow {
    let figure = |column: &Column| find(&column.select.and(&row.select), summaries);
    let figures: Vec<Result<Figure, String>> = table.columns.iter().map(figure).collect();
    let estimates: Vec<Option<Estimate>> = figures.iter().map(|f| estimate(f, summaries)).collect();
    let unit = figures.iter().flatten().next().map(|f| f.unit.clone());
    let values = figures.iter().enumerate().map(|(index, figure)| {
        let mut value = own(row, index, figure, estimates[index]);
        if index > 0 {
            relate(&mut value, row, index, &figures, &estimates);
        }
        value
    });
    PaperRow {
        name: row.name.clone(),
        higher_is_better: row.better == Better::Higher,
        published_unit: row.unit.clone(),
        values: values.collect(),
        measured_unit: unit.unwrap_or_default(),
    }
}

fn estimate(figure: &Result<Figure, String>, summaries: &[&Summary]) -> Option<Estimate> {
    let seed = summaries.first().map_or(1, |summary| summary.seed);
    figure.as_ref().ok()?.estimate(seed)
}

/// A column's own figures, without a ratio.
fn own(
    row: &Row,
    index: usize,
    figure: &Result<Figure, String>,
    estimate: Option<Estimate>,
) -> PaperValue {
    let published = row.published.get(index).copied().flatten();
    let (value, spread) = match published {
        Some(Published::Figure { value, spread }) if !row.are_ratios => (Some(value), spread),
        _ => (None, None),
    };
    let measured = figure.as_ref().ok().map(|f| tidy(f.value()));
    PaperValue {
        published: value,
        published_spread: spread,
        measured,
        measured_ci95: estimate.map(|estimate| estimate.ci95()),
        reason: figure.as_ref().err().cloned(),
        ..PaperValue::default()
    }
}

/// The ratios to the first column and what follows from them.
fn relate(
    value: &mut PaperValue,
    row: &Row,
    index: usize,
    figures: &[Result<Figure, String>],
    estimates: &[Option<Estimate>],
) {
    let published = |index: usize| row.published.get(index).copied().flatten();
    let figure = |index: usize| published(index).and_then(Published::value);
    value.published_ratio = if row.are_ratios {
        figure(index)
    } else {
        let both = figure(index).zip(figure(0));
        both.map(|(own, first)| tidy(own / first))
    };
    value.published_direction = match published(index) {
        Some(Published::Direction(direction)) => Some(direction),
        _ => value.published_ratio.map(direction_of),
    };
    let middle = |index: usize| figures[index].as_ref().ok().map(Figure::value);
    let both = middle(index)
        .zip(middle(0))
        .filter(|(_, first)| *first > 0.0);
    let tested = estimates[index].zip(estimates[0]);
    let tested = tested.and_then(|(own, first)| ratio(&own, &first));
    value.ratio = both.map(|(own, first)| tidy(own / first));
    value.ratio_ci95 = tested.map(|tested| tested.ci95);
    if let Some(published) = value.published_direction {
        let is_emulated = |index: usize| figures[index].as_ref().is_ok_and(|f| f.emulated);
        let emulated = is_emulated(0) || is_emulated(index);
        let (verdict, reason) = judge(published, value, emulated);
        value.verdict = Some(verdict);
        value.reason = value.reason.take().or(reason);
    }
}

fn judge(
    published: Direction,
    value: &PaperValue,
    emulated: bool,
) -> (PaperVerdict, Option<String>) {
    use PaperVerdict::{CannotBeTold, DoesNotHold, Holds};
    let unknown = |reason: &str| (CannotBeTold, Some(reason.to_owned()));
    if value.ratio.is_none() {
        return unknown("one of the two was not measured");
    }
    if emulated {
        return unknown("the VM is emulated");
    }
    let Some((low, high)) = value.ratio_ci95 else {
        return unknown("fewer than three trials");
    };
    match (direction_of(low), direction_of(high)) {
        (low, high) if low == high && low == published => (Holds, None),
        (low, high) if published < low || published > high => (DoesNotHold, None),
        _ => unknown("wide interval"),
    }
}

fn direction_of(ratio: f64) -> Direction {
    match ratio {
        r if r < 1.0 / SAME => Direction::Less,
        r if r > SAME => Direction::More,
        _ => Direction::Same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::median;

    fn verdict(published: f64, ci95: (f64, f64), emulated: bool) -> PaperVerdict {
        let value = PaperValue {
            ratio: Some(f64::midpoint(ci95.0, ci95.1)),
            ratio_ci95: Some(ci95),
            ..PaperValue::default()
        };
        judge(direction_of(published), &value, emulated).0
    }

    const DOCUMENT: &str = r#"
name: felter2014
title: A paper
authors: Somebody
published: Somewhere
testbed: a machine
studies: [STUDY, another]
tables:
  - title: Round trips
    where: Table I
    unit: us
    better: lower
    study: STUDY
    measurement: rr-udp
    quantity: latency
    columns:
      - {name: native, levels: {kind: native, link: veth}}
      - {name: container, levels: {kind: container, link: veth}}
      - {name: VM, levels: {kind: vm, link: veth}}
    rows:
      - {name: round trip, published: [10, 10.2 (0.5), null]}
      - {name: in words, ratios: [1, more, more]}
      - {name: unknown cell, published: [10, 11, 12], levels: {link: token-ring}}
  - title: Elsewhere
    where: Table II
    study: another
    quantity: gap migrate
    columns: [{name: a}, {name: b}]
    rows: [{name: gap, published: [1, 2]}]
"#;

    fn paper(study: &str) -> Paper {
        Paper::parse(&DOCUMENT.replace("STUDY", study)).unwrap()
    }

    #[test]
    fn a_run_has_the_rows_of_its_own_study_with_its_medians() {
        let summary = crate::synthetic::summary();
        let found = of_run(&paper(&summary.study), &summary).unwrap();
        let titles: Vec<&str> = found.tables.iter().map(|t| t.title.as_str()).collect();
        assert_eq!(titles, ["Round trips"]);
        let [round_trip, words, unknown] = &found.tables[0].rows[..] else {
            panic!("{found:#?}");
        };
        let medians = |kind: &str| {
            let id = format!("rr-udp/kind={kind}/link=veth");
            let trials = summary.trials.iter().filter(|trial| trial.cell == id);
            let spreads = trials.filter_map(|trial| trial.spread_ns);
            median(&spreads.map(|spread| spread.median).collect::<Vec<f64>>())
        };
        let container = &round_trip.values[1];
        assert_eq!(container.measured, Some(tidy(medians("container"))));
        let expected = medians("container") / medians("native");
        assert_eq!(container.ratio, Some(tidy(expected)));
        assert!(container.ratio_ci95.is_some() && container.verdict.is_some());
        assert_eq!(
            (
                container.published,
                container.published_spread,
                container.published_ratio
            ),
            (Some(10.2), Some(0.5), Some(1.02))
        );
        assert_eq!(round_trip.values[2].verdict, None, "the paper says nothing");
        assert_eq!(words.values[1].published_direction, Some(Direction::More));
        assert_eq!(
            words.values[2].reason.as_deref(),
            Some("the VM is emulated")
        );
        assert_eq!(unknown.values[1].verdict, Some(PaperVerdict::CannotBeTold));
        assert_eq!(
            unknown.values[1].reason.as_deref(),
            Some("the run has no trial of it")
        );
    }

    #[test]
    fn a_paper_tells_which_study_was_not_run() {
        let summary = crate::synthetic::summary();
        let found = compare(&paper(&summary.study), &[&summary]);
        let gap = &found.tables[1].rows[0].values[0];
        assert_eq!(gap.reason.as_deref(), Some("study `another` was not run"));
        assert!(of_run(&paper("other"), &summary).is_none());
    }

    #[test]
    fn a_direction_holds_where_the_whole_interval_has_it() {
        use PaperVerdict::{CannotBeTold, DoesNotHold, Holds};
        for (published, ci95, expected) in [
            (0.78, (0.6, 0.9), Holds),
            (0.78, (0.97, 1.02), DoesNotHold),
            (0.78, (1.2, 1.4), DoesNotHold),
            (0.78, (0.9, 1.01), CannotBeTold),
            (1.0, (0.98, 1.03), Holds),
            (1.0, (0.9, 1.1), CannotBeTold),
            (1.0, (1.06, 1.2), DoesNotHold),
            (1.8, (1.04, 9.0), CannotBeTold),
            (1.8, (3.0, 9.0), Holds),
        ] {
            assert_eq!(
                verdict(published, ci95, false),
                expected,
                "{published} {ci95:?}"
            );
        }
        assert_eq!(verdict(0.78, (0.6, 0.9), true), CannotBeTold);
    }

    #[test]
    fn without_an_interval_or_a_figure_nothing_can_be_told() {
        let nothing = judge(Direction::Same, &PaperValue::default(), false);
        assert_eq!(
            nothing.1.as_deref(),
            Some("one of the two was not measured")
        );
        let alone = PaperValue {
            ratio: Some(1.0),
            ..PaperValue::default()
        };
        let few = judge(Direction::Same, &alone, false);
        assert_eq!(few.1.as_deref(), Some("fewer than three trials"));
    }
}
