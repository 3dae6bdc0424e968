//! The answers to requests. Each reads the index or one run directory, on a thread that may wait for the disk.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use latlab_model::results::{Annotation, Severity};
use latlab_report::quantities::{self, Quantity};
use latlab_report::text::levels;
use latlab_report::{RunDir, html};
use serde::{Deserialize, Serialize};

use super::page;
use super::refusal::Refusal;
use crate::entry::Run;
use crate::index::{
    self, Choices, Comparison, Found, MAX_RUNS, Order, Page, Progress, Scanner, Trend, Wanted,
};
use crate::query;

const MAX_PAGE: u32 = 1_000;
const MAX_NOTE_BYTES: usize = 64 << 10;
const MAX_TAGS: usize = 32;
const MAX_TAG_CHARS: usize = 64;

type Answer<T> = Result<Json<T>, Refusal>;
type Fields<T> = Result<Query<T>, QueryRejection>;

/// Runs `work` where it may block.
async fn blocking<T: Send + 'static>(
    scanner: Arc<Scanner>,
    work: impl FnOnce(&Scanner) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(move || work(&scanner)).await;
    done.map_err(|error| Refusal::failed(&error))?
}

/// As [`blocking`], with what it makes as the answer.
async fn answer<T: Send + 'static>(
    scanner: Arc<Scanner>,
    work: impl FnOnce(&Scanner) -> Result<T, Refusal> + Send + 'static,
) -> Answer<T> {
    blocking(scanner, work).await.map(Json)
}

pub async fn nothing() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "nothing is here").hint("the explorer is at /")
}

/// The page of a run, drawn from its summary. The `report.html` in the directory is not served: it may have come from
/// anywhere, and its script would be this server's own.
pub async fn report(
    State(scanner): State<Arc<Scanner>>,
    Path(path): Path<String>,
) -> Result<Response, Refusal> {
    let page = blocking(scanner, move |scanner| {
        let summary = directory(scanner, &path)?.read_summary();
        let summary = summary.map_err(|error| Refusal::failed(&error))?;
        html::render(&summary).map_err(|error| Refusal::failed(&error))
    });
    Ok(page::html(page.await?))
}

/// A run directory that the index knows: no other path of the machine is opened.
fn directory(scanner: &Scanner, path: &str) -> Result<RunDir, Refusal> {
    index::run(&scanner.connection()?, path)?.ok_or_else(|| Refusal::no_run(path))?;
    let opened = RunDir::open(scanner.root().join(path));
    opened.map_err(|error| Refusal::failed(&error))
}

#[derive(Debug, Deserialize)]
pub struct Search {
    #[serde(default)]
    q: String,
    sort: Option<String>,
    #[serde(default)]
    offset: u32,
    limit: Option<u32>,
}

#[derive(Debug, Serialize)]
pub struct Runs {
    #[serde(flatten)]
    found: Found,
    indexing: Option<Progress>,
    /// Why the directory could not be read again.
    problem: Option<String>,
}

pub async fn runs(State(scanner): State<Arc<Scanner>>, fields: Fields<Search>) -> Answer<Runs> {
    let Query(Search {
        q,
        sort,
        offset,
        limit,
    }) = fields?;
    let terms = query::parse(&q);
    let terms = terms
        .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.message).hint(error.hint))?;
    let sort = sort.unwrap_or_else(|| "-started".to_owned());
    let Some(order) = Order::named(&sort) else {
        let error = format!("runs cannot be sorted by {sort:?}");
        let hint = "sort by started, study, machine, version or cells, with a minus for the opposite order";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, error).hint(hint));
    };
    let limit = limit.unwrap_or(100).min(MAX_PAGE);
    let page = Page { offset, limit };
    answer(scanner, move |scanner| {
        let indexing = scanner.refresh();
        Ok(Runs {
            found: index::search(&scanner.connection()?, &terms, order, page)?,
            indexing,
            problem: scanner.failure(),
        })
    })
    .await
}

