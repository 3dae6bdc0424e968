//! Hosts with a member of etcd, an overlay daemon and an agent of the fabric each, and frames between them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::cluster::{Cluster, address};
use super::common::{Bench, Said, finish, text, tool, until};

/// Sends frames of an experimental protocol (IEEE 802 Std 802-2014, 9.2.4) to addresses in turn: INTERFACE COUNT RATE
/// SOURCE ADDRESS…
const SEND: &str = r#"
import socket, sys, time
interface, count, rate, source, *addresses = sys.argv[1:]
octets = lambda address: bytes.fromhex(address.replace(":", ""))
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((interface, 0))
begin = time.monotonic()
for number in range(int(count)):
    time.sleep(max(0, begin + number / float(rate) - time.monotonic()))
    to = octets(addresses[number % len(addresses)])
    out.send(to + octets(source) + b"\x88\xb5" + number.to_bytes(4, "big") + bytes(42))
"#;

/// Writes the number of each such frame that comes in: INTERFACE FILE. The file is there when the first can come.
const RECEIVE: &str = r#"
import socket, sys
interface, file = sys.argv[1:]
arrived = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88b5))
arrived.bind((interface, 0x88b5))
arrived.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
with open(file, "w", buffering=1) as out:
    while True:
        frame, (_, _, kind, _, _) = arrived.recvfrom(2048)
        if kind != 4:
            print(int.from_bytes(frame[14:18], "big"), file=out)
"#;

/// Whether the installed etcd is one that latlab speaks with: 3.4 or later. Ubuntu 22.04 has 3.3.
pub fn is_new_enough() -> bool {
    let told = tool(&["etcd", "--version"]);
    let version = told.lines().next().unwrap_or_default();
    let numbers = version.trim_start_matches("etcd Version: ").split('.');
    let numbers: Vec<u32> = numbers.filter_map(|number| number.parse().ok()).collect();
    let is_enough = numbers >= vec![3, 4];
    if !is_enough {
        println!("skipped: latlab needs etcd 3.4, and this is {version}");
    }
    is_enough
}

pub struct Hosts<'b> {
    bench: &'b Bench,
    cluster: Cluster,
    /// By what they are and their host.
    processes: BTreeMap<(&'static str, usize), Child>,
}

