//! A node of a lab as one of a topology.

use crate::containerlab::commands::{quoted, without_shell};
use crate::containerlab::images;
use crate::containerlab::remarks::Remarks;
use crate::containerlab::sizes::exact;
use crate::diagnostic::{Diagnostics, Mark};
use crate::kinds::{NodeKind, Pids, Runtime, Seccomp, StorageType};
use crate::plan::{InterfacePlan, NodePlan};
use crate::spec::yaml::Yaml;
use crate::spec::{Node, NodeFields};

pub(super) struct Nodes<'a> {
    /// The image of nodes without one of a registry.
    pub image: Option<&'a str>,
    /// For each link, whether it is in the topology.
    pub kept: &'a [bool],
    pub remarks: &'a mut Remarks,
    pub errors: &'a mut Diagnostics,
}

type Fields = Vec<(&'static str, Yaml)>;

impl Nodes<'_> {
    /// The fields of a node; none for one that is left out.
    pub(super) fn fields(&mut self, node: &Node, plan: &NodePlan) -> Option<Fields> {
        let at = node.name.at;
        let mut all = Fields::new();
        match node.kind {
            NodeKind::Vm => {
                let why = format!("node `{}` is a vm", *node.name);
                self.remarks.node_left_out(at, &why, "containerlab's VMs are images of vendors; `kind: container` makes it a container");
                return None;
            }
            NodeKind::Host => all.push(("kind", Yaml::text(at, "host"))),
            NodeKind::Container | NodeKind::Native => {
                all.push(("kind", Yaml::text(at, "linux")));
                all.extend(self.image(node).map(|image| ("image", image)));
                // A node of a lab has no other process, and no other network.
                all.push(("entrypoint", Yaml::text(at, "sleep infinity")));
                all.push(("network-mode", Yaml::text(at, "none")));
                self.limits(node, &mut all);
                for (at, key, instead) in lost(&node.fields) {
                    let message = format!("`{key}` of node `{}` has no equivalent", *node.name);
                    self.remarks.add(at, message, instead);
                }
            }
        }
        Yaml::push_list("exec", self.exec(node, plan), &mut all);
        Some(all)
    }

    fn image(&mut self, node: &Node) -> Option<Yaml> {
        let (name, at) = (&node.name.value, node.name.at);
        let own = node
            .fields
            .image
            .as_ref()
            .filter(|_| node.kind == NodeKind::Container);
        if let Some((image, reference)) =
            own.and_then(|image| Some((image, images::reference(image.named()?)?)))
        {
            let message = format!(
                "image `{}` is that of an archive, named `{reference}` in the topology",
                **image
            );
            let hint = format!(
                "`skopeo copy oci-archive:{} docker-daemon:{reference}:latest` loads it",
                **image
            );
            self.remarks.add(image.at, message, hint);
            return Some(Yaml::text(image.at, reference));
        }
        let Some(image) = self.image else {
            let message =
                format!("node `{name}` has no image of a registry, which containerlab needs");
            self.errors.add(
                at,
                message,
                "name one for such nodes, for example `--image debian:13`",
            );
            return None;
        };
        let message = format!("node `{name}` gets image `{image}` instead of its files here");
        self.remarks
            .add(at, message, "programs that it needs must be in that image");
        Some(Yaml::text(at, image))
    }

    fn limits(&mut self, node: &Node, all: &mut Fields) {
        let fields = &node.fields;
        all.extend(fields.cpus.map(|cpus| ("cpu", Yaml::of(&cpus))));
        let cpuset = fields.cpuset.as_ref();
        all.extend(cpuset.map(|set| ("cpu-set", Yaml::of(set))));
        all.extend(
            fields
                .memory
                .map(|memory| ("memory", Yaml::text(memory.at, exact(memory.value)))),
        );
        let at = node.name.at;
        if let Some(runtime) = fields
            .runtime
            .filter(|runtime| matches!(runtime.value, Runtime::Docker | Runtime::Podman))
        {
            all.push(("runtime", Yaml::of(&runtime)));
        }
        if !fields.env.is_empty() {
            let entries = fields
                .env
                .iter()
                .map(|(name, value)| (name.as_str(), Yaml::text(at, value.clone())));
            all.push(("env", Yaml::map(at, entries.collect())));
        }
        let binds = fields.binds.iter().map(|bind| {
            let ro = if bind.read_only { ":ro" } else { "" };
            Yaml::text(bind.at, format!("{}:{}{ro}", bind.source, bind.target))
        });
        Yaml::push_list("binds", binds.collect(), all);
        let tmpfs = fields.storage.iter().filter_map(|storage| {
            let size = storage
                .size
                .filter(|_| storage.kind.value == StorageType::Tmpfs)?;
            Some((
                storage.at.as_str(),
                Yaml::text(storage.at.at, format!("size={}", size.value.0)),
            ))
        });
        let tmpfs: Vec<(&str, Yaml)> = tmpfs.collect();
        if !tmpfs.is_empty() {
            all.push(("tmpfs", Yaml::map(at, tmpfs)));
        }
        if let Some(security) = &fields.security {
            let granted = security
                .capabilities
                .iter()
                .map(|name| Yaml::text(security.at, name.clone()));
            Yaml::push_list("cap-add", granted.collect(), all);
            if security.seccomp == Seccomp::Unconfined {
                Yaml::push_list(
                    "security-opts",
                    vec![Yaml::text(security.at, "seccomp=unconfined")],
                    all,
                );
            }
        }
    }

    /// Addresses of the node's ends, and then its own commands.
    fn exec(&self, node: &Node, plan: &NodePlan) -> Vec<Yaml> {
        let kept = plan
            .interfaces
            .iter()
            .filter(|interface| self.kept.get(interface.link) == Some(&true));
        let addresses = kept
            .flat_map(add_addresses)
            .map(|line| Yaml::text(node.name.at, line));
        let mut all: Vec<Yaml> = addresses.collect();
        for line in node.fields.exec.iter().chain(&node.fields.setup) {
            all.push(Yaml::text(line.at, without_shell(line)));
        }
        all
    }
}

