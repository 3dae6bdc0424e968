//! Streams become plain connections while programs use them: no byte is lost, doubled or altered, whatever a program waits in;
//! and what stays a stream. In whole, at least a thousand do.

mod common;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use common::python::{await_line, start};
use common::{Bench, enter, until, whole};
use serde_json::Value;

const FLOWS: &str = include_str!("streams/flows.py");

/// Native nodes on an overlay whose bytes take such sockets, within this host or between two.
fn lab(streams: &str, carrier: &str) -> String {
    format!(
        "name: NAME\ntopology:\n  nodes: {{a: {{kind: native}}, b: {{kind: container}}}}\n  links:\n    \
         - {{name: fast, type: overlay, streams: {streams}{carrier}, endpoints: [\"a:eth0\", \"b:eth0\"], \
         subnets: [10.1.0.0/24]}}\n"
    )
}

const ADDRESS: &str = "10.1.0.2";

fn status(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Has streams become plain under load until `wanted` did, and returns how many.
fn demote_under_load(bench: &Bench, lab: &str, wanted: u64) -> u64 {
    let stop = bench.root().join("stop");
    let _ = fs::remove_file(&stop);
    start(bench, lab, "b", &[FLOWS, "serve", "0.0.0.0"]);
    let stop_at = stop.display().to_string();
    let output = start(bench, lab, "a", &[FLOWS, "call", ADDRESS, &stop_at, lab]);
    let (mut streams, mut bytes, mut longest) = (0, 0, 0);
    let end = Instant::now() + Duration::from_secs(150);
    while streams < wanted && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(150));
        let said = bench.latlab(&["streams", lab, "off", "--open", "--json"]);
        let now = &status(&said.good().out)["now"];
        assert_eq!(now["reset"], 0, "{now}");
        streams += now["streams"].as_u64().unwrap();
        bytes += now["bytes"].as_u64().unwrap();
        longest = longest.max(now["stopped_ns"].as_u64().unwrap());
        bench.latlab(&["streams", lab, "on"]).good();
        let text = fs::read_to_string(&output).unwrap();
        assert!(!text.contains("failed"), "{text}");
    }
    fs::write(&stop, "").unwrap();
    let text = await_line(&output, &["well", "failed"]);
    assert!(text.ends_with("well\n"), "{text}");
    println!(
        "{streams} streams became plain, with {bytes} bytes on their way; stops of at most {:.1} ms: {text}",
        longest as f64 / 1e6
    );
    assert!(streams >= wanted, "{streams} of {wanted}: {text}");
    assert!(bytes > 0);
    streams
}

#[test]
fn streams_become_plain_connections_without_a_lost_byte() {
    const NAME: &str = "streams_become_plain_connections_without_a_lost_byte";
    enter(NAME, |bench| {
        let each = if whole() { 350 } else { 30 };
        let mut streams = 0;
        for (name, kind, carrier) in [
            ("demoted", "true", ""),
            ("demoted-tcp", "tcp", ""),
            ("demoted-far", "true", ", carrier: vxlan"),
        ] {
            let name = bench.deploy(name, &lab(kind, carrier));
            streams += demote_under_load(bench, &name, each);
            bench.latlab(&["destroy", &name]).good();
        }
        assert!(streams >= 3 * each);
        bench.assert_clean();
    });
}

/// Listens, accepts when a file is there, waits for another one, and answers with the digest of what came.
const LATE: &str = "
import hashlib, os, socket, sys, time
def wait(file):
    while not os.path.exists(file):
        time.sleep(0.01)
listener = socket.create_server(('0.0.0.0', 7000))
print('ready', flush=True)
wait(sys.argv[1])
conn = listener.accept()[0]
print('accepted', flush=True)
wait(sys.argv[2])
digest = hashlib.sha256()
while data := conn.recv(1 << 16):
    digest.update(data)
print(digest.hexdigest(), flush=True)
if len(sys.argv) > 3:
    conn.sendall(digest.digest())
print('well', flush=True)
";

/// Connects, sends what fits and ends; closes at once if asked to.
const EARLY: &str = "
import hashlib, os, socket, sys, time
conn = socket.create_connection(('10.1.0.2', 7000))
print(os.getpid(), flush=True)
print('ready', flush=True)
data = bytes(range(256)) * 1000
conn.sendall(data)
print('sent', flush=True)
if sys.argv[1] == 'close':
    conn.close()
