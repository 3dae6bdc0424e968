//! SIGKILL at any moment, and other ways in which the world ends under latlab: whatever happened, one
//! `destroy --all -y` leaves nothing of latlab's behind and everything of others' where it was, and
//! the next deployment works.
//!
//! A quick choice of moments by default, over VMs too with `LATLAB_TEST_WHOLE=1`. `LATLAB_TEST_KILLS` is the
//! number of kills that find their command still running (60 in CI, 1000 by hand), `LATLAB_TEST_SEED` repeats a
//! run's choices. The last line counts the kills by command.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{
    Bench, enter, finished, kill_after, kinds, labelled, namespaces, signal, tool, until, whole,
    world,
};
use latlab_host::dirs::Dirs;
use serde_json::Value;

/// A lab with something of everything: a node of the kind, a native one and the host itself, on a
/// router with rules, a switch, a tunnel and a cable; limits, and a command of its own.
fn lab(kind: &str) -> String {
    format!(
        "name: NAME\ntopology:\n  kinds: {{vm: {{memory: 256MiB}}, container: {{memory: 128MiB}}}}\n  \
         nodes:\n    a: {{kind: {kind}, exec: [\"sleep 0.05\"], teardown: \"sleep 0.05\"}}\n    \
         b: {{kind: native, memory: 64MiB}}\n    c: {{kind: container}}\n    h: {{kind: host}}\n  links:\n    \
         - {{type: nat, endpoints: [\"b:eth0\", \"a:eth0\", \"c:eth0\"]}}\n    \
         - {{type: bridge, endpoints: [\"a:eth1\", \"b:eth1\", \"h:lat0\"]}}\n    \
         - {{type: vxlan, endpoints: [\"c:eth2\", \"b:eth2\"]}}\n    \
         - {{endpoints: [\"h:lat1\", \"c:eth3\"]}}\n"
    )
}

/// The link of two interfaces that the bystander has for others.
const LENT: &str =
    "    - {type: phys, endpoints: [\"b:eth4\", \"c:eth4\"], interfaces: [nic0, nic1]}\n";

/// The tuned items: settings of the machine, a held device, and cgroups with their threads.
const TUNED: [&str; 10] = [
    "swappiness=3",
    "thp=never",
    "ksm=on",
    "compaction=5",
    "cpu-dma-latency=20us",
    "busy-poll=50us",
    "socket-buffers=8MiB",
    "huge-pages=4MiB",
    "netdev-backlog=5000",
    "dirty-writeback=15s",
];

/// Files that [`TUNED`] and the cpuset knob write.
const SETTINGS: [&str; 9] = [
    "/proc/sys/vm/swappiness",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/ksm/run",
    "/proc/sys/vm/compaction_proactiveness",
    "/proc/sys/net/core/rmem_max",
    "/proc/sys/vm/nr_hugepages",
    "/proc/sys/net/core/netdev_max_backlog",
    "/proc/sys/vm/dirty_writeback_centisecs",
    "/sys/fs/cgroup/cpuset/cpuset.sched_load_balance",
];

fn settings() -> Vec<String> {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    SETTINGS.map(read).to_vec()
}

/// A lab on an overlay, and one that changes it while it runs: as often as its commands are kept up.
fn overlay(bench: &Bench) -> String {
    let text = "name: NAME\ntopology:\n  nodes: {a: {kind: native}, b: {kind: container}}\n  \
                links: [{type: overlay, name: o, endpoints: [\"a:eth0\", \"b:eth0\"]}]\n";
    bench.file("overlay", text)
}

fn study(bench: &Bench, kind: &str) -> String {
    let text = format!(
        "name: tiny\nlab:\n  name: NAME\n  topology:\n    kinds: {{vm: {{memory: 256MiB}}}}\n    nodes: \
         {{a: {{kind: {kind}}}, b: {{kind: native}}}}\n    links: [{{endpoints: [\"a:eth0\", \
         \"b:eth0\"]}}]\nmeasurements:\n  - {{name: rr, probe: rr, protocol: udp, from: b, to: a, \
         duration: 100ms, warmup: 10ms}}\nreplicates: 2\n"
    );
    bench.file(&format!("study-{kind}"), &text)
}

