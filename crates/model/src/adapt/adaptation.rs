//! The state of an adaptation, and its steps.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::cost::{self, Costs, Means};
use super::decision::{Benefit, Choice, Decision, Object, Step};
use super::rule::{Offer, Rule};
use super::sample::{Pair, Sample, WINDOW};

/// Windows that are remembered: a minute.
const WINDOWS: usize = 12;

/// Windows of these that have to agree before a change, the latest among them. Not in a row: a load that comes and goes
/// every few seconds is one, too.
const AGREEING_WINDOWS: usize = 3;

/// Predicted costs above this share of the present one are no gain.
const WORTHWHILE: f64 = 0.80;

/// Probes in a row without an answer after which a leg counts as dead; one is sent each second.
const DEAD_PROBES: usize = 3;

/// The classes of changes that a caller allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowed {
    /// A network's links may become direct ones, and tunnels again.
    pub carriers: bool,
    /// Frames of two hosts may go by a third one.
    pub routes: bool,
}

/// The state of an adaptation: the choices in effect, and the memory of past samples.
#[derive(Debug, Default)]
pub struct Adaptation {
    allowed: Allowed,
    /// Whether all hosts are on one Ethernet segment.
    has_segment: bool,
    choices: BTreeMap<Object, Choice>,
    samples: VecDeque<Sample>,
    costs: Costs,
    rule: Rule,
}

impl Adaptation {
    /// Everything begins as it is configured: straight ways, over tunnels. `has_segment`: direct links would reach all hosts.
    #[must_use]
    pub fn new(allowed: Allowed, has_segment: bool) -> Adaptation {
        Adaptation {
            allowed,
            has_segment,
            ..Adaptation::default()
        }
    }

    /// The choice in effect.
    #[must_use]
    pub fn choice(&self, object: Object) -> Choice {
        let default = match object {
            Object::Way(_) => Choice::Straight,
            Object::Carrier => Choice::Tunnel,
        };
        self.choices.get(&object).copied().unwrap_or(default)
    }

    /// Takes a sample, and decides. The caller carries out every [`Step::Change`] and [`Step::Undo`] before the next
    /// sample, and tells [`failed`](Self::failed) where it could not.
    pub fn step(&mut self, sample: Sample) -> Vec<Decision> {
        let now = sample.at;
        self.samples.push_back(sample);
        while self.samples.len() > WINDOWS * WINDOW {
            self.samples.pop_front();
        }
        let mut steps = self.fail_over(now);
        let windows = self.windows();
        if let Some(latest) = windows.first() {
            self.costs.learn(now, latest);
            steps.extend(self.verify(now));
            steps.extend(self.offer(now, &windows));
        }
        let decision = |(object, step)| Decision {
            at: now,
            object,
            step,
        };
        steps.into_iter().map(decision).collect()
    }

    /// A change that could not be made: the choice before it stays, and the object is left alone for its pause.
    pub fn failed(&mut self, now: Duration, object: Object, before: Choice) {
        self.set(object, before);
        self.rule.failed(now, object);
    }

    /// Means of the last windows, the latest first.
    fn windows(&self) -> Vec<Means> {
        let samples: Vec<&Sample> = self.samples.iter().collect();
        samples.rchunks_exact(WINDOW).map(Means::of).collect()
    }

    fn set(&mut self, object: Object, choice: Choice) {
        match choice {
            Choice::Straight | Choice::Tunnel => self.choices.remove(&object),
            other => self.choices.insert(object, other),
        };
    }

    /// Leaves ways with a dead leg at once, for one whose legs all answer. Failure is no adaptation: no gain is asked for.
    fn fail_over(&mut self, now: Duration) -> Vec<(Object, Step)> {
        if !self.allowed.routes || !self.may_leave_straight() {
            return Vec::new();
        }
        let mut steps = Vec::new();
        for (pair, from, to) in self.dead_ways() {
            let object = Object::Way(pair);
            self.set(object, to);
            self.rule.failed_over(now, object);
            steps.push((object, Step::FailOver { from, to }));
        }
        steps
    }

