//! Explains the slow packets of a run.

use latlab_model::results::Manifest;
use latlab_samples::RunDir;

use super::error::ExplainError;
use super::explanation::Explanation;
use super::tables::{Choice, Tables, each, tables};

/// Explains the slow packets of a run, cell by cell and device by device. Fails when the run directory is not whole,
/// or nothing in it went through taps.
pub fn explain(run: &RunDir, choice: &Choice) -> Result<Vec<Explanation>, ExplainError> {
    let mut all: Vec<Explanation> = Vec::new();
    each(run, choice, |tables| join(&tables, &mut all))?;
    in_order(&mut all, &run.read_manifest()?);
    Ok(all)
}

/// In the order of the study, as in its table.
fn in_order(all: &mut [Explanation], manifest: &Manifest) {
    let place = |one: &Explanation| manifest.cells.iter().position(|cell| cell.id == one.cell);
    all.sort_by_key(place);
}

/// Explains all readable trials of a run; the others are returned with the reason.
#[must_use]
pub fn explain_readable(
    run: &RunDir,
    manifest: &Manifest,
) -> (Vec<Explanation>, Vec<(u32, String)>) {
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for planned in &manifest.order {
        let joined = match tables(run, planned.trial) {
            Ok(Some(tables)) => join(&tables, &mut all),
            // An unreadable record is reported where its samples are needed.
            Ok(None) | Err(ExplainError::RunDir(_)) => Ok(()),
            Err(error) => Err(error),
        };
        failed.extend(joined.err().map(|error| (planned.trial, error.to_string())));
    }
    in_order(&mut all, manifest);
    (all, failed)
}

/// Explains a trial and joins it with the explanations of earlier trials.
fn join(tables: &Tables, all: &mut Vec<Explanation>) -> Result<(), ExplainError> {
    for (place, hop) in tables.trace.hops.iter().enumerate() {
        let one = Explanation::of(tables, place, tables.attribute(place)?);
        let same =
            |other: &&mut Explanation| other.cell == one.cell && other.hop.device == hop.device;
        match all.iter_mut().find(same) {
            Some(other) => other.add(one),
            None => all.push(one),
        }
    }
    Ok(())
}
