//! Containers that are kept or moved by a real CRIU, and a connection to one that must not notice.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;
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

/// A CRIU that does what a file says: `fail` of a restore, `kill-VERB SECONDS` after that time, `log dump` into a pipe,
/// `wait-VERB` until it is in a good mood.
pub struct MoodyCriu<'b> {
    bench: &'b Bench,
    directory: PathBuf,
}

impl MoodyCriu<'_> {
    pub fn new(bench: &Bench) -> MoodyCriu<'_> {
        let tool = borrowed::find(Tool::Criu, Dirs::from_env().cache()).unwrap();
        let words = [tool.program.as_os_str()].into_iter();
        let words = words.chain(tool.arguments.iter().map(AsRef::as_ref));
        let words = words.map(|word| format!("'{}'", word.to_string_lossy()));
        let real = words.collect::<Vec<_>>().join(" ");
        let directory = bench.root().join("moody");
        fs::create_dir_all(&directory).unwrap();
        let script = format!(
            "#!/bin/sh
cd {directory}
read mood time < mood
case \"$mood $1\" in
\"fail restore\") echo no >&2; exit 1;;
\"kill $1\"*|\"kill-$1 $1\") ( (sleep $time; kill -9 $$) & );;
\"wait-$1 $1\") until grep -q good mood; do sleep 0.01; done;;
\"log dump\") for word; do case $word in */criu-dump.log) ln -s $PWD/log $word;; esac; done;;
esac
exec {real} \"$@\"
",
            directory = directory.display()
        );
        let program = directory.join("criu");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let criu = MoodyCriu { bench, directory };
        criu.set("good");
        criu
    }

    pub fn set(&self, mood: &str) {
        fs::write(self.directory.join("mood"), format!("{mood}\n")).unwrap();
    }

    /// A latlab that finds this CRIU.
    pub fn command(&self, words: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.directory.display());
        let mut command = self.bench.command(words);
        command.env("PATH", path);
        command.env("LATLAB_CACHE_DIR", self.bench.root().join("cache"));
        command
    }

    /// Has the next dump write its log into a pipe.
    pub fn next_dump_log(&self) -> DumpLog {
        let path = self.directory.join("log");
        super::tool(&["mkfifo", path.to_str().unwrap()]);
        let mut open = File::options();
        let open = open.read(true).custom_flags(libc::O_NONBLOCK);
        let pipe = open.open(&path).unwrap();
        // The kernel makes it a page.
        rustix::pipe::fcntl_setpipe_size(&pipe, 1).unwrap();
        self.set("log");
        DumpLog { path, pipe }
    }
}

/// The log of a dump as a pipe. CRIU cannot be further than a page of text from what was read of it, so no moment of a
/// dump passes too quickly for a test.
pub struct DumpLog {
    path: PathBuf,
    pipe: File,
}

impl DumpLog {
    /// Stops the CRIU that has the server's connections in repair mode, and dumps the memory of [`fill`].
    pub fn stop_in_repair(mut self) -> Process {
        let mut text = Vec::new();
        until("CRIU dumps the memory", || {
            let mut next = [0; 512];
            // The pipe has no writer yet, or is empty.
            let count = self.pipe.read(&mut next).unwrap_or(0);
            text.extend_from_slice(&next[..count]);
            let text = String::from_utf8_lossy(&text);
            let of_memory = text.split_once("comm: sh)").unwrap_or_default().1;
            of_memory.contains("Transferring pages")
        });
        let criu = only("criu-dump.log").expect("CRIU has ended");
        assert!(criu.signal(Signal::STOP).unwrap());
        // latlab reads the log of a CRIU that fails: a pipe would have no end for it.
        fs::remove_file(&self.path).unwrap();
        // A CRIU that goes on must not wait for a reader.
        std::thread::spawn(move || {
            let mut rest = [0; 4096];
            while !matches!(self.pipe.read(&mut rest), Ok(0)) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        until("CRIU stands still", || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", criu.id().pid));
            let stat = stat.expect("CRIU has ended");
            stat.rsplit_once(") ").unwrap().1.starts_with(['T', 't'])
        });
        assert!(is_in_repair(), "the moment has gone");
        criu
    }
}

/// Whether a connection of the server's is in repair mode.
pub fn is_in_repair() -> bool {
    !tcp_repair::in_repair(&only("agent\0echo").expect("one server")).is_empty()
}

/// The process with this in its command line.
fn only(what: &str) -> Option<Process> {
    let is_it = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
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
