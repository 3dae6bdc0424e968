//! Streams in labs: sockets behave as over a plain link, also when a server accepts unseen and when the supervisor ends;
//! through the real binaries.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::streams::supervisor;
use common::{Bench, enter};
use latlab_host::sys::netns::NetNs;
use serde_json::Value;

/// Two nodes joined twice: by `eth0` with streams, by `eth1` plainly.
fn lab(kind: &str) -> String {
    format!(
        "name: NAME\ntopology:\n  nodes: {{a: {{kind: {kind}}}, b: {{kind: {kind}}}}}\n  links:\n    \
         - {{name: fast, type: overlay, streams: true, endpoints: [\"a:eth0\", \"b:eth0\"]}}\n    \
         - {{name: plain, type: overlay, endpoints: [\"a:eth1\", \"b:eth1\"]}}\n"
    )
}

/// The address of `b` on the link with streams.
const FAST: &str = "198.18.0.2";

/// The text of a program for both nodes.
const CASES: &str = include_str!("streams/cases.py");

fn status(bench: &Bench, lab: &str) -> Value {
    let text = bench.latlab(&["streams", lab, "--json"]).good().out;
    serde_json::from_str(&text).unwrap()
}

fn count(bench: &Bench, lab: &str, name: &str) -> u64 {
    status(bench, lab)[name].as_u64().unwrap()
}

/// Starts Python in a node that goes on, and waits until it is ready.
fn start_python(bench: &Bench, lab: &str, node: &str, arguments: &[&str]) {
    start_until(bench, lab, node, arguments, "ready");
}

/// Starts Python in a node that goes on; returns the file of its output, which has a line of this text by then.
fn start_until(bench: &Bench, lab: &str, node: &str, arguments: &[&str], wanted: &str) -> String {
    let mut command = vec!["exec", "--detach", lab, node, "--", "python3", "-u"];
    command.extend(arguments);
    let told = bench.latlab(&command).good().out;
    let output = told.lines().find_map(|line| line.strip_prefix("output "));
    let output = output.unwrap().to_owned();
    await_line(&output, wanted);
    output
}

