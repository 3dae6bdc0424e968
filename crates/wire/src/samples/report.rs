//! The parts of a probe's output that are JSON: what it says before and after the samples.
//!
//! The documents are typed and refuse unknown keys, because probe and reader come from the same build: a
//! key that only one of them knows is a mistake, not a newer version. Times and sizes carry their
//! unit in the name, so that a saved report explains itself.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    RrServer,
    /// Sends requests, one in flight.
    RrClient,
    Sink,
    /// Sends open-loop packets on a fixed schedule.
    Source,
    /// Carries frames between two interfaces.
    Forward,
    Clock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// One TCP connection, `TCP_NODELAY`.
    Tcp,
    Udp,
    /// Echo request and reply, answered by the peer's kernel.
    Icmp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    pub probe: Probe,
    /// Its own address: where it listens, or where it sends from.
    pub local: Option<SocketAddr>,
    pub conditions: Conditions,
}

/// The settings that a probe got from its machine, as opposed to those it asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    pub cpus: Vec<u32>,
    /// Its `SCHED_FIFO` priority; none means the normal scheduler.
    pub fifo_priority: Option<u32>,
    /// Why its memory could not be locked; none means it is locked.
    pub memory_not_locked: Option<String>,
    pub clock_source: Option<String>,
    /// Receive buffer the kernel granted its socket, in bytes.
    pub receive_buffer_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The run begins, its warm-up included. Nothing is said between warm-up and measured window:
    /// saying it would wake the reader in the very moment that matters.
    Running,
    /// The window is over; samples follow.
    Emitting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    pub phase: Phase,
    /// How long it should take, where that is known, in ns.
    pub expected_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Begin of the measured window.
    pub started_ns: u64,
    pub ended_ns: u64,
    pub counters: Counters,
    pub health: Health,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "probe", rename_all = "kebab-case")]
