//! Servers' ports whose connections are too short to be streams.
//!
//! A stream carries bulk traffic faster than a connection, and takes longer to set up. So a port to which connections are
//! made one after the other is better off without, until that is over.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;

use super::decision::seconds;

/// Time to set up and close a stream beyond that of a connection (`bench/streams --what connect`).
const SETUP: Duration = Duration::from_micros(150);

const WINDOW: Duration = Duration::from_secs(5);

/// Windows in a row that have to agree.
const AGREEING_WINDOWS: u32 = 3;

/// Share of a second that is spent on setting up, from which on plain connections are tried.
const TOO_MUCH: f64 = 0.10;

/// Share below which they may be streams again.
const LITTLE: f64 = 0.02;

/// Time after a change within which it has to come true.
const TRIAL: Duration = Duration::from_secs(10);

/// Connections a second of those before: a change is kept from the first on; below the second the load has changed.
const KEPT: f64 = 1.05;
const OVER: f64 = 0.50;

/// Shortest time between two changes of a port. It doubles with every trial that fails.
const PAUSE: Duration = Duration::from_secs(20);
const MAX_PAUSE: Duration = Duration::from_secs(3600);

/// A server's name and its port.
pub type ServerPort = (String, u16);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PortDecision {
    /// Time since the first sample.
    #[serde(serialize_with = "seconds")]
    pub at: Duration,
    pub server: String,
    pub port: u16,
    #[serde(flatten)]
    pub step: PortStep,
}

/// Rates are connections a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum PortStep {
    /// To be carried out, on trial: connections stay plain.
    Plain { rate: f64, setup: f64 },
    /// The same, which may not be changed.
    Refuse { rate: f64, setup: f64 },
    /// The trial came true.
    Keep { before: f64, after: f64 },
    /// To be carried out: the trial did not come true, so connections are streams again.
    Undo { before: f64, after: f64 },
    /// To be carried out: few connections are made now, so they are streams again.
    Streams { rate: f64 },
}

impl PortDecision {
    /// Whether connections to the port are to be streams, where that changes.
    #[must_use]
    pub const fn change(&self) -> Option<bool> {
        match self.step {
            PortStep::Plain { .. } => Some(false),
            PortStep::Undo { .. } | PortStep::Streams { .. } => Some(true),
            PortStep::Keep { .. } | PortStep::Refuse { .. } => None,
        }
    }

    /// In words, with its numbers.
    #[must_use]
    pub fn text(&self) -> String {
        let step = match self.step {
            PortStep::Plain { rate, setup } => format!(
                "connections stay plain, on trial: {rate:.0} a second would spend {:.0} % of it on setting up streams",
                setup * 100.0
            ),
            PortStep::Refuse { rate, setup } => format!(
                "connections should stay plain, since {rate:.0} a second spend {:.0} % of it on setting up streams, but \
                 this may not be changed",
                setup * 100.0
            ),
            PortStep::Keep { before, after } => {
                format!("connections stay plain: {after:.0} a second after {before:.0}")
            }
            PortStep::Undo { before, after } => {
                format!("connections are streams again: {after:.0} a second after {before:.0}")
            }
            PortStep::Streams { rate } => {
                format!("connections are streams again: {rate:.1} are made a second")
            }
        };
        format!("port {} of {}: {step}", self.port, self.server)
    }
}

/// Decides by the number of connections to each port, a sample a second.
#[derive(Debug, Default)]
pub struct Ports {
    is_allowed: bool,
    ports: BTreeMap<ServerPort, Port>,
}

#[derive(Debug)]
struct Port {
    /// Connections until then, the latest last.
    samples: VecDeque<(Duration, u64)>,
    is_plain: bool,
    /// When a trial began, and the rate before it.
    trial: Option<(Duration, f64)>,
    /// Not to be changed before.
    until: Duration,
    pause: Duration,
    is_refused: bool,
}

impl Default for Port {
    fn default() -> Self {
        Self {
            samples: VecDeque::new(),
            is_plain: false,
            trial: None,
            until: Duration::ZERO,
            pause: PAUSE,
            is_refused: false,
        }
    }
}

impl Ports {
    #[must_use]
    pub fn new(is_allowed: bool) -> Self {
        Self {
            is_allowed,
            ports: BTreeMap::new(),
        }
    }

