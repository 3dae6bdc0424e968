//! A soak: labs come and go, links change, daemons, nodes, guests and latlab itself are killed at random under
//! traffic, beside an untouched lab with a flow on every kind of link. The flows lose nothing, and
//! all counts before and after are equal.
//!
//! `LATLAB_SOAK_SECONDS` is its length (60 in the whole tests, 1800 by hand; skipped otherwise),
//! `LATLAB_TEST_SEED` repeats its choices, `LATLAB_SOAK_LOG` names a file for its log.

mod common;
#[path = "soak/sys.rs"]
mod sys;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{Bench, enter, finished, guests, signal, text, until, whole, world};

/// Every kind of link, an end in each of two nodes.
const STEADY: &str = "name: NAME\ntopology:\n  nodes: {a: {kind: native}, b: {kind: native}, c: {kind: container}}\n  \
    links:\n    \
    - {endpoints: [\"a:eth0\", \"b:eth0\"]}\n    \
    - {type: bridge, endpoints: [\"a:eth1\", \"c:eth1\"]}\n    \
    - {type: nat, endpoints: [\"a:eth2\", \"b:eth2\"]}\n    \
    - {type: vxlan, endpoints: [\"a:eth3\", \"b:eth3\"]}\n    \
    - {type: overlay, carrier: local, endpoints: [\"a:eth4\", \"c:eth4\"]}\n    \
    - {type: overlay, carrier: vxlan, endpoints: [\"a:eth5\", \"b:eth5\"]}\n    \
    - {type: overlay, carrier: udp, endpoints: [\"a:eth6\", \"b:eth6\"]}\n    \
    - {type: overlay, carrier: direct, endpoints: [\"a:eth7\", \"c:eth7\"]}\n";

/// The other end of each interface of `a`; behind a router, it is not seen.
const FLOWS: [(&str, &str); 7] = [
    ("b", "eth0"),
    ("c", "eth1"),
    ("b", "eth3"),
    ("c", "eth4"),
    ("b", "eth5"),
    ("b", "eth6"),
    ("c", "eth7"),
];

/// Labs that come and go.
fn passing(kind: &str, link: &str) -> String {
    format!(
        "name: NAME\ntopology:\n  kinds: {{vm: {{memory: 256MiB}}}}\n  nodes: {{a: {{kind: {kind}}}, b: {{kind: native}}}}\n  \
         links: [{{{link}, endpoints: [\"a:eth0\", \"b:eth0\"]}}]\n"
    )
}

const LINKS: [&str; 8] = [
    "type: veth",
    "type: bridge",
    "type: nat",
    "type: vxlan",
    "type: overlay, carrier: local",
    "type: overlay, carrier: vxlan",
    "type: overlay, carrier: udp",
    "type: overlay, carrier: direct",
];

/// The same choices for the same seed (xorshift64*).
struct Chance(u64);

impl Chance {
    fn new() -> Chance {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let seed = std::env::var("LATLAB_TEST_SEED").ok();
        let seed = seed.map_or(now.as_nanos() as u64 % 1_000_000, |s| s.parse().unwrap());
        println!("LATLAB_TEST_SEED={seed}");
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as usize % most
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// The counts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counts {
    /// Threads and descriptors of each process of the untouched lab.
    steady: BTreeMap<u32, (usize, usize)>,
    namespaces: usize,
    mounts: BTreeSet<String>,
    qdiscs: usize,
    programs: usize,
    maps: usize,
}

fn entries(path: &str) -> usize {
    fs::read_dir(path).map_or(0, Iterator::count)
}

/// Processes in a lab's cgroups, or started from its directory.
fn of_lab(bench: &Bench, lab: &str) -> Vec<u32> {
    let group = format!("/latlab/{lab}/");
    let files = bench.run_dir().join(lab).display().to_string();
    let mut all = world::processes();
    all.retain(|pid| {
        let read = |file| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        text(&read("cgroup")).contains(&group) || text(&read("cmdline")).contains(&files)
    });
    all
}

impl Counts {
    fn now(bench: &Bench, steady: &str) -> Counts {
        let of = |pid: u32| {
            let count = |what| entries(&format!("/proc/{pid}/{what}"));
            (pid, (count("task"), count("fd")))
        };
        let spaces: BTreeSet<_> = world::processes()
            .into_iter()
            .flat_map(|pid| {
                ["net", "mnt", "pid", "user", "cgroup"].map(|kind| format!("/proc/{pid}/ns/{kind}"))
            })
            .filter_map(|link| fs::read_link(link).ok())
            .collect();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let places = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let places = places.filter(|place| Path::new(place).starts_with(bench.root()));
        let queues = ["a", "b"].map(|node| bench.exec(steady, node, &["tc", "qdisc"]).good().out);
        Counts {
            steady: of_lab(bench, steady).into_iter().map(of).collect(),
            namespaces: spaces.len(),
            mounts: places.map(str::to_string).collect(),
            qdiscs: queues.iter().map(|out| out.lines().count()).sum(),
            programs: sys::count(sys::PROGRAMS),
            maps: sys::count(sys::MAPS),
        }
    }
}

impl Counts {
    /// Once it does not change any more: the kernel frees some of it later.
    fn settled(bench: &Bench, steady: &str) -> Counts {
        let mut last = Counts::now(bench, steady);
        until("what is counted stays", || {
            std::thread::sleep(Duration::from_secs(1));
            let now = Counts::now(bench, steady);
            let stays = now.is_back(&last) && last.is_back(&now);
            last = now;
            stays
        });
        last
    }