#[derive(Debug, Deserialize)]
pub struct One {
    run: String,
}

#[derive(Debug, Serialize)]
pub struct Details {
    run: Run,
    /// False of a run that goes on, or whose summary cannot be read.
    has_report: bool,
    cells: Vec<CellDetails>,
    notes: Vec<Remark>,
}

#[derive(Debug, Serialize)]
pub struct CellDetails {
    id: String,
    /// Its levels; empty without factors.
    label: String,
    measurement: String,
    quantities: Vec<Value>,
}

#[derive(Debug, Serialize)]
pub struct Value {
    quantity: String,
    unit: String,
    higher_is_better: bool,
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    replicates: usize,
}

impl From<Quantity> for Value {
    fn from(of: Quantity) -> Self {
        let (low, high) = of.ci95.unzip();
        Self {
            quantity: of.quantity,
            unit: of.unit,
            higher_is_better: of.higher_is_better,
            value: of.value,
            low,
            high,
            replicates: of.trials,
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Remark {
    severity: Severity,
    text: String,
}

pub async fn run(State(scanner): State<Arc<Scanner>>, fields: Fields<One>) -> Answer<Details> {
    let Query(One { run: path }) = fields?;
    answer(scanner, move |scanner| {
        let found = index::run(&scanner.connection()?, &path)?;
        let run = found.ok_or_else(|| Refusal::no_run(&path))?;
        // The index has all that there is of a run that goes on or cannot be read.
        let summary = directory(scanner, &path)
            .ok()
            .and_then(|dir| dir.read_summary().ok());
        let Some(summary) = summary else {
            return Ok(Details {
                run,
                has_report: false,
                cells: Vec::new(),
                notes: Vec::new(),
            });
        };
        let cells = quantities::of_summary(&summary)
            .into_iter()
            .map(|(cell, found)| CellDetails {
                id: cell.id.clone(),
                label: levels(&summary, cell),
                measurement: cell.measurement.clone(),
                quantities: found.into_iter().map(Value::from).collect(),
            });
        let cells = cells.collect();
        let notes = summary.notes.into_iter().map(|note| Remark {
            severity: note.severity,
            text: note.text,
        });
        Ok(Details {
            run,
            has_report: true,
            cells,
            notes: notes.collect(),
        })
    })
    .await
}

#[derive(Debug, Deserialize)]
pub struct Change {
    #[serde(flatten)]
    to: Written,
    /// The annotation that the writer saw.
    was: Written,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Written {
    note: String,
    tags: Vec<String>,
}

pub async fn annotate(
    State(scanner): State<Arc<Scanner>>,
    fields: Fields<One>,
    change: Result<Json<Change>, JsonRejection>,
) -> Answer<Run> {
    let Query(One { run: path }) = fields?;
    let Json(Change { to, was }) = change?;
    let annotation = valid(to)?;
    answer(scanner, move |scanner| {
        let dir = directory(scanner, &path)?;
        replace(scanner, &dir, &was, &annotation)?;
        scanner.update(&path)?;
        let run = index::run(&scanner.connection()?, &path)?;
        run.ok_or_else(|| Refusal::no_run(&path))
    })
    .await
}

/// Writes an annotation in the place of the one that its writer saw.
fn replace(
    scanner: &Scanner,
    dir: &RunDir,
    was: &Written,
    annotation: &Annotation,
) -> Result<(), Refusal> {
    let _alone = scanner.annotating();
    let found = dir
        .read_annotation()
        .map_err(|error| Refusal::failed(&error))?;
    let found = Written {
        note: found.note,
        tags: found.tags,
    };
    if found != *was {
        let error = "the note or the tags were changed meanwhile";
        return Err(Refusal::new(StatusCode::CONFLICT, error)
            .hint("load them again, and write yours into them"));
    }
    dir.write_annotation(annotation)
        .map_err(|error| Refusal::failed(&error))
}

fn valid(written: Written) -> Result<Annotation, Refusal> {
    let refuse = |error: String| Err(Refusal::new(StatusCode::BAD_REQUEST, error));
    let Written { note, tags } = written;
    if note.len() > MAX_NOTE_BYTES {
        return refuse(format!(
            "a note of {} bytes is too long: {MAX_NOTE_BYTES} are possible",
            note.len()
        ));
    }
    if tags.len() > MAX_TAGS {
        return refuse(format!(
            "{} tags are too many: {MAX_TAGS} are possible",
            tags.len()
        ));
    }
    let is_plain = |tag: &String| {
        let length = tag.chars().count();
        (1..=MAX_TAG_CHARS).contains(&length)
            && !tag.chars().any(|c| c.is_control() || c.is_whitespace())
    };
    if let Some(tag) = tags.iter().find(|tag| !is_plain(tag)) {
        return refuse(format!(
            "{tag:?} is no tag: one word of at most {MAX_TAG_CHARS} characters"
        ));
    }
    Ok(Annotation {
        note,
        tags,
        ..Annotation::default()
    })
}

/// `run=A&run=B`, as many as there are.
pub async fn compare(
    State(scanner): State<Arc<Scanner>>,
    RawQuery(fields): RawQuery,
) -> Answer<Comparison> {
    let fields: Vec<(String, String)> = parse_fields(&fields.unwrap_or_default())?;
    let runs: Vec<String> = fields
        .into_iter()
        .filter(|(name, _)| name == "run")
        .map(|(_, run)| run)
        .collect();
    if !(2..=MAX_RUNS).contains(&runs.len()) {
        let error = format!("{} runs cannot be compared", runs.len());
        return Err(
            Refusal::new(StatusCode::BAD_REQUEST, error).hint(format!("choose 2 to {MAX_RUNS}"))
        );
    }
    answer(scanner, move |scanner| {
        index::compare(&scanner.connection()?, &runs)?.map_err(|path| Refusal::no_run(&path))
    })
    .await
}

fn parse_fields(query: &str) -> Result<Vec<(String, String)>, Refusal> {
    let uri = format!("/?{query}")
        .parse()
        .map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "the query cannot be read"))?;
    let Query(fields) = Query::try_from_uri(&uri)?;
    Ok(fields)
}

#[derive(Debug, Deserialize)]
pub struct OfStudy {
    study: String,
}

pub async fn choices(
    State(scanner): State<Arc<Scanner>>,
    fields: Fields<OfStudy>,
) -> Answer<Choices> {
    let Query(OfStudy { study }) = fields?;
    answer(scanner, move |scanner| {
        Ok(index::choices(&scanner.connection()?, &study)?)
    })
    .await
}

pub async fn trend(State(scanner): State<Arc<Scanner>>, fields: Fields<Wanted>) -> Answer<Trend> {
    let Query(wanted) = fields?;
    answer(scanner, move |scanner| {
        Ok(index::trend(&scanner.connection()?, wanted)?)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_note_is_not_read_while_another_is_written() {
        let name = format!("latlab-explorer-note-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let dir = RunDir::create(root.join("run")).unwrap();
        let scanner = Scanner::new(root.clone(), root.join("index"));
        let by = |note: &str| Annotation {
            note: note.to_owned(),
            ..Annotation::default()
        };
        let seen = Written {
            note: String::new(),
            tags: Vec::new(),
        };
        let alone = scanner.annotating();
        let is_refused = std::thread::scope(|scope| {
            let writer = scope.spawn(|| replace(&scanner, &dir, &seen, &by("mine")).is_err());
            // Time for one that does not wait.
            let begin = Instant::now();
            while !writer.is_finished() && begin.elapsed() < Duration::from_millis(200) {
                std::thread::yield_now();
            }
            dir.write_annotation(&by("theirs")).unwrap();
            drop(alone);
            writer.join().unwrap()
        });
        let found = dir.read_annotation().unwrap().note;
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((is_refused, found.as_str()), (true, "theirs"));
    }
}