/// The same choices for the same seed (xorshift64*).
struct Chance(u64);

impl Chance {
    fn new() -> Chance {
        let now = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap()
            .as_nanos() as u64;
        let seed = match std::env::var("LATLAB_TEST_SEED") {
            Ok(seed) => seed.parse().unwrap(),
            Err(_) => now % 1_000_000,
        };
        println!("LATLAB_TEST_SEED={seed}");
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        most.mul_f64((self.next() % 1_000_000) as f64 / 1_000_000.0)
    }
}

/// Another user of the machine, with one of everything that latlab creates.
struct Bystander {
    process: Child,
    groups: Vec<PathBuf>,
}

impl Bystander {
    fn new(bench: &Bench) -> Bystander {
        let dir = bench.root().join("bystander");
        fs::create_dir_all(dir.join("mount")).unwrap();
        let pin = dir.join("netns");
        namespaces::pin_network(&pin);
        tool(&[
            "mount",
            "-t",
            "tmpfs",
            "theirs",
            dir.join("mount").to_str().unwrap(),
        ]);
        tool(&[
            "ip", "link", "add", "by0", "type", "veth", "peer", "name", "by1",
        ]);
        tool(&["ip", "link", "set", "by1", "alias", "latlab:not-really"]);
        tool(&[
            "ip", "link", "add", "nic0", "mtu", "9000", "type", "veth", "peer", "name", "nic1",
        ]);
        tool(&["ip", "link", "set", "nic0", "up", "alias", "theirs"]);
        tool(&["nft", "add", "table", "ip", "theirs"]);
        tool(&[
            "nft",
            "add",
            "chain",
            "ip",
            "theirs",
            "c",
            "{ type filter hook input priority 0; }",
        ]);
        let mut sleep = Command::new("nsenter");
        sleep.arg(format!("--net={}", pin.display()));
        let process = sleep
            .args(["sleep", "100000"])
            .env("LATLAB_LABEL", "x")
            .spawn()
            .unwrap();
        let mut groups = Vec::new();
        for root in world::hierarchies() {
            let group = root.join(format!("bystander-{}", namespaces::id()));
            // Not every hierarchy accepts the process; one is enough.
            if fs::create_dir(&group).is_ok() {
                fs::write(group.join("cgroup.procs"), process.id().to_string()).ok();
                groups.push(group);
            }
        }
        assert!(!groups.is_empty());
        // Before, the process is nsenter yet, and would be taken for another one later.
        let command = format!("/proc/{}/cmdline", process.id());
        until("the bystander sleeps", || {
            fs::read(&command).is_ok_and(|line| line.starts_with(b"sleep"))
        });
        bench.take_as_given();
        Bystander { process, groups }
    }

    /// Its process lives, in its groups; the rest is compared by the bench.
    fn assert_untouched(&mut self) {
        assert!(
            self.process.try_wait().unwrap().is_none(),
            "the bystander was ended"
        );
        assert!(self.groups.iter().all(|g| g.exists()));
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        for group in &self.groups {
            fs::remove_dir(group).ok();
        }
    }
}

