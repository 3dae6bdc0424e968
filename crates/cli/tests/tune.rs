//! `latlab tune` on the real kernel: applied values are in force, and after any interference one `tune revert`
//! restores every file that latlab may write.
//!
//! The real machine's values are changed, for milliseconds each, and restored by a guard however a test ends. Private
//! namespaces limit the effect: the test sees only its own threads, so no others are moved.
//!
//! `LATLAB_TEST_WHOLE=1` runs 200 rounds; `LATLAB_TEST_SEED` repeats a run's choices.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use common::{Bench, Said, enter, fetch, finish, finished, signal, text, tool, whole};
use serde_json::Value;

/// The machine has one set of knobs: one test at a time. Held outside of the namespaces too.
static MACHINE: Mutex<()> = Mutex::new(());

fn alone(name: &str, body: impl FnOnce(&Bench)) {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    enter(name, |bench| {
        let guard = Guard(bench);
        body(bench);
        drop(guard);
    });
}

/// Gives everything back however the test ends.
struct Guard<'b>(&'b Bench);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let said = self.0.latlab(&["tune", "revert"]);
        if said.code != 0 {
            eprintln!("reverting: {said:#?}");
        }
    }
}

/// Every knob with values to choose from.
const KNOBS: &[(&str, &[&str])] = &[
    ("cpuset", &["isolated", "root"]),
    ("irqbalance", &["housekeeping"]),
    ("irq-default", &["housekeeping"]),
    ("irq-affinity", &["housekeeping"]),
    ("workqueues", &["housekeeping"]),
    ("kernel-threads", &["housekeeping"]),
    ("rps", &["housekeeping", "none"]),
    ("xps", &["housekeeping"]),
    ("timer-migration", &["off"]),
    ("rt-throttling", &["off", "900ms"]),
    ("nmi-watchdog", &["off", "on"]),
    ("soft-watchdog", &["off"]),
    ("watchdog-cpus", &["housekeeping"]),
    ("numa-balancing", &["off"]),
    (
        "threads",
        &["{latlab-victim: fifo:3}", "{latlab-victim: \"other:7\"}"],
    ),
    ("thp", &["never", "always"]),
    ("thp-defrag", &["never", "defer+madvise"]),
    ("ksm", &["off", "on"]),
    ("huge-pages", &["4MiB", "8MiB"]),
    ("compaction", &["0", "5"]),
    ("unevictable-compaction", &["off"]),
    ("memory-lock", &["latlab-victim"]),
    ("swappiness", &["1", "7"]),
    ("dirty-writeback", &["15s", "off"]),
    ("vm-stat-interval", &["120s"]),
    ("governor", &["performance"]),
    ("idle-states", &["0us"]),
    ("resume-latency", &["0us", "20us"]),
    ("cpu-dma-latency", &["0us", "20us"]),
    ("halt-poll", &["off", "50us"]),
    ("busy-poll", &["50us"]),
    ("busy-read", &["50us"]),
    ("socket-buffers", &["8MiB"]),
    ("netdev-backlog", &["5000"]),
    ("qdisc", &["fq_codel", "pfifo_fast"]),
    ("nic-queues", &["1"]),
    ("nic-coalescing", &["off"]),
    ("nic-offloads", &["off"]),
    ("threaded-napi", &["on"]),
];

/// The same choices for the same seed (xorshift64*).
struct Chance(u64);

impl Chance {
    fn new() -> Chance {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let seed = match std::env::var("LATLAB_TEST_SEED") {
            Ok(seed) => seed.parse().unwrap(),
            Err(_) => now.as_nanos() as u64 % 1_000_000,
        };
        println!("LATLAB_TEST_SEED={seed}");
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as usize % most
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for i in (1..all.len()).rev() {
            all.swap(i, self.below(i + 1));
        }
    }
}

/// Everything that a knob may write, and the trees around it, as text.
#[derive(Debug, PartialEq, Eq)]
struct Snapshot(BTreeMap<String, String>);

