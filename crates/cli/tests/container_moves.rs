//! Containers that move between the hosts of a lab while they run, by the real binary and a real CRIU.
//!
//! As in `snapshot.rs`, the tests say so where CRIU does not work. `LATLAB_TEST_MOVES` is the number of moves under one
//! connection.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use common::criu::{MoodyCriu, Traffic, enter, fill, is_in_repair, start_echo, state_of};
use common::python::{await_line, start};
use common::{Bench, Said, kill_after, some_of, tool, until, whole, world};
use latlab_host::sys::netns::NetNs;
use latlab_host::sys::process::Process;
use rustix::process::Signal;
use serde_json::Value;

/// Three hosts, a container that belongs to one of them, and others that cannot move.
const LAB: &str = "name: NAME
topology:
  nodes:
    server: {kind: container, runtime: RUNTIME}
    client: {kind: native}
    third: {kind: native}
    near: {kind: container}
    far: {kind: container}
  links:
    - {name: lan, type: overlay, carrier: CARRIER, endpoints: [\"server:eth0\", \"client:eth0\", \"third:eth0\"]}
    - {name: cable, endpoints: [\"near:eth0\", \"client:eth1\"]}
    - {name: one, type: overlay, endpoints: [\"far:eth0\", \"client:eth2\"]}
";

fn lab(bench: &Bench, runtime: &str, carrier: &str) -> String {
    let text = LAB.replace("RUNTIME", runtime).replace("CARRIER", carrier);
    bench.deploy("moves", &text)
}

fn migrate(bench: &Bench, lab: &str, node: &str, to: &str) -> Said {
    bench.latlab(&["migrate", lab, node, "--to", to])
}

/// A tool in the network namespace of the server.
fn in_server(bench: &Bench, lab: &str, argv: &[&str]) -> String {
    let netns = NetNs::open(&bench.run_dir().join(lab).join("netns/server")).unwrap();
    netns.run(|| tool(argv)).unwrap()
}

/// The network of the server as it is seen inside, without counters, ages and the numbers of other ends.
fn network(bench: &Bench, lab: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (family, table) in [
        ("-4", "addr"),
        ("-6", "addr"),
        ("-4", "route"),
        ("-6", "route"),
        ("-4", "rule"),
        ("-0", "link"),
    ] {
        let said = in_server(bench, lab, &["ip", "-o", family, table, "show"]);
        for line in said.lines() {
            let words = line.split_whitespace();
            // The other end is another interface now.
            let words =
                words.filter(|word| !word.starts_with("eth0@") && !word.contains("netnsid"));
            let words: Vec<&str> = words.filter(|word| word.parse::<u64>().is_err()).collect();
            all.insert(words.join(" "));
        }
    }
    all
}

#[test]
fn a_connection_outlives_moves_to_and_fro() {
    enter("a_connection_outlives_moves_to_and_fro", |bench| {
        let moves = std::env::var("LATLAB_TEST_MOVES").map_or(6, |n| n.parse().unwrap());
        let lab = lab(bench, "crun", "vxlan");
        start_echo(bench, &lab);
        let inside = "echo kept >/etc/kept; echo kept >/tmp/kept";
        bench.exec(&lab, "server", &["sh", "-c", inside]).good();
        // Changes that were made inside come along.
        for words in [
            &["ip", "address", "add", "192.0.2.77/32", "dev", "eth0"][..],
            &["ip", "route", "add", "192.0.2.128/25", "via", "198.18.0.2"],
            &["ip", "rule", "add", "from", "192.0.2.77", "table", "77"],
            &[
                "ip",
                "route",
                "add",
                "blackhole",
                "192.0.2.1",
                "table",
                "77",
            ],
            &["sysctl", "-qw", "net.ipv4.ip_local_port_range=40000 40100"],
            &["sysctl", "-qw", "net.ipv4.conf.eth0.arp_announce=2"],
        ] {
            in_server(bench, &lab, words);
        }
        let before = network(bench, &lab);
        let traffic = Traffic::start(bench, &lab);
        traffic.goes_on(50);
        let hosts = ["client", "third", "server", "third", "client", "server"];
        for to in hosts.iter().cycle().take(moves) {
            let (_, before) = state_of(bench, &lab, "server");
            traffic.silence();
            let said = migrate(bench, &lab, "server", to).good();
            traffic.goes_on(50);
            let silence = traffic.silence().as_secs_f64() * 1e3;
            println!("    {silence:.1} ms without an answer; {}", said.out.trim());
            let (state, after) = state_of(bench, &lab, "server");
            assert_eq!(state, "running");
            assert_ne!(before, after, "the state names the new process");
            world::reap();
            assert!(!Path::new(&format!("/proc/{before}")).exists());
        }
        migrate(bench, &lab, "server", "third").good();
        migrate(bench, &lab, "server", "third").refused(2, "on the hosts of that node already", "");
        let now = network(bench, &lab);
        let changed: Vec<_> = now.symmetric_difference(&before).collect();
        assert!(changed.is_empty(), "{changed:#?}");
        let setting = |name: &str| in_server(bench, &lab, &["sysctl", "-n", name]);
        let range = setting("net.ipv4.ip_local_port_range");
        assert_eq!(
            range.split_whitespace().collect::<Vec<_>>(),
            ["40000", "40100"]
        );
        assert_eq!(setting("net.ipv4.conf.eth0.arp_announce").trim(), "2");
        let said = bench.exec(&lab, "server", &["cat", "/etc/kept", "/tmp/kept"]);
        assert_eq!(said.good().out, "kept\nkept\n");
        // Commands and a snapshot find it where it is.
        bench
            .exec(&lab, "server", &["ping", "-c1", "-W20", "client"])
            .good();
        bench
            .exec(&lab, "third", &["ping", "-c1", "-W20", "server"])
            .good();
        let at = bench.root().join("kept");
        let place = at.to_str().unwrap();
        for words in [
            &["snapshot", &lab, "server", "--stop", "--to", place][..],
            &["restore", &lab, "server", "--from", place],
        ] {
            bench.latlab(words).good();
        }
        traffic.goes_on(50);
        migrate(bench, &lab, "server", "server").good();
        traffic.goes_on(50);
        traffic.end();
        bench.latlab(&["destroy", &lab, "-y"]).good();
        bench.assert_clean();
    });
}

#[test]
fn other_carriers_and_runtimes_carry_a_container_too() {
    enter(
        "other_carriers_and_runtimes_carry_a_container_too",
        |bench| {
            let lab = lab(bench, "runc", "udp");
            start_echo(bench, &lab);
            let traffic = Traffic::start(bench, &lab);
            for to in ["third", "client", "server"] {
                migrate(bench, &lab, "server", to).good();
                traffic.goes_on(50);
            }
            traffic.end();
        },
    );
}

#[test]
fn what_cannot_move_is_refused_and_goes_on() {
    enter("what_cannot_move_is_refused_and_goes_on", |bench| {
        let lab = lab(bench, "crun", "vxlan");
        start_echo(bench, &lab);
        let traffic = Traffic::start(bench, &lab);
        let (_, first) = state_of(bench, &lab, "server");
        let refused = |node: &str, to: &str, what: &str, hint: &str| {
            migrate(bench, &lab, node, to).refused(2, what, hint);
        };
        refused("server", "nowhere", "has no node `nowhere`", "its nodes");
        refused("client", "server", "only VMs and containers move", "");
        refused("server", "server", "on the hosts of that node already", "");
        refused("server", "far", "is not on link `lan`", "");
        refused(
            "near",
            "client",
            "none of its links is an overlay with hosts",
            "",
        );
        refused("far", "client", "has one host for all nodes", "");
        bench.latlab(&["pause", &lab, "server"]).good();
        refused("server", "third", "is paused", "resume");
        bench.latlab(&["resume", &lab, "server"]).good();

        let mut command = bench.command(&["exec", &lab, "server", "--", "sleep", "600"]);
        let mut running = command.stdout(Stdio::piped()).spawn().unwrap();
        until("the command runs", || {
            let said = bench.exec(&lab, "server", &["ps", "-eo", "args"]).good();
            said.out.contains("sleep 600")
        });
        refused("server", "third", "did not start process", "--detach");
        bench.exec(&lab, "server", &["pkill", "-x", "sleep"]).good();
        running.wait().unwrap();

        let inside = |argv: &[&str]| in_server(bench, &lab, argv);
        for (make, remove, what) in [
            (
                &["ip", "link", "add", "inner", "type", "bridge"][..],
                &["ip", "link", "del", "inner"][..],
                "`inner` was made inside",
            ),
            (
                &["nft", "add", "table", "inet", "own"],
                &["nft", "delete", "table", "inet", "own"],
                "rules of a firewall",
            ),
            (
                &[
                    "tc", "qdisc", "add", "dev", "eth0", "root", "pfifo", "limit", "9",
                ],
                &["tc", "qdisc", "del", "dev", "eth0", "root"],
                "queueing disciplines were changed",
            ),
        ] {
            inside(make);
            refused("server", "third", what, "");
            inside(remove);
        }
        traffic.goes_on(50);
        assert_eq!(
            state_of(bench, &lab, "server"),
            ("running".to_owned(), first)
        );
        traffic.end();
    });
}

#[test]
fn a_move_that_fails_leaves_the_container_where_it_was() {
    enter(
        "a_move_that_fails_leaves_the_container_where_it_was",
        |bench| {
            let criu = MoodyCriu::new(bench);
            let set = |mood: &str| criu.set(mood);
            let with_it = |words: &[&str]| common::finish(&mut criu.command(words));
            let lab = lab(bench, "crun", "vxlan");
            start_echo(bench, &lab);
            let traffic = Traffic::start(bench, &lab);
            // The proof is made while it is in a good mood.
            with_it(&["migrate", &lab, "server", "--to", "third"]).good();
            traffic.goes_on(50);
            let (_, mut first) = state_of(bench, &lab, "server");
            // Not later in a dump: moments differ from machine to machine, so the tests of repair mode wait for a state.
            let moods = [
                "fail",
                "kill-dump 0.005",
                "kill-restore 0.005",
                "kill-restore 0.03",
                "kill-restore 0.14",
                "kill-restore 0.17",
            ];
            for mood in some_of(&moods) {
                set(mood);
                let said = with_it(&["migrate", &lab, "server", "--to", "client"]);
                println!("    {mood}: {}", said.err.trim());
                if said.code == 0 {
                    // Its work was done before the kill. What kills is in the container's group, too.
                    until("nothing kills any more", || {
                        running("moody/criu").is_empty()
                    });
                    set("good");
                    with_it(&["migrate", &lab, "server", "--to", "third"]).good();
                    first = state_of(bench, &lab, "server").1;
                    continue;
                }
                traffic.goes_on(50);
                let (state, pid) = state_of(bench, &lab, "server");
                assert_eq!(state, "running", "{mood}");
                bench
                    .exec(&lab, "server", &["ping", "-c1", "-W20", "client"])
                    .good();
                assert_eq!(pid, first, "{mood}");
                until("nothing of the copy is left", || echoes().len() == 1);
            }
            set("good");
            with_it(&["migrate", &lab, "server", "--to", "client"]).good();
            traffic.goes_on(50);
            traffic.end();
        },
    );
}

/// Cuts off each way to dump the server while its connection is in repair mode: the container and its connection go on.
fn cut_off_in_repair_mode(name: &str, cut_off: impl Fn(&Bench, &str, Child, &Process)) {
    enter(name, |bench| {
        let lab = lab(bench, "crun", "vxlan");
        start_echo(bench, &lab);
        fill(bench, &lab);
        let traffic = Traffic::start(bench, &lab);
        traffic.goes_on(50);
        let moody = MoodyCriu::new(bench);
        let other = bench.root().join("other");
        let snapshot = ["snapshot", &lab, "server", "--to", other.to_str().unwrap()];
        // The proof is made while it is in a good mood.
        common::finish(&mut moody.command(&snapshot)).good();
        let before = state_of(bench, &lab, "server");
        let at = bench.root().join("cut-off");
        let snapshot = ["snapshot", &lab, "server", "--to", at.to_str().unwrap()];
        let stop = [&snapshot[..], &["--stop"]].concat();
        let migrate_third = ["migrate", &lab, "server", "--to", "third"];
        for words in [&migrate_third[..], &snapshot, &stop] {
            let log = moody.next_dump_log();
            let mut latlab = moody.command(words);
            let latlab = latlab.stderr(Stdio::piped()).spawn().unwrap();
            let criu = log.stop_in_repair();
            cut_off(bench, &lab, latlab, &criu);
            traffic.goes_on(50);
            assert!(!is_in_repair());
            assert!(!at.exists());
            assert_eq!(state_of(bench, &lab, "server"), before);
            assert_eq!(in_server(bench, &lab, &["nft", "list", "tables"]), "");
        }
        migrate(bench, &lab, "server", "third").good();
        traffic.goes_on(50);
        traffic.end();
    });
}

#[test]
fn a_criu_that_is_killed_in_repair_mode_leaves_connections_alive() {
    let name = "a_criu_that_is_killed_in_repair_mode_leaves_connections_alive";
    cut_off_in_repair_mode(name, |_, _, latlab, criu| {
        assert!(criu.signal(Signal::KILL).unwrap());
        let said = latlab.wait_with_output().unwrap();
        assert_eq!(said.status.code(), Some(2));
        let said = common::text(&said.stderr);
        assert!(said.contains("CRIU cannot dump the container"), "{said}");
    });
}

#[test]
fn a_latlab_that_is_killed_in_repair_mode_leaves_connections_alive() {
    let name = "a_latlab_that_is_killed_in_repair_mode_leaves_connections_alive";
    cut_off_in_repair_mode(name, |bench, lab, mut latlab, criu| {
        latlab.kill().unwrap();
        latlab.wait().unwrap();
        assert!(criu.signal(Signal::CONT).unwrap());
        let said = bench.latlab(&["resume", lab, "server"]).good();
        assert!(said.out.contains("goes on"), "{said:?}");
    });
}

/// Kills a latlab after this time.
fn killed_after(bench: &Bench, words: &[&str], after_ms: u64) {
    let child = bench.command(words).stdout(Stdio::null()).spawn().unwrap();
    kill_after(child, Duration::from_millis(after_ms));
}

#[test]
fn a_container_whose_move_was_killed_goes_on_at_one_place_and_moves_again() {
    let name = "a_container_whose_move_was_killed_goes_on_at_one_place_and_moves_again";
    enter(name, |bench| {
        let lab = lab(bench, "crun", "vxlan");
        start_echo(bench, &lab);
        start(bench, &lab, "server", &[FLOWS, "serve", "0.0.0.0"]);
        let traffic = Traffic::start(bench, &lab);
        traffic.goes_on(50);
        let hosts = ["third", "client"];
        let mut mended = 0;
        let moments = some_of(&[5, 40, 80, 100, 120, 140, 160, 180, 200, 260]);
        for (round, after_ms) in moments.into_iter().enumerate() {
            let to = hosts[round % 2];
            killed_after(bench, &["migrate", &lab, "server", "--to", to], after_ms);
            let note = bench.run_dir().join(&lab).join("paused/.begun-server");
            if note.exists() {
                mended += 1;
                bench.exec(&lab, "server", &["true"]).refused(
                    2,
                    "a move of node `server`",
                    "latlab resume",
                );
            }
            let said = bench.latlab(&["resume", &lab, "server"]).good();
            println!("    killed after {after_ms} ms: {}", said.out.trim());
            assert!(!note.exists());
            traffic.goes_on(50);
            another(bench, &lab);
            until("nothing of the other one is left", || echoes().len() == 1);
            let at = if said.out.contains(&format!("goes on at `{to}`")) {
                hosts[(round + 1) % 2]
            } else {
                to
            };
            let again = migrate(bench, &lab, "server", at);
            if again.code != 0 {
                again.refused(2, "on the hosts of that node already", "");
            }
            traffic.goes_on(50);
        }
        assert!(mended > 0, "no kill came before the end of a move");
        traffic.end();
        bench.latlab(&["destroy", &lab, "-y"]).good();
        bench.assert_clean();
    });
}

#[test]
fn a_container_whose_snapshot_was_killed_goes_on() {
    enter("a_container_whose_snapshot_was_killed_goes_on", |bench| {
        let lab = lab(bench, "crun", "vxlan");
        start_echo(bench, &lab);
        start(bench, &lab, "server", &[FLOWS, "serve", "0.0.0.0"]);
        let traffic = Traffic::start(bench, &lab);
        traffic.goes_on(50);
        for after_ms in some_of(&[20, 60, 90, 120, 160]) {
            let at = bench.root().join(format!("kept-{after_ms}"));
            let place = at.to_str().unwrap();
            killed_after(
                bench,
                &["snapshot", &lab, "server", "--to", place],
                after_ms,
            );
            let said = bench.latlab(&["resume", &lab, "server"]).good();
            println!("    killed after {after_ms} ms: {}", said.out.trim());
            traffic.goes_on(50);
            another(bench, &lab);
            bench.exec(&lab, "server", &["true"]).good();
        }
        for after_ms in some_of(&[20, 70, 110, 150]) {
            let at = bench.root().join(format!("stopped-{after_ms}"));
            let place = at.to_str().unwrap();
            let save = ["snapshot", &lab, "server", "--stop", "--to", place];
            bench.latlab(&save).good();
            let restore = ["restore", &lab, "server", "--from", place];
            killed_after(bench, &restore, after_ms);
            let said = bench.latlab(&["resume", &lab, "server"]);
            println!("    restore killed after {after_ms} ms: {said:?}");
            if state_of(bench, &lab, "server").0 != "running" {
                bench.latlab(&restore).good();
            }
            traffic.goes_on(50);
            another(bench, &lab);
        }
        traffic.end();
        bench.latlab(&["destroy", &lab, "-y"]).good();
        bench.assert_clean();
    });
}

/// Has a listening socket of the server take a connection.
fn another(bench: &Bench, lab: &str) {
    let call = "import socket\ns = socket.create_connection((\"server\", 7001), 30)\ns.sendall(b\"x\")\n\
        assert s.recv(1) == b\"x\"";
    bench.exec(lab, "third", &["python3", "-c", call]).good();
}

/// The states of all servers, as `ps` writes them.
fn echoes() -> Vec<String> {
    running("agent echo")
}

/// States of processes that live and have this in their command line.
fn running(what: &str) -> Vec<String> {
    let said = tool(&["ps", "-eo", "stat,args"]);
    let found = said.lines().filter(|line| line.contains(what));
    let states = found.filter_map(|line| line.split_whitespace().next());
    let alive = states.filter(|state| !state.starts_with('Z'));
    alive.map(str::to_owned).collect()
}

const FLOWS: &str = include_str!("streams/flows.py");

/// A link between three hosts whose connections may be streams.
const FLOWING: &str = "name: NAME
topology:
  nodes: {server: {kind: container}, client: {kind: native}, third: {kind: native}}
  links:
    - {type: overlay, streams: STREAMS, carrier: vxlan, endpoints: [\"server:eth0\", \"client:eth0\", \"third:eth0\"], subnets: [10.1.0.0/24]}
";

/// Connections to the container that come and go, whose bytes are checked.
struct Calls {
    output: String,
    stop: PathBuf,
}

impl Calls {
    fn start(bench: &Bench, lab: &str) -> Calls {
        start(bench, lab, "server", &[FLOWS, "serve", "0.0.0.0"]);
        let stop = bench.root().join(format!("{lab}-stop"));
        let call = [FLOWS, "call", "10.1.0.1", stop.to_str().unwrap(), lab];
        let output = start(bench, lab, "client", &call);
        Calls { output, stop }
    }

    /// Lets them go on for a moment.
    fn go_on(&self) {
        std::thread::sleep(Duration::from_millis(700));
        let text = std::fs::read_to_string(&self.output).unwrap();
        assert!(!text.contains("failed"), "{text}");
    }

    fn end(self) {
        std::fs::write(&self.stop, "").unwrap();
        let text = await_line(&self.output, &["well", "failed"]);
        assert!(text.ends_with("well\n"), "{text}");
        println!("    {text}");
    }
}

/// Connections that a program has not accepted yet, or has closed with bytes on their way, have no descriptor.
#[test]
fn connections_that_come_and_go_outlive_moves_and_snapshots() {
    enter(
        "connections_that_come_and_go_outlive_moves_and_snapshots",
        |bench| {
            let lab = bench.deploy("plain", &FLOWING.replace("STREAMS", "false"));
            let calls = Calls::start(bench, &lab);
            let hosts = ["third", "client", "server"];
            let moves = if whole() { 3 } else { 2 };
            for (number, to) in hosts.iter().cycle().take(moves).enumerate() {
                calls.go_on();
                println!("    {}", migrate(bench, &lab, "server", to).good().out);
                calls.go_on();
                let kept = bench.root().join(number.to_string());
                let kept = kept.to_str().unwrap();
                let words = ["snapshot", &lab, "server", "--to", kept];
                bench.latlab(&words).good();
            }
            calls.end();
            // A server that does not accept would lose who waits.
            let idle = "import socket, time\n\
                s = socket.create_server((\"0.0.0.0\", 7005))\nprint(\"ready\", flush=True)\ntime.sleep(600)";
            start(bench, &lab, "server", &[idle]);
            let wait = "import socket, time\n\
                s = socket.create_connection((\"10.1.0.1\", 7005))\nprint(\"ready\", flush=True)\ntime.sleep(600)";
            start(bench, &lab, "client", &[wait]);
            let (_, before) = state_of(bench, &lab, "server");
            // The container is on another host, however many moves there were.
            let refused = migrate(bench, &lab, "server", "third");
            let reason = "would lose 1 connection not accepted by its programs yet";
            refused.refused(2, reason, "does not accept");
            let now = state_of(bench, &lab, "server");
            assert_eq!(now, ("running".into(), before));
            let other = "import socket; socket.create_connection((\"10.1.0.1\", 7005))";
            bench.exec(&lab, "third", &["python3", "-c", other]).good();
            bench.latlab(&["destroy", &lab, "-y"]).good();
            bench.assert_clean();
        },
    );
}

#[test]
fn streams_of_a_container_that_moves_become_connections() {
    enter(
        "streams_of_a_container_that_moves_become_connections",
        |bench| {
            let lab = bench.deploy("moves", &FLOWING.replace("STREAMS", "true"));
            let status = || -> Value {
                let said = bench.latlab(&["streams", &lab, "--json"]).good();
                serde_json::from_str(&said.out).unwrap()
            };
            let count = |status: &Value, name: &str| status[name].as_u64().unwrap();
            let calls = Calls::start(bench, &lab);
            let has_streams = || until("it has streams", || count(&status(), "open") > 8);
            has_streams();
            let kept = bench.root().join("kept");
            let kept = kept.to_str().unwrap();
            let save = ["snapshot", &lab, "server", "--to", kept];
            bench.latlab(&save).good();
            let saved = count(&status(), "demoted");
            assert!(saved > 0);
            // After a snapshot it goes on with streams.
            has_streams();
            calls.go_on();
            migrate(bench, &lab, "server", "third").good();
            let moved = status();
            assert!(count(&moved, "demoted") > saved, "{moved}");
            calls.go_on();
            // From now on all are plain, whatever is switched on.
            bench.latlab(&["streams", &lab, "on"]).good();
            migrate(bench, &lab, "server", "client").good();
            calls.go_on();
            calls.end();
            std::fs::remove_dir_all(kept).unwrap();
            bench.latlab(&[&save[..], &["--stop"]].concat()).good();
            let restore = ["restore", &lab, "server", "--from", kept];
            bench.latlab(&restore).good();
            let reach = "import socket\nsocket.create_connection((\"10.1.0.1\", 7001))\n\
                print(\"ready\", flush=True)";
            for node in ["server", "third"] {
                start(bench, &lab, node, &[reach]);
            }
            until("nothing is a stream", || count(&status(), "open") == 0);
            assert_eq!(status()["streams"], moved["streams"]);
            bench.latlab(&["destroy", &lab, "-y"]).good();
            bench.assert_clean();
        },
    );
}
