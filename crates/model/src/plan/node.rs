//! A node's plan: what all nodes have, and one body a kind.
//!
//! A kind with settings of its own has a file below, which also refuses what cannot be. What is known of a
//! kind without a lab stands in [`NodeKind::properties`].

mod container;
mod dpdk;
mod root;
mod storage;
mod tuned;
mod vm;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use container::ContainerPlan;
pub use dpdk::{DpdkPlan, EAL_FILE_VARIABLE, EAL_VARIABLE, HUGE_PAGES_AT};
pub(super) use dpdk::{check_dpdk, check_port_addresses};
pub use root::RootPlan;
pub(super) use root::{EMPTY_IMAGE, HOST_IMAGE};
pub use storage::StoragePlan;
pub(super) use storage::check_space;
pub(super) use tuned::Tuned;
pub use vm::{GuestMemory, GuestTopology, IMAGE_KERNEL, USUAL_KERNEL, VmPlan};

pub use crate::kinds::VM_MEMORY;

use super::lacks::Lacks;
use crate::diagnostic::Diagnostics;
use crate::facts::Facts;
use crate::kinds::{Acceleration, Mac, NodeKind};
use crate::profile::Profile;
use crate::spec::Node;
use crate::units::{Bytes, CpuList};

/// A node to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodePlan {
    pub name: String,
    /// CPUs' worth of time (a guest: virtual CPUs), when limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// CPUs that it may run on, when confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpuset: Option<CpuList>,
    /// The node asked for CPUs of its own; which of those in `cpuset` they are is in the blueprint,
    /// because a guest's emulator may run among the host's own threads.
    #[serde(default)]
    pub isolate: bool,
    /// Memory nodes that it may use, when confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_nodes: Option<CpuList>,
    /// The profile that it follows: its own, else the lab's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<String>,
    /// Memory, when limited; always there for a guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Commands run once it is ready.
    #[serde(default)]
    pub exec: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Script before it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown: Option<String>,
    /// Directories whose files are held in a particular way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<StoragePlan>,
    /// Huge pages and ports of DPDK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpdk: Option<DpdkPlan>,
    /// Its kind, with the settings of that kind.
    pub body: NodeBody,
    /// Its interfaces, in the order of the links.
    pub interfaces: Vec<InterfacePlan>,
}

/// The kind of a node, with its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NodeBody {
    Native,
    Container(ContainerPlan),
    Vm(VmPlan),
    Host,
}

/// An interface inside a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterfacePlan {
    /// Its name inside the node.
    pub name: String,
    pub mac: Mac,
    pub mtu: u32,
    pub addresses: Vec<IpNet>,
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Index into `Plan::links`.
    pub link: usize,
    /// Index into `LinkPlan::endpoints`.
    pub endpoint: usize,
}

/// A route: to a network, through a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    pub to: IpNet,
    pub via: IpAddr,
}

/// The ingredients of a body.
pub(super) struct Wanted<'a> {
    pub node: &'a Node,
    /// The profile that it follows.
    pub profile: Option<&'a Profile>,
    /// A guest's virtual CPUs, and how they lie to each other.
    pub vcpus: u32,
    pub topology: Option<GuestTopology>,
    pub facts: &'a Facts,
}

impl NodeBody {
    /// Whether programs in it are the host's own.
    pub fn has_files_of_host(&self) -> bool {
        self.root().is_none_or(|root| root.image == HOST_IMAGE)
    }

    pub(super) fn of(wanted: &Wanted<'_>) -> NodeBody {
        let Wanted { node, facts, .. } = *wanted;
        match node.kind {
            NodeKind::Native => NodeBody::Native,
            NodeKind::Container => NodeBody::Container(ContainerPlan::of(node)),
            NodeKind::Vm => NodeBody::Vm(VmPlan::of(
                node,
                wanted.profile,
                wanted.vcpus,
                wanted.topology,
                facts,
            )),
            NodeKind::Host => NodeBody::Host,
        }
    }

