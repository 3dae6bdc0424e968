//! `latlab tune watch`: who runs on processors that are to be quiet?

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use latlab_host::cgroup::PARTITION;
use latlab_host::dirs::Dirs;
use latlab_host::lab::given_cpus;
use latlab_host::tuning;
use latlab_host::watch::{CpuOwner, Watcher};
use latlab_model::results::Intruder;
use latlab_model::units::{CpuList, Nanos};

use super::{online, root};
use crate::failure::{Failure, MEASURED_FAILED, Outcome};
use crate::signals;

/// Between two looks. What is named was there at most this long before.
const INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
#[command(after_help = "\
One line for each thread or interrupt that ran there since the look before, five looks a second. A lab is \
at home on the processors that it was given, and an intruder on those of another. The exit code is 1 when anything was seen. What comes and goes between two looks may be missed.")]
pub struct Watch {
    /// Processors to watch, instead of those that labs and tuning keep quiet now.
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// For how long, such as 10s; until it is interrupted otherwise.
    #[arg(long = "for", value_name = "TIME")]
    pub time: Option<String>,
    /// Print a JSON object a line.
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Watch) -> Outcome {
    let end = match &args.time {
        None => None,
        Some(text) => Some(Instant::now() + time(text)?),
    };
    let owners = owners();
    let cpus = cpus(args, &owners)?;
    let stop = signals::stop_flag()?;
    let mut watcher = Watcher::begin(cpus.iter(), owners);
    eprintln!("watching {cpus}");
    let mut seen = false;
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        std::thread::sleep(left.map_or(INTERVAL, |left| left.min(INTERVAL)));
        let found = watcher.look();
        seen |= !found.is_empty();
        print(&found, args.json)?;
        if stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
    }
    Ok(match seen {
        true => ExitCode::from(MEASURED_FAILED),
        false => ExitCode::SUCCESS,
    })
}

fn print(found: &[Intruder], json: bool) -> Result<(), Failure> {
    for one in found {
        match json {
            true => crate::print::out(&format!("{}\n", serde_json::json!(one)))?,
            false => crate::print::out(&format!("{one}\n"))?,
        }
    }
    Ok(())
}

fn time(text: &str) -> Result<Duration, Failure> {
    let parsed = Nanos::parse(text).filter(|t| t.0 > 0);
    let parsed = parsed.ok_or_else(|| {
        Failure::new(
            format!("`--for {text}` is no time"),
            "for example `--for 10s`",
        )
    })?;
    Ok(Duration::from_nanos(parsed.0))
}

/// A lab belongs on the processors that it was given, and whatever was put into the partition on the others of
/// the partition.
fn owners() -> Vec<CpuOwner> {
    let given = given_cpus(&Dirs::from_env());
    let partition = tuning::partition_cpus(&root());
    let free = partition
        .iter()
        .filter(|cpu| !given.values().any(|lab| lab.contains(*cpu)));
    let free = CpuList::new(free.collect());
    let labs = given
        .into_iter()
        .map(|(lab, cpus)| CpuOwner::of_lab(&lab, cpus));
    let partition = CpuOwner {
        cpus: free,
        group: format!("/{PARTITION}"),
    };
    labs.chain([partition]).collect()
}

fn cpus(args: &Watch, owners: &[CpuOwner]) -> Result<CpuList, Failure> {
    let all = online(&root())?;
    let cpus = match &args.cpus {
        Some(text) => CpuList::parse(text).ok_or_else(|| {
            let message = format!("`--cpus {text}` is not a list of processors");
            Failure::new(message, "for example `--cpus 2-7,10`")
        })?,
        None => CpuList::new(owners.iter().flat_map(|owner| owner.cpus.iter()).collect()),
    };
    if let Some(missing) = cpus.iter().find(|cpu| !all.contains(*cpu)) {
        let message = format!("there is no processor {missing}: this machine has {all}");
        return Err(Failure::new(
            message,
            "name processors that the machine has",
        ));
    }
    if cpus.is_empty() {
        let hint = "deploy a lab with `tuning: isolated`, `latlab tune apply isolated`, or name them with `--cpus`";
        return Err(Failure::new("no processors are kept quiet now", hint));
    }
    Ok(cpus)
}