fn start(bench: &Bench, args: &[&str]) -> Child {
    let mut command = bench.command(args);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn timed(bench: &Bench, args: &[&str]) -> Duration {
    let begin = Instant::now();
    bench.latlab(args).good();
    begin.elapsed()
}

/// The killed commands, in turns.
const VERBS: [&str; 7] = [
    "deploy", "run", "destroy", "tune", "revert", "overlay", "report",
];

/// The preparations of verbs that deploy no lab themselves, and their duration.
struct Others {
    overlay: String,
    /// A finished run.
    run: String,
    settings: Vec<String>,
    times: BTreeMap<&'static str, Duration>,
}

impl Others {
    fn new(bench: &Bench, runs: &str) -> Others {
        let complete = |run: &PathBuf| {
            fs::read_to_string(run.join("manifest.json")).is_ok_and(|m| m.contains("\"complete\""))
        };
        let mut all = fs::read_dir(runs).unwrap().flatten().map(|e| e.path());
        let run = all.find(complete).unwrap().display().to_string();
        let mut others = Others {
            overlay: overlay(bench),
            run,
            settings: settings(),
            times: BTreeMap::new(),
        };
        bench.latlab(&["deploy", &others.overlay]).good();
        bench.latlab(&["destroy", "--all", "-y"]).good();
        for verb in ["tune", "revert", "overlay", "report"] {
            let (mut child, _) = others.start(bench, verb);
            let begin = Instant::now();
            let status = child.wait().unwrap();
            assert!(
                status.code().is_some_and(|code| code <= 1),
                "{verb}: {status}"
            );
            others.times.insert(verb, begin.elapsed());
            bench.latlab(&["destroy", "--all", "-y"]).good();
            bench.latlab(&["tune", "revert"]).good();
        }
        println!("{:.1?}", others.times);
        others
    }

    fn tune() -> Vec<String> {
        let mut words = vec!["tune".to_string(), "apply".into()];
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        if cpus > 1 {
            let knob = "cpuset=isolated".into();
            words.extend([
                "--cpus".into(),
                (cpus - 1).to_string(),
                "--knob".into(),
                knob,
            ]);
        }
        let knobs = TUNED
            .iter()
            .flat_map(|knob| ["--knob".to_string(), (*knob).into()]);
        words.extend(knobs);
        words
    }

    /// Begins a verb, and says within which time it usually ends.
    fn start(&self, bench: &Bench, verb: &str) -> (Child, Duration) {
        let most = self.times.get(verb).copied().unwrap_or_default();
        let tune = Others::tune();
        let tune: Vec<&str> = tune.iter().map(String::as_str).collect();
        let child = match verb {
            "tune" => start(bench, &tune),
            "revert" => {
                // A knob that this machine refuses is 1.
                assert!(bench.latlab(&tune).code <= 1);
                start(bench, &["tune", "revert"])
            }
            "report" => start(bench, &["report", &self.run]),
            _ => {
                let lab = bench.name("overlay");
                bench.latlab(&["deploy", &self.overlay]).good();
                self.reconfigure(bench, &lab)
            }
        };
        (child, most)
    }

    /// Fifty changes of the daemon's configuration, one after the other.
    fn reconfigure(&self, bench: &Bench, lab: &str) -> Child {
        let once = |n: u32| {
            format!(
                "begin\nadd network spare vni {}\ncommit\ndelete network spare\n",
                4000 + n
            )
        };
        let lines = bench.root().join("files/changes");
        fs::write(&lines, (0..50).map(once).collect::<String>()).unwrap();
        let mut command = bench.command(&["overlay", lab]);
        let command = command.stdin(fs::File::open(lines).unwrap());
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Repeats the interrupted command.
    fn repeat(&self, bench: &Bench, verb: &str, (file, name): (&str, &str)) {
        match verb {
            "tune" | "revert" => {
                let (mut child, _) = self.start(bench, verb);
                assert!(child.wait().unwrap().code().is_some_and(|code| code <= 1));
            }
            "report" => drop(bench.latlab(&["report", &self.run]).good()),
            "destroy" => drop(bench.latlab(&["destroy", name]).good()),
            "deploy" => {
                bench.latlab(&["destroy", name]).good();
                bench.latlab(&["deploy", file]).good();
            }
            "overlay" => {
                let lab = bench.name("overlay");
                // The line that was under way may be answered later than this one.
                until("the daemon is reconfigured", || {
                    bench.latlab(&["overlay", &lab, "delete", "network", "spare"]);
                    self.reconfigure(bench, &lab).wait().unwrap().success()
                });
                bench
                    .exec(&lab, "a", &["ping", "-c", "1", "-W", "5", "198.18.0.2"])
                    .good();
            }
            _ => {}
        }
    }

    fn assert_whole(&self, bench: &Bench, verb: &str) {
        assert_eq!(settings(), self.settings, "{verb}");
        assert!(!bench.root().join("state/tuning.json").exists(), "{verb}");
        if verb == "report" {
            let read = |file: &str| fs::read_to_string(format!("{}/{file}", self.run)).unwrap();
            serde_json::from_str::<Value>(&read("summary.json")).unwrap();
            assert!(read("report.html").ends_with("</html>\n"));
        }
    }
}

/// Files in the cache whose writing was cut off. The next writer replaces the one of a fixed name.
fn cut_off_in_cache() -> BTreeSet<String> {
    let entries = fs::read_dir(Dirs::from_env().cache()).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".tmp")).collect()
}

