//! VMs that move between the hosts of a lab while they run. Only with `LATLAB_TEST_GUEST=1`.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use common::{Bench, TIMEOUT, enter, finished, guests, until, world};
use latlab_model::results::{ActionKind, TrialOutcome};
use latlab_samples::RunDir;
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open,
};

/// Three hosts, and a VM that belongs to one of them.
const LAB: &str = "name: NAME\ntopology:\n  nodes: {n: {kind: native}, c: {kind: container}, \
    v: {kind: vm, acceleration: tcg, memory: 256MiB, root: disk, image: ROOT, exec: [\"sh /check > /tmp/log 2>&1 &\"]}, w: {kind: vm, memory: 256MiB, start: clone}}\n  links:\n    \
    - {name: lan, type: overlay, carrier: vxlan, endpoints: [\"n:eth0\", \"c:eth0\", \"v:eth0\"]}\n    \
    - {name: up, type: bridge, endpoints: [\"n:eth1\", \"v:eth1\", \"w:eth1\"]}\n";

/// Writes a few megabytes of memory again and again, and compares two copies: a page that was lost shows.
const CHECKER: &str = "i=0\nwhile :; do\n  i=$((i+1))\n  head -c 4000000 /dev/urandom > /tmp/one\n  cp /tmp/one /tmp/two\n  \
    sleep 0.1\n  cmp /tmp/one /tmp/two || echo lost at $i\n  echo $i\ndone\n";

/// Whether the QEMU here keeps track of what an emulated guest writes.
fn can_move() -> bool {
    let said = Command::new("qemu-system-x86_64").arg("--version").output();
    let said = String::from_utf8(said.unwrap().stdout).unwrap();
    let version = said.split_whitespace().nth(3).unwrap();
    let major: u32 = version.split('.').next().unwrap().parse().unwrap();
    major >= 9
}

#[test]
fn a_guest_moves_while_it_runs() {
    if !guests() {
        return;
    }
    enter("a_guest_moves_while_it_runs", |bench| {
        let root = bench.small_root();
        fs::write(root.join("check"), CHECKER).unwrap();
        let lab = bench.deploy("moves", &LAB.replace("ROOT", root.to_str().unwrap()));
        refusals(bench, &lab);
        if !can_move() {
            let refused = bench.latlab(&["migrate", &lab, "v", "--to", "n"]);
            refused.refused(2, "by a QEMU before version 9", "newer QEMU");
            bench.exec(&lab, "n", &["ping", "-c1", "-W20", "v"]).good();
            bench.latlab(&["destroy", &lab]).good();
            return;
        }
        let checked = || {
            let said = bench.exec(&lab, "v", &["tail", "-n1", "/tmp/log"]).good();
            said.out.trim().parse::<u64>().unwrap_or_default()
        };
        until("the checker runs", || checked() > 1);
        // Each is answered once.
        let mut ping = bench.command(&["exec", &lab, "n", "--", "ping", "-i0.02", "-c700", "v"]);
        let ping = ping.stdout(Stdio::piped()).spawn().unwrap();
        for to in ["n", "c", "v", "c"] {
            let told = bench.latlab(&["migrate", &lab, "v", "--to", to]).good();
            assert!(told.out.contains("moved node `v`"), "{}", told.out);
            println!("{}", told.out);
            bench.exec(&lab, "c", &["ping", "-c1", "-W20", "v"]).good();
            // The bridge's tap moved with it, too.
            let over_tap = ["ping", "-c1", "-W20", "-I", "eth1", "198.18.2.2"];
            bench.exec(&lab, "n", &over_tap).good();
        }
        let said = ping.wait_with_output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        println!(
            "{}",
            said.lines().rev().take(4).collect::<Vec<_>>().join("\n")
        );
        let is_whole = said.contains(" 700 received, 0% packet loss");
        assert!(is_whole && !said.contains("duplicates"), "{said}");
        let again = bench.latlab(&["migrate", &lab, "v", "--to", "c"]);
        again.refused(2, "it is on the hosts of that node already", "");
        let before = checked();
        until("the checker goes on", || checked() > before + 1);
        let log = bench.exec(&lab, "v", &["cat", "/tmp/log"]).good().out;
        assert!(!log.contains("lost"), "{log}");
        // The guest can be saved where it is now, and goes on there.
        let dir = bench.root().join("snapshot");
        let dir = dir.to_str().unwrap();
        bench.latlab(&["snapshot", &lab, "v", "--to", dir]).good();
        bench.latlab(&["restore", &lab, "v", "--from", dir]).good();
        bench.exec(&lab, "n", &["ping", "-c1", "-W20", "v"]).good();
        bench.latlab(&["destroy", &lab]).good();
        measured(bench);
        bench.assert_clean();
    });
}

