//! From a run directory to why its slow packets were slow.
//!
//! Reads the tables that taps and flight recorder left, attributes, and shows it: in the terminal, as
//! JSON, as a timeline for Perfetto, as packets for Wireshark. Nothing of the machine is looked at, so
//! the answer is the same everywhere.

pub mod pcapng;
pub mod perfetto;
pub mod terminal;

use latlab_model::results::{Hop, Trace, Trial};
use latlab_samples::table;
use latlab_samples::{RunDir, RunDirError, SamplesError};
use serde_json::{Value, json};

use crate::attribution::{
    self, Attribution, Blame, Capture, Device, Explained, WORST, attribute, blame,
};

/// The tails that are asked about; 0 is everything that was explained.
pub const QUANTILES: [f64; 4] = [0.99, 0.999, 0.9999, 0.0];

/// Why a run could not be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The run directory is not whole.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// A table cannot be read.
    #[error(transparent)]
    Samples(#[from] SamplesError),
    /// There is nothing to explain.
    #[error("{run} has no trial through taps{which}")]
    Nothing {
        /// The run.
        run: String,
        /// What was asked for.
        which: String,
    },
}

/// What is to be explained.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// Only this cell.
    pub cell: Option<String>,
    /// Only this trial.
    pub trial: Option<u32>,
}

/// The slow packets of one device in one cell, over all its trials.
#[derive(Debug)]
pub struct Explanation {
    /// The cell.
    pub cell: String,
    /// Which device, and between which taps.
    pub hop: Hop,
    /// The trials.
    pub trials: Vec<u32>,
    /// Its slowest packets, explained.
    pub attribution: Attribution,
    /// For each, the trial that it was in.
    pub of_trial: Vec<u32>,
}

/// One trial's tables.
pub struct Tables {
    /// The trial.
    pub trial: Trial,
    /// What it says of its tables.
    pub trace: Trace,
    /// For each device on the way, what was recorded.
    pub captures: Vec<Capture>,
}

/// Reads the tables of every chosen trial, one trial after the other.
///
/// # Errors
/// When the run directory is not whole.
pub fn each(
    run: &RunDir,
    choice: &Choice,
    mut body: impl FnMut(Tables) -> Result<(), ExplainError>,
) -> Result<(), ExplainError> {
    let manifest = run.read_manifest()?;
    let mut found = false;
    for planned in &manifest.order {
        let is_chosen = choice.trial.is_none_or(|trial| trial == planned.trial)
            && choice
                .cell
                .as_ref()
                .is_none_or(|cell| *cell == planned.cell);
        if !is_chosen {
            continue;
        }
        let Some(trial) = run.read_trial(planned.trial)? else {
            continue;
        };
        let Some(trace) = trial.trace.clone() else {
            continue;
        };
        found = true;
        let captures = captures(run, trial.trial, &trace)?;
        body(Tables {
            trial,
            trace,
            captures,
        })?;
    }
    if found {
        return Ok(());
    }
    let cell = choice.cell.as_ref().map(|cell| format!(" of cell {cell}"));
    let trial = choice.trial.map(|trial| format!(" numbered {trial}"));
    Err(ExplainError::Nothing {
        run: run.root().display().to_string(),
        which: cell.or(trial).unwrap_or_default(),
    })
}

fn captures(run: &RunDir, number: u32, trace: &Trace) -> Result<Vec<Capture>, ExplainError> {
    let passages = table::read_passages(&run.inside(number, &trace.passages)?)?;
    let events = match &trace.events {
        Some(name) => table::read_events(&run.inside(number, name)?)?,
        None => Vec::new(),
    };
    let of_hop = |hop: usize| Capture {
        passages: passages
            .iter()
            .filter(|passage| usize::from(passage.hop) == hop)
            .copied()
            .collect(),
        events: events.clone(),
        // Where no events are, none were looked for.
        watched: trace
            .watched
            .iter()
            .filter(|_| !events.is_empty())
            .map(|one| (one.cpu, one.complete_from_ns))
            .collect(),
        steal_known: trace.steal_known,
        unknown: trace.unknown.clone(),
    };
    Ok((0..trace.hops.len()).map(of_hop).collect())
}

