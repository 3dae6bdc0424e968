//! `latlab tune show`: the state of every knob.

use latlab_host::dirs::Dirs;
use latlab_host::tuning::{self, Root, Shown, knobs::Knob};
use latlab_model::profile::{Cores, catalogue};

use super::args::Show;
use super::choose::{explain_tuning, online};
use super::inside::run_inside;
use crate::failure::{Failure, Outcome};
use crate::format::Format;
use crate::table;

pub fn run(args: &Show) -> Outcome {
    let root = Root::default();
    for name in &args.knobs {
        known(name)?;
    }
    if let Some(code) = run_inside(&args.place, "show", &args.knobs, args.format)? {
        return Ok(code);
    }
    let cores = Cores::shared(&online(&root)?);
    let mut shown = tuning::show(&cores, &Dirs::from_env(), &root).map_err(explain_tuning)?;
    if !args.knobs.is_empty() {
        shown.retain(|s| args.knobs.iter().any(|name| name == s.knob));
    }
    let out = match args.format {
        Format::Json => format!("{:#}\n", serde_json::json!(shown)),
        Format::Csv => table::csv(&HEADER, &rows(&shown)),
        Format::Table if args.knobs.is_empty() => overview(&shown),
        Format::Table => shown.iter().map(explain_knob).collect(),
    };
    crate::print::document(&out)
}

fn known(name: &str) -> Result<(), Failure> {
    let names: Vec<&str> = catalogue::KNOBS.iter().map(|(name, _)| *name).collect();
    if names.contains(&name) {
        return Ok(());
    }
    let hint = latlab_model::diagnostic::hint_one_of(name, &names);
    Err(Failure::new(format!("unknown knob `{name}`"), hint))
}

const HEADER: [&str; 4] = ["knob", "in force", "wanted", "drift"];

fn rows(shown: &[Shown]) -> Vec<Vec<String>> {
    let one = |s: &Shown| {
        vec![
            s.knob.to_string(),
            in_force(s),
            wanted(s),
            match s.drift.len() {
                0 => String::new(),
                1 => format!("{} is `{}`", s.drift[0].item, s.drift[0].found),
                more => format!("{more}, see `latlab tune verify`"),
            },
        ]
    };
    shown.iter().map(one).collect()
}

/// A table that fits a terminal: why knobs are absent stands below it.
fn overview(shown: &[Shown]) -> String {
    let mut rows = rows(shown);
    let mut reasons = String::new();
    for (row, one) in rows.iter_mut().zip(shown) {
        if let Some(reason) = &one.absent {
            row[1] = "absent".into();
            line!(reasons, "  {}: {reason}", one.knob);
        }
    }
    let table = table::render(&HEADER, &rows);
    match reasons.is_empty() {
        true => table,
        false => format!("{table}\nabsent here:\n{reasons}"),
    }
}

const MAX_VALUES: usize = 3;

fn in_force(shown: &Shown) -> String {
    if let Some(reason) = &shown.absent {
        return format!("absent: {reason}");
    }
    let all: usize = shown.in_force.iter().map(|(_, count)| count).sum();
    let mut texts: Vec<String> = shown
        .in_force
        .iter()
        .take(MAX_VALUES)
        .map(|(value, count)| match all {
            1 => value.clone(),
            _ => format!("{value} ({count})"),
        })
        .collect();
    if shown.in_force.len() > MAX_VALUES {
        texts.push("…".into());
    }
    texts.join(", ")
}

fn wanted(shown: &Shown) -> String {
    let one =
        |(value, owners): &(String, Vec<String>)| format!("{value} for {}", owners.join(", "));
    let mut texts: Vec<String> = shown.wanted.iter().take(MAX_VALUES).map(one).collect();
    if shown.wanted.len() > MAX_VALUES {
        texts.push("…".into());
    }
    texts.join("; ")
}

fn explain_knob(shown: &Shown) -> String {
    let mut out = String::new();
    line!(out, "{}: {}", shown.knob, shown.about);
    let kind = catalogue::knob(shown.knob).map(|(_, kind)| kind.expected());
    line!(out, "  takes     {}", kind.unwrap_or_default());
    line!(out, "  in force  {}", in_force(shown));
    if !shown.wanted.is_empty() {
        line!(out, "  wanted    {}", wanted(shown));
    }
    for drift in &shown.drift {
        line!(
            out,
            "  drift     {} is `{}`, not `{}`",
            drift.item,
            drift.found,
            drift.wanted
        );
    }
    if let Some(knob) = Knob::named(shown.knob) {
        line!(out, "  evidence  {}", knob.evidence);
        line!(out, "  risk      {}", knob.risk);
    }
    out
}
