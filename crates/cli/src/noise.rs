//! `latlab noise`: the interruptions of busy CPUs, by cause.

use std::time::Duration;

use latlab_measure::{hwlat, osnoise, rtla};
use latlab_model::units::{CpuList, Nanos};
use latlab_report::attribution::Capture;
use latlab_report::noise::{Noise as CpuNoise, Spinner, noise, render};

use crate::args::Noise;
use crate::failure::{Failure, Hint, Outcome, need_root};
use crate::format::Format;
use crate::table;

pub fn run(args: &Noise) -> Outcome {
    need_root("noise", "it records kernel events")?;
    let cpus = cpus(args.cpus.as_deref())?;
    let duration = duration(&args.duration)?;
    let (spun, recorded) = osnoise::run(&cpus, duration, args.threshold)
        .hint("name CPUs that this process may use; `taskset -p $$` lists them")?;
    let mut capture = Capture::default();
    match recorded {
        Ok(recorded) => {
            let gaps = recorded.gaps;
            capture.steal_known = gaps.steal_known;
            let watched = gaps.cpus.iter();
            capture.watched = watched.map(|one| (one.cpu, one.complete_from_ns)).collect();
            for one in gaps.cpus.iter().filter(|p| p.overwritten > 0) {
                capture.unknown.push(format!(
                    "the ring of CPU {} was full: {} older events are lost",
                    one.cpu, one.overwritten
                ));
            }
            for (point, reason) in &gaps.missing {
                let text = format!("{point} could not be recorded: {reason}");
                capture.unknown.push(text);
            }
            let windows = spun
                .iter()
                .flat_map(|one| hwlat::spin_windows(one, &recorded.events));
            capture.hwlat = hwlat::found(&windows.collect::<Vec<_>>());
            capture.events = recorded.events;
        }
        Err(error) => capture
            .unknown
            .push(format!("{error}: causes are not known")),
    }
    let mut all = Vec::new();
    for one in &spun {
        if one.no_room > 0 {
            let text = format!(
                "{} interruptions of CPU {} were lost: the buffer was full",
                one.no_room, one.cpu
            );
            capture.unknown.push(text);
        }
        let spinner = Spinner {
            cpu: one.cpu,
            task: one.task,
            runtime_ns: one.window.1 - one.window.0,
            gaps: &one.gaps,
        };
        all.push(noise(&capture, &spinner));
    }
    let traced = kernel_tracers(&cpus, duration, &mut capture.unknown);
    let text = match args.format {
        Format::Table => table(&all, &capture.unknown, &traced),
        Format::Json => {
            let document = serde_json::json!({
                "processors": all,
                "rtla": traced,
                "not_known": capture.unknown,
            });
            serde_json::to_string_pretty(&document)? + "\n"
        }
        Format::Csv => csv(&all),
    };
    crate::print::document(&text)
}

fn table(all: &[CpuNoise], unknown: &[String], traced: &[rtla::TracerOutput]) -> String {
    let mut text = render(all, unknown);
    for one in traced {
        text += &format!("\nthe kernel's own tracer, {}\n{}", one.command, one.output);
    }
    text
}

fn csv(all: &[CpuNoise]) -> String {
    let mut rows = Vec::new();
    for one in all {
        for row in &one.causes {
            let numbers = [row.count, row.total_ns, row.max_ns].map(|n| n.to_string());
            // A cause may be a thread, which names itself.
            rows.push([&[one.cpu.to_string(), row.cause.clone()][..], &numbers].concat());
        }
    }
    table::csv(&["cpu", "cause", "count", "total_ns", "max_ns"], &rows)
}

fn cpus(given: Option<&str>) -> Result<Vec<u16>, Failure> {
    let allowed = osnoise::allowed();
    let Some(text) = given else {
        return Ok(allowed);
    };
    let wrong = |what: String| Failure::new(what, "for example `0-3,8`");
    let list = CpuList::parse(text).ok_or_else(|| wrong(format!("--cpus {text} is no list")))?;
    let mut all = Vec::new();
    for cpu in list.iter() {
        let known = u16::try_from(cpu).ok().filter(|cpu| allowed.contains(cpu));
        let missing = || {
            let message = format!("CPU {cpu} does not exist, or may not be used here");
            let cpus = CpuList::new(allowed.iter().map(|cpu| u32::from(*cpu)).collect());
            Failure::new(message, format!("this machine has {cpus}"))
        };
        all.push(known.ok_or_else(missing)?);
    }
    Ok(all)
}

fn duration(text: &str) -> Result<Duration, Failure> {
    const MAX_NS: u64 = 3_600_000_000_000;
    let parsed = Nanos::parse(text).filter(|ns| (1_000_000..=MAX_NS).contains(&ns.0));
    let ns = parsed.ok_or_else(|| {
        let message = format!("--duration {text} is no time from 1ms to 60min");
        Failure::new(message, "for example `10s` (units: ns, us, ms, s, min)")
    })?;
    Ok(Duration::from_nanos(ns.0))
}

/// The kernel's own tracers, one after the other, if it has them.
fn kernel_tracers(
    cpus: &[u16],
    duration: Duration,
    unknown: &mut Vec<String>,
) -> Vec<rtla::TracerOutput> {
    let one = |tracer: &'static str| match rtla::trace(tracer, cpus, duration) {
        Ok(traced) => Some(traced),
        Err(reason) => {
            unknown.push(reason);
            None
        }
    };
    rtla::tracers().into_iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use latlab_report::noise::Row;

    use super::*;

    #[test]
    fn a_thread_named_as_a_piece_of_csv_stays_in_its_field() {
        let row = |cause: &str| Row {
            cause: cause.to_owned(),
            kind: "thread",
            count: 2,
            total_ns: 30,
            max_ns: 20,
            remedy: None,
        };
        let noise = CpuNoise {
            cpu: 3,
            runtime_ns: 1000,
            noise_ns: 30,
            available: 0.97,
            max_ns: 20,
            causes: vec![row("thread a\",1,\"b"), row("timer")],
        };
        assert_eq!(
            csv(&[noise]),
            "cpu,cause,count,total_ns,max_ns\n3,\"thread a\"\",1,\"\"b\",2,30,20\n3,timer,2,30,20\n"
        );
    }
}
