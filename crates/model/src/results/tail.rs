//! Why the slowest packets were slow, as the report draws it: one [`Tail`] for each device in each cell. Packets and
//! CPUs are written as rows of numbers, because there are thousands of them; names stand in lists beside them.

use serde::{Deserialize, Serialize};

use super::trial::{Counters, Ruler};

/// The slow packets of one device in one cell, over all its trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// [`super::Cell::id`].
    pub cell: String,
    /// The node, or the link.
    pub device: String,
    /// The program that carries packets on; absent when that is the kernel itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Where packets are timed before it.
    pub before: String,
    pub behind: String,
    pub trials: Vec<u32>,
    pub packets: u64,
    /// The fates of the packets in between, over all trials.
    pub counters: Counters,
    /// Between the taps for 2^32 ns or more, or for less than nothing.
    pub impossible: u64,
    pub no_room: u64,
    /// Kernel events that were overwritten before they could be read.
    pub overwritten: u64,
    /// Latency below which no packet was explained, in ns.
    pub threshold_ns: u64,
    /// Percentile curve of the latency through this device: `(1 / (1 - p), ns)`, rising.
    pub curve: Vec<(f64, f64)>,
    /// The cost of the taps themselves over an empty wire: the worst of the trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ruler: Option<Ruler>,
    pub unknown: Vec<String>,
    /// The causes that the rows name by their place here.
    pub causes: Vec<CauseInfo>,
    /// The owners of the time beyond each percentile; the last is all that was explained.
    pub blames: Vec<Blame>,
    /// The slowest packets, the slowest first.
    pub worst: Vec<SlowPacket>,
    /// Names of what ran on CPUs, which the steps name by their place here.
    pub names: Vec<String>,
    /// The work of the CPUs around the slowest of them.
    pub stretches: Vec<Stretch>,
    /// Where in its code the device was, if its stacks were sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
}

/// Sampled stacks as a tree: those of the slowest packets, and the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// Samples in a second of a thread's running.
    pub rate: u32,
    /// Samples while one of the slowest packets was in the device.
    pub slow: u64,
    pub otherwise: u64,
    /// Samples for which there was no room.
    pub lost: u32,
    /// Functions under their callers, threads at the top; a caller comes before what it calls.
    pub functions: Vec<Called>,
}

/// A function, called by one: `[name, caller, slow, otherwise]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "CalledRow", into = "CalledRow")]
pub struct Called {
    pub name: String,
    /// Place in [`Code::functions`]; none for a thread.
    pub caller: Option<usize>,
    /// Samples in it and what it calls, as in [`Code`].
    pub slow: u64,
    pub otherwise: u64,
}

type CalledRow = (String, Option<usize>, u64, u64);

impl From<CalledRow> for Called {
    fn from((name, caller, slow, otherwise): CalledRow) -> Self {
        Called {
            name,
            caller,
            slow,
            otherwise,
        }
    }
}