/// Trees that are compared whole.
const TREES: &[&str] = &[
    "/proc/sys/vm",
    "/proc/sys/kernel",
    "/proc/sys/net/core",
    "/proc/irq",
    "/sys/kernel/mm",
    "/sys/devices/virtual/workqueue",
    "/sys/devices/system/cpu",
];

/// Files that change by themselves, or have an effect when read.
const VOLATILE: &[&str] = &[
    "ns_last_pid",
    "/random/",
    "/pty/nr",
    "compact_memory",
    "drop_caches",
    "stat_refresh",
    "pages_",
    "full_scans",
    "/spurious",
    "effective_affinity",
    "/damon/",
    "/stats/",
    "runtime_",
    "ksm_zero_pages",
    "general_profit",
    "stable_node",
    "free_hugepages",
    "/keys/",
    "/cpuidle/state",
    "cache_disable",
    "/uevent",
    "tainted",
];

impl Snapshot {
    fn now() -> Snapshot {
        let mut all = BTreeMap::new();
        for tree in TREES {
            walk(Path::new(tree), &mut all);
        }
        for interface in fs::read_dir("/sys/class/net").unwrap().flatten() {
            let path = interface.path();
            read(&path.join("threaded"), &mut all);
            for queue in fs::read_dir(path.join("queues"))
                .into_iter()
                .flatten()
                .flatten()
            {
                read(&queue.path().join("rps_cpus"), &mut all);
                read(&queue.path().join("xps_cpus"), &mut all);
            }
        }
        groups(&mut all);
        for pid in common::world::processes() {
            task(pid, &mut all);
        }
        Snapshot(all)
    }

    /// The differences, for the failure message.
    fn against(&self, now: &Snapshot) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, before) in &self.0 {
            match now.0.get(name) {
                Some(after) if after != before => {
                    wrong.push(format!("{name}: {before:?} → {after:?}"));
                }
                _ => {}
            }
        }
        let new = now.0.keys().filter(|name| !self.0.contains_key(*name));
        wrong.extend(
            new.filter(|n| n.contains("latlab."))
                .map(|n| format!("{n} is left")),
        );
        wrong
    }
}

fn walk(dir: &Path, all: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        match kind.is_dir() {
            true => walk(&entry.path(), all),
            false if kind.is_file() => read(&entry.path(), all),
            false => {}
        }
    }
}

/// A file that can be written, as it is, to the byte.
fn read(path: &Path, all: &mut BTreeMap<String, String>) {
    use std::os::unix::fs::PermissionsExt;
    let name = path.display().to_string();
    let writable = fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o200 != 0);
    if writable && !VOLATILE.iter().any(|v| name.contains(v)) {
        if let Ok(bytes) = fs::read(path) {
            all.insert(name, text(&bytes));
        }
    }
}

/// The cgroups of `cpuset`; foreign ones may come and go, but their settings may not change.
fn groups(all: &mut BTreeMap<String, String>) {
    for root in common::world::hierarchies() {
        if !root.join("cpuset.cpus").exists() && !root.join("cgroup.controllers").exists() {
            continue;
        }
        // `cpuset` stays enabled for who relies on it meanwhile.
        let handed = root.join("cgroup.subtree_control");
        if let Ok(text) = fs::read_to_string(&handed) {
            let words = text.split_whitespace().filter(|w| *w != "cpuset");
            all.insert(
                handed.display().to_string(),
                words.collect::<Vec<_>>().join(" "),
            );
        }
        let mut left: Vec<PathBuf> = vec![root];
        while let Some(dir) = left.pop() {
            let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
            left.extend(entries.map(|e| e.path()).filter(|p| p.is_dir()));
            for file in [
                "cpuset.cpus",
                "cpuset.mems",
                "cpuset.cpu_exclusive",
                "cpuset.sched_load_balance",
                "cpuset.cpus.partition",
            ] {
                read(&dir.join(file), all);
            }
        }
    }
}

