//! Deploys every part of a lab at once: all or none.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use latlab_host::dirs::Dirs;
use latlab_model::kinds::Carrier;
use latlab_model::plan::{Room, settle, spread};
use latlab_model::spec::Lab;
use latlab_model::state::NodeRow;

use super::destroy::destroy;
use super::inspect::{labs_in, of_host};
use super::record::{Host, Record};
use super::remote::{Answer, each};
use super::session::{About, Session};
use crate::args::Deploy;
use crate::failure::{Failure, INTERRUPTED, Outcome};
use crate::files::Source;
use crate::{inspect, run, signals};

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
    let is_sealed = lab
        .links
        .iter()
        .any(|link| link.carrier() == Carrier::Sealed);
    let open = |host: &Host| Session::open(host, is_sealed, source.text.len());
    let opened = each(&record.hosts, open);
    let (sessions, found) = check_hosts(args, &record, opened)?;
    let placed = spread(lab, &found.rooms).and_then(|places| {
        let lab = settle(lab.clone(), &places)?;
        Ok((places, Record::of(&lab)))
    });
    let (places, record) = match placed {
        Ok(placed) => placed,
        Err(all) => return source.mistakes(all).outcome(),
    };
    if !args.dry_run {
        record.create(&dirs)?;
    }
    let bar = run::progress(record.hosts.len(), "hosts");
    let answers = each(record.hosts.iter().zip(sessions), |(host, session)| {
        let words = words(args, host, &found.keys, &places);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let answer = session.tell(&words, &source.text, &stop);
        bar.set_message(format!("{}: {}", host.name, outcome(&answer)));
        bar.inc(1);
        answer
    });
    bar.finish_and_clear();
    if args.dry_run {
        return show(&record, &answers);
    }
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

/// The hosts' words about themselves, by their names.
#[derive(Default)]
struct Found {
    /// Public keys, where they were asked for.
    keys: BTreeMap<String, String>,
    rooms: BTreeMap<String, Room>,
}

/// Every host must answer, with this version, and without a lab of this name, before anything is changed. Returns the
/// connections with what the hosts are.
fn check_hosts(
    args: &Deploy,
    record: &Record,
    opened: Vec<Result<(Session, About), Answer>>,
) -> Result<(Vec<Session>, Found), Failure> {
    let mut sessions = Vec::new();
    let mut all = Found::default();
    let mut reasons = Vec::new();
    for (host, opened) in record.hosts.iter().zip(opened) {
        let found = opened.map_err(|answer| unlike(&answer.output).unwrap_or(answer.reason()));
        let checked = found.and_then(|(session, about)| {
            if let Some(unlike) = unlike(&about.version) {
                return Err(unlike);
            }
            match labs_in(&about.labs)?.contains_key(&record.lab) {
                true if !args.dry_run => {
                    Err(format!("lab `{}` is deployed there already", record.lab))
                }
                _ => Ok((session, about)),
            }
        });
        match checked {
            Ok((session, about)) => {
                sessions.push(session);
                all.rooms.insert(host.name.clone(), about.room);
                if !about.key.is_empty() {
                    all.keys.insert(host.name.clone(), about.key);
                }
            }
            Err(reason) => reasons.push(format!("host `{}`: {reason}", host.name)),
        }
    }
    if reasons.is_empty() {
        return Ok((sessions, all));
    }
    let hint = "nothing was changed; every host needs ssh for root (or sudo without a password) and this latlab";
    Err(Failure::new(reasons.join("; "), hint))
}

/// The version in the first line of a host's output, if it is another than this.
fn unlike(output: &str) -> Option<String> {
    let own = format!("latlab {}", env!("CARGO_PKG_VERSION"));
    let version = output.lines().next().filter(|version| *version != own)?;
    Some(format!("it has {version}, and this is {own}"))
}

/// The words of latlab on a host.
fn words(
    args: &Deploy,
    host: &Host,
    keys: &BTreeMap<String, String>,
    places: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut words: Vec<String> = ["deploy", "--host", &host.name, "--format", "json"]
        .map(ToString::to_string)
        .to_vec();
    for (name, key) in keys.iter().filter(|(name, _)| **name != host.name) {
        words.extend(["--peer-key".to_string(), format!("{name}={key}")]);
    }
    for (node, host) in places {
        words.extend(["--place".to_string(), format!("{node}={host}")]);
    }
    words.extend(args.no_isolation.then(|| "--no-isolation".to_string()));
    words.extend(args.dry_run.then(|| "--dry-run".to_string()));
    words.push("-".into());
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
fn show(record: &Record, answers: &[Answer]) -> Outcome {
    let mut plans = serde_json::Map::new();
    for (host, answer) in record.hosts.iter().zip(answers) {
        match serde_json::from_str(&answer.output) {
            Ok(plan) if answer.is_good() => {
                plans.insert(host.name.clone(), plan);
            }
            _ => {
                let message = format!("host `{}`: {}", host.name, answer.reason());
                let hint = answer.hint().unwrap_or("nothing was changed");
                return Err(Failure::new(message, hint));
            }
        }
    }
    println!("{:#}", serde_json::Value::Object(plans));
    Ok(ExitCode::SUCCESS)
}
