//! The verb, from its arguments to the end of what it changed.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use latlab_model::adapt::Allowed;

use super::daemons::of_lab;
use super::hosts::{Hosts, Socket};
use super::overlay::Overlay;
use super::running::Running;
use super::streams::Streams;
use super::told::Told;
use crate::args::{Adapt, AdaptChange as Change};
use crate::failure::{Failure, Outcome, need_root};
use crate::signals::stop_flag;

pub fn run(args: &Adapt) -> Outcome {
    need_root(
        "adapt",
        "it reconfigures overlay daemons and sends probes between their hosts",
    )?;
    let allows = |kind| args.change.contains(&kind) || args.change.contains(&Change::All);
    let allowed = Allowed {
        carriers: allows(Change::Carriers),
        routes: allows(Change::Routes),
    };
    let streams = match &args.lab {
        Some(lab) => Streams::of(lab, allows(Change::Streams))?,
        None => None,
    };
    if streams.is_none() && args.change.contains(&Change::Streams) {
        let hint = "name a lab with a link of type overlay that has `streams: true`";
        return Err(Failure::new("there are no streams to change", hint));
    }
    let of_overlay = [Change::Routes, Change::Carriers];
    let asks_overlay = of_overlay.iter().any(|kind| args.change.contains(kind));
    let daemons = match &args.lab {
        // The streams may be all there is to adapt in a lab on one host.
        Some(lab) if streams.is_some() && !asks_overlay => of_lab(lab).unwrap_or_default(),
        Some(lab) => of_lab(lab)?,
        None => args.control.iter().map(|path| Socket::of(path)).collect(),
    };
    let stop = stop_flag()?;
    let hosts = match daemons.is_empty() {
        true => None,
        false => Some(Hosts::meet(daemons)?),
    };
    let told = Told::begin(args.format, hosts.as_ref(), streams.is_some());
    let overlay = hosts.map(|hosts| Overlay::begin(hosts, allowed, &told));
    let mut running = Running {
        overlay: overlay.transpose()?,
        streams,
        told,
        begin: Instant::now(),
        samples: args.samples,
    };
    let end = args
        .time
        .map(|time| running.begin + Duration::from_nanos(time.0));
    let is_over = || stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end);
    let ran = running.until(&is_over);
    if !args.keep && running.take_back()? {
        running.told.note("all changes are taken back");
    }
    ran.map(|()| ExitCode::SUCCESS)
}
