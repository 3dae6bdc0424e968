//! A lab that is up: its nodes, commands in them, their clocks and CPU time.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use latlab_model::kinds::NodeKind;
use latlab_model::plan::{NodePlan, Plan};
use latlab_model::state::LabState;

use super::error::Error;
use super::limits::limits;
use super::machine::{agent, groups};
use super::state::read_state;
use crate::cgroup::{Cgroups, CpuUsage, NodeCgroup};
use crate::dirs::Dirs;
use crate::journal::{Claim, Journal};
use crate::nodes::container::Container;
use crate::nodes::native::Native;
use crate::nodes::session::{self, Command, Session};
use crate::nodes::vm::Vm;
use crate::nodes::vm::channel::{Channel, exec_of};
use crate::nodes::vm::clock::{self, ClockOffset};
use crate::sys::file::Lock;
use crate::sys::netns::NetNs;
use crate::sys::proc;
use crate::sys::process::ProcessId;

/// Where the agent is inside containers.
const AGENT_IN_CONTAINER: &str = "/run/latlab/agent";
/// The agent's name for its own binary in a guest.
const AGENT_IN_GUEST: &str = "latlab-agent";

/// The reason for a node of a lab that was kept although it failed.
const NEVER_CAME_UP: &str = "it did not come up when the lab was deployed";

/// How long a lab may be in the hands of another latlab before one gives up.
pub(super) const CLAIM_TIMEOUT: Duration = Duration::from_secs(20);

/// Configuring a guest: naming interfaces and adding addresses.
pub(super) const NETWORK_TIMEOUT: Duration = Duration::from_secs(30);

/// A lab that is up.
pub struct Lab {
    pub(super) dirs: Dirs,
    pub(super) state: LabState,
    pub(super) agent: PathBuf,
    pub(super) groups: Cgroups,
    /// Channels into guests, opened when first needed and shared by all sessions.
    pub(super) channels: Mutex<BTreeMap<String, Channel>>,
    /// While it is made or unmade.
    pub(super) claim: Option<Claim>,
}

impl Lab {
    /// Opens a lab that another latlab deployed.
    ///
    /// # Errors
    /// When there is none of that name, or it is not up.
    pub fn open(dirs: &Dirs, name: &str) -> Result<Lab, Error> {
        let state = read_state(dirs, name)?;
        let not_up = |what| Error::NotUp {
            lab: name.to_string(),
            what,
        };
        let state = state.ok_or_else(|| not_up("half-made"))?;
        if state.boot_id != proc::boot_id()? {
            return Err(not_up("gone since the host was booted"));
        }
        if !state.ready {
            return Err(not_up("half-made"));
        }
        Ok(Lab {
            dirs: dirs.clone(),
            state,
            agent: agent()?,
            groups: groups()?,
            channels: Mutex::default(),
            claim: None,
        })
    }

    /// The plan it was made from.
    pub fn plan(&self) -> &Plan {
        &self.state.plan
    }

    pub(super) fn node(&self, name: &str) -> Result<(usize, &NodePlan), Error> {
        let found = self
            .state
            .plan
            .nodes
            .iter()
            .enumerate()
            .find(|(_, n)| n.name == name);
        found.ok_or_else(|| Error::NoNode {
            lab: self.state.lab.clone(),
            node: name.to_string(),
            nodes: self
                .state
                .plan
                .nodes
                .iter()
                .map(|n| n.name.clone())
                .collect(),
        })
    }

    /// The network namespace that a node's interfaces are in; a VM's have none on the host.
    ///
    /// # Errors
    /// When there is no such node, or its namespace has gone.
    pub fn netns(&self, node: &str) -> Result<NetNs, Error> {
        let (_, plan) = self.node(node)?;
        let netns = match plan.kind {
            NodeKind::Host => NetNs::current(),
            _ => NetNs::open(&self.dirs.namespaces(&self.state.lab).join(node)),
        };
        netns.map_err(|source| self.unusable(node, source.into()))
    }

    /// A node that cannot be used, or a command that cannot be run in it.
    pub fn unusable(&self, node: &str, source: session::Error) -> Error {
        Error::Start {
            node: node.to_string(),
            dir: self.dirs.node(&self.state.lab, node),
            source: source.into(),
        }
    }

    /// Starts a command inside a node, whatever its kind.
    ///
    /// # Errors
    /// When the lab has no such node, the node is not reachable, or it has no such program.
    pub fn start(&self, node: &str, command: &Command) -> Result<Box<dyn Session>, Error> {
        let (index, plan) = self.node(node)?;
        // Processes in a guest end with the guest.
        let _shared = match plan.kind {
            NodeKind::Vm => None,
            _ => self.share()?,
        };
        let failed = |source| self.unusable(node, source);
        let mut command = command.clone();
        for (name, value) in &plan.env {
            command
                .env
                .entry(name.clone())
                .or_insert_with(|| value.clone());
        }
        match plan.kind {
            NodeKind::Native | NodeKind::Host => {
                let own = plan.kind == NodeKind::Native;
                let native = Native {
                    lab_id: self.state.id.clone(),
                    netns: own.then(|| self.dirs.namespaces(&self.state.lab).join(node)),
                    names: own.then(|| self.native_names(node)).transpose()?,
                    cgroup: self.group_for_commands(plan)?,
                };
                Ok(Box::new(native.start(&command).map_err(failed)?))
            }
            NodeKind::Container => {
                let container = Container {
                    lab_id: self.state.id.clone(),
                    dir: self.dirs.node(&self.state.lab, node),
                    agent: self.agent.clone(),
                    process: self
                        .process(index)
                        .ok_or_else(|| failed(session::Error::Other(NEVER_CAME_UP.into())))?,
                    cgroup: self.cgroup(plan)?,
                };
                let session = container.start(&command).map_err(|e| failed(e.into()))?;
                Ok(Box::new(session))
            }
            NodeKind::Vm => {
                let channel = self.channel(node)?;
                let session = channel
                    .exec(exec_of(&command))
                    .map_err(|e| failed(e.into()))?;
                Ok(Box::new(session))
            }
        }
    }

