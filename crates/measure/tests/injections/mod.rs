//! The disturbances: each does one thing to the device, at random times that it records.

#![allow(dead_code)]

pub mod sys;

use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::Duration;

use latlab_report::attribution::Cause;
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{self, Bench, FAR, Forwarder, Gap, Hold, NEAR, now_ns, sleep_until};

/// Begin and end of a disturbance of the device.
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    pub begin_ns: u64,
    pub end_ns: u64,
}

impl Truth {
    /// Overlap with stretches that are in order and disjoint.
    pub fn overlap(&self, stretches: &[(u64, u64)]) -> u64 {
        let part = |&(begin, end): &(u64, u64)| {
            end.min(self.end_ns)
                .saturating_sub(begin.max(self.begin_ns))
        };
        stretches.iter().map(part).sum()
    }
}

/// A kind of disturbance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injection {
    Competitor,
    FifoHog,
    Stop,
    Flood,
    TimerStorm,
    FaultBurst,
    Throttle,
    /// The device itself holds a frame up.
    Held(Hold),
}

/// Two stretches of one disturbance with a shorter gap are one.
const APART_NS: u64 = 100_000;
pub use crate::bench::HOG;

impl Injection {
    pub const ALL: [Injection; 13] = [
        Injection::Competitor,
        Injection::FifoHog,
        Injection::Stop,
        Injection::Flood,
        Injection::TimerStorm,
        Injection::FaultBurst,
        Injection::Throttle,
        Injection::Held(Hold::Compute),
        Injection::Held(Hold::Read),
        Injection::Held(Hold::Futex),
        Injection::Held(Hold::Nanosleep),
        Injection::Held(Hold::Fault),
        Injection::Held(Hold::SystemCall),
    ];

    pub fn name(self) -> &'static str {
        match self {
            Injection::Competitor => "a competing CPU-bound process",
            Injection::FifoHog => "a SCHED_FIFO hog",
            Injection::Stop => "SIGSTOP",
            Injection::Flood => "a softirq flood of another link",
            Injection::TimerStorm => "an hrtimer storm",
            Injection::FaultBurst => "a page-fault burst",
            Injection::Throttle => "cgroup CPU throttling",
            Injection::Held(hold) => hold.name(),
        }
    }

    /// Whether this cause is the injected one.
    pub fn is_it(self, cause: &Cause) -> bool {
        match (self, cause) {
            (Injection::Competitor, Cause::Waiting { task, realtime }) => task == HOG && !realtime,
            (Injection::FifoHog, Cause::Waiting { task, realtime }) => task == HOG && *realtime,
            (Injection::Stop, Cause::Stopped)
            | (Injection::Flood, Cause::SoftIrq(3))
            | (Injection::FaultBurst, Cause::PageFault)
            | (Injection::Throttle, Cause::Throttled) => true,
            // Named first is the device where it is the likelier of two.
            (Injection::Held(Hold::Compute), Cause::OwnCode) => true,
            (
                Injection::Held(Hold::Compute | Hold::SystemCall),
                Cause::OwnOrStall { own_percent },
            ) => *own_percent >= 50,
            (Injection::Held(Hold::SystemCall), Cause::SystemCall(call)) => call == "getrandom",
            (Injection::Held(Hold::Fault), Cause::PageFault) => true,
            (Injection::Held(hold), Cause::Asleep(Some(call))) => hold.blocks_in() == Some(call),
            (Injection::TimerStorm, Cause::Timer(name)) => name.starts_with("timerfd"),
            _ => false,
        }
    }

    /// Many short interruptions with the device running in between, whose length is from the first to the
    /// last.
    pub fn in_pieces(self) -> bool {
        matches!(
            self,
            Injection::TimerStorm | Injection::FaultBurst | Injection::Held(Hold::Fault)
        )
    }

    /// How the device itself holds frames up.
    pub fn hold(self) -> Option<Hold> {
        match self {
            Injection::Held(hold) => Some(hold),
            _ => None,
        }
    }

    /// System calls are recorded for those that spin in one.
    pub fn needs_system_calls(self) -> bool {
        self == Injection::Held(Hold::SystemCall)
    }

    /// Packets with less latency were not delayed.
    pub fn delayed_ns(self) -> u64 {
        match self {
            Injection::Held(_) => 20_000,
            _ => 50_000,
        }
    }

    /// Injects until shortly before `end`.
    pub fn inject(self, device: &mut Forwarder, begin: u64, end: u64) -> Vec<Truth> {
        match self {
            Injection::Competitor => hog(begin, end, false),
            Injection::FifoHog => hog(begin, end, true),
            Injection::Stop => stop(device, begin, end),
            Injection::Flood => flood(begin, end),
            Injection::TimerStorm => timers(begin, end),
            Injection::FaultBurst => faults(device, begin, end),
            Injection::Throttle => throttle(device, begin, end),
            Injection::Held(_) => {
                sleep_until(end);
                Vec::new()
            }
        }
    }

    /// Replaces the times of an indirect injection by the times at which the device did not run, by its own
    /// clock.
    pub fn truth(self, injected: Vec<Truth>, gaps: &[Gap]) -> Vec<Truth> {
        let own = matches!(
            self,
            Injection::Competitor | Injection::FifoHog | Injection::TimerStorm
        );
        if own {
            return injected;
        }
        let within = |gap: &&Gap| match self {
            Injection::FaultBurst | Injection::Held(_) => gap.own,
            _ => injected
                .iter()
                .any(|t| gap.begin_ns < t.end_ns && gap.end_ns > t.begin_ns),
        };
        let exact = gaps.iter().filter(within);
        let exact = exact.map(|gap| Truth {
            begin_ns: gap.begin_ns,
            end_ns: gap.end_ns,
        });
        if self != Injection::Stop {
            return exact.collect();
        }
        // Continued, the device may still wait for its CPU.
        exact
            .map(|gap| {
                let continued = injected
                    .iter()
                    .filter(|t| gap.begin_ns < t.end_ns && gap.end_ns > t.begin_ns);
                let end_ns = continued.map(|t| t.end_ns).max().unwrap_or(gap.end_ns);
                Truth {
                    end_ns: end_ns.min(gap.end_ns),
                    ..gap
                }
            })
            .collect()
    }
}

