//! Adaptation of real overlay daemons to real traffic: a third host, direct links, and what is refused.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use common::python::start;
use common::{Bench, enter, finish, finished, signal, tool, until};

const HOSTS: [&str; 3] = ["a", "b", "c"];

/// Hosts and containers.
const NAMESPACES: [&str; 5] = ["a", "b", "c", "one", "two"];

/// Hosts in namespaces, with wires, a daemon each, and a container behind each of the first two.
struct World<'b> {
    bench: &'b Bench,
    daemons: Vec<Child>,
}

impl<'b> World<'b> {
    /// Wires of `ab`, `ac` and `bc`, with their rates where they have one.
    fn new(bench: &'b Bench, wires: &[(&str, Option<&str>)]) -> World<'b> {
        bench.take_as_given();
        let mut world = World {
            bench,
            daemons: Vec::new(),
        };
        let mut config: [String; 3] = std::array::from_fn(|_| "add network lan vni 7\n".into());
        for namespace in NAMESPACES {
            let pin = world.namespace(namespace);
            fs::write(&pin, "").unwrap();
            tool(&["unshare", &format!("--net={}", pin.display()), "true"]);
            world.at(namespace, "ip link set lo up");
        }
        for (number, (wire, rate)) in (1..).zip(wires) {
            let (a, b) = wire.split_at(1);
            let peer = world.namespace(b);
            let cable = format!(
                "ip link add w{a}{b} type veth peer name w{b}{a} netns {}",
                peer.display()
            );
            world.at(a, &cable);
            for (host, other, end) in [(a, b, 1), (b, a, 2)] {
                world.at(
                    host,
                    &format!("ip address add 10.9.{number}.{end}/24 dev w{host}{other}"),
                );
                world.at(host, &format!("ip link set w{host}{other} up"));
                if let Some(rate) = rate {
                    let shape = format!(
                        "tc qdisc add dev w{host}{other} root tbf rate {rate} burst 64kb latency 50ms"
                    );
                    world.at(host, &shape);
                }
                let at = HOSTS.iter().position(|name| *name == host).unwrap();
                config[at] += &format!(
                    "add link {host}{other} vxlan 10.9.{number}.{} local 10.9.{number}.{end}\n",
                    3 - end
                );
            }
        }
        for (at, (host, node)) in [("a", "one"), ("b", "two")].into_iter().enumerate() {
            let (mac, inside) = (format!("02:00:00:02:00:0{at}"), world.namespace(node));
            let cable = format!(
                "ip link add p type veth peer name eth0 mtu 1450 address {mac} netns {}",
                inside.display()
            );
            world.at(host, &cable);
            world.at(host, "ip link set p up");
            world.at(node, "ip link set eth0 up");
            world.at(
                node,
                &format!("ip address add 10.1.0.{}/24 dev eth0", at + 1),
            );
            config[at] += &format!("add interface {node} network lan veth p mac {mac} mtu 1450\n");
        }
        for (host, config) in HOSTS.iter().zip(config) {
            world.start(host, &config);
        }
        world.at("one", "ping -c 3 -i 0.2 -w 60 10.1.0.2");
        world
    }

    fn namespace(&self, name: &str) -> PathBuf {
        self.bench.root().join(name)
    }

    fn socket(&self, host: &str) -> String {
        let path = self.bench.root().join(format!("{host}.sock"));
        path.display().to_string()
    }

    fn command(&self, namespace: &str, line: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.namespace(namespace).display()));
        command.args(line.split_whitespace());
        command
    }

    fn at(&self, namespace: &str, line: &str) -> String {
        finish(&mut self.command(namespace, line)).good().out
    }

    fn start(&mut self, host: &str, config: &str) {
        let file = self.bench.root().join(format!("{host}.conf"));
        fs::write(&file, config).unwrap();
        let program =
            std::path::Path::new(env!("CARGO_BIN_EXE_latlab")).with_file_name("latlab-overlay");
        let socket = self.socket(host);
        let line = format!(
            "{} --config {} --control {socket}",
            program.display(),
            file.display()
        );
        let daemon = self.command(host, &line).stdout(Stdio::null()).spawn();
        self.daemons.push(daemon.unwrap());
        until("the daemon listens", || fs::exists(&socket).unwrap());
    }

    fn shown(&self) -> Vec<String> {
        let show = |host: &&str| {
            let socket = self.socket(host);
            self.bench
                .latlab(&["overlay", "--control", &socket, "--", "show"])
                .good()
                .out
        };
        HOSTS.iter().map(show).collect()
    }

    /// Frames that a host's daemon has sent over all its links.
    fn sent_by(&self, host: &str) -> u64 {
        let socket = self.socket(host);
        let counters = self
            .bench
            .latlab(&["overlay", "--control", &socket, "counters"])
            .good()
            .out;
        let links = counters.lines().filter(|line| line.starts_with("link "));
        let sent = links.filter_map(|line| {
            line.split("sent_frames ")
                .nth(1)?
                .split(' ')
                .next()?
                .parse::<u64>()
                .ok()
        });
        sent.sum()
    }

    /// Starts `latlab adapt` for hosts, with JSON lines in a file.
    fn adapt(&self, hosts: &[&str], more: &[&str]) -> (Child, PathBuf) {
        let mut words = vec!["adapt".to_owned(), "--format".into(), "json".into()];
        for host in hosts {
            words.extend(["--control".into(), self.socket(host)]);
        }
        words.extend(more.iter().map(ToString::to_string));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let file = self.bench.root().join("told");
        let out = fs::File::create(&file).unwrap();
        let child = self
            .bench
            .command(&words)
            .stdout(out)
            .stderr(Stdio::piped())
            .spawn();
        (child.unwrap(), file)
    }

    fn end(mut self) {
        for daemon in &mut self.daemons {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
        for namespace in NAMESPACES {
            tool(&["umount", self.namespace(namespace).to_str().unwrap()]);
        }
    }
}

