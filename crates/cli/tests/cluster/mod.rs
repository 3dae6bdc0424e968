//! Several hosts on one machine, with a real Slurm or with ssh. Each node has a network, mount, process and host name of its own, so that labs of
//! one name do not meet.

// Each program that includes this module uses a part of it.
#![allow(dead_code)]

pub mod labs;
mod ssh;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::common::{Bench, namespaces, text, tool, until, world};

const CONTROLLER: &str = "10.77.0.1";

/// A machine for latlab; all that runs in it ends with it.
pub struct Node {
    name: String,
    process: Child,
}

pub struct Cluster {
    root: PathBuf,
    /// Number of nodes.
    size: usize,
    nodes: Vec<Node>,
    daemons: Vec<Child>,
}

impl Cluster {
    /// The network of nodes n1, n2, …, with a directory for their files; nothing runs in them yet.
    pub fn new(bench: &Bench, nodes: usize) -> Cluster {
        let root = bench.root().join("cluster");
        fs::create_dir_all(root.join("saved")).unwrap();
        // slurmctld looks for its own name in the configuration.
        tool(&["hostname", "controller"]);
        // A connection to an own address goes through loopback.
        tool(&["ip", "link", "set", "lo", "up"]);
        // An address beside loopback, without which getaddrinfo finds none of the names (AI_ADDRCONFIG).
        tool(&["ip", "link", "add", "lan0", "type", "bridge"]);
        tool(&[
            "ip",
            "address",
            "add",
            &format!("{CONTROLLER}/24"),
            "dev",
            "lan0",
        ]);
        tool(&["ip", "link", "set", "lan0", "up"]);
        let cluster = Cluster {
            root,
            size: nodes,
            nodes: Vec::new(),
            daemons: Vec::new(),
        };
        for number in 1..=nodes {
            let network = cluster.network(&name(number));
            namespaces::pin_network(&network);
            let (outside, path) = (format!("lan{number}"), network.to_str().unwrap());
            let link = [
                "ip", "link", "add", &outside, "type", "veth", "peer", "name", "lan0",
            ];
            tool(&[&link[..], &["netns", path]].concat());
            tool(&["ip", "link", "set", &outside, "master", "lan0", "up"]);
            let inside = format!(
                "ip link set lo up; ip link set lan0 up; ip address add {}/24 dev lan0",
                address(number)
            );
            tool(&["nsenter", &format!("--net={path}"), "sh", "-ec", &inside]);
        }
        cluster
    }

    /// latlab as the nodes have it: it sees no cgroups, because all nodes share one tree.
    pub fn latlab(&self) -> String {
        let path = self.root.join("latlab");
        let program = env!("CARGO_BIN_EXE_latlab");
        let script = format!(
            "#!/bin/sh\n\
             exec unshare --mount sh -ec 'umount -l /sys/fs/cgroup/* /sys/fs/cgroup 2>/dev/null || true; exec \"$@\"' sh \\\n  \
             {program} \"$@\"\n"
        );
        fs::write(&path, script).unwrap();
        tool(&["chmod", "755", path.to_str().unwrap()]);
        path.display().to_string()
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn network(&self, node: &str) -> PathBuf {
        self.root.join(format!("{node}.net"))
    }

    /// Starts a program as the only service of a node.
    pub fn boot(&mut self, bench: &Bench, number: usize, program: &[&str]) {
        let (name, root) = (name(number), bench.root().display());
        // The shell stays, because the first process of a machine waits for those that have lost their parent.
        let setup = format!(
            "hostname {name}; mkdir -p {root}/state {root}/run; mount -t tmpfs tmpfs {root}/state; mount -t tmpfs tmpfs {root}/run; \
             mount -t tmpfs tmpfs /run; mkdir /run/sshd; \"$@\""
        );
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.root.join(format!("{name}.out")))
            .unwrap();
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={}", self.network(&name).display()))
            .args([
                "unshare",
                "--mount",
                "--pid",
                "--uts",
                "--ipc",
                "--fork",
                "--kill-child",
            ])
            .args(["--mount-proc", "sh", "-ec", &setup, "sh"])
            .args(program)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let process = command.spawn().unwrap();
        self.nodes.push(Node { name, process });
    }

    /// Cuts a node's power: everything in it is killed.
    pub fn cut(&mut self, number: usize) {
        let name = name(number);
        let index = self
            .nodes
            .iter()
            .position(|node| node.name == name)
            .unwrap();
        let mut node = self.nodes.swap_remove(index);
        // The kernel kills one process after another, and those left would tell what became of the others.
        let namespace = |pid: u32, of: &str| fs::read_link(format!("/proc/{pid}/ns/{of}")).ok();
        let own = namespace(node.process.id(), "pid_for_children").unwrap();
        for pid in world::processes() {
            if namespace(pid, "pid").as_ref() == Some(&own) {
                let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
                // A process may have ended by itself.
                let _ = kill_process(pid, Signal::STOP);
            }
        }
        // `unshare --kill-child`: the first process of the node ends with this one, and the node with that.
        node.process.kill().unwrap();
        node.process.wait().unwrap();
    }

    /// Whether a node ended by itself, as one does that reboots. It can be booted again then.
    pub fn has_ended(&mut self, number: usize) -> bool {
        let name = name(number);
        let mut nodes = self.nodes.iter_mut();
        let Some(index) = nodes.position(|node| node.name == name) else {
            return true;
        };
        let has_ended = self.nodes[index].process.try_wait().unwrap().is_some();
        if has_ended {
            self.nodes.swap_remove(index);
        }
        has_ended
    }

