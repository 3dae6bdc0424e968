//! A paper's published figures beside a run's own.

use serde::{Deserialize, Serialize};

use crate::words::vocabulary;

/// A paper and what of it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PaperComparison {
    /// The name that `latlab paper` takes.
    pub name: String,
    pub title: String,
    pub authors: String,
    /// Place and year of publication.
    pub published: String,
    /// The machine that the published figures come from.
    pub testbed: String,
    pub tables: Vec<PaperTable>,
    /// Figures of the paper that are not measured here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<PaperAbsent>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PaperTable {
    pub title: String,
    /// Table, figure or section of the paper.
    pub place: String,
    /// Environments; the others are divided by the first.
    pub columns: Vec<String>,
    pub rows: Vec<PaperRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PaperRow {
    pub name: String,
    pub higher_is_better: bool,
    /// Unit of the published figures; empty where the paper has ratios only.
    pub published_unit: String,
    /// Unit of the measured ones; empty where nothing was measured.
    pub measured_unit: String,
    /// One a column.
    pub values: Vec<PaperValue>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PaperValue {
    /// In the paper's unit, with its standard deviation or half of its range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_spread: Option<f64>,
    /// To the first column; absent in it, and where the paper says only a direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_ratio: Option<f64>,
    /// Absent in the first column, and where the paper says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_direction: Option<Direction>,
    /// The median over trials, and its 95 % interval with three trials or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_ci95: Option<(f64, f64)>,
    /// To the first column; absent in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_ci95: Option<(f64, f64)>,
    /// Absent in the first column, and where the paper has no figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<PaperVerdict>,
    /// Why nothing was measured, or why nothing can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A ratio says one of these: less than 1, the same within a tolerance, or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    Less,
    Same,
    More,
}
vocabulary!(Direction, { "less" => Less, "same" => Same, "more" => More });

/// Whether the direction of a published ratio is found here: more, less, or the same within a tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PaperVerdict {
    Holds,
    DoesNotHold,
    CannotBeTold,
}

/// A figure of the paper that has no counterpart here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaperAbsent {
    pub name: String,
    pub place: String,
    pub reason: String,
}
