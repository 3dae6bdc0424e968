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

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use latlab_host::lab::Lab;
use latlab_measure::endpoint::{Endpoint, Output};
use latlab_measure::packets;
use latlab_wire::samples::{SampleKind, flags};

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
/// Comparisons until each hold was found within the limits.
const ATTEMPTS: usize = 6;
/// After its window an endpoint only hands over its records.
const TIMEOUT: Duration = Duration::from_secs(30);

#[test]
fn an_injected_delay_is_found() {
    namespaces::enter("an_injected_delay_is_found", || {
        let scratch = labs::Scratch::new();
        let lab = scratch.deploy(LAB);
        let mut wrong = HOLDS_NS.to_vec();
        let mut found = Vec::new();
        for _ in 0..ATTEMPTS {
            found = compare(&lab);
            found.iter().for_each(|found| eprintln!("{found}"));
            wrong.retain(|hold| {
                found
                    .iter()
                    .any(|found| found.hold == *hold && !found.is_right())
            });
            if wrong.is_empty() {
                break;
            }
        }
        lab.destroy().unwrap();
        assert!(
            wrong.is_empty(),
            "{wrong:?} ns in {ATTEMPTS} comparisons, at last {found:?}"
        );
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
    let start = |node: &str, args: &[&str]| {
        let mut all: Vec<String> = args.iter().map(ToString::to_string).collect();
        all.extend(["--cpu", &near.to_string(), "--fifo", "50"].map(String::from));
        Endpoint::start(lab, node, &all).unwrap()
    };
    let arguments = ["sink", "--bind", "0.0.0.0:0", "--stamp", "kernel"];
    let mut sink = start("server", &arguments);
    let port = sink.ready().unwrap().local.unwrap().port();
    let forwarder = Forwarder::open(lab, reach(lab, "middle", "server", port));
    let to = reach(lab, "client", "middle", forwarder.port()).to_string();
    let arguments = ["source", "--to", &to, "--rate", RATE];
    let window = ["--duration-ms", DURATION_MS, "--warmup-ms", "100"];
    let source = start("client", &[&arguments[..], &window].concat());
    let is_over = AtomicBool::new(false);
    let (sent, held) = thread::scope(|scope| {
        let held = scope.spawn(|| forwarder.forward(far, hold_ns, &is_over));
        let sent = source.finish(TIMEOUT);
        // The last packets are still held; the forwarder sends them before it ends.
        thread::sleep(Duration::from_millis(20));
        is_over.store(true, Ordering::Relaxed);
        (sent.unwrap(), held.join().unwrap())
    });
    let received = sink.stop(TIMEOUT).unwrap();
    judge(&sent, &held, &received)
}

/// The sockets of the forwarder in the middle node.
struct Forwarder {
    inward: UdpSocket,
    outward: UdpSocket,
}

impl Forwarder {
    fn open(lab: &Lab, to: SocketAddr) -> Forwarder {
        let sockets = lab.netns("middle").unwrap().run(|| {
            let inward = UdpSocket::bind("0.0.0.0:0").unwrap();
            let outward = UdpSocket::bind("0.0.0.0:0").unwrap();
            inward.set_nonblocking(true).unwrap();
            outward.connect(to).unwrap();
            Forwarder { inward, outward }
        });
        sockets.unwrap()
    }

    fn port(&self) -> u16 {
        self.inward.local_addr().unwrap().port()
    }

    /// Holds every packet for a known time; returns when each came and left, in ns of `CLOCK_MONOTONIC`.
    ///
    /// The thread spins, because a hold of 0 is compared with others. Were it asleep when a packet comes, the wake-up
    /// (tens of microseconds to an idle CPU of a virtual machine) would be part of the path for one hold only. In the
    /// last 3 µs, more than the system call for the next packet takes, it does nothing but read the clock.
    fn forward(&self, cpu: usize, hold_ns: u64, is_over: &AtomicBool) -> Vec<(u64, u64)> {
        become_realtime(cpu);
        let (mut queue, mut held) = (VecDeque::new(), Vec::new());
        let mut packet = [0xff; 2048];
        loop {
            if let Some((arrived_ns, bytes)) = queue.front() {
                let due_ns = arrived_ns + hold_ns;
                if now_ns() + 3_000 >= due_ns {
                    while now_ns() < due_ns {
                        std::hint::spin_loop();
                    }
                    let left_ns = now_ns();
                    let bytes: &Vec<u8> = bytes;
                    self.outward.send(bytes).unwrap();
                    held.push((*arrived_ns, left_ns));
                    queue.pop_front();
                    continue;
                }
            }
            match self.inward.recv(&mut packet) {
                Ok(length) => queue.push_back((now_ns(), packet[..length].to_vec())),
                Err(error) if error.kind() != ErrorKind::WouldBlock => panic!("{error}"),
                Err(_) if queue.is_empty() && is_over.load(Ordering::Relaxed) => return held,
                Err(_) => {}
            }
        }
    }
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Pins the calling thread, at the priority of the endpoints.
fn become_realtime(cpu: usize) {
    let mut only = rustix::thread::CpuSet::new();
    only.set(cpu);
    rustix::thread::sched_setaffinity(None, &only).unwrap();
    let priority = libc::sched_param { sched_priority: 50 };
    // SAFETY: the structure lives during the call, which changes only this thread's policy.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Matches the three records of each packet.
fn judge(sent: &Output, held: &[(u64, u64)], received: &Output) -> (i64, i64) {
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
    let skipped = held.len() - measured.samples.len();
    let latencies: Vec<i64> = measured
        .samples
        .iter()
        .map(|s| s.latency_ns.unwrap())
        .collect();
    let rests = latencies
        .iter()
        .zip(&held[skipped..])
        .map(|(latency, (arrived_ns, left_ns))| latency - (left_ns - arrived_ns) as i64)
        .collect();
    (median(latencies), median(rests))
}

fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// The address of a port in `to` that `from` sends to.
fn reach(lab: &Lab, from: &str, to: &str, port: u16) -> SocketAddr {
    let reach = lab.plan().reach(from, to, false).unwrap();
    SocketAddr::new(reach.address, port)
}

/// CPUs for the endpoints and for the forwarder; the same where there is one.
fn two_cpus() -> (usize, usize) {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let all: Vec<usize> = (0..1024).filter(|&cpu| allowed.is_set(cpu)).collect();
    (all[0], all[all.len() - 1])
}
