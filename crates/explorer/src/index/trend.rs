//! One quantity of one cell over time, machine by machine.

use std::collections::BTreeMap;

use latlab_report::stats;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::compare::{Stored, measured};
use super::error::IndexError;
use crate::entry::Run;

/// Cells, quantities and machines of a study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choices {
    pub cells: Vec<CellChoice>,
    /// With their numbers of runs.
    pub machines: Vec<(String, u64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellChoice {
    pub cell: String,
    pub quantities: Vec<String>,
    /// Runs that have a quantity of it.
    pub runs: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Wanted {
    pub study: String,
    pub cell: String,
    pub quantity: String,
    pub machine: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    pub study: String,
    pub cell: String,
    pub quantity: String,
    pub unit: String,
    pub higher_is_better: bool,
    /// A series for each machine and definition of the measurement: times of different ones are no trend.
    pub series: Vec<Series>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    pub machine: String,
    /// A line about the measurement.
    pub definition: String,
    /// In order of time.
    pub points: Vec<Point>,
    pub changes: Vec<Change>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    pub path: String,
    pub id: String,
    pub started: String,
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub replicates: usize,
    pub version: String,
    pub kernel: String,
    pub state: String,
    pub tags: Vec<String>,
    pub note: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The first point of the new level.
    pub index: usize,
    /// Medians of the two levels.
    pub before: f64,
    pub after: f64,
    /// `None` where a level is zero or negative, and a ratio has no meaning.
    pub ratio: Option<f64>,
    pub p_value: f64,
}

pub fn choices(connection: &Connection, study: &str) -> Result<Choices, IndexError> {
    let mut statement = connection.prepare(
        "SELECT cell, quantity, count(*) FROM result JOIN series ON series.id = result.series
         JOIN run ON run.id = result.run WHERE study = ? GROUP BY cell, quantity ORDER BY series.id",
    )?;
    let rows = statement.query_map([study], |row| {
        Ok((
            row.get(0)?,
            row.get(1)?,
            row.get::<_, i64>(2)?.unsigned_abs(),
        ))
    })?;
    let mut cells: BTreeMap<String, CellChoice> = BTreeMap::new();
    for row in rows {
        let (cell, quantity, runs): (String, String, u64) = row?;
        let choice = cells.entry(cell.clone()).or_insert(CellChoice {
            cell,
            quantities: Vec::new(),
            runs: 0,
        });
        choice.runs = choice.runs.max(runs);
        if !choice.quantities.contains(&quantity) {
            choice.quantities.push(quantity);
        }
    }
    let mut statement = connection.prepare(
        "SELECT machine, count(*) AS runs FROM run WHERE study = ? GROUP BY machine ORDER BY runs DESC, machine",
    )?;
    let machines = statement.query_map([study], |row| {
        Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
    })?;
    Ok(Choices {
        cells: cells.into_values().collect(),
        machines: machines.collect::<Result<_, _>>()?,
    })
}

/// Machine and definition of the measurement, alike in all points of a series.
type Comparable = (String, String);

pub fn trend(connection: &Connection, wanted: Wanted) -> Result<Trend, IndexError> {
    let mut statement = connection.prepare(
        "SELECT unit, higher_is_better, json, value, low, high, ruler_spread, trials, replicates
         FROM series JOIN result ON result.series = series.id JOIN run ON run.id = result.run
              JOIN document ON document.run = run.id
         WHERE cell = ?1 AND quantity = ?2 AND study = ?3 AND (?4 IS NULL OR machine = ?4)
         ORDER BY started, path",
    )?;
    let parameters = (
        &wanted.cell,
        &wanted.quantity,
        &wanted.study,
        &wanted.machine,
    );
    let mut rows = statement.query(parameters)?;
    let mut found: Vec<(String, bool, Comparable, Point)> = Vec::new();
    while let Some(row) = rows.next()? {
        let run: Run = serde_json::from_str(&row.get::<_, String>(2)?)?;
        let definition = run.definition(&wanted.cell).unwrap_or_default();
        let of = (run.machine.clone(), definition.to_owned());
        found.push((row.get(0)?, row.get(1)?, of, point(run, &measured(row, 3)?)));
    }
    // Values of another unit, of an older version of a study, are left out.
    let newest = found
        .last()
        .map(|(unit, higher, ..)| (unit.clone(), *higher));
    let (unit, higher_is_better) = newest.unwrap_or_default();
    let mut all: BTreeMap<Comparable, Vec<Point>> = BTreeMap::new();
    for (own, _, of, point) in found {
        if own == unit {
            all.entry(of).or_default().push(point);
        }
    }
    let series = all
        .into_iter()
        .map(|((machine, definition), points)| Series {
            machine,
            definition,
            changes: changes(&points),
            points,
        });
    Ok(Trend {
        series: series.collect(),
        study: wanted.study,
        cell: wanted.cell,
        quantity: wanted.quantity,
        unit,
        higher_is_better,
    })
}

fn point(run: Run, stored: &Stored) -> Point {
    Point {
        path: run.path,
        id: run.id,
        started: run.started,
        value: stored.value,
        low: stored.low,
        high: stored.high,
        replicates: stored.trials,
        version: run.version,
        kernel: run.kernel,
        state: run.state,
        tags: run.tags,
        note: run.note,
    }
}

fn changes(points: &[Point]) -> Vec<Change> {
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let changes = stats::changes(&values).into_iter();
    let change = |change: stats::Change| Change {
        index: change.index,
        before: change.before,
        after: change.after,
        ratio: (change.before > 0.0 && change.after > 0.0).then(|| change.after / change.before),
        p_value: change.p_value,
    };
    changes.map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(value: f64) -> Vec<Point> {
        let wobble = |n: usize| value + 0.01 * (n * 7 % 5) as f64;
        let point = |n| Point {
            path: String::new(),
            id: String::new(),
            started: String::new(),
            value: wobble(n),
            low: None,
            high: None,
            replicates: 3,
            version: String::new(),
            kernel: String::new(),
            state: String::new(),
            tags: Vec::new(),
            note: String::new(),
        };
        (0..12).map(point).collect()
    }

    #[test]
    fn a_ratio_is_told_between_positive_levels_only() {
        let zero = || {
            level(0.0).into_iter().map(|point| Point {
                value: 0.0,
                ..point
            })
        };
        for (before, after, ratio) in [
            (level(10.0), level(13.0), Some(1.3)),
            (zero().collect(), level(10.0), None),
            (level(10.0), zero().collect(), None),
            (level(-13.0), level(-10.0), None),
        ] {
            let found = changes(&[before, after].concat());
            let [change] = &found[..] else {
                panic!("{found:?}");
            };
            assert_eq!(change.index, 12);
            let rounded = change.ratio.map(|ratio| (ratio * 100.0).round() / 100.0);
            assert_eq!(rounded, ratio);
        }
    }
}
