//! `latlab tune plan`: what would change, why, and at what risk.

use latlab_host::tuning::{self, Change, Root, Target};
use latlab_model::profile::{Cores, Profile};

use super::args::Apply;
use super::choose::{choose, explain_tuning};
use crate::failure::Outcome;
use crate::format::Format;
use crate::table;

pub fn run(args: &Apply) -> Outcome {
    let root = Root::default();
    let (profile, cores) = choose(&args.choice, &root)?;
    let changes = tuning::plan(&profile, &cores, &root).map_err(explain_tuning)?;
    let out = match args.format {
        Format::Json => format!("{:#}\n", json(&profile, &cores, &changes)),
        Format::Csv => table::csv(&HEADER, &rows(&changes)),
        Format::Table => text(&profile, &cores, &changes),
    };
    crate::print::document(&out)
}

const HEADER: [&str; 4] = ["knob", "what", "now", "then"];

/// One row per item that would change.
fn rows(changes: &[Change]) -> Vec<Vec<String>> {
    let one = |change: &Change, target: &Target| {
        let name = change.knob.name.to_string();
        vec![
            name,
            target.item.to_string(),
            target.current.to_string(),
            target.wanted.to_string(),
        ]
    };
    let all = changes
        .iter()
        .flat_map(|c| c.targets.iter().map(move |t| (c, t)));
    all.filter(|(_, w)| !w.holds())
        .map(|(c, w)| one(c, w))
        .collect()
}

fn json(profile: &Profile, cores: &Cores, changes: &[Change]) -> serde_json::Value {
    let one = |change: &Change| {
        serde_json::json!({
            "knob": change.knob.name,
            "about": change.knob.about,
            "evidence": change.knob.evidence,
            "risk": change.knob.risk,
            "wanted": change.wanted,
            "absent": change.absent,
            "changes": change.targets.iter().filter(|w| !w.holds()).collect::<Vec<_>>(),
            "already": change.targets.iter().filter(|w| w.holds()).count(),
        })
    };
    serde_json::json!({
        "profile": profile.name,
        "cores": cores,
        "knobs": changes.iter().map(one).collect::<Vec<_>>(),
        "boot": profile.boot,
    })
}

fn text(profile: &Profile, cores: &Cores, changes: &[Change]) -> String {
    let mut out = String::new();
    line!(out, "profile {}: {}", profile.name, profile.about);
    if cores.isolated.is_empty() {
        line!(out, "no CPUs are isolated");
    } else {
        line!(
            out,
            "CPUs {} are kept quiet, {} do everything else",
            cores.isolated,
            cores.housekeeping
        );
    }
    let (there, absent): (Vec<&Change>, Vec<&Change>) =
        changes.iter().partition(|c| c.absent.is_none());
    let differs = |change: &&&Change| change.targets.iter().any(|w| !w.holds());
    let (change, hold): (Vec<&Change>, Vec<&Change>) = there.iter().partition(|c| differs(c));
    for change in &change {
        line!(out, "\n{}: {}", change.knob.name, change.wanted);
        line!(out, "  what      {}", change.knob.about);
        for line in summary(&change.targets) {
            line!(out, "  change    {line}");
        }
        line!(out, "  evidence  {}", change.knob.evidence);
        line!(out, "  risk      {}", change.knob.risk);
    }
    let names = |all: &[&Change]| {
        all.iter()
            .map(|c| c.knob.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    if !hold.is_empty() {
        line!(out, "\nin force already: {}", names(&hold));
    }
    for change in absent {
        let reason = change.absent.as_deref().unwrap_or_default();
        line!(out, "absent: {}: {reason}", change.knob.name);
    }
    if !profile.boot.is_empty() {
        line!(
            out,
            "at boot: {} parameters (not changed here)",
            profile.boot.len()
        );
    }
    if change.is_empty() {
        line!(out, "nothing would change");
    }
    out
}

/// Items of a knob that are listed one by one.
const MAX_ITEMS: usize = 4;

/// The items that would change.
fn summary(targets: &[Target]) -> Vec<String> {
    let differ: Vec<&Target> = targets.iter().filter(|w| !w.holds()).collect();
    let line = |w: &&Target| format!("{}: {} → {}", w.item, w.current, w.wanted);
    let mut lines: Vec<String> = differ.iter().take(MAX_ITEMS).map(line).collect();
    if differ.len() > MAX_ITEMS {
        lines.push(format!("and {} more", differ.len() - MAX_ITEMS));
    }
    let hold = targets.len() - differ.len();
    if hold > 0 {
        lines.push(format!("{hold} already so"));
    }
    lines
}
