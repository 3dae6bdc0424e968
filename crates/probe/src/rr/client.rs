//! The probe `rr-client`: sends one request after another and records every transaction.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use latlab_wire::probe::HEADER_BYTES;
use latlab_wire::samples::{
    Counters, Phase, Probe, Protocol, Record, Report, RrClientCounters, SampleKind, StoppedBy,
    flags,
};

use super::datagram::{Datagram, Framing};
use super::open_loop::{self, Pace};
use super::stream::Stream;
use super::transaction::{
    DEFAULT_REQUEST_BYTES, DEFAULT_RESPONSE_BYTES, MAX_STREAM_MESSAGE_BYTES, Tally, Transport,
};
use crate::args::Options;
use crate::error::{Error, Result};
use crate::health::Watch;
use crate::icmp::Echo;
use crate::net::{self, IcmpSocket, MAX_DATAGRAM_BYTES};
use crate::output::Output;
use crate::setup::{Common, Poll, grow_touched, touched_records};
use crate::sys::Who;
use crate::time;

const DEFAULT_WARM_UP: u64 = 100;
/// A warm-up that gets no answer this often in a row has nothing to warm up.
const WARM_UP_LOSSES: usize = 3;
/// The most requests in a second.
const MAX_RATE: u64 = 1_000_000;
/// Room for records that a run by time gets in any case.
const MIN_ROOM: u64 = 1 << 16;

struct Settings {
    protocol: Protocol,
    to: SocketAddr,
    from: Option<IpAddr>,
    count: Option<u64>,
    duration_ns: Option<u64>,
    request_bytes: u32,
    response_bytes: u32,
    warm_up: u64,
    timeout_ns: u64,
    poll: Poll,
    /// Requests in a second, whether answers come or not; else each waits for the answer before it.
    rate: Option<u64>,
    /// Whether a UDP socket is connected, which spares the kernel a route look-up per request and
    /// lets it report that the port is closed. Programs differ in it; sockperf does not connect.
    connect: bool,
}

impl Settings {
    fn take(options: &mut Options) -> Result<Settings> {
        let protocols = [
            ("tcp", Protocol::Tcp),
            ("udp", Protocol::Udp),
            ("icmp", Protocol::Icmp),
        ];
        let protocol = options
            .choice("proto", &protocols)?
            .ok_or_else(|| Error::Usage("--proto is missing: tcp, udp or icmp".into()))?;
        let to = match protocol {
            // ICMP has no ports; 0 takes the place of one.
            Protocol::Icmp => SocketAddr::new(options.required("to", "ADDR without port")?, 0),
            Protocol::Tcp | Protocol::Udp => options.address("to")?,
        };
        let largest = match protocol {
            Protocol::Tcp => MAX_STREAM_MESSAGE_BYTES,
            Protocol::Udp | Protocol::Icmp => MAX_DATAGRAM_BYTES,
        } as u64;
        let request_bytes = options
            .number("request-bytes", HEADER_BYTES as u64, largest)?
            .unwrap_or(DEFAULT_REQUEST_BYTES);
        let response_bytes = response_bytes(options, protocol, request_bytes, largest)?;
        let count = options.number("count", 1, u64::from(u32::MAX) / 2)?;
        let duration_ns = options.millis_as_ns("duration-ms", 1, 24 * 3_600_000)?;
        if count.is_none() && duration_ns.is_none() {
            return Err(Error::Usage("give --count, --duration-ms, or both".into()));
        }
        let rate = options.number("rate", 1, MAX_RATE)?;
        // A schedule has its number of requests beforehand.
        let in_time = rate
            .zip(duration_ns)
            .map(|(rate, ns)| requests_in(rate, ns));
        let count = count.into_iter().chain(in_time).min();
        if rate.is_some() && protocol == Protocol::Tcp {
            let why = "--rate is for --proto udp and icmp: a stream answers in order";
            return Err(Error::Usage(why.into()));
        }
        Ok(Settings {
            protocol,
            rate,
            to,
            from: options.value("bind", "ADDR without port")?,
            count,
            duration_ns,
            request_bytes: request_bytes as u32,
            response_bytes: response_bytes as u32,
            warm_up: options
                .number("warmup", 0, 1_000_000)?
                .unwrap_or(DEFAULT_WARM_UP),
            timeout_ns: options
                .millis_as_ns("timeout-ms", 1, 60_000)?
                .unwrap_or(1_000_000_000),
            poll: Poll::take(options, Poll::Block)?,
            connect: options
                .choice("connect", &[("yes", true), ("no", false)])?
                .unwrap_or(true),
        })
    }

