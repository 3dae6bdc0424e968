//! A device under test between two taps: a generator, a forwarder in a process of its own, a far end.
//!
//! All of them run in private network namespaces. The forwarder is this test program once more (see
//! [`device`]), so that it can be told to cause page faults. It reports its interruptions: gaps of its own
//! clock between two turns of its loop are the ground truth for the recorder.

#![allow(dead_code)]

mod held;

pub use held::Hold;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use held::Holding;
use latlab_host::sys::netns::NetNs;
use latlab_measure::forward::{Reader, ReaderCpu};
use latlab_measure::hwlat;
use latlab_netlink::{Address, Handle, Interface, LinkChange, LinkKind, Neighbour, NewLink};
use latlab_probe::{By, Layer2};
use latlab_report::attribution::{self, Attribution, Capture};
use latlab_samples::Passage;
use latlab_samples::table::Stack;
use latlab_trace::recorder::{Recorder, Settings, Wanted, around, call_names};
use latlab_trace::stacks::Sampler;
use latlab_trace::taps::matching::{self, HopCounters};
use latlab_trace::taps::{Point, Side, Tap};
use latlab_wire::probe::{HEADER_BYTES, PacketRepr};
use latlab_wire::trace::{Event, EventKind};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};

/// CPU of the generator and of everything else but the device.
pub const NEAR: usize = 0;
pub const FAR: usize = 1;
/// A longer turn of the device's loop was interrupted.
pub const GAP_NS: u64 = 20_000;
const DEVICE: &str = "LATLAB_TEST_DEVICE";
/// The name of the tasks that take the device's CPU.
pub const HOG: &str = "latlab-hog";
/// How the device holds frames up, by name.
const HOLD: &str = "LATLAB_TEST_HOLD";
const EVENTS_PER_CPU: u32 = 1 << 19;

pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub fn sleep_until(ns: u64) {
    if let Some(left) = ns.checked_sub(now_ns()) {
        std::thread::sleep(Duration::from_nanos(left));
    }
}

pub fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).unwrap();
}

/// With autogroup, a thread's niceness counts within its session only, so this test becomes a session, before
/// the others.
fn own_session() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // Autogroup may be missing, or this process lead a session already.
        if rustix::process::setsid().is_ok() {
            std::fs::write("/proc/self/autogroup", "-20").ok();
        }
    });
}

/// Runs before other normal tasks, such as builds beside the test.
pub fn insist() {
    rustix::process::nice(-20).unwrap();
}

fn new_namespace() -> NetNs {
    std::thread::spawn(|| {
        // SAFETY: only this thread gets a new network; descriptors stay shared.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.unwrap();
        NetNs::current().unwrap()
    })
    .join()
    .unwrap()
}

/// A veth pair between two namespaces, up, both ends named alike.
pub fn wire(a: (&NetNs, &str), b: (&NetNs, &str)) {
    let far = Interface::new(b.1).netns(b.0.as_fd());
    let near = Interface::new(a.1).netns(a.0.as_fd());
    Handle::open()
        .unwrap()
        .apply(&NewLink::new(near, LinkKind::Veth(far)).up().request())
        .unwrap();
    for (netns, name) in [a, b] {
        let mut handle = Handle::open_in(netns.as_fd()).unwrap();
        handle
            .apply(&LinkChange::of(name).up(true).request())
            .unwrap();
    }
}

pub fn address(netns: &NetNs, name: &str, address: &str) {
    let mut handle = Handle::open_in(netns.as_fd()).unwrap();
    let request = Address {
        interface: handle.link_index(name).unwrap(),
        address: address.parse().unwrap(),
        prefix_length: 24,
    };
    handle.apply(&request.add()).unwrap();
}

/// Client, device and server, each in a namespace.
pub struct Bench {
    /// Events that the recorder keeps of each CPU.
    pub events_per_cpu: u32,
    pub system_calls: bool,
    /// Samples of the device's stacks in a second of its running.
    pub sampling: Option<u32>,
    /// The rings are read while the recorder runs.
    pub follow: bool,
    pub client: NetNs,
    pub device: NetNs,
    pub server: NetNs,
}