/// Random begins and lengths.
struct Times {
    state: u64,
    at: u64,
    end: u64,
}

impl Times {
    fn new(begin: u64, end: u64) -> Times {
        Times {
            state: now_ns() | 1,
            at: begin + 50_000_000,
            end: end - 100_000_000,
        }
    }

    fn random(&mut self, from: u64, to: u64) -> u64 {
        // xorshift
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        from + self.state % (to - from)
    }
}

impl Iterator for Times {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let length = self.random(1_000_000, 10_000_000);
        let begin = self.at + self.random(20_000_000, 80_000_000);
        self.at = begin + length;
        (self.at < self.end).then_some((begin, length))
    }
}

fn hog(begin: u64, end: u64, realtime: bool) -> Vec<Truth> {
    std::thread::Builder::new()
        .name(HOG.into())
        .spawn(move || {
            bench::pin(FAR);
            if realtime {
                sys::set_fifo(10);
            } else {
                bench::insist();
            }
            let mut all = Vec::new();
            for (at, length) in Times::new(begin, end) {
                sleep_until(at);
                // The task itself records when it had the CPU.
                let until = now_ns() + length;
                let mut begin_ns = now_ns();
                let mut last = begin_ns;
                while last < until {
                    let now = now_ns();
                    if now - last > APART_NS {
                        all.push(Truth {
                            begin_ns,
                            end_ns: last,
                        });
                        begin_ns = now;
                    }
                    last = now;
                }
                all.push(Truth {
                    begin_ns,
                    end_ns: last,
                });
            }
            all
        })
        .unwrap()
        .join()
        .unwrap()
}

fn stop(device: &Forwarder, begin: u64, end: u64) -> Vec<Truth> {
    let pid = Pid::from_raw(device.pid()).unwrap();
    let mut all = Vec::new();
    for (at, length) in Times::new(begin, end) {
        sleep_until(at);
        let begin_ns = now_ns();
        kill_process(pid, Signal::STOP).unwrap();
        sleep_until(at + length);
        kill_process(pid, Signal::CONT).unwrap();
        all.push(Truth {
            begin_ns,
            end_ns: now_ns(),
        });
    }
    all
}

