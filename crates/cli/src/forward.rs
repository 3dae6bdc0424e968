//! `latlab forward`: latlab's layer-2 forwarder by hand, between two interfaces.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use latlab_model::units::{CpuList, Nanos};
use latlab_probe::{By, Layer2};

use crate::args::{Forward, ForwardBy};
use crate::failure::{Failure, Hint, Outcome, need_root};
use crate::signals;

pub fn run(args: &Forward) -> Outcome {
    need_root("forward", "it takes frames from interfaces")?;
    if args.first == args.second {
        let message = format!(
            "forward needs two interfaces, and both are `{}`",
            args.first
        );
        return Err(Failure::new(message, "`ip link` lists the interfaces"));
    }
    if let Some(list) = &args.cpu {
        pin(list)?;
    }
    let until = args.duration.as_deref().map(deadline).transpose()?;
    let by = match args.by {
        ForwardBy::AfPacket => By::AfPacket,
        ForwardBy::AfXdp => By::AfXdp,
        ForwardBy::Xdp => By::Xdp,
    };
    let mut device = Layer2::open_by(by, &args.first, &args.second)
        .map_err(|e| anyhow::anyhow!("forward between {} and {}: {e}", args.first, args.second))
        .hint("are both interfaces here, up, and used by no other such program? `ip -d link` shows them")?;
    let stop = signals::stop_flag()?;
    let how = device.how();
    eprintln!(
        "forwarding between {} and {} through {how}; Ctrl-C ends it",
        args.first, args.second
    );
    let began = Instant::now();
    let over = || stop.load(Ordering::Relaxed) || until.is_some_and(|end| Instant::now() >= end);
    device
        .run(!args.block, over)
        .map_err(|e| anyhow::anyhow!("forward between {} and {}: {e}", args.first, args.second))
        .hint("did an interface go away?")?;
    let seconds = began.elapsed().as_secs_f64();
    match device.carried() {
        Some((there, back)) => println!(
            "{there} frames from {} to {}, {back} back, {} dropped, in {seconds:.1} s",
            args.first,
            args.second,
            device.dropped()
        ),
        None => println!("forwarded for {seconds:.1} s; `ip -s link` counts the frames"),
    }
    Ok(ExitCode::SUCCESS)
}

fn pin(text: &str) -> Result<(), Failure> {
    let hint = "a list as the kernel writes it: `3` or `2-3`";
    let list = CpuList::parse(text)
        .ok_or_else(|| Failure::new(format!("--cpu {text} is no list of CPUs"), hint))?;
    let mut set = rustix::thread::CpuSet::new();
    let max = rustix::thread::CpuSet::MAX_CPU;
    for cpu in list.iter().filter(|cpu| (*cpu as usize) < max) {
        set.set(cpu as usize);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|e| anyhow::anyhow!("run on CPUs {text}: {e}"))
        .hint("name CPUs that this process may use; `taskset -p $$` lists them")
}

fn deadline(text: &str) -> Result<Instant, Failure> {
    let ns = Nanos::parse(text).filter(|ns| ns.0 > 0).ok_or_else(|| {
        let message = format!("--duration {text} is no time");
        Failure::new(message, "for example `10s` (units: ns, us, ms, s, min)")
    })?;
    Ok(Instant::now() + Duration::from_nanos(ns.0))
}
