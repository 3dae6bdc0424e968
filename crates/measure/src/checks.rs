//! Checks of every trial whether the machine kept up, each with a limit. A failed check marks the trial
//! overloaded; its numbers are kept and shown as such.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use latlab_host::lab::Lab;
use latlab_model::plan::Plan;
use latlab_model::results::Check;
use latlab_model::units::Nanos;
use latlab_wire::samples::{Counters, Report, StoppedBy};

use crate::affinity::{allowed_cpus, is_within};
use crate::cpu_times::CpuTimes;
use crate::others::Processes;
use crate::thermal;

/// Runqueue wait of an endpoint as a share of its window, beside [`TURN_NS`] a message.
const RUNQUEUE_LIMIT: f64 = 0.02;
/// Runqueue wait of a message: two endpoints on one CPU each wait while the other handles its half. That
/// belongs to the path; a competitor takes milliseconds.
const TURN_NS: f64 = 5_000.0;
/// Each of two endpoints on one CPU waits for half of the time at most, at any message rate.
const MAX_TURNS: f64 = 0.5;
/// Involuntary switches a second of a healthy endpoint, beside one a message (the other endpoint's
/// wake-up): a timer tick may take the CPU now and then.
const SWITCHES_LIMIT: f64 = 50.0;
/// Lateness of a generator at its 99th percentile.
const LATENESS_LIMIT_NS: f64 = 100_000.0;
/// Share of the CPUs that a hypervisor underneath may take.
const STEAL_LIMIT: f64 = 0.01;
/// Share of the packets that may lack a card's timestamp.
const UNSTAMPED_LIMIT: f64 = 0.01;
/// Share of the CPUs that processes outside the lab may use.
const FOREIGN_LIMIT: f64 = 0.10;

fn check(name: &str, question: String, value: f64, limit: f64, unit: &str) -> Check {
    let passed = value <= limit;
    Check {
        name: name.into(),
        question,
        value,
        limit,
        unit: unit.into(),
        passed,
        consumers: Vec::new(),
    }
}

/// Whether the lab's tuning is in force as a trial begins.
pub fn of_tuning(lab: &Lab) -> Option<Check> {
    let drifted = match lab.tuning_drift() {
        Ok(None) => return None,
        Ok(Some(drifted)) => drifted as f64,
        // An unknown state is marked too.
        Err(_) => 1.0,
    };
    let question = "settings of the lab's tuning that are not in force".to_string();
    Some(check("tuning", question, drifted, 0.0, "settings"))
}

/// Whether a check is independent of a load on the same CPUs.
pub fn hold_beside_noise(check: &Check) -> bool {
    matches!(
        check.name.as_str(),
        "steal" | "drops" | "tuning" | "thermal-throttling" | "unstamped" | "window"
    )
}

fn messages(counters: &Counters) -> u64 {
    match counters {
        Counters::RrServer(c) => c.answered,
        Counters::RrClient(c) => c.transactions,
        Counters::Sink(c) => c.received,
        Counters::Source(c) => c.sent,
        Counters::Forward(c) => c.forwarded,
        Counters::Clock(_) => 0,
    }
}

/// Checks of an endpoint's observations of itself.
pub fn of_report(role: &str, report: &Report) -> Vec<Check> {
    let h = &report.health;
    let window = report.ended_ns.saturating_sub(report.started_ns).max(1) as f64;
    let messages = messages(&report.counters) as f64;
    let mut checks = Vec::new();
    if let Some(wait) = h.run_queue_wait_ns {
        let question = format!("share of the time the {role} waited for a CPU");
        let share = wait as f64 / window;
        let limit = RUNQUEUE_LIMIT + (messages * TURN_NS / window).min(MAX_TURNS);
        checks.push(check("runqueue", question, share, limit, "1"));
    }
    let rate = h.involuntary_switches as f64 / (window / 1e9);
    let question = format!("times a second the {role} lost its CPU to something else");
    let limit = SWITCHES_LIMIT + messages / (window / 1e9);
    checks.push(check("involuntary-switches", question, rate, limit, "1/s"));
    if let Some(p99) = h.lateness.and_then(|l| l.p99_ns) {
        let question = format!("lateness of the {role} on its own schedule, 99th percentile");
        let limit = LATENESS_LIMIT_NS;
        checks.push(check("lateness", question, p99 as f64, limit, "ns"));
    }
    let drops = h.socket_drops.unwrap_or(0) + h.softnet_drops.unwrap_or(0);
    let question = format!("packets dropped before the {role} could read them");
    checks.push(check("drops", question, drops as f64, 0.0, "packets"));
    checks
}

/// Whether the cards stamped nearly all packets that arrived: those of bursts are skipped first, which are the slow ones.
pub(crate) fn of_stamps(unstamped: u64, received: u64) -> Check {
    let question = "share of the arrived packets that a card did not stamp".to_string();
    let share = unstamped as f64 / received.max(1) as f64;
    check("unstamped", question, share, UNSTAMPED_LIMIT, "1")
}

/// Whether a client of transactions measured for the whole window, which one without room for more records does not.
pub(crate) fn of_window(window: Nanos, report: &Report) -> Option<Check> {
    let Counters::RrClient(client) = &report.counters else {
        return None;
    };
    let measured = report.ended_ns.saturating_sub(report.started_ns);
    let missing = match client.stopped_by {
        StoppedBy::Room => window.0.saturating_sub(measured) as f64 / 1e9,
        _ => return None,
    };
    let question = "time at the end of the window without measurements, for want of memory";
    Some(check("window", question.into(), missing, 0.0, "s"))
}