#[test]
fn a_kill_at_any_moment_leaves_nothing() {
    enter("a_kill_at_any_moment_leaves_nothing", |bench| {
        let mut chance = Chance::new();
        let mut bystander = Bystander::new(bench);
        let runs = bench.root().join("runs").display().to_string();
        // How long each takes undisturbed, to know among which moments to choose.
        let mut usual = Vec::new();
        for kind in kinds() {
            let file = bench.file(kind, &(lab(kind) + LENT));
            let study = study(bench, kind);
            // The first of each reads much from the disk.
            bench.latlab(&["deploy", &file]).good();
            bench.latlab(&["destroy", &bench.name(kind)]).good();
            let deploy = timed(bench, &["deploy", &file]);
            let destroy = timed(bench, &["destroy", &bench.name(kind)]);
            let run = timed(bench, &["run", &study, "--runs", &runs]);
            println!("{kind}: deploy {deploy:.1?}, destroy {destroy:.1?}, run {run:.1?}");
            bench.assert_clean();
            usual.push((*kind, file, study, [deploy, run, destroy]));
        }
        let others = Others::new(bench, &runs);
        let cut_off = cut_off_in_cache();
        let given = std::env::var("LATLAB_TEST_KILLS");
        let kills: usize = match given.ok().and_then(|n| n.parse().ok()) {
            Some(given) => given,
            None if whole() => 60,
            None => 14,
        };
        let (mut interrupted, mut by_verb) = (0, BTreeMap::<&str, usize>::new());
        let mut round = 0;
        while interrupted < kills {
            assert!(
                round < 4 * kills,
                "{interrupted} of {round} were still running: too few"
            );
            let which = round % usual.len();
            let (kind, file, study, times) = &usual[which];
            let verb = VERBS[round % VERBS.len()];
            let name = bench.name(kind);
            let (child, most) = match verb {
                "deploy" => (start(bench, &["deploy", file]), times[0]),
                "run" => (start(bench, &["run", study, "--runs", &runs]), times[1]),
                "destroy" => {
                    bench.latlab(&["deploy", file]).good();
                    (start(bench, &["destroy", &name]), times[2])
                }
                other => others.start(bench, other),
            };
            let moment = chance.up_to(most);
            let killed = kill_after(child, moment);
            interrupted += usize::from(killed);
            *by_verb.entry(verb).or_default() += usize::from(killed);
            // Sometimes the cleaning up is killed too.
            let again = chance.next() % 3 == 0;
            if again {
                let cleaning: &[&str] = match verb {
                    "tune" | "revert" => &["tune", "revert"],
                    _ => &["destroy", "--all", "-y"],
                };
                let killed = kill_after(start(bench, cleaning), chance.up_to(times[2]));
                *by_verb.entry("cleaning up").or_default() += usize::from(killed);
            }
            println!("{round:3} {kind} {verb} killed after {moment:.1?}: {killed}, again: {again}");
            // The interrupted command can be repeated, sometimes before any clean-up.
            if !again && chance.next() % 2 == 0 {
                others.repeat(bench, verb, (file, &name));
            }
            bench.latlab(&["destroy", "--all", "-y"]).good();
            bench.latlab(&["tune", "revert"]).good();
            bench.assert_clean();
            bystander.assert_untouched();
            others.assert_whole(bench, verb);
            round += 1;
        }
        for (kind, file, _, _) in &usual {
            bench.latlab(&["deploy", file]).good();
            bench.exec(&bench.name(kind), "a", &["true"]).good();
            bench.latlab(&["destroy", "--all", "-y"]).good();
        }
        bench.assert_clean();
        bystander.assert_untouched();
        // Tests beside this one may be about to write.
        until("files in the cache are whole", || {
            cut_off_in_cache().is_subset(&cut_off)
        });
        // Kills of runs leave directories that say that they are not whole, and can be read.
        for run in fs::read_dir(bench.root().join("runs")).unwrap().flatten() {
            let report = bench.latlab(&["report", run.path().to_str().unwrap(), "--print-only"]);
            assert!(
                report.code == 0 || report.err.contains("hint: "),
                "{report:#?}"
            );
        }
        drop(bystander);
        tool(&["nft", "delete", "table", "ip", "theirs"]);
        tool(&["ip", "link", "del", "by0"]);
        tool(&["ip", "link", "del", "nic0"]);
        tool(&[
            "umount",
            bench.root().join("bystander/mount").to_str().unwrap(),
        ]);
        tool(&[
            "umount",
            bench.root().join("bystander/netns").to_str().unwrap(),
        ]);
        bench.take_as_given();
        println!(
            "{interrupted} kills of commands that still ran, of {round} tried; nothing is left: {by_verb:?}"
        );
    });
}

