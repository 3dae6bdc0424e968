//! The tables of a paper for spreadsheets: one line a row and column.

use latlab_model::results::PaperComparison;

use super::table::word;
use crate::table::csv_row;

/// A line of titles, then one for each figure. Ratios are to the first column of their table.
pub fn csv(paper: &PaperComparison) -> String {
    let titles = [
        "table",
        "place",
        "row",
        "column",
        "published",
        "published_unit",
        "published_ratio",
        "measured",
        "measured_unit",
        "ratio",
        "ratio_low",
        "ratio_high",
        "verdict",
        "reason",
    ];
    let mut out = csv_row(&titles.map(str::to_owned));
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for table in &paper.tables {
        for row in &table.rows {
            for (column, value) in table.columns.iter().zip(&row.values) {
                let interval = value.ratio_ci95;
                let verdict = value.verdict.map(|verdict| word(verdict).to_owned());
                out += &csv_row(&[
                    table.title.clone(),
                    table.place.clone(),
                    row.name.clone(),
                    column.clone(),
                    number(value.published),
                    row.published_unit.clone(),
                    number(value.published_ratio),
                    number(value.measured),
                    row.measured_unit.clone(),
                    number(value.ratio),
                    number(interval.map(|interval| interval.0)),
                    number(interval.map(|interval| interval.1)),
                    verdict.unwrap_or_default(),
                    value.reason.clone().unwrap_or_default(),
                ]);
            }
        }
    }
    out
}
