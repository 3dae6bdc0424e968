//! Deployed labs, read from the disk and compared with the machine.

use std::path::Path;

use latlab_model::kinds::{Acceleration, NodeKind};
use latlab_model::plan::{Plan, StoragePlan};
use latlab_model::state::{LabState, NodeRow, RowStart};

use super::deployed::Lab;
use super::error::Error;
use super::state::{process_of, read_state};
use crate::dirs::Dirs;
use crate::journal::{self, Journal};
use crate::nodes::driver_of;
use crate::sys::proc;
use crate::sys::process::{Process, ProcessId};

/// Names of all labs, half-made ones too.
pub fn list(dirs: &Dirs) -> Result<Vec<String>, Error> {
    Ok(journal::labs(dirs)?)
}

/// The nodes of a lab. For root: the state holds the environment of the lab's commands.
pub fn inspect(dirs: &Dirs, name: &str) -> Result<Vec<NodeRow>, Error> {
    match read_state(dirs, name)? {
        Some(state) => Ok(rows(dirs, &state)),
        None if Journal::read(dirs, name)?.is_some() => Err(Error::not_up(name, "half-made")),
        None => Ok(Vec::new()),
    }
}

/// A line for each overlay daemon of a lab that ended by itself: its name, the number of restarts, and the last
/// reason. For root, as [`inspect`].
#[must_use]
pub fn restarts(dirs: &Dirs, name: &str) -> Vec<String> {
    let daemons = std::fs::read_dir(dirs.run(name).join("overlay"));
    let mut said: Vec<String> = daemons
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|daemon| {
            let told = std::fs::read_to_string(daemon.path().join("restarts")).ok()?;
            let (count, last) = told.trim_end().split_once(' ')?;
            let link = daemon.file_name();
            let link = link.to_string_lossy();
            Some(format!(
                "the overlay daemon of {name}/{link} was started again {count} times; last, {last}"
            ))
        })
        .collect();
    said.sort();
    said
}

/// The plan a lab was made from. For root, as [`inspect`]. Fails when there is no lab of that name, or it did not get
/// that far.
pub fn plan_of(dirs: &Dirs, name: &str) -> Result<Plan, Error> {
    let state = read_state(dirs, name)?;
    Ok(state.ok_or_else(|| Error::not_up(name, "half-made"))?.plan)
}

/// Whether a lab was deployed from this file, whose path is canonical. So is one that has no state yet, or no more: nothing
/// of it is on the machine.
pub fn is_of_file(dirs: &Dirs, name: &str, file: &Path) -> Result<bool, Error> {
    match read_state(dirs, name) {
        Ok(Some(state)) => Ok(state.file.is_some_and(|of| Path::new(&of) == file)),
        Ok(None) => Ok(!dirs.state(name).exists()),
        Err(Error::NoLab(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Lab {
    /// Whether every node that was started still lives; an error says which does not, and what it said last. Errors:
    /// the first that has ended.
    pub fn check_nodes(&self) -> Result<(), Error> {
        for node in &self.plan().nodes {
            let running = self.running(&node.name)?;
            if running.process.is_some() {
                let health = driver_of(&node.body).health(&running);
                health.map_err(|source| self.unusable(&node.name, source))?;
            }
        }
        Ok(())
    }

    pub fn rows(&self) -> Vec<NodeRow> {
        let mut rows = rows(&self.dirs, &self.state);
        for row in &mut rows {
            let start = self.starts.iter().find(|start| start.node == row.name);
            row.start = start.map(|start| RowStart {
                began_ns: start.began_ns,
                ready_ns: start.ready_ns,
            });
        }
        rows
    }
}

fn rows(dirs: &Dirs, state: &LabState) -> Vec<NodeRow> {
    let paused = dirs.paused(&state.lab);
    let same_boot = proc::boot_id().is_ok_and(|id| id == state.boot_id);
    let nodes = state.plan.nodes.iter().enumerate();
    let row = |(index, node): (usize, &latlab_model::plan::NodePlan)| {
        let process = state.nodes.get(index).and_then(process_of);
        let address = |ipv6: bool| {
            let all = node.interfaces.iter().flat_map(|i| &i.addresses);
            all.filter(|a| a.addr().is_ipv6() == ipv6)
                .map(ToString::to_string)
                .next()
        };
        let interfaces = node.interfaces.iter();
        NodeRow {
            lab_name: state.lab.clone(),
            host: None,
            name: node.name.clone(),
            kind: node.kind(),
            image: node.image().to_owned(),
            state: match condition(node.kind(), process, same_boot, state.ready) {
                "running" if paused.join(&node.name).exists() => "paused",
                condition => condition,
            }
            .into(),
            pid: process.map(|p| p.pid),
            storage: node.storage.iter().map(StoragePlan::facts).collect(),
            cpus: node.cpus,
            cpuset: node.cpuset.as_ref().map(ToString::to_string),
            memory_bytes: node.memory.map(|m| m.0),
            ipv4_address: address(false),
            ipv6_address: address(true),
            interfaces: interfaces
                .map(|i| format!("{}@{}", i.name, state.plan.links[i.link].name))
                .collect(),
            acceleration: node.body.acceleration().map(|how| match how {
                Acceleration::Kvm => "KVM".to_string(),
                _ => "software emulation".to_string(),
            }),
            start: None,
        }
    };
    nodes.map(row).collect()
}

fn condition(
    kind: NodeKind,
    process: Option<ProcessId>,
    same_boot: bool,
    ready: bool,
) -> &'static str {
    if !same_boot {
        return "gone";
    }
    match (kind.properties().has_process, process) {
        (false, _) if ready => "running",
        (true, None) if ready => "failed",
        (_, None) | (false, _) => "half-made",
        (true, Some(id)) => match Process::open(id) {
            Ok(Some(process)) if !process.has_ended().unwrap_or(true) => "running",
            Ok(_) => "exited",
            Err(_) => "unknown",
        },
    }
}
