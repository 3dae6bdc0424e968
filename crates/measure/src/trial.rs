//! What one measurement yields, before it is written down.

use latlab_host::lab::Lab;
use latlab_model::plan::Reach;
use latlab_model::results::{Check, ClockMap, Counters, Floor, Intruder, NodeRecord, StreamResult};
use latlab_model::spec::{Measurement, Noise, Probe};
use latlab_samples::Sample;
use latlab_samples::table::Stretch;
use latlab_wire::samples::{Health, Report};

use crate::guard::Guard;
use crate::{checks, endpoint, forward, noise, packets, rr, stream};

/// Why a trial gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An end point failed.
    #[error(transparent)]
    EndPoint(#[from] endpoint::Error),
    /// The two clocks could not be compared.
    #[error("node `{node}`: cannot compare its clock with the host's: {source}")]
    Clock {
        /// Whose clock.
        node: String,
        /// Why.
        source: Box<latlab_host::lab::Error>,
    },
    /// iperf3 failed or said something that is not its JSON.
    #[error("node `{node}`: iperf3: {message}")]
    Iperf {
        /// Where.
        node: String,
        /// What happened.
        message: String,
    },
    /// No link joins the two ends.
    #[error("no link takes `{from}` to `{to}`")]
    Unreachable {
        /// Sender.
        from: String,
        /// Receiver.
        to: String,
    },
    /// The load that was asked for could not be made.
    #[error("cannot make the noise `{noise}`")]
    Noise {
        /// As written.
        noise: String,
        /// Why.
        source: std::io::Error,
    },
    /// A tool is missing inside a node.
    #[error("node `{node}`: {tool} is not there; install {package} in its image")]
    MissingTool {
        /// Where.
        node: String,
        /// What.
        tool: &'static str,
        /// Debian's package.
        package: &'static str,
    },
    /// A device under test did not come up, or did not give back what it changed.
    #[error("node `{node}`: the device under test: {reason}")]
    Device {
        /// Where.
        node: String,
        /// Its words.
        reason: String,
    },
    /// A device let nothing through.
    #[error("none of {sent} packets came through `{device}`; {interfaces}")]
    NothingThrough {
        /// Its node.
        device: String,
        /// Packets that were seen before it.
        sent: u64,
        /// What its interfaces say.
        interfaces: String,
    },
    /// A tap could not be had.
    #[error("node `{node}`: {source}")]
    Tap {
        /// Where.
        node: String,
        /// Why.
        source: latlab_trace::Error,
    },
    /// The machine has not got the memory for so many packets.
    #[error(
        "{packets} packets need {} MiB for their times, and {} MiB are free, of which half may be \
         taken: send fewer, by a lower rate or for a shorter time", needed >> 20, there >> 20
    )]
    Memory {
        /// Packets, with some room.
        packets: u64,
        /// Bytes.
        needed: u64,
        /// Bytes.
        there: u64,
    },
    /// The lab itself could not be brought up.
    #[error("{0}")]
    Lab(String),
}

/// The lab, the measurement and the way between its two ends.
pub struct Context<'a> {
    /// A deployed lab.
    pub lab: &'a Lab,
    /// What to measure.
    pub measurement: &'a Measurement,
    /// How the sender reaches the receiver.
    pub reach: Reach,
}

impl<'a> Context<'a> {
    /// Finds the way from sender to receiver.
    ///
    /// # Errors
    /// When no link joins them.
    pub fn new(lab: &'a Lab, measurement: &'a Measurement) -> Result<Self, Error> {
        let (from, to) = (&measurement.from.value, &measurement.to.value);
        let ipv6 = measurement.ip == 6;
        // Through other nodes, the receiver is known to the last of them.
        let before = measurement.through.last();
        let before = before.map_or(&from.node, |node| &node.value);
        let reach = lab
            .plan()
            .reach(before, &to.node, to.interface.as_deref(), ipv6)
            .ok_or_else(|| Error::Unreachable {
                from: from.node.clone(),
                to: to.node.clone(),
            })?;
        Ok(Context {
            lab,
            measurement,
            reach,
        })
    }

    /// Name of the sending node.
    pub fn sender(&self) -> &str {
        &self.measurement.from.node
    }

    /// Name of the receiving node.
    pub fn receiver(&self) -> &str {
        &self.measurement.to.node
    }

    /// The unspecified address of the measured IP version: where a server listens.
    pub fn any(&self, port: u16) -> String {
        match self.measurement.ip {
            6 => format!("[::]:{port}"),
            _ => format!("0.0.0.0:{port}"),
        }
    }
}

/// Everything that one measurement yields.
#[derive(Debug, Default)]
pub struct Measured {
    /// One a transaction or packet; empty for a stream.
    pub samples: Vec<Sample>,
    /// What became of them.
    pub counters: Counters,
    /// The ruler.
    pub floor: Option<Floor>,
    /// The mapping between the two clocks.
    pub clock: Option<ClockMap>,
    /// Throughput.
    pub stream: Option<StreamResult>,
    /// Whether the machine kept up.
    pub checks: Vec<Check>,
    /// Who else ran on the lab's own processors.
    pub intruders: Vec<Intruder>,
    /// What the end points observed of themselves.
    pub nodes: Vec<NodeRecord>,
    /// What the hypervisor took from the processors of the two ends, where that is known.
    pub stolen: Option<Vec<Stretch>>,
    /// What taps and the flight recorder saw.
    pub trace: Option<forward::Recorded>,
}

/// Measures once.
///
/// # Errors
/// When an end point fails; nothing is kept of a measurement without both ends.
pub fn measure(context: &Context<'_>) -> Result<Measured, Error> {
    let measurement = context.measurement;
    let lab = &context.lab.plan().lab;
    let noise = noise::Running::start(measurement, lab).map_err(|source| Error::Noise {
        noise: measurement.noise.to_string(),
        source,
    })?;
    let tuning = checks::of_tuning(context.lab);
    let guard = Guard::begin(context.lab);
    let watch = checks::Watch::begin(context.lab);
    let mut measured = match context.measurement.probe {
        Probe::Rr => rr::measure(context)?,
        Probe::Packets => packets::measure(context)?,
        Probe::Stream => stream::measure(context)?,
        Probe::Forward => forward::measure(context)?,
    };
    let own = watch.end(context.lab);
    measured.checks.extend(own);
    measured.checks.extend(tuning);
    measured.intruders = guard.end();
    drop(noise);
    if measurement.noise != Noise::None {
        // What the noise does to the end points is the question here, and no mistake.
        measured.checks.retain(checks::hold_beside_noise);
    }
    Ok(measured)
}

/// An end point's own observations as a record.
pub fn node_record(node: &str, role: &str, report: &Report) -> NodeRecord {
    let h: &Health = &report.health;
    let seconds = report.ended_ns.saturating_sub(report.started_ns) as f64;
    let mut values = std::collections::BTreeMap::from([
        ("window_ns".to_string(), seconds),
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