/// Results of one window.
pub struct Window {
    pub attribution: Attribution,
    pub capture: Capture,
    pub counters: HopCounters,
    /// Sampled stacks of the device, in the order of time.
    pub stacks: Vec<Stack>,
    /// Events that were overwritten before they were read.
    pub overwritten: u64,
    /// Foreign frames at the first tap.
    pub foreign: u64,
    /// The device's interruptions, by its own clock.
    pub gaps: Vec<Gap>,
}

/// A time in which the device did not forward packets.
#[derive(Debug, Clone, Copy)]
pub struct Gap {
    pub begin_ns: u64,
    pub end_ns: u64,
    /// The device itself did it: it touched new memory as it was told to, or held a frame up.
    pub own: bool,
}

impl Window {
    /// Share of the window in which the device's CPU was taken by a hypervisor, or by tasks other than the
    /// device and those named `own`.
    pub fn foreign_share(&self, own: &str) -> f64 {
        let attribution::Device::Task { pid, .. } = self.attribution.device else {
            return 1.0;
        };
        let there = |event: &&Event| event.cpu == FAR as u16;
        let all: Vec<&Event> = self.capture.events.iter().filter(there).collect();
        let (Some(first), Some(last)) = (all.first(), all.last()) else {
            return 0.0;
        };
        let switches = all.iter().filter(|event| event.kind == EventKind::Switch);
        let switches: Vec<(u64, bool)> = switches
            .map(|event| {
                let (next, name) = (event.switch().next, event.text());
                let is_known = name == own || name.starts_with("ksoftirqd/");
                (event.time_ns, next != 0 && next != pid && !is_known)
            })
            .collect();
        let ends = switches.iter().skip(1).map(|next| next.0);
        let spans = switches.iter().zip(ends.chain([last.time_ns]));
        let of_others = spans.filter(|((_, is_foreign), _)| *is_foreign);
        let had: u64 = of_others.map(|((begin, _), end)| end - begin).sum();
        let stolen = last.steal_ns.saturating_sub(first.steal_ns);
        (had + stolen) as f64 / (last.time_ns - first.time_ns).max(1) as f64
    }
}

impl Bench {
    pub fn new() -> Bench {
        own_session();
        let bench = Bench {
            events_per_cpu: EVENTS_PER_CPU,
            system_calls: false,
            sampling: None,
            follow: false,
            client: new_namespace(),
            device: new_namespace(),
            server: new_namespace(),
        };
        wire((&bench.client, "eth0"), (&bench.device, "in"));
        wire((&bench.device, "out"), (&bench.server, "eth0"));
        address(&bench.client, "eth0", "10.9.0.1");
        address(&bench.server, "eth0", "10.9.0.2");
        bench.introduce();
        bench
    }

    /// Gives the client a permanent neighbour entry. On a busy machine, packets that wait for its resolution
    /// are dropped.
    fn introduce(&self) {
        let links = Handle::open_in(self.server.as_fd()).unwrap().links();
        let mut links = links.unwrap().into_iter();
        let server = links.find_map(|link| link.mac.filter(|_| link.name == "eth0"));
        let mut client = Handle::open_in(self.client.as_fd()).unwrap();
        let index = client.link_index("eth0").unwrap();
        let to = "10.9.0.2".parse().unwrap();
        let request = Neighbour::permanent(index, to, server.unwrap());
        client.apply(&request).unwrap();
    }

