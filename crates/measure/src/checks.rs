//! Whether the machine kept up: questions with a limit, asked of every trial. A failed one marks
//! the trial overloaded; its numbers are kept and shown as such.

use std::collections::BTreeSet;
use std::time::Instant;

use latlab_host::lab::Lab;
use latlab_model::plan::Plan;
use latlab_model::results::Check;
use latlab_wire::samples::{Counters, Report};

use crate::processors::Processors;

/// Share of its window that an end point may wait for a processor, beside [`TURN_NS`] a message.
const RUN_QUEUE_LIMIT: f64 = 0.02;
/// What a message may wait for its turn: on few processors both ends may share one, and each then
/// waits while the other handles its half. That belongs to the path; a competitor takes milliseconds.
const TURN_NS: f64 = 5_000.0;
/// Of two that share a processor each waits for half of the time, however many messages there are.
const TURNS_MOST: f64 = 0.5;
/// Involuntary switches a second that a healthy end point stays below, beside one a message (the
/// other end's wake-up): a timer tick may take the processor now and then.
const SWITCHES_LIMIT: f64 = 50.0;
/// Lateness of a generator at its 99th percentile.
const LATENESS_LIMIT_NS: f64 = 100_000.0;
/// Share of the processors that a hypervisor underneath may take.
const STEAL_LIMIT: f64 = 0.01;
/// Share of the processors that processes outside the lab may use.
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
    }
}

/// Whether the lab's tuning is in force as a trial begins.
pub fn of_tuning(lab: &Lab) -> Option<Check> {
    let drifted = match lab.tuning_drift() {
        Ok(None) => return None,
        Ok(Some(drifted)) => drifted as f64,
        // That nobody knows is reason enough to mark it.
        Err(_) => 1.0,
    };
    let question = "settings of the lab's tuning that are not in force".to_string();
    Some(check("tuning", question, drifted, 0.0, "settings"))
}

/// Whether a check asks something that a load on the same processors does not answer.
pub fn hold_beside_noise(check: &Check) -> bool {
    matches!(check.name.as_str(), "steal" | "drops" | "tuning")
}

/// Messages that an end point handled in its window.
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

/// Questions that an end point's own observations answer.
pub fn of_report(role: &str, report: &Report) -> Vec<Check> {
    let h = &report.health;
    let window = report.ended_ns.saturating_sub(report.started_ns).max(1) as f64;
    let messages = messages(&report.counters) as f64;
    let mut checks = Vec::new();
    if let Some(wait) = h.run_queue_wait_ns {
        let question = format!("share of the time the {role} waited for a processor");
        checks.push(check(
            "runqueue",
            question,
            wait as f64 / window,
            RUN_QUEUE_LIMIT + (messages * TURN_NS / window).min(TURNS_MOST),
            "1",
        ));
    }
    let rate = h.involuntary_switches as f64 / (window / 1e9);
    let question = format!("times a second the {role} lost its processor to something else");
    checks.push(check(
        "involuntary-switches",
        question,
        rate,
        SWITCHES_LIMIT + messages / (window / 1e9),
        "1/s",
    ));
    if let Some(p99) = h.lateness.and_then(|l| l.p99_ns) {
        let question = format!("lateness of the {role} on its own schedule, 99th percentile");
        checks.push(check(
            "lateness",
            question,
            p99 as f64,
            LATENESS_LIMIT_NS,
            "ns",
        ));
    }
    let drops = h.socket_drops.unwrap_or(0) + h.softnet_drops.unwrap_or(0);
    let question = format!("packets dropped before the {role} could read them");
    checks.push(check("drops", question, drops as f64, 0.0, "packets"));
    checks
}

/// Watches the machine over a trial: the processors that the lab may use, which are all of them
/// unless every node is confined.
#[derive(Debug)]
pub struct Watch {
    at: Instant,
    processors: Option<Processors>,
    lab_ns: Option<u64>,
    confined: Option<BTreeSet<u32>>,
}

impl Watch {
    /// Begins.
    pub fn begin(lab: &Lab) -> Watch {
        let confined = confined(lab.plan());
        Watch {
            at: Instant::now(),
            processors: Processors::read(confined.as_ref()),
            lab_ns: lab.cpu_ns(),
            confined,
        }
    }

    /// Ends, with what was seen.
    pub fn end(self, lab: &Lab) -> Vec<Check> {
        let confined = self.confined.as_ref();
        let (Some(before), Some(after)) = (self.processors, Processors::read(confined)) else {
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
        let question = format!("share of {of_them} processors taken by the hypervisor underneath");
        checks.push(check("steal", question, steal, STEAL_LIMIT, "1"));
        if let Some(lab_after) = lab.cpu_ns() {
            // Before its first command a native node has no control group, and has used nothing.
            let lab_ns = lab_after.saturating_sub(self.lab_ns.unwrap_or(0)) as f64;
            let own_ns = match are_all_among(&own_processors(), confined) {
                true => after.own_ns - before.own_ns,
                false => 0.0,
            };
            let used = after.busy_ns - before.busy_ns;
            let foreign = ((used - lab_ns - own_ns) / capacity).max(0.0);
            let question =
                format!("share of {of_them} processors used by processes outside the lab");
            checks.push(check("foreign-load", question, foreign, FOREIGN_LIMIT, "1"));
        }
        checks
    }
}

/// The processors that the nodes are confined to; `None` when one of them is not.
fn confined(plan: &Plan) -> Option<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for node in &plan.nodes {
        all.extend(node.cpuset.as_ref()?.iter());
    }
    Some(all)
}

/// The processors that latlab itself may use.
fn own_processors() -> BTreeSet<u32> {
    let set = rustix::thread::sched_getaffinity(None);
    set.map_or(BTreeSet::new(), |set| {
        let all = 0..rustix::thread::CpuSet::MAX_CPU;
        all.filter(|&cpu| set.is_set(cpu))
            .filter_map(|cpu| u32::try_from(cpu).ok())
            .collect()
    })
}

/// Whatever latlab used was of the processors that are looked at, so that it is no foreign load there: where
/// the ends of an isolated lab share the host's processors, it matches millions of packets beside them.
/// Where it may also run elsewhere nobody knows how much was here, and it is as foreign as anybody.
fn are_all_among(own: &BTreeSet<u32>, looked_at: Option<&BTreeSet<u32>>) -> bool {
    looked_at.is_none_or(|looked_at| !own.is_empty() && own.is_subset(looked_at))
}

#[cfg(test)]
mod tests {
    use latlab_wire::samples::{Health, SinkCounters};

    use super::*;

    #[test]
    fn latlabs_own_time_is_no_foreign_load_where_it_cannot_run_elsewhere() {
        let (host, both, device) = ([0].into(), [0, 1].into(), [1].into());
        assert!(are_all_among(&both, None), "everybody shares everything");
        assert!(are_all_among(&host, Some(&both)));
        assert!(!are_all_among(&both, Some(&device)));
        assert!(!are_all_among(&host, Some(&device)));
        assert!(!are_all_among(&BTreeSet::new(), Some(&both)));
    }

    /// However many packets there are: one that waits for nearly all of the time did not keep up.
    #[test]
    fn a_fast_end_point_may_not_wait_for_ever() {
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
    fn a_check_passes_up_to_its_limit() {
        assert!(check("x", String::new(), 0.01, 0.01, "1").passed);
        assert!(!check("x", String::new(), 0.011, 0.01, "1").passed);
    }
}