    /// Pairs whose way is dead, with it and one that is alive.
    fn dead_ways(&self) -> Vec<(Pair, Choice, Choice)> {
        let last: Vec<&Sample> = self.samples.iter().rev().take(DEAD_PROBES).collect();
        if last.len() < DEAD_PROBES {
            return Vec::new();
        }
        let answers = |sample: &&Sample, leg: &Pair| {
            sample
                .legs
                .get(leg)
                .is_some_and(|leg| leg.round_trip.is_some())
        };
        let is_dead = |leg: &Pair| !last.iter().any(|sample| answers(sample, leg));
        let is_alive = |leg: &Pair| last.iter().all(|sample| answers(sample, leg));
        let way_out = |pair: &Pair| {
            let from = self.choice(Object::Way(*pair));
            if !cost::legs_of(*pair, from).iter().any(is_dead) {
                return None;
            }
            let mut ways = cost::ways_of(*pair, &last[0].legs).into_iter();
            let to = ways.find(|way| cost::legs_of(*pair, *way).iter().all(is_alive))?;
            Some((*pair, from, to))
        };
        last[0].legs.keys().filter_map(way_out).collect()
    }

    /// On one segment all frames share a direct link, which leads to all hosts: there is no third one to go by.
    fn may_leave_straight(&self) -> bool {
        self.choice(Object::Carrier) == Choice::Tunnel
    }

    /// Keeps or takes back what is on trial.
    fn verify(&mut self, now: Duration) -> Vec<(Object, Step)> {
        let mut steps = Vec::new();
        for object in self.rule.on_trial() {
            let benefit = |samples: usize| {
                let last: Vec<&Sample> = self.samples.iter().rev().take(samples).collect();
                self.benefit(object, &Means::of(&last))
            };
            let (brief, long) = (benefit(2), benefit(WINDOW));
            let Some(step) = self.rule.verify(now, object, brief, long) else {
                continue;
            };
            if let Step::Undo { from, to, gain } = step {
                self.set(object, to);
                self.costs.tried_in_vain(now, object, from, gain);
            }
            steps.push((object, step));
        }
        steps
    }

    fn benefit(&self, object: Object, means: &Means) -> Benefit {
        let (traffic, legs) = match object {
            Object::Way(pair) => {
                let legs = cost::legs_of(pair, self.choice(object));
                (means.traffic(pair), legs)
            }
            Object::Carrier => (means.all_traffic(), Vec::new()),
        };
        let round_trip = means.round_trip(&legs).filter(|_| !legs.is_empty());
        Benefit {
            bytes_per_second: traffic.received,
            delivered: match traffic.sent > 0.0 {
                true => traffic.received / traffic.sent,
                false => 1.0,
            },
            round_trip,
            is_full: round_trip.is_some_and(|time| self.costs.is_full(&legs, time)),
        }
    }

    fn offer(&mut self, now: Duration, windows: &[Means]) -> Vec<(Object, Step)> {
        let mut steps = Vec::new();
        let latest = &windows[0];
        for object in latest.pairs().map(Object::Way).chain([Object::Carrier]) {
            let from = self.choice(object);
            let Some((to, predicted)) = self.gain(now, object, windows) else {
                self.rule.withdrawn(object);
                continue;
            };
            let is_allowed = match object {
                Object::Way(_) => self.allowed.routes,
                Object::Carrier => self.allowed.carriers,
            };
            let before = self.benefit(object, latest);
            let offer = Offer {
                choices: [from, to],
                predicted,
                is_allowed,
                before,
            };
            let Some(step) = self.rule.consider(now, object, offer) else {
                continue;
            };
            if let Step::Change { .. } = step {
                self.costs.left(now, object, from, latest);
                self.set(object, to);
            }
            steps.push((object, step));
        }
        steps
    }

    /// The best other choice of an object with its predicted cost, if the latest window and enough of the others agree that
    /// it is worthwhile.
    fn gain(&self, now: Duration, object: Object, windows: &[Means]) -> Option<(Choice, f64)> {
        let from = self.choice(object);
        let to = match object {
            Object::Way(pair) if self.may_leave_straight() => {
                self.costs.best_way(now, pair, &windows[0], from)
            }
            Object::Way(_) => None,
            Object::Carrier => {
                let is_straight = self.choices.keys().all(|other| *other == Object::Carrier);
                let is_possible = self.has_segment && is_straight;
                let best = || self.costs.best_carrier(now, &windows[0], from);
                is_possible.then(best).flatten()
            }
        }?;
        let ratio = |means: &Means| cost::ratio(object, [from, to], means);
        let agreeing: Vec<f64> = windows
            .iter()
            .filter_map(ratio)
            .filter(|ratio| *ratio <= WORTHWHILE)
            .collect();
        let is_now = ratio(&windows[0]).is_some_and(|ratio| ratio <= WORTHWHILE);
        let is_healthy = windows
            .iter()
            .all(|means| cost::is_healthy(object, to, means));
        let is_offer = is_now && agreeing.len() >= AGREEING_WINDOWS && is_healthy;
        is_offer.then(|| (to, agreeing.iter().sum::<f64>() / agreeing.len() as f64))
    }
}