    /// Sends `rate` packets a second through the device for a time, while `inject` runs.
    pub fn run(
        &self,
        rate: u64,
        duration: Duration,
        device: &mut Forwarder,
        inject: impl FnOnce(&mut Forwarder, u64, u64) + Send,
    ) -> Window {
        let room = rate * (duration.as_secs() + 2) * 2;
        let tap = |netns: &NetNs, side| {
            let point = Point {
                interface: "eth0".into(),
                side,
            };
            netns.run(|| Tap::attach(&point, room)).unwrap().unwrap()
        };
        let before = tap(&self.client, Side::Egress);
        let behind = tap(&self.server, Side::Ingress);
        let recorder = Recorder::load(&Settings {
            cpus: vec![NEAR as u16, FAR as u16],
            events_per_cpu: self.events_per_cpu,
            system_calls: self.system_calls,
        })
        .unwrap();
        let sink = self
            .server
            .run(|| UdpSocket::bind("10.9.0.2:9"))
            .unwrap()
            .unwrap();
        let source = self
            .client
            .run(|| UdpSocket::bind("10.9.0.1:0"))
            .unwrap()
            .unwrap();
        let follower = recorder.follow(&[before.live(), behind.live()], Wanted::default());
        let reader = self
            .follow
            .then(|| Reader::start(follower, ReaderCpu::Shared(NEAR as u32)).unwrap());
        let spin = |device: &Forwarder| {
            device.signal(Signal::STOP);
            let spun = hwlat::spin_recorded(&recorder, &[NEAR as u16, FAR as u16]);
            device.signal(Signal::CONT);
            spun
        };
        let mut spun = spin(device);
        recorder.forget();
        let sampler = self.sampling.map(|rate| {
            let mut sampler = Sampler::load(u64::from(rate) * (duration.as_secs() + 2)).unwrap();
            sampler.watch(device.pid() as u32, rate).unwrap();
            sampler
        });
        recorder.start();
        let begin = now_ns() + 50_000_000;
        let end = begin + duration.as_nanos() as u64;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| generate(&source, "10.9.0.2:9".parse().unwrap(), rate, begin, end));
            scope.spawn(|| drain(&sink, &stop));
            inject(device, begin, end);
            sleep_until(end + 100_000_000);
            stop.store(true, Ordering::Relaxed);
        });
        recorder.stop();
        let stacks = sampler.map(|sampler| sampler.finish().stacks);
        spun.extend(spin(device));
        let follower = reader.and_then(Reader::stop);
        let before = self.client.run(|| before.detach()).unwrap().unwrap();
        let behind = self.server.run(|| behind.detach()).unwrap().unwrap();
        let (passages, counters) = matching::matched(0, &before, &behind);
        let recorded = match follower {
            Some(follower) => {
                let (windows, tasks) = slowest(&passages);
                recorder.finish_around(Some(follower), &windows, &tasks)
            }
            None => recorder.finish(),
        };
        let watched = recorded.gaps.cpus.iter();
        let capture = Capture {
            held: Vec::new(),
            passages,
            gaps: watched
                .clone()
                .flat_map(|one| attribution::Gap::of_cpu(one.cpu, &one.lost, &one.not_kept))
                .collect(),
            watched: watched.map(|w| (w.cpu, w.complete_from_ns)).collect(),
            steal_known: recorded.gaps.steal_known,
            stalls: hwlat::stalls(&spun, &hwlat::found(&spun)),
            hwlat: hwlat::found(&spun),
            calls: call_names(&recorded.events),
            unknown: Vec::new(),
            events: recorded.events,
        };
        eprintln!(
            "  {} packets, {} lost, {} events, {:?}",
            counters.entered,
            counters.lost,
            capture.events.len(),
            recorded.gaps
        );
        Window {
            attribution: attribution::attribute(&capture, attribution::WORST),
            capture,
            counters,
            stacks: stacks.unwrap_or_default(),
            overwritten: recorded.gaps.cpus.iter().map(|w| w.overwritten).sum(),
            foreign: before.foreign,
            gaps: device.gaps(),
        }
    }
}

/// Times around the slowest packets, and the tasks in which they came out.
fn slowest(passages: &[Passage]) -> (Vec<(u64, u64)>, BTreeSet<u32>) {
    let mut all: Vec<(u64, &Passage)> = passages
        .iter()
        .filter_map(|passage| Some((passage.latency_ns()?, passage)))
        .collect();
    all.sort_by_key(|(latency_ns, passage)| Reverse((*latency_ns, passage.in_ns)));
    all.truncate(attribution::WORST);
    let window = |&(latency_ns, passage): &(u64, &Passage)| around(passage.in_ns, latency_ns);
    let tasks = all.iter().map(|(_, passage)| passage.out_task);
    (
        all.iter().map(window).collect(),
        tasks.filter(|&task| task != 0).collect(),
    )
}

