//! Foreign processes that come, go and change their cgroups at will while the machine is tuned, labs are deployed and
//! trials run, as those of a service manager do. None of these may fail because of it.
//!
//! `LATLAB_TEST_WHOLE=1` makes 200 rounds of it.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use common::{Bench, enter, namespaces, whole};

const LAB: &str = "name: NAME\ntuning: isolated\ntopology:\n  nodes: {a: {kind: native}, b: {kind: native}}\n  \
                   links: [{endpoints: [\"a:eth0\", \"b:eth0\"]}]\n";

const STUDY: &str = "name: movers\nlab:\n  name: NAME\n  tuning: isolated\n  topology:\n    \
                     nodes: {a: {kind: native}, b: {kind: native}}\n    \
                     links: [{endpoints: [\"a:eth0\", \"b:eth0\"]}]\n\
                     measurements: [{name: rr, probe: rr, protocol: udp, from: a, to: b, duration: 500ms}]\n\
                     replicates: 1\n";

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

/// Others, until they are dropped.
struct Movers {
    stop: Arc<AtomicBool>,
    moves: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    sleepers: Vec<Child>,
    groups: Vec<PathBuf>,
}

impl Movers {
    fn begin(root: &Path, members: &'static str) -> Movers {
        let made = |name: &str| {
            let group = root.join(format!("movers-{name}-{}", namespaces::id()));
            fs::create_dir(&group).unwrap();
            widen(root, &group);
            group
        };
        let groups = vec![made("a"), made("b")];
        let sleep = || Command::new("sleep").arg("100000").spawn().unwrap();
        let sleepers: Vec<Child> = (0..4).map(|_| sleep()).collect();
        let mut movers = Movers {
            stop: Arc::default(),
            moves: Arc::default(),
            threads: Vec::new(),
            sleepers,
            groups,
        };
        // From group to group, the root among them: as one that enters a session does.
        let ids: Vec<String> = movers.sleepers.iter().map(|s| s.id().to_string()).collect();
        let places = [
            root.to_path_buf(),
            movers.groups[0].clone(),
            movers.groups[1].clone(),
        ];
        movers.run(move |round| {
            for (nth, id) in ids.iter().enumerate() {
                let place = &places[(round as usize + nth) % places.len()];
                fs::write(place.join(members), id).ok();
            }
            ids.len() as u64
        });
        // Come and go.
        movers.run(|_| {
            let child = Command::new("true").stdin(Stdio::null()).spawn();
            child.and_then(|mut c| c.wait()).ok();
            1
        });
        // Cgroups come and go too, and ask for all CPUs.
        let (above, passing) = (
            root.to_path_buf(),
            root.join(format!("movers-c-{}", namespaces::id())),
        );
        movers.groups.push(passing.clone());
        movers.run(move |_| {
            fs::create_dir(&passing).ok();
            widen(&above, &passing);
            std::thread::sleep(Duration::from_micros(300));
            fs::remove_dir(&passing).ok();
            std::thread::sleep(Duration::from_micros(700));
            1
        });
        movers
    }

    fn run(&mut self, mut once: impl FnMut(u64) -> u64 + Send + 'static) {
        let (stop, moves) = (Arc::clone(&self.stop), Arc::clone(&self.moves));
        self.threads.push(std::thread::spawn(move || {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                moves.fetch_add(once(round), Ordering::Relaxed);
                round += 1;
            }
        }));
    }
}

impl Drop for Movers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
        for sleeper in &mut self.sleepers {
            sleeper.kill().ok();
            sleeper.wait().ok();
        }
        for group in &self.groups {
            fs::remove_dir(group).ok();
        }
    }
}

/// All CPUs of the root cgroup, where the kernel grants them.
fn widen(root: &Path, group: &Path) {
    for file in ["cpuset.mems", "cpuset.cpus"] {
        if let Ok(all) = fs::read_to_string(root.join(file)) {
            fs::write(group.join(file), all.trim()).ok();
        }
    }
}

fn left(root: &Path) -> Vec<&'static str> {
    let ours = ["latlab.isolated", "latlab.housekeeping"];
    ours.into_iter().filter(|g| root.join(g).exists()).collect()
}