else:
    conn.shutdown(socket.SHUT_WR)
    assert conn.recv(32, socket.MSG_WAITALL) == hashlib.sha256(data).digest()
    assert conn.recv(1) == b''
print('well', flush=True)
time.sleep(60)
";

/// Traces a process for some seconds.
const DEBUGGER: &str = "
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
assert libc.ptrace(0x4206, int(sys.argv[1]), 0, 0) == 0, ctypes.get_errno()
print('ready', flush=True)
time.sleep(float(sys.argv[2]))
";

/// `latlab streams LAB off --open`, and what it says of the open ones.
fn demote(bench: &Bench, lab: &str, code: i32) -> Value {
    let said = bench.latlab(&["streams", lab, "off", "--open", "--json"]);
    assert_eq!(said.code, code, "{said:#?}");
    let now = status(&said.out)["now"].clone();
    bench.latlab(&["streams", lab, "on"]).good();
    now
}

/// The end of a stream that is not accepted yet is the supervisor's; no process has one that is closed.
#[test]
fn unaccepted_and_half_closed_streams_become_plain_too() {
    const NAME: &str = "unaccepted_and_half_closed_streams_become_plain_too";
    enter(NAME, |bench| {
        for (manner, answers) in [("close", None), ("shut", Some("answer"))] {
            for moment in ["offered", "accepted", "both"] {
                let name = bench.deploy(&format!("{manner}-{moment}"), &lab("true", ""));
                let files = ["accept", "read"].map(|file| format!("/tmp/{file}"));
                let mut late = vec![LATE, &files[0], &files[1]];
                late.extend(answers);
                let server = start(bench, &name, "b", &late);
                let client = start(bench, &name, "a", &[EARLY, manner]);
                let make = |file: &str| bench.exec(&name, "b", &["touch", file]).good();
                await_line(&client, &["sent"]);
                let mut streams = 0;
                if moment != "accepted" {
                    streams += demote(bench, &name, 0)["streams"].as_u64().unwrap();
                }
                make(&files[0]);
                await_line(&server, &["accepted"]);
                if moment != "offered" {
                    streams += demote(bench, &name, 0)["streams"].as_u64().unwrap();
                }
                make(&files[1]);
                let said = await_line(&server, &["well"]);
                // SHA-256 of the numbers 0 to 255, a thousand times.
                let digest = "b57b64b198d5d59ce5a22a9b9f25e72a7d081476d432051aa923f3dbebb90934";
                assert!(said.contains(digest), "{manner} {moment}: {said}");
                await_line(&client, &["well"]);
                assert_eq!(streams, 1, "{manner} {moment}");
                bench.latlab(&["destroy", &name]).good();
            }
        }
        bench.assert_clean();
    });
}

#[test]
fn a_stream_under_a_debugger_and_those_of_other_nodes_stay() {
    const NAME: &str = "a_stream_under_a_debugger_and_those_of_other_nodes_stay";
    enter(NAME, |bench| {
        let name = bench.deploy("kept", &lab("true", ""));
        let files = ["accept", "read"].map(|file| format!("/tmp/{file}"));
        let server = start(bench, &name, "b", &[LATE, &files[0], &files[1], "answer"]);
        let client = start(bench, &name, "a", &[EARLY, "shut"]);
        let text = await_line(&client, &["sent"]);
        let process = text.lines().next().unwrap().to_owned();
        start(bench, &name, "a", &[DEBUGGER, &process, "3"]);
        let now = demote(bench, &name, 1);
        assert_eq!(
            now["kept"],
            serde_json::json!([["not-stopped", 1]]),
            "{now}"
        );
        let said = bench.latlab(&["streams", &name, "off", "--open"]);
        assert_eq!(said.code, 1, "{said:#?}");
        assert!(
            said.out.contains("1 stay streams: not-stopped"),
            "{said:#?}"
        );
        bench.latlab(&["streams", &name, "on"]).good();
        let refused = bench.latlab(&["streams", &name, "on", "--open"]);
        refused.refused(
            2,
            "`--open` goes with `off`",
            "connections become streams when they are made",
        );
        let refused = bench.latlab(&["streams", &name, "off", "--node", "c"]);
        refused.refused(2, "there is no node `c` with streams", "lists its nodes");
        let traced = [
            "grep",
            "-q",
            "TracerPid:.[1-9]",
            &format!("/proc/{process}/status"),
        ];
        until("the debugger is gone", || {
            bench.exec(&name, "a", &traced).code != 0
        });
        let one = bench.latlab(&["streams", &name, "off", "--open", "--node", "a", "--json"]);
        let one = status(&one.good().out);
        assert_eq!(one["now"]["streams"], 1, "{one}");
        assert_eq!(
            (&one["on"], &one["open"]),
            (&Value::Bool(true), &Value::from(0)),
            "{one}"
        );
        for file in &files {
            bench.exec(&name, "b", &["touch", file]).good();
        }
        await_line(&server, &["well"]);
        await_line(&client, &["well"]);
        bench.latlab(&["destroy", &name]).good();
        bench.assert_clean();
    });
}