    pub fn kind(&self) -> NodeKind {
        match self {
            NodeBody::Native => NodeKind::Native,
            NodeBody::Container(_) => NodeKind::Container,
            NodeBody::Vm(_) => NodeKind::Vm,
            NodeBody::Host => NodeKind::Host,
        }
    }

    /// Its root file system, where it has one of its own.
    pub fn root(&self) -> Option<&RootPlan> {
        match self {
            NodeBody::Container(container) => Some(&container.root),
            NodeBody::Vm(vm) => Some(&vm.root),
            _ => None,
        }
    }

    /// Pairs of queues of each of a guest's network cards.
    pub fn queues(&self) -> u16 {
        match self {
            NodeBody::Vm(vm) => vm.net.queues,
            _ => 1,
        }
    }

    /// How a guest's CPU is provided.
    pub fn acceleration(&self) -> Option<Acceleration> {
        match self {
            NodeBody::Vm(vm) => Some(vm.acceleration),
            _ => None,
        }
    }

    /// The kind with what starts it, as results name it.
    pub(super) fn environment(&self) -> String {
        match self {
            NodeBody::Container(container) => format!("container ({})", container.runtime),
            NodeBody::Vm(vm) if vm.is_emulated() => "vm (software emulation)".into(),
            NodeBody::Vm(_) => "vm (KVM)".into(),
            other => other.kind().to_string(),
        }
    }

    fn facts(&self) -> Vec<String> {
        match self {
            NodeBody::Container(container) => container.facts(),
            NodeBody::Vm(vm) => vm.facts(),
            _ => Vec::new(),
        }
    }
}

/// Notes what a node of its kind cannot have, and the programs that the machine lacks for it.
pub(super) fn check(
    node: &Node,
    tuned: &Tuned<'_>,
    lacks: &mut Lacks<'_>,
    errors: &mut Diagnostics,
) {
    storage::check(node, lacks, errors);
    match node.kind {
        NodeKind::Container => container::check(node, lacks, errors),
        NodeKind::Vm => vm::check(node, tuned, lacks, errors),
        _ => {}
    }
}

impl NodePlan {
    pub fn kind(&self) -> NodeKind {
        self.body.kind()
    }

    /// The image that it sees; the host's own files where it has no root of its own.
    pub fn image(&self) -> &str {
        self.body.root().map_or(HOST_IMAGE, |root| &root.image)
    }

    /// Virtual CPUs, for a guest.
    pub fn vcpus(&self) -> u32 {
        self.cpus.map_or(1, |cpus| cpus.ceil() as u32)
    }

    pub fn facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        if let Some(cpus) = self.cpus {
            facts.push(format!("{cpus} CPU"));
        }
        if let Some(set) = &self.cpuset {
            facts.push(format!(
                "on CPU {set}{}",
                if self.isolate { ", its own" } else { "" }
            ));
        }
        if let Some(memory) = self.memory {
            facts.push(memory.to_string());
        }
        facts.extend(self.body.facts());
        facts.extend(self.storage.iter().map(StoragePlan::facts));
        facts.extend(self.dpdk.iter().map(|dpdk| dpdk.facts(self.kind())));
        facts
    }

    /// DPDK in it, if its huge pages are the host's: a VM's are its own memory's.
    pub fn dpdk_of_host(&self) -> Option<&DpdkPlan> {
        self.dpdk.as_ref().filter(|_| !self.kind().is_guest())
    }

    /// Whether an interface is a port of DPDK that the node's kernel does not have.
    pub fn is_past_kernel(&self, interface: &str) -> bool {
        let dpdk = self
            .dpdk
            .as_ref()
            .filter(|dpdk| !dpdk.driver.has_interface());
        dpdk.is_some_and(|dpdk| dpdk.ports.iter().any(|port| port == interface))
    }

    /// The storage that holds a directory.
    pub fn storage_of(&self, directory: &str) -> Option<&StoragePlan> {
        let mut all = self.storage.iter();
        all.find(|storage| Path::new(directory).starts_with(&storage.at))
    }
}
