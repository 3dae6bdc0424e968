//! Containers: to be started, started, and running.

use std::collections::BTreeMap;
use std::path::PathBuf;

use latlab_model::kinds::{Bind, Runtime, Security};
use serde::{Deserialize, Serialize};

use crate::cgroup::NodeCgroup;
use crate::images::RootView;
use crate::sys::process::ProcessId;

#[derive(Debug, Clone)]
pub struct ContainerConfig {
    /// Name of the node; the container's host name.
    pub name: String,
    /// Identifier of the deployment, the label of its processes.
    pub lab_id: String,
    pub runtime: Runtime,
    pub root: RootView,
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
    /// Environment of its commands, over the image's.
    pub env: BTreeMap<String, String>,
    /// Rights beyond the default.
    pub security: Security,
}

/// A container whose first process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Its first process.
    pub process: ProcessId,
    /// The writable layer is in memory rather than on a disk, because the node's directory is, or
    /// because its file system cannot carry a layer.
    pub layer_in_memory: bool,
}

/// A running container, to run commands in.
#[derive(Debug)]
pub struct Container {
    /// Identifier of the deployment, the label of its processes.
    pub lab_id: String,
    pub dir: PathBuf,
    /// The agent's binary on the machine, through which commands are started.
    pub agent: PathBuf,
    /// Its first process.
    pub process: ProcessId,
    pub cgroup: NodeCgroup,
}
