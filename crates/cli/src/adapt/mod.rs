//! `latlab adapt`: changes ways and carriers of overlay daemons, and which ports have streams, as their traffic asks for.
//!
//! ```text
//! daemons and probes ─ watch ─► samples ─ latlab_model::adapt ─► decisions ─ change ─► daemons
//! streams' supervisor ────────► counts ──────────┘                   └─ streams ─────► supervisor
//! ```
//!
//! One process watches all daemons, so no two owners can disagree. It keeps no state: while it is gone, everything stays
//! as it is.

mod change;
mod hosts;
mod probes;
mod streams;
mod told;
mod watch;

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use latlab_host::dirs::Dirs;
use latlab_host::lab;
use latlab_model::adapt::{Adaptation, Allowed};
use latlab_model::plan::{EndpointPlan, LinkPlan, Medium};

use crate::args::{Adapt, AdaptChange as Change};
use crate::failure::{Failure, Outcome, explain, need_root};
use crate::signals::stop_flag;

use hosts::{Hosts, Socket};
use probes::{INTERVAL, Probes};
use streams::Streams;
use told::Told;
use watch::Watch;

/// Shortest reaction to Ctrl-C.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// Time between two looks at the placement.
const PLACEMENT_INTERVAL: Duration = Duration::from_secs(60);

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

/// Daemons, and what is known of them.
struct Overlay {
    hosts: Hosts,
    adaptation: Adaptation,
    watch: Watch,
    probes: Probes,
}

impl Overlay {
    fn begin(mut hosts: Hosts, mut allowed: Allowed, told: &Told) -> Result<Overlay, Failure> {
        if allowed.carriers || allowed.routes {
            hosts.claim()?;
        }
        if let Some(host) = hosts.with_own_routes() {
            told.note(&format!(
                "host {host} has routes already: they stay, and no way is changed"
            ));
            allowed.routes = false;
        }
        let probes = Probes::start(&hosts)?;
        let adaptation = Adaptation::new(allowed, hosts.segment().is_some());
        let watch = Watch::begin(&mut hosts)?;
        Ok(Overlay {
            hosts,
            adaptation,
            watch,
            probes,
        })
    }

    fn second(&mut self, at: Duration, samples: bool, told: &Told) -> Result<(), Failure> {
        let sample = self.watch.sample(&mut self.hosts, &self.probes, at)?;
        if samples {
            told.sample(&sample);
        }
        for decision in self.adaptation.step(sample) {
            told.decision(&decision);
            let Some([from, to]) = decision.change() else {
                continue;
            };
            if let Err(failure) = self.hosts.carry_out(decision.object, to) {
                told.note(&format!("this failed, and is as before: {failure}"));
                self.adaptation.failed(at, decision.object, from);
            }
        }
        Ok(())
    }

    fn take_back(&mut self) -> Result<bool, Failure> {
        let is_changed = self.hosts.is_changed();
        if is_changed {
            self.hosts.take_back()?;
        }
        Ok(is_changed)
    }
}

struct Running {
    overlay: Option<Overlay>,
    streams: Option<Streams>,
    told: Told,
    begin: Instant,
    samples: bool,
}

impl Running {
    fn until(&mut self, is_over: &dyn Fn() -> bool) -> Result<(), Failure> {
        let mut next = self.begin + INTERVAL;
        let mut next_placement = self.begin + PLACEMENT_INTERVAL;
        while !is_over() {
            let now = Instant::now();
            if now < next {
                std::thread::sleep(STOP_INTERVAL.min(next - now));
                continue;
            }
            // A machine that stood still does not make up for the samples that it missed.
            next = now + INTERVAL;
            self.second()?;
            if now >= next_placement {
                next_placement = now + PLACEMENT_INTERVAL;
                self.tell_placement();
            }
        }
        self.tell_placement();
        Ok(())
    }

    fn second(&mut self) -> Result<(), Failure> {
        let at = self.begin.elapsed();
        if let Some(overlay) = &mut self.overlay {
            overlay.second(at, self.samples, &self.told)?;
        }
        if let Some(streams) = &mut self.streams {
            streams.second(at, &self.told)?;
        }
        Ok(())
    }

    fn tell_placement(&mut self) {
        if let Some(overlay) = &self.overlay {
            self.told.placement(overlay.watch.placement(&overlay.hosts));
        }
    }

    /// Whether there was anything to take back. Errors: the first of them; what is left is taken back all the same.
    fn take_back(&mut self) -> Result<bool, Failure> {
        let streams = self.streams.as_mut().map(Streams::take_back);
        let overlay = self.overlay.as_mut().map(Overlay::take_back);
        Ok(streams.unwrap_or(Ok(false))? | overlay.unwrap_or(Ok(false))?)
    }
}

/// The daemons of a lab's link of type overlay, each with its node's name.
fn of_lab(name: &str) -> Result<Vec<Socket>, Failure> {
    let dirs = Dirs::from_env();
    let plan = lab::plan_of(&dirs, name).map_err(explain)?;
    let run = dirs.run(name).join("overlay");
    let has_hosts =
        |link: &&LinkPlan| matches!(&link.medium, Medium::Overlay(overlay) if overlay.has_hosts());
    let mut links = plan.links.iter().filter(has_hosts);
    let (Some(link), None) = (links.next(), links.next()) else {
        let message = format!("lab `{name}` has not exactly one link between overlay hosts");
        let hint = "it needs one link with `type: overlay` and `carrier: vxlan` or `udp`; or name \
                    daemons with --control";
        return Err(Failure::new(message, hint));
    };
    let socket = |(number, end): (usize, &EndpointPlan)| Socket {
        path: run.join(format!("{}.{number}", link.name)).join("control"),
        host: plan.nodes[end.node].name.clone(),
    };
    Ok(link.endpoints.iter().enumerate().map(socket).collect())
}