/// Explains the slow packets of a run, cell by cell and device by device.
///
/// # Errors
/// When the run directory is not whole, or nothing in it went through taps.
pub fn explain(run: &RunDir, choice: &Choice) -> Result<Vec<Explanation>, ExplainError> {
    let mut all: Vec<Explanation> = Vec::new();
    each(run, choice, |tables| {
        for (hop, capture) in tables.trace.hops.iter().zip(&tables.captures) {
            let attribution = attribute(capture, WORST);
            let number = tables.trial.trial;
            let same = |one: &&mut Explanation| {
                one.cell == tables.trial.cell && one.hop.device == hop.device
            };
            match all.iter_mut().find(same) {
                Some(one) => one.add(number, attribution),
                None => all.push(Explanation {
                    cell: tables.trial.cell.clone(),
                    hop: hop.clone(),
                    trials: vec![number],
                    of_trial: vec![number; attribution.worst.len()],
                    attribution,
                }),
            }
        }
        Ok(())
    })?;
    all.sort_by(|a, b| a.cell.cmp(&b.cell));
    Ok(all)
}

impl Explanation {
    /// Joins the packets of another trial, and keeps the slowest of both.
    fn add(&mut self, trial: u32, other: Attribution) {
        self.trials.push(trial);
        let mine = &mut self.attribution;
        mine.packets += other.packets;
        mine.usual_ns = mine.usual_ns.max(other.usual_ns);
        for text in other.unknown {
            if !mine.unknown.contains(&text) {
                mine.unknown.push(text);
            }
        }
        let old = std::mem::take(&mut mine.worst);
        let of_old = std::mem::take(&mut self.of_trial);
        let mut both: Vec<(u32, Explained)> = of_old.into_iter().zip(old).collect();
        both.extend(other.worst.into_iter().map(|one| (trial, one)));
        both.sort_by_key(|(trial, one)| {
            (
                std::cmp::Reverse(one.latency_ns()),
                *trial,
                one.passage.sequence,
            )
        });
        both.truncate(WORST);
        (self.of_trial, mine.worst) = both.into_iter().unzip();
        mine.threshold_ns = mine.worst.last().map_or(0, Explained::latency_ns);
    }

    /// The blame for every tail that has enough packets.
    #[must_use]
    pub fn blames(&self) -> Vec<Blame> {
        let of = |&quantile: &f64| blame(&self.attribution, quantile);
        QUANTILES.iter().filter_map(of).collect()
    }

    /// Everything as JSON, with the `most` slowest packets piece by piece.
    #[must_use]
    pub fn to_json(&self, most: usize) -> Value {
        let packets = self.attribution.worst.iter().zip(&self.of_trial).take(most);
        json!({
            "cell": self.cell,
            "trials": self.trials,
            "device": device(&self.attribution.device),
            "hop": self.hop,
            "packets": self.attribution.packets,
            "explained": self.attribution.worst.len(),
            "threshold_ns": self.attribution.threshold_ns,
            "usual_work_ns": self.attribution.usual_ns,
            "not_known": self.attribution.unknown,
            "blame": self.blames().iter().map(blame_json).collect::<Vec<_>>(),
            "worst": packets.map(|(one, trial)| packet_json(one, *trial)).collect::<Vec<_>>(),
        })
    }
}

fn device(device: &Device) -> Value {
    match device {
        Device::Task { pid, name } => json!({"task": name, "pid": pid}),
        Device::Kernel => json!("kernel"),
    }
}

fn blame_json(blame: &Blame) -> Value {
    let row = |row: &attribution::BlameRow| {
        json!({
            "cause": row.cause.to_string(),
            "kind": row.cause.kind(),
            "share": row.share,
            "time_ns": row.time_ns,
            "first_of": row.first_of,
            "knob": row.knob,
        })
    };
    json!({
        "quantile": blame.quantile,
        "latency_ns": blame.latency_ns,
        "beyond": blame.beyond,
        "explained": blame.explained,
        "unexplained_share": blame.unexplained(),
        "causes": blame.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn packet_json(one: &Explained, trial: u32) -> Value {
    let piece = |piece: &attribution::Piece| {
        json!({
            "after_ns": piece.start_ns - one.passage.in_ns,
            "ns": piece.end_ns - piece.start_ns,
            "cause": piece.cause.to_string(),
            "kind": piece.cause.kind(),
        })
    };
    json!({
        "trial": trial,
        "flow": one.passage.flow,
        "seq": one.passage.sequence,
        "in_ns": one.passage.in_ns,
        "latency_ns": one.latency_ns(),
        "first": one.first.to_string(),
        "kind": one.first.kind(),
        "first_ns": one.first_ns,
        "queued_behind": one.behind.as_ref().map(ToString::to_string),
        "episode": one.episode.as_ref().map(|e| json!({
            "begin_ns": e.start_ns,
            "end_ns": e.end_ns,
            "active_ns": e.active_ns,
        })),
        "pieces": one.pieces.iter().map(piece).collect::<Vec<_>>(),
    })
}
