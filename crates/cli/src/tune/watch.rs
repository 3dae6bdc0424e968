//! `latlab tune watch`: intruders on CPUs that are kept quiet.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use latlab_host::cgroup::PARTITION;
use latlab_host::dirs::Dirs;
use latlab_host::lab::given_cpus;
use latlab_host::tuning::{self, Root};
use latlab_host::watch::{CpuOwner, Watcher};
use latlab_model::results::Intruder;
use latlab_model::units::{CpuList, Nanos};

use super::args::Watch;
use super::choose::{self, online};
use crate::failure::{Failure, Outcome, measured};
use crate::signals;

/// Between two samples: an intruder is reported at most this late.
const INTERVAL: Duration = Duration::from_millis(200);

pub fn run(args: &Watch) -> Outcome {
    let end = match &args.time {
        None => None,
        Some(text) => Some(Instant::now() + time(text)?),
    };
    let owners = owners();
    let cpus = cpus(args, &owners)?;
    let stop = signals::stop_flag()?;
    let mut watcher = Watcher::begin(cpus.iter(), owners);
    eprintln!("watching CPUs {cpus}");
    let mut seen = false;
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        std::thread::sleep(left.map_or(INTERVAL, |left| left.min(INTERVAL)));
        let found = watcher.look();
        seen |= !found.is_empty();
        match print(&found, args.json) {
            // Its last line was an intruder.
            Err(failure) if failure.is_broken_pipe() => break,
            printed => printed?,
        }
        if stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
    }
    Ok(measured(!seen))
}

fn print(found: &[Intruder], json: bool) -> Result<(), Failure> {
    for one in found {
        let text = if json {
            serde_json::json!(one).to_string()
        } else {
            one.to_string()
        };
        crate::print::out(&format!("{text}\n"))?;
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

/// A lab may use the CPUs that it was given; other members of the partition may use its remaining CPUs.
fn owners() -> Vec<CpuOwner> {
    let given = given_cpus(&Dirs::from_env());
    let partition = tuning::partition_cpus(&Root::default());
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
    let all = online(&Root::default())?;
    let cpus = match &args.cpus {
        Some(text) => choose::cpus(text)?,
        None => CpuList::new(owners.iter().flat_map(|owner| owner.cpus.iter()).collect()),
    };
    if let Some(missing) = cpus.iter().find(|cpu| !all.contains(*cpu)) {
        let message = format!("there is no CPU {missing}: this machine has {all}");
        return Err(Failure::new(message, "name CPUs that the machine has"));
    }
    if cpus.is_empty() {
        let hint = "deploy a lab with `tuning: isolated`, `latlab tune apply isolated`, or name them with `--cpus`";
        return Err(Failure::new("no CPUs are kept quiet now", hint));
    }
    Ok(cpus)
}