    fn way(&self) -> Result<Way> {
        let Settings {
            to,
            from,
            poll,
            timeout_ns,
            request_bytes,
            response_bytes,
            ..
        } = *self;
        let (socket, framing) = match self.protocol {
            Protocol::Tcp => {
                let socket = net::tcp_to(to, from, Duration::from_nanos(timeout_ns))?;
                let stream = Stream::new(socket, poll, timeout_ns, request_bytes, response_bytes)?;
                return Ok(Way::Stream(Box::new(stream)));
            }
            Protocol::Udp if self.connect => (net::udp_to(to, from)?, Framing::Udp(None)),
            Protocol::Udp => (net::udp_like(to, from)?, Framing::Udp(Some(to))),
            Protocol::Icmp => {
                let (socket, kind) = net::icmp_to(to.ip(), from)?;
                let name = match kind {
                    IcmpSocket::Raw => "icmp-raw",
                    IcmpSocket::Datagram => "icmp-datagram",
                };
                // Two clients of one node differ in process; in shared namespaces, in time.
                let identifier = std::process::id() as u16 ^ (time::now_ns() >> 16) as u16;
                let echo = Echo::new(to.is_ipv6(), kind, identifier);
                (socket, Framing::Icmp(echo, name))
            }
        };
        let datagram = Datagram::new(
            socket,
            framing,
            poll,
            timeout_ns,
            request_bytes,
            response_bytes,
        )?;
        Ok(Way::Datagrams(Box::new(datagram)))
    }
}

fn requests_in(rate: u64, duration_ns: u64) -> u64 {
    let requests = u128::from(rate) * u128::from(duration_ns) / 1_000_000_000;
    u64::try_from(requests).unwrap_or(u64::MAX).max(1)
}

fn response_bytes(
    options: &mut Options,
    protocol: Protocol,
    request_bytes: u64,
    largest: u64,
) -> Result<u64> {
    let given = options.number("response-bytes", 0, largest)?;
    match (protocol, given) {
        (Protocol::Icmp, Some(other)) if other != request_bytes => Err(Error::Usage(format!(
            "--response-bytes {other}: an ICMP echo returns the {request_bytes} bytes of the \
             request"
        ))),
        (Protocol::Icmp, _) => Ok(request_bytes),
        (_, Some(short)) if (1..HEADER_BYTES as u64).contains(&short) => Err(Error::Usage(
            format!("--response-bytes {short}: expected 0 (the server decides), or at least 16"),
        )),
        (_, given) => Ok(given.unwrap_or(DEFAULT_RESPONSE_BYTES)),
    }
}

/// The transport of the requests.
enum Way {
    Stream(Box<dyn Transport>),
    Datagrams(Box<Datagram>),
}

impl Way {
    fn transport(&self) -> &dyn Transport {
        match self {
            Way::Stream(stream) => stream.as_ref(),
            Way::Datagrams(datagram) => datagram.as_ref(),
        }
    }

    fn transport_mut(&mut self) -> &mut dyn Transport {
        match self {
            Way::Stream(stream) => stream.as_mut(),
            Way::Datagrams(datagram) => datagram.as_mut(),
        }
    }
}

struct Run {
    way: Way,
    records: Vec<Record>,
    tally: Tally,
}

impl Run {
    /// One transaction, recorded even if it breaks the run.
    fn transact(&mut self, extra_flags: u16) -> Result<()> {
        let sequence = self.records.len() as u32;
        let began_ns = time::now_ns();
        let result = self
            .way
            .transport_mut()
            .exchange(sequence, &self.records, &mut self.tally);
        let received_ns = result.as_ref().ok().and_then(|times| times.received_ns);
        let mut record = Record {
            sequence,
            flags: extra_flags,
            start_ns: began_ns,
            end_ns: received_ns.unwrap_or(0),
            ..Record::default()
        };
        if let Ok(times) = &result {
            record.start_ns = times.sent_ns;
            record.flags |= if times.sent { 0 } else { flags::NOT_SENT };
        }
        if received_ns.is_none() {
            record.flags |= flags::LOST;
        }
        self.records.push(record);
        result.map(drop)
    }

