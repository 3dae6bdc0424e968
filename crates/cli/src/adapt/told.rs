//! Lines of `latlab adapt`: for people, or a JSON object each.

use std::time::Duration;

use latlab_model::adapt::{Decision, Leg, Pair, Placement, PortDecision, Sample};
use serde::Serialize;

use super::hosts::Hosts;
use crate::format::Lines;

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
pub(super) struct Told {
    format: Lines,
    hosts: Vec<String>,
    advised: Option<Placement>,
}

#[derive(Serialize)]
struct DecisionLine<'a, T> {
    #[serde(flatten)]
    decision: &'a T,
    text: String,
}

impl Told {
    pub(super) fn begin(format: Lines, hosts: Option<&Hosts>, has_streams: bool) -> Told {
        let names = hosts.map(Hosts::names).unwrap_or_default();
        let has_segment = hosts.is_some_and(|hosts| hosts.segment().is_some());
        match format {
            Lines::Text => {
                let mut watched = Vec::new();
                if hosts.is_some() {
                    let are = if has_segment {
                        "all are"
                    } else {
                        "not all are"
                    };
                    let names = names.join(", ");
                    watched.push(format!("{names}; {are} on one Ethernet segment"));
                }
                if has_streams {
                    watched.push("ports with streams".to_owned());
                }
                println!("watching {}", watched.join("; "));
            }
            Lines::Json => {
                let line = serde_json::json!(
                    {"hosts": names, "segment": has_segment, "streams": has_streams}
                );
                println!("{line}");
            }
        }
        Told {
            format,
            hosts: names,
            advised: None,
        }
    }

    pub(super) fn note(&self, text: &str) {
        match self.format {
            Lines::Text => println!("{text}"),
            Lines::Json => println!("{}", serde_json::json!({"note": text})),
        }
    }

    pub(super) fn sample(&self, sample: &Sample) {
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

    pub(super) fn decision(&self, decision: &Decision) {
        self.decided(decision.at, decision, decision.text(&self.hosts));
    }

    pub(super) fn port(&self, decision: &PortDecision) {
        self.decided(decision.at, decision, decision.text());
    }

    fn decided(&self, at: Duration, decision: &impl Serialize, text: String) {
        match self.format {
            Lines::Text => println!("{:>6} s  {text}", at.as_secs()),
            Lines::Json => {
                let line = DecisionLine { decision, text };
                println!("{}", serde_json::json!(line));
            }
        }
    }

    /// An advice, unless it was the last one.
    pub(super) fn placement(&mut self, advice: Option<Placement>) {
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
