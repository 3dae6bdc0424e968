//! The network of one lab: its namespaces by name.

use std::fs::File;
use std::path::PathBuf;

use latlab_model::plan::{LinkPlan, Medium, NodePlan, Plan};

use super::error::Error;
use super::namespaces::{alias, namespaces};
use crate::sys;
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
        netns::create_all(&all)?;
        let to_other_machines = |link: &LinkPlan| matches!(&link.medium, Medium::Overlay(overlay) if overlay.tunnel.is_some());
        if plan.links.iter().any(to_other_machines) {
            // A file to mount on.
            let path = self.pin_of_host();
            File::create(&path).map_err(sys::Error::of("create", path.display()))?;
            self.root.replace(&path)?;
        }
        Ok(())
    }

    /// The path at which the machine's own namespace is pinned, for sockets towards other machines. No node has such a
    /// name.
    pub(super) fn pin_of_host(&self) -> PathBuf {
        self.directory.join("@host")
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