impl<'b> Hosts<'b> {
    /// Three hosts with etcd and a daemon each. Each daemon has a tap `vm0` as interface `vm` of network `lan`, once its
    /// agent has joined.
    pub fn new(bench: &'b Bench) -> Hosts<'b> {
        let mut hosts = Hosts {
            bench,
            cluster: Cluster::new(bench, 3),
            processes: BTreeMap::new(),
        };
        for number in 1..=3 {
            hosts.boot_etcd(number);
            hosts.boot_daemon(number);
        }
        until("etcd has a leader", || {
            hosts.fabric(&["show", "f"]).err.contains("has no fabric")
        });
        hosts
    }

    fn file(&self, name: &str) -> PathBuf {
        self.bench.root().join("cluster").join(name)
    }

    fn start(&mut self, what: &'static str, number: usize, program: &mut Command) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.file(&format!("{what}{number}.log")))
            .unwrap();
        let child = program
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.processes.insert((what, number), child.unwrap());
    }

    /// Kills a process, and waits for its end.
    pub fn kill(&mut self, what: &'static str, number: usize) {
        let mut child = self.processes.remove(&(what, number)).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A program in a host's network.
    pub fn at(&self, number: usize, program: &str) -> Command {
        let network = self.cluster.network(&format!("n{number}"));
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={}", network.display()))
            .arg(program)
            .env("NO_COLOR", "1");
        command
    }

    pub fn boot_etcd(&mut self, number: usize) {
        let url = |of: usize, port: u16| format!("http://{}:{port}", address(of));
        let members: Vec<String> = (1..=3).map(|n| format!("m{n}={}", url(n, 2380))).collect();
        let mut command = self.at(number, "etcd");
        command.args(["--name", &format!("m{number}"), "--logger", "zap"]);
        command.args([
            "--data-dir",
            self.file(&format!("m{number}")).to_str().unwrap(),
        ]);
        for flag in ["--listen-client-urls", "--advertise-client-urls"] {
            command.args([flag, &url(number, 2379)]);
        }
        for flag in ["--listen-peer-urls", "--initial-advertise-peer-urls"] {
            command.args([flag, &url(number, 2380)]);
        }
        command.args(["--initial-cluster", &members.join(",")]);
        self.start("etcd", number, &mut command);
    }

    /// The member that leads.
    pub fn leader(&self) -> usize {
        let status = self.etcdctl(&["endpoint", "status", "--cluster", "--write-out=fields"]);
        let field = |line: &str, name: &str| {
            let value = line.strip_prefix(&format!("\"{name}\" : "))?;
            Some(value.trim_matches('"').to_owned())
        };
        let all = |name: &str| -> Vec<String> {
            status
                .lines()
                .filter_map(|line| field(line, name))
                .collect()
        };
        let (members, endpoints) = (all("MemberID"), all("Endpoint"));
        let leader = &all("Leader")[0];
        let at = members.iter().position(|id| id == leader).unwrap();
        (1..=3)
            .find(|number| endpoints[at].contains(&address(*number)))
            .unwrap()
    }

    /// etcd's own client, with the first member that answers.
    pub fn etcdctl(&self, words: &[&str]) -> String {
        let urls: Vec<String> = self.urls();
        let mut command = Command::new("etcdctl");
        command
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &urls.join(",")])
            .args(words);
        finish(&mut command).out
    }

    fn urls(&self) -> Vec<String> {
        (1..=3)
            .map(|number| format!("http://{}:2379", address(number)))
            .collect()
    }

    pub fn boot_daemon(&mut self, number: usize) {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_latlab")).with_file_name("latlab-overlay");
        let mut command = self.at(number, program.to_str().unwrap());
        command.args(["--control", &self.control(number)]);
        self.start("daemon", number, &mut command);
        until("the daemon answers", || self.say(number, "show").code == 0);
    }

    pub fn control(&self, number: usize) -> String {
        self.file(&format!("{number}.control"))
            .display()
            .to_string()
    }

    /// A line for a host's daemon.
    pub fn say(&self, number: usize, line: &str) -> Said {
        self.bench
            .latlab(&["overlay", "--control", &self.control(number), line])
    }

    /// `latlab fabric` with all members of etcd.
    pub fn fabric(&self, words: &[&str]) -> Said {
        let mut command = self.bench.command(&["fabric"]);
        command
            .args(words)
            .env("LATLAB_ETCD", self.urls().join(","));
        finish(&mut command)
    }

    /// The arguments of a host's agent.
    pub fn join_words(&self, number: usize, carrier: &str) -> Vec<String> {
        let (name, address, control) =
            (format!("n{number}"), address(number), self.control(number));
        let words = [
            "join",
            "f",
            "--host",
            &name,
            "--address",
            &address,
            "--carrier",
            carrier,
            "--control",
            &control,
        ];
        words.map(ToString::to_string).to_vec()
    }

    /// Joins a host to the fabric, and gives its daemon an interface.
    pub fn join(&mut self, number: usize, carrier: &str) {
        self.start_agent(number, carrier);
        until("the host has joined", || {
            self.told(number).contains("joined: ")
        });
        self.say(number, "add interface vm network lan tap vm0")
            .good();
        let mut up = self.at(number, "ip");
        finish(up.args(["link", "set", "vm0", "up"])).good();
    }

