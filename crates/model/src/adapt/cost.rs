//! Predictions: what another choice would cost, as a ratio to the present one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::decision::{Choice, Object};
use super::sample::{Pair, Sample, Traffic};

/// Least gain in round trip; below it, noise of probes decides.
const MIN_ROUND_TRIP_GAIN: Duration = Duration::from_micros(50);

/// CPU time a byte over a direct link, as a ratio to a VXLAN tunnel's (`bench/overlay-containers`).
const DIRECT_COST: f64 = 0.6;

/// Share of a CPU above which it limits what is forwarded.
const BUSY: f64 = 0.90;

/// Least traffic, in bytes a second, for which a carrier is changed.
const MIN_CARRIER_TRAFFIC: f64 = 10e6;

/// Least traffic of a pair, in bytes a second, for which a third host carries it.
const MIN_TRAFFIC: f64 = 100e3;

/// Round trip that a probe without an answer counts as.
const LOST: Duration = Duration::from_secs(1);

/// Shortest wait in a queue that counts as full.
const MIN_QUEUE: Duration = Duration::from_millis(1);

/// Capacity that a leg has at least, as a ratio to the largest demand: a full one would be left again.
const ROOM: f64 = 1.2;

/// Lifetime of a learned capacity and of a peak demand.
const MEMORY: Duration = Duration::from_secs(600);

/// Lifetime of a prediction that did not come true.
const MISTAKE_MEMORY: Duration = Duration::from_secs(3600);

/// Means over a window.
#[derive(Debug, Clone, Default)]
pub(super) struct Means {
    /// Round trips.
    legs: BTreeMap<Pair, Duration>,
    traffic: BTreeMap<Pair, Traffic>,
    busiest_cpu: f64,
}

impl Means {
    pub fn of(samples: &[&Sample]) -> Means {
        let count = samples.len().max(1) as f64;
        let mut means = Means::default();
        let mut round_trips: BTreeMap<Pair, Vec<Duration>> = BTreeMap::new();
        for sample in samples {
            for (pair, leg) in &sample.legs {
                let time = leg.round_trip.unwrap_or(LOST);
                round_trips.entry(*pair).or_default().push(time);
            }
            for (pair, traffic) in &sample.traffic {
                let mean = means.traffic.entry(*pair).or_default();
                mean.sent += traffic.sent / count;
                mean.received += traffic.received / count;
            }
            means.busiest_cpu += sample.busiest_cpu / count;
        }
        for (pair, times) in round_trips {
            means.legs.insert(pair, second_longest(times));
        }
        means
    }

    pub fn pairs(&self) -> impl Iterator<Item = Pair> + '_ {
        self.legs.keys().copied()
    }

    pub fn traffic(&self, pair: Pair) -> Traffic {
        self.traffic.get(&pair).copied().unwrap_or_default()
    }

    pub fn all_traffic(&self) -> Traffic {
        let mut sum = Traffic::default();
        for traffic in self.traffic.values() {
            sum.sent += traffic.sent;
            sum.received += traffic.received;
        }
        sum
    }

    /// The sum over legs; none where there is no such leg.
    pub fn round_trip(&self, legs: &[Pair]) -> Option<Duration> {
        legs.iter().map(|leg| self.legs.get(leg).copied()).sum()
    }

    /// Whether probes on a leg were lost, more than one that may meet a full queue.
    fn has_lost(&self, legs: &[Pair]) -> bool {
        legs.iter()
            .any(|leg| self.legs.get(leg).is_none_or(|time| *time >= LOST))
    }
}

/// A queue that was full in two of five seconds counts, a single late answer does not.
fn second_longest(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let at = times.len().saturating_sub(2);
    times.get(at).copied().unwrap_or(LOST)
}

/// The links that frames of a pair pass.
pub(super) fn legs_of(pair: Pair, way: Choice) -> Vec<Pair> {
    let [a, b] = pair.ends();
    match way {
        Choice::Through(third) => vec![Pair::new(a, third), Pair::new(third, b)],
        _ => vec![pair],
    }
}

/// All ways of a pair that links lead along, the straight one first.
pub(super) fn ways_of<T>(pair: Pair, legs: &BTreeMap<Pair, T>) -> Vec<Choice> {
    let hosts = legs.keys().flat_map(|leg| leg.ends());
    let thirds: BTreeSet<usize> = hosts.filter(|host| !pair.ends().contains(host)).collect();
    let through = thirds.into_iter().map(Choice::Through);
    let all = [Choice::Straight].into_iter().chain(through);
    all.filter(|way| legs_of(pair, *way).iter().all(|leg| legs.contains_key(leg)))
        .collect()
}

/// A number with the time when it was measured.
#[derive(Debug, Clone, Copy)]
struct Measured {
    value: f64,
    at: Duration,
}

impl Measured {
    fn within(self, now: Duration, lifetime: Duration) -> Option<f64> {
        (now.saturating_sub(self.at) < lifetime).then_some(self.value)
    }
}

/// Memory of what was measured, from which costs are predicted.
#[derive(Debug, Default)]
pub struct Costs {
    /// Shortest round trip of each leg.
    floors: BTreeMap<Pair, Duration>,
    /// Bytes a second that a leg carried when it was left because it was full.
    capacities: BTreeMap<Pair, Measured>,
    /// Largest traffic of each pair, in bytes a second.
    peaks: BTreeMap<Pair, Measured>,
    /// Measured ratios of choices that were tried in vain.
    mistakes: BTreeMap<(Object, Choice), Measured>,
}

