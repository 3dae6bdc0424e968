//! How far a campaign is, for people and programs.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::json;

use crate::args::CampaignStatus;
use crate::campaign::progress::{self, Progress};
use crate::campaign::ranges::ranges;
use crate::campaign::record::{CampaignDir, Machines, Record};
use crate::failure::Outcome;
use crate::format::Format;
use crate::table;

pub fn status(args: &CampaignStatus) -> Outcome {
    let campaign = CampaignDir::open(&args.campaign)?;
    let record = campaign.read()?;
    // Over ssh parts are under way as long as a command holds the lock.
    let is_measuring = matches!(record.machines, Machines::Ssh { .. }) && campaign.lock().is_err();
    let progress = progress::read(&campaign, &record)?;
    let rows = rows(&progress, is_measuring);
    match args.format {
        Format::Json => {
            crate::print::out(&(json(&campaign, &record, &progress, is_measuring) + "\n"))?;
        }
        Format::Csv => crate::print::out(&table::csv(&HEADER, &rows))?,
        Format::Table => {
            println!(
                "{}: {} trials in {} parts",
                record.study, record.trials, record.parts
            );
            crate::print::out(&table::render(&HEADER, &rows))?;
            if let Some(next) = next(&campaign, &progress, is_measuring) {
                println!("\n{next}");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

const HEADER: [&str; 3] = ["PARTS", "STATE", "WHICH"];

fn rows(progress: &Progress, is_measuring: bool) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = |count: usize, state: &str, which: String| {
        if count > 0 {
            rows.push(vec![count.to_string(), state.to_owned(), which]);
        }
    };
    let mut machines: BTreeMap<&str, u32> = BTreeMap::new();
    for machine in progress.measured.values() {
        *machines.entry(machine).or_default() += 1;
    }
    let of_machines = machines
        .iter()
        .map(|(machine, count)| format!("{count} by {machine}"));
    row(progress.measured.len(), "measured", listed(of_machines));
    let running = progress.running();
    let on_nodes = running
        .iter()
        .map(|(number, node)| format!("{number} on {node}"));
    row(running.len(), "running", listed(on_nodes));
    let waiting = progress.waiting();
    row(waiting.len(), "waiting", ranges(&waiting));
    let left = progress.left();
    let (stopped, missing): (Vec<u32>, Vec<u32>) = left
        .iter()
        .partition(|number| progress.stopped.contains_key(number));
    let reasons = stopped
        .iter()
        .map(|number| format!("{number} {}", progress.stopped[number]));
    row(stopped.len(), "stopped", listed(reasons));
    let state = if is_measuring { "under way" } else { "missing" };
    row(missing.len(), state, ranges(&missing));
    rows
}

fn listed(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

/// The next command of the user.
fn next(campaign: &CampaignDir, progress: &Progress, is_measuring: bool) -> Option<String> {
    match progress.left().is_empty() {
        _ if progress.is_measured() => Some(format!("`latlab merge {campaign}` joins them")),
        false if !is_measuring => Some(format!(
            "`latlab campaign resume {campaign}` submits what stopped or is missing; {} tells why",
            campaign.logs().display()
        )),
        _ => None,
    }
}

fn json(
    campaign: &CampaignDir,
    record: &Record,
    progress: &Progress,
    is_measuring: bool,
) -> String {
    let value = json!({
        "directory": campaign.root(),
        "study": record.study,
        "parts": record.parts,
        "trials": record.trials,
        "measured": progress.measured,
        "running": progress.running(),
        "waiting": progress.waiting(),
        "stopped": progress.stopped,
        "left": progress.left(),
        "measuring": is_measuring,
    });
    format!("{value:#}")
}