/// The steps that were told, in order.
fn steps(file: &PathBuf) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let lines: Vec<serde_json::Value> = lines.collect();
    lines
        .into_iter()
        .filter(|line| line.get("step").is_some())
        .collect()
}

fn has(file: &PathBuf, step: &str) -> bool {
    steps(file).iter().any(|told| told["step"] == step)
}

/// Three hosts whose slowest wire has the traffic. Everything is as before when adaptation ends.
#[test]
fn a_pair_with_a_full_wire_goes_by_a_third_host() {
    enter("a_pair_with_a_full_wire_goes_by_a_third_host", |bench| {
        let wires = [
            ("ab", Some("20mbit")),
            ("ac", Some("500mbit")),
            ("bc", Some("500mbit")),
        ];
        let world = World::new(bench, &wires);
        let before = world.shown();
        let advised = world.adapt(&HOSTS, &[]);
        let (adapting, told) = advised;
        let mut server = world
            .command("two", "iperf3 -s")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        until("the server listens", || {
            world.at("two", "ss -ltn").contains(":5201")
        });
        let mut client = world.command("one", "iperf3 -c 10.1.0.2 -t 600 -C cubic");
        let mut client = client.stdout(Stdio::null()).spawn().unwrap();
        until("the third host is advised", || has(&told, "refuse"));
        let first = &steps(&told)[0];
        assert_eq!(first["reason"], "not-allowed", "{first}");
        assert!(
            first["text"]
                .as_str()
                .unwrap()
                .contains("the way by c should cost"),
            "{first}"
        );
        assert_eq!(world.shown(), before);
        signal(adapting.id(), "INT");
        finished(adapting).good();

        let (adapting, told) = world.adapt(&HOSTS, &["--change", "routes"]);
        until("the way was changed and is kept", || has(&told, "keep"));
        let change = &steps(&told)[0];
        assert_eq!(change["step"], "change", "{change}");
        assert!(
            world.shown()[2].contains("from link"),
            "{:?}",
            world.shown()
        );
        let at_third = world.sent_by("c");
        until("frames pass the third host", || {
            world.sent_by("c") > at_third + 1000
        });
        signal(adapting.id(), "INT");
        let said = finished(adapting).good();
        assert!(said.err.is_empty(), "{said:#?}");
        assert!(
            fs::read_to_string(&told)
                .unwrap()
                .contains("all changes are taken back")
        );
        assert_eq!(world.shown(), before);
        // Traffic goes on without the third host: with its routes, places learned by it are forgotten.
        world.at("one", "ping -c 3 -i 0.2 -w 10 10.1.0.2");
        let at_third = world.sent_by("c");
        world.at("one", "ping -c 3 -i 0.2 -w 10 10.1.0.2");
        assert!(world.sent_by("c") < at_third + 100);
        for child in [&mut client, &mut server] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        world.end();
    });
}