    /// Starts munge, slurmctld, and slurmd on each node; waits until all nodes are idle.
    pub fn start_slurm(&mut self, bench: &Bench, nodes: usize) {
        fs::write(self.root.join("slurm.conf"), self.configuration(nodes)).unwrap();
        let path = |name: &str| self.root.join(name).display().to_string();
        fs::write(self.root.join("munge.key"), [7; 64]).unwrap();
        tool(&["chmod", "600", &path("munge.key")]);
        let munged = Command::new("munged")
            .args(["--foreground", "--force", "--num-threads=2"])
            .arg(format!("--socket={}", path("munge.socket")))
            .arg(format!("--key-file={}", path("munge.key")))
            .arg(format!("--pid-file={}", path("munge.pid")))
            .arg(format!("--log-file={}", path("munge.log")))
            .arg(format!("--seed-file={}", path("munge.seed")))
            .spawn();
        self.daemons.push(munged.unwrap());
        until("munge", || self.root.join("munge.socket").exists());
        let controller = Command::new("slurmctld")
            .args(["-D", "-f", &path("slurm.conf")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.daemons.push(controller.unwrap());
        for number in 1..=nodes {
            self.boot_slurmd(bench, number);
        }
        until("the nodes", || self.idle() == nodes);
    }

    pub fn boot_slurmd(&mut self, bench: &Bench, number: usize) {
        let configuration = self.root.join("slurm.conf").display().to_string();
        let name = name(number);
        self.boot(
            bench,
            number,
            &["slurmd", "-D", "-N", &name, "-f", &configuration],
        );
    }

    /// Number of nodes that wait for work.
    pub fn idle(&self) -> usize {
        let listed = self
            .command("sinfo")
            .args(["--noheader", "--Node", "--format=%t"])
            .output();
        let listed = text(&listed.unwrap().stdout);
        listed
            .lines()
            .filter(|state| state.trim() == "idle")
            .count()
    }

    /// Lets all tasks that wait for a time start now.
    pub fn start_now(&self) {
        let mut queue = self.command("squeue");
        let waiting = queue
            .args(["--noheader", "--array", "--states=PENDING", "--format=%A"])
            .output();
        for job in text(&waiting.unwrap().stdout).lines() {
            let words = ["update", &format!("JobId={job}"), "StartTime=now"];
            self.command("scontrol").args(words).output().unwrap();
        }
    }

    /// A command that finds this cluster.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.root.join("slurm.conf"));
        command
    }

    fn configuration(&self, nodes: usize) -> String {
        let root = self.root.display();
        let mut text = format!(
            "ClusterName=test\n\
             SlurmctldHost=controller({CONTROLLER})\n\
             AuthType=auth/munge\n\
             AuthInfo=socket={root}/munge.socket\n\
             SlurmUser=root\n\
             SlurmdUser=root\n\
             StateSaveLocation={root}/saved\n\
             SlurmdSpoolDir={root}/spool-%n\n\
             SlurmctldPidFile={root}/slurmctld.pid\n\
             SlurmdPidFile={root}/%n.pid\n\
             SlurmctldLogFile={root}/slurmctld.log\n\
             SlurmdLogFile={root}/%n.log\n\
             ProctrackType=proctrack/linuxproc\n\
             SelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\n\
             SlurmdParameters=config_overrides\n\
             ReturnToService=2\n\
             SchedulerParameters=sched_min_interval=10000\n\
             SlurmdTimeout=10\n\
             KillWait=5\n\
             PartitionName=lab Nodes=ALL Default=YES OverSubscribe=EXCLUSIVE State=UP\n"
        );
        for number in 1..=nodes {
            let (name, address) = (name(number), address(number));
            text += &format!(
                "NodeName={name} NodeAddr={address} NodeHostname={name} CPUs=1 State=UNKNOWN\n"
            );
        }
        text
    }
}

/// The cluster is gone before the bench looks for leftovers.
impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let bench = self.root.parent().unwrap_or(&self.root).display();
            let files = format!(
                "tail -n 30 {}/*.log {}/*.out {bench}/runs/*/logs/*",
                self.root.display(),
                self.root.display()
            );
            let told = Command::new("sh").args(["-c", &files]).output();
            eprintln!(
                "{}",
                told.map(|told| text(&told.stdout)).unwrap_or_default()
            );
        }
        let nodes = self.nodes.iter_mut().map(|node| &mut node.process);
        for process in nodes.chain(&mut self.daemons) {
            process.kill().ok();
            process.wait().ok();
        }
        // A node's end of a cable goes with this one at once, with its namespace only some time later.
        for number in 1..=self.size {
            let cable = format!("lan{number}");
            let words = ["link", "delete", "dev", &cable];
            Command::new("ip").args(words).status().ok();
            let network = self.network(&name(number));
            Command::new("umount").arg(network).status().ok();
        }
        for words in [
            ["link", "delete", "dev", "lan0"],
            ["link", "set", "lo", "down"],
        ] {
            Command::new("ip").args(words).status().ok();
        }
    }
}

fn name(number: usize) -> String {
    format!("n{number}")
}

pub fn address(number: usize) -> String {
    format!("10.77.0.{}", 10 + number)
}
