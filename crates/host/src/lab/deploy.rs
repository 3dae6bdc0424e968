//! Bringing a lab up.
//!
//! Everything that can be found wrong is found before the journal is written; from then on a
//! failure takes down what was made (unless asked to keep it), and a crash leaves a journal from
//! which `destroy` does.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use latlab_model::kinds::NodeKind;
use latlab_model::plan::{NodePlan, Plan};
use latlab_model::results::NodeStart;
use latlab_model::state::{LabState, NodeState};

use super::deployed::Lab;
use super::error::Error;
use super::limits::limits;
use super::machine::{self, groups};
use super::memory::available_bytes;
use super::options::{Options, Step};
use super::prepare::Prepared;
use super::state::state_of;
use super::unmake::unmake;
use super::{huge_pages, interrupt, scripts, space, taken, tune};
use crate::dirs::Dirs;
use crate::images::Covers;
use crate::journal::{self, Claim, Journal, Undo};
use crate::links::{self, Network, NicBackend};
use crate::nodes::vm::channels::Channels;
use crate::nodes::{self, Start, session};
use crate::streams;
use crate::sync;
use crate::sys;
use crate::sys::file::Lock;
use crate::sys::mount;
use crate::sys::proc;
use crate::sys::process::ProcessId;
use crate::sys::random;
use crate::tuning;

/// How long another latlab may hold the lock of deployments, which is held for a file or two.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Names and CPUs are given away one at a time.
fn lock(dirs: &Dirs) -> Result<Lock, Error> {
    let path = dirs.lock();
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(sys::Error::of("create", parent.display()))?;
    }
    Lock::take(&path, TIMEOUT)?.ok_or(Error::Busy(TIMEOUT))
}

/// A directory that only root enters, also one that was made before.
fn private(directory: &Path) -> Result<(), Error> {
    let made = fs::create_dir_all(directory)
        .and_then(|()| fs::set_permissions(directory, Permissions::from_mode(0o700)));
    Ok(made.map_err(sys::Error::of("create", directory.display()))?)
}

impl Lab {
    /// Brings a lab up; when this returns every node is ready and every address usable. Fails when anything fails;
    /// what was made is then taken down again, unless it was to be kept.
    pub fn deploy(dirs: &Dirs, plan: &Plan, options: &Options<'_>) -> Result<Lab, Error> {
        let base = options
            .file
            .as_deref()
            .and_then(Path::parent)
            .unwrap_or(Path::new("."));
        let available_before = available_bytes();
        let mut prepared = Prepared::new(dirs, plan, base, options)?;
        space::check(dirs, plan, &prepared.agent)?;
        huge_pages::check(plan)?;
        let mut lab = Lab::claim(dirs, plan, options, &prepared)?;
        lab.available_before = available_before;
        let made = interrupt::end_on_stop(options.stop, &plan.lab, &lab.state.id.clone(), || {
            lab.make(&mut prepared, options)
        });
        match made {
            Ok(()) => {
                lab.claim = None;
                Ok(lab)
            }
            Err(error) if options.keep => {
                // Ready or not, a person wants to look at it.
                lab.state.ready = true;
                lab.save().ok();
                Err(error)
            }
            Err(error) => {
                // A script of `setup` may have changed what no node owns.
                if lab.state.ready {
                    scripts::teardown(&lab);
                }
                lab.channels = Channels::default();
                match unmake(dirs, &plan.lab) {
                    Ok(_) => Err(error),
                    Err(remains) => Err(Error::Unclean {
                        first: Box::new(error),
                        remains: Box::new(remains),
                    }),
                }
            }
        }
    }