fn task(pid: u32, all: &mut BTreeMap<String, String>) {
    let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let status = file("status");
    let processors = status.lines().find(|l| l.starts_with("Cpus_allowed_list"));
    let stat = file("stat");
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let limits = file("limits");
    let lock = limits.lines().find(|l| l.starts_with("Max locked memory"));
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or("");
    // Nice value, real-time priority and policy; the start tells it from a later one.
    let policy = [field(19), field(40), field(41)].join(" ");
    all.insert(
        format!("process {pid} since {}", field(22)),
        format!("{} {processors:?} {policy} {lock:?}", file("cpuset").trim()),
    );
}

/// Foreign programs: one that may run anywhere, one that is pinned, one with a priority.
struct Victims(Vec<Child>);

impl Victims {
    fn new(bench: &Bench) -> Victims {
        let program = bench.root().join("files/latlab-victim");
        fs::copy("/bin/sleep", &program).unwrap();
        let start = |prefix: &[&str]| {
            let mut words = prefix.to_vec();
            let path = program.to_str().unwrap();
            words.extend([path, "100000"]);
            let mut command = Command::new(words[0]);
            command
                .args(&words[1..])
                .stdin(Stdio::null())
                .spawn()
                .unwrap()
        };
        let victims = vec![
            start(&[]),
            start(&["taskset", "-c", "0"]),
            start(&["chrt", "-f", "5"]),
        ];
        // taskset and chrt become the program.
        for victim in &victims {
            let comm = format!("/proc/{}/comm", victim.id());
            common::until("a victim runs", || {
                fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "latlab-victim")
            });
        }
        Victims(victims)
    }
}

impl Drop for Victims {
    fn drop(&mut self) {
        for victim in &mut self.0 {
            victim.kill().ok();
            victim.wait().ok();
        }
    }
}

/// The CPU that is isolated in these tests; none on a machine with one CPU.
fn last_cpu() -> Option<String> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let last = online.trim().rsplit([',', '-']).next()?.to_string();
    (last != "0").then_some(last)
}

fn arguments(knobs: &[(&str, &str)], cpu: &str) -> Vec<String> {
    let mut words = vec!["tune".into(), "apply".into(), "--cpus".into(), cpu.into()];
    // A profile that switches both watchdogs off and places them is a contradiction.
    let off = |name| knobs.contains(&(name, "off"));
    let both_off = off("nmi-watchdog") && off("soft-watchdog");
    for (knob, value) in knobs {
        if *knob == "watchdog-cpus" && both_off {
            continue;
        }
        words.push("--knob".into());
        words.push(format!("{knob}={value}"));
    }
    words
}

fn apply(bench: &Bench, knobs: &[(&str, &str)], cpu: &str) -> Said {
    let words = arguments(knobs, cpu);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = bench.latlab(&words);
    // A knob that the kernel refuses here is 1; anything wrong with the request would be 2.
    assert!(said.code <= 1, "{said:#?}");
    said
}

/// Kills an application after a moment.
fn apply_and_kill(bench: &Bench, knobs: &[(&str, &str)], cpu: &str, after: Duration) {
    let words = arguments(knobs, cpu);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = bench.command(&words);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    signal(child.id(), "KILL");
    finished(child);
}

fn holders() -> usize {
    let all = common::world::processes().into_iter();
    all.filter(|pid| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        text(&environ).contains("LATLAB_TUNING_HOLDS=")
    })
    .count()
}

