//! `latlab tune apply` and `latlab tune revert`.

use latlab_host::dirs::Dirs;
use latlab_host::tuning::{self, Applied, KnobResult, Problem, Reverted, Root, USER};

use super::args::{Apply, Revert};
use super::choose::{choose, explain_tuning};
use crate::failure::{Failure, Outcome, measured, need_root};
use crate::format::Format;
use crate::{progress, table};

const HEADER: [&str; 4] = ["knob", "wanted", "outcome", "remarks"];

pub fn run(args: &Apply) -> Outcome {
    let root = Root::default();
    let (profile, cores) = choose(&args.choice, &root)?;
    let changes = tuning::plan(&profile, &cores, &root).map_err(explain_tuning)?;
    need_root("tune apply", "it writes to the kernel's files")?;
    let dirs = Dirs::from_env();
    let applied = with_bar(|step| tuning::apply(USER, &changes, &dirs, &root, step))?;
    forgotten(applied.forgotten);
    let out = match args.format {
        Format::Json => format!("{:#}\n", serde_json::json!(applied)),
        Format::Csv => table::csv(&HEADER, &rows(&applied)),
        Format::Table if changes.is_empty() => {
            format!(
                "profile {} wants nothing: nothing was changed\n",
                profile.name
            )
        }
        Format::Table => table::render(&HEADER, &rows(&applied)),
    };
    crate::print::out_if_read(&out)?;
    Ok(measured(applied.is_good()))
}

/// Work on knobs, each of which is shown while it is worked on.
fn with_bar<T>(
    work: impl FnOnce(&mut dyn FnMut(&str, usize, usize)) -> Result<T, tuning::Error>,
) -> Result<T, Failure> {
    let bar = progress::styled(0, "{spinner} {pos}/{len} {msg}");
    let done = work(&mut |knob: &str, at: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(at as u64);
        bar.set_message(knob.to_string());
    });
    bar.finish_and_clear();
    done.map_err(explain_tuning)
}

fn forgotten(count: usize) {
    if count > 0 {
        eprintln!(
            "latlab: {count} values were applied before the last boot; they are gone with that kernel"
        );
    }
}

fn rows(applied: &Applied) -> Vec<Vec<String>> {
    let one = |k: &KnobResult| vec![k.knob.to_string(), k.wanted.clone(), outcome(k), remarks(k)];
    applied.knobs.iter().map(one).collect()
}

fn outcome(k: &KnobResult) -> String {
    if k.absent.is_some() {
        return "absent".into();
    }
    let parts = [
        (k.turned, "changed"),
        (k.already, "already so"),
        (k.fixed.len(), "fixed by the kernel"),
        (k.refused.len(), "refused"),
        (k.strayed.len(), "moved by others"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    parts.join(", ")
}

/// The first reason; `--format json` has all.
fn remarks(k: &KnobResult) -> String {
    let problem = |p: &Problem| format!("{}: {}", p.item, p.reason);
    let first = k.refused.first().or(k.fixed.first());
    let first = first.or(k.strayed.first()).map(problem);
    k.absent.clone().or(first).unwrap_or_default()
}

pub fn revert(args: &Revert) -> Outcome {
    need_root("tune revert", "it writes to the kernel's files")?;
    let (dirs, root) = (Dirs::from_env(), Root::default());
    let reverted = with_bar(|step| tuning::revert(USER, &dirs, &root, step))?;
    forgotten(reverted.forgotten);
    let out = match args.format {
        Format::Json => format!("{:#}\n", serde_json::json!(reverted)),
        Format::Csv => table::csv(&["what", "outcome"], &problems(&reverted)),
        Format::Table => text(&reverted),
    };
    crate::print::out_if_read(&out)?;
    Ok(measured(reverted.is_good()))
}

fn problems(reverted: &Reverted) -> Vec<Vec<String>> {
    let all = reverted.foreign.iter().chain(&reverted.failed);
    let all = all.chain(&reverted.strayed);
    all.map(|p| vec![p.item.clone(), p.reason.clone()])
        .collect()
}

fn text(reverted: &Reverted) -> String {
    let mut out = String::new();
    let problems = [
        ("left alone", &reverted.foreign),
        ("not restored", &reverted.failed),
        ("moved by others", &reverted.strayed),
    ];
    for (what, all) in problems {
        for p in all {
            line!(out, "{what}: {}: {}", p.item, p.reason);
        }
    }
    let Reverted {
        restored,
        nothing_to_do,
        kept,
        ..
    } = reverted;
    match restored + nothing_to_do + kept {
        0 if reverted.is_good() => line!(out, "nothing is applied"),
        _ => {
            line!(
                out,
                "restored {restored}; {nothing_to_do} had the value already, or are gone"
            );
            if *kept > 0 {
                line!(out, "{kept} stay as they are for labs");
            }
        }
    }
    out
}