fn one_round(bench: &Bench, round: u64, cpu: &str) {
    let mode = ["isolated", "root"][round as usize % 2];
    let knob = format!("cpuset={mode}");
    let words = [
        "tune",
        "apply",
        "--cpus",
        cpu,
        "--knob",
        &knob,
        "--knob",
        "swappiness=1",
    ];
    bench.latlab(&words).good();
    let verified = bench.latlab(&["tune", "verify"]).good();
    assert!(!verified.out.contains("swappiness"), "{verified:#?}");
    bench.latlab(&["tune", "revert"]).good();
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
        let rounds = if whole() { 200 } else { 12 };
        for round in 0..rounds {
            one_round(bench, round, &cpu);
            assert_eq!(left(&root), [""; 0], "round {round}");
            assert!(!bench.root().join("state/tuning.json").exists());
            if round % 10 == 0 {
                let lab = bench.deploy("moved", LAB);
                bench.latlab(&["destroy", &lab]).good();
                assert_eq!(left(&root), [""; 0], "round {round}, with a lab");
            }
        }
        let study = bench.file("study", STUDY);
        let runs = bench.root().join("runs");
        let words = ["run", &study, "--runs", runs.to_str().unwrap()];
        bench.latlab(&words).good();
        let run = fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
        let trial = fs::read_to_string(run.join("trials/0001/trial.json")).unwrap();
        let trial: serde_json::Value = serde_json::from_str(&trial).unwrap();
        let checks = trial["checks"].as_array().unwrap();
        let tuning = checks.iter().find(|c| c["name"] == "tuning").unwrap();
        assert_eq!(tuning["passed"], true, "{trial:#}");
        let moves = movers.moves.load(Ordering::Relaxed);
        println!("{rounds} rounds beside {moves} moves");
        assert!(moves > rounds * 10, "nothing moved");
        drop(movers);
        common::world::reap();
    });
}

/// A service manager that starts a service anew whenever it ends, in a group of its own, on version 2.
const MANAGER: &str = r#"
set -e
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /tmp/units
for n in 1 2 3; do
    printf '[Unit]\nDefaultDependencies=no\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sh -c "echo >> /tmp/starts; sleep 0.0%d"\nRestart=always\nRestartSec=0\nSlice=movers-%d.slice\nAllowedCPUs=0-1\n' $n $n > /tmp/units/mover$n.service
done
printf '[Unit]\nDefaultDependencies=no\nWants=mover1.service mover2.service mover3.service\n' > /tmp/units/default.target
setsid unshare --pid --mount --fork --mount-proc env -i PATH="$PATH" container=lxc SYSTEMD_UNIT_PATH=/tmp/units \
    /lib/systemd/systemd --system --log-target=console < /dev/null > /tmp/systemd.log 2>&1 &
for second in $(seq 60); do
    [ ! -d /sys/fs/cgroup/movers.slice ] || exit 0
    sleep 1
done
cat /tmp/systemd.log
echo it manages nothing
exit 3
"#;

/// A few rounds beside it: each command in a guest has its timeout.
const ROUNDS: u64 = 10;
const TUNINGS: &str = r#"
set -e
quiet() {
    LATLAB_STATE_DIR=/tmp/state /latlab/latlab tune "$@" > /tmp/out 2>&1 && return
    echo "round $round: tune $*"
    cat /tmp/out
    exit 4
}
: > /tmp/starts
for round in $(seq ROUNDS); do
    quiet apply --cpus 1 --knob cpuset=isolated --knob swappiness=1
    [ "$(cat /sys/fs/cgroup/latlab.isolated/cpuset.cpus)" = 1 ]
    quiet verify
    quiet revert
    [ ! -e /sys/fs/cgroup/latlab.isolated ]
done
starts=$(wc -l < /tmp/starts)
[ "$starts" -gt ROUNDS ] || { echo only $starts services were started; exit 5; }
echo ROUNDS rounds beside $starts services
"#;

#[test]
fn in_a_guest_a_service_manager_does_not_break_tuning() {
    let there = Path::new("/lib/systemd/systemd").exists();
    if !whole() || !there {
        println!("skipped: boots a virtual machine: LATLAB_TEST_WHOLE=1, with systemd installed");
        return;
    }
    enter(
        "in_a_guest_a_service_manager_does_not_break_tuning",
        |bench| {
            let latlab = Path::new(env!("CARGO_BIN_EXE_latlab"));
            let lab = format!(
                "name: NAME\ntopology:\n  nodes: {{g: {{kind: vm, cpus: 2, memory: 512MiB, \
             binds: [\"{}:/latlab:ro\"]}}}}\n",
                latlab.parent().unwrap().display()
            );
            let lab = bench.deploy("manager", &lab);
            let begun = bench.exec(&lab, "g", &["/bin/sh", "-c", MANAGER]);
            assert_eq!(begun.code, 0, "{begun:#?}");
            let given = std::env::var("LATLAB_TEST_ROUNDS").ok();
            let rounds: u64 = given.map_or(2 * ROUNDS, |rounds| rounds.parse().unwrap());
            let script = TUNINGS.replace("ROUNDS", &ROUNDS.to_string());
            for _ in 0..rounds.div_ceil(ROUNDS) {
                let done = bench.exec(&lab, "g", &["/bin/sh", "-c", &script]);
                print!("{}", done.out);
                assert_eq!(done.code, 0, "{done:#?}");
                assert!(done.out.contains("rounds beside"), "{done:#?}");
            }
        },
    );
}
