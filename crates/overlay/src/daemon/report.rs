//! The daemon's statistics, as text and for OpenMetrics.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use latlab_model::spec::Mac;

use super::route_offload::RouteOffload;
use super::state::Daemon;
use crate::dispatch::Died;
use crate::endpoints::{Counters, DropReason};
use crate::forwarding::Matrix;

/// A counter: name, help text and value.
type Metric = (&'static str, &'static str, fn(&Counters) -> u64);

const METRICS: [Metric; 11] = [
    ("received_frames", "Frames that came in", |c| {
        c.received.frames.load(Relaxed)
    }),
    ("received_bytes", "Their bytes", |c| {
        c.received.bytes.load(Relaxed)
    }),
    ("sent_frames", "Frames that went out", |c| {
        c.sent.frames.load(Relaxed)
    }),
    ("sent_bytes", "Their bytes", |c| c.sent.bytes.load(Relaxed)),
    ("batches", "Batches received", |c| c.batches.load(Relaxed)),
    ("kicks", "Wake-ups by the guest", |c| c.kicks.load(Relaxed)),
    ("interrupts", "Interrupts of the guest", |c| {
        c.interrupts.load(Relaxed)
    }),
    ("mode_changes", "Changes of the dispatch mode", |c| {
        c.mode_changes.load(Relaxed)
    }),
    ("copied_bytes", "Bytes copied in user space", |c| c.copied()),
    (
        "faults",
        "Rings and connections ended for the peer's errors",
        |c| c.faults.load(Relaxed),
    ),
    ("slow_rounds", "Looks of a dispatcher that took long", |c| {
        c.slow_rounds.load(Relaxed)
    }),
];

#[derive(Debug)]
pub struct Statistics {
    ports: Vec<PortStatistics>,
    hits: u64,
    misses: u64,
    /// Datagrams from hosts without a link.
    strangers: u64,
    networks: Vec<NetworkStatistics>,
}

#[derive(Debug)]
struct NetworkStatistics {
    name: String,
    /// Frames that waited for a destination that moves, and those that were dropped instead.
    held: u64,
    held_dropped: u64,
}

#[derive(Debug)]
struct PortStatistics {
    kind: &'static str,
    name: String,
    values: [u64; METRICS.len()],
    /// Received frames that never left the kernel.
    in_kernel: u64,
    drops: [u64; DropReason::ALL.len()],
}

impl Daemon {
    pub fn statistics(&self) -> Result<Statistics, Died> {
        let mut statistics = Statistics {
            ports: Vec::new(),
            hits: 0,
            misses: 0,
            strangers: self.opener.strangers(),
            networks: Vec::new(),
        };
        for (name, network) in &self.overlay.networks {
            let (held, held_dropped) = self.holds.counts(network.vni);
            statistics.networks.push(NetworkStatistics {
                name: name.clone(),
                held,
                held_dropped,
            });
        }
        for (name, port) in &self.ports {
            let counters = &port.output.counters;
            let in_kernel = self.offload.as_ref().map(|offload| offload.counts(port.id));
            let in_kernel = in_kernel.unwrap_or_default();
            let kernel_values = [
                in_kernel.received_frames,
                in_kernel.received_bytes,
                in_kernel.sent_frames,
                in_kernel.sent_bytes,
            ];
            let mut values = METRICS.map(|(_, _, read)| read(counters));
            for (value, more) in values.iter_mut().zip(kernel_values) {
                *value += more;
            }
            statistics.ports.push(PortStatistics {
                kind: if self.overlay.links.contains_key(name) {
                    "link"
                } else {
                    "interface"
                },
                name: name.clone(),
                values,
                in_kernel: in_kernel.received_frames,
                drops: DropReason::ALL
                    .map(|reason| counters.dropped(reason) + in_kernel.dropped(reason)),
            });
        }
        for dispatcher in &self.dispatchers {
            let (hits, misses) = dispatcher.hits_and_misses()?;
            statistics.hits += hits;
            statistics.misses += misses;
        }
        Ok(statistics)
    }

    /// Why the last ring or connection of an interface was ended, if that was the peer's error.
    #[must_use]
    pub fn trouble(&self, name: &str) -> Option<String> {
        self.ports.get(name)?.output.counters.trouble()
    }

