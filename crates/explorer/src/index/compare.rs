//! Several runs beside a baseline.

use std::collections::BTreeMap;

use latlab_model::results::Verdict;
use latlab_report::quantities::{self, Against, Quantity};
use rusqlite::{Connection, Row};
use serde::Serialize;

use super::error::IndexError;
use super::search::run;
use crate::entry::Run;

pub const MAX_RUNS: usize = 20;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The baseline first.
    pub runs: Vec<Run>,
    /// Differences of each run from the baseline, beside its results.
    pub warnings: Vec<Vec<String>>,
    /// Quantities that at least two runs have.
    pub rows: Vec<Compared>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    pub cell: String,
    pub quantity: String,
    pub unit: String,
    pub higher_is_better: bool,
    /// One for each run.
    pub values: Vec<Option<Measured>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Measured {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub replicates: usize,
    /// To the baseline.
    pub ratio: Option<f64>,
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    pub verdict: Option<Verdict>,
}

/// A cell, and what identifies one of its quantities.
type Key = (String, String, String, bool);

/// Compares runs with the first of them. Errors: the path of a run that the index does not know.
pub fn compare(
    connection: &Connection,
    paths: &[String],
) -> Result<Result<Comparison, String>, IndexError> {
    let mut runs = Vec::new();
    for path in paths {
        match run(connection, path)? {
            Some(run) => runs.push(run),
            None => return Ok(Err(path.clone())),
        }
    }
    let mut results = Vec::new();
    for path in paths {
        results.push(results_of(connection, path)?);
    }
    let warnings = runs.iter().map(|run| differences(&runs[0], run)).collect();
    Ok(Ok(Comparison {
        rows: rows(&runs, &results),
        warnings,
        runs,
    }))
}

fn results_of(connection: &Connection, path: &str) -> Result<BTreeMap<Key, Quantity>, IndexError> {
    let mut statement = connection.prepare(
        "SELECT cell, quantity, unit, higher_is_better, value, low, high, ruler_spread, trials, replicates
         FROM result JOIN series ON series.id = result.series
         WHERE run = (SELECT id FROM run WHERE path = ?)",
    )?;
    let rows = statement.query_map([path], |row| {
        let key: Key = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        Ok((key, measured(row, 4)?))
    })?;
    let quantity = |row: rusqlite::Result<(Key, Stored)>| {
        let (key, stored) = row?;
        let quantity = Quantity {
            quantity: key.1.clone(),
            unit: key.2.clone(),
            higher_is_better: key.3,
            value: stored.value,
            ci95: stored.low.zip(stored.high),
            trials: stored.trials,
            replicates: serde_json::from_str(&stored.replicates)?,
            ruler_spread: stored.ruler_spread,
        };
        Ok((key, quantity))
    };
    rows.map(quantity).collect()
}

/// The columns of a result.
pub(super) struct Stored {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub ruler_spread: f64,
    pub trials: usize,
    /// JSON.
    pub replicates: String,
}

/// Columns `value, low, high, ruler_spread, trials, replicates` from `first` on.
pub(super) fn measured(row: &Row<'_>, first: usize) -> rusqlite::Result<Stored> {
    Ok(Stored {
        value: row.get(first)?,
        low: row.get(first + 1)?,
        high: row.get(first + 2)?,
        ruler_spread: row.get(first + 3)?,
        trials: row.get(first + 4)?,
        replicates: row.get(first + 5)?,
    })
}

fn rows(runs: &[Run], results: &[BTreeMap<Key, Quantity>]) -> Vec<Compared> {
    let mut count: BTreeMap<&Key, usize> = BTreeMap::new();
    for key in results.iter().flat_map(BTreeMap::keys) {
        *count.entry(key).or_default() += 1;
    }
    let all = runs.iter().zip(results).skip(1);
    let against: Vec<BTreeMap<&Key, Against>> = all
        .map(|(run, own)| {
            let is_alike = |key: &Key| run.definition(&key.0) == runs[0].definition(&key.0);
            against(own, &results[0], is_alike)
        })
        .collect();
    let row = |key: &Key| {
        let values = results.iter().enumerate().map(|(i, run)| {
            let found = run.get(key)?;
            let compared = i.checked_sub(1).and_then(|i| against[i].get(key));
            let (low, high) = found.ci95.unzip();
            let (ratio_low, ratio_high) = compared.and_then(|c| c.ratio_ci95).unzip();
            Some(Measured {
                value: found.value,
                low,
                high,
                replicates: found.trials,
                ratio: compared.map(|c| c.ratio),
                ratio_low,
                ratio_high,
                verdict: compared.and_then(|c| c.verdict),
            })
        });
        Compared {
            cell: key.0.clone(),
            quantity: key.1.clone(),
            unit: key.2.clone(),
            higher_is_better: key.3,
            values: values.collect(),
        }
    };
    let shared = count.iter().filter(|(_, runs)| **runs > 1);
    shared.map(|(key, _)| row(key)).collect()
}

/// Each quantity of a run against the baseline's, but for cells that are defined differently. Cells are judged together,
/// quantity by quantity.
fn against<'k>(
    run: &'k BTreeMap<Key, Quantity>,
    baseline: &'k BTreeMap<Key, Quantity>,
    is_alike: impl Fn(&Key) -> bool,
) -> BTreeMap<&'k Key, Against> {
    let mut by_quantity: BTreeMap<&str, Vec<&Key>> = BTreeMap::new();
    let both = run.keys().filter(|key| baseline.contains_key(*key));
    for key in both.filter(|key| is_alike(key)) {
        by_quantity.entry(&key.1).or_default().push(key);
    }
    let mut found = BTreeMap::new();
    for keys in by_quantity.into_values() {
        let pairs: Vec<_> = keys
            .iter()
            .map(|key| (&run[*key], &baseline[*key]))
            .collect();
        let compared = keys.into_iter().zip(quantities::against(&pairs));
        found.extend(compared.filter_map(|(key, against)| Some((key, against?))));
    }
    found
}

fn differences(baseline: &Run, run: &Run) -> Vec<String> {
    let facts = [
        ("study", &baseline.study, &run.study),
        ("machine", &baseline.machine, &run.machine),
        (
            "acceleration of VMs",
            &baseline.acceleration,
            &run.acceleration,
        ),
        ("kernel", &baseline.kernel, &run.kernel),
        ("version of latlab", &baseline.version, &run.version),
    ];
    let differing = facts.iter().filter(|(_, one, two)| one != two);
    let facts = differing.map(|(name, one, two)| format!("the {name} is {two} against {one}"));
    let definitions = run.definitions.iter().filter_map(|(name, own)| {
        let other = baseline
            .definitions
            .get(name)
            .filter(|other| *other != own)?;
        Some(format!(
            "measurement {name} is defined differently ({own} against {other})"
        ))
    });
    facts.chain(definitions).collect()
}
