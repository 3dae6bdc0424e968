//! Requirements of a workload that are seen in the plan of its lab.

use std::path::Path;

use super::document::Plan;
use super::node::{NodeBody, NodePlan};
use crate::diagnostic::{Diagnostics, shown};
use crate::facts::Facts;
use crate::kinds::{Bind, Seccomp};
use crate::spec::{Engine, Fio, Measurement, Program, Workload};

/// The program is there, where a node has the host's own files; what is in an image is seen when it starts. A client
/// reaches its server, and a file that is to be on a disk is not in memory.
pub(super) fn check_workload(
    m: &Measurement,
    workload: &Workload,
    plan: &Plan,
    facts: &Facts,
    errors: &mut Diagnostics,
) {
    let Some(program) = workload.program() else {
        return;
    };
    let names: Vec<&str> = plan.nodes.iter().map(|node| node.name.as_str()).collect();
    let on = workload.nodes(&names);
    let from = workload.from.as_ref();
    let from_name = from.map(|from| from.value.as_str());
    let of_the_host = |name: &&str| plan.node(name).is_some_and(|n| n.body.has_files_of_host());
    let node = on.iter().copied().chain(from_name).find(of_the_host);
    for (tool, package) in program.name().tools() {
        if let Some(node) = node.filter(|_| facts.lacks_tool(tool)) {
            let message = format!(
                "measurement `{}` needs {tool} in node `{node}`, and it is not installed on the host",
                *m.name
            );
            errors.add(m.name.at, message, format!("apt-get install {package}"));
        }
    }
    if let (Some(from), [server]) = (from, &on[..]) {
        if plan.reach(from.as_str(), *server, m.ip == 6).is_none() {
            let message = format!(
                "measurement `{}`: no link takes IPv{} from `{}` to `{server}`",
                *m.name,
                m.ip,
                shown(from)
            );
            let hint = "join the two nodes by a link, or remove `from`";
            errors.add(from.at, message, hint);
        }
    }
    if program.name().is_joint() {
        check_joint(m, &on, plan, errors);
    }
    let on_host = |name: &&&str| plan.node(name).is_some_and(|node| node.kind().is_host());
    if let Some(node) = on
        .iter()
        .find(on_host)
        .filter(|_| program.name().has_server() || program.name().is_joint())
    {
        let message = format!(
            "measurement `{}` has its server in `{node}`, which is the host itself",
            *m.name
        );
        let hint = "name another node: every user of the host could reach the server";
        errors.add(m.name.at, message, hint);
    }
    if let Program::Fio(fio) = program {
        for node in on.iter().filter_map(|name| plan.node(name)) {
            check_fio(m, fio, node, errors);
        }
    }
}

/// Each node of a job calls each other one at its own address, which a NAT hides.
fn check_joint(m: &Measurement, on: &[&str], plan: &Plan, errors: &mut Diagnostics) {
    let is_joined = |from: &str, to: &str| {
        let reach = plan.reach(from, to, false);
        reach.is_some_and(|reach| reach.network.is_some())
    };
    for (index, from) in on.iter().enumerate() {
        let mut others = on[index + 1..].iter();
        if let Some(to) = others.find(|to| !is_joined(from, to) || !is_joined(to, from)) {
            let name = &*m.name;
            let message = format!(
                "measurement `{name}`: no link without NAT joins `{from}` and `{to}` over IPv4"
            );
            errors.add(m.name.at, message, "join all nodes of the job by a link");
        }
    }
}

fn check_fio(m: &Measurement, fio: &Fio, node: &NodePlan, errors: &mut Diagnostics) {
    let (directory, name) = (&fio.directory, &node.name);
    if let NodeBody::Container(container) = &node.body {
        let is_filtered = container.security.seccomp == Seccomp::Default;
        if fio.engine == Engine::IoUring && is_filtered {
            let message = format!(
                "measurement `{}` uses io_uring in container `{name}`, to which it is denied",
                *m.name
            );
            let hint = "`engine: libaio`, or `security: {seccomp: unconfined}` of the node";
            errors.add(m.name.at, message, hint);
        }
    }
    let Some(storage) = node.storage_of(directory) else {
        return refuse_memory(m, directory, node, errors);
    };
    let room = storage.size.filter(|_| storage.kind.is_sized());
    if let Some(room) = room.filter(|room| fio.size >= *room) {
        let message = format!(
            "measurement `{}` has a file of {} in `{directory}` of node `{name}`, which has {room}",
            *m.name, fio.size
        );
        errors.add(
            m.name.at,
            message,
            "raise `size` of the storage, or lower that of fio",
        );
    }
}

/// A guest's own files are in its memory; what it shares with the host is not. Storage of type tmpfs was asked for.
fn refuse_memory(m: &Measurement, directory: &str, node: &NodePlan, errors: &mut Diagnostics) {
    let NodeBody::Vm(vm) = &node.body else {
        return;
    };
    let is_in = |bind: &Bind| Path::new(directory).starts_with(&bind.target);
    if !vm.root.binds.iter().any(is_in) {
        let message = format!(
            "measurement `{}` would measure memory: `{directory}` of VM `{}` is in its memory",
            *m.name, node.name
        );
        let hint = format!(
            "give the node a disk there: `storage: [{{at: {directory}, type: disk, size: 1GiB}}]`"
        );
        errors.add(m.name.at, message, hint);
    }
}