/// Watches the CPUs that the lab may use over a trial: all of them, unless every node is confined.
#[derive(Debug)]
pub struct Watch {
    at: Instant,
    times: Option<CpuTimes>,
    lab_ns: Option<u64>,
    confined: Option<BTreeSet<u32>>,
    throttled: Option<u64>,
    processes: Processes,
}

impl Watch {
    pub fn begin(lab: &Lab) -> Watch {
        let confined = confined(lab.plan());
        Watch {
            at: Instant::now(),
            times: CpuTimes::read(confined.as_ref()),
            lab_ns: lab.cpu_ns(),
            throttled: thermal::throttled(Path::new(thermal::CPUS), confined.as_ref()),
            confined,
            processes: Processes::read(),
        }
    }

    pub fn end(self, lab: &Lab) -> Vec<Check> {
        let confined = self.confined.as_ref();
        let (Some(before), Some(after)) = (self.times, CpuTimes::read(confined)) else {
            return Vec::new();
        };
        let capacity = self.at.elapsed().as_nanos() as f64 * after.count.max(1) as f64;
        let of_them = if confined.is_some() {
            "the lab's"
        } else {
            "the"
        };
        let mut checks = Vec::new();
        let steal = (after.steal_ns - before.steal_ns).max(0.0) / capacity;
        let question = format!("share of {of_them} CPUs taken by the hypervisor underneath");
        checks.push(check("steal", question, steal, STEAL_LIMIT, "1"));
        let throttled = thermal::throttled(Path::new(thermal::CPUS), confined);
        if let Some((before, after)) = self.throttled.zip(throttled) {
            let count = after.saturating_sub(before) as f64;
            let question =
                format!("times that {of_them} CPUs were slowed because of their temperature");
            checks.push(check("thermal-throttling", question, count, 0.0, "times"));
        }
        if let Some(lab_after) = lab.cpu_ns() {
            // Before its first command a native node has no cgroup, and has used nothing.
            let lab_ns = lab_after.saturating_sub(self.lab_ns.unwrap_or(0)) as f64;
            let own_ns = if is_within(&allowed_cpus(), confined) {
                after.own_ns - before.own_ns
            } else {
                0.0
            };
            let used = after.busy_ns - before.busy_ns;
            let processes = self.processes.since(lab, confined);
            let known = lab_ns + own_ns + processes.daemons_ns;
            let foreign = ((used - known) / capacity).max(0.0);
            let question = format!("share of {of_them} CPUs used by processes outside the lab");
            let mut check = check("foreign-load", question, foreign, FOREIGN_LIMIT, "1");
            if !check.passed {
                check.consumers = processes.most(capacity);
            }
            checks.push(check);
        }
        checks
    }
}

/// The CPUs that the nodes are confined to; `None` when one of them is not.
fn confined(plan: &Plan) -> Option<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for node in &plan.nodes {
        all.extend(node.cpuset.as_ref()?.iter());
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use latlab_wire::samples::{Health, Protocol, RrClientCounters, SinkCounters};

    use super::*;

    /// At any packet rate, waiting for nearly all of the time is a failure to keep up.
    #[test]
    fn runqueue_wait_is_limited_at_any_message_rate() {
        let waited = |wait, received| {
            let health = Health {
                run_queue_wait_ns: Some(wait),
                ..Health::default()
            };
            let report = Report {
                started_ns: 0,
                ended_ns: 1_000_000_000,
                counters: Counters::Sink(SinkCounters {
                    received,
                    ..SinkCounters::default()
                }),
                health,
            };
            of_report("receiver", &report)[0].passed
        };
        assert!(waited(60_000_000, 10_000));
        assert!(!waited(80_000_000, 10_000));
        assert!(waited(510_000_000, 1_000_000));
        assert!(!waited(900_000_000, 1_000_000));
    }

    #[test]
    fn a_window_that_ended_for_want_of_memory_fails_a_check() {
        let ended = |stopped_by| {
            let report = Report {
                started_ns: 1_000_000_000,
                ended_ns: 4_000_000_000,
                counters: Counters::RrClient(RrClientCounters {
                    protocol: Protocol::Udp,
                    socket: "udp".into(),
                    request_bytes: 100,
                    response_bytes: 200,
                    warm_up: 0,
                    transactions: 1,
                    answered: 1,
                    lost: 0,
                    late: 0,
                    duplicates: 0,
                    unmatched: 0,
                    network_errors: 0,
                    stopped_by,
                }),
                health: Health::default(),
            };
            of_window(Nanos(10_000_000_000), &report)
        };
        let check = ended(StoppedBy::Room).unwrap();
        assert_eq!((check.value, check.passed), (7.0, false));
        assert!(hold_beside_noise(&check));
        assert_eq!(ended(StoppedBy::Duration), None);
    }

    #[test]
    fn a_check_passes_up_to_its_limit() {
        assert!(check("x", String::new(), 0.01, 0.01, "1").passed);
        assert!(!check("x", String::new(), 0.011, 0.01, "1").passed);
    }
}
