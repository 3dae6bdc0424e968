//! Searching runs.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use serde::{Deserialize, Serialize};

use super::error::IndexError;
use crate::entry::Run;
use crate::query::{Condition, Field, Term};

/// Values of a facet at most.
const MAX_FACET_VALUES: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    column: &'static str,
    is_descending: bool,
}

impl Order {
    const COLUMNS: [&'static str; 5] = ["started", "study", "machine", "version", "cells"];

    /// `started`, or `-started` for the newest first.
    pub fn named(text: &str) -> Option<Self> {
        let descending = text.strip_prefix('-');
        let name = descending.unwrap_or(text);
        let column = Self::COLUMNS.into_iter().find(|column| *column == name)?;
        Some(Self {
            column,
            is_descending: descending.is_some(),
        })
    }

    fn sql(self) -> String {
        let direction = if self.is_descending { "DESC" } else { "ASC" };
        format!("{} {direction}, started DESC, path ASC", self.column)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Page {
    pub offset: u32,
    pub limit: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// Runs of the directory.
    pub total: u64,
    pub matched: u64,
    /// Those of the page.
    pub runs: Vec<Run>,
    pub facets: Facets,
}

/// Values among the matched runs with their numbers, the most frequent first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Facets {
    pub study: Vec<(String, u64)>,
    pub machine: Vec<(String, u64)>,
    pub version: Vec<(String, u64)>,
    pub state: Vec<(String, u64)>,
    pub tag: Vec<(String, u64)>,
}

pub fn search(
    connection: &Connection,
    terms: &[Term],
    order: Order,
    page: Page,
) -> Result<Found, IndexError> {
    let (condition, values) = condition(terms);
    // With the columns of the facets: each row of `run` is read once.
    connection.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS matched
            (id INTEGER PRIMARY KEY, study TEXT, machine TEXT, version TEXT, state TEXT);
         DELETE FROM matched;",
    )?;
    connection.execute(
        &format!(
            "INSERT INTO matched SELECT id, study, machine, version, state FROM run
             WHERE {condition}"
        ),
        params_from_iter(values),
    )?;
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let facet = |column| facet(connection, column, "matched");
    Ok(Found {
        total: count("SELECT count(*) FROM run")?.unsigned_abs(),
        matched: count("SELECT count(*) FROM matched")?.unsigned_abs(),
        runs: runs(connection, order, page)?,
        facets: Facets {
            study: facet("study")?,
            machine: facet("machine")?,
            version: facet("version")?,
            state: facet("state")?,
            tag: self::facet(
                connection,
                "name",
                "tag JOIN matched ON tag.run = matched.id",
            )?,
        },
    })
}

/// The run of a directory, if the index knows it.
pub fn run(connection: &Connection, path: &str) -> Result<Option<Run>, IndexError> {
    let json: Option<String> = connection
        .query_row(
            "SELECT json FROM run JOIN document ON document.run = run.id WHERE path = ?",
            [path],
            |row| row.get(0),
        )
        .optional()?;
    Ok(json.map(|json| serde_json::from_str(&json)).transpose()?)
}

fn runs(connection: &Connection, order: Order, page: Page) -> Result<Vec<Run>, IndexError> {
    let order = order.sql();
    // All matched rows are sorted, but only those of the page with their documents.
    let mut statement = connection.prepare(&format!(
        "SELECT json FROM run JOIN document ON document.run = run.id WHERE id IN
            (SELECT id FROM run WHERE id IN (SELECT id FROM matched) ORDER BY {order} LIMIT ? OFFSET ?)
         ORDER BY {order}"
    ))?;
    let rows = statement.query_map([page.limit, page.offset], |row| row.get::<_, String>(0))?;
    rows.map(|json| Ok(serde_json::from_str(&json?)?)).collect()
}

fn facet(
    connection: &Connection,
    column: &str,
    rows: &str,
) -> rusqlite::Result<Vec<(String, u64)>> {
    let mut statement = connection.prepare(&format!(
        "SELECT {column}, count(*) AS runs FROM {rows} WHERE {column} <> ''
         GROUP BY {column} ORDER BY runs DESC, {column} LIMIT {MAX_FACET_VALUES}"
    ))?;
    let rows = statement.query_map([], |row| {
        Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
    })?;
    rows.collect()
}

/// A condition on a row of `run`, and the values of its parameters.
fn condition(terms: &[Term]) -> (String, Vec<Value>) {
    let mut values = Vec::new();
    let conditions = terms.iter().map(|term| {
        let (sql, own) = of_term(&term.condition);
        values.extend(own.into_iter().map(Value::Text));
        match term.is_excluded {
            true => format!("NOT ({sql})"),
            false => format!("({sql})"),
        }
    });
    let conditions: Vec<String> = conditions.collect();
    match conditions.is_empty() {
        true => ("1".to_owned(), values),
        false => (conditions.join(" AND "), values),
    }
}

fn of_term(condition: &Condition) -> (String, Vec<String>) {
    match condition {
        Condition::Text(text) => (
            "id IN (SELECT rowid FROM words WHERE words MATCH ?)".to_owned(),
            // A phrase of FTS5, whose last word may go on.
            vec![format!("\"{}\"*", text.replace('"', " "))],
        ),
        Condition::Contains(field, text) => {
            let contains = |column: &str| format!("instr(lower({column}), lower(?)) > 0");
            (of_field(*field, contains), vec![text.clone()])
        }
        Condition::Is(name, value) => is(name, value),
        Condition::After(moment) => ("started >= ?".to_owned(), vec![moment.clone()]),
        Condition::Before(moment) => (
            "started < ? AND started <> ''".to_owned(),
            vec![moment.clone()],
        ),
    }
}

/// A condition on a field's column.
fn of_field(field: Field, condition: impl Fn(&str) -> String) -> String {
    let name = field.name();
    match field {
        // These have several values, in a table of their own.
        Field::Tag | Field::Measurement => {
            let of_value = condition("name");
            format!("id IN (SELECT run FROM {name} WHERE {of_value})")
        }
        _ => condition(name),
    }
}

/// A name may be a field's and also a factor's: `kernel=rt` finds both.
fn is(name: &str, value: &str) -> (String, Vec<String>) {
    let level = "id IN (SELECT run FROM level WHERE factor = ? AND level = ?)";
    let of_level = [name, value].map(str::to_owned);
    let Some(field) = Field::named(name) else {
        return (level.to_owned(), of_level.to_vec());
    };
    let own = of_field(field, |column| format!("{column} = ?"));
    let values = std::iter::once(value.to_owned()).chain(of_level);
    (format!("{own} OR {level}"), values.collect())
}