#[test]
fn a_stream_of_a_paused_node_stays() {
    const NAME: &str = "a_stream_of_a_paused_node_stays";
    enter(NAME, |bench| {
        let name = bench.deploy("paused", &lab("true", ""));
        let files = ["accept", "read"].map(|file| format!("/tmp/{file}"));
        let server = start(bench, &name, "b", &[LATE, &files[0], &files[1], "answer"]);
        let client = start(bench, &name, "a", &[EARLY, "shut"]);
        await_line(&client, &["sent"]);
        bench.exec(&name, "b", &["touch", &files[0]]).good();
        await_line(&server, &["accepted"]);
        bench.latlab(&["pause", &name, "b"]).good();
        let now = demote(bench, &name, 1);
        assert_eq!(now["kept"], serde_json::json!([["paused", 1]]), "{now}");
        bench.latlab(&["resume", &name, "b"]).good();
        assert_eq!(demote(bench, &name, 0)["streams"], 1);
        bench.exec(&name, "b", &["touch", &files[1]]).good();
        await_line(&server, &["well"]);
        await_line(&client, &["well"]);
        bench.latlab(&["destroy", &name]).good();
        bench.assert_clean();
    });
}

/// Connects, and starts a program that first waits for a file: its parent cannot be stopped until then (vfork(2)).
const SPAWN: &str = "
import hashlib, os, socket, sys
conn = socket.create_connection(('10.1.0.2', 7000))
print(os.getpid(), flush=True)
print('ready', flush=True)
first = (os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)
child = os.posix_spawn('/bin/true', ['true'], {}, file_actions=[first])
assert os.waitpid(child, 0)[1] == 0
conn.sendall(b'there')
conn.shutdown(socket.SHUT_WR)
assert conn.recv(32, socket.MSG_WAITALL) == hashlib.sha256(b'there').digest()
print('well', flush=True)
";

#[test]
fn a_process_that_does_not_stop_in_time_goes_on() {
    const NAME: &str = "a_process_that_does_not_stop_in_time_goes_on";
    enter(NAME, |bench| {
        let name = bench.deploy("late", &lab("true", ""));
        let fifo = bench.root().join("fifo");
        let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let files = ["accept", "read"].map(|file| format!("/tmp/{file}"));
        for file in &files {
            bench.exec(&name, "b", &["touch", file]).good();
        }
        let server = start(bench, &name, "b", &[LATE, &files[0], &files[1], "answer"]);
        let path = fifo.display().to_string();
        let client = start(bench, &name, "a", &[SPAWN, &path]);
        await_line(&server, &["accepted"]);
        let text = fs::read_to_string(&client).unwrap();
        let process = format!("/proc/{}/status", text.lines().next().unwrap());
        let says = |what: &str| bench.exec(&name, "a", &["grep", "-q", what, &process]).code == 0;
        until("the program waits in the kernel", || says("State:.D"));
        let now = demote(bench, &name, 1);
        let kept = serde_json::json!([["not-stopped", 1]]);
        assert_eq!(now["kept"], kept, "{now}");
        assert!(says("TracerPid:.[1-9]"));
        let opened = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        await_line(&client, &["well"]);
        await_line(&server, &["well"]);
        drop(opened);
        bench.latlab(&["destroy", &name]).good();
        bench.assert_clean();
    });
}
