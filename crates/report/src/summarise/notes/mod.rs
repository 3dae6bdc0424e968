//! The honesty box: what a reader must know before trusting a number. One note a kind, with the
//! cells it concerns; the most serious first.
//!
//! Nothing here removes or corrects a number. A measurement made on an overloaded machine is still
//! what was measured; it is for the reader to see it said beside the number.

mod clock;
mod machine;
mod packets;
mod run;
mod samples;
mod tails;

use std::collections::BTreeMap;

use latlab_model::results::{Cell, Manifest, Note, Severity};
use latlab_samples::Damage;

use super::trials::TrialData;
use crate::explain::Explanation;
use crate::text;

/// What notes are made of.
pub(super) struct Context<'a> {
    pub manifest: &'a Manifest,
    pub cells: &'a [Cell],
    /// By place in the order of running.
    pub trials: &'a BTreeMap<usize, TrialData>,
    pub damage: &'a [(String, Damage)],
    pub explained: &'a [Explanation],
    /// Trials whose slow packets could not be explained, and why.
    pub unexplained: &'a [(u32, String)],
}

/// All notes, the most serious first.
pub(super) fn all(context: &Context<'_>) -> Vec<Note> {
    let kinds: [fn(&Context<'_>) -> Option<Note>; 28] = [
        run::state,
        run::damaged,
        run::unreadable,
        run::failed,
        clock::wrapped,
        clock::negative,
        clock::identical,
        clock::clock,
        machine::emulated,
        machine::not_kvm,
        machine::overloaded,
        machine::invaded,
        machine::unstable,
        machine::floor,
        machine::steal_aside,
        machine::hwlat,
        packets::miscounted,
        packets::lost,
        packets::corrupted,
        packets::duplicated,
        packets::reordered,
        tails::unreadable,
        tails::impossible,
        tails::no_room,
        tails::unknown,
        samples::few_replicates,
        samples::few_samples,
        run::unknown_cells,
    ];
    let mut notes: Vec<Note> = kinds.iter().filter_map(|kind| kind(context)).collect();
    notes.sort_by_key(|note| note.severity);
    notes
}

fn note(severity: Severity, code: &str, text: String, cells: Vec<String>) -> Note {
    Note {
        severity,
        code: code.to_owned(),
        text,
        cells,
    }
}

impl<'a> Context<'a> {
    fn trials_where(&self, holds: impl Fn(&TrialData) -> bool) -> Vec<&'a TrialData> {
        self.trials.values().filter(|trial| holds(trial)).collect()
    }

    /// Identifiers of the cells of some trials, in the manifest's order.
    fn cells_of(&self, trials: &[&TrialData]) -> Vec<String> {
        self.cells_where(|cell| trials.iter().any(|trial| trial.summary.cell == cell.id))
    }

    fn cells_where(&self, holds: impl Fn(&Cell) -> bool) -> Vec<String> {
        self.cells
            .iter()
            .filter(|cell| holds(cell))
            .map(|cell| cell.id.clone())
            .collect()
    }
}

fn numbers(trials: &[&TrialData]) -> String {
    let numbers: Vec<String> = trials.iter().map(|t| t.summary.trial.to_string()).collect();
    format!(
        "{} {}",
        if trials.len() == 1 { "trial" } else { "trials" },
        text::some_of(&numbers)
    )
}