/// Two hosts, and a VM that writes to all of a large memory again and again.
const BUSY: &str = "name: NAME\ntopology:\n  nodes: {n: {kind: native}, \
    v: {kind: vm, acceleration: tcg, memory: 256MiB, root: disk, image: ROOT, start: clone}}\n  links:\n    \
    - {name: lan, type: overlay, carrier: vxlan, endpoints: [\"n:eth0\", \"v:eth0\"]}\n";

/// Writes to each of 16,384 pages, none of which is zero, in less time than it takes to copy them.
const WRITER: &str = r"
#include <string.h>
static volatile unsigned char pages[16384][4096];
int main(void)
{
    memset((void *)pages, 85, sizeof pages);
    for (;;)
        for (int i = 0; i < 16384; i++)
            pages[i][0]++;
}
";

#[test]
fn a_guest_moves_that_writes_faster_than_it_is_copied() {
    if !guests() || !can_move() {
        return;
    }
    let name = "a_guest_moves_that_writes_faster_than_it_is_copied";
    enter(name, |bench| {
        let root = bench.small_root();
        let source = bench.root().join("writer.c");
        fs::write(&source, WRITER).unwrap();
        let (source, program) = (source.to_str().unwrap(), root.join("bin/writer"));
        let program = program.to_str().unwrap();
        common::tool(&["musl-gcc", "-O2", "-static", "-o", program, source]);
        let lab = bench.deploy("busy", &BUSY.replace("ROOT", root.to_str().unwrap()));
        let write = ["sh", "-c", "writer > /dev/null 2>&1 &"];
        bench.exec(&lab, "v", &write).good();
        let told = bench.latlab(&["migrate", &lab, "v", "--to", "n"]).good();
        println!("{}", told.out);
        assert!(told.out.contains("stopped for the rest"), "{}", told.out);
        bench.exec(&lab, "v", &["ping", "-c1", "-W20", "n"]).good();
        bench.latlab(&["destroy", &lab]).good();
        bench.assert_clean();
    });
}

const STUDY: &str = "name: moved\nlab:\n  name: NAME\n  topology:\n    nodes: {n: {kind: native}, \
    v: {kind: vm, acceleration: tcg, memory: 256MiB, root: disk, image: empty}, o: {kind: native}}\n    \
    links: [{type: overlay, carrier: udp, endpoints: [\"n:eth0\", \"v:eth0\", \"o:eth0\"]}]\nmeasurements:\n  \
    - {name: pings, probe: rr, protocol: icmp, rate: 200, from: n, to: v, duration: 4s, actions: MOVE}\n  \
    - {name: tcp, probe: rr, protocol: tcp, from: n, to: v, duration: 4s, actions: MOVE}\nreplicates: 1\n";
const MOVE: &str = "[{at: 200ms, do: {migrate: v, to: o}}, {at: 2s, do: {snapshot: v}}]";

