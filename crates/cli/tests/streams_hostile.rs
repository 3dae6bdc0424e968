//! Streams of programs that do not play by the rules: sides that close, reset and die at any moment while streams are switched
//! off, on, and made plain; more offers than the supervisor has room for; and offers that no server takes.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use common::python::{await_line, start};
use common::streams::supervisor;
use common::{Bench, enter, finish, until, whole};
use serde_json::Value;

const INTERLEAVINGS: &str = include_str!("streams/interleavings.py");

fn lab(streams: &str) -> String {
    format!(
        "name: NAME\ntopology:\n  nodes: {{a: {{kind: native}}, b: {{kind: native}}, c: {{kind: native}}}}\n  links:\n    \
         - {{name: fast, type: overlay, streams: {streams}, endpoints: [\"a:eth0\", \"b:eth0\", \"c:eth0\"], \
         subnets: [10.1.0.0/24]}}\n"
    )
}

const ADDRESS: &str = "10.1.0.2";

fn status(bench: &Bench, lab: &str) -> Value {
    let text = bench.latlab(&["streams", lab, "--json"]).good().out;
    serde_json::from_str(&text).unwrap()
}

/// Lines of each round's process, by the round's number. One that was killed before it could tell is missing.
fn rounds(text: &str) -> BTreeMap<u64, Value> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let said = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    said.map(|said| (said["round"].as_u64().unwrap(), said))
        .collect()
}

/// Whether a program has said that all went well, which is its last word.
fn is_over(file: &str) -> bool {
    fs::read_to_string(file).unwrap().ends_with("well\n")
}

/// Rules that hold for bytes from one side to the other, whatever both did.
fn check(seed: &str, from: &Value, to: &Value) {
    let told = || format!("seed {seed}: {from} to {to}");
    assert_eq!(to["right"], true, "{}", told());
    assert!(to["slowest"].as_f64().unwrap() < 5.0, "{}", told());
    let [sent, received] = [&from["sent"], &to["received"]].map(|value| value.as_u64().unwrap());
    // One that failed to send may have sent a part of it.
    let has_sent = from["end"] != "" && from["end"] != "abandoned";
    assert!(!has_sent || received <= sent, "{}", told());
    let is_orderly = ["shut", "close", "unread"].contains(&from["end"].as_str().unwrap());
    if to["saw"] == "end" && is_orderly {
        assert_eq!(received, sent, "{}", told());
    }
}

/// Another one each time: a failure tells it.
fn seed() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap().as_micros().to_string()
}

#[test]
fn whatever_both_sides_do_no_stream_is_short_without_an_error() {
    const NAME: &str = "whatever_both_sides_do_no_stream_is_short_without_an_error";
    enter(NAME, |bench| {
        let count = if whole() { "300" } else { "120" };
        for streams in ["true", "tcp"] {
            let name = bench.deploy(&format!("chaos-{streams}"), &lab(streams));
            let seed = seed();
            let directory = bench.root().join(format!("reached-{streams}"));
            fs::create_dir(&directory).unwrap();
            let directory = directory.display().to_string();
            let arguments = |role| [INTERLEAVINGS, role, ADDRESS, &seed, count, &directory];
            let server = start(bench, &name, "b", &arguments("server"));
            let client = start(bench, &name, "a", &arguments("client"));
            let end = Instant::now() + Duration::from_secs(120);
            for turn in 0.. {
                if is_over(&server) && is_over(&client) {
                    break;
                }
                assert!(Instant::now() < end, "seed {seed}: it does not end");
                bench.latlab(&["streams", &name, "off", "--open"]);
                bench.latlab(&["streams", &name, "on"]).good();
                std::thread::sleep(Duration::from_millis(40 << (turn % 4)));
            }
            let [servers, clients] =
                [server, client].map(|file| rounds(&fs::read_to_string(file).unwrap()));
            let mut talked = 0;
            for (number, client) in &clients {
                let Some(server) = servers.get(number) else {
                    continue;
                };
                check(&seed, client, server);
                check(&seed, server, client);
                talked += u64::from(server["received"] != 0 || client["received"] != 0);
            }
            let all: u64 = count.parse().unwrap();
            assert!(talked >= all / 8, "seed {seed}: {talked} of {all}");
            until("closed streams are forgotten", || {
                status(bench, &name)["open"] == 0
            });
            let now = status(bench, &name);
            println!("seed {seed}: {talked} rounds talked, {now}");
            assert!(now["streams"].as_u64().unwrap() > all / 4, "{now}");
            assert!(now["demoted"].as_u64().unwrap() > 0, "{now}");
            bench.latlab(&["destroy", &name]).good();
        }
        bench.assert_clean();
    });
}

/// Accepts no connection at a port until it is told to, then answers all; answers at once at another port.
const IDLE: &str = "
import os, socket, sys, threading, time
late = socket.socket()
late.bind(('0.0.0.0', 7000))
late.listen(4096)
def echo(conn):
    conn.sendall(conn.recv(100))
    conn.close()
def answer():
    at_once = socket.create_server(('0.0.0.0', 7001))
    while True:
        echo(at_once.accept()[0])