    /// Takes the lab's name and CPUs, and writes down how to unmake it.
    fn claim(
        dirs: &Dirs,
        plan: &Plan,
        options: &Options<'_>,
        prepared: &Prepared,
    ) -> Result<Lab, Error> {
        let header = journal::Header {
            format: journal::Header::FORMAT.into(),
            lab: plan.lab.clone(),
            id: new_id(),
            boot_id: proc::boot_id()?,
        };
        let _one_at_a_time = lock(dirs)?;
        private(&dirs.labs())?;
        let claim = Claim::new(dirs, &plan.lab)?;
        let mut lab = Lab {
            dirs: dirs.clone(),
            state: LabState {
                format: LabState::FORMAT.into(),
                lab: plan.lab.clone(),
                id: header.id.clone(),
                boot_id: header.boot_id.clone(),
                deployed: machine::now(),
                file: options.file.as_ref().map(|p| p.display().to_string()),
                plan: plan.clone(),
                nodes: vec![NodeState::default(); plan.nodes.len()],
                cached: Some(prepared.cached.clone()),
                ready: false,
            },
            agent: prepared.agent.clone(),
            groups: OnceLock::from(groups()?),
            processes: Mutex::new(vec![NodeState::default(); plan.nodes.len()]),
            channels: Channels::default(),
            claim: None,
            starts: Vec::new(),
            available_before: None,
        };
        // The state says whose CPUs are taken, so it is written before the lock is released.
        let written = check_free(dirs, plan)
            .and_then(|()| undo(dirs, plan))
            .and_then(|undo| {
                lab.save()?;
                Ok(Journal::write(dirs, &claim, header, undo)?)
            });
        if let Err(error) = written {
            // Nothing was made. What cannot be removed now is an empty claim for `destroy`.
            Journal::forget(dirs, &plan.lab).ok();
            return Err(error);
        }
        lab.claim = Some(claim);
        Ok(lab)
    }

