//! A measurement as written: which probe, between which ends, for how long, with how much load.
//!
//! A key that the chosen probe does not use is refused, because a `rate` on a request/response
//! measurement would be believed. Bounds are those of the probes themselves, so that a study which
//! is accepted here is not refused in its tenth minute.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use super::action::{self, Action};
use super::ends::{Ends, Target, read_target};
use super::name::check_name;
use super::noise::Noise;
use super::parameter::bounded;
use super::probe::{Probe, Protocol};
use super::reader::{Object, items, words};
use super::sampling;
use super::sweep;
use super::timestamps;
use super::traffic::{Arrival, Device, Polling, Via};
use super::uses::{fitting, refuse_unused};
use super::workload::{self, Workload};
use super::yaml::Yaml;
use crate::diagnostic::{Diagnostics, Mark, Spanned, shown};
use crate::kinds::Timestamps;
use crate::results::SweepPoint;
use crate::units::{BitsPerSecond, Bytes, Nanos};

/// Which CPUs the two endpoints run on. Left to itself, the scheduler puts them now on one CPU and now on two; a
/// wake-up costs several times as much in one case as in the other, and a result that mixes both describes neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pin {
    /// Each on a CPU of its own, where its node may use two.
    #[default]
    Apart,
    /// Both on one CPU.
    Together,
    /// Wherever the scheduler puts them.
    Free,
}
words!(Pin, "a pinning", { "apart" => Apart, "together" => Together, "free" => Free });

/// A measurement, as written, with its defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    pub name: Spanned<String>,
    pub probe: Probe,
    pub protocol: Protocol,
    /// Where packets come from and go to; none of a workload.
    pub ends: Option<Ends>,
    /// The program and its nodes (`workload`).
    pub workload: Option<Workload>,
    pub duration: Nanos,
    /// Time before it that is not recorded.
    pub warmup: Nanos,
    /// Packets per second (`packets`, `forward`).
    pub rate: u64,
    /// Requests per second, whether answers come or not (`rr`); without it each waits for the answer before it.
    pub pace: Option<u64>,
    /// Bytes of an Ethernet frame, FCS included (`packets`), or of the message (`stream` over UDP).
    pub size: u32,
    /// Request and response bytes (`rr`); Felter 2014 used 100 and 200.
    pub request: u32,
    pub response: u32,
    /// Offered rate of a UDP stream; unlimited for TCP.
    pub bitrate: Option<BitsPerSecond>,
    /// When packets are due (`packets`, `forward`).
    pub arrival: Arrival,
    /// How many are due at the same time; the mean rate stays as it is.
    pub burst: u32,
    /// How many flows take turns.
    pub flows: u32,
    pub via: Via,
    /// The source of the times (`packets`).
    pub timestamps: Timestamps,
    /// IP version: 4 or 6.
    pub ip: u32,
    /// Which CPUs the endpoints run on (`rr`, `packets`).
    pub pin: Pin,
    /// Load beside it, outside the lab.
    pub noise: Noise,
    /// The nodes between both ends, in the order of the way (`forward`); none when a link is the device.
    pub through: Vec<Spanned<String>>,
    /// The device that carries packets on there (`forward`).
    pub device: Device,
    /// How latlab's own forwarder waits (`forward`).
    pub poll: Polling,
    /// Whether the flight recorder runs (`forward`).
    pub record: bool,
    /// Whether it records slow system calls too (`forward`).
    pub system_calls: bool,
    /// How often stacks of the device's threads are sampled, in a second of their running (`forward`).
    pub sampling: Option<u32>,
    /// Done to the lab within the window (`rr`, `packets`, `forward`).
    pub actions: Vec<Action>,
    /// Its place in a sweep of one of its parameters.
    pub sweep: Option<SweepPoint>,
}

/// Where none is given.
const DURATION: Nanos = Nanos(2_000_000_000);
const DURATIONS: RangeInclusive<Nanos> = Nanos(1_000_000)..=Nanos(3_600_000_000_000);
const MAX_WARMUP: Nanos = Nanos(60_000_000_000);
const RATES: RangeInclusive<u64> = 1..=100_000_000;
/// One thread sends requests and takes the answers.
const MAX_PACE: u64 = 1_000_000;
/// Packets of one trial: both ends keep a record of each in memory.
const MAX_PACKETS: u64 = 20_000_000;
/// Packets that are due at once.
const BURSTS: RangeInclusive<u32> = 1..=65_536;
/// Flows: each has a socket of its own.
const FLOWS: RangeInclusive<u32> = 1..=512;
/// Largest frame that AF_XDP sends, FCS included: a page and the FCS.
const MAX_XDP_BYTES: u32 = 4100;
/// Bytes of the probes' own header, which every message carries.
const HEADER_BYTES: u64 = 16;
/// Largest UDP payload over IPv4.
const MAX_DATAGRAM_BYTES: u64 = 65_507;
/// Largest message of a TCP transaction.
const MAX_STREAM_BYTES: u64 = 1 << 20;
/// Ethernet header and frame check sequence.
pub(crate) const ETHERNET_BYTES: u32 = 18;

