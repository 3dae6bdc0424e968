//! The tables of a run's trials.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use latlab_model::results::{PlannedTrial, Trace, Trial};
use latlab_samples::table::Stack;
use latlab_samples::{Passage, Place, RunDir, SamplesError, table};

use super::error::ExplainError;
use crate::attribution::{self, Attribution, Capture, Gap, Survey, WORST};

/// Packets held back for sorting. They are written in the order of the first tap's numbers, which is that of
/// time except for packets that came on different CPUs at once.
const REORDER: usize = 1 << 16;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    pub cell: Option<String>,
    pub trial: Option<u32>,
}

pub struct Tables {
    pub trial: Trial,
    pub trace: Trace,
    /// The record without the packets.
    pub capture: Capture,
    /// Sampled stacks, in the order of time.
    pub stacks: Vec<Stack>,
    passages: Place,
}

/// One device's slow packets in one trial.
pub struct HopAttribution {
    pub attribution: Attribution,
    pub survey: Survey,
    /// The packets around the slowest.
    pub(super) around: Vec<Passage>,
}

impl Tables {
    /// Explains the slowest packets of the device at a place along the path.
    pub fn attribute(&self, hop: usize) -> Result<HopAttribution, ExplainError> {
        let mut survey = Survey::new(WORST);
        arrivals(&self.passages, hop, |packet| survey.add(packet))?;
        let node = self.trace.hops.get(hop).map(|hop| hop.device.as_str());
        let mut pick = survey.pick();
        arrivals(&self.passages, hop, |packet| pick.add(packet))?;
        Ok(HopAttribution {
            attribution: attribution::conclude(&self.capture, &survey, &pick, node),
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
        trials: trials(run, &manifest.order)?,
    })
}

/// The trials through taps by their cells.
fn trials(
    run: &RunDir,
    order: &[PlannedTrial],
) -> Result<BTreeMap<String, Vec<u32>>, ExplainError> {
    let mut trials: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for planned in order {
        let has_taps = run
            .read_trial(planned.trial)?
            .is_some_and(|trial| trial.trace.is_some());
        if has_taps {
            let of_cell = trials.entry(planned.cell.clone()).or_default();
            of_cell.push(planned.trial);
        }
    }
    Ok(trials)
}

/// One trial's tables; `None` if it did not run, or without taps.
pub(super) fn tables(run: &RunDir, number: u32) -> Result<Option<Tables>, ExplainError> {
    let Some(trial) = run.read_trial(number)? else {
        return Ok(None);
    };
    let Some(trace) = trial.trace.clone() else {
        return Ok(None);
    };
    Ok(Some(Tables {
        capture: capture(run, number, &trace)?,
        passages: run.inside(number, &trace.passages)?,
        stacks: stacks(run, number, &trace)?,
        trial,
        trace,
    }))
}

fn stacks(run: &RunDir, number: u32, trace: &Trace) -> Result<Vec<Stack>, ExplainError> {
    let Some(name) = &trace.stacks else {
        return Ok(Vec::new());
    };
    let mut all = table::read_stacks(run.inside(number, name)?)?;
    all.sort_by_key(|stack| stack.time_ns);
    Ok(all)
}

fn capture(run: &RunDir, number: u32, trace: &Trace) -> Result<Capture, ExplainError> {
    let mut events = match &trace.events {
        Some(name) => table::read_events(run.inside(number, name)?)?,
        None => Vec::new(),
    };
    // As they were written; a file of others may have them in any order.
    events.sort_by_key(|event| event.time_ns);
    // Without events no CPU was recorded.
    let watched = trace.watched.iter().filter(|_| !events.is_empty());
    Ok(Capture {
        passages: Vec::new(),
        gaps: watched
            .clone()
            .flat_map(|one| Gap::of_cpu(one.cpu, &one.lost, &one.not_kept))
            .collect(),
        watched: watched.map(|one| (one.cpu, one.complete_from_ns)).collect(),
        events,
        held: trace.held.clone(),
        steal_known: trace.steal_known,
        hwlat: trace.hwlat.clone(),
        stalls: trace.stalls.clone(),
        calls: trace.system_calls.clone(),
        unknown: trace.unknown.clone(),
    })
}