    fn warm_up(&mut self, count: u64) -> Result<()> {
        for _ in 0..count {
            self.transact(flags::WARM_UP)?;
            let last = &self.records[self.records.len().saturating_sub(WARM_UP_LOSSES)..];
            if last.len() == WARM_UP_LOSSES && last.iter().all(|record| record.has(flags::LOST)) {
                break;
            }
        }
        Ok(())
    }

    /// Room for a run by time: twice as many transactions as the fastest of the warm-up allows.
    fn room_for(&self, duration_ns: u64) -> u64 {
        let answered = self
            .records
            .iter()
            .filter(|record| !record.has(flags::LOST));
        let fastest_ns = answered.map(|record| record.end_ns - record.start_ns).min();
        let transactions = duration_ns / (fastest_ns.unwrap_or(u64::MAX) / 2).max(1);
        transactions.max(MIN_ROOM)
    }

    /// Makes room for a run by time, of `most` records at most; gives how many.
    fn make_room(&mut self, duration_ns: u64, most: u64) -> Result<u64> {
        let count = self.room_for(duration_ns).min(most);
        let warm_up = self.records.len() as u64;
        grow_touched(&mut self.records, warm_up + count)?;
        Ok(count)
    }

    fn measure_all(
        &mut self,
        settings: &Settings,
        count: u64,
        until_ns: u64,
    ) -> (StoppedBy, Result<()>) {
        match (settings.rate, &mut self.way) {
            (Some(rate), Way::Datagrams(datagram)) => {
                let pace = Pace {
                    rate,
                    count,
                    timeout_ns: settings.timeout_ns,
                };
                open_loop::measure(datagram, &mut self.records, pace, &mut self.tally)
            }
            _ => self.measure(count, until_ns, settings.count.is_none()),
        }
    }

    /// Transactions until the count, the time or the room is used up.
    fn measure(&mut self, count: u64, until_ns: u64, by_room: bool) -> (StoppedBy, Result<()>) {
        for _ in 0..count {
            if time::now_ns() >= until_ns {
                return (StoppedBy::Duration, Ok(()));
            }
            if let Err(error) = self.transact(0) {
                return (StoppedBy::Peer, Err(error));
            }
        }
        match by_room {
            true => (StoppedBy::Room, Ok(())),
            false => (StoppedBy::Count, Ok(())),
        }
    }
}

pub fn run(mut options: Options, output: &mut Output) -> Result<()> {
    let common = Common::take(&mut options, output)?;
    let settings = Settings::take(&mut options)?;
    options.finish("rr-client")?;
    let record_bytes = size_of::<Record>() as u64;
    let first_room = settings.warm_up + settings.count.unwrap_or(MIN_ROOM);
    common.check_memory(first_room, record_bytes)?;
    common.apply()?;
    let records = touched_records(first_room)?;
    let mut run = Run {
        way: settings.way()?,
        records,
        tally: Tally::default(),
    };
    let mut local = net::local_address(run.way.transport().socket())?;
    if settings.protocol == Protocol::Icmp {
        // A raw socket tells its protocol number here.
        local.set_port(0);
    }
    common.ready(output, Probe::RrClient, Some(local), None)?;

    output.progress(Phase::Running, settings.duration_ns)?;
    let warmed_up = run.warm_up(settings.warm_up);
    let warm_up = run.records.len() as u64;
    let most = common.room(record_bytes).saturating_sub(warm_up);
    let count = match settings.count {
        Some(count) => count,
        None => run.make_room(settings.duration_ns.unwrap_or(0), most)?,
    };

    let watch = Watch::start(Who::Thread);
    let before = run.tally;
    let started_ns = time::now_ns();
    let until_ns = settings
        .duration_ns
        .map_or(u64::MAX, |duration_ns| started_ns + duration_ns);
    let (stopped_by, result) = match warmed_up {
        Ok(()) => run.measure_all(&settings, count, until_ns),
        Err(error) => (StoppedBy::Peer, Err(error)),
    };
    let ended_ns = time::now_ns();
    let health = match settings.protocol {
        // TCP counts copies of what it has among the drops; it repeats what is lost.
        Protocol::Tcp => watch.end(&[]),
        _ => watch.end(&[run.way.transport().socket().as_fd()]),
    };

    output.progress(Phase::Emitting, None)?;
    output.samples(SampleKind::Rr, &run.records)?;
    let counters = Counters::RrClient(counters(&settings, &run, before, warm_up, stopped_by));
    output.report(Report {
        started_ns,
        ended_ns,
        counters,
        health,
    })?;
    result
}