    /// Nothing more than then. Others on the machine may have let BPF objects go; all else is ours alone.
    fn is_back(&self, then: &Counts) -> bool {
        let mut equal = self.clone();
        (equal.programs, equal.maps) = (then.programs, then.maps);
        equal == *then && self.programs <= then.programs && self.maps <= then.maps
    }
}

/// Memory of the processes of the untouched lab, in KiB.
fn memory(bench: &Bench, lab: &str) -> u64 {
    let of = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"));
        line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok())
    };
    of_lab(bench, lab).into_iter().filter_map(of).sum()
}

/// A flow of the untouched lab.
fn flow(bench: &Bench, lab: &str, (node, interface): (&str, &str)) -> (String, Child) {
    let shown = bench
        .exec(lab, node, &["ip", "-4", "-o", "addr", "show", interface])
        .good();
    let address = shown.out.split_whitespace().nth(3).unwrap();
    let address = address.split('/').next().unwrap().to_string();
    bench
        .exec(
            lab,
            "a",
            &["ping", "-c", "3", "-i", "0.2", "-W", "10", &address],
        )
        .good();
    let mut command = bench.command(&[
        "exec", lab, "a", "--", "ping", "-q", "-i", "0.02", "-W", "10", &address,
    ]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (format!("{interface} to {node} ({address})"), child)
}

/// Its log, on the standard output and where it is asked for.
struct Log(Instant, Option<fs::File>, BTreeMap<&'static str, usize>);

impl Log {
    fn say(&mut self, line: &str) {
        let line = format!("{:7.1} {line}", self.0.elapsed().as_secs_f64());
        println!("{line}");
        if let Some(file) = &mut self.1 {
            writeln!(file, "{line}").unwrap();
        }
    }

    fn killed(&mut self, what: &'static str, pid: u32) {
        signal_if_there(pid, "KILL");
        *self.2.entry(what).or_default() += 1;
        self.say(&format!("killed {what} {pid}"));
    }
}

fn signal_if_there(pid: u32, name: &str) {
    let mut kill = std::process::Command::new("kill");
    let kill = kill.args([&format!("-{name}"), &pid.to_string()]);
    // The process may have ended meanwhile.
    kill.stderr(Stdio::null()).status().ok();
}

/// One lab comes, is used, changed and killed, and goes.
fn pass(bench: &Bench, chance: &mut Chance, log: &mut Log, kinds: &[&str]) {
    let (kind, link) = (chance.of(kinds), chance.of(&LINKS));
    let file = bench.file("passing", &passing(kind, link));
    let lab = bench.name("passing");
    let start = |words: &[&str]| {
        let mut command = bench.command(words);
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let pause = |chance: &mut Chance, most: usize| {
        std::thread::sleep(Duration::from_millis(chance.below(most) as u64));
    };
    log.say(&format!("{kind}, {link}"));
    if chance.below(4) == 0 {
        let mut deploy = start(&["deploy", &file]);
        pause(chance, 400);
        log.killed("latlab deploy", deploy.id());
        deploy.wait().unwrap();
    } else {
        bench.latlab(&["deploy", &file]).good();
        let mut traffic = start(&[
            "exec",
            &lab,
            "b",
            "--",
            "ping",
            "-f",
            "-c",
            "100000",
            "198.18.0.1",
        ]);
        for _ in 0..chance.below(4) {
            match chance.below(4) {
                0 if link.contains("overlay") => {
                    let change = [
                        "add network spare vni 4001",
                        "set dispatch idle immediate",
                        "delete network spare",
                    ];
                    bench.latlab(&["overlay", &lab, chance.of(&change)]);
                }
                1 => {
                    let all = of_lab(bench, &lab);
                    if !all.is_empty() {
                        let pid = chance.of(&all);
                        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                        let words = text(&words);
                        let what = match () {
                            () if words.contains("latlab-overlay") => "overlay daemon",
                            () if words.contains("qemu") => "guest",
                            () => "process of a node",
                        };
                        log.killed(what, pid);
                    }
                }
                2 => {
                    log.killed("latlab exec", traffic.id());
                }
                _ => drop(bench.latlab(&["inspect", &lab])),
            }
            pause(chance, 200);
        }
        signal_if_there(traffic.id(), "KILL");
        traffic.wait().unwrap();
    }
    if chance.below(3) == 0 {
        let mut destroy = start(&["destroy", &lab]);
        pause(chance, 200);
        log.killed("latlab destroy", destroy.id());
        destroy.wait().unwrap();
    }
    bench.latlab(&["destroy", &lab]).good();
    world::reap();
}

/// Packets sent and received, from ping's summary; none without one.
fn counts(summary: &str) -> [u64; 2] {
    let mut words = summary
        .split_whitespace()
        .filter_map(|word| word.parse().ok());
    [(); 2].map(|()| words.next().unwrap_or_default())
}

#[test]
fn labs_under_random_kills_leave_nothing_and_disturb_no_other() {
    let given = std::env::var("LATLAB_SOAK_SECONDS")
        .ok()
        .and_then(|s| s.parse().ok());
    let Some(seconds) = given.or(whole().then_some(30)) else {
        println!("skipped: takes half a minute and more; LATLAB_SOAK_SECONDS is its length");
        return;
    };
    enter(
        "labs_under_random_kills_leave_nothing_and_disturb_no_other",
        |bench| {
            let mut chance = Chance::new();
            let file =
                std::env::var_os("LATLAB_SOAK_LOG").map(|path| fs::File::create(path).unwrap());
            let mut log = Log(Instant::now(), file, BTreeMap::new());
            let mut kinds = vec!["native", "native", "container", "container", "container"];
            kinds.extend(guests().then_some("vm"));
            let steady = bench.deploy("steady", STEADY);
            let flows: Vec<(String, Child)> =
                FLOWS.iter().map(|end| flow(bench, &steady, *end)).collect();
            // Everything that is created once and kept exists now.
            pass(bench, &mut chance, &mut log, &["container"]);
            let before = Counts::settled(bench, &steady);
            let (kib, begin, mut rounds) = (memory(bench, &steady), Instant::now(), 0);
            log.say(&format!("before: {before:?}, {kib} KiB"));
            while begin.elapsed() < Duration::from_secs(seconds) {
                pass(bench, &mut chance, &mut log, &kinds);
                rounds += 1;
            }
            let mut after = before.clone();
            until("everything that is counted is as before", || {
                let now = Counts::now(bench, &steady);
                if now != after {
                    println!("counted: {now:?}");
                }
                after = now;
                after.is_back(&before)
            });
            let now_kib = memory(bench, &steady);
            log.say(&format!(
                "after {rounds} labs: {after:?}, {now_kib} KiB; killed {:?}",
                log.2.clone()
            ));
            // Their memory is given back in whole pages by an allocator that keeps some.
            assert!(
                now_kib <= kib + kib / 4 + 4096,
                "{kib} KiB became {now_kib} KiB"
            );
            for (name, child) in flows {
                let pings = of_child(child.id());
                pings.iter().for_each(|pid| signal(*pid, "INT"));
                let said = finished(child);
                let line = said
                    .out
                    .lines()
                    .find(|l| l.contains("packets transmitted"))
                    .unwrap_or_default();
                log.say(&format!("flow {name}: {line}"));
                let [sent, received] = counts(line);
                // The answer to the last one may be on its way when ping is stopped.
                assert!(received > 0 && sent <= received + 1, "{name}: {said:#?}");
            }
            bench.latlab(&["destroy", "--all", "-y"]).good();
            bench.assert_clean();
        },
    );
}

/// The program in the node: it has the command's process for a parent.
fn of_child(pid: u32) -> Vec<u32> {
    let children =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let direct: Vec<u32> = children
        .split_whitespace()
        .filter_map(|p| p.parse().ok())
        .collect();
    let deeper: Vec<u32> = direct.iter().flat_map(|child| of_child(*child)).collect();
    match deeper.is_empty() {
        true => direct,
        false => deeper,
    }
}
