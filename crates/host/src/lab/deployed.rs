//! A lab that is up: its nodes, commands in them, their clocks and CPU time.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use latlab_model::plan::{NodePlan, Plan};
use latlab_model::results::NodeStart;
use latlab_model::state::{LabState, NodeState};

use super::error::Error;
use super::limits::limits;
use super::machine::{agent, groups};
use super::state::{process_of, read_state, state_of};
use crate::cgroup::{Cgroups, CpuUsage, NodeCgroup};
use crate::dirs::Dirs;
use crate::journal::{Claim, Journal};
use crate::links;
use crate::nodes::session::{self, Command, Detached, Session};
use crate::nodes::vm::channels::Channels;
use crate::nodes::vm::clock::ClockOffset;
use crate::nodes::{self, Node, driver_of};
use crate::streams;
use crate::sync;
use crate::sys;
use crate::sys::file::{self, Lock};
use crate::sys::netns::NetNs;
use crate::sys::proc;
use crate::sys::process::{self, Process, ProcessId};

/// How long a lab may be in the hands of another latlab before one gives up.
pub(super) const CLAIM_TIMEOUT: Duration = Duration::from_secs(20);

/// A lab that is up.
pub struct Lab {
    pub(super) dirs: Dirs,
    pub(super) state: LabState,
    pub(super) agent: PathBuf,
    /// The machine's hierarchies, read when they are first asked for: a lab that only ends has no use for them.
    pub(super) groups: OnceLock<Cgroups>,
    /// The nodes' processes as they are now; those of `state` are of the deployment.
    pub(super) processes: Mutex<Vec<NodeState>>,
    /// Channels into guests, opened when first needed and shared by all sessions.
    pub(super) channels: Channels,
    /// While it is made or unmade.
    pub(super) claim: Option<Claim>,
    /// The starts of its containers and VMs, if it was deployed by this process.
    pub(super) starts: Vec<NodeStart>,
    /// Memory that the host had available before it was made, if this process deployed it.
    pub(super) available_before: Option<u64>,
}

impl Lab {
    /// Opens a lab that another latlab deployed. Fails when there is none of that name, or it is not up.
    pub fn open(dirs: &Dirs, name: &str) -> Result<Lab, Error> {
        let state = read_state(dirs, name)?;
        let not_up = |what| Error::not_up(name, what);
        let state = state.ok_or_else(|| not_up("half-made"))?;
        if state.boot_id != proc::boot_id()? {
            return Err(not_up("gone since the host was booted"));
        }
        if !state.ready {
            return Err(not_up("half-made"));
        }
        Ok(Lab {
            dirs: dirs.clone(),
            processes: Mutex::new(state.nodes.clone()),
            state,
            agent: agent()?,
            groups: OnceLock::new(),
            channels: Channels::default(),
            claim: None,
            starts: Vec::new(),
            available_before: None,
        })
    }

    /// How long its containers and VMs took to start, in the order in which they were ready; of a lab that this process
    /// deployed.
    pub fn starts(&self) -> &[NodeStart] {
        &self.starts
    }

    pub fn plan(&self) -> &Plan {
        &self.state.plan
    }

    pub(super) fn node(&self, name: &str) -> Result<(usize, &NodePlan), Error> {
        let nodes = self.state.plan.nodes.iter();
        let found = nodes.clone().enumerate().find(|(_, n)| n.name == name);
        found.ok_or_else(|| Error::NoNode {
            lab: self.state.lab.clone(),
            node: name.to_string(),
            nodes: nodes.map(|n| n.name.clone()).collect(),
        })
    }

    /// The network namespace that a node's interfaces are in; a VM's have none on the host. Fails when there is no
    /// such node, or its namespace has gone.
    pub fn netns(&self, node: &str) -> Result<NetNs, Error> {
        let (_, plan) = self.node(node)?;
        let netns = if plan.kind().is_host() {
            NetNs::current()
        } else {
            NetNs::open(&self.dirs.namespaces(&self.state.lab).join(node))
        };
        netns.map_err(|source| self.unusable(node, source.into()))
    }

    /// Fails when there is no such node.
    pub fn check_name(&self, node: &str) -> Result<(), Error> {
        self.node(node).map(drop)
    }

