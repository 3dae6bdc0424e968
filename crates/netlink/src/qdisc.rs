//! Queueing disciplines on the egress of an interface: `tbf` for a rate, `netem` for delay, jitter and loss.
//!
//! Both option layouts are written here because `netlink-packet-route` has neither
//! (`linux/pkt_sched.h`: `tc_tbf_qopt`, `tc_netem_qopt`). Sizes are given to the kernel in bytes
//! and nanoseconds (`TCA_TBF_BURST`, `TCA_TBF_RATE64`, `TCA_NETEM_LATENCY64`), never in the
//! scheduler's ticks, whose rounding is the classic source of a rate that is silently wrong.

use std::time::Duration;

use netlink_packet_core::{DefaultNla, Emitable, NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcHeader, TcMessage};

use crate::attribute::{attribute, attributes, string_of, u32_of};
use crate::error::Error;
use crate::handle::Handle;
use crate::request::Request;

const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_JITTER64: u16 = 11;
/// `TC_LINKLAYER_ETHERNET`: the kernel computes with the true length, without a rate table.
const LINKLAYER_ETHERNET: u8 = 1;
/// One tick of the packet scheduler (`PSCHED_SHIFT` 6), in nanoseconds.
const TICK_NANOS: u64 = 64;
const NETEM_OPTION_BYTES: usize = 24;
const TBF_OPTION_BYTES: usize = 36;

/// A token bucket filter: at most `rate`, in bursts of at most `burst_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tbf {
    /// Rate in bits per second, counted over Ethernet frames without preamble and checksum.
    pub rate_bits_per_second: u64,
    /// Bucket size in bytes. Packets larger than this are dropped, unless they are GSO packets,
    /// which are cut up first.
    pub burst_bytes: u32,
    /// Bytes that may wait; more are dropped.
    pub limit_bytes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Netem {
    pub delay: Duration,
    /// Delay varies uniformly by this much either way; packets may overtake each other.
    pub jitter: Duration,
    /// Probability that a packet is lost, 0 to 1.
    pub loss: f64,
    /// Packets that may wait; more are dropped.
    pub limit_packets: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Qdisc {
    Tbf(Tbf),
    Netem(Netem),
}

/// Where a queueing discipline is put. Its handle and its parent's are `major:minor` as in `tc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    Root,
    /// A class of another queueing discipline.
    Class(u16, u16),
}

impl Qdisc {
    /// The request that puts it on the interface of this index with handle `major:0`, replacing what is at that place.
    pub fn replace(&self, interface: u32, parent: Parent, major: u16) -> Request<'static> {
        let (kind, options) = match self {
            Self::Tbf(tbf) => ("tbf", tbf.options()),
            Self::Netem(netem) => ("netem", netem.options()),
        };
        let mut message = TcMessage::with_index(interface as i32);
        message.header.parent = match parent {
            Parent::Root => TcHandle::ROOT,
            Parent::Class(major, minor) => TcHandle { major, minor },
        };
        message.header.handle = TcHandle { major, minor: 0 };
        message.attributes = vec![
            TcAttribute::Kind(kind.to_owned()),
            TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, options)),
        ];
        let action = format!("set queueing discipline {kind} on link #{interface}");
        let message = RouteNetlinkMessage::NewQueueDiscipline(message);
        Request::new(&message, NLM_F_CREATE | NLM_F_REPLACE, action)
    }
}

/// The request that takes the root queueing discipline away; the kernel's default comes back.
pub fn delete_root_qdisc(interface: u32) -> Request<'static> {
    let mut message = TcMessage::with_index(interface as i32);
    message.header.parent = TcHandle::ROOT;
    let action = format!("remove the queueing discipline of link #{interface}");
    let message = RouteNetlinkMessage::DelQueueDiscipline(message);
    Request::new(&message, 0, action)
}

impl Tbf {
    /// `struct tc_tbf_qopt` (rate, peak rate, limit, buffer, mtu) and the exact values beside it.
    fn options(&self) -> Vec<u8> {
        let bytes_per_second = self.rate_bits_per_second / 8;
        let mut parameters = Vec::with_capacity(TBF_OPTION_BYTES);
        // struct tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu, rate. A rate that
        // needs RATE64 is written as all ones here.
        parameters.extend([0, LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0]);
        let rate32 = u32::try_from(bytes_per_second).unwrap_or(u32::MAX);
        parameters.extend(rate32.to_ne_bytes());
        parameters.extend([0; 12]);
        parameters.extend(self.limit_bytes.to_ne_bytes());
        let nanos = u64::from(self.burst_bytes) * 1_000_000_000 / bytes_per_second.max(1);
        let ticks = u32::try_from(nanos / TICK_NANOS).unwrap_or(u32::MAX);
        parameters.extend(ticks.to_ne_bytes());
        parameters.extend([0; 4]);
        emit(&[
            DefaultNla::new(TCA_TBF_PARMS, parameters),
            DefaultNla::new(TCA_TBF_RATE64, bytes_per_second.to_ne_bytes().to_vec()),
            DefaultNla::new(TCA_TBF_BURST, self.burst_bytes.to_ne_bytes().to_vec()),
        ])
    }