pub enum Counters {
    RrServer(RrServerCounters),
    RrClient(RrClientCounters),
    Sink(SinkCounters),
    Source(SourceCounters),
    Forward(ForwardCounters),
    Clock(ClockCounters),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RrServerCounters {
    pub answered: u64,
    pub malformed: u64,
    /// Answers the kernel did not take.
    pub not_sent: u64,
    pub connections: u64,
    /// TCP connections closed at once because too many were open.
    pub refused_connections: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoppedBy {
    Count,
    Duration,
    /// The room for records was used up before the time was over.
    Room,
    /// The peer failed; an error message says how.
    Peer,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RrClientCounters {
    pub protocol: Protocol,
    /// Kind of socket, where there are several and they differ in cost: `tcp`, `udp`,
    /// `udp-connected`, `icmp-raw` or `icmp-datagram`.
    pub socket: String,
    /// Length of a request in bytes: TCP or UDP payload, or ICMP data.
    pub request_bytes: u32,
    pub response_bytes: u32,
    pub warm_up: u64,
    pub transactions: u64,
    pub answered: u64,
    /// Measured transactions not answered in time.
    pub lost: u64,
    /// Answers to transactions already given up as lost.
    pub late: u64,
    /// Further answers to transactions already answered.
    pub duplicates: u64,
    /// Messages that are no answer to anything sent.
    pub unmatched: u64,
    /// Errors the network reported, such as port unreachable.
    pub network_errors: u64,
    pub stopped_by: StoppedBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stamp {
    /// By the probe, after the system call returned.
    #[default]
    User,
    /// By the kernel, when the packet entered its network stack.
    Kernel,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkCounters {
    /// Datagrams taken from the socket.
    pub received: u64,
    pub recorded: u64,
    pub no_room: u64,
    /// Received datagrams without a probe's header.
    pub corrupt: u64,
    /// Received packets of another flow than the one asked for.
    pub foreign: u64,
    /// Recorded packets whose flow and sequence had been received before.
    pub duplicates: u64,
    /// Recorded packets that came after a later one of their flow (RFC 4737).
    pub reordered: u64,
    pub flows: u32,
    pub stamp: Stamp,
    /// Packets for which the kernel, or the card of a [`card_clock`](Self::card_clock), gave no stamp although one was asked for.
    pub stamps_missing: u64,
    /// Number of the card's clock (`/dev/ptpN`), whose stamps are records of their own.
    pub card_clock: Option<u32>,
    /// `CLOCK_REALTIME − CLOCK_MONOTONIC` at the begin of the window, for kernel stamps.
    pub realtime_offset_start_ns: Option<i64>,
    /// The same at its end; between the two it is interpolated.
    pub realtime_offset_end_ns: Option<i64>,
}

/// How the gaps between packets are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    Constant,
    Poisson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// One UDP datagram a system call.
    Socket,
    /// Frames through a packet socket, several in one call when several are due.
    Packet,
    /// Frames through AF_XDP, likewise.
    Xdp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceCounters {
    /// Packets on the schedule, warm-up included.
    pub planned: u64,
    pub warm_up: u64,
    /// Planned packets taken by the kernel.
    pub sent: u64,
    /// Planned packets refused by the kernel because its queue was full.
    pub not_sent: u64,
    /// Errors the network reported, such as port unreachable.
    pub network_errors: u64,
    /// Ethernet frame of one packet, from destination address to FCS, in bytes.
    pub frame_bytes: u32,
    /// UDP payload of one packet, in bytes.
    pub payload_bytes: u32,
    pub rate_pps: u64,
    pub arrival: Arrival,
    /// From which seed; it matters only where chance does.
    pub seed: u64,
    pub flow: u16,
    /// How many flows took turns, from the first on.
    pub flows: u16,
    /// Packets that shared each time of the schedule.
    pub burst: u32,
    pub via: Via,
    /// Number of the card's clock (`/dev/ptpN`), if it stamps what is sent.
    pub card_clock: Option<u32>,
    /// Sent packets for which the card gave no stamp.
    pub stamps_missing: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardCounters {
    pub forwarded: u64,
    /// Frames carried from the second interface to the first.
    pub returned: u64,
    pub dropped: u64,
    /// Frames the kernel did not take.
    pub not_sent: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockCounters {
    /// Pairs of consecutive reads.
    pub steps: u64,
    /// Mean cost of one read: the whole time over the number of reads.
    pub mean_ns: f64,
    /// Distribution of the time between consecutive reads. The samples hold all of it.
    pub cost: Quantiles,
    /// Smallest step other than 0: what the clock resolves. None if it never moved.
    pub smallest_step_ns: Option<u64>,
    /// Resolution the kernel claims (`clock_getres`).
    pub claimed_resolution_ns: u64,
    /// Consecutive reads that gave the same time.
    pub equal: u64,
    /// Consecutive reads of which the second gave an earlier time.
    pub backward: u64,
}

/// A probe's own execution, from begin to end of the measured window. None where the kernel does not say.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Times it gave up the CPU by itself, by waiting.
    pub voluntary_switches: u64,
    /// Times the CPU was taken from it.
    pub involuntary_switches: u64,
    pub user_ns: u64,
    pub system_ns: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Time it was runnable but did not run.
    pub run_queue_wait_ns: Option<u64>,
    /// Time the hypervisor took from the CPUs it may run on, at the kernel's tick resolution.
    pub steal_ns: Option<u64>,
    /// Packets its sockets dropped because their receive buffer was full.
    pub socket_drops: Option<u64>,
    /// Packets the kernel dropped because a CPU's backlog was full, all CPUs.
    pub softnet_drops: Option<u64>,
    /// Times the kernel left packets for later because its budget was used up, all CPUs.
    pub softnet_squeezed: Option<u64>,
    /// How late it was on its own schedule: a source, each packet; a forwarder, how much longer
    /// than asked it held each. None where there is no schedule.
    pub lateness: Option<Quantiles>,
}

/// A distribution in short. A percentile stands here only with ten samples or more beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantiles {
    pub count: u64,
    /// Smallest; 0 without samples, as all below.
    pub min_ns: u64,
    pub p50_ns: Option<u64>,
    pub p90_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub p999_ns: Option<u64>,
    pub p9999_ns: Option<u64>,
    pub max_ns: u64,
}

impl Quantiles {
    /// Sorts `values` and reads off the nearest-rank percentiles.
    pub fn of(values: &mut [u64]) -> Quantiles {
        values.sort_unstable();
        let (Some(&min_ns), Some(&max_ns)) = (values.first(), values.last()) else {
            return Quantiles::default();
        };
        // In units of 1/10,000, so that the ranks are exact.
        let at = |per_10k: usize| {
            let rank = (values.len() * per_10k).div_ceil(10_000);
            (values.len() - rank >= 10).then(|| values[rank - 1])
        };
        Quantiles {
            count: values.len() as u64,
            min_ns,
            p50_ns: at(5_000),
            p90_ns: at(9_000),
            p99_ns: at(9_900),
            p999_ns: at(9_990),
            p9999_ns: at(9_999),
            max_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_stand_only_with_ten_samples_beyond() {
        let of = |count: u64| Quantiles::of(&mut (1..=count).rev().collect::<Vec<u64>>());
        assert_eq!(Quantiles::of(&mut []), Quantiles::default());
        assert_eq!((of(1).min_ns, of(1).p50_ns, of(1).max_ns), (1, None, 1));
        assert_eq!((of(19).p50_ns, of(20).p50_ns), (None, Some(10)));
        assert_eq!((of(999).p99_ns, of(1000).p99_ns), (None, Some(990)));
        assert_eq!((of(1000).p999_ns, of(10_000).p999_ns), (None, Some(9_990)));
        assert_eq!(
            (of(99_999).p9999_ns, of(100_000).p9999_ns),
            (None, Some(99_990))
        );
    }

    #[test]
    fn unknown_keys_are_refused() {
        let counters = Counters::RrServer(RrServerCounters::default());
        let json = serde_json::to_string(&counters).unwrap();
        assert!(
            json.starts_with(r#"{"probe":"rr-server","answered":0"#),
            "{json}"
        );
        assert_eq!(serde_json::from_str::<Counters>(&json).unwrap(), counters);
        let more = json.replace("answered", "answred");
        assert!(serde_json::from_str::<Counters>(&more).is_err());
    }
}
