//! Decisions, and their words.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::sample::Pair;

/// Objects of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Object {
    /// The way of frames between two hosts.
    Way(Pair),
    /// The links of all hosts.
    Carrier,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// By the link between the two hosts.
    Straight,
    /// By a third host, of this number.
    Through(usize),
    /// Tunnels, as configured.
    Tunnel,
    /// Bare frames on the segment that all hosts share.
    Direct,
}

/// Measured quality of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Benefit {
    pub bytes_per_second: f64,
    /// Share of the bytes sent that came in.
    pub delivered: f64,
    #[serde(serialize_with = "seconds_if_known")]
    pub round_trip: Option<Duration>,
    /// Whether the round trip shows a full queue.
    pub is_full: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// To be carried out, on trial.
    Change {
        from: Choice,
        to: Choice,
        /// Predicted cost, as a ratio to the cost now.
        predicted: f64,
        before: Benefit,
    },
    /// The trial came true.
    Keep {
        choice: Choice,
        /// Measured cost, as a ratio to the cost before.
        gain: f64,
        after: Benefit,
    },
    /// To be carried out: the trial did not come true.
    Undo { from: Choice, to: Choice, gain: f64 },
    /// To be carried out: the way was dead.
    FailOver { from: Choice, to: Choice },
    /// A gain that is not taken.
    Refuse {
        from: Choice,
        to: Choice,
        predicted: f64,
        reason: Reason,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    NotAllowed,
    /// The object was changed, or a trial of it failed, not long ago.
    LeftAlone {
        until: Duration,
    },
    /// Another object was changed a moment ago.
    OneAtATime,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Decision {
    /// Time since the first sample.
    #[serde(serialize_with = "seconds")]
    pub at: Duration,
    pub object: Object,
    #[serde(flatten)]
    pub step: Step,
}

impl Decision {
    /// The change to carry out, from one choice to another.
    #[must_use]
    pub const fn change(&self) -> Option<[Choice; 2]> {
        match self.step {
            Step::Change { from, to, .. }
            | Step::Undo { from, to, .. }
            | Step::FailOver { from, to } => Some([from, to]),
            Step::Keep { .. } | Step::Refuse { .. } => None,
        }
    }

    /// In words, with its numbers and the names of the hosts.
    #[must_use]
    pub fn text(&self, hosts: &[String]) -> String {
        let object = match self.object {
            Object::Way(pair) => {
                let [a, b] = pair.ends().map(|host| name(hosts, host));
                format!("frames between {a} and {b}")
            }
            Object::Carrier => "links of all hosts".to_owned(),
        };
        let shown = |choice: Choice| shown(choice, hosts);
        let percent = |ratio: f64| format!("{:.0} %", ratio * 100.0);
        let step = match self.step {
            Step::Change {
                from,
                to,
                predicted,
                before,
            } => format!(
                "{} instead of {}, on trial: cost should become {} of now's ({})",
                shown(to),
                shown(from),
                percent(predicted),
                measured(before)
            ),
            Step::Keep {
                choice,
                gain,
                after,
            } => format!(
                "{} is kept: cost became {} ({})",
                shown(choice),
                percent(gain),
                measured(after)
            ),
            Step::Undo { from, to, gain } => format!(
                "{} again instead of {}: cost became {}",
                shown(to),
                shown(from),
                percent(gain)
            ),
            Step::FailOver { from, to } => format!(
                "{} instead of {}, where probes are not answered",
                shown(to),
                shown(from)
            ),
            Step::Refuse {
                from,
                to,
                predicted,
                reason,
            } => {
                let reason = match reason {
                    Reason::NotAllowed => "this may not be changed".to_owned(),
                    Reason::LeftAlone { until } => {
                        let left = until.saturating_sub(self.at).as_secs();
                        format!("left alone for another {left} s")
                    }
                    Reason::OneAtATime => "one change at a time".to_owned(),
                };
                format!(
                    "{} stays: {} should cost {} of it, but {reason}",
                    shown(from),
                    shown(to),
                    percent(predicted)
                )
            }
        };
        format!("{object}: {step}")
    }
}

fn name(hosts: &[String], host: usize) -> &str {
    hosts.get(host).map_or("?", String::as_str)
}

fn shown(choice: Choice, hosts: &[String]) -> String {
    match choice {
        Choice::Straight => "the straight way".to_owned(),
        Choice::Through(host) => format!("the way by {}", name(hosts, host)),
        Choice::Tunnel => "tunnels".to_owned(),
        Choice::Direct => "direct frames".to_owned(),
    }
}

fn measured(benefit: Benefit) -> String {
    let rate = format!("{:.1} Mbit/s", benefit.bytes_per_second * 8.0 / 1e6);
    match benefit.round_trip {
        Some(time) => format!("{rate}, round trip {:.2} ms", time.as_secs_f64() * 1e3),
        None => rate,
    }
}

pub(super) fn seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

fn seconds_if_known<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(to)
}
