//! Notes on gaps in the explanation of slow packets.

use latlab_model::results::{Note, Severity};

use super::context::{Context, note};
use crate::explain::Explanation;
use crate::text::{count, some_of};

pub(super) fn unreadable(context: &Context<'_>) -> Option<Note> {
    let (_, why) = context.unexplained.first()?;
    let numbers: Vec<u32> = context
        .unexplained
        .iter()
        .map(|(trial, _)| *trial)
        .collect();
    let trials = context.trials_where(|t| numbers.contains(&t.summary.trial));
    let names: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let text = format!(
        "Slow packets of trial {} are not explained, nor are they among those shown: {why}",
        some_of(&names)
    );
    let cells = context.cells_of(&trials);
    Some(note(Severity::Serious, "not-explained", text, cells))
}

fn counted(context: &Context<'_>, counter: fn(&Explanation) -> u64) -> Option<(u64, Vec<String>)> {
    let with: Vec<&Explanation> = context
        .explained
        .iter()
        .filter(|one| counter(one) > 0)
        .collect();
    let mut cells: Vec<String> = with.iter().map(|one| one.cell.clone()).collect();
    cells.dedup();
    let total = with.iter().map(|one| counter(one)).sum();
    (!with.is_empty()).then_some((total, cells))
}

pub(super) fn impossible(context: &Context<'_>) -> Option<Note> {
    let (number, cells) = counted(context, |one| one.hop.impossible)?;
    let text = format!(
        "{} packets were between their taps for less than nothing, or for 2^32 ns (4.29 s) or more, as \
         if a clock had wrapped: they are counted as lost and have no latency.",
        count(number)
    );
    Some(note(Severity::Serious, "impossible", text, cells))
}

pub(super) fn no_room(context: &Context<'_>) -> Option<Note> {
    let (number, cells) = counted(context, |one| one.hop.no_room)?;
    let text = format!(
        "{} packets found no room in a tap's memory: they are missing from the latencies.",
        count(number)
    );
    Some(note(Severity::Serious, "no-room", text, cells))
}

/// All other gaps that the record names itself.
pub(super) fn unknown(context: &Context<'_>) -> Option<Note> {
    let mut all: Vec<&String> = Vec::new();
    let mut cells: Vec<String> = Vec::new();
    for one in context.explained {
        for text in &one.attribution.unknown {
            if !all.contains(&text) {
                all.push(text);
            }
        }
        if !one.attribution.unknown.is_empty() && !cells.contains(&one.cell) {
            cells.push(one.cell.clone());
        }
    }
    if all.is_empty() {
        return None;
    }
    let texts: Vec<&str> = all.iter().map(|text| text.as_str()).collect();
    let text = format!("Not known of the slow packets: {}.", texts.join("; "));
    Some(note(Severity::Caution, "unknown-causes", text, cells))
}
