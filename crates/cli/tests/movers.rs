//! Foreign processes that come, go and change their cgroups, policies and CPUs at will while the machine is tuned, labs
//! are deployed and trials run, as those of a service manager do. None of these may fail because of it.
//!
//! `LATLAB_TEST_WHOLE=1` makes 200 rounds of tuning, a few of them with a deployment and a trial. `LATLAB_TEST_ROUNDS` is
//! the number of these, also beside the service manager of a guest.

mod common;
#[path = "movers/others.rs"]
mod others;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Bench, Said, enter, enter_with_vms, whole};
use others::Movers;

/// Two nodes on a link, of which one is of the kind that a round chooses.
const TOPOLOGY: &str =
    "{nodes: {a: {kind: native}, b: {kind: KIND}}, links: [{endpoints: [\"a:eth0\", \"b:eth0\"]}]}";

const LAB: &str = "name: NAME\ntuning: isolated\ntopology: TOPOLOGY\n";

const STUDY: &str = "name: movers\nlab: {name: NAME, tuning: isolated, topology: TOPOLOGY}\n\
                     measurements: [{name: rr, probe: rr, protocol: udp, from: a, to: b, duration: 100ms, \
                     warmup: 10ms}]\nreplicates: 1\n";

/// The hierarchy whose cgroups decide on CPUs, and the file that a member is written to.
fn hierarchy() -> Option<(PathBuf, &'static str)> {
    let mut all = common::world::hierarchies().into_iter();
    all.find_map(|root| {
        let unified = fs::read_to_string(root.join("cgroup.controllers"));
        if unified.is_ok_and(|c| c.contains("cpuset")) {
            return Some((root, "cgroup.procs"));
        }
        let first = root.join("cpuset.cpus").exists();
        first.then_some((root, "tasks"))
    })
}

/// Rounds with a deployment and a trial.
fn rounds(in_whole: u64, quick: u64) -> u64 {
    match std::env::var("LATLAB_TEST_ROUNDS") {
        Ok(rounds) => rounds.parse().unwrap(),
        Err(_) if whole() => in_whole,
        Err(_) => quick,
    }
}

/// Steps beside the movers, and the failed ones among them: the others are tried all the same.
struct Rounds<'b> {
    bench: &'b Bench,
    /// The hierarchy.
    root: PathBuf,
    /// The CPU to isolate.
    cpu: String,
    now: u64,
    tuned: u64,
    deployed: u64,
    measured: u64,
    reverted: u64,
    problems: Vec<String>,
}

impl Rounds<'_> {
    /// Runs latlab, which must succeed.
    fn try_to(&mut self, words: &[&str]) -> Option<Said> {
        let said = self.bench.latlab(words);
        if said.code == 0 {
            return Some(said);
        }
        self.problem(&format!("{words:?}: {said:#?}"));
        // The next round begins as the first did.
        for words in [&["destroy", "--all", "-y"][..], &["tune", "revert"]] {
            self.bench.latlab(words);
        }
        None
    }

    fn problem(&mut self, what: &str) {
        println!("round {}: {what}", self.now);
        self.problems.push(format!("round {}: {what}", self.now));
    }

    /// Nothing may be left of a round.
    fn gone(&mut self, after: &str) {
        let ours = ["latlab.isolated", "latlab.housekeeping"];
        let left = ours
            .into_iter()
            .filter(|group| self.root.join(group).exists());
        let left: Vec<&str> = left.collect();
        let journal = self.bench.root().join("state/tuning.json").exists();
        if !left.is_empty() || journal {
            self.problem(&format!("left after {after}: {left:?}, journal: {journal}"));
        }
    }

    fn tune(&mut self) {
        let mode = ["isolated", "root"][self.now as usize % 2];
        let (knob, cpu) = (format!("cpuset={mode}"), self.cpu.clone());
        let words = [
            "tune",
            "apply",
            "--cpus",
            &cpu,
            "--knob",
            &knob,
            "--knob",
            "swappiness=1",
        ];
        self.tuned += u64::from(self.try_to(&words).is_some());
        let verified = self.try_to(&["tune", "verify"]);
        // Items of others that moved are listed; the setting of the machine is none of these.
        if verified.is_some_and(|said| said.out.contains("swappiness")) {
            self.problem("swappiness is listed");
        }
        self.revert(&["tune", "revert"]);
    }

    fn revert(&mut self, words: &[&str]) {
        self.reverted += u64::from(self.try_to(words).is_some());
        self.gone(words[0]);
    }

    fn deploy(&mut self, kind: &str) {
        let lab = LAB.replace("TOPOLOGY", TOPOLOGY).replace("KIND", kind);
        let (file, name) = (self.bench.file("lab", &lab), self.bench.name("lab"));
        self.deployed += u64::from(self.try_to(&["deploy", &file]).is_some());
        self.try_to(&["tune", "verify"]);
        self.try_to(&["exec", &name, "b", "--", "true"]);
        self.revert(&["destroy", &name]);
    }

    fn measure(&mut self, kind: &str) {
        let study = STUDY.replace("TOPOLOGY", TOPOLOGY).replace("KIND", kind);
        let study = self.bench.file("study", &study);
        let runs = self.bench.root().join("runs");
        let words = ["run", &study, "--runs", runs.to_str().unwrap()];
        if self.try_to(&words).is_some() {
            let run = fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
            let trial = fs::read_to_string(run.join("trials/0001/trial.json")).unwrap();
            let trial: serde_json::Value = serde_json::from_str(&trial).unwrap();
            let checks = trial["checks"].as_array().unwrap();
            let tuning = checks.iter().find(|check| check["name"] == "tuning");
            match tuning.map(|check| &check["passed"]) {
                Some(serde_json::Value::Bool(true)) => self.measured += 1,
                _ => self.problem(&format!("the tuning is not in force: {trial:#}")),
            }
        }
        fs::remove_dir_all(&runs).ok();
        self.gone("run");
    }
}

