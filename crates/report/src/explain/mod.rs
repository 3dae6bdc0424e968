//! From a run directory to why its slow packets were slow.
//!
//! Reads the tables that taps and flight recorder left, attributes, and shows it: in the terminal, as
//! JSON, as a timeline for Perfetto, as packets for Wireshark. Nothing of the machine is looked at, so
//! the answer is the same everywhere.

mod drawn;
pub mod pcapng;
pub mod perfetto;
pub mod terminal;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hdrhistogram::Histogram;

use latlab_model::results::{Hop, Manifest, Ruler, Trace, Trial};
use latlab_samples::table;
use latlab_samples::{Passage, Place, RunDir, RunDirError, SamplesError};
use serde_json::{Value, json};

use crate::attribution::{
    self, Attribution, Blame, Capture, Device, Explained, Hole, Lane, Survey, WORST, blame,
};
use crate::summarise::sum;

pub use drawn::tails;

/// Packets are written in the order in which the first tap numbered them, which is that of their time
/// but for those that came on different CPUs at once. As many as this are put into order.
const REORDER: usize = 1 << 16;

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
        run: String,
        /// What was asked for.
        which: String,
    },
}

/// What is to be explained.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    pub cell: Option<String>,
    pub trial: Option<u32>,
}

/// The slow packets of one device in one cell, over all its trials.
#[derive(Debug)]
pub struct Explanation {
    pub cell: String,
    /// Which device, and between which taps; its counters are those of all trials.
    pub hop: Hop,
    pub trials: Vec<Part>,
    /// Its slowest packets, explained.
    pub attribution: Attribution,
    /// For each, the trial that it was in.
    pub of_trial: Vec<u32>,
    /// Latencies of all packets, to three digits.
    pub latency: Histogram<u64>,
}

/// What one trial has to say beside its packets.
#[derive(Debug)]
pub struct Part {
    pub trial: u32,
    /// When its first packet came.
    pub began_ns: u64,
    /// What the device was there.
    pub device: Device,
    /// Kernel events that its rings lost.
    pub overwritten: u64,
    /// The taps' own error.
    pub ruler: Option<Ruler>,
    /// What the CPUs did while its slowest packets were under way: from, to, and who.
    pub scenes: Vec<(u64, u64, Vec<Lane>)>,
}

pub struct Tables {
    pub trial: Trial,
    /// What it says of its tables.
    pub trace: Trace,
    /// What was recorded, without the packets.
    pub capture: Capture,
    passages: Place,
}

/// One device's slow packets in one trial.
pub struct Looked {
    pub attribution: Attribution,
    /// What was found at the first look.
    pub survey: Survey,
    /// The packets around the slowest.
    around: Vec<Passage>,
}

impl Tables {
    /// Explains the slowest packets of the device at a place along the way.
    ///
    /// # Errors
    /// When the table of packets cannot be read.
    pub fn look(&self, hop: usize) -> Result<Looked, ExplainError> {
        let mut survey = Survey::new(WORST);
        arrivals(&self.passages, hop, |packet| survey.add(packet))?;
        let mut pick = survey.pick();
        arrivals(&self.passages, hop, |packet| pick.add(packet))?;
        Ok(Looked {
            attribution: attribution::conclude(&self.capture, &survey, &pick),
            survey,
            around: pick.packets,
        })
    }
}