/// A link that goes dead is replaced in seconds, also without traffic.
#[test]
fn a_dead_wire_is_replaced_by_a_third_host() {
    enter("a_dead_wire_is_replaced_by_a_third_host", |bench| {
        let world = World::new(bench, &[("ab", None), ("ac", None), ("bc", None)]);
        let before = world.shown();
        let (adapting, told) = world.adapt(&HOSTS, &["--change", "routes", "--keep"]);
        until("it watches", || {
            fs::read_to_string(&told).unwrap().contains("hosts")
        });
        // Frames are lost, but the interface is up: nothing tells.
        world.at(
            "a",
            "tc qdisc add dev wab root tbf rate 8bit burst 10 limit 1",
        );
        until("the wire is replaced", || has(&told, "fail-over"));
        world.at("one", "ping -c 1 -w 60 10.1.0.2");
        signal(adapting.id(), "INT");
        finished(adapting).good();
        // As asked, it stays.
        let kept = world.shown();
        assert_ne!(kept, before);
        world.at("one", "ping -c 1 -w 60 10.1.0.2");
        // Routes that are there before are a person's.
        let (mut adapting, told) = world.adapt(&HOSTS, &["--change", "routes", "--for", "5s"]);
        assert!(adapting.wait().unwrap().success());
        assert!(
            fs::read_to_string(&told)
                .unwrap()
                .contains("has routes already")
        );
        assert_eq!(world.shown(), kept);
        world.end();
    });
}

#[test]
fn bad_requests_of_adaptation_change_nothing() {
    enter("bad_requests_of_adaptation_change_nothing", |bench| {
        let world = World::new(bench, &[("ab", None), ("ac", None)]);
        let before = world.shown();
        let socket = |host: &str| world.socket(host);
        let one = bench.latlab(&["adapt", "--control", &socket("a")]);
        one.refused(2, "1 daemons are named", "name 2 to 16");
        let twice = bench.latlab(&[
            "adapt",
            "--control",
            &socket("a"),
            "--control",
            &socket("a"),
        ]);
        twice.refused(2, "a and a are the same daemon", "name each daemon once");
        let strangers = bench.latlab(&[
            "adapt",
            "--control",
            &socket("b"),
            "--control",
            &socket("c"),
        ]);
        strangers.refused(2, "no VXLAN or UDP link leads", "tells each daemon's links");
        let gone = bench.latlab(&["adapt", "--control", &socket("a"), "--control", "/nowhere"]);
        gone.refused(2, "cannot reach /nowhere", "is the daemon running?");
        let brief = bench.latlab(&["adapt", "x", "--for", "1s"]);
        assert!(
            brief.code == 2 && brief.err.contains("at least 5s"),
            "{brief:#?}"
        );
        let no_lab = bench.latlab(&["adapt", "x"]);
        assert_eq!(no_lab.code, 2, "{no_lab:#?}");
        assert_eq!(world.shown(), before);
        // A daemon that ends is told, and the others are as they were.
        let (adapting, told) = world.adapt(&["a", "b"], &["--change", "all"]);
        until("it watches", || {
            fs::read_to_string(&told).unwrap().contains("hosts")
        });
        let (a, b) = (socket("a"), socket("b"));
        let both = ["adapt", "--control", &a, "--control", &b];
        let second = bench.latlab(&[&both[..], &["--change", "routes"]].concat());
        second.refused(
            2,
            "another connection adapts this daemon",
            "end the other `latlab adapt`",
        );
        // Advice changes nothing.
        bench.latlab(&[&both[..], &["--for", "5s"]].concat()).good();
        signal(world.daemons[1].id(), "KILL");
        let said = finished(adapting);
        assert!(said.code == 2 && said.err.contains("host b"), "{said:#?}");
        world.end();
    });
}

