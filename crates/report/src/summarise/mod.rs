//! From a run directory to its summary.
//!
//! The summary is a function of the manifest, the trials' records and their samples, and of nothing
//! else: no clock is read, no name of this machine, no earlier summary. So `latlab report RUN`, here
//! or on another machine, writes the same bytes again, and a number that looks wrong can be followed
//! back to the packets behind it.
//!
//! Memory: one cell is worked on at a time, and its samples are held as sorted 64-bit numbers, so
//! ten million samples in a cell cost 80 MB, and further cells nothing more. Slow packets are found by
//! two looks at the packets' table, a row group at a time ([`crate::attribution::Survey`]).
//!
//! A run that was cut short, or damaged since, is summarised as far as it goes. What is missing
//! becomes a note, not an error: only an unreadable manifest leaves nothing to say.

mod cells;
mod groups;
mod notes;
mod trials;

use std::collections::BTreeMap;

use latlab_model::results::{Manifest, Summary};
use latlab_samples::{RunDir, RunDirError};

use crate::{explain, hlog};
pub use cells::Evidence;
pub(crate) use cells::{Pair, sum};
pub(crate) use trials::TrialData;

/// Why there is no summary at all.
#[derive(Debug, thiserror::Error)]
pub enum SummariseError {
    /// The run directory or its manifest cannot be read.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// Histograms cannot be written.
    #[error(transparent)]
    Hlog(#[from] hlog::HlogError),
}

/// All that follows from a run.
pub struct Analysis {
    pub summary: Summary,
    /// What comparisons between runs need beyond it, by cell.
    pub evidence: BTreeMap<String, Evidence>,
    /// Contents of `latency.hlog`.
    pub hlog: Vec<u8>,
}

/// Computes everything from the raw files of a run.
///
/// # Errors
/// When the manifest cannot be read. Anything less is a note of the summary.
pub fn analyse(run: &RunDir) -> Result<Analysis, SummariseError> {
    let manifest = run.read_manifest()?;
    let damage = run.verify(&manifest.checksums);
    let groups = groups::form(&manifest);

    let mut cells = Vec::new();
    let mut evidence = BTreeMap::new();
    let mut trials: BTreeMap<usize, TrialData> = BTreeMap::new();
    let mut histograms = Vec::new();
    let spread = |measurement: &str| trials::ruler_spread(run, &manifest, measurement);
    let names = manifest.measurements.iter().map(|m| m.name.as_str());
    let rulers: BTreeMap<&str, f64> = names.map(|name| (name, spread(name))).collect();
    for plan in &manifest.cells {
        let mut data = trials::of_cell(run, &manifest, plan);
        let ruler = rulers.get(plan.measurement.as_str()).copied();
        let ruler = ruler.unwrap_or(0.0);
        let (cell, found) = cells::summarise(&manifest, plan, &data, &groups, ruler);
        for (_, trial) in &data {
            histograms.extend(hlog::line(&manifest.started, trial)?);
        }
        if let Some(found) = found {
            evidence.insert(plan.id.clone(), found);
        }
        cells.push(cell);
        // The samples have done their work; only what was concluded from them is kept.
        for (_, trial) in &mut data {
            trial.forget_samples();
        }
        trials.extend(data);
    }
    cells::compare(&groups, &mut cells, &evidence);
    let (explained, unexplained) = explain::what_is_whole(run, &manifest);
    let notes = notes::all(&notes::Context {
        manifest: &manifest,
        cells: &cells,
        trials: &trials,
        damage: &damage,
        explained: &explained,
        unexplained: &unexplained,
    });
    let hlog = hlog::log(&manifest.started, histograms);
    let trials = trials.into_values().map(|trial| trial.summary).collect();
    let tails = explain::tails(&explained);
    let summary = assemble(manifest, groups, cells, trials, tails, notes);
    Ok(Analysis {
        summary,
        evidence,
        hlog,
    })
}

fn assemble(
    manifest: Manifest,
    groups: Vec<latlab_model::results::Group>,
    cells: Vec<latlab_model::results::Cell>,
    trials: Vec<latlab_model::results::TrialSummary>,
    tails: Vec<latlab_model::results::Tail>,
    notes: Vec<latlab_model::results::Note>,
) -> Summary {
    Summary {
        format: Summary::FORMAT.to_owned(),
        id: manifest.id,
        study: manifest.study,
        description: manifest.description,
        state: manifest.state,
        started: manifest.started,
        finished: manifest.finished,
        seed: manifest.seed,
        replicates: manifest.replicates,
        host: manifest.host,
        versions: manifest.versions,
        factors: manifest.factors,
        measurements: manifest.measurements,
        baseline: manifest.baseline,
        groups,
        cells,
        trials,
        tails,
        topologies: manifest.topologies,
        notes,
    }
}
