//! A directory of made-up runs and a server over it, spoken to as a browser does.

#![allow(dead_code)] // Each test file needs another part of it.

#[path = "../../../report/tests/synthetic/mod.rs"]
mod synthetic;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use latlab_explorer::{Server, Settings};
use latlab_model::results::{Manifest, Summary};
use latlab_samples::RunDir;
use serde_json::Value;
use synthetic::Plan;

/// Within this, also on a busy machine, a directory of few runs has been read.
const DEADLINE: Duration = Duration::from_secs(60);

pub struct Site {
    root: PathBuf,
    address: SocketAddr,
    token: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn plan() -> Plan {
    Plan {
        links: vec!["veth"],
        measurements: vec!["rr-udp", "stream-tcp"],
        samples: 1_000,
        ..Plan::small()
    }
}

/// The documents from which all runs are made.
fn base() -> (Manifest, Summary) {
    static BASE: OnceLock<(Manifest, Summary)> = OnceLock::new();
    let made = BASE.get_or_init(|| {
        let root =
            std::env::temp_dir().join(format!("latlab-explorer-base-{}", std::process::id()));
        let run = plan().write(&root);
        let summary = latlab_report::analyse(&run).unwrap().summary;
        let manifest = run.read_manifest().unwrap();
        std::fs::remove_dir_all(root).unwrap();
        (manifest, summary)
    });
    made.clone()
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

impl Site {
    /// An empty directory of runs, served.
    pub fn start() -> Self {
        Self::start_at([127, 0, 0, 1])
    }

    /// The same at another address of this machine.
    pub fn start_at(address: [u8; 4]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("latlab-explorer-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        std::fs::create_dir_all(root.join("runs")).unwrap();
        let mut site = Self {
            root,
            address: SocketAddr::from((address, 0)),
            token: String::new(),
            stop: Arc::default(),
            thread: None,
        };
        site.restart();
        site
    }

    /// A server anew on the same directory and index.
    pub fn restart(&mut self) {
        self.end();
        let server = Server::start(Settings {
            runs: self.runs(),
            cache: self.root.join("cache"),
            listen: SocketAddr::new(self.address.ip(), 0),
        });
        let server = server.unwrap();
        let url = server.url();
        let (address, token) = url
            .strip_prefix("http://")
            .unwrap()
            .split_once("/?token=")
            .unwrap();
        (self.address, self.token) = (address.parse().unwrap(), token.to_owned());
        let stop = Arc::new(AtomicBool::new(false));
        self.stop = Arc::clone(&stop);
        self.thread = Some(std::thread::spawn(move || server.serve(stop).unwrap()));
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    pub fn cache(&self) -> PathBuf {
        self.root.join("cache/explorer")
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// A whole run directory, samples included, at a place that is relative to that of the site: `runs/NAME` is served.
    pub fn measured(&self, place: &str, seed: u64) -> RunDir {
        let run = Plan { seed, ..plan() }.write(self.root.join(place));
        latlab_report::conclude(&run).unwrap();
        run
    }

    /// A run directory with a changed manifest and summary. Its identifier is its name.
    pub fn add(&self, path: &str, change: impl FnOnce(&mut Manifest, &mut Summary)) {
        let (mut manifest, mut summary) = base();
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        name.clone_into(&mut manifest.id);
        change(&mut manifest, &mut summary);
        summary.id.clone_from(&manifest.id);
        summary.study.clone_from(&manifest.study);
        let run = RunDir::create(self.runs().join(path)).unwrap();
        run.write_summary(&summary).unwrap();
        run.write_manifest(&manifest).unwrap();
    }

    /// An answer to the page that is logged in.
    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[("Cookie", &self.cookie())], "")
    }

    pub fn cookie(&self) -> String {
        format!("other=1; latlab-{}={}", self.port(), self.token)
    }

    pub fn put(&self, path: &str, body: &Value) -> Answer {
        let host = format!("http://{}", self.address);
        let headers = [
            ("Cookie", self.cookie()),
            ("Content-Type", "application/json".to_owned()),
            ("Origin", host),
        ];
        let headers = headers
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        self.request("PUT", path, &headers, &body.to_string())
    }

    /// One request and its answer. Without a `Host` among the headers it is the right one.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            text += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (headers, body) = answer.split_once("\r\n\r\n").unwrap();
        Answer {
            status: headers.split(' ').nth(1).unwrap().parse().unwrap(),
            headers: headers.to_lowercase(),
            body: body.to_owned(),
        }
    }

    /// The list, once all directories that are there have been read.
    pub fn list(&self, fields: &str) -> Value {
        self.list_when(fields, |list| {
            list["indexing"].is_null() && list["total"] == self.count()
        })
    }

    /// The list, once it is as wanted.
    pub fn list_when(&self, fields: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let answer = self.when(&format!("/api/runs?{fields}"), |answer| {
            assert_eq!(answer.status, 200, "{answer:?}");
            is_wanted(&answer.json())
        });
        answer.json()
    }

    /// An answer, once it is as wanted.
    pub fn when(&self, path: &str, is_wanted: impl Fn(&Answer) -> bool) -> Answer {
        let begin = Instant::now();
        loop {
            let answer = self.get(path);
            if is_wanted(&answer) {
                return answer;
            }
            assert!(begin.elapsed() < DEADLINE, "{answer:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn count(&self) -> usize {
        fn below(directory: &Path) -> usize {
            let children = std::fs::read_dir(directory)
                .unwrap()
                .map(|child| child.unwrap());
            let directories = children.filter(|child| child.file_type().unwrap().is_dir());
            directories
                .map(|child| match child.path().join("manifest.json").exists() {
                    true => 1,
                    false => below(&child.path()),
                })
                .sum()
        }
        below(&self.runs())
    }

    /// Paths of the runs that a query finds, in the order of the answer.
    pub fn find(&self, query: &str) -> Vec<String> {
        let list = self.list(&format!("sort=started&q={}", encoded(query)));
        let runs = list["runs"].as_array().unwrap().iter();
        runs.map(|run| run["path"].as_str().unwrap().to_owned())
            .collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.end();
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Percent-encoding of all but letters and digits.
pub fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Multiplies all latencies of the median.
pub fn slow_down(summary: &mut Summary, factor: f64) {
    for cell in &mut summary.cells {
        let quantiles = cell
            .latency
            .iter_mut()
            .flat_map(|latency| &mut latency.quantiles);
        for quantile in quantiles.filter(|quantile| quantile.p == 0.5) {
            quantile.value_ns = quantile.value_ns.map(|value| value * factor);
        }
    }
    for trial in &mut summary.trials {
        if let Some(spread) = &mut trial.spread_ns {
            spread.median *= factor;
        }
    }
}