impl From<Called> for CalledRow {
    fn from(one: Called) -> Self {
        (one.name, one.caller, one.slow, one.otherwise)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseInfo {
    /// For people: `waiting for a CPU: stress-ng`.
    pub name: String,
    /// The key of its colour: `wait`, `hard-irq`, `steal`, …
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The knobs of `latlab tune` and boot parameters that do it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knobs: Vec<String>,
}

/// The owners of the time of the packets beyond a percentile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Blame {
    /// As a fraction; 0 is all that was explained.
    pub quantile: f64,
    pub latency_ns: u64,
    pub beyond: u64,
    /// Number of those that were explained: the slowest.
    pub explained: u64,
    /// Part of their time that nothing explains, 0 to 1.
    pub unexplained: f64,
    /// The causes, the largest first.
    pub rows: Vec<BlameRow>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BlameRow {
    /// Place in [`Tail::causes`].
    pub cause: usize,
    /// Its part of the time, 0 to 1.
    pub share: f64,
    pub time_ns: u64,
    /// Packets that it is the first cause of.
    pub first_of: u64,
}

/// One packet: `[trial, flow, seq, at_ns, latency_ns, first, first_ns, behind, stretch, pieces]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PacketRow", into = "PacketRow")]
pub struct SlowPacket {
    pub trial: u32,
    pub flow: u16,
    /// Its number in the flow.
    pub seq: u32,
    /// When it went in, since the first packet of its trial.
    pub at_ns: u64,
    pub latency_ns: u64,
    /// The cause that cost it most; place in [`Tail::causes`].
    pub first: usize,
    pub first_ns: u64,
    /// The cause of the queue it was in.
    pub behind: Option<usize>,
    /// The work of the CPUs meanwhile; place in [`Tail::stretches`].
    pub stretch: Option<usize>,
    /// Its time between the taps, without gap or overlap, in order; empty where there was no room for all of it.
    pub pieces: Vec<Slice>,
}

type PacketRow = (
    u32,
    u16,
    u32,
    u64,
    u64,
    usize,
    u64,
    Option<usize>,
    Option<usize>,
    Vec<Slice>,
);

impl From<PacketRow> for SlowPacket {
    fn from(row: PacketRow) -> Self {
        let (trial, flow, seq, at_ns, latency_ns, first, first_ns, behind, stretch, pieces) = row;
        SlowPacket {
            trial,
            flow,
            seq,
            at_ns,
            latency_ns,
            first,
            first_ns,
            behind,
            stretch,
            pieces,
        }
    }
}

impl From<SlowPacket> for PacketRow {
    fn from(one: SlowPacket) -> Self {
        (
            one.trial,
            one.flow,
            one.seq,
            one.at_ns,
            one.latency_ns,
            one.first,
            one.first_ns,
            one.behind,
            one.stretch,
            one.pieces,
        )
    }
}

/// A piece of a packet's time: `[cause, ns, CPU]`, and of several joined behind that `[[cause, ns], …]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "SliceRow", into = "SliceRow")]
pub struct Slice {
    /// Place in [`Tail::causes`]; of several joined, what had most of it.
    pub cause: usize,
    pub ns: u64,
    /// On which CPU, where that is known.
    pub cpu: Option<u16>,
    /// Share of each cause where several were joined, the largest first; else empty.
    pub parts: Vec<(usize, u64)>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SliceRow {
    Joined(usize, u64, Option<u16>, Vec<(usize, u64)>),
    One(usize, u64, Option<u16>),
}

impl From<SliceRow> for Slice {
    fn from(row: SliceRow) -> Self {
        let (cause, ns, cpu, parts) = match row {
            SliceRow::Joined(cause, ns, cpu, parts) => (cause, ns, cpu, parts),
            SliceRow::One(cause, ns, cpu) => (cause, ns, cpu, Vec::new()),
        };
        Slice {
            cause,
            ns,
            cpu,
            parts,
        }
    }
}

impl From<Slice> for SliceRow {
    fn from(one: Slice) -> Self {
        if one.parts.is_empty() {
            SliceRow::One(one.cause, one.ns, one.cpu)
        } else {
            SliceRow::Joined(one.cause, one.ns, one.cpu, one.parts)
        }
    }
}

/// The work of the CPUs from the moment one slow packet came until it, and all that came meanwhile
/// and are slow too, had left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    pub trial: u32,
    /// Begin, since the first packet of the trial.
    pub at_ns: u64,
    pub ns: u64,
    /// Which of the names is the device's own program, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<usize>,
    pub lanes: Vec<Lane>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    pub cpu: u16,
    /// Tasks on the CPU: since the stretch's begin in ns, and the place in [`Tail::names`]. Each lasts until the next.
    pub tasks: Vec<(u64, usize)>,
    /// Interruptions of it, by interrupts and the hypervisor: begin and end in ns, and the name's place.
    pub upon: Vec<(u64, u64, usize)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_rows_and_come_back() {
        let packet = SlowPacket {
            trial: 3,
            flow: 1,
            seq: 7,
            at_ns: 1_000,
            latency_ns: 90,
            first: 2,
            first_ns: 80,
            behind: None,
            stretch: Some(4),
            pieces: vec![
                Slice {
                    cause: 2,
                    ns: 40,
                    cpu: None,
                    parts: Vec::new(),
                },
                Slice {
                    cause: 1,
                    ns: 50,
                    cpu: Some(1),
                    parts: vec![(1, 30), (2, 20)],
                },
            ],
        };
        let json = serde_json::to_string(&packet).unwrap();
        let rows = "[[2,40,null],[1,50,1,[[1,30],[2,20]]]]";
        assert_eq!(json, format!("[3,1,7,1000,90,2,80,null,4,{rows}]"));
        let back: SlowPacket = serde_json::from_str(&json).unwrap();
        assert_eq!(back, packet);
    }
}