    /// The processes in which a node's programs run, by their numbers on the host: a guest's is QEMU's. None of a
    /// node that is the host itself. Fails when there is no such node, or its namespace has gone.
    pub fn processes(&self, node: &str) -> Result<Vec<u32>, Error> {
        let (index, plan) = self.node(node)?;
        if plan.kind().is_host() {
            return Ok(Vec::new());
        }
        let first = self.process(index).map(Process::open).transpose();
        let first = first.map_err(|source| self.unusable(node, source.into()))?;
        let first = first.flatten().map(|process| process.id().pid);
        let mut all: Vec<u32> = first.into_iter().collect();
        if !plan.kind().is_guest() {
            let netns = self.netns(node)?.inode();
            let netns = netns.map_err(|source| self.unusable(node, source.into()))?;
            all.extend(proc::in_network(netns));
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// A node that cannot be used, or a command that cannot be run in it.
    pub fn unusable(&self, node: &str, source: session::Error) -> Error {
        Error::Start {
            node: node.to_string(),
            dir: self.dirs.node(&self.state.lab, node),
            source: source.into(),
        }
    }

    /// Starts a command inside a node, whatever its kind. Fails when the lab has no such node, the node is not
    /// reachable, or it has no such program.
    pub fn start(&self, node: &str, command: &Command) -> Result<Box<dyn Session>, Error> {
        self.command(node, command, |running, command| {
            driver_of(&running.plan.body).exec(running, command)
        })
    }

    /// Starts a command inside a node that runs until it ends or its node does, not only as long as this latlab. Fails as
    /// [`start`](Self::start) does, and for kinds of nodes that cannot.
    pub fn detach(&self, node: &str, command: &Command) -> Result<Detached, Error> {
        self.command(node, command, |running, command| {
            driver_of(&running.plan.body).detach(running, command)
        })
    }

    fn command<T>(
        &self,
        node: &str,
        command: &Command,
        start: impl FnOnce(&Node<'_>, &Command) -> Result<T, session::Error>,
    ) -> Result<T, Error> {
        let (_, plan) = self.node(node)?;
        self.check_goes_on(node)?;
        // Processes in a guest end with the guest.
        let _shared = if plan.kind().is_guest() {
            None
        } else {
            self.share()?
        };
        let mut command = command.clone();
        for (name, value) in &plan.env {
            command
                .env
                .entry(name.clone())
                .or_insert_with(|| value.clone());
        }
        let running = self.with_group(node)?;
        for (name, value) in nodes::dpdk::environment(&running) {
            command.env.entry(name).or_insert(value);
        }
        start(&running, &command).map_err(|source| self.unusable(node, source))
    }

    /// A node as its driver sees it, without its cgroup.
    pub(super) fn running(&self, node: &str) -> Result<Node<'_>, Error> {
        let (index, plan) = self.node(node)?;
        Ok(Node {
            plan,
            lab_id: &self.state.id,
            dir: self.node_dir(node, self.node_state(index).moves),
            storage: self.dirs.storage(&self.state.lab).join(node),
            netns: self.dirs.namespaces(&self.state.lab).join(node),
            names: &self.plan().names,
            hosts: self.dirs.hosts(&self.state.lab).join(node),
            labs: self.dirs.run_root(),
            agent: &self.agent,
            cache: self.dirs.cache(),
            process: self.process(index),
            cgroup: None,
            streams: self
                .plan()
                .has_streams(plan)
                .then(|| self.dirs.streams(&self.state.lab)),
            devices: links::port_devices(self.plan(), index),
            sockets: links::port_sockets(self.plan(), index, &self.dirs.run(&self.state.lab)),
            channels: &self.channels,
        })
    }

    /// A node as its driver sees it, with its cgroup if it is one of the host: a native node gets that with its first use.
    pub(super) fn with_group(&self, node: &str) -> Result<Node<'_>, Error> {
        let mut running = self.running(node)?;
        if !running.plan.kind().is_guest() {
            running.cgroup = self.group(running.plan)?;
        }
        Ok(running)
    }

    /// Asks the supervisor of its streams. Fails when no link of it has streams, or the supervisor has ended.
    pub fn streams(&self) -> Result<streams::Client, Error> {
        if !streams::has_streams(self.plan()) {
            return Err(Error::NoStreams(self.state.lab.clone()));
        }
        Ok(streams::Client::connect(
            &self.dirs.streams(&self.state.lab),
        )?)
    }

    /// Keeps others from unmaking the lab, unless it is being made or unmade by us.
    pub(super) fn share(&self) -> Result<Option<Claim>, Error> {
        if self.claim.is_some() {
            return Ok(None);
        }
        let claim = Claim::existing(&self.dirs, &self.state.lab, false, CLAIM_TIMEOUT)?;
        self.same(claim).map(Some)
    }

    /// The claim, if it is one of this deployment.
    fn same(&self, claim: Option<Claim>) -> Result<Claim, Error> {
        let same = Journal::id(&self.dirs, &self.state.lab).as_ref() == Some(&self.state.id);
        let claim = claim.filter(|_| same);
        claim.ok_or_else(|| Error::NoLab(self.state.lab.clone()))
    }

    pub fn agent(&self, node: &str) -> String {
        match self.node(node) {
            Ok((_, plan)) => driver_of(&plan.body).agent(&self.agent),
            Err(_) => self.agent.display().to_string(),
        }
    }

    /// The agent's file in a node, for programs inside to run.
    pub fn agent_file(&self, node: &str) -> String {
        match self.node(node) {
            Ok((_, plan)) => driver_of(&plan.body).agent_file(&self.agent),
            Err(_) => self.agent.display().to_string(),
        }
    }

    /// A directory in a node for the files of a program: in memory, where `/run` of the host is. It is not made, and
    /// goes with the node.
    pub fn scratch(&self, node: &str) -> String {
        let dir = self.dirs.node(&self.state.lab, node);
        match self.node(node) {
            Ok((_, plan)) => driver_of(&plan.body).scratch(&dir),
            Err(_) => dir.display().to_string(),
        }
    }

    /// A name for a directory of a node's among those of others, unique for this deployment.
    pub fn scratch_name(&self, node: &str) -> String {
        format!("latlab-{}-{node}", self.state.id)
    }

    /// Compares a node's clock with the host's; `None` when it is the host's. Fails when a guest does not answer.
    pub fn clock(&self, node: &str) -> Result<Option<ClockOffset>, Error> {
        let running = self.running(node)?;
        driver_of(&running.plan.body)
            .clock(&running)
            .map_err(|source| self.unusable(node, source))
    }

    /// CPU time that a node has used, in nanoseconds; `None` where nothing counts it.
    pub fn node_cpu_ns(&self, node: &str) -> Option<u64> {
        let (_, plan) = self.node(node).ok()?;
        let usage: CpuUsage = self.cgroup(plan).ok()?.cpu_usage().ok()?;
        Some(usage.total_ns)
    }

    /// CPU time that all its nodes have used; `None` where nothing counts it.
    pub fn cpu_ns(&self) -> Option<u64> {
        let nodes = self.state.plan.nodes.iter().filter(|n| !n.kind().is_host());
        // A node whose group was not needed yet has used nothing.
        let used: Vec<u64> = nodes.filter_map(|n| self.node_cpu_ns(&n.name)).collect();
        (!used.is_empty()).then(|| used.iter().sum())
    }

    /// The numbers of its processes that are known by their environment: of nodes, and of what stands beside them, as the
    /// daemons of overlays.
    pub fn labelled(&self) -> Vec<u32> {
        let all = process::labelled(&self.state.id).unwrap_or_default();
        all.iter().map(|process| process.id().pid).collect()
    }

    pub(super) fn process(&self, index: usize) -> Option<ProcessId> {
        process_of(sync::lock(&self.processes).get(index)?)
    }

    /// Notes that a node has another process now, and what else `change` notes.
    pub(super) fn replace_process(
        &self,
        index: usize,
        process: Option<ProcessId>,
        change: impl FnOnce(&mut NodeState),
    ) -> Result<(), Error> {
        if let Some(state) = sync::lock(&self.processes).get_mut(index) {
            let now = state_of(process);
            (state.pid, state.start_time) = (now.pid, now.start_time);
            change(state);
        }
        self.save()
    }

    /// A node's state as it is now.
    pub(super) fn node_state(&self, index: usize) -> NodeState {
        let states = sync::lock(&self.processes);
        states.get(index).cloned().unwrap_or_default()
    }

    /// The node on whose hosts another one is: itself, until it moves.
    pub(super) fn host_of(&self, index: usize) -> usize {
        let host = self.node_state(index).host;
        let mut nodes = self.state.plan.nodes.iter();
        let found = host.and_then(|host| nodes.position(|node| node.name == host));
        found.unwrap_or(index)
    }

    /// The directory of a node. Each move of a VM changes between two, since both QEMUs need one at the same time; a
    /// container stays in its own.
    pub(super) fn node_dir(&self, node: &str, moves: u32) -> PathBuf {
        let dir = self.dirs.node(&self.state.lab, node);
        let is_guest = |(_, plan): (usize, &NodePlan)| plan.kind().is_guest();
        if moves % 2 == 0 || !self.node(node).is_ok_and(is_guest) {
            dir
        } else {
            dir.join("moved")
        }
    }

    /// Writes the state with the processes as they are now.
    pub(super) fn save(&self) -> Result<(), Error> {
        let mut state = self.state.clone();
        state.nodes.clone_from(&sync::lock(&self.processes));
        let text = serde_json::to_vec(&state).expect("a state is plain data");
        let path = self.dirs.state(&self.state.lab);
        // Not made durable: after a power failure the lab is gone anyway, and the journal is what
        // removes it.
        let new = path.with_extension("new");
        // The file holds the nodes' environments, so its mode matters; that of an old file would stay.
        let open = || {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&new)
        };
        let renamed = file::remove(&new)
            .and_then(|()| open()?.write_all(&text))
            .and_then(|()| fs::rename(&new, &path));
        Ok(renamed.map_err(sys::Error::of("write", path.display()))?)
    }

