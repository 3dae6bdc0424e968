//! The yield of one measurement, before it is written down.

use std::collections::BTreeMap;

use latlab_model::results::{
    ActionRecord, Check, ClockMap, Counters, Floor, Intruder, NodeRecord, StreamResult, Trace,
    WorkloadResult,
};
use latlab_samples::Sample;
use latlab_samples::table::{Stack, Stretch};
use latlab_wire::samples::Report;
use latlab_wire::trace::Event;

use crate::checks;
use crate::endpoint::Output;
use crate::forward::timed::Timed;
use crate::watch::Watched;

#[derive(Debug, Default)]
pub struct Measured {
    /// One a transaction or packet; empty for a stream.
    pub samples: Vec<Sample>,
    pub counters: Counters,
    pub floor: Option<Floor>,
    pub clock: Option<ClockMap>,
    pub stream: Option<StreamResult>,
    pub workload: Option<WorkloadResult>,
    pub kept: Kept,
    pub checks: Vec<Check>,
    /// Processes and interrupts that ran on the lab's dedicated CPUs.
    pub intruders: Vec<Intruder>,
    /// The endpoints' observations of themselves.
    pub nodes: Vec<NodeRecord>,
    /// Time that the hypervisor took from the CPUs of the two endpoints; `None` where unknown.
    pub stolen: Option<Vec<Stretch>>,
    pub trace: Option<Recorded>,
    pub actions: Vec<ActionRecord>,
}

/// The outputs of a workload's programs, whether they failed or not.
#[derive(Debug, Default)]
pub struct Kept {
    /// In the order of the measurement; of a trial that failed, those that there are.
    pub programs: Vec<Written>,
    pub servers: Vec<Written>,
}

/// The output of a program, kept as it is.
#[derive(Debug, Default)]
pub struct Written {
    pub node: String,
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
}

/// Data of taps and flight recorder, written beside the samples.
#[derive(Debug, Default)]
pub struct Recorded {
    pub trace: Trace,
    pub timed: Timed,
    pub events: Vec<Event>,
    /// Sampled stacks of the devices.
    pub stacks: Vec<Stack>,
}

impl Measured {
    pub fn add_watched(&mut self, watched: Watched) {
        self.checks.extend(watched.checks);
        self.intruders.extend(watched.intruders);
    }

    /// Records an endpoint's observations of itself, and the checks that they answer.
    pub(crate) fn add_endpoint(&mut self, role: &str, node: &str, output: &Output) {
        self.add_node(role, node, output);
        if let Some(report) = &output.report {
            self.checks.extend(checks::of_report(role, report));
        }
    }

    pub(crate) fn add_node(&mut self, role: &str, node: &str, output: &Output) {
        if let Some(report) = &output.report {
            self.nodes.push(node_record(node, role, report));
        }
    }
}

fn node_record(node: &str, role: &str, report: &Report) -> NodeRecord {
    let h = &report.health;
    let window_ns = report.ended_ns.saturating_sub(report.started_ns) as f64;
    let mut values = BTreeMap::from([
        ("window_ns".to_string(), window_ns),
        ("voluntary_switches".into(), h.voluntary_switches as f64),
        ("involuntary_switches".into(), h.involuntary_switches as f64),
        ("cpu_user_ns".into(), h.user_ns as f64),
        ("cpu_system_ns".into(), h.system_ns as f64),
        ("minor_faults".into(), h.minor_faults as f64),
        ("major_faults".into(), h.major_faults as f64),
    ]);
    let optional = [
        ("run_queue_wait_ns", h.run_queue_wait_ns),
        ("steal_ns", h.steal_ns),
        ("socket_drops", h.socket_drops),
        ("softnet_drops", h.softnet_drops),
        ("softnet_squeezed", h.softnet_squeezed),
        ("lateness_p99_ns", h.lateness.and_then(|l| l.p99_ns)),
        ("lateness_max_ns", h.lateness.map(|l| l.max_ns)),
    ];
    let known = optional
        .into_iter()
        .filter_map(|(k, v)| Some((k.to_string(), v? as f64)));
    values.extend(known);
    NodeRecord {
        node: node.into(),
        role: role.into(),
        values,
    }
}
