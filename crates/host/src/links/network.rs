//! The network of one lab: its namespaces by name.

use std::path::PathBuf;

use latlab_model::plan::{NodePlan, Plan};

use super::error::Error;
use super::namespaces::{alias, namespaces};
use crate::sys::netns::{self, NetNs, NewNetNs};

#[derive(Debug)]
pub struct Network {
    pub(super) directory: PathBuf,
    pub(super) alias: String,
    pub(super) lab_id: String,
    pub(super) root: NetNs,
}

impl Network {
    /// The network of the lab with this identifier, whose namespaces are pinned in `directory`. To
    /// be called in the root namespace, where the interfaces of `host` nodes go.
    pub fn new(directory: PathBuf, lab_id: &str) -> Result<Self, Error> {
        let (alias, lab_id) = (alias(lab_id), lab_id.to_owned());
        Ok(Self {
            directory,
            alias,
            lab_id,
            root: NetNs::current()?,
        })
    }

    /// Makes every namespace of the plan, for nodes and links, as fast as the machine can. The
    /// directory must exist and should be a private mount.
    pub fn make_namespaces(&self, plan: &Plan) -> Result<(), Error> {
        let all: Vec<NewNetNs> = namespaces(plan)
            .into_iter()
            .map(|(name, sysctls)| NewNetNs {
                path: self.directory.join(name),
                sysctls,
            })
            .collect();
        Ok(netns::create_all(&all)?)
    }

    pub(super) fn open(&self, name: &str) -> Result<NetNs, Error> {
        Ok(NetNs::open(&self.directory.join(name))?)
    }

    /// The path at which the namespace of a node is pinned.
    pub(super) fn pin_of(&self, node: &NodePlan) -> PathBuf {
        self.directory.join(&node.name)
    }

    /// Opens the namespace a node's interfaces are in; a `host` node's are in the root namespace.
    pub(super) fn open_node(&self, node: &NodePlan) -> Result<NetNs, Error> {
        if node.kind().is_host() {
            Ok(self.root.try_clone()?)
        } else {
            self.open(&node.name)
        }
    }
}