    /// Keeps all others from the lab, while a node of it is replaced.
    pub(super) fn claim_alone(&self) -> Result<Claim, Error> {
        let claim = Claim::existing(&self.dirs, &self.state.lab, true, CLAIM_TIMEOUT)?;
        let claim = self.same(claim)?;
        self.look_again()?;
        Ok(claim)
    }

    /// Reads the nodes' processes: another latlab may have replaced one since this one looked.
    pub(super) fn look_again(&self) -> Result<(), Error> {
        if let Some(state) = read_state(&self.dirs, &self.state.lab)? {
            *sync::lock(&self.processes) = state.nodes;
        }
        Ok(())
    }

    /// The group of a node on the host, made with the first use of a native one.
    fn group(&self, node: &NodePlan) -> Result<Option<NodeCgroup>, Error> {
        if node.kind().properties().has_process {
            return self.cgroup(node).map(Some);
        }
        self.group_for_commands(node)
    }

    pub(super) fn groups(&self) -> Result<&Cgroups, Error> {
        if let Some(known) = self.groups.get() {
            return Ok(known);
        }
        let found = groups()?;
        Ok(self.groups.get_or_init(|| found))
    }

    pub(super) fn cgroup(&self, node: &NodePlan) -> Result<NodeCgroup, Error> {
        let failed = Error::of_cgroup(&node.name);
        let dirs = self
            .groups()?
            .dirs(&self.state.lab, &node.name, &limits(&self.state.plan, node))
            .map_err(&failed)?;
        NodeCgroup::from_dirs(dirs).map_err(failed)
    }

    /// The group of a native node, made with its first command: most nodes of a large lab never run
    /// one. Its directories are in the journal since the deployment. A file says that it is whole:
    /// a latlab that was killed while making it leaves a group without its limits.
    fn group_for_commands(&self, node: &NodePlan) -> Result<Option<NodeCgroup>, Error> {
        let failed = Error::of_cgroup(&node.name);
        let group = self.cgroup(node)?;
        if group.dirs().is_empty() {
            return Ok(None);
        }
        let made = self.dirs.groups(&self.state.lab);
        let whole = made.join(&node.name);
        if !whole.exists() {
            fs::create_dir_all(&made).map_err(sys::Error::of("create", made.display()))?;
            // Two first commands at once: the second finds it whole.
            let _one_at_a_time = Lock::take(&made.join(".lock"), CLAIM_TIMEOUT)?;
            if !whole.exists() {
                group.remove().map_err(&failed)?;
                let limits = limits(&self.state.plan, node);
                let made = self.groups()?.create(&self.state.lab, &node.name, &limits);
                made.map_err(&failed)?;
                fs::write(&whole, "").map_err(sys::Error::of("create", whole.display()))?;
            }
        }
        Ok(Some(group))
    }
}
