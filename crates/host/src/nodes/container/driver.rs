//! Containers as a lab sees them.

use std::path::Path;

use latlab_model::kinds::{Bind, Devices, Runtime, Security};
use latlab_model::plan::{ContainerPlan, NodePlan};
use latlab_model::snapshot::{SavedAs, Snapshot};

use super::checkpoint;
use super::config::AGENT_INSIDE;
use super::error::Error as ContainerError;
use super::handle::{Container, ContainerConfig};
use super::mend;
use super::moving;
use super::start::{self, RootMount};
use crate::borrowed::{Borrowed, Tool};
use crate::cgroup::{Limits, NodeCgroup};
use crate::images::RootView;
use crate::nodes::dpdk;
use crate::nodes::driver::{
    Driver, Moved, Node, Prepared, SCRATCH_INSIDE, Saved, Start, Switch, Target,
};
use crate::nodes::mend::{Act, Found};
use crate::nodes::preparation::Preparation;
use crate::nodes::session::{After, Command, Detached, Error, Session};
use crate::sys::devices::Device;
use crate::sys::netns::NetNs;
use crate::sys::process::{Process, ProcessId};

impl Driver for ContainerPlan {
    fn restrict(&self, limits: &mut Limits) {
        limits.pids = self.security.pids.limit();
        limits.devices = (self.security.devices == Devices::Default).then(Vec::new);
    }

    fn prepare(
        &self,
        _node: &NodePlan,
        preparation: &mut Preparation<'_>,
    ) -> Result<Option<Box<dyn Prepared>>, Error> {
        Ok(Some(Box::new(PreparedContainer {
            plan: self.clone(),
            root: preparation.root(&self.root)?,
            binds: preparation.binds(&self.root),
        })))
    }

    fn exec(&self, node: &Node<'_>, command: &Command) -> Result<Box<dyn Session>, Error> {
        let listener = node.stream_session()?;
        let session = container(node)?.start_held(command, listener.as_ref())?;
        Ok(Box::new(session))
    }

    fn detach(&self, node: &Node<'_>, command: &Command) -> Result<Detached, Error> {
        let listener = node.stream_session()?;
        Ok(container(node)?.detach(command, listener.as_ref())?)
    }

    fn agent(&self, _agent: &Path) -> String {
        AGENT_INSIDE.to_owned()
    }

    fn scratch(&self, _dir: &Path) -> String {
        SCRATCH_INSIDE.to_owned()
    }

    fn borrows(&self) -> Option<Tool> {
        self.runtime.leaves().then_some(Tool::Criu)
    }

    fn prove(&self, node: &Node<'_>) -> Result<(), Error> {
        if self.borrows().is_some() {
            checkpoint::proven_criu(node.agent, node.cache)?;
        }
        Ok(())
    }

    fn snapshot(&self, node: &Node<'_>, into: &Path, after: After) -> Result<Saved, Error> {
        unwatched(self.runtime)?;
        let tool = checkpoint::proven_criu(node.agent, node.cache)?;
        let netns = NetNs::open(&node.netns)?;
        let machine = machine(node, &tool)?;
        let container = container(node)?;
        let (files, stood) = checkpoint::save(&container, &netns, &tool, into, after)?;
        Ok(Saved {
            machine,
            files,
            stood,
        })
    }

    fn end(&self, node: &Node<'_>) -> Result<(), Error> {
        Ok(checkpoint::end(&container(node)?)?)
    }

    fn find(&self, node: &Node<'_>, _act: Act, _dir: &Path) -> Result<Option<Found>, Error> {
        Ok(mend::find(&container(node)?)?)
    }

    fn settle(
        &self,
        node: &Node<'_>,
        act: Act,
        found: Found,
        _dir: &Path,
        _saved: &SavedAs,
    ) -> Result<(), Error> {
        let netns = NetNs::open(&node.netns)?;
        Ok(mend::settle(&container(node)?, &netns, act, found)?)
    }

    fn health(&self, node: &Node<'_>) -> Result<(), Error> {
        match Process::open(node.process()?)? {
            Some(process) if !process.has_ended()? => Ok(()),
            _ => Err(ContainerError::Ended.into()),
        }
    }
}

/// All that a restore needs beyond the lab's file: the layer, links and neighbours are this deployment's.
fn machine(node: &Node<'_>, tool: &Borrowed) -> Result<String, Error> {
    // The image's root directory, which a restore needs as it was.
    let root = RootMount::read(&node.dir)?;
    let (image, version, lab) = (root.image().display(), &tool.version, node.lab_id);
    let kernel = rustix::system::uname();
    let kernel = kernel.release().to_string_lossy();
    Ok(format!(
        "deployment {lab}, image {image}, kernel {kernel}, CRIU {version}"
    ))
}

