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
    pub by: Column,
    pub is_descending: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Started,
    Study,
    Machine,
    Version,
    Cells,
}

impl Order {
    /// `started`, or `-started` for the newest first.
    pub fn named(text: &str) -> Option<Self> {
        let (is_descending, name) = match text.strip_prefix('-') {
            Some(name) => (true, name),
            None => (false, text),
        };
        let by = match name {
            "started" => Column::Started,
            "study" => Column::Study,
            "machine" => Column::Machine,
            "version" => Column::Version,
            "cells" => Column::Cells,
            _ => return None,
        };
        Some(Self { by, is_descending })
    }

    fn sql(self) -> String {
        let column = match self.by {
            Column::Started => "started",
            Column::Study => "study",
            Column::Machine => "machine",
            Column::Version => "version",
            Column::Cells => "cells",
        };
        let direction = if self.is_descending { "DESC" } else { "ASC" };
        format!("{column} {direction}, started DESC, path ASC")
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
        Condition::Contains(field, text) => (contains(*field), vec![text.clone()]),
        Condition::Is(name, value) => is(name, value),
        Condition::After(moment) => ("started >= ?".to_owned(), vec![moment.clone()]),
        Condition::Before(moment) => (
            "started < ? AND started <> ''".to_owned(),
            vec![moment.clone()],
        ),
    }
}

fn contains(field: Field) -> String {
    let within = |column: &str| format!("instr(lower({column}), lower(?)) > 0");
    match place(field) {
        Place::Column(column) => within(column),
        Place::Table(table) => format!("id IN (SELECT run FROM {table} WHERE {})", within("name")),
    }
}

/// A name may be a field's and also a factor's: `kernel=rt` finds both.
fn is(name: &str, value: &str) -> (String, Vec<String>) {
    let level = "id IN (SELECT run FROM level WHERE factor = ? AND level = ?)";
    let of_level = [name, value].map(str::to_owned);
    let Some(field) = Field::named(name) else {
        return (level.to_owned(), of_level.to_vec());
    };
    let own = match place(field) {
        Place::Column(column) => format!("{column} = ?"),
        Place::Table(table) => format!("id IN (SELECT run FROM {table} WHERE name = ?)"),
    };
    let values = std::iter::once(value.to_owned()).chain(of_level);
    (format!("{own} OR {level}"), values.collect())
}

enum Place {
    /// A column of `run`.
    Column(&'static str),
    /// The table of a field with several values.
    Table(&'static str),
}

fn place(field: Field) -> Place {
    match field {
        Field::Study => Place::Column("study"),
        Field::Machine => Place::Column("machine"),
        Field::Version => Place::Column("version"),
        Field::Kernel => Place::Column("kernel"),
        Field::State => Place::Column("state"),
        Field::Path => Place::Column("path"),
        Field::Tag => Place::Table("tag"),
        Field::Measurement => Place::Table("measurement"),
    }
}
