//! Deploys every part of a lab at once: all or none.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use latlab_host::dirs::Dirs;
use latlab_model::spec::Lab;
use latlab_model::state::NodeRow;

use super::connected::{Connected, Refused};
use super::destroy::destroy;
use super::inspect::{labs_in, of_host};
use super::record::{Host, Record};
use super::remote::{Answer, printed};
use crate::args::Deploy;
use crate::failure::{Failure, INTERRUPTED, NOT_UNDONE, Outcome};
use crate::files::Source;
use crate::{inspect, print, progress, signals};

pub fn run(args: &Deploy, source: &Source, lab: &Lab) -> Outcome {
    let record = Record::of(lab);
    if args.keep && !args.dry_run {
        let hint = "without it a lab on hosts is all or nothing";
        return Err(Failure::new("--keep is for labs on one machine", hint));
    }
    let dirs = Dirs::from_env();
    let stop = signals::stop_flag()?;
    if !args.dry_run {
        record.must_be_new(&dirs)?;
    }
    let connected = Connected::open(lab, source.text.len(), !args.dry_run, None);
    let connected = connected.map_err(|refused| match refused {
        Refused::Mistakes(all) => source.mistakes(all),
        Refused::Failure(failure) => failure,
    })?;
    if args.dry_run {
        let mut verb = verb(!args.no_isolation);
        verb.push("--dry-run");
        let (record, answers) = connected.tell(&verb, &source.text, &stop, &|_, _| ());
        return show(&record, &answers);
    }
    let bar = progress::bar(record.hosts.len(), "hosts");
    let on_answer = |host: &Host, answer: &Answer| {
        bar.set_message(format!("{}: {}", host.name, outcome(answer)));
        bar.inc(1);
    };
    let isolation = !args.no_isolation;
    let deployed = deploy(&dirs, connected, &source.text, isolation, &stop, &on_answer);
    bar.finish_and_clear();
    inspect::print(&deployed?.1, args.format)?;
    Ok(ExitCode::SUCCESS)
}

/// Deploys all parts, or leaves nothing. The record of the hosts is written before the first is told.
pub(super) fn deploy(
    dirs: &Dirs,
    connected: Connected,
    text: &str,
    isolation: bool,
    stop: &AtomicBool,
    on_answer: &(dyn Fn(&Host, &Answer) + Sync),
) -> Result<(Record, Vec<NodeRow>), Failure> {
    connected.record.create(dirs)?;
    let (record, answers) = connected.tell(&verb(isolation), text, stop, on_answer);
    match rows(&record, &answers) {
        Ok(rows) if !stop.load(Ordering::Relaxed) => Ok((record, rows)),
        rows => {
            let reasons = rows.err().unwrap_or_else(|| "interrupted".into());
            let (is_undone, hint) = undo(dirs, record, &answers)?;
            let code = match is_undone {
                true => stop.load(Ordering::Relaxed).then_some(INTERRUPTED),
                false => Some(NOT_UNDONE),
            };
            Err(Failure::new(reasons, hint).with_code(code))
        }
    }
}

/// The words of latlab on a host.
fn verb(isolation: bool) -> Vec<&'static str> {
    let mut words = vec!["deploy", "-", "--format", "json"];
    words.extend((!isolation).then_some("--no-isolation"));
    words
}

fn outcome(answer: &Answer) -> String {
    match answer.is_good() {
        true => "up".into(),
        false => answer.reason(),
    }
}

/// The rows of all hosts. Errors: the reasons of those that failed.
fn rows(record: &Record, answers: &[Answer]) -> Result<Vec<NodeRow>, String> {
    let mut all = Vec::new();
    let mut reasons = Vec::new();
    for (host, answer) in record.hosts.iter().zip(answers) {
        match labs_in(&answer.output) {
            Ok(labs) if answer.is_good() => {
                let rows = labs.into_values().flatten().collect();
                all.extend(of_host(rows, host));
            }
            _ => reasons.push(format!("host `{}`: {}", host.name, answer.reason())),
        }
    }
    match reasons.is_empty() {
        true => Ok(all),
        false => Err(reasons.join("; ")),
    }
}

/// Removes what hosts have, and says whether nothing is left and in a hint what to do. A host that failed in order has undone
/// its part, or never began it, as one that has another's lab of that name; of the others nothing is known.
fn undo(dirs: &Dirs, record: Record, answers: &[Answer]) -> Result<(bool, String), Failure> {
    let lab = record.lab.clone();
    let mut hints = answers.iter().filter_map(Answer::hint);
    // A part cannot be kept without the others.
    let hint = hints.find(|hint| !hint.contains("--keep"));
    let mut answers = answers.iter();
    let record = record.retain(|_| !answers.next().is_some_and(Answer::is_undone));
    let left = destroy(dirs, record)?;
    let mut hints: Vec<String> = hint.map(ToString::to_string).into_iter().collect();
    hints.push(match left.is_empty() {
        true => "nothing is left of the lab on any host".into(),
        false => {
            let hosts: Vec<&str> = left.iter().map(|(host, _)| host.as_str()).collect();
            let hosts = hosts.join(", ");
            format!("`latlab destroy {lab}` removes what is still on {hosts} when that is mended")
        }
    });
    Ok((left.is_empty(), hints.join("; ")))
}

/// Prints the plan of each host.
fn show(record: &Record, answers: &[Answer]) -> Outcome {
    let plans = printed::<serde_json::Value>(record, answers);
    let plans = plans.map_err(|(message, hint)| Failure::new(message, hint))?;
    print::document(&format!("{:#}\n", serde_json::json!(plans)))
}
