//! The rule by which predicted gains are tried, kept and taken back.
//!
//! A choice changes only if the object was left alone for its pause and no other object has changed for
//! [`SPACING`]. It is then on trial: unless the measured cost falls by 5 % within [`TRIAL`], it is taken back and the
//! pause doubles. So under steady traffic every kept change takes 5 % off a measured cost, which there are finitely many
//! of, and taken-back ones are at most log2 of the time over the pause.

use std::collections::BTreeMap;
use std::time::Duration;

use super::decision::{Benefit, Choice, Object, Reason, Step};

/// Shortest time between two changes of an object.
const PAUSE: Duration = Duration::from_secs(30);

const MAX_PAUSE: Duration = Duration::from_secs(3600);

/// Shortest time between changes of different objects.
const SPACING: Duration = Duration::from_secs(10);

/// Time after a change within which it has to come true.
const TRIAL: Duration = Duration::from_secs(10);

/// Time after a change before a collapse is believed: connections retransmit once.
const SETTLING: Duration = Duration::from_secs(3);

/// Share of the cost before that a kept change has at most.
const KEPT: f64 = 0.95;

/// Share of the traffic before, or of the bytes sent, below which a trial ends early.
const COLLAPSED: f64 = 0.50;

/// Share of the bytes sent below which a choice loses frames. Bytes on their way at the ends of a window are a few percent.
const LOSSY: f64 = 0.90;

/// A predicted gain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    /// The present choice, and the other one.
    pub choices: [Choice; 2],
    pub predicted: f64,
    pub is_allowed: bool,
    pub before: Benefit,
}

#[derive(Debug, Clone, Copy)]
struct Trial {
    before: [Choice; 2],
    benefit: Benefit,
    since: Duration,
}

#[derive(Debug, Clone)]
struct Record {
    pause: Duration,
    /// Not to be changed before.
    until: Duration,
    /// When a trial last failed; the pause halves for each quiet hour since.
    failed: Duration,
    trial: Option<Trial>,
    refused: Option<(Choice, Reason)>,
}

impl Default for Record {
    fn default() -> Record {
        Record {
            pause: PAUSE,
            until: Duration::ZERO,
            failed: Duration::ZERO,
            trial: None,
            refused: None,
        }
    }
}

#[derive(Debug, Default)]
pub struct Rule {
    records: BTreeMap<Object, Record>,
    /// Until when no other object is changed.
    spaced: Duration,
}

impl Rule {
    pub(super) fn on_trial(&self) -> Vec<Object> {
        let on_trial = self
            .records
            .iter()
            .filter(|(_, record)| record.trial.is_some());
        on_trial.map(|(object, _)| *object).collect()
    }

    /// A predicted gain in all windows: a change, a refusal that was not told yet, or nothing.
    pub(super) fn consider(&mut self, now: Duration, object: Object, offer: Offer) -> Option<Step> {
        let Offer {
            choices: [from, to],
            predicted,
            is_allowed,
            before,
        } = offer;
        let spaced = self.spaced;
        let is_other_on_trial = !self.on_trial().is_empty();
        let record = self.records.entry(object).or_default();
        if record.trial.is_some() {
            return None;
        }
        let reason = if !is_allowed {
            Some(Reason::NotAllowed)
        } else if now < record.until {
            let until = record.until;
            Some(Reason::LeftAlone { until })
        } else if now < spaced || is_other_on_trial {
            Some(Reason::OneAtATime)
        } else {
            None
        };
        if let Some(reason) = reason {
            let told = record.refused.replace((to, reason));
            let is_new = told != Some((to, reason));
            return is_new.then_some(Step::Refuse {
                from,
                to,
                predicted,
                reason,
            });
        }
        record.refused = None;
        record.trial = Some(Trial {
            before: [from, to],
            benefit: before,
            since: now,
        });
        record.until = now + record.pause;
        self.spaced = now + SPACING;
        Some(Step::Change {
            from,
            to,
            predicted,
            before,
        })
    }

    /// Ends a trial: early where traffic has collapsed, as `brief` shows it, else after [`TRIAL`].
    pub(super) fn verify(
        &mut self,
        now: Duration,
        object: Object,
        brief: Benefit,
        long: Benefit,
    ) -> Option<Step> {
        let record = self.records.get_mut(&object)?;
        let trial = record.trial?;
        let age = now.saturating_sub(trial.since);
        let [from, to] = trial.before;
        let is_less = brief.bytes_per_second < COLLAPSED * trial.benefit.bytes_per_second;
        let may_be_the_way = brief.is_full || brief.round_trip.is_none();
        let has_collapsed = brief.delivered < COLLAPSED || (is_less && may_be_the_way);
        let seen = match age {
            age if age >= TRIAL => long,
            age if age >= SETTLING && has_collapsed => brief,
            _ => return None,
        };
        record.trial = None;
        let gain = cost_ratio(trial.benefit, seen);
        if gain <= KEPT {
            let quiet = now.saturating_sub(record.failed).as_secs() / 3600;
            let halved = record.pause / 2_u32.pow(u32::try_from(quiet).unwrap_or(31).min(31));
            record.pause = halved.max(PAUSE);
            record.until = now + record.pause;
            return Some(Step::Keep {
                choice: to,
                gain,
                after: seen,
            });
        }
        record.double_pause(now);
        self.spaced = now + SPACING;
        Some(Step::Undo {
            from: to,
            to: from,
            gain,
        })
    }

    /// A change that could not be made.
    pub(super) fn failed(&mut self, now: Duration, object: Object) {
        let record = self.records.entry(object).or_default();
        record.trial = None;
        record.double_pause(now);
    }

    /// A change for a dead way, which is on no trial.
    pub(super) fn failed_over(&mut self, now: Duration, object: Object) {
        let record = self.records.entry(object).or_default();
        record.trial = None;
        record.until = now + record.pause;
        self.spaced = now + SPACING;
    }

    /// A predicted gain that is there no more may be told again when it returns.
    pub(super) fn withdrawn(&mut self, object: Object) {
        if let Some(record) = self.records.get_mut(&object) {
            record.refused = None;
        }
    }
}

impl Record {
    fn double_pause(&mut self, now: Duration) {
        self.until = now + self.pause;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        self.failed = now;
    }
}

/// Cost after a change as a ratio to the cost before. Where a queue is full, or no round trip is known, more traffic is time
/// saved for each byte. Else an application sends what it has, and the round trip is the cost.
fn cost_ratio(before: Benefit, after: Benefit) -> f64 {
    if after.delivered < LOSSY {
        return 1.0 / after.delivered.max(1e-3);
    }
    match (before.round_trip, after.round_trip) {
        (Some(before), Some(now)) if !after.is_full => {
            now.as_secs_f64() / before.as_secs_f64().max(f64::MIN_POSITIVE)
        }
        _ => before.bytes_per_second / after.bytes_per_second.max(1.0),
    }
}
