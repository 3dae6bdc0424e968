//! A node of which work was cut off goes on in exactly one place again.
//!
//! ```text
//! find      the driver says where it goes on; it runs nowhere else from then on
//! network   its addresses, ports, cables and namespace are there
//! settle    what is left at the other place ends, and it goes on
//! state     names its process and place; the note is removed
//! ```
//!
//! Each step may be done again, so a latlab that is killed meanwhile leaves no more to do than before.

use std::path::Path;

use latlab_model::kinds::NodeKind;
use latlab_model::plan::NodePlan;

use super::deployed::Lab;
use super::error::Error;
use super::note::Begun;
use crate::links::{self, Follower, Plugs};
use crate::nodes::mend::{Act, Found};
use crate::nodes::saved::DESCRIPTION;
use crate::nodes::{driver_of, session};
use crate::sys::netns::NetNs;
use crate::sys::tree;

impl Lab {
    /// Lets a node go on of which work was cut off; in words, where.
    pub(super) fn mend(&self, node: &str, begun: &Begun) -> Result<String, Error> {
        let (index, _) = self.node(node)?;
        let running = self.with_group(node)?;
        let driver = driver_of(&running.plan.body);
        let failed = |source| self.unusable(node, source);
        let is_done = begun.act == Act::Move && self.node_state(index).moves == begun.moves;
        let dir = match begun.act {
            Act::Move => self.node_dir(node, begun.moves),
            Act::Save | Act::Restore => running.dir.clone(),
        };
        let found = driver.find(&running, begun.act, &dir).map_err(failed)?;
        let Some(found) = found else {
            self.drop_copied();
            return Err(self.lost(node, begun));
        };
        if !is_done {
            if begun.act == Act::Move {
                self.network_follows(index, begun, found)?;
            }
            let own = running.identity();
            let saved = begun.copied.as_ref().unwrap_or(&own);
            let settled = driver.settle(&running, begun.act, found, &dir, saved);
            settled.map_err(failed)?;
        }
        let before = self.host_node(node)?;
        if let Found::After(process) = found {
            self.replace_process(index, Some(process), |state| {
                if begun.act == Act::Move {
                    state.host = (begun.to != node).then(|| begun.to.clone());
                    state.moves = begun.moves;
                }
            })?;
        }
        self.forget_pause(node)?;
        self.forget_begun(node);
        self.drop_copied();
        Ok(match (begun.act, found) {
            _ if is_done => format!("node `{node}` goes on at `{before}`, where it came to"),
            (Act::Move, Found::Before) => {
                let to = &begun.to;
                format!(
                    "node `{node}` goes on at `{before}`, where it was; the copy at `{to}` is removed"
                )
            }
            (Act::Move, Found::After(_)) => {
                let to = &begun.to;
                format!(
                    "node `{node}` goes on at `{to}`, where it came to; what was at `{before}` is removed"
                )
            }
            (Act::Save, _) => {
                self.drop_partial(&begun.directory);
                format!("node `{node}` goes on; its snapshot was cut off")
            }
            (Act::Restore, Found::Before) => {
                format!("node `{node}` goes on as it was; its restore had not begun")
            }
            (Act::Restore, Found::After(_)) => match &begun.copied {
                Some(saved) => format!("node `{node}` goes on as a copy of `{}`", saved.node),
                None => format!("node `{node}` goes on where it was saved"),
            },
        })
    }

    /// A snapshot without its description is none, and it may hold a node's memory.
    pub(super) fn drop_partial(&self, directory: &Path) {
        if !directory.join(DESCRIPTION).exists() {
            let _ = tree::remove(directory);
        }
    }

    /// The error of a node that has ended. One that can be restored is no longer refused for that.
    fn lost(&self, node: &str, begun: &Begun) -> Error {
        let kind = self.node(node).map(|(_, plan)| plan.kind());
        let is_guest = kind.is_ok_and(NodeKind::is_guest);
        Error::Lost {
            lab: self.state.lab.clone(),
            node: node.to_owned(),
            what: begun.what(),
            can_be_restored: begun.act != Act::Move && !is_guest,
        }
    }

    /// Has the network of a node be where it was found.
    fn network_follows(&self, index: usize, begun: &Begun, found: Found) -> Result<(), Error> {
        let plan = &self.state.plan.nodes[index];
        let failed = |reason| self.unusable(&plan.name, session::Error::Other(reason));
        let (from, (to, _)) = (self.host_of(index), self.node(&begun.to)?);
        if from == to {
            return Ok(());
        }
        let run = self.dirs.run(&self.state.lab);
        for interface in &plan.interfaces {
            let follower = Follower::open(&self.state.plan, plan, interface, from, to, &run);
            if let Some(mut follower) = follower.map_err(failed)? {
                let is_moved = matches!(found, Found::After(_));
                follower.mend(is_moved).map_err(failed)?;
            }
        }
        if plan.kind().is_guest() {
            return Ok(());
        }
        self.cables_follow(plan, (from, to), found)
    }

    /// The namespace of a container and its cables.
    fn cables_follow(
        &self,
        node: &NodePlan,
        (from, to): (usize, usize),
        found: Found,
    ) -> Result<(), Error> {
        let namespaces = self.dirs.namespaces(&self.state.lab);
        let network = links::Network::new(namespaces, &self.state.id)?;
        let plugs = Plugs {
            network: &network,
            plan: &self.state.plan,
            node,
        };
        match found {
            Found::Before => plugs.unplug(to),
            Found::After(process) => {
                let netns = format!("/proc/{}/ns/net", process.pid);
                plugs.settle(&NetNs::open(Path::new(&netns))?, from)?;
            }
        }
        Ok(())
    }
}