/// Removal waits for a deployment, or the deployment finds its name gone; never half of each.
#[test]
fn removing_and_using_beside_deploying_leaves_nothing_behind() {
    enter(
        "removing_and_using_beside_deploying_leaves_nothing_behind",
        |bench| {
            let mut chance = Chance::new();
            let rounds = if whole() { 30 } else { 6 };
            let file = bench.file("both", &lab("container"));
            let name = bench.name("both");
            let usual = timed(bench, &["deploy", &file]);
            for round in 0..rounds {
                // A lab in use, by commands that begin at any time.
                let users: Vec<Child> = (0..4)
                    .map(|i| {
                        start(
                            bench,
                            &[
                                "exec",
                                &name,
                                ["a", "b", "c", "h"][i],
                                "--",
                                "sleep",
                                "1000",
                            ],
                        )
                    })
                    .collect();
                let other = start(bench, &["destroy", "--all", "-y"]);
                bench.latlab(&["destroy", &name]).good();
                assert!(finished(other).code == 0);
                users.into_iter().for_each(|user| drop(finished(user)));
                bench.assert_clean();

                let moment = chance.up_to(usual);
                println!("{round}: destroy {moment:.1?} after deploy");
                let deploy = start(bench, &["deploy", &file]);
                std::thread::sleep(moment);
                bench.latlab(&["destroy", "--all", "-y"]).good();
                let deployed = finished(deploy);
                // Either way one of them came last, wholly.
                if bench.labs().join(&name).exists() {
                    assert_eq!(deployed.code, 0, "{deployed:#?}");
                    bench.exec(&name, "a", &["true"]).good();
                } else {
                    bench.assert_clean();
                    bench.latlab(&["deploy", &file]).good();
                }
            }
        },
    );
}

/// Ctrl-C takes a deployment down at once and says so.
#[test]
fn an_interrupted_deployment_removes_itself() {
    enter("an_interrupted_deployment_removes_itself", |bench| {
        for kind in kinds() {
            let slow = lab(kind).replace("sleep 0.05\"]", "sleep 1000\"]");
            let file = bench.file(kind, &slow);
            let mut command = bench.command(&["deploy", &file]);
            let child = command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            until("the lab's own command runs", || {
                let nodes = bench.run_dir().join(bench.name(kind)).join("nodes");
                // The first container or guest is on its way.
                fs::read_dir(nodes).is_ok_and(|mut n| n.next().is_some()) && !labelled().is_empty()
            });
            signal(child.id(), "INT");
            let said = finished(child);
            said.refused(130, "was interrupted", "gone again");
            bench.assert_clean();
        }
    });
}