/// The second measurement finds the guest where it was before the first, or its own move would be refused.
fn measured(bench: &Bench) {
    let study = bench.file("moved", &STUDY.replace("MOVE", MOVE));
    let runs = bench.root().join("runs");
    let runs_word = runs.to_str().unwrap();
    bench.latlab(&["run", &study, "--runs", runs_word]).good();
    let run = fs::read_dir(&runs).unwrap().next().unwrap().unwrap();
    let run = RunDir::open(run.path()).unwrap();
    for number in [1, 2] {
        let trial = run.read_trial(number).unwrap().unwrap();
        assert_eq!(trial.outcome, TrialOutcome::Measured);
        let [moved, saved] = &trial.actions[..] else {
            panic!("{trial:?}");
        };
        assert_eq!(
            (moved.act, saved.act),
            (ActionKind::Migrate, ActionKind::Snapshot)
        );
        for action in [moved, saved] {
            let stood = (action.stopped_ns.unwrap(), action.running_ns.unwrap());
            assert!(action.asked_ns < stood.0 && stood.0 < stood.1, "{action:?}");
            assert!(stood.1 <= action.done_ns, "{action:?}");
        }
        assert!(moved.copied.unwrap().bytes > 1 << 20, "{moved:?}");
        assert!(moved.done_ns <= saved.asked_ns);
    }
}

fn refusals(bench: &Bench, lab: &str) {
    let migrate = |node: &str, to: &str| bench.latlab(&["migrate", lab, node, "--to", to]);
    migrate("v", "nowhere").refused(2, "has no node `nowhere`", "its nodes");
    migrate("n", "c").refused(2, "only VMs and containers move", "");
    migrate("w", "w").refused(2, "it has shares or cards of the host", "root: disk");
    migrate("v", "w").refused(2, "is not on link `lan`", "");
    bench.latlab(&["pause", lab, "v"]).good();
    migrate("v", "n").refused(2, "is paused", "resume");
    bench.latlab(&["resume", lab, "v"]).good();
}

/// Two hosts, and a VM that goes on from a template where that is quicker than a boot.
const KILLED: &str = "name: NAME\ntopology:\n  nodes: {n: {kind: native}, \
    v: {kind: vm, acceleration: tcg, memory: 256MiB, root: disk, image: ROOT, start: clone}}\n  links:\n    \
    - {name: lan, type: overlay, carrier: vxlan, endpoints: [\"n:eth0\", \"v:eth0\"]}\n";

/// The part of a move that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Latlab,
    Source,
    Target,
    OldDaemon,
    NewDaemon,
    /// The way on which the guest's state goes.
    Channel,
}

const VICTIMS: [Victim; 6] = [
    Victim::Latlab,
    Victim::Source,
    Victim::Target,
    Victim::OldDaemon,
    Victim::NewDaemon,
    Victim::Channel,
];

/// The number under which a target has the way to its source (`host/nodes/vm/qemu.rs`).
const STATE_FD: i32 = 20;

/// Processes whose command line has all of these words in it.
fn processes_with(words: &[&str]) -> Vec<u32> {
    let has_all = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = common::text(&line);
        words.iter().all(|word| line.contains(word))
    };
    world::processes().into_iter().filter(has_all).collect()
}

fn qemus() -> Vec<u32> {
    processes_with(&["qemu-system-x86_64", "latlab-v,"])
}

/// Whether the guest of the QEMU with this control socket runs; none if there is no QEMU.
fn runs(socket: &Path) -> Option<bool> {
    let mut stream = BufReader::new(UnixStream::connect(socket).ok()?);
    stream.get_ref().set_read_timeout(Some(TIMEOUT)).ok()?;
    let mut answer = String::new();
    for command in ["", "qmp_capabilities", "query-status"] {
        if !command.is_empty() {
            let line = format!("{{\"execute\": \"{command}\"}}\n");
            stream.get_mut().write_all(line.as_bytes()).ok()?;
        }
        answer.clear();
        while !answer.contains("\"QMP\"") && !answer.contains("\"return\"") {
            answer.clear();
            if stream.read_line(&mut answer).ok()? == 0 {
                return None;
            }
        }
    }
    Some(answer.contains("\"running\": true"))
}