    /// Takes the connections that were made to each port so far, and decides. The caller carries out every
    /// [`change`](PortDecision::change), and tells [`failed`](Self::failed) where it could not.
    pub fn step(
        &mut self,
        now: Duration,
        connections: impl IntoIterator<Item = (ServerPort, u64)>,
    ) -> Vec<PortDecision> {
        let mut decisions = Vec::new();
        for ((server, number), count) in connections {
            let port = self.ports.entry((server.clone(), number)).or_default();
            port.take(now, count);
            decisions.extend(port.decide(now, self.is_allowed).map(|step| PortDecision {
                at: now,
                server,
                port: number,
                step,
            }));
        }
        decisions
    }

    /// A port that another one has switched: what was seen of it and decided counts no more.
    pub fn forget(&mut self, name: &ServerPort) {
        self.ports.remove(name);
    }

    /// A change that could not be made: what was before stays, and the port is left alone for its pause.
    pub fn failed(&mut self, decision: &PortDecision) {
        let name = (decision.server.clone(), decision.port);
        if let (Some(port), Some(streams)) = (self.ports.get_mut(&name), decision.change()) {
            port.is_plain = streams;
            port.trial = None;
            port.double_pause(decision.at);
        }
    }
}

impl Port {
    fn take(&mut self, now: Duration, count: u64) {
        self.samples.push_back((now, count));
        let oldest = now.saturating_sub(WINDOW * (AGREEING_WINDOWS + 1));
        while self.samples.front().is_some_and(|(at, _)| *at < oldest) {
            self.samples.pop_front();
        }
    }

    /// Connections a second between two moments; none where nothing was seen so early.
    fn rate(&self, from: Duration, to: Duration) -> Option<f64> {
        let at = |moment| self.samples.iter().rev().find(|(at, _)| *at <= moment);
        let ((begin, first), (end, last)) = (at(from)?, at(to)?);
        let seconds = (*end - *begin).as_secs_f64();
        (seconds > 0.0).then(|| last.saturating_sub(*first) as f64 / seconds)
    }

    /// The rates of the last windows, the latest first; none before there are enough.
    fn windows(&self, now: Duration) -> Option<Vec<f64>> {
        let window = |number: u32| {
            let end = now.checked_sub(WINDOW * number)?;
            self.rate(end.checked_sub(WINDOW)?, end)
        };
        (0..AGREEING_WINDOWS).map(window).collect()
    }

    fn decide(&mut self, now: Duration, is_allowed: bool) -> Option<PortStep> {
        if let Some((since, before)) = self.trial {
            return (now >= since + TRIAL).then(|| self.judge(now, since, before));
        }
        let rates = self.windows(now)?;
        let setup = |rate: &f64| rate * SETUP.as_secs_f64();
        let rate = rates[0];
        if self.is_plain {
            let is_over = rates.iter().all(|rate| setup(rate) < LITTLE) && now >= self.until;
            return is_over.then(|| {
                self.is_plain = false;
                self.until = now + self.pause;
                PortStep::Streams { rate }
            });
        }
        if !rates.iter().all(|rate| setup(rate) >= TOO_MUCH) {
            self.is_refused &= !rates.iter().all(|rate| setup(rate) < LITTLE);
            return None;
        }
        let setup = setup(&rate);
        if !is_allowed {
            let is_told = std::mem::replace(&mut self.is_refused, true);
            return (!is_told).then_some(PortStep::Refuse { rate, setup });
        }
        (now >= self.until).then(|| {
            (self.is_plain, self.trial) = (true, Some((now, rate)));
            PortStep::Plain { rate, setup }
        })
    }

    /// Ends a trial. A load that is gone tells nothing of it.
    fn judge(&mut self, now: Duration, since: Duration, before: f64) -> PortStep {
        self.trial = None;
        let after = self.rate(since, now).unwrap_or(before);
        if after >= KEPT * before {
            self.until = now + self.pause;
            return PortStep::Keep { before, after };
        }
        self.is_plain = false;
        match after < OVER * before {
            true => self.until = now + self.pause,
            false => self.double_pause(now),
        }
        PortStep::Undo { before, after }
    }

