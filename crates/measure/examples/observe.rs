//! Puts taps and the flight recorder into the kernel and takes them out again, as it is told: what
//! `bench/observer` compares.
//!
//! `observe [--tap NETNS:INTERFACE:ingress|egress]... [--record CPU,CPU]`; NETNS is a name of `ip netns`.
//! Each line of its input is one of `off`, `taps`, `recorder`, `both`; it answers `ready` when that is so. At the
//! end of its input it says between which times (ns) the hypervisor took one of the processors: that it
//! watches all the time, by a look whenever a processor changes tasks and at its tick, never at a packet.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::BufRead;
use std::path::Path;

use latlab_host::sys::netns::NetNs;
use latlab_trace::recorder::{Recorder, Settings};
use latlab_trace::steal::Watch;
use latlab_trace::taps::{Point, Side, Tap};

/// Packets of one tap, and events of one processor.
const ROOM: u64 = 1_000_000;
const EVENTS: u32 = 1 << 19;

fn main() -> Result<(), Box<dyn Error>> {
    let mut places = Vec::new();
    let mut cpus: Vec<u16> = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or("an option needs a value")?;
        match option.as_str() {
            "--tap" => places.push(place(&value)?),
            "--record" => {
                for cpu in value.split(',') {
                    cpus.push(cpu.parse()?);
                }
            }
            _ => return Err(format!("no option {option}").into()),
        }
    }
    let watch = Watch::begin(&cpus.iter().copied().collect::<BTreeSet<u16>>())?;
    let (mut taps, mut recorder) = (Vec::new(), None);
    for line in std::io::stdin().lock().lines() {
        for (tap, (netns, _)) in std::iter::zip(taps.drain(..), &places) {
            let tap: Tap = tap;
            netns.run(|| tap.detach())??;
        }
        drop(recorder.take());
        let (tapped, recorded) = match line?.as_str() {
            "off" => (false, false),
            "taps" => (true, false),
            "recorder" => (false, true),
            "both" => (true, true),
            other => return Err(format!("no state {other}").into()),
        };
        if tapped {
            for (netns, point) in &places {
                taps.push(netns.run(|| Tap::attach(point, ROOM))??);
            }
        }
        if recorded {
            let settings = Settings {
                cpus: cpus.clone(),
                events_per_cpu: EVENTS,
            };
            let loaded = Recorder::load(&settings)?;
            loaded.start();
            recorder = Some(loaded);
        }
        println!("ready");
    }
    let taken = watch.and_then(Watch::end).unwrap_or_default();
    for one in taken.stretches {
        println!("stolen {} {}", one.since_ns, one.until_ns);
    }
    Ok(())
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
