//! Attaches taps and the flight recorder and detaches them, window after window, for `bench/observer` to
//! compare.
//!
//! `observe [--tap NETNS:INTERFACE:ingress|egress]... [--record CPU,CPU] --packets N --seconds S --settle-ms
//! MS --window-ms MS`; NETNS is a name of `ip netns`. The first line of the input names a
//! process, each other line is a word that selects a window's instruments: `taps`, `recorder`, `both`; `calls` is
//! both with system calls recorded too; `stacks` is both with sampled stacks of the process. Every other word
//! selects none. All are loaded once, with room for N packets, and are detached when off. The program prints
//! `ready` when they are loaded, and begins.
//!
//! At the end of its input, or of the time, it prints each window's word, begin and end (ns), and the times
//! at which the hypervisor took one of the CPUs. Steal is watched all the time, at context switches and ticks
//! and never at a packet.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::BufRead;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use latlab_host::sys::netns::NetNs;
use latlab_trace::recorder::{Recorder, Settings};
use latlab_trace::stacks::Sampler;
use latlab_trace::steal::Watch;
use latlab_trace::taps::{Point, Side, Tap};
use rustix::time::{ClockId, clock_gettime};

/// Events of one CPU.
const EVENTS: u32 = 1 << 19;
/// Samples of stacks in a second, and those of one window at most.
const SAMPLES: u32 = 1_000;
const ROOM: u64 = 1 << 13;

#[derive(Default)]
struct Options {
    taps: Vec<(NetNs, Point)>,
    cpus: Vec<u16>,
    packets: u64,
    seconds: u64,
    settle: Duration,
    window: Duration,
}

/// The instruments, and whether each is attached.
struct Observer {
    taps: Vec<(NetNs, Tap)>,
    recorder: Recorder,
    /// One that records system calls too.
    calls: Recorder,
    stacks: Sampler,
    /// The process whose stacks are sampled.
    device: u32,
    is_tapped: bool,
    is_recorded: bool,
    is_calls: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = options()?;
    let watch = Watch::begin(&options.cpus.iter().copied().collect::<BTreeSet<u16>>())?;
    let mut observer = Observer::load(&mut options)?;
    println!("ready");
    let begun = Instant::now();
    let mut windows = Vec::new();
    let mut lines = std::io::stdin().lock().lines();
    observer.device = lines.next().ok_or("no process is named")??.parse()?;
    for word in lines {
        if begun.elapsed().as_secs() >= options.seconds {
            break;
        }
        let word = word?;
        observer.change(
            ["taps", "both", "calls", "stacks"].contains(&word.as_str()),
            ["recorder", "both", "stacks"].contains(&word.as_str()),
            word == "calls",
        )?;
        if word == "stacks" {
            observer.stacks.watch(observer.device, SAMPLES)?;
        }
        sleep(options.settle);
        let since = now_ns();
        sleep(options.window);
        windows.push((word, since, now_ns()));
        observer.stacks.suspend();
    }
    observer.change(false, false, false)?;
    for (word, since, until) in windows {
        println!("window {word} {since} {until}");
    }
    let taken = watch.and_then(Watch::end).unwrap_or_default();
    for one in taken.stretches {
        println!("stolen - {} {}", one.since_ns, one.until_ns);
    }
    Ok(())
}

impl Observer {
    fn load(options: &mut Options) -> Result<Observer, Box<dyn Error>> {
        let mut taps = Vec::new();
        for (netns, point) in options.taps.drain(..) {
            let tap = netns.run(|| Tap::load(&point, options.packets))??;
            taps.push((netns, tap));
        }
        let load = |system_calls| -> Result<Recorder, Box<dyn Error>> {
            let mut recorder = Recorder::load(&Settings {
                cpus: options.cpus.clone(),
                events_per_cpu: EVENTS,
                system_calls,
            })?;
            recorder.suspend();
            Ok(recorder)
        };
        let (recorder, calls) = (load(false)?, load(true)?);
        Ok(Observer {
            taps,
            recorder,
            calls,
            stacks: Sampler::load(ROOM)?,
            device: 0,
            is_tapped: false,
            is_recorded: false,
            is_calls: false,
        })
    }

    fn change(&mut self, tapped: bool, recorded: bool, calls: bool) -> Result<(), Box<dyn Error>> {
        if tapped != self.is_tapped {
            for (netns, tap) in &mut self.taps {
                if tapped {
                    netns.run(|| tap.resume())??;
                } else {
                    netns.run(|| tap.suspend())??;
                }
            }
        }
        for (recorder, was, is) in [
            (&mut self.recorder, self.is_recorded, recorded),
            (&mut self.calls, self.is_calls, calls),
        ] {
            match (was, is) {
                (false, true) => recorder.resume(),
                (true, false) => recorder.suspend(),
                _ => {}
            }
        }
        (self.is_tapped, self.is_recorded, self.is_calls) = (tapped, recorded, calls);
        Ok(())
    }
}

fn now_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or("an option needs a value")?;
        match option.as_str() {
            "--tap" => options.taps.push(place(&value)?),
            "--record" => {
                for cpu in value.split(',') {
                    options.cpus.push(cpu.parse()?);
                }
            }
            "--packets" => options.packets = value.parse()?,
            "--seconds" => options.seconds = value.parse()?,
            "--settle-ms" => options.settle = Duration::from_millis(value.parse()?),
            "--window-ms" => options.window = Duration::from_millis(value.parse()?),
            _ => return Err(format!("no option {option}").into()),
        }
    }
    Ok(options)
}

fn place(text: &str) -> Result<(NetNs, Point), Box<dyn Error>> {
    let [name, interface, side] = text.split(':').collect::<Vec<_>>()[..] else {
        return Err(format!("--tap {text}: NETNS:INTERFACE:ingress|egress").into());
    };
    let side = match side {
        "ingress" => Side::Ingress,
        _ => Side::Egress,
    };
    let netns = NetNs::open(&Path::new("/run/netns").join(name))?;
    let interface = interface.into();
    Ok((netns, Point { interface, side }))
}