    fn make(&mut self, prepared: &mut Prepared, options: &Options<'_>) -> Result<(), Error> {
        let told = |step: Step<'_>| {
            if let Some(progress) = options.progress {
                progress(&step);
            }
        };
        // Before a profile's own pages: its knob counts those that are there.
        let huge_pages = huge_pages::take(&self.dirs, &self.state.plan, &self.state.id)?;
        if let Some(tuning) = &self.state.plan.tuning {
            told(Step::Tuning(&tuning.name));
            tune::apply(&self.dirs, &self.state.plan)?;
            interrupt::check(options.stop, &self.state.lab)?;
        }
        told(Step::Network);
        let run = self.dirs.run(&self.state.lab);
        // Sockets, logs, consoles, what nodes write and set-user-ID files among it are root's business.
        for directory in [self.dirs.run_root(), &run] {
            private(directory)?;
        }
        let namespaces = self.dirs.namespaces(&self.state.lab);
        fs::create_dir_all(&namespaces).map_err(sys::Error::of("create", namespaces.display()))?;
        mount::make_private(&namespaces)?;
        let network = Network::new(namespaces, &self.state.id)?;
        network.make_namespaces(&self.state.plan)?;
        let mut backends: Backends = BTreeMap::new();
        for end in network.connect(&self.state.plan)? {
            backends
                .entry(end.node)
                .or_default()
                .insert(end.interface, end.backend);
        }
        if streams::has_streams(&self.state.plan) {
            let directory = self.dirs.streams(&self.state.lab);
            let namespaces = self.dirs.namespaces(&self.state.lab);
            streams::start(&self.state.plan, &self.state.id, &directory, &namespaces)?;
        }
        interrupt::check(options.stop, &self.state.lab)?;
        self.make_storage()?;
        prepared.hide();
        let covers = Covers::make(&self.dirs.covers(&self.state.lab), prepared.covered())?;
        let inputs = Inputs {
            covers: &covers,
            backends: Mutex::new(backends),
            huge_pages,
        };
        let started = self.start_nodes(prepared, &inputs, options);
        // A kept lab needs the nodes that did start.
        *sync::lock(&self.processes) = started.nodes.clone();
        (self.state.nodes, self.starts) = (started.nodes, started.starts);
        started.result?;
        self.state.ready = true;
        scripts::bring_up(self, &|node| {
            told(Step::Commands(node));
            interrupt::check(options.stop, &self.state.lab)
        })?;
        self.save()
    }

    /// Makes directories and images of the nodes' storage.
    fn make_storage(&self) -> Result<(), Error> {
        for node in &self.state.plan.nodes {
            let directory = self.dirs.storage(&self.state.lab).join(&node.name);
            for held in nodes::storage::of(node, &directory) {
                held.make().map_err(|source| Error::Node {
                    node: node.name.clone(),
                    source: session::Error::from(source).into(),
                })?;
            }
        }
        Ok(())
    }

    /// Starts containers and VMs, several at once.
    fn start_nodes(
        &self,
        prepared: &Prepared,
        inputs: &Inputs<'_>,
        options: &Options<'_>,
    ) -> Started {
        let nodes = &self.state.plan.nodes;
        let states = Mutex::new(vec![NodeState::default(); nodes.len()]);
        let starts: Mutex<Vec<NodeStart>> = Mutex::default();
        let begin = Instant::now();
        let since_begin = || begin.elapsed().as_nanos() as u64;
        let failure: Mutex<Option<Error>> = Mutex::new(None);
        let (next, ready) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let heavy: Vec<usize> = (0..nodes.len())
            .filter(|&i| prepared.nodes[i].is_some())
            .collect();
        ready.store(nodes.len() - heavy.len(), Ordering::Relaxed);
        let work = || {
            while let Some(&index) = heavy.get(next.fetch_add(1, Ordering::Relaxed)) {
                let stopped = interrupt::check(options.stop, &self.state.lab);
                if stopped.is_err() || sync::lock(&failure).is_some() {
                    return;
                }
                let node = &nodes[index];
                let began_ns = since_begin();
                match self.start_node(node, prepared, inputs, index) {
                    Ok(process) => {
                        let start = NodeStart {
                            node: node.name.clone(),
                            kind: node.kind().to_string(),
                            began_ns,
                            ready_ns: since_begin(),
                            kernel: prepared.nodes[index].as_ref().and_then(|it| it.kernel()),
                        };
                        sync::lock(&starts).push(start);
                        sync::lock(&states)[index] = state_of(process);
                        let count = ready.fetch_add(1, Ordering::Relaxed) + 1;
                        if let Some(progress) = options.progress {
                            progress(&Step::Ready(&node.name, count));
                        }
                    }
                    Err(error) => {
                        sync::lock(&failure).get_or_insert(error);
                    }
                }
            }
        };
        let workers = options
            .workers
            .unwrap_or_else(|| workers_for(heavy.iter().map(|index| &nodes[*index])))
            .clamp(1, heavy.len().max(1));
        std::thread::scope(|scope| {
            // The calling thread is one of them, so that a lab without heavy nodes starts none.
            for _ in 1..workers {
                scope.spawn(work);
            }
            work();
        });
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        let result = failure
            .map_or(Ok(()), Err)
            .and_then(|()| interrupt::check(options.stop, &self.state.lab));
        let nodes = states.into_inner().unwrap_or_else(PoisonError::into_inner);
        let starts = starts.into_inner().unwrap_or_else(PoisonError::into_inner);
        Started {
            nodes,
            starts,
            result,
        }
    }

    fn start_node(
        &self,
        node: &NodePlan,
        prepared: &Prepared,
        inputs: &Inputs<'_>,
        index: usize,
    ) -> Result<Option<ProcessId>, Error> {
        let nothing = || session::Error::Other("it has nothing to start".into());
        let failed = |source: session::Error| Error::Node {
            node: node.name.clone(),
            source: source.into(),
        };
        let prepared = prepared.nodes[index].as_ref();
        let prepared = prepared.ok_or_else(|| failed(nothing()))?;
        let mut limits = limits(&self.state.plan, node);
        prepared.restrict(&self.running(&node.name)?, &mut limits);
        let group = self.groups()?.create(&self.state.lab, &node.name, &limits);
        let group = group.map_err(Error::of_cgroup(&node.name))?;
        let backends = sync::lock(&inputs.backends).remove(&index);
        let start = Start {
            node: self.running(&node.name)?,
            cgroup: &group,
            place: tune::place(&self.state.plan, node),
            inside: self.state.plan.inside(node),
            covers: inputs.covers,
            backends: backends.unwrap_or_default().into_values().collect(),
            huge_pages: inputs.huge_pages.get(index).cloned().flatten(),
        };
        prepared.start(&start).map_err(failed)
    }
}