pub(super) fn read_all(yaml: &Yaml, errors: &mut Diagnostics) -> Vec<Measurement> {
    let Some(items) = items(yaml, "`measurements`", "begin each with `- `", errors) else {
        return Vec::new();
    };
    if items.is_empty() {
        let hint = "add one, for example `- {probe: rr, from: client, to: server}`";
        errors.add(yaml.at, "the study measures nothing", hint);
    }
    let mut names: HashMap<String, Mark> = HashMap::new();
    let mut all = Vec::new();
    let expanded = items.iter().enumerate();
    let expanded = expanded.flat_map(|(index, item)| {
        let points = sweep::expand(item, errors);
        points
            .into_iter()
            .map(move |(item, point)| (index, item, point))
    });
    let expanded: Vec<_> = expanded.collect();
    for (index, item, point) in expanded {
        let written = Written::read(&item, index, errors);
        let Some(mut m) = written.and_then(|w| w.checked(errors)) else {
            continue;
        };
        m.sweep = point;
        if let Some(first) = names.insert(m.name.value.clone(), m.name.at) {
            let message = format!(
                "two measurements are named `{}`; the first is on line {}",
                shown(&m.name),
                first.line
            );
            errors.add(m.name.at, message, "give each its own `name:`");
        }
        all.push(m);
    }
    all
}

/// A measurement before defaults, with places.
struct Written {
    what: String,
    at: Mark,
    name: Option<Spanned<String>>,
    probe: Spanned<Probe>,
    protocol: Option<Spanned<Protocol>>,
    from: Option<Spanned<Target>>,
    to: Option<Spanned<Target>>,
    duration: Option<Spanned<Nanos>>,
    warmup: Option<Spanned<Nanos>>,
    rate: Option<Spanned<u64>>,
    size: Option<Spanned<Bytes>>,
    request: Option<Spanned<Bytes>>,
    response: Option<Spanned<Bytes>>,
    bitrate: Option<Spanned<BitsPerSecond>>,
    ip: Option<Spanned<u32>>,
    pin: Option<Spanned<Pin>>,
    noise: Option<Spanned<Noise>>,
    arrival: Option<Spanned<Arrival>>,
    burst: Option<Spanned<u32>>,
    flows: Option<Spanned<u32>>,
    via: Option<Spanned<Via>>,
    timestamps: Option<Spanned<Timestamps>>,
    through: Vec<Spanned<String>>,
    device: Option<Spanned<Device>>,
    poll: Option<Spanned<Polling>>,
    record: Option<Spanned<bool>>,
    system_calls: Option<Spanned<bool>>,
    sampling: Option<u32>,
    actions: Vec<Action>,
    workload: Option<Workload>,
}