#[test]
fn foreign_processes_that_change_cgroups_break_nothing() {
    let name = "foreign_processes_that_change_cgroups_break_nothing";
    enter(name, |bench| {
        let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
        let cpu = online.trim().rsplit([',', '-']).next().unwrap().to_string();
        let Some((root, members)) = hierarchy().filter(|_| cpu != "0") else {
            println!("skipped: needs two processors and control groups with `cpuset`");
            return;
        };
        let movers = Movers::begin(&root, members);
        let labs = rounds(12, 2);
        let tunings = labs.max(if whole() { 60 } else { 12 });
        let mut rounds = Rounds {
            bench,
            root,
            cpu,
            now: 0,
            tuned: 0,
            deployed: 0,
            measured: 0,
            reverted: 0,
            problems: Vec::new(),
        };
        for round in 0..tunings {
            rounds.now = round;
            rounds.tune();
            // Spread evenly.
            if (round + 1) * labs / tunings > round * labs / tunings {
                let kind = ["native", "container"][rounds.deployed as usize % 2];
                rounds.deploy(kind);
                rounds.measure(kind);
                println!("round {round}: {} of {labs} trials", rounds.measured);
            }
        }
        println!(
            "{} tunings, {} deployments, {} trials, {} reverts beside {}",
            rounds.tuned, rounds.deployed, rounds.measured, rounds.reverted, movers
        );
        assert_eq!(rounds.problems, [""; 0]);
        assert_eq!((rounds.deployed, rounds.measured), (labs, labs));
        movers.assert_busy(tunings);
        drop(movers);
        common::world::reap();
    });
}

const MANAGER: &str = include_str!("movers/manager.sh");
const ROUNDS: &str = include_str!("movers/rounds.sh");

/// The guest's rounds.
struct Guest<'b> {
    bench: &'b Bench,
    lab: String,
}

impl Guest<'_> {
    #[track_caller]
    fn sh(&self, script: &str) -> String {
        let said = self.bench.exec(&self.lab, "g", &["/bin/sh", "-c", script]);
        said.good().out
    }

    /// Starts rounds in the background, because one command of a guest has its timeout, and prints what they say.
    fn rounds(&self, count: u64) -> Vec<String> {
        self.sh(&format!(
            "cat > /tmp/rounds.sh <<'END'\n{ROUNDS}END\n\
             setsid sh /tmp/rounds.sh {count} < /dev/null > /tmp/rounds.log 2>&1 &"
        ));
        let mut lines: Vec<String> = Vec::new();
        let mut waited = 0;
        while lines.last().is_none_or(|line| line != "done") {
            let seen = lines.len();
            let new = self.sh(&format!(
                "for second in $(seq 20); do [ $(wc -l < /tmp/rounds.log) -le {seen} ] || break; sleep 1; done
                 tail -n +{} /tmp/rounds.log",
                seen + 1
            ));
            print!("{new}");
            lines.extend(new.lines().map(String::from));
            waited = if lines.len() > seen { 0 } else { waited + 1 };
            assert!(waited < 30, "the rounds do not go on: {}", self.sh("ps ax"));
        }
        lines
    }
}

#[test]
fn in_a_guest_a_service_manager_breaks_nothing() {
    let there = Path::new("/lib/systemd/systemd").exists();
    if !there {
        println!("skipped: systemd is not installed");
        return;
    }
    enter_with_vms("in_a_guest_a_service_manager_breaks_nothing", |bench| {
        let latlab = Path::new(env!("CARGO_BIN_EXE_latlab"));
        let lab = format!(
            "name: NAME\ntopology:\n  nodes: {{g: {{kind: vm, cpus: 2, memory: 512MiB, \
             binds: [\"{}:/latlab:ro\"]}}}}\n",
            latlab.parent().unwrap().display()
        );
        let lab = bench.deploy("manager", &lab);
        let guest = Guest { bench, lab };
        guest.sh(MANAGER);
        let count = rounds(1, 0);
        let lines = guest.rounds(count);
        let problems: Vec<&String> = lines.iter().filter(|l| l.starts_with("problem")).collect();
        assert!(problems.is_empty(), "{problems:#?}");
        let done = format!(
            "{count} tunings, {count} deployments, {count} trials, {} reverts",
            2 * count
        );
        assert!(lines.contains(&done), "not `{done}`");
        let moves = lines.iter().filter_map(|l| l.strip_prefix("moves: "));
        let moves: Vec<(u64, &str)> = moves
            .filter_map(|l| l.split_once(' '))
            .map(|(number, kind)| (number.parse().unwrap(), kind))
            .collect();
        assert_eq!(moves.len(), 7, "{moves:?}");
        assert!(
            moves.iter().all(|(number, _)| 2 * number >= count),
            "{moves:?}"
        );
    });
}