    /// Keeps others from unmaking the lab, unless it is being made or unmade by us.
    fn share(&self) -> Result<Option<Claim>, Error> {
        if self.claim.is_some() {
            return Ok(None);
        }
        let claim = Claim::existing(&self.dirs, &self.state.lab, false, CLAIM_TIMEOUT)?;
        let same = Journal::id(&self.dirs, &self.state.lab).as_ref() == Some(&self.state.id);
        match claim.filter(|_| same) {
            Some(claim) => Ok(Some(claim)),
            None => Err(Error::NoLab(self.state.lab.clone())),
        }
    }

    /// The agent's path inside a node.
    pub fn agent(&self, node: &str) -> String {
        match self.node(node).map(|(_, n)| n.kind) {
            Ok(NodeKind::Container) => AGENT_IN_CONTAINER.to_string(),
            Ok(NodeKind::Vm) => AGENT_IN_GUEST.to_string(),
            _ => self.agent.display().to_string(),
        }
    }

    /// Compares a node's clock with the host's; `None` when it is the host's.
    ///
    /// # Errors
    /// When a guest does not answer.
    pub fn clock(&self, node: &str) -> Result<Option<ClockOffset>, Error> {
        if self.node(node)?.1.kind != NodeKind::Vm {
            return Ok(None);
        }
        let failed = |source| self.unusable(node, source);
        let dir = self.dirs.node(&self.state.lab, node);
        let channel = self.channel(node)?;
        clock::exchange(&dir, &channel)
            .map(Some)
            .map_err(|e| failed(e.into()))
    }

    /// CPU time that a node has used, in nanoseconds; `None` where nothing counts it.
    pub fn node_cpu_ns(&self, node: &str) -> Option<u64> {
        let (_, plan) = self.node(node).ok()?;
        let usage: CpuUsage = self.cgroup(plan).ok()?.cpu_usage().ok()?;
        Some(usage.total_ns)
    }

    /// CPU time that all its nodes have used; `None` where nothing counts it.
    pub fn cpu_ns(&self) -> Option<u64> {
        let nodes = self
            .state
            .plan
            .nodes
            .iter()
            .filter(|n| n.kind != NodeKind::Host);
        // A node whose group was not needed yet has used nothing.
        let used: Vec<u64> = nodes.filter_map(|n| self.node_cpu_ns(&n.name)).collect();
        (!used.is_empty()).then(|| used.iter().sum())
    }

    pub(super) fn process(&self, index: usize) -> Option<ProcessId> {
        let state = self.state.nodes.get(index)?;
        Some(ProcessId {
            pid: state.pid?,
            start_time: state.start_time,
        })
    }

    pub(super) fn channel(&self, node: &str) -> Result<Channel, Error> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(node) {
            return Ok(channel.clone());
        }
        let (index, _) = self.node(node)?;
        let failed = |source| self.unusable(node, source);
        let process = self
            .process(index)
            .ok_or_else(|| failed(session::Error::Other(NEVER_CAME_UP.into())))?;
        let dir = self.dirs.node(&self.state.lab, node);
        let channel = Vm::attach(node, &dir, process)
            .and_then(|vm| vm.channel(NETWORK_TIMEOUT))
            .map_err(|e| failed(e.into()))?;
        channels.insert(node.to_string(), channel.clone());
        Ok(channel)
    }

    fn cgroup(&self, node: &NodePlan) -> Result<NodeCgroup, Error> {
        let failed = |source| Error::Cgroup {
            node: node.name.clone(),
            source,
        };
        let dirs = self
            .groups
            .dirs(&self.state.lab, &node.name, &limits(&self.state.plan, node))
            .map_err(failed)?;
        NodeCgroup::from_dirs(dirs).map_err(failed)
    }

    /// The group of a native node, made with its first command: most nodes of a large lab never run
    /// one. Its directories are in the journal since the deployment. A file says that it is whole:
    /// a latlab that was killed while making it leaves a group without its limits.
    fn group_for_commands(&self, node: &NodePlan) -> Result<Option<NodeCgroup>, Error> {
        let failed = |source| Error::Cgroup {
            node: node.name.clone(),
            source,
        };
        let group = self.cgroup(node)?;
        if group.dirs().is_empty() {
            return Ok(None);
        }
        let made = self.dirs.groups(&self.state.lab);
        let whole = made.join(&node.name);
        if !whole.exists() {
            let io = |path: PathBuf| {
                move |source| Error::Io {
                    action: "create",
                    path,
                    source,
                }
            };
            fs::create_dir_all(&made).map_err(io(made.clone()))?;
            // Two first commands at once: the second finds it whole.
            let _one_at_a_time = Lock::take(&made.join(".lock"), CLAIM_TIMEOUT)?;
            if !whole.exists() {
                group.remove().map_err(failed)?;
                let limits = limits(&self.state.plan, node);
                let made = self.groups.create(&self.state.lab, &node.name, &limits);
                made.map_err(failed)?;
                fs::write(&whole, "").map_err(io(whole.clone()))?;
            }
        }
        Ok(Some(group))
    }
}