/// Kills a part of the move, if it is there.
fn kill(victim: Victim, latlab: u32, source: u32) {
    let daemon = |end: &str| processes_with(&["latlab-overlay", end]).pop();
    let target = || qemus().into_iter().find(|pid| *pid != source);
    let pid = match victim {
        Victim::Latlab => Some(latlab),
        Victim::Source => Some(source),
        Victim::Target => target(),
        Victim::OldDaemon => daemon("lan.1"),
        Victim::NewDaemon => daemon("lan.0"),
        Victim::Channel => {
            if let Some(target) = target() {
                cut(target);
            }
            None
        }
    };
    let pid = pid.and_then(|pid| Pid::from_raw(pid as i32));
    if let Some(pid) = pid {
        // One that has ended meanwhile is no fault.
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn cut(target: u32) {
    let pid = Pid::from_raw(target as i32).unwrap();
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    if let Ok(socket) = pidfd_getfd(process, STATE_FD, PidfdGetfdFlags::empty()) {
        let _ = UnixStream::from(socket).shutdown(std::net::Shutdown::Both);
    }
}

/// The guest runs at one place at most, whatever is killed in the middle of a move: at none only where its QEMU is gone.
/// After the end of the latlab that moved it, `resume` lets it go on. The rest goes with the lab.
#[test]
fn a_guest_moves_or_stays_whatever_is_killed() {
    if !guests() || !can_move() {
        return;
    }
    enter("a_guest_moves_or_stays_whatever_is_killed", |bench| {
        let rounds = std::env::var("LATLAB_TEST_ROUNDS").map_or(1, |text| text.parse().unwrap());
        let root = bench.small_root();
        let lab = KILLED.replace("ROOT", root.to_str().unwrap());
        for victim in VICTIMS.iter().cycle().take(rounds * VICTIMS.len()) {
            let name = bench.deploy("killed", &lab);
            killed(bench, &name, *victim);
            bench.latlab(&["destroy", &name]).good();
            bench.assert_clean();
        }
    });
}

fn killed(bench: &Bench, lab: &str, victim: Victim) {
    let [source] = qemus()[..] else {
        panic!("one QEMU")
    };
    let began = Instant::now();
    let mut moving = bench.command(&["migrate", lab, "v", "--to", "n"]);
    let moving = moving.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut moving = moving.spawn().unwrap();
    until("the target is there", || {
        qemus().len() > 1 || moving.try_wait().unwrap().is_some()
    });
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let delay = Duration::from_millis(u64::from(now.subsec_nanos()) / 1000 % 700);
    std::thread::sleep(delay);
    kill(victim, moving.id(), source);
    let said = finished(moving);
    println!(
        "{victim:?} after {delay:?}, {:?} in all: {said:?}",
        began.elapsed()
    );
    let node = bench.run_dir().join(lab).join("nodes/v");
    let places = ["qmp.sock", "moved/qmp.sock"].map(|name| runs(&node.join(name)));
    let running = places.iter().filter(|runs| **runs == Some(true)).count();
    assert!(running <= 1, "it runs twice");
    match victim {
        Victim::Latlab => {
            let told = bench.latlab(&["resume", lab, "v"]).good();
            println!("{}", told.out.trim());
        }
        // A QEMU that was killed after the move, or before it, was the guest's.
        Victim::Source if said.code != 0 => return,
        Victim::Target if said.code == 0 && running == 0 => return,
        _ => assert_eq!(running, 1, "{places:?}: {said:?}"),
    }
    assert_eq!(qemus().len(), 1, "the other QEMU is gone");
    let up = bench.exec(lab, "v", &["echo", "up"]).good();
    assert_eq!(up.out.trim(), "up");
}
