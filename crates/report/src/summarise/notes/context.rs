//! Input of the notes.

use std::collections::BTreeMap;

use latlab_model::results::{Cell, Manifest, Note, Severity};
use latlab_samples::Damage;

use crate::explain::Explanation;
use crate::summarise::trials::TrialData;
use crate::text;

pub(crate) struct Context<'a> {
    pub manifest: &'a Manifest,
    pub cells: &'a [Cell],
    /// By place in the order of running.
    pub trials: &'a BTreeMap<usize, TrialData>,
    pub damage: &'a [(String, Damage)],
    pub explained: &'a [Explanation],
    /// Trials whose slow packets could not be explained, with the reason.
    pub unexplained: &'a [(u32, String)],
}

pub fn note(severity: Severity, code: &str, text: String, cells: Vec<String>) -> Note {
    Note {
        severity,
        code: code.to_owned(),
        text,
        cells,
    }
}

impl<'a> Context<'a> {
    pub fn trials_where(&self, holds: impl Fn(&TrialData) -> bool) -> Vec<&'a TrialData> {
        self.trials.values().filter(|trial| holds(trial)).collect()
    }

    /// A note on trials and their cells; `None` if there are none.
    pub fn note_on(
        &self,
        trials: &[&TrialData],
        severity: Severity,
        code: &str,
        text: String,
    ) -> Option<Note> {
        (!trials.is_empty()).then(|| note(severity, code, text, self.cells_of(trials)))
    }

    pub fn cells_of(&self, trials: &[&TrialData]) -> Vec<String> {
        self.cells_where(|cell| trials.iter().any(|trial| trial.summary.cell == cell.id))
    }

    pub fn cells_where(&self, holds: impl Fn(&Cell) -> bool) -> Vec<String> {
        self.cells
            .iter()
            .filter(|cell| holds(cell))
            .map(|cell| cell.id.clone())
            .collect()
    }
}

pub fn numbers(trials: &[&TrialData]) -> String {
    let numbers: Vec<String> = trials.iter().map(|t| t.summary.trial.to_string()).collect();
    format!(
        "{} {}",
        if trials.len() == 1 { "trial" } else { "trials" },
        text::some_of(&numbers)
    )
}
