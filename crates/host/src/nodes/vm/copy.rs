//! A guest that goes on where it was saved: as itself, or as a copy of another one.
//!
//! A copy has the name, the hardware addresses and the network of the guest that was saved, until its agent has changed
//! them. Its links are down meanwhile, so that its neighbours do not learn addresses at the wrong place.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use latlab_model::kinds::NodeKind;
use latlab_model::plan::NodePlan;
use latlab_model::snapshot::{SavedAs, Snapshot};
use latlab_wire::channel::Identity;
use serde_json::json;

use super::channel::Channel;
use super::error::Error;
use super::fingerprint;
use super::guest::Vm;
use super::network;
use super::qemu::VmConfig;
use super::renewal;
use super::snapshot;
use crate::nodes::driver::Node;
use crate::nodes::{saved, session};
use crate::sys::cgroup_entry::CgroupEntry;

/// The renewal, or the change of the identity.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the description of a saved guest.
pub(super) fn open(directory: &Path) -> Result<Snapshot, session::Error> {
    let found = saved::read(directory)?;
    if found.kind == NodeKind::Vm {
        return Ok(found);
    }
    let (node, kind) = (&found.saved_as.node, found.kind);
    let reason = format!(
        "the snapshot {} is of a {kind}, `{node}`",
        directory.display()
    );
    Err(session::Error::Other(reason))
}

/// Starts a copy of the guest that was saved in a directory.
pub(super) fn start(
    config: &VmConfig<'_>,
    cgroup: Option<&CgroupEntry>,
    node: &Node<'_>,
    directory: &Path,
    timeout: Duration,
) -> Result<(Vm, Channel), session::Error> {
    let saved = open(directory)?;
    check_machine(config, &saved)?;
    let vm = snapshot::load(config, cgroup, &state(directory)?, timeout)?;
    let channel = become_copy(&vm, &saved.saved_as, node, timeout);
    let channel = channel.map_err(|error| vm.end_because(error))?;
    Ok((vm, channel))
}

/// The file of a saved guest's devices and memory.
pub(super) fn state(directory: &Path) -> Result<File, Error> {
    let path = directory.join(snapshot::STATE);
    File::open(&path).map_err(Error::io("open", &path))
}

/// Refuses a saved guest that `node` cannot go on as.
pub(super) fn check(config: &VmConfig<'_>, saved: &Snapshot, node: &Node<'_>) -> Result<(), Error> {
    check_machine(config, saved)?;
    check_network(&saved.saved_as, &node.identity())
}

/// Refuses a guest that would go on as itself where the lab has another network than it was told of. A copy is told anew.
fn check_network(saved: &SavedAs, now: &SavedAs) -> Result<(), Error> {
    let both = saved.network.as_ref().zip(now.network.as_ref());
    let difference = both.and_then(|(then, now)| then.difference(now));
    match difference {
        Some(difference) if saved.is_same_guest(now) => Err(Error::OtherNetwork { difference }),
        _ => Ok(()),
    }
}

/// Refuses a saved guest whose machine is another one than that of `config`, but for what a copy changes.
fn check_machine(config: &VmConfig<'_>, saved: &Snapshot) -> Result<(), Error> {
    let mut as_saved = VmConfig {
        name: saved.saved_as.node.clone(),
        ..config.clone()
    };
    for (nic, mac) in as_saved.nics.iter_mut().zip(&saved.saved_as.macs) {
        nic.mac = mac.0;
    }
    fingerprint::check(&as_saved, &saved.machine)
}

/// Lets a guest that was loaded go on.
pub(super) fn go_on(
    vm: &Vm,
    saved: &SavedAs,
    node: &Node<'_>,
    timeout: Duration,
) -> Result<Channel, Error> {
    if !saved.is_same_guest(&node.identity()) {
        return become_copy(vm, saved, node, timeout);
    }
    vm.resume()?;
    let channel = vm.channel(timeout)?;
    channel.renew(renewal::draw(&node.plan.name)?, TIMEOUT)?;
    Ok(channel)
}

fn become_copy(
    vm: &Vm,
    saved: &SavedAs,
    node: &Node<'_>,
    timeout: Duration,
) -> Result<Channel, Error> {
    let name = &node.plan.name;
    set_links(vm, node.plan, false)?;
    vm.resume()?;
    let channel = vm.channel(timeout)?;
    let cards = saved.macs.iter().zip(&node.plan.interfaces);
    let identity = Identity {
        parameters: format!("latlab.name={name}"),
        macs: cards.map(|(from, to)| (from.0, to.mac.0)).collect(),
        renewal: renewal::draw(name)?,
    };
    channel.identify(identity, TIMEOUT)?;
    set_links(vm, node.plan, true)?;
    network::set_up(&channel, node, &[], Some(node.hosts_file()))?;
    Ok(channel)
}

fn set_links(vm: &Vm, node: &NodePlan, up: bool) -> Result<(), Error> {
    let mut qmp = vm.qmp()?;
    for index in 0..node.interfaces.len() {
        let link = json!({"name": format!("net{index}"), "up": up});
        qmp.execute("set_link", &link)?;
    }
    Ok(())
}
