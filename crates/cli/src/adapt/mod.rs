//! `latlab adapt`: changes ways and carriers of overlay daemons as their traffic asks for.
//!
//! ```text
//! daemons and probes ─ watch ─► samples ─ latlab_model::adapt ─► decisions ─ change ─► daemons
//! ```
//!
//! One process watches all daemons, so no two owners can disagree. It keeps no state: while it is gone, everything stays
//! as it is.

mod change;
mod hosts;
mod probes;
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
    let daemons = match &args.lab {
        Some(lab) => of_lab(lab)?,
        None => args.control.iter().map(|path| Socket::of(path)).collect(),
    };
    let stop = stop_flag()?;
    let mut hosts = Hosts::meet(daemons)?;
    if !args.change.is_empty() {
        hosts.claim()?;
    }
    let told = Told::begin(args.format, &hosts);
    let allows = |kind| args.change.contains(&kind) || args.change.contains(&Change::All);
    let mut allowed = Allowed {
        carriers: allows(Change::Carriers),
        routes: allows(Change::Routes),
    };
    if let Some(host) = hosts.with_own_routes() {
        told.note(&format!(
            "host {host} has routes already: they stay, and no way is changed"
        ));
        allowed.routes = false;
    }
    let probes = Probes::start(&hosts)?;
    let adaptation = Adaptation::new(allowed, hosts.segment().is_some());
    let watch = Watch::begin(&mut hosts)?;
    let begin = Instant::now();
    let end = args.time.map(|time| begin + Duration::from_nanos(time.0));
    let is_over = || stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end);
    let mut running = Running {
        adaptation,
        watch,
        probes,
        told,
        begin,
        samples: args.samples,
    };
    let ran = running.until(&is_over, &mut hosts);
    if !args.keep && hosts.is_changed() {
        hosts.take_back()?;
        running.told.note("all changes are taken back");
    }
    ran.map(|()| ExitCode::SUCCESS)
}

struct Running {
    adaptation: Adaptation,
    watch: Watch,
    probes: Probes,
    told: Told,
    begin: Instant,
    samples: bool,
}

impl Running {
    fn until(&mut self, is_over: &dyn Fn() -> bool, hosts: &mut Hosts) -> Result<(), Failure> {
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
            self.second(hosts)?;
            if now >= next_placement {
                next_placement = now + PLACEMENT_INTERVAL;
                self.told.placement(self.watch.placement(hosts));
            }
        }
        self.told.placement(self.watch.placement(hosts));
        Ok(())
    }

    fn second(&mut self, hosts: &mut Hosts) -> Result<(), Failure> {
        let at = self.begin.elapsed();
        let sample = self.watch.sample(hosts, &self.probes, at)?;
        if self.samples {
            self.told.sample(&sample);
        }
        for decision in self.adaptation.step(sample) {
            self.told.decision(&decision);
            let Some([from, to]) = decision.change() else {
                continue;
            };
            if let Err(failure) = hosts.carry_out(decision.object, to) {
                self.told
                    .note(&format!("this failed, and is as before: {failure}"));
                self.adaptation.failed(at, decision.object, from);
            }
        }
        Ok(())
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
