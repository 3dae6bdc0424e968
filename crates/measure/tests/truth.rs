//! The ruler against ground truth: a one-way delay of known size is measured as such.
//!
//! A forwarder in the middle node holds every packet for a known time and records the actual time. Latency
//! with a hold of D minus latency with a hold of 0 must be D, within 5 µs and 1 % at the median. The test is
//! about correct numbers, so it is shielded from the machine's load: the endpoints run at a real-time
//! priority, the forwarder on a dedicated CPU, and the receiver uses its kernel's timestamp.
//!
//! On a machine that is too busy even for this, the comparison is repeated a few times: a wrong ruler is
//! wrong every time.

#[path = "../../host/tests/namespaces/mod.rs"]
mod namespaces;

mod labs;

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use latlab_host::lab::Lab;
use latlab_measure::endpoint::{Endpoint, Output};
use latlab_measure::packets;
use latlab_wire::samples::{Record, SampleKind, flags};

const LAB: &str = "
  nodes:
    client: {kind: native}
    middle: {kind: native}
    server: {kind: native}
  links:
    - endpoints: ['client:eth0', 'middle:eth0']
    - endpoints: ['middle:eth1', 'server:eth0']
";

const HOLDS_NS: [u64; 3] = [100_000, 1_000_000, 10_000_000];
/// Packets a second, and duration.
const RATE: &str = "1000";
const DURATION_MS: &str = "500";
/// Comparisons until one is within the limits.
const ATTEMPTS: usize = 6;
/// After its window an endpoint only hands over its records.
const TIMEOUT: Duration = Duration::from_secs(30);

#[test]
fn an_injected_delay_is_found() {
    namespaces::enter("an_injected_delay_is_found", || {
        let scratch = labs::Scratch::new();
        let lab = scratch.deploy(LAB);
        let mut last = Vec::new();
        for _ in 0..ATTEMPTS {
            last = compare(&lab);
            last.iter().for_each(|found| eprintln!("{found}"));
            if last.iter().all(Found::is_right) {
                break;
            }
        }
        lab.destroy().unwrap();
        let wrong: Vec<_> = last.iter().filter(|found| !found.is_right()).collect();
        assert!(wrong.is_empty(), "{ATTEMPTS} times, at last {wrong:?}");
    });
}

/// Results of one hold, in nanoseconds.
#[derive(Debug)]
struct Found {
    hold: u64,
    /// Median latency beyond that of no hold.
    by_median: i64,
    /// Median of each packet's latency minus the hold that the forwarder recorded for it; 0 when all is
    /// right.
    beyond_record: i64,
}

impl Found {
    fn limit(&self) -> i64 {
        5_000 + self.hold as i64 / 100
    }

    fn is_right(&self) -> bool {
        let error = self.by_median - self.hold as i64;
        error.abs() <= self.limit() && self.beyond_record.abs() <= self.limit()
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "held {} us: found {:+.2} us off, {:+.2} us beyond what was recorded, limit {:.0} us",
            self.hold / 1000,
            (self.by_median - self.hold as i64) as f64 / 1e3,
            self.beyond_record as f64 / 1e3,
            self.limit() as f64 / 1e3,
        )
    }
}

fn compare(lab: &Lab) -> Vec<Found> {
    let nothing = measure(lab, 0);
    let found = HOLDS_NS.map(|hold| {
        let (latency, rest) = measure(lab, hold);
        Found {
            hold,
            by_median: latency - nothing.0,
            beyond_record: rest - nothing.1,
        }
    });
    found.into()
}

/// Median latency, and median of latency minus the recorded hold.
fn measure(lab: &Lab, hold_ns: u64) -> (i64, i64) {
    let (near, far) = two_cpus();
    let start = |node: &str, cpu: &str, args: &[&str]| {
        let mut all: Vec<String> = args.iter().map(ToString::to_string).collect();
        all.extend(["--cpu", cpu, "--fifo", "50"].map(String::from));
        Endpoint::start(lab, node, &all).unwrap()
    };
    let mut sink = start(
        "server",
        &near,
        &["sink", "--bind", "0.0.0.0:0", "--stamp", "kernel"],
    );
    let to = reach(lab, "middle", "server", &mut sink);
    let hold = hold_ns.to_string();
    let arguments = ["forward", "--listen", "0.0.0.0:0", "--to", &to];
    let mut forward = start(
        "middle",
        &far,
        &[&arguments[..], &["--hold-ns", &hold]].concat(),
    );
    let to = reach(lab, "client", "middle", &mut forward);
    let arguments = ["source", "--to", &to, "--rate", RATE];
    let window = ["--duration-ms", DURATION_MS, "--warmup-ms", "100"];
    let source = start("client", &near, &[&arguments[..], &window].concat());
    let sent = source.finish(TIMEOUT).unwrap();
    // The last packets are still held; the forwarder sends them before it ends.
    thread::sleep(Duration::from_millis(20));
    let held = forward.stop(TIMEOUT).unwrap();
    let received = sink.stop(TIMEOUT).unwrap();
    judge(&sent, &held, &received)
}

/// Matches the three records of each packet.
fn judge(sent: &Output, held: &Output, received: &Output) -> (i64, i64) {
    let start = sent.report.as_ref().unwrap().started_ns as i64;
    let measured = packets::join(sent, received, start, None);
    let counters = measured.counters;
    assert!(
        counters.sent > 400 && counters.lost == 0 && counters.duplicated == 0,
        "{counters:?}"
    );
    let unheard: u64 = received
        .of(SampleKind::Sink)
        .filter(|r| !r.has(flags::KERNEL_STAMP))
        .count() as u64;
    assert_eq!(unheard, 0, "every packet has its kernel's stamp");
    // The forwarder's records are in the order of packets; the warm-up comes first.
    let held: Vec<&Record> = held.of(SampleKind::Forward).collect();
    let skipped = held.len() - measured.samples.len();
    let latencies: Vec<i64> = measured
        .samples
        .iter()
        .map(|s| s.latency_ns.unwrap())
        .collect();
    let rests = latencies
        .iter()
        .zip(&held[skipped..])
        .map(|(latency, record)| latency - (record.end_ns - record.start_ns) as i64)
        .collect();
    (median(latencies), median(rests))
}

fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// The address of an endpoint that `from` sends to, once it listens.
fn reach(lab: &Lab, from: &str, to: &str, end: &mut Endpoint) -> String {
    let port = end.ready().unwrap().local.unwrap().port();
    let reach = lab.plan().reach(from, to, None, false).unwrap();
    SocketAddr::new(reach.address, port).to_string()
}

/// CPUs for the endpoints and for the forwarder; the same where there is one.
fn two_cpus() -> (String, String) {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let all: Vec<usize> = (0..1024).filter(|&cpu| allowed.is_set(cpu)).collect();
    let (first, last) = (all[0], all[all.len() - 1]);
    (first.to_string(), last.to_string())
}