threading.Thread(target=answer, daemon=True).start()
print('ready', flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
for _ in range(int(sys.argv[2])):
    echo(late.accept()[0])
print('well', flush=True)
time.sleep(60)
";

/// Makes many connections, says something in each, and reads the answers once all are made.
const MANY: &str = "
import socket, sys, time
begin = time.monotonic()
conns = []
for number in range(int(sys.argv[1])):
    conn = socket.create_connection(('10.1.0.2', 7000), 20)
    conn.sendall(b'%d' % number)
    conns.append(conn)
print('ready', flush=True)
for number, conn in enumerate(conns):
    conn.settimeout(60)
    assert conn.recv(100) == b'%d' % number, number
    assert conn.recv(1) == b''
    conn.close()
print('well', flush=True)
time.sleep(60)
";

/// Asks the server's other port again and again; the longest answer has to come within five seconds.
const ASK: &str = "
import socket, time
slowest = 0
for _ in range(20):
    begin = time.monotonic()
    conn = socket.create_connection(('10.1.0.2', 7001), 20)
    conn.sendall(b'there')
    assert conn.recv(100) == b'there'
    conn.close()
    slowest = max(slowest, time.monotonic() - begin)
assert slowest < 5, slowest
print('well')
";

/// Deploys a lab whose supervisor may have this many descriptors, and cannot allow itself more.
fn deploy_limited(bench: &Bench, name: &str, descriptors: u32) -> String {
    let deploy = bench.command(&["deploy", &bench.file(name, &lab("true"))]);
    let limit = format!("--nofile={descriptors}");
    let bounds = ["--bounding-set=-sys_resource", "--inh-caps=-sys_resource"];
    let mut limited = Command::new("setpriv");
    limited.args(bounds).args(["prlimit", &limit]);
    limited.arg(deploy.get_program()).args(deploy.get_args());
    limited.envs(
        deploy
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    limited.current_dir(deploy.get_current_dir().unwrap());
    finish(&mut limited).good();
    bench.name(name)
}

#[test]
fn a_full_table_of_offers_leaves_further_connections_plain() {
    const NAME: &str = "a_full_table_of_offers_leaves_further_connections_plain";
    enter(NAME, |bench| {
        let name = deploy_limited(bench, "full", 2048);
        let go = bench.root().join("go").display().to_string();
        let server = start(bench, &name, "b", &[IDLE, &go, "900"]);
        let client = start(bench, &name, "a", &[MANY, "900"]);
        let now = status(bench, &name);
        let streams = now["streams"].as_u64().unwrap();
        assert!((100..600).contains(&streams), "{now}");
        let plain = serde_json::json!([["limit", 900 - streams]]);
        assert_eq!(now["plain"], plain, "{now}");
        // A program of another node is served meanwhile.
        bench.exec(&name, "c", &["python3", "-c", ASK]).good();
        fs::write(&go, "").unwrap();
        for file in [server, client] {
            await_line(&file, &["well"]);
        }
        until("closed streams are forgotten", || {
            status(bench, &name)["open"] == 0
        });
        // There is room again.
        bench.exec(&name, "c", &["python3", "-c", ASK]).good();
        assert_eq!(status(bench, &name)["streams"], streams + 20);
        bench.latlab(&["destroy", &name]).good();
        bench.assert_clean();
    });
}

/// Opens a port again and again, and closes it once the client has come: it never accepts there.
const DESERT: &str = "
import socket, sys
control = socket.create_server(('0.0.0.0', 7002))
print('ready', flush=True)
control = control.accept()[0]
for _ in range(int(sys.argv[1])):
    late = socket.create_server(('0.0.0.0', 7000), backlog=1000)
    control.sendall(b'.')
    assert control.recv(1) == b'.'
    late.close()
control.close()
print('well', flush=True)
at_once = socket.create_server(('0.0.0.0', 7001))
while True:
    conn = at_once.accept()[0]
    conn.sendall(conn.recv(100))
    conn.close()
";

/// Makes connections that no server accepts, and gives them up: half of them before the server does.
const GIVE_UP: &str = "
import socket, sys
control = socket.create_connection(('10.1.0.2', 7002), 20)
print('ready', flush=True)
for _ in range(int(sys.argv[1])):
    assert control.recv(1) == b'.'
    conns = [socket.create_connection(('10.1.0.2', 7000), 20) for _ in range(500)]
    for conn in conns[::2]:
        conn.close()
    control.sendall(b'.')
    for conn in conns[1::2]:
        conn.close()
print('well', flush=True)
";

/// Memory that the supervisor has in use, in KiB.
fn memory(bench: &Bench, lab: &str) -> u64 {
    let pid = supervisor(lab, bench).as_raw_nonzero();
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let (number, _) = line.unwrap().trim().split_once(' ').unwrap();
    number.parse().unwrap()
}

#[test]
fn offers_that_no_server_takes_are_forgotten() {
    const NAME: &str = "offers_that_no_server_takes_are_forgotten";
    enter(NAME, |bench| {
        let offers = std::env::var("LATLAB_TEST_OFFERS").map(|offers| offers.parse().unwrap());
        let offers = offers.unwrap_or(if whole() { 10_000 } else { 2_000 });
        let turns = &(offers / 500).to_string();
        for streams in ["true", "tcp"] {
            let name = bench.deploy(&format!("desert-{streams}"), &lab(streams));
            let begun = memory(bench, &name);
            let server = start(bench, &name, "b", &[DESERT, turns]);
            let client = start(bench, &name, "a", &[GIVE_UP, turns]);
            let end = Instant::now() + Duration::from_secs(300);
            while [&server, &client].iter().any(|file| !is_over(file)) {
                assert!(Instant::now() < end, "{}", status(bench, &name));
                std::thread::sleep(Duration::from_millis(100));
            }
            until("offers that no server took are forgotten", || {
                status(bench, &name)["open"] == 0
            });
            let now = status(bench, &name);
            println!("{now}");
            assert_eq!(now["streams"], offers + 1, "{now}");
            // The tables of 500 offers, however many there were.
            let grown = memory(bench, &name).saturating_sub(begun);
            assert!(grown < 16 << 10, "{grown} KiB");
            bench.exec(&name, "c", &["python3", "-c", ASK]).good();
            bench.latlab(&["destroy", &name]).good();
        }
        bench.assert_clean();
    });
}