#[test]
fn any_knobs_in_any_order_are_reverted_to_the_byte_even_after_a_kill() {
    alone(
        "any_knobs_in_any_order_are_reverted_to_the_byte_even_after_a_kill",
        |bench| {
            let Some(cpu) = last_cpu() else {
                println!("skipped: a machine with one CPU isolates none");
                return;
            };
            let _victims = Victims::new(bench);
            let mut chance = Chance::new();
            let before = Snapshot::now();
            assert!(before.0.len() > 100, "only {} files", before.0.len());
            let start = Instant::now();
            apply(bench, &all(&mut chance), &cpu);
            let usual = start.elapsed();
            bench.latlab(&["tune", "revert"]).good();
            assert_same(&before, "the first round");
            let rounds = if whole() { 200 } else { 12 };
            let (mut killed, mut foreign) = (0, 0);
            for round in 0..rounds {
                let mut knobs = all(&mut chance);
                knobs.truncate(1 + chance.below(knobs.len()));
                // In up to three applications, so that the order is random across them.
                let parts = 1 + chance.below(3);
                let size = knobs.len().div_ceil(parts);
                let mut parts: Vec<_> = knobs.chunks(size).collect();
                let last = parts.pop().unwrap();
                for part in parts {
                    apply(bench, part, &cpu);
                }
                match round % 2 {
                    0 => {
                        let share = chance.below(1000) as f64 / 1000.0;
                        apply_and_kill(bench, last, &cpu, usual.mul_f64(share));
                        killed += 1;
                    }
                    _ => drop(apply(bench, last, &cpu)),
                }
                match round % 5 {
                    // A foreign change wins: latlab's last value must not return.
                    4 => {
                        foreign += usize::from(foreign_change(bench));
                    }
                    _ => drop(bench.latlab(&["tune", "revert"]).good()),
                }
                assert_same(&before, &format!("round {round}: {knobs:?}"));
                assert_eq!(holders(), 0);
                assert!(!bench.root().join("state/tuning.json").exists());
            }
            println!("{rounds} rounds, {killed} killed, {foreign} with a foreign change");
        },
    );
}

fn all(chance: &mut Chance) -> Vec<(&'static str, &'static str)> {
    let mut knobs: Vec<_> = KNOBS
        .iter()
        .map(|(knob, values)| (*knob, values[chance.below(values.len())]))
        .collect();
    chance.shuffle(&mut knobs);
    knobs
}

#[track_caller]
fn assert_same(before: &Snapshot, when: &str) {
    let wrong = before.against(&Snapshot::now());
    assert!(wrong.is_empty(), "{when}: {wrong:#?}");
}

/// Changes the swappiness, which some rounds have tuned, and reverts: it must stay, and be reported if
/// it was ours. Gives it back itself.
fn foreign_change(bench: &Bench) -> bool {
    let file = "/proc/sys/vm/swappiness";
    let journal = fs::read_to_string(bench.root().join("state/tuning.json")).unwrap_or_default();
    let journal: Value = serde_json::from_str(&journal).unwrap_or_default();
    let entries = journal["entries"].as_array().cloned().unwrap_or_default();
    let entry = entries.iter().find(|e| e["item"]["path"] == file);
    let Some(entry) = entry else {
        bench.latlab(&["tune", "revert"]).good();
        return false;
    };
    fs::write(file, "43").unwrap();
    let verified = bench.latlab(&["tune", "verify"]);
    assert_eq!(verified.code, 1, "{verified:#?}");
    assert!(verified.out.contains("swappiness") && verified.out.contains("43"));
    let said = bench.latlab(&["tune", "revert"]);
    assert_eq!(said.code, 1, "{said:#?}");
    assert!(
        said.out
            .contains("left alone: /proc/sys/vm/swappiness: it is `43` now"),
        "{said:#?}"
    );
    assert_eq!(fs::read_to_string(file).unwrap().trim(), "43");
    fs::write(file, entry["original"].as_str().unwrap()).unwrap();
    true
}