    fn double_pause(&mut self, now: Duration) {
        self.until = now + self.pause;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections a second by the seconds since the begin and whether they are plain, for some time; what was decided.
    fn decided(
        ports: &mut Ports,
        seconds: std::ops::Range<u64>,
        count: &mut u64,
        load: impl Fn(u64, bool) -> u64,
    ) -> Vec<(u64, PortStep)> {
        let mut steps = Vec::new();
        for second in seconds {
            let name = ("b".to_owned(), 80);
            let is_plain = ports.ports.get(&name).is_some_and(|port| port.is_plain);
            *count += load(second, is_plain);
            let now = Duration::from_secs(second);
            let decisions = ports.step(now, [(name, *count)]);
            steps.extend(
                decisions
                    .into_iter()
                    .map(|decision| (second, decision.step)),
            );
        }
        steps
    }

    #[test]
    fn short_connections_become_plain_and_bulk_has_streams_again() {
        let (mut ports, mut count) = (Ports::new(true), 0);
        let short = |_, is_plain| if is_plain { 10_000 } else { 4_000 };
        let steps = decided(&mut ports, 0..60, &mut count, short);
        assert!(
            matches!(
                steps[..],
                [(15, PortStep::Plain { .. }), (25, PortStep::Keep { .. })]
            ),
            "{steps:?}"
        );
        let steps = decided(&mut ports, 60..120, &mut count, |_, _| 1);
        // Within twenty seconds of the change of load.
        assert!(
            matches!(steps[..], [(74..=76, PortStep::Streams { .. })]),
            "{steps:?}"
        );
    }

    #[test]
    fn a_load_that_gains_nothing_is_tried_ever_more_rarely() {
        let (mut ports, mut count) = (Ports::new(true), 0);
        let steps = decided(&mut ports, 0..3600, &mut count, |_, _| 1_000);
        let trials: Vec<u64> = steps
            .iter()
            .filter_map(|(second, step)| matches!(step, PortStep::Plain { .. }).then_some(*second))
            .collect();
        assert!((4..=9).contains(&trials.len()), "{trials:?}");
        let gaps: Vec<u64> = trials.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.windows(2).all(|pair| pair[1] > pair[0]), "{gaps:?}");
        assert_eq!(steps.len(), 2 * trials.len());
    }

    #[test]
    fn what_may_not_be_changed_is_told_once_and_slow_ports_are_left_alone() {
        let (mut ports, mut count) = (Ports::new(false), 0);
        let steps = decided(&mut ports, 0..300, &mut count, |_, _| 4_000);
        assert!(
            matches!(steps[..], [(15, PortStep::Refuse { .. })]),
            "{steps:?}"
        );
        let mut ports = Ports::new(true);
        let steps = decided(&mut ports, 0..300, &mut count, |second, _| {
            1_000 * u64::from(second % 2 == 0)
        });
        assert_eq!(steps, []);
    }

    #[test]
    fn changes_under_waves_are_bounded_by_the_pause() {
        for period in [1, 5, 20, 60, 120] {
            let (mut ports, mut count) = (Ports::new(true), 0);
            let wave = |second, is_plain| match (second / period % 2, is_plain) {
                (0, true) => 10_000,
                (0, false) => 4_000,
                _ => 0,
            };
            let steps = decided(&mut ports, 0..1200, &mut count, wave);
            let changes = steps
                .iter()
                .filter(|(_, step)| !matches!(step, PortStep::Keep { .. }));
            assert!(
                changes.count() as u64 <= 2 * 1200 / PAUSE.as_secs(),
                "{period}: {steps:?}"
            );
        }
    }

    #[test]
    fn a_port_that_was_forgotten_begins_anew() {
        let (mut ports, mut count) = (Ports::new(true), 0);
        let short = |_, _| 4_000;
        let steps = decided(&mut ports, 0..16, &mut count, short);
        assert!(
            matches!(steps[..], [(15, PortStep::Plain { .. })]),
            "{steps:?}"
        );
        ports.forget(&("b".to_owned(), 80));
        let steps = decided(&mut ports, 16..32, &mut count, short);
        assert!(
            matches!(steps[..], [(31, PortStep::Plain { .. })]),
            "{steps:?}"
        );
    }

    #[test]
    fn a_change_that_failed_leaves_what_was() {
        let (mut ports, mut count) = (Ports::new(true), 0);
        for second in 0..16 {
            count += 4_000;
            let name = ("b".to_owned(), 80);
            for decision in ports.step(Duration::from_secs(second), [(name, count)]) {
                assert_eq!(decision.change(), Some(false));
                ports.failed(&decision);
            }
        }
        let port = &ports.ports[&("b".to_owned(), 80)];
        assert!(!port.is_plain && port.trial.is_none() && port.pause == 2 * PAUSE);
    }
}