    fn parse(options: &[u8]) -> Option<Self> {
        let (mut parameters, mut rate64) = (None, None);
        for (kind, value) in attributes(options) {
            match kind {
                TCA_TBF_PARMS => parameters = value.get(..TBF_OPTION_BYTES),
                TCA_TBF_RATE64 => rate64 = value.try_into().ok().map(u64::from_ne_bytes),
                _ => {}
            }
        }
        let word = |at: usize| u32_of(parameters?.get(at..at + 4)?);
        let bytes_per_second = rate64.or(word(8).map(u64::from))?;
        // The kernel reports the burst only as ticks of time at this rate.
        let nanos = u64::from(word(28)?) * TICK_NANOS;
        let burst = u128::from(nanos) * u128::from(bytes_per_second) / 1_000_000_000;
        Some(Self {
            rate_bits_per_second: bytes_per_second * 8,
            burst_bytes: u32::try_from(burst).unwrap_or(u32::MAX),
            limit_bytes: word(24)?,
        })
    }
}

impl Netem {
    /// `struct tc_netem_qopt` (latency, limit, loss, gap, duplicate, jitter), then attributes.
    fn options(&self) -> Vec<u8> {
        let loss = (self.loss.clamp(0.0, 1.0) * f64::from(u32::MAX)).round() as u32;
        let mut options = Vec::new();
        for word in [0, self.limit_packets, loss, 0, 0, 0] {
            options.extend(word.to_ne_bytes());
        }
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let [delay, jitter] = [self.delay, self.jitter].map(|time| nanos(time).to_ne_bytes());
        options.extend(emit(&[
            DefaultNla::new(TCA_NETEM_LATENCY64, delay.to_vec()),
            DefaultNla::new(TCA_NETEM_JITTER64, jitter.to_vec()),
        ]));
        options
    }

    fn parse(options: &[u8]) -> Option<Self> {
        let (head, rest) = options.split_at_checked(NETEM_OPTION_BYTES)?;
        let word = |at: usize| u32_of(&head[at..at + 4]);
        let mut netem = Self {
            limit_packets: word(4)?,
            loss: f64::from(word(8)?) / f64::from(u32::MAX),
            ..Self::default()
        };
        for (kind, value) in attributes(rest) {
            let nanos = || value.try_into().ok().map(i64::from_ne_bytes);
            let time = || nanos().map(|n| Duration::from_nanos(n.unsigned_abs()));
            match kind {
                TCA_NETEM_LATENCY64 => netem.delay = time()?,
                TCA_NETEM_JITTER64 => netem.jitter = time()?,
                _ => {}
            }
        }
        Some(netem)
    }
}

fn emit(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

#[derive(Debug, Clone, PartialEq)]
pub struct QdiscEntry {
    pub interface: u32,
    pub kind: String,
    /// Its settings, for the kinds this crate knows.
    pub settings: Option<Qdisc>,
    pub is_root: bool,
    pub dropped: u32,
}

impl QdiscEntry {
    fn parse(payload: &[u8]) -> Option<Self> {
        let header = TcHeader::parse(payload).ok()?;
        let (mut name, mut options, mut dropped) = (String::new(), &[][..], 0);
        for (kind, value) in attributes(payload.get(20..)?) {
            match kind {
                libc::TCA_KIND => name = string_of(value),
                TCA_OPTIONS => options = value,
                TCA_STATS2 => {
                    // struct gnet_stats_queue: qlen, backlog, drops, requeues, overlimits.
                    dropped = attribute(value, TCA_STATS_QUEUE)
                        .and_then(|queue| u32_of(queue.get(8..12)?))
                        .unwrap_or_default();
                }
                _ => {}
            }
        }
        let settings = match name.as_str() {
            "tbf" => Tbf::parse(options).map(Qdisc::Tbf),
            "netem" => Netem::parse(options).map(Qdisc::Netem),
            _ => None,
        };
        Some(Self {
            interface: header.index as u32,
            kind: name,
            settings,
            is_root: header.parent == TcHandle::ROOT,
            dropped,
        })
    }
}

impl Handle {
    /// Every queueing discipline in the namespace, except the kernel's invisible defaults.
    pub fn qdiscs(&mut self) -> Result<Vec<QdiscEntry>, Error> {
        let message = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let request = Request::new(&message, 0, "list queueing disciplines".into());
        self.dump(&request, QdiscEntry::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tbf_settings_survive_encoding() {
        for rate_bits_per_second in [64_000, 1_000_000_000, 100_000_000_000] {
            let tbf = Tbf {
                rate_bits_per_second,
                burst_bytes: 131_072,
                limit_bytes: 1 << 20,
            };
            let read = Tbf::parse(&tbf.options()).unwrap();
            assert_eq!(read.rate_bits_per_second, rate_bits_per_second);
            assert_eq!(read.limit_bytes, tbf.limit_bytes);
            // The burst comes back through 64 ns ticks.
            let tick_bytes = (rate_bits_per_second / 8 * TICK_NANOS).div_ceil(1_000_000_000) as u32;
            assert!(
                tbf.burst_bytes.abs_diff(read.burst_bytes) <= tick_bytes,
                "{read:?}"
            );
        }
    }

    #[test]
    fn netem_settings_survive_encoding() {
        let netem = Netem {
            delay: Duration::from_micros(1500),
            jitter: Duration::from_nanos(250),
            loss: 0.01,
            limit_packets: 10_000,
        };
        let read = Netem::parse(&netem.options()).unwrap();
        assert_eq!((read.delay, read.jitter), (netem.delay, netem.jitter));
        assert_eq!(read.limit_packets, netem.limit_packets);
        assert!((read.loss - netem.loss).abs() < 1e-9);
    }

    #[test]
    fn truncated_options_are_none() {
        assert_eq!(Netem::parse(&[0; 10]), None);
        assert_eq!(Tbf::parse(&[8, 0, 1, 0, 0, 0, 0, 0]), None);
    }
}