#[test]
fn every_knob_is_in_force_or_gives_a_reason() {
    alone("every_knob_is_in_force_or_gives_a_reason", |bench| {
        let Some(cpu) = last_cpu() else { return };
        let _victims = Victims::new(bench);
        let before = Snapshot::now();
        for (knob, values) in KNOBS {
            let mut words = arguments(&[(*knob, values[0])], &cpu);
            words.extend(["--format".into(), "json".into()]);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let said = bench.latlab(&words);
            let outcome: Value = serde_json::from_str(&said.out).unwrap();
            let outcome = &outcome["knobs"][0];
            let count = |key: &str| outcome[key].as_u64().unwrap();
            let listed = |key: &str| outcome[key].as_array().unwrap().len();
            let did = count("turned") + count("already");
            println!("  {knob}: {outcome}");
            match outcome["absent"].as_str() {
                Some(reason) => {
                    assert!(reason.len() > 10, "{knob}: {reason}");
                    assert_eq!(did, 0, "{knob} is absent and was applied: {outcome}");
                    assert_eq!(said.code, 0);
                }
                None => {
                    assert!(
                        did as usize + listed("refused") + listed("fixed") > 0,
                        "{outcome}"
                    );
                    assert_eq!(said.code == 1, listed("refused") > 0, "{outcome}");
                }
            }
            bench.latlab(&["tune", "verify"]).good();
            bench.latlab(&["tune", "revert"]).good();
            assert_same(&before, knob);
        }
    });
}

#[test]
fn bad_requests_are_refused_before_any_change() {
    alone("bad_requests_are_refused_before_any_change", |bench| {
        let before = Snapshot::now();
        let refused = |words: &[&str], what: &str, hint: &str| {
            let mut all = vec!["tune"];
            all.extend(words);
            bench.latlab(&all).refused(2, what, hint);
        };
        let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
        let online = online.trim();
        refused(
            &["apply", "isolated", "--cpus", online],
            "leaves no CPU",
            "leave at least one",
        );
        refused(
            &["apply", "isolated", "--cpus", "7000"],
            "CPU 7000 cannot be isolated",
            "has",
        );
        refused(
            &["apply", "isolated", "--cpus", "3-1"],
            "not a list of CPUs",
            "--cpus 2-7",
        );
        refused(
            &["apply", "throughput", "--cpus", "0"],
            "isolates no CPUs",
            "leave the choice",
        );
        refused(
            &["apply", "isolatd"],
            "no profile `isolatd`",
            "did you mean `isolated`?",
        );
        refused(&["apply"], "no profile is named", "isolated");
        refused(
            &["apply", "--knob", "swapiness=1"],
            "unknown knob `swapiness`",
            "`swappiness`",
        );
        refused(
            &["apply", "--knob", "swappiness=300"],
            "from 0 to 200",
            "example",
        );
        refused(
            &["apply", "--knob", "vm-stat-interval=120"],
            "duration with its unit",
            "1s",
        );
        refused(
            &["apply", "--knob", "swappiness=1", "--knob", "swappiness=2"],
            "`swappiness` is given twice",
            "leave one out",
        );
        refused(
            &["apply", "isolated", "--without", "xyz"],
            "unknown knob `xyz`",
            "",
        );
        refused(
            &["apply", "--knob", "huge-pages=3MiB"],
            "no multiple of the huge page size",
            "multiple",
        );
        refused(
            &["apply", "--knob", "irq-affinity=7000"],
            "no CPU 7000",
            "has",
        );
        let file = bench.root().join("files/mine.yaml");
        fs::write(
            &file,
            "name: mine\ncores: isolated\nknobs:\n  irq-affinity: isolated\n",
        )
        .unwrap();
        let file = file.to_str().unwrap();
        refused(
            &["plan", file],
            "mine.yaml:4:17: `irq-affinity: isolated` brings noise",
            "housekeeping",
        );
        assert_same(&before, "refused requests");
    });
}

#[test]
fn no_permission_and_a_read_only_proc_are_refused_before_any_change() {
    alone(
        "no_permission_and_a_read_only_proc_are_refused_before_any_change",
        |bench| {
            let before = Snapshot::now();
            let words = [
                "tune",
                "apply",
                "--knob",
                "thp=never",
                "--knob",
                "swappiness=3",
            ];
            // The binary may be where only root looks.
            let copy = bench.root().join("latlab");
            fs::copy(env!("CARGO_BIN_EXE_latlab"), &copy).unwrap();
            let mut nobody = Command::new(&copy);
            nobody.args(words).uid(65_534).gid(65_534).current_dir("/");
            finish(&mut nobody).refused(2, "needs root", "sudo latlab tune apply");
            assert_same(&before, "nobody");
            tool(&["mount", "--bind", "/proc/sys", "/proc/sys"]);
            tool(&["mount", "-o", "remount,bind,ro", "/proc/sys"]);
            bench.latlab(&words).refused(
                2,
                "/proc/sys/vm/swappiness cannot be written",
                "read-only",
            );
            tool(&["umount", "/proc/sys"]);
            assert_same(&before, "read-only");
            assert!(!bench.root().join("state/tuning.json").exists());
        },
    );
}