    pub fn start_agent(&mut self, number: usize, carrier: &str) {
        let mut command = self.at(number, env!("CARGO_BIN_EXE_latlab"));
        command
            .arg("fabric")
            .args(self.join_words(number, carrier))
            .args(["--network", "lan=7"])
            .env("LATLAB_ETCD", self.urls().join(","))
            // Each host has a key of its own.
            .env("LATLAB_STATE_DIR", self.file(&format!("state{number}")));
        self.start("agent", number, &mut command);
    }

    /// The lines of a host's agent.
    pub fn told(&self, number: usize) -> String {
        fs::read_to_string(self.file(&format!("agent{number}.log"))).unwrap_or_default()
    }

    /// Moves addresses; the revision.
    #[track_caller]
    pub fn relocate(&self, addresses: &[String], to: &str) -> u64 {
        let mut words = vec!["move", "f", "--to", to];
        words.extend(addresses.iter().map(String::as_str));
        let said = self.fabric(&words).good();
        let (_, revision) = said.out.trim().rsplit_once(' ').unwrap();
        revision.parse().unwrap()
    }

    /// The port and the revision of an address at a host's daemon.
    pub fn place(&self, number: usize, address: &str) -> String {
        let moves = self.say(number, "list moves").good().out;
        let line = moves.lines().find(|line| line.contains(address));
        line.unwrap_or_default()
            .trim_end_matches(" seen")
            .to_owned()
    }

    /// Waits until a host's daemon sends frames for an address there.
    #[track_caller]
    pub fn until_at(&self, number: usize, address: &str, port: &str, revision: u64) {
        let wanted = format!("lan {address} {port} revision {revision}");
        until(&format!("n{number}: {wanted}"), || {
            self.place(number, address) == wanted
        });
    }

    /// Separates a host from the members of etcd at others, and its own member from them; frames pass.
    pub fn cut(&self, number: usize) {
        let rules = "add table inet cut
            add chain inet cut in { type filter hook input priority 0; }
            add chain inet cut out { type filter hook output priority 0; }
            add rule inet cut in tcp dport { 2379, 2380 } drop
            add rule inet cut in tcp sport { 2379, 2380 } drop
            add rule inet cut out tcp dport { 2379, 2380 } drop";
        finish(self.at(number, "nft").arg(rules)).good();
    }

    pub fn heal(&self, number: usize) {
        finish(
            self.at(number, "nft")
                .args(["delete", "table", "inet", "cut"]),
        )
        .good();
    }

    /// Counts the frames that reach a host's interface from now on.
    pub fn receive(&mut self, number: usize) {
        let file = self.file(&format!("frames{number}"));
        fs::remove_file(&file).ok();
        let mut command = self.at(number, "python3");
        command.args(["-c", RECEIVE, "vm0"]).arg(&file);
        self.start("receiver", number, &mut command);
        until("the receiver is ready", || file.exists());
    }

    /// The numbers of the frames that have come, once no more do.
    pub fn received(&mut self, number: usize) -> Vec<u32> {
        let file = self.file(&format!("frames{number}"));
        let read = || text(&fs::read(&file).unwrap());
        let mut before = usize::MAX;
        until("the last frame", || {
            let count = read().len();
            std::thread::sleep(Duration::from_millis(500));
            std::mem::replace(&mut before, count) == count
        });
        self.kill("receiver", number);
        read().lines().map(|line| line.parse().unwrap()).collect()
    }

    /// A program that sends frames from a host's interface.
    pub fn sender(&self, number: usize, source: &str, count: usize, to: &[String]) -> Command {
        let mut command = self.at(number, "python3");
        command
            .args(["-c", SEND, "vm0", &count.to_string(), "2000", source])
            .args(to);
        command
    }

    #[track_caller]
    pub fn send(&self, number: usize, source: &str, count: usize, to: &[String]) {
        finish(&mut self.sender(number, source, count, to)).good();
    }
}

impl Drop for Hosts<'_> {
    fn drop(&mut self) {
        for process in self.processes.values_mut() {
            process.kill().ok();
            process.wait().ok();
        }
    }
}