fn await_line(file: &str, wanted: &str) {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text.lines().any(|line| line == wanted) {
            return;
        }
        assert!(Instant::now() < end, "{wanted} is not in {file}: {text}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a counter has a value.
fn await_count(bench: &Bench, lab: &str, name: &str, wanted: u64) {
    let end = Instant::now() + Duration::from_secs(10);
    while count(bench, lab, name) != wanted {
        assert!(Instant::now() < end, "{name}: {}", status(bench, lab));
        thread::sleep(Duration::from_millis(50));
    }
}

/// Lines of the two programs of each case, by the case's name.
fn transcripts(
    bench: &Bench,
    lab: &str,
    file: &str,
    control: &str,
    addresses: &[String; 2],
) -> Vec<Value> {
    let all = bench.exec(lab, "a", &["python3", file, "list"]).good().out;
    let [ipv4, ipv6] = addresses;
    let mut client = vec!["python3", file, "client", control, "19000", ipv4, ipv6];
    client.extend(all.lines().filter(|case| !WAITING.contains(case)));
    let said = bench.exec(lab, "a", &client).good().out;
    said.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// An address of node `b` on an interface; of IPv6 with `-6`.
fn address_of_b(bench: &Bench, lab: &str, family: &str, interface: &str) -> String {
    let show = [
        "ip", family, "-o", "addr", "show", "dev", interface, "scope", "global",
    ];
    let shown = bench.exec(lab, "b", &show).good().out;
    let mut words = shown.split_whitespace();
    let address = words.find(|word| word.contains('/'));
    let address = address.unwrap_or_else(|| panic!("{shown}"));
    address.split('/').next().unwrap().to_owned()
}

/// Cases in which an AF_UNIX socket is not as a TCP socket: `docs/guide/overlay.md` has them in words.
const DIFFERENCES: &[&str] = &[
    // The peer's name is known after both ends have closed.
    "names_v4",
    "names_v6",
    "names_mapped_server",
    "names_mapped_client",
    "names_bound",
    "names_after_reset",
    // The anchor's state is that of a connection until both have closed.
    "tcp_info_after_close",
    // POLLHUP comes when the peer has closed; a write fails at once then, with EPIPE.
    "epoll_hang_up",
    "epoll_accepted",
    "write_after_close_once",
    "blocked_send_reset",
    "shut_after_end",
    // sendto(2) with an address, SO_RCVLOWAT in poll(2), and descriptors.
    "send_nothing",
    "low_water_mark",
    "rights_over_tcp",
];

/// Cases that wait to their end over AF_UNIX, and are left out: SHUT_RD ends the peer's writing there, and MSG_ERRQUEUE is
/// not known.
const WAITING: &[&str] = &["shut_reading", "do_not_wait"];

/// Cases in which any exchanged socket differs: the file has another inode, and a segment of a loopback is larger than the
/// small buffers of one case.
const ALWAYS: &[&str] = &["descriptor_inode", "send_timeout"];

#[test]
fn sockets_behave_as_over_a_plain_link() {
    enter("sockets_behave_as_over_a_plain_link", |bench| {
        let mut sorts = vec![("container", "streams: true")];
        if common::whole() {
            sorts.extend([
                ("container", "streams: tcp"),
                // Each node has a host of its own, and a stream is TCP between these.
                ("container", "streams: true, carrier: vxlan"),
            ]);
        }
        for (number, (kind, streams)) in sorts.into_iter().enumerate() {
            let text = lab(kind).replace("streams: true", streams);
            let name = bench.deploy(&format!("{kind}-{number}"), &text);
            let file = cases_file(bench, &name, kind);
            start_python(bench, &name, "b", &[&file, "server", "0.0.0.0", "19000"]);
            let address = |family, interface| address_of_b(bench, &name, family, interface);
            let control = address("-4", "eth1");
            let over = |interface| {
                let addresses = [address("-4", interface), address("-6", interface)];
                transcripts(bench, &name, &file, &control, &addresses)
            };
            let plain = over("eth1");
            assert_eq!(count(bench, &name, "streams"), 0);
            let fast = over("eth0");
            assert_eq!(plain.len(), fast.len());
            assert!(plain.len() >= 60 + DIFFERENCES.len(), "{}", plain.len());
            let status = status(bench, &name);
            println!("{kind}, {streams}: {} cases, {status}", fast.len());
            let is_between = streams.contains("carrier");
            compare(&plain, &fast, !is_between && status["shadow"] == "unix");
            // The supervisor accepts connections over both links, so that they have the same is not enough.
            let full = fast
                .iter()
                .find(|case| case["case"] == "accept_without_descriptor");
            assert_eq!(
                full.unwrap()["server"],
                serde_json::json!(["EMFILE IN", "EMFILE IN"])
            );
            assert!(status["streams"].as_u64() > Some(500), "{status}");
            bench.latlab(&["destroy", &name]).good();
            bench.assert_clean();
        }
    });
}

/// Asserts that cases have the same lines over both links, but for those that differ between TCP and AF_UNIX.
fn compare(plain: &[Value], fast: &[Value], is_unix: bool) {
    let mut differences = Vec::new();
    for (plain, fast) in plain.iter().zip(fast) {
        let name = plain["case"].as_str().unwrap();
        let known = is_unix && DIFFERENCES.contains(&name) || ALWAYS.contains(&name);
        if plain != fast && !known {
            differences.push(format!("plain   {plain}\nstreams {fast}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Puts the program where a node sees it.
fn cases_file(bench: &Bench, lab: &str, kind: &str) -> String {
    if kind == "native" {
        let file = bench.root().join("cases.py");
        std::fs::write(&file, CASES).unwrap();
        return file.display().to_string();
    }
    for node in ["a", "b"] {
        let write = "import sys; open('/tmp/cases.py', 'w').write(sys.argv[1])";
        bench
            .exec(lab, node, &["python3", "-c", write, CASES])
            .good();
    }
    "/tmp/cases.py".into()
}

/// Answers each connection with the digest of what came, then with as many bytes, each end said apart.
const DIGEST: &str = "
import hashlib, socket, sys, threading
def serve(conn):
    digest, count = hashlib.sha256(), 0
    while data := conn.recv(1 << 16):
        digest.update(data)
        count += len(data)
    conn.sendall(digest.digest() + b'y' * count)
    conn.close()
port = int(sys.argv[2]) if sys.argv[2:] else 7000
listener = socket.create_server((sys.argv[1], port))
print('ready', flush=True)
while True:
    conn = listener.accept()[0]
    threading.Thread(target=serve, args=(conn,)).start()
";

/// The server with other lines in the place of the one that listens.
fn listening_by(lines: &str) -> String {
    const LISTENS: &str = "listener = socket.create_server((sys.argv[1], port))";
    assert!(DIGEST.contains(LISTENS));
    DIGEST.replace(LISTENS, lines)
}

/// Sends bytes in pieces, ends, and checks what comes back.
const SEND: &str = "
import hashlib, socket, sys, time
port = int(sys.argv[4]) if sys.argv[4:] else 7000
conn = socket.create_connection((sys.argv[1], port), 20)
print('connected', flush=True)
digest = hashlib.sha256()
for piece in range(int(sys.argv[2])):
    data = bytes([piece % 251]) * 10000
    conn.sendall(data)
    digest.update(data)
    time.sleep(float(sys.argv[3]))
conn.shutdown(socket.SHUT_WR)
back = b''
while data := conn.recv(1 << 16):
    back += data
assert back[:32] == digest.digest(), 'other bytes'
assert len(back) == 32 + 10000 * int(sys.argv[2]), len(back)
print('well')
";

#[test]
fn a_supervisor_that_ends_leaves_streams_open_and_new_connections_plain() {
    enter(
        "a_supervisor_that_ends_leaves_streams_open_and_new_connections_plain",
        |bench| {
            let name = bench.deploy("ends", &lab("container"));
            start_python(bench, &name, "b", &["-c", DIGEST, "0.0.0.0"]);
            let slow = ["-c", SEND, FAST, "100", "0.02"];
            let output = start_until(bench, &name, "a", &slow, "connected");
            await_count(bench, &name, "streams", 1);
            let supervisor = supervisor(&name, bench);
            // The server waits in accept at this moment: its call was held by the process that ends.
            rustix::process::kill_process(supervisor, rustix::process::Signal::KILL).unwrap();
            let quick = ["python3", "-c", SEND, FAST, "10", "0"];
            let begin = Instant::now();
            let said = bench.exec(&name, "a", &quick).good().out;
            assert_eq!(said, "connected\nwell\n");
            assert!(begin.elapsed() < Duration::from_secs(5));
            await_line(&output, "well");
            bench.latlab(&["streams", &name]).refused(
                2,
                "cannot connect to",
                "did its supervisor end?",
            );
            bench.latlab(&["destroy", &name]).good();
            bench.assert_clean();
        },
    );
}

/// Listens, and hands the listening socket to a program that connects at a path.
const LENDER: &str = "
import socket, sys, time
listener = socket.create_server((sys.argv[1], 7000))
at = socket.socket(socket.AF_UNIX)
at.bind(sys.argv[2])
at.listen()
print('ready', flush=True)
socket.send_fds(at.accept()[0], [b'x'], [listener.fileno()])
time.sleep(60)
";

/// Sends from `a` to the server in `b`, and asserts that the stream had a relay.
fn assert_one_is_relayed(bench: &Bench, name: &str) {
    let send = ["python3", "-c", SEND, FAST, "300", "0"];
    assert_eq!(bench.exec(name, "a", &send).good().out, "connected\nwell\n");
    let status = status(bench, name);
    assert_eq!(
        (&status["streams"], &status["relayed"]),
        (&1.into(), &1.into()),
        "{status}"
    );
}

#[test]
fn a_server_that_accepts_unseen_is_served_by_a_relay() {
    enter(
        "a_server_that_accepts_unseen_is_served_by_a_relay",
        |bench| {
            let name = bench.deploy("unseen", &lab("native"));
            let path = bench.root().join("lender").display().to_string();
            start_python(bench, &name, "b", &["-c", LENDER, FAST, &path]);
            // Not in a node, so under no filter.
            let taker = listening_by(
                "at = socket.socket(socket.AF_UNIX)\nat.connect(sys.argv[1])\n\
                 fds = socket.recv_fds(at, 1, 1)[1]\nlistener = socket.socket(fileno=fds[0])",
            );
            let mut taker = Background::start(&["-u", "-c", &taker, &path]);
            assert_one_is_relayed(bench, &name);
            await_count(bench, &name, "open", 0);
            taker.end();
            bench.latlab(&["destroy", &name]).good();
            bench.assert_clean();
        },
    );
}

#[test]
fn a_server_behind_translated_addresses_is_served_by_a_relay() {
    const NAME: &str = "a_server_behind_translated_addresses_is_served_by_a_relay";
    enter(NAME, |bench| {
        let name = bench.deploy("translated", &lab("native"));
        // Connections to the first port come to the second one, as those of a proxy beside a server do.
        for port in ["7000", "7001"] {
            start_python(bench, &name, "b", &["-c", DIGEST, "0.0.0.0", port]);
        }
        let rules = "table ip proxy { chain in { type nat hook prerouting priority dstnat; \
                     tcp dport 7000 redirect to :7001; }; }";
        bench.exec(&name, "b", &["nft", rules]).good();
        assert_one_is_relayed(bench, &name);
        bench.latlab(&["destroy", &name]).good();
        bench.assert_clean();
    });
}

/// Dissolves a connection while another descriptor has it, which is found; then while one is under way, which is not.
const DISSOLVE: &str = "
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def told(result):
    print('done' if result == 0 else os.strerror(ctypes.get_errno()))
def dissolve(number):
    told(libc.connect(number, bytes(16), 16))
conn = socket.create_connection((sys.argv[1], 7000), 20)
other = os.dup(conn.fileno())
dissolve(conn.fileno())
os.close(other)
near, far = socket.socketpair()
socket.send_fds(near, [b'x'], [conn.fileno()])
dissolve(conn.fileno())
other = socket.recv_fds(far, 1, 1)[1][0]
dissolve(other)
told(libc.listen(other, 1))
";

#[test]
fn no_program_has_a_socket_of_its_own_where_shadows_are() {
    enter(
        "no_program_has_a_socket_of_its_own_where_shadows_are",
        |bench| {
            for (name, streams) in [
                ("within", "streams: tcp"),
                ("between", "streams: true, carrier: vxlan"),
            ] {
                let text = lab("container").replace("streams: true", streams);
                let name = bench.deploy(name, &text);
                start_python(bench, &name, "b", &["-c", DIGEST, "0.0.0.0"]);
                let address = address_of_b(bench, &name, "-4", "eth0");
                let said = python_with(bench, &name, "a", DISSOLVE, &[&address]).good();
                assert_eq!(count(bench, &name, "streams"), 1);
                let refused = "Invalid argument";
                let said: Vec<&str> = said.out.lines().collect();
                assert_eq!(said, [refused, "done", refused, refused]);
                bench.latlab(&["destroy", &name]).good();
            }
            bench.assert_clean();
        },
    );
}

/// A Python program beside the nodes.
struct Background(Child);

impl Background {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new("python3");
        command.args(arguments).stdin(Stdio::null());
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }

    fn end(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn a_server_of_multipath_tcp_has_streams() {
    enter("a_server_of_multipath_tcp_has_streams", |bench| {
        if !Path::new("/proc/sys/net/mptcp").exists() {
            println!("skipped: this kernel has no Multipath TCP (CONFIG_MPTCP)");
            return;
        }
        let name = bench.deploy("multipath", &lab("container"));
        // As Go's servers listen, with the protocol's number (IPPROTO_MPTCP).
        let server = listening_by(
            "listener = socket.socket(proto=262)\nlistener.bind((sys.argv[1], 7000))\n\
             listener.listen()",
        );
        start_python(bench, &name, "b", &["-c", &server, "0.0.0.0"]);
        let send = ["python3", "-c", SEND, FAST, "10", "0"];
        assert_eq!(
            bench.exec(&name, "a", &send).good().out,
            "connected\nwell\n"
        );
        assert_eq!(count(bench, &name, "streams"), 1);
        bench.latlab(&["destroy", &name]).good();
        bench.assert_clean();
    });
}

#[test]
fn what_the_filter_cannot_see_stays_plain() {
    enter("what_the_filter_cannot_see_stays_plain", |bench| {
        let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
        if disabled.is_ok_and(|value| value.trim() != "0") {
            println!("skipped: this machine lets no program have an io_uring");
            return;
        }
        let name = bench.deploy("plain", &lab("native"));
        // io_uring_setup(2), which containers may not call.
        let ring = format!(
            "import ctypes\nring = ctypes.CDLL(None, use_errno=True).syscall(425, 1, ctypes.create_string_buffer(120))\n\
             assert ring >= 0, ctypes.get_errno()\n{DIGEST}"
        );
        start_python(bench, &name, "b", &["-c", &ring, "0.0.0.0"]);
        let send = ["python3", "-c", SEND, FAST, "10", "0"];
        assert_eq!(
            bench.exec(&name, "a", &send).good().out,
            "connected\nwell\n"
        );
        let status = status(bench, &name);
        assert_eq!(status["streams"], 0, "{status}");
        assert_eq!(status["plain"], serde_json::json!([["no-listener", 1]]));
        bench.latlab(&["destroy", &name]).good();
        bench.assert_clean();
    });
}

#[test]
fn streams_are_switched_off_and_on() {
    enter("streams_are_switched_off_and_on", |bench| {
        let name = bench.deploy("switch", &lab("container"));
        start_python(bench, &name, "b", &["-c", DIGEST, "0.0.0.0"]);
        let send = ["python3", "-c", SEND, FAST, "10", "0"];
        for (switch, streams) in [("off", 0), ("on", 1)] {
            bench.latlab(&["streams", &name, switch]).good();
            bench.exec(&name, "a", &send).good();
            assert_eq!(count(bench, &name, "streams"), streams, "{switch}");
        }
        let shown = bench.latlab(&["streams", &name]).good().out;
        assert!(shown.contains("plain: off"), "{shown}");
        // Closed ones are forgotten, and keep no port: the plain one has an end in TIME_WAIT, the stream has none.
        await_count(bench, &name, "open", 0);
        let waiting = |node: &str| {
            let show = ["sh", "-c", "grep -c ' 06 ' /proc/net/tcp || true"];
            let said = bench.exec(&name, node, &show).good().out;
            said.trim().parse::<u32>().unwrap()
        };
        assert_eq!(waiting("a") + waiting("b"), 1);
        let graph = bench.latlab(&["graph", &name]).good().out;
        assert!(graph.contains("streams"), "{graph}");
        bench.latlab(&["destroy", &name]).good();
        let plain = lab("container").replace("streams: true, ", "");
        let name = bench.deploy("without", &plain);
        let said = bench.latlab(&["streams", &name]);
        said.refused(2, "no link of lab", "`streams: true`");
        bench.latlab(&["destroy", &name]).good();
        bench.assert_clean();
    });
}

#[test]
fn a_closed_stream_between_hosts_keeps_no_port_of_theirs() {
    const NAME: &str = "a_closed_stream_between_hosts_keeps_no_port_of_theirs";
    enter(NAME, |bench| {
        let far = lab("container").replace("streams: true", "streams: true, carrier: vxlan");
        let name = bench.deploy("far", &far);
        start_python(bench, &name, "b", &["-c", DIGEST, "0.0.0.0"]);
        let address = address_of_b(bench, &name, "-4", "eth0");
        for _ in 0..3 {
            let send = ["python3", "-c", SEND, &address, "1", "0"];
            bench.exec(&name, "a", &send).good();
        }
        await_count(bench, &name, "open", 0);
        assert_eq!(count(bench, &name, "streams"), 3);
        let waiting = |host: &str| {
            let netns = NetNs::open(&bench.run_dir().join(&name).join("netns").join(host)).unwrap();
            let sockets = netns.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp"));
            sockets.unwrap().unwrap().matches(" 06 ").count()
        };
        assert_eq!(waiting("@fast.0") + waiting("@fast.1"), 0);
        bench.latlab(&["destroy", &name]).good();
        bench.assert_clean();
    });
}

#[test]
fn a_port_is_switched_by_itself() {
    enter("a_port_is_switched_by_itself", |bench| {
        let name = bench.deploy("port", &lab("container"));
        start_python(bench, &name, "b", &["-c", DIGEST, "0.0.0.0"]);
        let send = ["python3", "-c", SEND, FAST, "10", "0"];
        let mut connections = 0;
        // The words, whether the port has a choice of its own then, and all streams.
        let steps: [(&[&str], Option<bool>, u64); 5] = [
            (&["off", "--port", "7000,7001"], Some(false), 0),
            (&["on", "--port", "7000"], Some(true), 1),
            (&["off"], None, 1),
            (&["on", "--port", "7000", "--node", "b"], Some(true), 2),
            (&["off", "--port", "7000", "--open"], Some(false), 2),
        ];
        for (words, on, streams) in steps {
            bench.latlab(&[&["streams", &name], words].concat()).good();
            bench.exec(&name, "a", &send).good();
            connections += 1;
            let status = status(bench, &name);
            let port = &status["ports"][0];
            let expected = serde_json::json!({"node": "b", "port": 7000, "connections": connections, "streams": streams});
            for (key, value) in expected.as_object().unwrap() {
                assert_eq!(&port[key], value, "{words:?}: {status}");
            }
            assert_eq!(port["on"].as_bool(), on, "{words:?}: {status}");
        }
        let shown = bench.latlab(&["streams", &name]).good().out;
        assert!(shown.contains("SERVER"), "{shown}");
        for words in [
            &["--port", "7000"][..],
            &["off", "--port", "0"],
            &["off", "--port", "70000"],
            &["off", "--port", "http"],
        ] {
            let said = bench.latlab(&[&["streams", &name], words].concat());
            assert_eq!(said.code, 2, "{said:#?}");
        }
        bench.latlab(&["destroy", &name]).good();

        let named =
            lab("container").replace("streams: true", "streams: true, stream_ports: [7001]");
        let name = bench.deploy("named", &named);
        for port in ["7000", "7001"] {
            start_python(bench, &name, "b", &["-c", DIGEST, "0.0.0.0", port]);
        }
        let steps: [(&[&str], &str, u64); 4] = [
            (&[], "7000", 0),
            (&[], "7001", 1),
            (&["on"], "7000", 1),
            (&["on", "--port", "7000"], "7000", 2),
        ];
        for (words, port, streams) in steps {
            bench.latlab(&[&["streams", &name], words].concat()).good();
            bench
                .exec(&name, "a", &[&send[..], &[port]].concat())
                .good();
            let counted = count(bench, &name, "streams");
            assert_eq!(counted, streams, "{words:?} {port}");
        }
        let graph = bench.latlab(&["graph", &name]).good().out;
        assert!(graph.contains("streams to ports 7001"), "{graph}");
        bench.latlab(&["destroy", &name]).good();
        bench.assert_clean();
    });
}

/// Tries to pass a descriptor to the other node, after it tried to allow that.
const PASS: &str = "
import os, socket, sys
conn = socket.create_connection((sys.argv[1], 7000), 20)
def error(action):
    try:
        action()
        return 'done'
    except OSError as error:
        return os.strerror(error.errno)
print(error(lambda: conn.setsockopt(socket.SOL_SOCKET, 83, 1)))
print(error(lambda: socket.send_fds(conn, [b'x'], [0])))
print(error(lambda: conn.setsockopt(6, 31, b'tls')))
print(error(lambda: conn.setsockopt(0, 64, b'x' * 200)))
";

#[test]
fn nothing_but_bytes_passes_between_containers() {
    enter("nothing_but_bytes_passes_between_containers", |bench| {
        let name = bench.deploy("bytes", &lab("container"));
        start_python(bench, &name, "b", &["-c", DIGEST, "0.0.0.0"]);
        let said = python_with(bench, &name, "a", PASS, &[FAST]).good().out;
        let said: Vec<&str> = said.lines().collect();
        assert_eq!(count(bench, &name, "streams"), 1);
        let shadow = status(bench, &name)["shadow"].clone();
        assert_ne!(said[0], "done", "{said:?}");
        if shadow == "unix" {
            assert_eq!(said[1], "Operation not permitted", "{said:?}");
        }
        // Kernel TLS would encrypt what the anchor never sends; netfilter's tables hold pointers.
        assert_eq!(said[2..], ["Protocol not available"; 2], "{said:?}");
        bench.latlab(&["destroy", &name]).good();
        bench.assert_clean();
    });
}

fn python_with(
    bench: &Bench,
    lab: &str,
    node: &str,
    program: &str,
    arguments: &[&str],
) -> common::Said {
    let mut command = vec!["python3", "-c", program];
    command.extend(arguments);
    bench.exec(lab, node, &command)
}