#[test]
fn a_conflicting_value_is_refused_until_the_first_is_reverted() {
    alone(
        "a_conflicting_value_is_refused_until_the_first_is_reverted",
        |bench| {
            let tune = |words: &[&str]| {
                let mut all = vec!["tune"];
                all.extend(words);
                bench.latlab(&all)
            };
            tune(&["apply", "--knob", "swappiness=3"]).good();
            let shown = tune(&["show", "swappiness"]).good();
            assert!(shown.out.contains("wanted    3 for user"), "{shown:#?}");
            tune(&["apply", "--knob", "compaction=1", "--knob", "swappiness=4"]).refused(
                2,
                "is `3` for user, and `4` is wanted",
                "latlab tune revert",
            );
            tune(&["revert"]).good();
            tune(&["apply", "--knob", "swappiness=4"]).good();
            tune(&["verify"]).good();
            tune(&["revert"]).good();
            let nothing = tune(&["revert"]).good();
            assert!(nothing.out.contains("nothing is applied"), "{nothing:#?}");
        },
    );
}

/// A guest `g` with two CPUs, the binary as `/latlab/latlab`, and a network card: irqbalance gives each interrupt of
/// one its own CPU.
fn lab_with_latlab_in_its_guest() -> String {
    let latlab = Path::new(env!("CARGO_BIN_EXE_latlab"));
    format!(
        "name: NAME\ntopology:\n  nodes: {{n: {{kind: native}}, g: {{kind: vm, cpus: 2, memory: 512MiB, \
         binds: [\"{}:/latlab:ro\"]}}}}\n  links: [{{endpoints: [\"g:eth0\", \"n:eth0\"]}}]\n",
        latlab.parent().unwrap().display()
    )
}

/// Cgroup version 2, in a guest, because this machine has version 1.
#[test]
fn in_a_guest_a_partition_of_version_2_is_applied_and_reverted() {
    fetch("standard");
    alone(
        "in_a_guest_a_partition_of_version_2_is_applied_and_reverted",
        |bench| {
            let lab = bench.deploy("v2", &lab_with_latlab_in_its_guest());
            let guest = |line: &str| bench.exec(&lab, "g", &["/bin/sh", "-c", line]);
            let script = "mkdir -p /sys/fs/cgroup; mountpoint -q /sys/fs/cgroup || \
                          mount -t cgroup2 none /sys/fs/cgroup; cat /sys/fs/cgroup/cgroup.controllers";
            let controllers = guest(script).good().out;
            assert!(controllers.contains("cpuset"), "{controllers}");
            // A foreign program on one CPU, another on the CPU that is to be isolated.
            let pinned =
                "for c in 0 1; do taskset -c $c sleep 100000 >/dev/null 2>&1 & echo $!; done";
            let pids = guest(&format!("{pinned}; sleep 0.2"))
                .good()
                .out
                .replace('\n', " ");
            // The workers of workqueues come and go, and cannot be moved.
            let threads = guest("pgrep -l -P 2 | grep -v kworker/ | cut -d' ' -f1").good();
            let threads = threads.out.replace('\n', " ");
            // Other programs rely on `cpuset` below the root as soon as it is enabled there: it stays enabled.
            let look = "cd /sys/fs/cgroup; cat cpuset.cpus.effective; ls -d */ 2>/dev/null; \
                        grep Cpus_allowed_list /proc/1/status; cat /proc/sys/vm/swappiness";
            let look = &format!(
                "{look}; for p in {pids} {threads}; do grep Cpus_allowed_list /proc/$p/status; done"
            );
            let before = guest(look).out;
            assert!(before.contains("Cpus_allowed_list:\t0\n"), "{before}");
            for mode in ["isolated", "root"] {
                let tune = |words: &str| {
                    guest(&format!(
                        "LATLAB_STATE_DIR=/tmp/state /latlab/latlab tune {words}"
                    ))
                };
                let applied = tune(&format!(
                    "apply --cpus 1 --knob cpuset={mode} --knob swappiness=1 --knob kernel-threads=housekeeping"
                ));
                println!("{}", applied.out);
                applied.good();
                let group = "/sys/fs/cgroup/latlab.isolated";
                let partition = guest(&format!("cat {group}/cpuset.cpus.partition"))
                    .good()
                    .out;
                assert_eq!(partition.trim(), mode);
                let others = guest("cat /sys/fs/cgroup/cpuset.cpus.effective").good().out;
                assert_eq!(others.trim(), "0");
                tune("verify").good();
                let relies = "cd /sys/fs/cgroup && mkdir -p relies && echo +cpuset > relies/cgroup.subtree_control";
                guest(relies).good();
                tune("revert").good();
                let enabled = guest("cat /sys/fs/cgroup/cgroup.subtree_control").good();
                assert!(enabled.out.contains("cpuset"), "{enabled:?}");
                guest("rmdir /sys/fs/cgroup/relies").good();
                assert_eq!(guest(look).out, before, "{mode}");
            }
        },
    );
}