/// Nodes that are started at once. A guest's boot takes a whole CPU. A container's start waits more than it computes: for
/// grace periods of the kernel's, for a daemon.
fn workers_for<'a>(mut nodes: impl Iterator<Item = &'a NodePlan>) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    match nodes.any(|node| node.kind() == NodeKind::Vm) {
        true => processors,
        false => 4 * processors,
    }
}

/// The parts of a deployment that nodes start with.
struct Inputs<'a> {
    covers: &'a Covers,
    backends: Mutex<Backends>,
    /// File systems of huge pages, by node.
    huge_pages: Vec<Option<Arc<OwnedFd>>>,
}

/// Nodes after their start, and the first failure.
struct Started {
    nodes: Vec<NodeState>,
    starts: Vec<NodeStart>,
    result: Result<(), Error>,
}

/// The network sides of VMs' interfaces: by node, by interface.
type Backends = BTreeMap<usize, BTreeMap<usize, NicBackend>>;

/// Checks that need the lock of deployments; our own claim is there already.
fn check_free(dirs: &Dirs, plan: &Plan) -> Result<(), Error> {
    let run = dirs.run(&plan.lab);
    if run.exists() {
        return Err(Error::InTheWay(run));
    }
    let mut interfaces = links::host_interfaces(plan);
    if !interfaces.is_empty() {
        let mut root = latlab_netlink::Handle::open()?;
        for name in interfaces.drain(..) {
            if root.link(&name)?.is_some() {
                return Err(Error::InterfaceTaken(name));
            }
        }
    }
    taken::check(dirs, plan)
}

/// How to unmake everything that the plan makes, in that order.
fn undo(dirs: &Dirs, plan: &Plan) -> Result<Vec<Undo>, Error> {
    let run = dirs.run(&plan.lab);
    let mut undo = vec![Undo::Processes];
    // Before the knobs, of which it has some.
    let lent = links::lent(plan)?.into_iter();
    undo.extend(lent.map(|interface| Undo::Lent { interface }));
    let ports = links::ports(plan)?.into_iter();
    undo.extend(ports.map(|port| Undo::Port { port }));
    let divided = links::divided(plan)?.into_iter();
    undo.extend(divided.map(|card| Undo::Divided { card }));
    let groups = groups()?;
    for node in &plan.nodes {
        let failed = Error::of_cgroup(&node.name);
        groups.check(&limits(plan, node)).map_err(&failed)?;
        let dirs = groups
            .dirs(&plan.lab, &node.name, &limits(plan, node))
            .map_err(&failed)?;
        if !dirs.is_empty() {
            undo.push(Undo::Cgroup { dirs });
        }
    }
    if plan.tuning.is_some() {
        // After the groups: only an empty partition can be removed.
        undo.push(Undo::Tuning {
            owner: tuning::lab_owner(&plan.lab),
        });
    }
    if huge_pages::has_some(plan) {
        undo.push(Undo::HugePages);
    }
    for name in links::host_interfaces(plan) {
        undo.push(Undo::Interface { name });
    }
    undo.push(Undo::Mounts { below: run.clone() });
    undo.push(Undo::Directory { path: run });
    if plan.nodes.iter().any(|node| !node.storage.is_empty()) {
        let path = dirs.storage(&plan.lab);
        undo.push(Undo::Storage { path });
    }
    Ok(undo)
}

fn new_id() -> String {
    format!("{}-{}", random::hex::<8>(), std::process::id())
}