/// Packets of another link, whose receiving side is given to the device's CPU. Each is for many sockets, so
/// that it takes a while.
fn flood(begin: u64, end: u64) -> Vec<Truth> {
    const SOCKETS: usize = 100;
    let other = Bench::new();
    bench::address(&other.device, "in", "10.9.0.3");
    other.device.run(|| sys::steer("in", 1 << FAR)).unwrap();
    let listen = || -> Vec<UdpSocket> { (0..SOCKETS).map(|_| sys::listen_together(7)).collect() };
    let sinks = other.device.run(listen).unwrap();
    let source = other
        .client
        .run(|| UdpSocket::bind("10.9.0.1:0"))
        .unwrap()
        .unwrap();
    source.set_broadcast(true).unwrap();
    source.connect("10.9.0.255:7").unwrap();
    bench::pin(NEAR);
    let mut all = Vec::new();
    for (at, length) in Times::new(begin, end) {
        sleep_until(at);
        let begin_ns = now_ns();
        for _ in 0..length / 30_000 {
            source.send(&[0; 18]).ok();
        }
        sleep_until(begin_ns + length);
        all.push(Truth {
            begin_ns,
            end_ns: begin_ns + length,
        });
    }
    drop(sinks);
    all
}

/// Timers of another program that expire one after the other on the device's CPU.
fn timers(begin: u64, end: u64) -> Vec<Truth> {
    const COUNT: usize = 900;
    const APART_NS: u64 = 3_000;
    std::thread::spawn(move || {
        bench::pin(FAR);
        // Timers are set on the CPU where they are to expire, even when it is busy.
        sys::set_fifo(10);
        let timers: Vec<_> = (0..COUNT).map(|_| sys::timer()).collect();
        let mut all = Vec::new();
        for (at, _) in Times::new(begin, end) {
            sleep_until(at);
            // Far enough ahead that setting the timers is over.
            let first = now_ns() + 15_000_000;
            for (number, timer) in timers.iter().enumerate() {
                sys::expire_at(timer, first + number as u64 * APART_NS);
            }
            // Timers set too late belong to another storm.
            if now_ns() < first {
                all.push(Truth {
                    begin_ns: first,
                    end_ns: first + COUNT as u64 * APART_NS,
                });
            }
        }
        std::thread::sleep(Duration::from_millis(30));
        all
    })
    .join()
    .unwrap()
}

fn faults(device: &mut Forwarder, begin: u64, end: u64) -> Vec<Truth> {
    let mut all = Vec::new();
    for (at, _) in Times::new(begin, end) {
        sleep_until(at);
        let begin_ns = now_ns();
        device.fault();
        all.push(Truth {
            begin_ns,
            end_ns: begin_ns + 1_000_000,
        });
    }
    all
}

/// A cgroup that gives the device a fifth of a CPU, for a while.
fn throttle(device: &Forwarder, begin: u64, end: u64) -> Vec<Truth> {
    let group = Group::new();
    group.add(device.pid());
    let mut all = Vec::new();
    for (at, length) in Times::new(begin, end) {
        sleep_until(at);
        let begin_ns = now_ns();
        group.limit(Some(2_000));
        sleep_until(begin_ns + 3 * length);
        group.limit(None);
        all.push(Truth {
            begin_ns,
            end_ns: now_ns(),
        });
    }
    all
}

struct Group {
    path: PathBuf,
    unified: bool,
}

impl Group {
    fn new() -> Group {
        let unified = !std::path::Path::new("/sys/fs/cgroup/cpu").exists();
        let root = if unified {
            "/sys/fs/cgroup"
        } else {
            "/sys/fs/cgroup/cpu"
        };
        let path = PathBuf::from(root).join(format!("latlab-test-{}", crate::namespaces::id()));
        fs::create_dir(&path).unwrap();
        // Against other load of the machine; the maximum.
        let weight = if unified {
            ("cpu.weight", "10000")
        } else {
            ("cpu.shares", "262144")
        };
        fs::write(path.join(weight.0), weight.1).unwrap();
        Group { path, unified }
    }

    fn add(&self, pid: i32) {
        fs::write(self.path.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    /// Microseconds of each 10 ms.
    fn limit(&self, quota: Option<u32>) {
        if self.unified {
            let quota = quota.map_or("max".to_string(), |q| q.to_string());
            fs::write(self.path.join("cpu.max"), format!("{quota} 10000")).unwrap();
        } else {
            fs::write(self.path.join("cpu.cfs_period_us"), "10000").unwrap();
            let quota = quota.map_or(-1, |q| q as i32);
            fs::write(self.path.join("cpu.cfs_quota_us"), quota.to_string()).unwrap();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let root = self.path.parent().unwrap().join("cgroup.procs");
        for pid in fs::read_to_string(self.path.join("cgroup.procs"))
            .unwrap_or_default()
            .lines()
        {
            fs::write(&root, pid).ok();
        }
        fs::remove_dir(&self.path).ok();
    }
}