/// The daemon moves interrupts before and after tuning, but not while CPUs are quiet. A daemon that is started
/// meanwhile is found.
const BALANCER: &str = r#"
set -e
quiet() { LATLAB_STATE_DIR=/tmp/state /latlab/latlab tune "$@"; }
start() { irqbalance --interval=1; until pid=$(pgrep -x irqbalance); do sleep 0.1; done; }
state() { awk '{print $3}' /proc/$pid/stat; }
# Where it would put them all anew, it is asked to.
moves() {
    for irq in /proc/irq/[0-9]*; do echo 1 > $irq/smp_affinity 2>/dev/null || true; done
    kill -HUP $pid
    for second in $(seq $1); do
        sleep 1
        ! grep -qx '2' /proc/irq/*/smp_affinity || return 0
    done
    return 1
}
start
moves 60 || { echo it moves nothing; exit 3; }
quiet apply --cpus 1 --knob irqbalance=housekeeping --knob irq-affinity=housekeeping
quiet verify
[ $(state) = T ]
! moves 5 || { echo it moved while it was to be stopped; exit 4; }
kill -9 $pid
while [ -e /proc/$pid ]; do sleep 0.1; done
start
! quiet verify || { echo another is not found; exit 5; }
quiet apply --cpus 1 --knob irqbalance=housekeeping
[ $(state) = T ]
quiet revert
[ $(state) != T ]
moves 60 || { echo it does not go on; exit 6; }
echo as it was
"#;

#[test]
fn in_a_guest_irqbalance_is_stopped_and_continued() {
    let there = Path::new("/usr/sbin/irqbalance").exists();
    if !there {
        println!("skipped: irqbalance is not installed");
        return;
    }
    let name = "in_a_guest_irqbalance_is_stopped_and_continued";
    fetch("standard");
    alone(name, |bench| {
        let lab = bench.deploy("balancer", &lab_with_latlab_in_its_guest());
        let done = bench.exec(&lab, "g", &["/bin/sh", "-c", BALANCER]);
        assert_eq!(done.code, 0, "{done:#?}");
        assert!(done.out.ends_with("as it was\n"), "{done:#?}");
        assert!(done.out.contains("running, as thread"), "{done:#?}");
    });
}

/// CPUs of the kernel's unbound threads, by TID and start time.
#[test]
fn a_group_that_was_narrowed_after_the_partition_is_restored() {
    alone(
        "a_group_that_was_narrowed_after_the_partition_is_restored",
        |bench| {
            let of_version_1 = |root: &PathBuf| root.join("cpuset.cpu_exclusive").exists();
            let root = common::world::hierarchies().into_iter().find(of_version_1);
            let (Some(root), Some(cpu)) = (root, last_cpu()) else {
                println!("skipped: needs two processors and `cpuset` of version 1");
                return;
            };
            let other = root.join(format!("latlab-other-{}", std::process::id()));
            fs::create_dir(&other).unwrap();
            for file in ["cpuset.mems", "cpuset.cpus"] {
                fs::copy(root.join(file), other.join(file)).unwrap();
            }
            let cpus = || fs::read_to_string(other.join("cpuset.cpus")).unwrap();
            let all = cpus();
            apply(bench, &[("cpuset", "isolated")], &cpu).good();
            assert_ne!(cpus(), all);
            // As if the kernel had refused the partition at first, and the group had come meanwhile.
            let file = bench.root().join("state/tuning.json");
            let mut journal: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
            let entries = journal["entries"].as_array_mut().unwrap();
            let name = other.to_str().unwrap();
            let at = entries
                .iter()
                .position(|entry| entry.to_string().contains(name));
            let entry = entries.remove(at.unwrap());
            entries.push(entry);
            fs::write(&file, journal.to_string()).unwrap();
            bench.latlab(&["tune", "revert"]).good();
            assert_eq!(cpus(), all);
            fs::remove_dir(&other).unwrap();
        },
    );
}

fn kernel_threads() -> BTreeMap<String, String> {
    let pids = common::world::processes().into_iter();
    pids.filter_map(|pid| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        let stat = read("stat")?;
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let flags: u32 = fields.get(6)?.parse().ok()?;
        let status = read("status")?;
        let cpus = status
            .lines()
            .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?;
        let movable = flags & 0x0020_0000 != 0 && flags & 0x0400_0000 == 0;
        movable.then(|| {
            (
                format!("{pid} since {}", fields[19]),
                cpus.trim().to_string(),
            )
        })
    })
    .collect()
}

/// Threads of the kernel are seen outside of the test's namespaces only: here the machine's own are
/// moved, for milliseconds, and given back.
#[test]
fn kernel_threads_are_moved_and_restored() {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let (Some(cpu), true) = (last_cpu(), rustix::process::geteuid().is_root()) else {
        println!("skipped: needs root and two CPUs");
        return;
    };
    let dir = std::env::temp_dir().join(format!("latlab-kthreads-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let latlab = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latlab"));
        command.args(words).env("LATLAB_STATE_DIR", &dir);
        command
    };
    let words = [
        "tune",
        "apply",
        "--cpus",
        &cpu,
        "--knob",
        "kernel-threads=housekeeping",
    ];
    let before = kernel_threads();
    if before.is_empty() {
        println!("skipped: no kernel thread can be seen, as in a container");
        return;
    }
    let mut chance = Chance::new();
    let rounds = if whole() { 40 } else { 6 };
    let mut wrong = Vec::new();
    for round in 0..rounds {
        let mut apply = latlab(&words);
        if round % 2 == 0 {
            let child = apply
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_micros(chance.below(8000) as u64));
            signal(child.id(), "KILL");
            finished(child);
        } else {
            finish(&mut apply).good();
            let moved = kernel_threads();
            let still = moved.values().filter(|cpus| cpus.ends_with(&cpu)).count();
            // The threads of interrupts follow theirs.
            wrong.extend((still > before.len() / 2).then(|| format!("{still} were not moved")));
        }
        // Before anything can fail: the machine is in use.
        let reverted = finish(&mut latlab(&["tune", "revert"]));
        wrong.extend((reverted.code != 0).then(|| format!("{reverted:?}")));
        let now = kernel_threads();
        let differ = before
            .iter()
            .filter(|(t, cpus)| now.get(*t).is_some_and(|n| n != *cpus));
        wrong.extend(differ.map(|(t, cpus)| format!("thread {t}: {cpus} → {}", now[t])));
    }
    fs::remove_dir_all(&dir).unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