fn add_addresses(interface: &InterfacePlan) -> impl Iterator<Item = String> {
    let add = |address| format!("ip address add {address} dev {}", quoted(&interface.name));
    interface.addresses.iter().map(add)
}

/// Fields without an equivalent, with what there is instead.
fn lost(fields: &NodeFields) -> Vec<(Mark, &'static str, &'static str)> {
    let mut all = Vec::new();
    let mut add = |at: Option<Mark>, key, instead| all.extend(at.map(|at| (at, key, instead)));
    let isolate = fields.isolate.filter(|isolate| isolate.value);
    add(
        isolate.map(|isolate| isolate.at),
        "isolate",
        "`cpu-set` names CPUs, and other containers may use them too",
    );
    add(
        fields.tuning.as_ref().map(|tuning| tuning.at),
        "tuning",
        "`latlab tune apply` quiets the machine without a lab",
    );
    add(
        fields.hide.first().map(|hidden| hidden.at),
        "hide",
        "bind an empty file or directory over it",
    );
    add(
        fields.run.as_ref().map(|run| run.at),
        "run",
        "containerlab measures nothing",
    );
    add(
        fields.teardown.as_ref().map(|teardown| teardown.at),
        "teardown",
        "run it by `containerlab exec` before `destroy`",
    );
    let storage = fields
        .storage
        .iter()
        .find(|storage| storage.kind.value != StorageType::Tmpfs);
    add(
        storage.map(|storage| storage.at.at),
        "storage",
        "`volumes:` are Docker's",
    );
    add(
        fields.dpdk.as_ref().map(|dpdk| dpdk.at),
        "dpdk",
        "bind a hugetlbfs of the host at `/dev/hugepages`",
    );
    let runtime = fields
        .runtime
        .filter(|runtime| !matches!(runtime.value, Runtime::Docker | Runtime::Podman));
    add(
        runtime.map(|runtime| runtime.at),
        "runtime",
        "containerlab starts containers by Docker or Podman",
    );
    let pids = fields
        .security
        .as_ref()
        .filter(|security| security.pids != Pids::default());
    add(
        pids.map(|security| security.at),
        "security",
        "its number of processes is Docker's default there",
    );
    all
}
