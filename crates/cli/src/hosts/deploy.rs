//! Deploys every part of a lab at once: all or none.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use latlab_host::dirs::Dirs;
use latlab_model::spec::Lab;
use latlab_model::state::NodeRow;

use super::destroy::destroy;
use super::inspect::{labs_of, of_host};
use super::record::{Host, Record};
use super::remote::{Answer, each};
use crate::args::Deploy;
use crate::failure::{Failure, INTERRUPTED, Outcome};
use crate::files::Source;
use crate::{inspect, run, signals};

pub fn run(args: &Deploy, source: &Source, lab: &Lab) -> Outcome {
    let record = Record::of(lab);
    if args.dry_run {
        return show(args, source, &record);
    }
    if args.keep {
        let message = "--keep is for labs on one machine";
        return Err(Failure::new(
            message,
            "without it a lab on hosts is all or nothing",
        ));
    }
    let dirs = Dirs::from_env();
    let stop = signals::stop_flag()?;
    record.must_be_new(&dirs)?;
    check_hosts(&record)?;
    record.create(&dirs)?;
    let bar = run::progress(record.hosts.len(), "hosts");
    let answers = each(&record.hosts, |host| {
        let answer = host.tell(&words(args, host), &source.text, &stop);
        bar.set_message(format!("{}: {}", host.name, outcome(&answer)));
        bar.inc(1);
        answer
    });
    bar.finish_and_clear();
    let rows = match rows(&record, &answers) {
        Ok(rows) if !stop.load(Ordering::Relaxed) => rows,
        rows => {
            let reasons = rows.err().unwrap_or_else(|| "interrupted".into());
            let hint = undo(&dirs, record, &answers)?;
            let interrupted = stop.load(Ordering::Relaxed).then_some(INTERRUPTED);
            return Err(Failure::new(reasons, hint).with_code(interrupted));
        }
    };
    inspect::print(&rows, args.format)?;
    Ok(ExitCode::SUCCESS)
}

/// Every host must answer, with this version, and without a lab of this name, before anything is changed.
fn check_hosts(record: &Record) -> Result<(), Failure> {
    let own = format!("latlab {}", env!("CARGO_PKG_VERSION"));
    let found = each(&record.hosts, |host| {
        let version = host.ask(&["--version"]);
        if !version.is_good() {
            return Err(version.reason());
        }
        let version = version.output.trim();
        if version != own {
            return Err(format!("it has {version}, and this is {own}"));
        }
        match labs_of(host)?.contains_key(&record.lab) {
            true => Err(format!("lab `{}` is deployed there already", record.lab)),
            false => Ok(()),
        }
    });
    let reasons = record.hosts.iter().zip(found).filter_map(|(host, found)| {
        let reason = found.err()?;
        Some(format!("host `{}`: {reason}", host.name))
    });
    let reasons: Vec<String> = reasons.collect();
    if reasons.is_empty() {
        return Ok(());
    }
    let hint = "nothing was changed; every host needs ssh for root (or sudo without a password) and this latlab";
    Err(Failure::new(reasons.join("; "), hint))
}

/// The words of latlab on a host.
fn words<'a>(args: &Deploy, host: &'a Host) -> Vec<&'a str> {
    let mut words = vec!["deploy", "--host", &host.name, "--format", "json"];
    words.extend(args.no_isolation.then_some("--no-isolation"));
    words.extend(args.dry_run.then_some("--dry-run"));
    words.push("-");
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
        match serde_json::from_str::<BTreeMap<String, Vec<NodeRow>>>(&answer.output) {
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

/// Removes what hosts have, and says in a hint what to do. A host that failed by itself has undone its part; of one that
/// was not heard of again nothing is known.
fn undo(dirs: &Dirs, record: Record, answers: &[Answer]) -> Result<String, Failure> {
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
    Ok(hints.join("; "))
}

/// Prints the plan of each host.
fn show(args: &Deploy, source: &Source, record: &Record) -> Outcome {
    let stop = signals::stop_flag()?;
    let answers = each(&record.hosts, |host| {
        host.tell(&words(args, host), &source.text, &stop)
    });
    let mut plans = serde_json::Map::new();
    for (host, answer) in record.hosts.iter().zip(answers) {
        match serde_json::from_str(&answer.output) {
            Ok(plan) if answer.is_good() => {
                plans.insert(host.name.clone(), plan);
            }
            _ => {
                let message = format!("host `{}`: {}", host.name, answer.reason());
                return Err(Failure::new(message, "nothing was changed"));
            }
        }
    }
    println!("{:#}", serde_json::Value::Object(plans));
    Ok(ExitCode::SUCCESS)
}