/// Hands over the packets of one device in the order of their arrival.
fn arrivals(table: &Place, hop: usize, mut take: impl FnMut(&Passage)) -> Result<(), SamplesError> {
    let mut waiting: BinaryHeap<Reverse<(u64, u16, u32, usize)>> = BinaryHeap::new();
    let mut places: Vec<Passage> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    table::each_passage(table, |packet| {
        if usize::from(packet.hop) != hop {
            return;
        }
        let place = free.pop().unwrap_or(places.len());
        match places.get_mut(place) {
            Some(slot) => *slot = packet,
            None => places.push(packet),
        }
        waiting.push(Reverse((packet.in_ns, packet.flow, packet.sequence, place)));
        if waiting.len() > REORDER {
            if let Some(Reverse((.., place))) = waiting.pop() {
                take(&places[place]);
                free.push(place);
            }
        }
    })?;
    while let Some(Reverse((.., place))) = waiting.pop() {
        take(&places[place]);
    }
    Ok(())
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
        if let Some(tables) = tables(run, planned.trial)? {
            found = true;
            body(tables)?;
        }
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

/// One trial's tables; `None` where it did not run or not through taps.
fn tables(run: &RunDir, number: u32) -> Result<Option<Tables>, ExplainError> {
    let Some(trial) = run.read_trial(number)? else {
        return Ok(None);
    };
    let Some(trace) = trial.trace.clone() else {
        return Ok(None);
    };
    Ok(Some(Tables {
        capture: capture(run, number, &trace)?,
        passages: run.inside(number, &trace.passages)?,
        trial,
        trace,
    }))
}

fn capture(run: &RunDir, number: u32, trace: &Trace) -> Result<Capture, ExplainError> {
    let events = match &trace.events {
        Some(name) => table::read_events(run.inside(number, name)?)?,
        None => Vec::new(),
    };
    // Where no events are, none were looked for.
    let watched = trace.watched.iter().filter(|_| !events.is_empty());
    Ok(Capture {
        passages: Vec::new(),
        holes: watched
            .clone()
            .flat_map(|one| Hole::of_processor(one.cpu, &one.lost, &one.not_kept))
            .collect(),
        watched: watched.map(|one| (one.cpu, one.complete_from_ns)).collect(),
        events,
        steal_known: trace.steal_known,
        hwlat: trace.hwlat.clone(),
        unknown: trace.unknown.clone(),
    })
}

/// Explains the slow packets of a run, cell by cell and device by device.
///
/// # Errors
/// When the run directory is not whole, or nothing in it went through taps.
pub fn explain(run: &RunDir, choice: &Choice) -> Result<Vec<Explanation>, ExplainError> {
    let mut all: Vec<Explanation> = Vec::new();
    each(run, choice, |tables| join(&tables, &mut all))?;
    all.sort_by(|a, b| a.cell.cmp(&b.cell));
    Ok(all)
}

/// Explains what can be read of a run; and says of which trials it cannot, and why.
#[must_use]
pub fn what_is_whole(run: &RunDir, manifest: &Manifest) -> (Vec<Explanation>, Vec<(u32, String)>) {
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for planned in &manifest.order {
        let joined = match tables(run, planned.trial) {
            Ok(Some(tables)) => join(&tables, &mut all),
            // A record that cannot be read is said where its samples are wanted.
            Ok(None) | Err(ExplainError::RunDir(_)) => Ok(()),
            Err(error) => Err(error),
        };
        failed.extend(joined.err().map(|error| (planned.trial, error.to_string())));
    }
    let place = |one: &Explanation| manifest.cells.iter().position(|cell| cell.id == one.cell);
    all.sort_by_key(place);
    (all, failed)
}

/// Explains a trial and joins it with what was explained before.
fn join(tables: &Tables, all: &mut Vec<Explanation>) -> Result<(), ExplainError> {
    for (place, hop) in tables.trace.hops.iter().enumerate() {
        let one = Explanation::of(tables, hop, tables.look(place)?);
        let same =
            |other: &&mut Explanation| other.cell == one.cell && other.hop.device == hop.device;
        match all.iter_mut().find(same) {
            Some(other) => other.add(one),
            None => all.push(one),
        }
    }
    Ok(())
}

impl Explanation {
    fn of(tables: &Tables, hop: &Hop, looked: Looked) -> Explanation {
        let number = tables.trial.trial;
        let overwritten = tables.trace.watched.iter().map(|cpu| cpu.overwritten);
        let part = Part {
            trial: number,
            began_ns: looked.survey.began_ns,
            device: looked.attribution.device.clone(),
            overwritten: overwritten.sum(),
            ruler: tables.trace.ruler,
            scenes: drawn::scenes(&tables.capture, &looked.attribution, &looked.around),
        };
        Explanation {
            cell: tables.trial.cell.clone(),
            hop: hop.clone(),
            trials: vec![part],
            of_trial: vec![number; looked.attribution.worst.len()],
            attribution: looked.attribution,
            latency: looked.survey.latency,
        }
    }

    /// Joins the packets of another trial, and keeps the slowest of both.
    fn add(&mut self, other: Explanation) {
        self.trials.extend(other.trials);
        // Both resize themselves, so there is nothing that does not fit.
        self.latency.add(&other.latency).ok();
        self.hop.counters = sum([self.hop.counters, other.hop.counters].into_iter());
        self.hop.impossible = self.hop.impossible.saturating_add(other.hop.impossible);
        self.hop.no_room = self.hop.no_room.saturating_add(other.hop.no_room);
        let (mine, theirs) = (&mut self.attribution, other.attribution);
        mine.packets += theirs.packets;
        mine.usual_ns = mine.usual_ns.max(theirs.usual_ns);
        for text in theirs.unknown {
            if !mine.unknown.contains(&text) {
                mine.unknown.push(text);
            }
        }
        let old = std::mem::take(&mut mine.worst);
        let of_old = std::mem::take(&mut self.of_trial);
        let mut both: Vec<(u32, Explained)> = of_old.into_iter().zip(old).collect();
        both.extend(other.of_trial.into_iter().zip(theirs.worst));
        both.sort_by_key(|(trial, one)| {
            let sequence = one.passage.sequence;
            (Reverse(one.latency_ns()), *trial, sequence)
        });
        both.truncate(WORST);
        (self.of_trial, mine.worst) = both.into_iter().unzip();
        mine.threshold_ns = mine.worst.last().map_or(0, Explained::latency_ns);
    }

    /// The blame for every tail that has enough packets.
    #[must_use]
    pub fn blames(&self) -> Vec<Blame> {
        let of = |&quantile: &f64| {
            let mut blame = blame(&self.attribution, quantile)?;
            // The least slow that is explained is slower than the percentile then.
            if blame.explained < blame.beyond {
                blame.latency_ns = self.latency.value_at_quantile(quantile);
            }
            Some(blame)
        };
        QUANTILES.iter().filter_map(of).collect()
    }

    /// The taps' own error: the worst of the trials.
    #[must_use]
    pub fn ruler(&self) -> Option<Ruler> {
        let rulers = self.trials.iter().filter_map(|part| part.ruler);
        rulers.reduce(|a, b| Ruler {
            median_ns: a.median_ns.max(b.median_ns),
            p9999_ns: a.p9999_ns.zip(b.p9999_ns).map(|(a, b)| a.max(b)),
            samples: a.samples.min(b.samples),
            lost: a.lost.max(b.lost),
        })
    }

    /// Everything as JSON, with the `most` slowest packets piece by piece.
    #[must_use]
    pub fn to_json(&self, most: usize) -> Value {
        let packets = self.attribution.worst.iter().zip(&self.of_trial).take(most);
        json!({
            "cell": self.cell,
            "trials": self.trials.iter().map(|part| part.trial).collect::<Vec<_>>(),
            "ruler": self.ruler(),
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
            "remedy": row.remedy.map(|remedy| remedy.words),
            "knobs": row.remedy.map(|remedy| remedy.knobs),
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
    let part = |(cause, ns): &(attribution::Cause, u64)| json!({"cause": cause.to_string(), "kind": cause.kind(), "ns": ns});
    let piece = |piece: &attribution::Piece| {
        json!({
            "after_ns": piece.start_ns - one.passage.in_ns,
            "ns": piece.end_ns - piece.start_ns,
            "cause": piece.cause.to_string(),
            "kind": piece.cause.kind(),
            "cpu": piece.cpu,
            "parts": piece.parts.iter().map(part).collect::<Vec<_>>(),
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