impl Costs {
    /// Remembers the largest traffic of each pair, and the shortest round trip of each leg.
    pub(super) fn learn(&mut self, now: Duration, means: &Means) {
        for (pair, traffic) in &means.traffic {
            let new = Measured {
                value: traffic.received,
                at: now,
            };
            let peak = self.peaks.entry(*pair).or_insert(new);
            if peak
                .within(now, MEMORY)
                .is_none_or(|value| value <= new.value)
            {
                *peak = new;
            }
        }
        for (leg, time) in &means.legs {
            let floor = self.floors.entry(*leg).or_insert(*time);
            *floor = (*floor).min(*time);
        }
    }

    /// Whether a queue on these legs is full: the round trip is far longer than it could be.
    pub(super) fn is_full(&self, legs: &[Pair], round_trip: Duration) -> bool {
        let floor: Option<Duration> = legs.iter().map(|leg| self.floors.get(leg)).sum();
        floor.is_some_and(|floor| round_trip >= (4 * floor).max(floor + MIN_QUEUE))
    }

    /// A pair leaves a way: its straight leg carried this much, and more was wanted.
    pub(super) fn left(&mut self, now: Duration, object: Object, from: Choice, means: &Means) {
        if let (Object::Way(pair), Choice::Straight) = (object, from) {
            let value = means.traffic(pair).received;
            self.capacities.insert(pair, Measured { value, at: now });
        }
    }

    /// A choice that was tried in vain, with the ratio of its measured cost.
    pub(super) fn tried_in_vain(
        &mut self,
        now: Duration,
        object: Object,
        choice: Choice,
        gain: f64,
    ) {
        let measured = Measured {
            value: gain,
            at: now,
        };
        self.mistakes.insert((object, choice), measured);
    }

    fn was_mistake(&self, now: Duration, object: Object, choice: Choice) -> bool {
        let mistake = self.mistakes.get(&(object, choice));
        mistake.is_some_and(|mistake| mistake.within(now, MISTAKE_MEMORY).is_some())
    }

    /// The other way of a pair with the shortest round trip. A way with a leg that would not carry the pair's largest
    /// traffic of late is none; a pair without traffic gains nothing by a third host.
    pub(super) fn best_way(
        &self,
        now: Duration,
        pair: Pair,
        means: &Means,
        from: Choice,
    ) -> Option<Choice> {
        let object = Object::Way(pair);
        if from == Choice::Straight && means.traffic(pair).sent < MIN_TRAFFIC {
            return None;
        }
        let peak = self
            .peaks
            .get(&pair)
            .and_then(|peak| peak.within(now, MEMORY));
        let peak = peak.unwrap_or_default();
        let fits = |leg: &Pair| {
            let capacity = self.capacities.get(leg);
            let capacity = capacity.and_then(|capacity| capacity.within(now, MEMORY));
            capacity.is_none_or(|capacity| capacity >= ROOM * peak)
        };
        let others = ways_of(pair, &means.legs)
            .into_iter()
            .filter(|way| *way != from);
        let usable = others.filter(|way| {
            !self.was_mistake(now, object, *way) && legs_of(pair, *way).iter().all(fits)
        });
        let timed = usable.filter_map(|way| Some((means.round_trip(&legs_of(pair, way))?, way)));
        let (_, way) = timed.min()?;
        Some(way)
    }

    /// Direct links instead of tunnels, where a CPU limits much traffic.
    pub(super) fn best_carrier(
        &self,
        now: Duration,
        means: &Means,
        from: Choice,
    ) -> Option<Choice> {
        let is_limited =
            means.busiest_cpu >= BUSY && means.all_traffic().received >= MIN_CARRIER_TRAFFIC;
        let is_offer = from == Choice::Tunnel
            && is_limited
            && !self.was_mistake(now, Object::Carrier, Choice::Direct);
        is_offer.then_some(Choice::Direct)
    }
}

/// Whether all probes on a way were answered, but single ones.
pub(super) fn is_healthy(object: Object, way: Choice, means: &Means) -> bool {
    match object {
        Object::Way(pair) => !means.has_lost(&legs_of(pair, way)),
        Object::Carrier => true,
    }
}

/// Predicted cost of another choice as a ratio to the present one's; none where it is not known. A way costs its
/// round trip: a full wire has a long one.
pub(super) fn ratio(object: Object, [from, to]: [Choice; 2], means: &Means) -> Option<f64> {
    match object {
        Object::Way(pair) => {
            let [from, to] = [from, to].map(|way| means.round_trip(&legs_of(pair, way)));
            let (from, to) = (from?, to?);
            let is_noise = from.saturating_sub(to) < MIN_ROUND_TRIP_GAIN;
            let ratio = to.as_secs_f64() / from.as_secs_f64().max(f64::MIN_POSITIVE);
            Some(if is_noise { ratio.max(1.0) } else { ratio })
        }
        Object::Carrier => {
            let is_limited = means.busiest_cpu >= BUSY;
            Some(if is_limited { DIRECT_COST } else { 1.0 })
        }
    }
}
