//! Containers that are kept or moved by a real CRIU, and a connection to one that must not notice.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use latlab_host::borrowed::{self, Tool};
use latlab_host::dirs::Dirs;
use latlab_host::sys::netns::NetNs;
use latlab_host::sys::process::Process;
use latlab_host::sys::tcp_repair;
use rustix::process::Signal;

use super::{Bench, TIMEOUT, until};

const PORT: u16 = 7777;

/// Runs a test where CRIU works.
pub fn enter(name: &str, body: impl FnOnce(&Bench)) {
    let cache = Dirs::from_env().cache().to_owned();
    if !rustix::process::geteuid().is_root() {
        return super::enter(name, body);
    }
    if std::env::var_os("LATLAB_TEST_INSIDE").is_none() {
        if let Err(error) = borrowed::get(Tool::Criu, &cache, &mut |_| ()) {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            eprintln!("{name} skipped: {error}");
            return;
        }
    }
    super::enter(name, |bench| {
        let agent = super::namespaces::agent();
        let tool = borrowed::find(Tool::Criu, &cache).unwrap();
        let verdict = borrowed::prove(&tool, &agent, &cache).unwrap();
        if verdict.works {
            body(bench);
        } else {
            eprintln!("{name} skipped: {}", verdict.reason);
        }
    });
}

/// Has the agent send back what a connection sends.
pub fn start_echo(bench: &Bench, lab: &str) {
    let port = PORT.to_string();
    let echo = [
        "exec",
        "--detach",
        lab,
        "server",
        "--",
        "/run/latlab/agent",
        "echo",
        &port,
    ];
    let said = bench.latlab(&echo).good();
    assert!(said.out.starts_with("pid "), "{said:?}");
}

/// Gives the server memory that takes CRIU a while to dump, after the connections.
pub fn fill(bench: &Bench, lab: &str) {
    let script = "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo >/tmp/filled; sleep 6000";
    let words = ["exec", "--detach", lab, "server", "--", "sh", "-c", script];
    bench.latlab(&words).good();
    until("the memory is filled", || {
        let test = ["test", "-e", "/tmp/filled"];
        bench.exec(lab, "server", &test).code == 0
    });
}

/// The CRIU that dumps the memory of [`fill`] and has the server's connections in repair mode. It stands still.
pub fn stop_in_repair(bench: &Bench, lab: &str) -> Process {
    let log = bench.run_dir().join(lab).join("nodes/server/criu-dump.log");
    let mut found = None;
    until("CRIU dumps", || {
        found = only("criu-dump.log");
        found.is_some()
    });
    let criu = found.unwrap();
    // Looked at while it stands still: however slow this machine is, the moment does not pass meanwhile.
    until("CRIU dumps the memory", || {
        assert!(criu.signal(Signal::STOP).unwrap());
        until("CRIU stands still", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", criu.id().pid));
            let stat = stat.expect("CRIU has ended");
            stat.rsplit_once(") ").unwrap().1.starts_with(['T', 't'])
        });
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        let memory = log.split_once("comm: sh)").unwrap_or_default().1;
        let is_so = memory.contains("Transferring pages");
        assert!(is_so || criu.signal(Signal::CONT).unwrap());
        is_so
    });
    assert!(is_in_repair(), "the moment has gone");
    criu
}

/// Whether a connection of the server's is in repair mode.
pub fn is_in_repair() -> bool {
    !tcp_repair::in_repair(&only("agent\0echo").expect("one server")).is_empty()
}

/// The process with this in its command line.
fn only(what: &str) -> Option<Process> {
    let is_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(what)
    };
    let mut found = super::world::processes().into_iter().filter(is_it);
    let pid = found.next().filter(|_| found.next().is_none())?;
    Process::of_pid(pid).unwrap()
}

/// Numbers sent to the server one after the other, and taken back in their order.
pub struct Traffic {
    sent: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
    /// The longest time between two numbers that came back, in nanoseconds.
    silence: Arc<AtomicU64>,
    enough: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    pub fn start(bench: &Bench, lab: &str) -> Traffic {
        let row = row(bench, lab, "server");
        let address = row["ipv4_address"].as_str().unwrap();
        let (address, _) = address.split_once('/').unwrap();
        let netns = NetNs::open(&bench.run_dir().join(lab).join("netns/client")).unwrap();
        let to = format!("{address}:{PORT}");
        let mut stream = None;
        until("a connection", || {
            stream = netns.run(|| TcpStream::connect(&to)).unwrap().ok();
            stream.is_some()
        });
        let (mut from, mut to) = (
            stream.as_ref().unwrap().try_clone().unwrap(),
            stream.unwrap(),
        );
        for stream in [&from, &to] {
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        }
        let (sent, received) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (enough, silence) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let writer = {
            let (sent, enough) = (sent.clone(), enough.clone());
            std::thread::spawn(move || {
                while !enough.load(Ordering::Relaxed) {
                    let number = sent.load(Ordering::Relaxed);
                    to.write_all(&number.to_be_bytes()).unwrap();
                    sent.store(number + 1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(1));
                }
                to.shutdown(std::net::Shutdown::Write).unwrap();
            })
        };
        let reader = {
            let (received, silence) = (received.clone(), silence.clone());
            std::thread::spawn(move || {
                let (mut number, mut last) = ([0; 8], Instant::now());
                while from.read_exact(&mut number).is_ok() {
                    let nanoseconds = last.elapsed().as_nanos() as u64;
                    silence.fetch_max(nanoseconds, Ordering::Relaxed);
                    last = Instant::now();
                    let expected = received.load(Ordering::Relaxed);
                    assert_eq!(u64::from_be_bytes(number), expected);
                    received.store(expected + 1, Ordering::Relaxed);
                }
            })
        };
        Traffic {
            sent,
            received,
            silence,
            enough,
            threads: vec![writer, reader],
        }
    }

    /// Waits for `count` more numbers.
    #[track_caller]
    pub fn goes_on(&self, count: u64) {
        let before = self.received.load(Ordering::Relaxed);
        until("numbers come back", || {
            self.received.load(Ordering::Relaxed) >= before + count
        });
    }

    /// The longest silence since the last question.
    pub fn silence(&self) -> Duration {
        Duration::from_nanos(self.silence.swap(0, Ordering::Relaxed))
    }

    /// Every number has come back, once.
    pub fn end(self) {
        self.enough.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        assert_eq!(count(&self.sent), count(&self.received));
    }
}

pub fn row(bench: &Bench, lab: &str, node: &str) -> serde_json::Value {
    let said = bench.latlab(&["inspect", lab, "--format", "json"]).good();
    let rows: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let rows = rows[lab].as_array().unwrap();
    rows.iter().find(|row| row["name"] == node).unwrap().clone()
}

pub fn state_of(bench: &Bench, lab: &str, node: &str) -> (String, u64) {
    let row = row(bench, lab, node);
    let pid = row["pid"].as_u64().unwrap_or(0);
    (row["state"].as_str().unwrap().to_owned(), pid)
}