/// After a reboot only the journal is left, and the PIDs of the lab's processes belong to strangers.
#[test]
fn after_a_reboot_only_files_are_left_to_remove() {
    enter("after_a_reboot_only_files_are_left_to_remove", |bench| {
        let mut bystander = Bystander::new(bench);
        let name = bench.deploy("boot", &lab("container"));
        let dir = bench.labs().join(&name);
        let copy = bench.root().join("copy");
        tool(&["cp", "-r", dir.to_str().unwrap(), copy.to_str().unwrap()]);
        bench.latlab(&["destroy", &name]).good();
        tool(&["mv", copy.to_str().unwrap(), dir.to_str().unwrap()]);
        let journal = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
        let state = fs::read_to_string(dir.join("state.json")).unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let other = "00000000-1111-2222-3333-444444444444";
        fs::write(
            dir.join("journal.jsonl"),
            journal.replace(boot.trim(), other),
        )
        .unwrap();
        let mut state: Value = serde_json::from_str(&state.replace(boot.trim(), other)).unwrap();
        let stat = fs::read_to_string(format!("/proc/{}/stat", bystander.process.id())).unwrap();
        let start: u64 = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .nth(19)
            .unwrap()
            .parse()
            .unwrap();
        for node in state["nodes"].as_array_mut().unwrap() {
            node["pid"] = bystander.process.id().into();
            node["start_time"] = start.into();
        }
        fs::write(dir.join("state.json"), state.to_string()).unwrap();
        // The files that a persistent file system would still have below the run directory.
        let left = bench.run_dir().join(&name).join("nodes/c");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("port0.lock"), "").unwrap();

        assert!(
            bench
                .latlab(&["inspect", &name])
                .good()
                .out
                .contains("gone")
        );
        bench.exec(&name, "c", &["true"]).refused(
            2,
            "gone since the host was booted",
            "deploy it again",
        );
        let again = bench.latlab(&["deploy", &bench.file("boot", &lab("container"))]);
        again.refused(2, "already deployed", "latlab destroy");
        bench.latlab(&["destroy", "--all", "-y"]).good();
        bench.assert_clean();
        bystander.assert_untouched();
        bench.deploy("boot", &lab("container"));
        bench.latlab(&["destroy", &name]).good();
        bench.assert_clean();
        drop(bystander);
        bench.take_as_given();
    });
}

/// A crash between any two steps of claiming a name, and journals that are not whole.
#[test]
fn half_written_journals_are_recovered_or_reported() {
    enter("half_written_journals_are_recovered_or_reported", |bench| {
        let good = bench.deploy("good", &lab("native"));
        let journal = fs::read_to_string(bench.labs().join(&good).join("journal.jsonl")).unwrap();
        for (name, file) in [
            ("claimed", None),
            ("writing", Some("journal.new")),
            ("early", Some("state.json")),
        ] {
            let dir = bench.labs().join(name);
            fs::create_dir(&dir).unwrap();
            if let Some(file) = file {
                fs::write(dir.join(file), &journal[..journal.len() / 2]).unwrap();
            }
            bench.latlab(&["inspect", "-f", "json"]).good();
            assert_eq!(
                bench.latlab(&["destroy", name]).good().out,
                format!("removed lab `{name}`\n")
            );
            assert!(!dir.exists());
        }
        let dir = bench.labs().join("damaged");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("journal.jsonl"), &journal[..journal.len() - 20]).unwrap();
        bench
            .latlab(&["destroy", "damaged"])
            .refused(2, "is damaged at line", "by hand");
        // One failure does not prevent the others.
        let all = bench.latlab(&["destroy", "--all", "-y"]);
        all.refused(2, "is damaged at line", "by hand");
        assert!(
            all.out.contains(&format!("removed lab `{good}`")),
            "{all:#?}"
        );
        fs::remove_dir_all(dir).unwrap();
        // A journal that names what is not latlab's removes nothing.
        let evil = bench.labs().join("evil");
        fs::create_dir(&evil).unwrap();
        let precious = bench.root().join("precious");
        fs::create_dir(&precious).unwrap();
        let header = journal.lines().next().unwrap();
        let undo = format!(
            "{{\"undo\":\"directory\",\"path\":\"{}\"}}",
            precious.display()
        );
        fs::write(evil.join("journal.jsonl"), format!("{header}\n{undo}\n")).unwrap();
        bench
            .latlab(&["destroy", "evil"])
            .refused(2, "is not a directory of latlab", "again");
        assert!(precious.exists());
        fs::remove_dir_all(evil).unwrap();
    });
}
