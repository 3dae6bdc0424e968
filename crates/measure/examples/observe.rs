//! Holds taps and the flight recorder until its input ends: what `bench/observer` turns on and off.
//!
//! `observe [--tap NETNS:INTERFACE:ingress|egress]... [--record CPU,CPU]`; NETNS is a name of `ip netns`.
//! Says `ready`, and at the end how many packets each tap saw and how many events were recorded.

use std::io::Read;
use std::path::Path;

use latlab_host::sys::netns::NetNs;
use latlab_trace::recorder::{Recorder, Settings};
use latlab_trace::taps::{Point, Side, Tap};

/// Packets of one tap, and events of one processor.
const ROOM: u64 = 4_000_000;
const EVENTS: u32 = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut taps = Vec::new();
    let mut cpus: Vec<u16> = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or("an option needs a value")?;
        match option.as_str() {
            "--tap" => taps.push(place(&value)?),
            "--record" => {
                for cpu in value.split(',') {
                    cpus.push(cpu.parse()?);
                }
            }
            _ => return Err(format!("no option {option}").into()),
        }
    }
    let recorder = match cpus.is_empty() {
        true => None,
        false => Some(Recorder::load(&Settings {
            cpus,
            events_per_cpu: EVENTS,
        })?),
    };
    if let Some(recorder) = &recorder {
        recorder.start();
    }
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    if let Some(recorder) = recorder {
        recorder.stop();
        println!("{} events", recorder.finish().events.len());
    }
    for (netns, tap) in taps {
        let seen = netns.run(|| tap.detach())??;
        println!("{} packets", seen.records.len());
    }
    Ok(())
}

fn place(text: &str) -> Result<(NetNs, Tap), Box<dyn std::error::Error>> {
    let [name, interface, side] = text.split(':').collect::<Vec<_>>()[..] else {
        return Err(format!("--tap {text}: NETNS:INTERFACE:ingress|egress").into());
    };
    let side = match side {
        "ingress" => Side::Ingress,
        _ => Side::Egress,
    };
    let netns = NetNs::open(&Path::new("/run/netns").join(name))?;
    let point = Point {
        interface: interface.into(),
        side,
    };
    let tap = netns.run(|| Tap::attach(&point, ROOM))??;
    Ok((netns, tap))
}
