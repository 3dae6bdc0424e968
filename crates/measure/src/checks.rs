//! Whether the machine kept up: questions with a limit, asked of every trial. A failed one marks
//! the trial overloaded; its numbers are kept and shown as such.

use std::fs;
use std::time::Instant;

use latlab_host::lab::Lab;
use latlab_model::results::Check;
use latlab_wire::samples::{Counters, Report};

/// Share of its window that an end point may wait for a processor, beside [`TURN_NS`] a message.
const RUN_QUEUE_LIMIT: f64 = 0.02;
/// What a message may wait for its turn: on few processors both ends may share one, and each then
/// waits while the other handles its half. That belongs to the path; a competitor takes milliseconds.
const TURN_NS: f64 = 5_000.0;
/// Involuntary switches a second that a healthy end point stays below, beside one a message (the
/// other end's wake-up): a timer tick may take the processor now and then.
const SWITCHES_LIMIT: f64 = 50.0;
/// Lateness of a generator at its 99th percentile.
const LATENESS_LIMIT_US: f64 = 100.0;
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
            RUN_QUEUE_LIMIT + messages * TURN_NS / window,
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
            p99 as f64 / 1e3,
            LATENESS_LIMIT_US,
            "us",
        ));
    }
    let drops = h.socket_drops.unwrap_or(0) + h.softnet_drops.unwrap_or(0);
    let question = format!("packets dropped before the {role} could read them");
    checks.push(check("drops", question, drops as f64, 0.0, "packets"));
    checks
}

/// Watches the whole machine over a trial.
#[derive(Debug)]
pub struct Watch {
    at: Instant,
    machine: Option<Machine>,
    lab_ns: Option<u64>,
}

impl Watch {
    /// Begins.
    pub fn begin(lab: &Lab) -> Watch {
        Watch {
            at: Instant::now(),
            machine: Machine::read(),
            lab_ns: lab.cpu_ns(),
        }
    }

    /// Ends, with what was seen.
    pub fn end(self, lab: &Lab) -> Vec<Check> {
        let (Some(before), Some(after)) = (self.machine, Machine::read()) else {
            return Vec::new();
        };
        let capacity = self.at.elapsed().as_nanos() as f64 * after.processors as f64;
        let mut checks = Vec::new();
        let steal = (after.steal_ns - before.steal_ns).max(0.0) / capacity;
        let question = "share of the processors taken by the hypervisor underneath".to_string();
        checks.push(check("steal", question, steal, STEAL_LIMIT, "1"));
        if let (Some(lab_before), Some(lab_after)) = (self.lab_ns, lab.cpu_ns()) {
            let ours =
                (lab_after.saturating_sub(lab_before)) as f64 + (after.own_ns - before.own_ns);
            let foreign = ((after.busy_ns - before.busy_ns - ours) / capacity).max(0.0);
            let question = "share of the processors used by processes outside the lab".to_string();
            checks.push(check("foreign-load", question, foreign, FOREIGN_LIMIT, "1"));
        }
        checks
    }
}

/// Times of the whole machine, and of latlab itself, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Machine {
    busy_ns: f64,
    steal_ns: f64,
    own_ns: f64,
    processors: usize,
}

impl Machine {
    fn read() -> Option<Machine> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        Machine::parse(&stat, &own)
    }

    /// From the texts of `/proc/stat` and `/proc/self/stat` (proc(5)). Their unit is USER_HZ, which
    /// is 100 on every architecture that Linux still runs on.
    fn parse(stat: &str, own: &str) -> Option<Machine> {
        const TICK_NS: f64 = 1e7;
        let mut cpus = stat.lines().filter(|l| l.starts_with("cpu"));
        let all: Vec<f64> = cpus
            .next()?
            .split_whitespace()
            .skip(1)
            .filter_map(|v| v.parse().ok())
            .collect();
        // user, nice, system, idle, iowait, irq, softirq, steal: interrupts are left out of `busy`
        // because they serve the measured packets.
        let [user, nice, system, _, _, _, _, steal, ..] = all[..] else {
            return None;
        };
        let after_name = own.rsplit_once(')')?.1;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let own_ticks =
            fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
        Some(Machine {
            busy_ns: (user + nice + system) * TICK_NS,
            steal_ns: steal * TICK_NS,
            own_ns: own_ticks * TICK_NS,
            processors: cpus.count(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_proc() {
        let stat = "cpu  100 5 50 1000 3 7 9 20 0 0\ncpu0 50 2 25 500 1 3 4 10 0 0\ncpu1 1 1 1 1 1 1 1 1 0 0\nintr 5\n";
        let own = "42 (a ) b) S 1 1 1 0 -1 0 0 0 0 0 30 12 0 0 20 0 1 0 5 0 0";
        let m = Machine::parse(stat, own).unwrap();
        assert_eq!((m.busy_ns, m.steal_ns, m.own_ns), (155e7, 20e7, 42e7));
        assert_eq!(m.processors, 2);
        assert_eq!(Machine::parse("cpu 1 2\n", own), None);
        assert_eq!(Machine::parse("", ""), None);
    }

    #[test]
    fn a_check_passes_up_to_its_limit() {
        assert!(check("x", String::new(), 0.01, 0.01, "1").passed);
        assert!(!check("x", String::new(), 0.011, 0.01, "1").passed);
    }
}