/// In a lab, links between hosts are watched by the names of their nodes.
#[test]
fn a_lab_is_watched_by_its_nodes() {
    enter("a_lab_is_watched_by_its_nodes", |bench| {
        let lab = "name: NAME\ntopology:\n  nodes: {left: {kind: native}, right: {kind: container}}\n  \
                   links: [{type: overlay, name: lan, carrier: vxlan, endpoints: [\"left:eth0\", \"right:eth0\"]}]\n";
        let name = bench.deploy("watched", lab);
        let said = bench.latlab(&["adapt", &name, "--for", "5s"]).good();
        assert!(
            said.out
                .starts_with("watching left, right; all are on one Ethernet segment"),
            "{said:#?}"
        );
        bench.latlab(&["destroy", &name]).good();
        let local = bench.deploy("local", &lab.replace("vxlan", "local"));
        let refused = bench.latlab(&["adapt", &local]);
        refused.refused(
            2,
            "has not exactly one link between overlay hosts",
            "name daemons with --control",
        );
        bench.latlab(&["destroy", &local]).good();
    });
}

/// Answers one byte on each connection.
const SERVE: &str = "
import socket, threading
listener = socket.create_server(('0.0.0.0', 7100), backlog=512)
def serve():
    while True:
        connection, _ = listener.accept()
        connection.recv(1)
        connection.send(b'x')
        connection.close()
for _ in range(3):
    threading.Thread(target=serve, daemon=True).start()
print('ready')
serve()
";

/// Makes one connection after the other for some seconds.
const CALL: &str = "
import socket, sys, time
print('ready')
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    with socket.create_connection(('10.1.0.2', 7100), 20) as connection:
        connection.send(b'x')
        connection.recv(1)
";

#[test]
fn a_port_of_many_short_connections_is_without_streams() {
    const NAME: &str = "a_port_of_many_short_connections_is_without_streams";
    enter(NAME, |bench| {
        let lab = "name: NAME\ntopology:\n  nodes: {a: {kind: native}, b: {kind: native}}\n  links: [{type: overlay, \
                   STREAMS, endpoints: [\"a:eth0\", \"b:eth0\"], subnets: [10.1.0.0/24]}]\n";
        let plain = bench.deploy("plain", &lab.replace("STREAMS", "streams: false"));
        let refused = bench.latlab(&["adapt", &plain, "--change", "streams"]);
        refused.refused(2, "no streams to change", "`streams: true`");
        bench.latlab(&["destroy", &plain]).good();
        let name = bench.deploy("short", &lab.replace("STREAMS", "streams: true"));
        start(bench, &name, "b", &[SERVE]);
        let port = || {
            let said = bench.latlab(&["streams", &name, "--json"]).good().out;
            let status: serde_json::Value = serde_json::from_str(&said).unwrap();
            status["ports"][0].clone()
        };
        for _ in 0..4 {
            start(bench, &name, "a", &[CALL, "32"]);
        }
        let words = ["--for", "30s", "--format", "json", "--change", "streams"];
        let said = bench.latlab(&[&["adapt", &name][..], &words].concat());
        let lines: Vec<serde_json::Value> = said
            .good()
            .out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let steps: Vec<&serde_json::Value> =
            lines.iter().filter(|line| line["port"] == 7100).collect();
        let made = port();
        let rate = made["connections"].as_u64().unwrap() as f64 / 32.0;
        println!("{rate:.0} connections a second: {steps:#?}");
        let Some(first) = steps.first() else {
            // A tenth of the time at 150 us each.
            assert!(rate < 700.0, "{rate}: {lines:#?}");
            println!("skipped: this machine makes too few connections a second");
            bench.latlab(&["destroy", &name]).good();
            return;
        };
        assert_eq!(
            (&first["step"], &first["server"]),
            (&"plain".into(), &"b".into())
        );
        assert!(
            first["rate"].as_f64().unwrap() > 600.0
                && first["text"].as_str().unwrap().contains("on trial")
        );
        // The trial may end either way on another machine. Afterwards all is as it was.
        assert!(
            made["streams"].as_u64() < made["connections"].as_u64(),
            "{made}"
        );
        assert!(made["on"].is_null(), "{made}");
        if steps.last().unwrap()["step"] == "keep" {
            assert!(
                lines
                    .iter()
                    .any(|line| line["note"] == "all changes are taken back")
            );
        }
        bench.latlab(&["destroy", &name]).good();
    });
}