    pub fn matrix(&self) -> Result<Matrix, Died> {
        let mut sum = Matrix::default();
        for dispatcher in &self.dispatchers {
            sum.merge(&dispatcher.matrix()?);
        }
        // Counters that cannot be read are those of a kernel path that ends.
        let in_kernel = self.offload.as_ref().map(RouteOffload::traffic);
        for (pair, traffic) in in_kernel.unwrap_or_default() {
            let pair = pair.map(|pair| (pair.network, Mac(pair.source), Mac(pair.destination)));
            sum.add_traffic(pair, traffic);
        }
        Ok(sum)
    }
}

impl Statistics {
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for port in &self.ports {
            let _ = write!(out, "{} {}", port.kind, port.name);
            for ((name, _, _), value) in METRICS.iter().zip(port.values) {
                if value > 0 {
                    let _ = write!(out, " {name} {value}");
                }
            }
            if port.in_kernel > 0 {
                let _ = write!(out, " in_kernel_frames {}", port.in_kernel);
            }
            for (reason, count) in DropReason::ALL.iter().zip(port.drops) {
                if count > 0 {
                    let _ = write!(out, " dropped_{} {count}", reason.name());
                }
            }
            out.push('\n');
        }
        for network in &self.networks {
            let (name, held, dropped) = (&network.name, network.held, network.held_dropped);
            if held + dropped > 0 {
                let _ = writeln!(out, "network {name} held {held} held_dropped {dropped}");
            }
        }
        if self.strangers > 0 {
            let _ = writeln!(out, "strangers received_frames {}", self.strangers);
        }
        let _ = writeln!(out, "cache hits {} misses {}", self.hits, self.misses);
        out
    }

    /// The exposition format of OpenMetrics 1.0.
    #[must_use]
    pub fn openmetrics(&self) -> String {
        let mut out = String::new();
        for (at, (name, help, _)) in METRICS.iter().enumerate() {
            describe(&mut out, name, help);
            for port in &self.ports {
                let (labels, value) = (port.labels(), port.values[at]);
                let _ = writeln!(out, "latlab_overlay_{name}_total{{{labels}}} {value}");
            }
        }
        describe(&mut out, "dropped_frames", "Frames dropped");
        for port in &self.ports {
            for (reason, count) in DropReason::ALL.iter().zip(port.drops) {
                let (labels, reason) = (port.labels(), reason.name());
                let _ = writeln!(
                    out,
                    "latlab_overlay_dropped_frames_total{{{labels},reason=\"{reason}\"}} {count}"
                );
            }
        }
        self.openmetrics_of_networks(&mut out);
        describe(&mut out, "cache_lookups", "Decisions");
        for (result, value) in [("hit", self.hits), ("miss", self.misses)] {
            let _ = writeln!(
                out,
                "latlab_overlay_cache_lookups_total{{result=\"{result}\"}} {value}"
            );
        }
        describe(&mut out, "strangers", "Datagrams from unknown hosts");
        let _ = writeln!(out, "latlab_overlay_strangers_total {}", self.strangers);
        out.push_str("# EOF\n");
        out
    }

    fn openmetrics_of_networks(&self, out: &mut String) {
        type Read = fn(&NetworkStatistics) -> u64;
        let metrics: [(&str, &str, Read); 2] = [
            ("held_frames", "Frames that waited in a hold", |n| n.held),
            (
                "held_dropped_frames",
                "Frames dropped for want of memory in a hold",
                |n| n.held_dropped,
            ),
        ];
        for (name, help, read) in metrics {
            describe(out, name, help);
            for network in &self.networks {
                let (label, value) = (&network.name, read(network));
                let _ = writeln!(
                    out,
                    "latlab_overlay_{name}_total{{network=\"{label}\"}} {value}"
                );
            }
        }
    }
}

/// The lines in front of a metric's values.
fn describe(out: &mut String, name: &str, help: &str) {
    let _ = writeln!(out, "# TYPE latlab_overlay_{name} counter");
    let _ = writeln!(out, "# HELP latlab_overlay_{name} {help}.");
}

impl PortStatistics {
    // Names hold letters, digits, dots, dashes and underscores only, so no escaping is needed.
    fn labels(&self) -> String {
        format!("{}=\"{}\"", self.kind, self.name)
    }
}
