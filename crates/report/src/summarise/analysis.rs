//! The analysis of a run: its summary, and the evidence behind it.

use std::collections::BTreeMap;

use latlab_model::paper::{Paper, PaperName};
use latlab_model::results::{
    Cell, Effect, Group, Manifest, Note, SensorSummary, Starts, Summary, Tail, TrialSummary,
};
use latlab_samples::{RunDir, RunDirError};

use super::cells::{self, Evidence};
use super::trials::{self, TrialData};
use super::{actions, effects, groups, notes, scaling, sensors, starts};
use crate::{explain, hlog, paper};

#[derive(Debug, thiserror::Error)]
pub enum SummariseError {
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    #[error(transparent)]
    Hlog(#[from] hlog::HlogError),
}

pub struct Analysis {
    pub summary: Summary,
    /// Evidence for comparisons between runs, by cell.
    pub evidence: BTreeMap<String, Evidence>,
    pub hlog: Vec<u8>,
}

/// Computes everything from the raw files of a run. Fails when the manifest cannot be read. Anything less is a note of
/// the summary.
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
        // Only the conclusions are kept.
        for (_, trial) in &mut data {
            trial.forget_samples();
        }
        trials.extend(data);
    }
    cells::compare(&groups, &mut cells, &evidence);
    scaling::scale(&manifest, &trials::nodes(&trials), &mut cells, &evidence);
    let effects = effects::of(&manifest, &evidence);
    let (explained, unexplained) = explain::explain_readable(run, &manifest);
    let notes = notes::all(&notes::Context {
        manifest: &manifest,
        cells: &cells,
        trials: &trials,
        damage: &damage,
        explained: &explained,
        unexplained: &unexplained,
    });
    let hlog = hlog::log(&manifest.started, histograms);
    let starts = starts::of(&manifest, &trials);
    let sensors = sensors::of(&trials);
    let trials = trials.into_values().map(|trial| trial.summary).collect();
    let tails = explain::tails(&explained);
    let parts = Parts {
        groups,
        cells,
        effects,
        trials,
        tails,
        starts,
        sensors,
        notes,
    };
    let summary = assemble(manifest, parts);
    Ok(Analysis {
        summary,
        evidence,
        hlog,
    })
}

struct Parts {
    groups: Vec<Group>,
    cells: Vec<Cell>,
    effects: Vec<Effect>,
    trials: Vec<TrialSummary>,
    tails: Vec<Tail>,
    starts: Vec<Starts>,
    sensors: Vec<SensorSummary>,
    notes: Vec<Note>,
}

fn assemble(manifest: Manifest, parts: Parts) -> Summary {
    let paper = manifest.paper.as_deref().and_then(PaperName::of_word);
    let mut summary = Summary {
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
        groups: parts.groups,
        actions: actions::of(&parts.cells, &parts.trials),
        cells: parts.cells,
        effects: parts.effects,
        trials: parts.trials,
        tails: parts.tails,
        topologies: manifest.topologies,
        starts: parts.starts,
        sensors: parts.sensors,
        paper: None,
        notes: parts.notes,
    };
    // A paper of another version of latlab stays without its table.
    let paper = paper.and_then(|name| Paper::built_in(name).ok());
    summary.paper = paper.and_then(|paper| paper::of_run(&paper, &summary));
    summary
}
