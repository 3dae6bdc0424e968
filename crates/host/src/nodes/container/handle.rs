//! Containers: to be started, started, and running.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use latlab_model::kinds::{Bind, Runtime, Security};
use serde::{Deserialize, Serialize};

use crate::cgroup::NodeCgroup;
use crate::images::RootView;
use crate::nodes::storage::Held;
use crate::sys::process::ProcessId;

#[derive(Debug, Clone)]
pub struct ContainerConfig {
    pub name: String,
    /// Identifier of the deployment, the label of its processes.
    pub lab_id: String,
    pub runtime: Runtime,
    pub root: RootView,
    /// The layer that covers what the image hides ([`Covers`](crate::images::Covers)); without it, masks do.
    pub covers: Option<PathBuf>,
    pub netns: PathBuf,
    /// The node's own directory, for its writable layer and the runtime's files. Made if need be;
    /// not inside `root.dir` unless that is `/`.
    pub dir: PathBuf,
    /// Its hosts file, in the place of the image's.
    pub hosts: String,
    /// The agent's binary on the machine; statically linked.
    pub agent: PathBuf,
    /// Directories and files of the machine seen inside; sources are absolute.
    pub binds: Vec<Bind>,
    /// Its storage.
    pub storage: Vec<Held>,
    /// A file system of huge pages for DPDK, attached nowhere yet.
    pub huge_pages: Option<Arc<OwnedFd>>,
    /// Environment of its commands, over the image's.
    pub env: BTreeMap<String, String>,
    /// Rights beyond the default.
    pub security: Security,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub process: ProcessId,
    /// The writable layer is in memory rather than on a disk, because the node's directory is, or
    /// because its file system cannot carry a layer.
    pub layer_in_memory: bool,
}

#[derive(Debug)]
pub struct Container {
    pub lab_id: String,
    pub dir: PathBuf,
    /// The agent's binary on the machine, through which commands are started.
    pub agent: PathBuf,
    pub process: ProcessId,
    pub cgroup: NodeCgroup,
}
