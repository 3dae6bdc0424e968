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
mod watch;

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use latlab_host::dirs::Dirs;
use latlab_host::lab;
use latlab_model::adapt::{Adaptation, Allowed, Decision, Leg, Pair, Placement, Sample};
use latlab_model::plan::{EndpointPlan, LinkPlan, Medium};
use serde::Serialize;

use crate::args::{Adapt, AdaptChange as Change};
use crate::failure::{Failure, Outcome, explain, need_root};
use crate::format::Lines;
use crate::signals::stop_flag;

use hosts::{Hosts, Socket};
use probes::{INTERVAL, Probes};
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

fn shown_leg(leg: &serde_json::Value) -> String {
    let number = |name: &str| leg[name].as_f64();
    let rate = |name: &str| number(name).unwrap_or(0.0) * 8.0 / 1e6;
    let time = number("round_trip");
    let time = time.map_or_else(
        || "no answer".to_owned(),
        |time| format!("{:.2} ms", time * 1e3),
    );
    let [a, b] = [0, 1].map(|at| leg["hosts"][at].as_str().unwrap_or("?"));
    format!(
        "{a}-{b} {time}, {:.1} of {:.1} Mbit/s",
        rate("received"),
        rate("sent")
    )
}

/// Output, a line each.
struct Told {
    format: Lines,
    hosts: Vec<String>,
    advised: Option<Placement>,
}

#[derive(Serialize)]
struct DecisionLine<'a> {
    #[serde(flatten)]
    decision: &'a Decision,
    text: String,
}

impl Told {
    fn begin(format: Lines, hosts: &Hosts) -> Told {
        let names = hosts.names();
        match format {
            Lines::Text => println!(
                "watching {}; {}",
                names.join(", "),
                match hosts.segment() {
                    Some(_) => "all are on one Ethernet segment",
                    None => "not all are on one Ethernet segment",
                }
            ),
            Lines::Json => {
                let line =
                    serde_json::json!({"hosts": names, "segment": hosts.segment().is_some()});
                println!("{line}");
            }
        }
        Told {
            format,
            hosts: names,
            advised: None,
        }
    }

    fn note(&self, text: &str) {
        match self.format {
            Lines::Text => println!("{text}"),
            Lines::Json => println!("{}", serde_json::json!({"note": text})),
        }
    }

    fn sample(&self, sample: &Sample) {
        let leg = |(pair, leg): (&Pair, &Leg)| {
            let [a, b] = pair.ends().map(|host| self.hosts[host].clone());
            let traffic = sample.traffic.get(pair).copied().unwrap_or_default();
            serde_json::json!({
                "hosts": [a, b],
                "round_trip": leg.round_trip.map(|time| time.as_secs_f64()),
                "sent": traffic.sent,
                "received": traffic.received,
            })
        };
        let legs: Vec<serde_json::Value> = sample.legs.iter().map(leg).collect();
        match self.format {
            Lines::Json => {
                let at = sample.at.as_secs_f64();
                let cpu = sample.busiest_cpu;
                println!(
                    "{}",
                    serde_json::json!({"sample": at, "busiest_cpu": cpu, "legs": legs})
                );
            }
            Lines::Text => {
                let shown: Vec<String> = legs.iter().map(shown_leg).collect();
                let (at, cpu) = (sample.at.as_secs(), sample.busiest_cpu * 100.0);
                println!("{at:>6} s  {}; busiest CPU {cpu:.0} %", shown.join("; "));
            }
        }
    }

    fn decision(&self, decision: &Decision) {
        let text = decision.text(&self.hosts);
        match self.format {
            Lines::Text => println!("{:>6} s  {text}", decision.at.as_secs()),
            Lines::Json => {
                let line = DecisionLine { decision, text };
                println!("{}", serde_json::json!(line));
            }
        }
    }

    /// An advice, unless it was the last one.
    fn placement(&mut self, advice: Option<Placement>) {
        let Some(advice) = advice else {
            return;
        };
        let shifts = |advice: &Placement| advice.shifts.clone();
        if self.advised.as_ref().map(shifts) == Some(shifts(&advice)) {
            return;
        }
        match self.format {
            Lines::Text => println!("placement: {}", advice.text()),
            Lines::Json => println!("{}", serde_json::json!({"placement": advice})),
        }
        self.advised = Some(advice);
    }
}