impl Written {
    /// `None` when it has no probe, without which nothing more can be said of it.
    fn read(yaml: &Yaml, index: usize, errors: &mut Diagnostics) -> Option<Written> {
        let what = format!("measurement number {}", index + 1);
        let mut o = Object::new(yaml, what, errors);
        let name = o.get::<String>("name", errors);
        // Its values were set before.
        o.take(sweep::KEY);
        if let Some(n) = &name {
            o.what = format!("measurement `{}`", shown(n));
            check_name("measurement", n, errors);
        }
        let probe = o.need::<Probe>("probe", errors);
        let protocol = o.get::<Protocol>("protocol", errors);
        if let (Some(probe), None) = (&probe, &name) {
            let protocol = protocol.map_or(fitting(probe.value)[0], |p| p.value);
            o.what = format!("measurement `{}`", default_name(probe.value, protocol));
        }
        let is_workload = probe.is_some_and(|probe| probe.value == Probe::Workload);
        let end = |key, o: &mut Object<'_>, errors: &mut Diagnostics| {
            if is_workload {
                // The reader of workloads reads `from`.
                o.take(key);
                return None;
            }
            let yaml = o.require(key, errors)?;
            read_target(yaml, &format!("`{key}` of {}", o.what), errors)
        };
        let (from, to) = (end("from", &mut o, errors), end("to", &mut o, errors));
        let duration = o.get("duration", errors);
        let word = probe.map(|probe| probe.value);
        let lasts = duration.map_or(DURATION, |d: Spanned<Nanos>| d.value);
        let workload = workload::read_keys(&mut o, word, lasts, errors);
        let written = Written {
            what: o.what.clone(),
            at: o.at,
            name,
            probe: probe.unwrap_or(Spanned::new(Probe::Rr, o.at)),
            protocol,
            from,
            to,
            duration,
            warmup: o.get("warmup", errors),
            rate: o.get("rate", errors),
            size: o.get("size", errors),
            request: o.get("request", errors),
            response: o.get("response", errors),
            bitrate: o.get("bitrate", errors),
            arrival: o.get("arrival", errors),
            burst: o.get("burst", errors),
            flows: o.get("flows", errors),
            via: o.get("via", errors),
            timestamps: timestamps::read(&mut o, word, errors),
            ip: o.get("ip", errors),
            pin: o.get("pin", errors),
            noise: o.get("noise", errors),
            through: o.list("through", errors),
            device: o.get("device", errors),
            poll: o.get("poll", errors),
            record: o.get("record", errors),
            system_calls: o.get("system_calls", errors),
            sampling: sampling::read(&mut o, errors),
            actions: action::read_all(&mut o, errors),
            workload,
        };
        if let Some(probe) = &probe {
            refuse_unused(&o, probe.value, errors);
        }
        o.finish(errors);
        probe.map(|_| written)
    }

    fn checked(self, errors: &mut Diagnostics) -> Option<Measurement> {
        let protocol = self.protocol(errors);
        let ip = self.ip.map_or(4, |v| v.value);
        if let Some(v) = self.ip.filter(|v| v.value != 4 && v.value != 6) {
            let message = format!("`ip` of {} is {}", self.what, v.value);
            errors.add(v.at, message, "it is a version: 4 or 6");
        }
        let (duration, warmup) = self.times(errors);
        let rate = self.rate(duration.0 + warmup.0, errors);
        let pace = self.pace(protocol, errors);
        let size = self.size(protocol, ip, errors);
        let (request, response) = self.messages(protocol, errors);
        let burst = bounded(self.burst, ("burst", &self.what), 1, &BURSTS, errors);
        let flows = bounded(self.flows, ("flows", &self.what), 1, &FLOWS, errors);
        let via = self.via(ip, size, errors);
        self.way(errors);
        self.recorder(errors);
        action::check(&self.actions, &self.what, duration, errors);
        if let (Some(from), Some(to)) = (&self.from, &self.to) {
            if from.node == to.node {
                let message = format!("{} goes from `{1}` to `{1}`", self.what, shown(&to.node));
                errors.add(to.at, message, "name two different nodes");
            }
        }
        let named = default_name(self.probe.value, protocol);
        let ends = self.from.zip(self.to).map(|(from, to)| Ends { from, to });
        // Without both, or without a task, nothing is measured; that was noted.
        if ends.is_none() && self.workload.is_none() {
            return None;
        }
        Some(Measurement {
            name: self.name.unwrap_or(Spanned::new(named, self.at)),
            probe: self.probe.value,
            protocol,
            ends,
            workload: self.workload,
            duration,
            warmup,
            rate,
            pace,
            size,
            request,
            response,
            bitrate: self.bitrate.map(|s| s.value),
            arrival: self.arrival.map(|a| a.value).unwrap_or_default(),
            burst,
            flows,
            via,
            timestamps: self.timestamps.map(|by| by.value).unwrap_or_default(),
            ip,
            pin: self.pin.map(|p| p.value).unwrap_or_default(),
            noise: self.noise.map(|n| n.value).unwrap_or_default(),
            through: self.through,
            device: self.device.map(|d| d.value).unwrap_or_default(),
            poll: self.poll.map(|p| p.value).unwrap_or_default(),
            record: self.record.is_none_or(|r| r.value),
            system_calls: self.system_calls.is_some_and(|s| s.value),
            sampling: self.sampling,
            actions: self.actions,
            sweep: None,
        })
    }

    /// System calls are recorded by the recorder, which must be on.
    fn recorder(&self, errors: &mut Diagnostics) {
        let is_off = self.record.is_some_and(|record| !record.value);
        if let Some(calls) = self.system_calls.filter(|calls| calls.value && is_off) {
            let message = format!("{} records system calls without its recorder", self.what);
            errors.add(calls.at, message, "leave out `record: false`");
        }
    }

    fn protocol(&self, errors: &mut Diagnostics) -> Protocol {
        let fitting = fitting(self.probe.value);
        let Some(protocol) = self.protocol else {
            return fitting[0];
        };
        if !fitting.contains(&protocol) {
            let (what, probe) = (&self.what, self.probe.value);
            let message = format!("{what}: probe `{probe}` cannot use {}", protocol.value);
            let words: Vec<&str> = fitting.iter().map(|p| p.word()).collect();
            let hint = format!("`{probe}` uses {}", words.join(" or "));
            errors.add(protocol.at, message, hint);
        }
        protocol.value
    }

    fn times(&self, errors: &mut Diagnostics) -> (Nanos, Nanos) {
        if let Some(d) = self.duration.filter(|d| !DURATIONS.contains(&d.value)) {
            let message = format!("`duration` of {} is {}", self.what, d.value);
            let hint = "from 1ms to 60min; more `replicates` show more than one long trial";
            errors.add(d.at, message, hint);
        }
        if let Some(w) = self.warmup.filter(|w| w.value > MAX_WARMUP) {
            let message = format!("`warmup` of {} is {}", self.what, w.value);
            errors.add(
                w.at,
                message,
                format!("at most {MAX_WARMUP}; 200ms is the default"),
            );
        }
        let duration = self.duration.map_or(DURATION, |d| d.value);
        let warmup = self.warmup.map_or(Nanos(200_000_000), |w| w.value);
        (duration.min(*DURATIONS.end()), warmup.min(MAX_WARMUP))
    }

    /// The rate of requests, which a stream does not have.
    fn pace(&self, protocol: Protocol, errors: &mut Diagnostics) -> Option<u64> {
        let rate = self.rate.filter(|_| self.probe.value == Probe::Rr)?;
        if protocol == Protocol::Tcp {
            let message = format!("`rate` of {} has no meaning over tcp", self.what);
            let hint = "a stream answers in order: use `protocol: udp` or `icmp`";
            errors.add(rate.at, message, hint);
        } else if RATES.contains(&rate.value) && rate.value > MAX_PACE {
            let message = format!("`rate` of {} is {}", self.what, rate.value);
            errors.add(
                rate.at,
                message,
                format!("at most {MAX_PACE} requests per second"),
            );
        }
        Some(rate.value)
    }

    fn rate(&self, time_ns: u64, errors: &mut Diagnostics) -> u64 {
        const DEFAULT: u64 = 10_000;
        let rate = self.rate.map_or(DEFAULT, |rate| rate.value);
        let is_usual = matches!(self.probe.value, Probe::Packets | Probe::Forward);
        let packets = u128::from(rate) * u128::from(time_ns) / 1_000_000_000;
        if !RATES.contains(&rate) {
            let message = format!("`rate` of {} is {rate}", self.what);
            let hint = format!(
                "packets per second, from {} to {}",
                RATES.start(),
                RATES.end()
            );
            errors.add(self.rate.map_or(self.at, |rate| rate.at), message, hint);
        } else if packets > u128::from(MAX_PACKETS) && (is_usual || self.rate.is_some()) {
            let message = format!("{} sends {packets} packets in one trial", self.what);
            let hint = format!("at most {MAX_PACKETS}, each is kept: lower `rate` or `duration`");
            let given = self.rate.map(|rate| rate.at);
            let at = given.or(self.duration.map(|duration| duration.at));
            errors.add(at.unwrap_or(self.at), message, hint);
        }
        rate
    }

    /// Size of a frame (`packets`), or of a message (`stream` over UDP).
    fn size(&self, protocol: Protocol, ip: u32, errors: &mut Diagnostics) -> u32 {
        let is_packets = matches!(self.probe.value, Probe::Packets | Probe::Forward);
        let headers = u64::from(ETHERNET_BYTES) + if ip == 6 { 40 } else { 20 } + 8;
        let is_stamped = self.timestamps.is_some_and(|by| by.value.is_hardware());
        let smallest = 64.max(headers + HEADER_BYTES);
        let (range, default) = match is_packets {
            true if is_stamped => (timestamps::BYTES, *timestamps::BYTES.start()),
            true => (smallest..=headers + MAX_DATAGRAM_BYTES, smallest),
            false => (HEADER_BYTES..=MAX_DATAGRAM_BYTES, 1472),
        };
        let Some(size) = self.size else {
            return default as u32;
        };
        if self.probe.value == Probe::Stream && protocol == Protocol::Tcp {
            let message = format!("`size` of {} has no meaning over tcp", self.what);
            errors.add(size.at, message, "remove it, or use `protocol: udp`");
        } else if !range.contains(&size.value.0) {
            let (low, high) = (range.start(), range.end());
            let message = format!("`size` of {} is {} bytes", self.what, size.value.0);
            let hint = match is_packets {
                true if is_stamped => format!("a frame of PTP has {low} to {high} bytes here"),
                true => format!("an Ethernet frame over IPv{ip} has {low} to {high} bytes here"),
                false => format!("a datagram has {low} to {high} bytes here"),
            };
            errors.add(size.at, message, hint);
        }
        size.value.0.min(*range.end()) as u32
    }

    /// Whether what a `forward` measurement says of its way makes sense.
    fn way(&self, errors: &mut Diagnostics) {
        let ends = [&self.from, &self.to];
        for node in &self.through {
            let is_end = ends.iter().any(|end| {
                let end = end.as_ref();
                end.is_some_and(|end| end.node == node.value)
            });
            let again = self
                .through
                .iter()
                .filter(|n| n.value == node.value)
                .count()
                > 1;
            if is_end || again {
                let message = format!("{} passes `{}` twice", self.what, shown(node));
                errors.add(node.at, message, "a way passes each node once");
                return;
            }
        }
        let given = self.device.filter(|d| d.value != Device::Lab);
        if let (Some(device), true) = (given, self.through.is_empty()) {
            let message = format!("{} has no node for its forwarder", self.what);
            let hint = "say which: `through: NODE`";
            errors.add(device.at, message, hint);
        }
        let hidden = given.filter(|d| d.value.precedes_taps() && self.through.len() > 1);
        if let Some(device) = hidden {
            let message = format!(
                "{} goes through several nodes, and `device: {}` hides the frames between them",
                self.what, device.value
            );
            let hint = "no tap sees a frame before it: go through one node, or use another device";
            errors.add(device.at, message, hint);
        }
        let own = given.filter(|d| d.value.is_own_program());
        if let (Some(poll), None) = (self.poll, own) {
            let message = format!("`poll` of {} says how latlab's forwarder waits", self.what);
            let hint = "remove it, or use `device: af-packet` or `device: af-xdp`";
            errors.add(poll.at, message, hint);
        }
    }

    /// How packets leave. Through a device under test as frames, where those can be built: they pass the
    /// tap, and no device depends on what the sender's kernel would note about them.
    fn via(&self, ip: u32, size: u32, errors: &mut Diagnostics) -> Via {
        let Some(via) = self.via else {
            return match (self.probe.value, ip) {
                (Probe::Forward, 4) => Via::Packet,
                _ => Via::Socket,
            };
        };
        let mut refuse = |message: &str, hint: &str| {
            let message = format!("`via: {}` of {} {message}", via.value, self.what);
            errors.add(via.at, message, hint);
        };
        if via.value != Via::Socket && ip == 6 {
            refuse(
                "builds frames for IPv4 only",
                "use `via: socket`, or `ip: 4`",
            );
        } else if via.value == Via::Xdp && self.probe.value == Probe::Forward {
            let hint = "use `via: packet`; `probe: packets` times at the endpoints, without taps";
            refuse("passes no tap", hint);
        } else if via.value == Via::Xdp && size > MAX_XDP_BYTES {
            let message = format!("sends frames of up to {MAX_XDP_BYTES} bytes");
            refuse(&message, "use `via: packet`");
        }
        via.value
    }

    fn messages(&self, protocol: Protocol, errors: &mut Diagnostics) -> (u32, u32) {
        let largest = match protocol {
            Protocol::Tcp => MAX_STREAM_BYTES,
            Protocol::Udp | Protocol::Icmp => MAX_DATAGRAM_BYTES,
        };
        for (key, given) in [("request", self.request), ("response", self.response)] {
            let range = HEADER_BYTES..=largest;
            if let Some(bytes) = given.filter(|b| !range.contains(&b.value.0)) {
                let message = format!("`{key}` of {} is {} bytes", self.what, bytes.value.0);
                let hint = format!("from {HEADER_BYTES} to {largest} over {protocol}");
                errors.add(bytes.at, message, hint);
            }
        }
        let bytes = |given: Option<Spanned<Bytes>>, default| {
            given.map_or(default, |b| b.value.0.min(largest) as u32)
        };
        let request = bytes(self.request, 100);
        if protocol != Protocol::Icmp {
            return (request, bytes(self.response, 200));
        }
        if let Some(other) = self.response.filter(|r| r.value.0 != u64::from(request)) {
            let message = format!("`response` of {} differs from its request", self.what);
            errors.add(
                other.at,
                message,
                "remove it: an echo returns what was sent",
            );
        }
        (request, request)
    }
}

fn default_name(probe: Probe, protocol: Protocol) -> String {
    match probe {
        Probe::Workload => probe.to_string(),
        _ => format!("{probe}-{protocol}"),
    }
}