/// Only a container that no process of its runtime watches can be saved.
fn unwatched(runtime: Runtime) -> Result<(), ContainerError> {
    match runtime.leaves() {
        true => Ok(()),
        false => Err(ContainerError::Watched(runtime)),
    }
}

fn container(node: &Node<'_>) -> Result<Container, Error> {
    let no_group = || Error::Other("it has no cgroup".into());
    container_in(node, node.cgroup.as_ref().ok_or_else(no_group)?)
}

fn container_in(node: &Node<'_>, cgroup: &NodeCgroup) -> Result<Container, Error> {
    Ok(Container {
        lab_id: node.lab_id.to_owned(),
        dir: node.dir.clone(),
        agent: node.agent.to_owned(),
        process: node.process()?,
        cgroup: cgroup.clone(),
    })
}

/// Its rights. All memory that DPDK gives to a card is pinned, and the kernel counts that as locked.
fn security(plan: &ContainerPlan, node: &Node<'_>) -> Security {
    let mut security = plan.security.clone();
    let locks = "IPC_LOCK".to_owned();
    if !node.devices.is_empty() && !security.capabilities.contains(&locks) {
        security.capabilities.push(locks);
    }
    security
}

/// A container whose image is there.
struct PreparedContainer {
    plan: ContainerPlan,
    root: RootView,
    binds: Vec<Bind>,
}

impl Prepared for PreparedContainer {
    /// Devices that are bound into it may be opened.
    fn restrict(&self, node: &Node<'_>, limits: &mut Limits) {
        if let Some(devices) = &mut limits.devices {
            let ports = dpdk::devices(node);
            let sources = self.binds.iter().map(|bind| &bind.source).chain(&ports);
            devices.extend(sources.filter_map(|path| Device::of_file(Path::new(path))));
        }
    }

    fn root(&mut self) -> Option<&mut RootView> {
        Some(&mut self.root)
    }

    fn covered(&self) -> Option<&RootView> {
        Some(&self.root)
    }

    fn start(&self, start: &Start<'_>) -> Result<Option<ProcessId>, Error> {
        let node = &start.node;
        dpdk::make(node)?;
        let mut binds = self.binds.clone();
        binds.extend(dpdk::binds(node));
        let config = ContainerConfig {
            name: node.plan.name.clone(),
            lab_id: node.lab_id.to_owned(),
            runtime: self.plan.runtime,
            root: self.root.clone(),
            covers: start.covers.of(&self.root).map(Path::to_owned),
            netns: node.netns.clone(),
            dir: node.dir.clone(),
            hosts: node.hosts_file(),
            agent: node.agent.to_owned(),
            binds,
            storage: node.held(),
            huge_pages: start.huge_pages.clone(),
            env: node.plan.env.clone(),
            security: security(&self.plan, node),
        };
        Ok(Some(start::start(&config, start.cgroup)?.process))
    }

    fn restore(
        &self,
        start: &Start<'_>,
        saved: &Snapshot,
        from: &Path,
    ) -> Result<Option<ProcessId>, Error> {
        let node = &start.node;
        unwatched(self.plan.runtime)?;
        let tool = checkpoint::proven_criu(node.agent, node.cache)?;
        let here = machine(node, &tool)?;
        if here != saved.machine {
            let reason = format!("it was saved in `{}`, and this is `{here}`", saved.machine);
            return Err(Error::Other(reason));
        }
        let netns = NetNs::open(&node.netns)?;
        start.cgroup.end_all()?;
        let process = checkpoint::load(node.lab_id, &node.dir, &netns, start.cgroup, &tool, from)?;
        Ok(Some(process))
    }

    fn migrate(
        &self,
        start: &Start<'_>,
        target: &Target<'_>,
        switch: &mut dyn Switch,
    ) -> Result<Moved, Error> {
        let node = &start.node;
        unwatched(self.plan.runtime)?;
        let no_target = || Error::Other("no network namespace was made for it".into());
        let to = target.netns.as_ref().ok_or_else(no_target)?;
        let tool = checkpoint::proven_criu(node.agent, node.cache)?;
        let container = container_in(node, start.cgroup)?;
        let from = NetNs::open(&node.netns)?;
        Ok(moving::run(&container, &from, to, &tool, switch)?)
    }
}