fn generate(socket: &UdpSocket, to: SocketAddr, rate: u64, begin: u64, end: u64) {
    const SPIN_NS: u64 = 60_000;
    pin(NEAR);
    insist();
    socket.connect(to).unwrap();
    let mut payload = [0; HEADER_BYTES + 2];
    let mut sequence = 0;
    loop {
        let due = begin + u64::from(sequence) * 1_000_000_000 / rate;
        if due >= end {
            return;
        }
        sleep_until(due.saturating_sub(SPIN_NS));
        while now_ns() < due {
            std::hint::spin_loop();
        }
        let header = PacketRepr {
            flow: 1,
            sequence,
            intended_ns: due,
        };
        header.emit(&mut payload);
        // Refused while the far end is busy; the packet is lost and counted.
        socket.send(&payload).ok();
        sequence += 1;
    }
}

fn drain(socket: &UdpSocket, stop: &AtomicBool) {
    pin(NEAR);
    socket
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let mut buffer = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        // Waking a thread for each packet would disturb the generator more than a full buffer.
        socket.recv(&mut buffer).ok();
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub struct Forwarder {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Forwarder {
    /// Starts this program again as the device, in the device's namespace.
    pub fn start(bench: &Bench, test: &str) -> Forwarder {
        Forwarder::start_holding(bench, test, None)
    }

    /// Starts one that holds frames up.
    pub fn start_holding(bench: &Bench, test: &str, hold: Option<Hold>) -> Forwarder {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(DEVICE, "1")
            .env(HOLD, hold.map_or("", Hold::name))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = bench.device.run(|| command.spawn()).unwrap().unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert!(
                output.read_line(&mut line).unwrap() > 0,
                "the device did not start"
            );
        }
        Forwarder {
            child,
            input,
            output,
        }
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Makes the device touch new pages.
    pub fn fault(&mut self) {
        self.input.write_all(b"f").unwrap();
    }

    /// The device's interruptions since the last call.
    pub fn gaps(&mut self) -> Vec<Gap> {
        self.input.write_all(b"g").unwrap();
        let mut all = Vec::new();
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).unwrap();
            let numbers: Vec<u64> = line
                .split(' ')
                .filter_map(|w| w.trim().parse().ok())
                .collect();
            match numbers[..] {
                [begin_ns, end_ns, own] => all.push(Gap {
                    begin_ns,
                    end_ns,
                    own: own == 1,
                }),
                _ => return all,
            }
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Runs the device if this process is one; `true` afterwards.
pub fn device() -> bool {
    if std::env::var_os(DEVICE).is_none() {
        return false;
    }
    pin(FAR);
    insist();
    let hold = std::env::var(HOLD).ok().and_then(|name| Hold::named(&name));
    let mut holding = hold.map(Holding::open);
    let mut device = Layer2::open_by(By::AfPacket, "in", "out").unwrap();
    let input = std::io::stdin();
    let flags = rustix::fs::fcntl_getfl(&input).unwrap();
    rustix::fs::fcntl_setfl(&input, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    println!("ready");
    // Touched once, so that recording a gap causes no page fault.
    let mut gaps: Vec<(u64, u64, u8)> = vec![(1, 1, 1); 1 << 20];
    gaps.clear();
    let mut command = [0];
    let mut last = now_ns();
    loop {
        match input.lock().read(&mut command) {
            Ok(0) => return true,
            Ok(_) if command[0] == b'f' => {
                let begin = now_ns();
                fault();
                last = now_ns();
                gaps.push((begin, last, 1));
            }
            Ok(_) => {
                for (begin, end, own) in gaps.drain(..) {
                    println!("{begin} {end} {own}");
                }
                println!("end");
                last = now_ns();
            }
            Err(_) => {}
        }
        match &mut holding {
            None => {
                device.turn().unwrap();
            }
            Some(holding) => {
                if let Some((begin, end)) = holding.turn() {
                    gaps.push((begin, end, 1));
                    last = now_ns();
                }
            }
        }
        let now = now_ns();
        if now - last > GAP_NS {
            gaps.push((last, now, 0));
        }
        last = now;
    }
}

/// Touches new memory, a page at a time.
fn fault() {
    const PAGES: usize = 1500;
    let page = rustix::param::page_size();
    let mut memory: Vec<u8> = Vec::with_capacity(PAGES * page);
    let bytes = memory.spare_capacity_mut();
    for at in (0..PAGES * page).step_by(page) {
        bytes[at].write(1);
    }
    // Not freed: that would take time without being a fault, and the memory would be reused.
    std::mem::forget(std::hint::black_box(memory));
}
