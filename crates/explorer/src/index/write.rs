//! Writing entries into the index.

use rusqlite::{OptionalExtension, Transaction, params};

use super::error::IndexError;
use crate::entry::{Entry, Run};

/// Removes what the index has of a directory.
pub fn remove(transaction: &Transaction<'_>, path: &str) -> rusqlite::Result<()> {
    let id: Option<i64> = transaction
        .query_row("SELECT id FROM run WHERE path = ?", [path], |row| {
            row.get(0)
        })
        .optional()?;
    if let Some(id) = id {
        transaction.execute("DELETE FROM words WHERE rowid = ?", [id])?;
        transaction.execute("DELETE FROM run WHERE id = ?", [id])?;
    }
    Ok(())
}

/// Puts an entry in the place of what the index had of its directory.
pub fn replace(
    transaction: &Transaction<'_>,
    stamp: &str,
    entry: &Entry,
) -> Result<(), IndexError> {
    let run = &entry.run;
    remove(transaction, &run.path)?;
    transaction.execute(
        "INSERT INTO run (path, stamp, study, machine, version, kernel, state, started, cells)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            run.path,
            stamp,
            run.study,
            run.machine,
            run.version,
            run.kernel,
            run.state,
            run.started,
            run.cells as i64,
        ],
    )?;
    let id = transaction.last_insert_rowid();
    transaction.execute(
        "INSERT INTO document (run, json) VALUES (?, ?)",
        params![id, serde_json::to_string(run)?],
    )?;
    let mut level =
        transaction.prepare("INSERT INTO level (run, factor, level) VALUES (?, ?, ?)")?;
    for factor in &run.factors {
        for value in &factor.levels {
            level.execute(params![id, factor.name, value])?;
        }
    }
    let lists = [("measurement", &run.measurements), ("tag", &run.tags)];
    for (table, names) in lists {
        let mut insert =
            transaction.prepare(&format!("INSERT INTO {table} (run, name) VALUES (?, ?)"))?;
        for name in names {
            insert.execute(params![id, name])?;
        }
    }
    transaction.execute(
        "INSERT INTO words (rowid, text) VALUES (?, ?)",
        params![id, text(run)],
    )?;
    results(transaction, id, entry)
}

fn results(transaction: &Transaction<'_>, id: i64, entry: &Entry) -> Result<(), IndexError> {
    let mut series = transaction.prepare(
        "INSERT INTO series (cell, quantity, unit, higher_is_better) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET cell = ?1 RETURNING id",
    )?;
    let mut result = transaction.prepare(
        "INSERT OR REPLACE INTO result (series, run, value, low, high, ruler_spread, trials, replicates)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    for (cell, quantities) in &entry.results {
        // SQLite has no NaN.
        for of in quantities.iter().filter(|of| of.value.is_finite()) {
            let key = params![cell, of.quantity, of.unit, of.higher_is_better];
            let series: i64 = series.query_row(key, |row| row.get(0))?;
            let (low, high) = of.ci95.unzip();
            let replicates = serde_json::to_string(&of.replicates)?;
            result.execute(params![
                series,
                id,
                of.value,
                low,
                high,
                of.ruler_spread,
                of.trials as i64,
                replicates
            ])?;
        }
    }
    Ok(())
}

/// All words by which a run is found.
fn text(run: &Run) -> String {
    let mut words = vec![
        run.path.as_str(),
        &run.id,
        &run.study,
        &run.machine,
        &run.kernel,
        &run.version,
        &run.acceleration,
        &run.note,
    ];
    words.extend(run.description.as_deref());
    words.extend(run.measurements.iter().chain(&run.tags).map(String::as_str));
    for factor in &run.factors {
        words.push(&factor.name);
        words.extend(factor.levels.iter().map(String::as_str));
    }
    words.join("\n")
}
