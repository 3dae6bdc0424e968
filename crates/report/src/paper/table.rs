//! The tables of a paper for people: one line a row and environment.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use latlab_model::results::{
    PaperComparison, PaperRow, PaperTable, PaperValue, PaperVerdict, Summary,
};

use crate::style::{Look, WIDTH};
use crate::table::{Align, Table, wrap};
use crate::text::{quantity, ratio, ratio_with_interval};

/// All of a paper: what it is, its tables, and what is not measured.
pub fn render(paper: &PaperComparison, look: Look) -> String {
    let mut out = heading(paper, look);
    for table in &paper.tables {
        out.push_str(&render_table(table, look));
    }
    if !paper.absent.is_empty() {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "\n{}", look.bold("Not measured here"));
    }
    for absent in &paper.absent {
        let line = format!("{} ({}): {}", absent.name, absent.place, absent.reason);
        lines(&mut out, &line, "  ");
    }
    out
}

/// The tables that one run measures, below its own.
pub(crate) fn tables(summary: &Summary, look: Look) -> String {
    let Some(paper) = &summary.paper else {
        return String::new();
    };
    let tables = paper.tables.iter().map(|table| render_table(table, look));
    tables.fold(format!("\n{}", heading(paper, look)), |out, table| {
        out + &table
    })
}

fn heading(paper: &PaperComparison, look: Look) -> String {
    let mut out = String::new();
    for (index, line) in wrap(&paper.title, WIDTH).iter().enumerate() {
        let _ = write!(
            out,
            "{}{}",
            if index > 0 { "\n" } else { "" },
            look.bold(line)
        );
    }
    let _ = writeln!(out, "\n{}, {}", paper.authors, paper.published);
    lines(
        &mut out,
        &format!("published figures: {}", paper.testbed),
        "",
    );
    out
}

fn lines(out: &mut String, text: &str, indent: &str) {
    for line in wrap(text, WIDTH - indent.len()) {
        let _ = writeln!(out, "{indent}{line}");
    }
}

fn render_table(of: &PaperTable, look: Look) -> String {
    let first = of.columns.first().map_or("", String::as_str);
    let to_first = format!("to {first}");
    let mut table = Table::new(&[
        ("", Align::Left),
        ("", Align::Left),
        ("published", Align::Right),
        ("here", Align::Right),
        (&to_first, Align::Right),
        ("here [95 %]", Align::Right),
        ("", Align::Left),
    ]);
    for row in &of.rows {
        for (index, (column, value)) in of.columns.iter().zip(&row.values).enumerate() {
            let name = if index == 0 { row.name.as_str() } else { "" };
            table.row(cells(name, column, row, value), style(value));
        }
    }
    let mut out = format!("\n{} ({})\n", look.bold(&of.title), of.place);
    out.push_str(&table.render(look));
    if let Some(note) = &of.note {
        lines(&mut out, note, "  ");
    }
    out
}

fn cells(name: &str, column: &str, row: &PaperRow, value: &PaperValue) -> Vec<String> {
    let shown = |value: Option<f64>, unit: &str| value.map_or(String::new(), |v| quantity(v, unit));
    let here = value.ratio.map_or(String::new(), |ratio| {
        ratio_with_interval(ratio, value.ratio_ci95)
    });
    vec![
        name.to_owned(),
        column.to_owned(),
        shown(value.published, &row.published_unit),
        shown(value.measured, &row.measured_unit),
        value.published_ratio.map_or_else(|| word_of(value), ratio),
        here,
        said(value),
    ]
}

/// A direction that the paper has no number for.
fn word_of(value: &PaperValue) -> String {
    let direction = value.published_direction;
    direction.map_or(String::new(), |direction| direction.word().to_owned())
}

fn said(value: &PaperValue) -> String {
    let verdict = value.verdict.map_or("", word);
    match &value.reason {
        None => verdict.to_owned(),
        Some(reason) if verdict.is_empty() => reason.clone(),
        Some(reason) => format!("{verdict}: {reason}"),
    }
}

pub(super) fn word(verdict: PaperVerdict) -> &'static str {
    match verdict {
        PaperVerdict::Holds => "holds",
        PaperVerdict::DoesNotHold => "does not hold",
        PaperVerdict::CannotBeTold => "cannot be told",
    }
}

fn style(value: &PaperValue) -> Option<Style> {
    let colour = match value.verdict? {
        PaperVerdict::Holds => AnsiColor::Green,
        PaperVerdict::DoesNotHold => AnsiColor::Red,
        PaperVerdict::CannotBeTold => return Some(Style::new().dimmed()),
    };
    Some(colour.on_default())
}