fn counters(
    settings: &Settings,
    run: &Run,
    before: Tally,
    warm_up: u64,
    stopped_by: StoppedBy,
) -> RrClientCounters {
    let measured = &run.records[warm_up as usize..];
    let lost = measured
        .iter()
        .filter(|record| record.has(flags::LOST))
        .count() as u64;
    let tally = &run.tally;
    RrClientCounters {
        protocol: settings.protocol,
        socket: run.way.transport().socket_name().to_owned(),
        request_bytes: settings.request_bytes,
        response_bytes: settings.response_bytes,
        warm_up,
        transactions: measured.len() as u64,
        answered: measured.len() as u64 - lost,
        lost,
        late: tally.late - before.late,
        duplicates: tally.duplicates - before.duplicates,
        unmatched: tally.unmatched - before.unmatched,
        network_errors: tally.network_errors - before.network_errors,
        stopped_by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rr::transaction::Times;

    /// A transport whose transactions take as long as told; None is a loss.
    struct Scripted(Vec<Option<u64>>);

    impl Transport for Scripted {
        fn exchange(&mut self, sequence: u32, _: &[Record], _: &mut Tally) -> Result<Times> {
            match self.0.get(sequence as usize) {
                Some(took) => Ok(Times {
                    sent_ns: 100,
                    received_ns: took.map(|took| 100 + took),
                    sent: true,
                }),
                None => Err(Error::Peer("gone".into())),
            }
        }
        fn socket(&self) -> &net::Socket {
            unreachable!("the script has no socket")
        }
        fn socket_name(&self) -> &'static str {
            "scripted"
        }
    }

    fn scripted(script: Vec<Option<u64>>) -> Run {
        let way = Way::Stream(Box::new(Scripted(script)));
        Run {
            way,
            records: Vec::new(),
            tally: Tally::default(),
        }
    }

    #[test]
    fn a_warm_up_without_answers_ends_early() {
        let mut run = scripted(vec![
            Some(5),
            None,
            None,
            Some(5),
            None,
            None,
            None,
            Some(5),
        ]);
        run.warm_up(100).unwrap();
        assert_eq!(run.records.len(), 7);
        assert!(run.records.iter().all(|record| record.has(flags::WARM_UP)));
    }

    #[test]
    fn a_broken_run_keeps_its_data() {
        let mut run = scripted(vec![Some(5), Some(6)]);
        let (stopped_by, result) = run.measure(10, u64::MAX, false);
        assert_eq!(stopped_by, StoppedBy::Peer);
        assert_eq!(result.unwrap_err().to_string(), "gone");
        let lost: Vec<bool> = run
            .records
            .iter()
            .map(|record| record.has(flags::LOST))
            .collect();
        assert_eq!(lost, [false, false, true]);
    }

    #[test]
    fn the_end_is_told_by_its_cause() {
        let script = || vec![Some(5); 10];
        assert_eq!(
            scripted(script()).measure(10, u64::MAX, false).0,
            StoppedBy::Count
        );
        assert_eq!(
            scripted(script()).measure(10, u64::MAX, true).0,
            StoppedBy::Room
        );
        assert_eq!(
            scripted(script()).measure(10, 0, true).0,
            StoppedBy::Duration
        );
    }

    #[test]
    fn room_follows_the_fastest_answer() {
        let mut run = scripted(vec![Some(20_000), None, Some(10_000)]);
        assert_eq!(run.room_for(1_000_000_000), MIN_ROOM);
        run.warm_up(3).unwrap();
        assert_eq!(run.room_for(1_000_000_000), 200_000);
    }
}
