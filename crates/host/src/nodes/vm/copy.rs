//! A guest that goes on where it was saved: as itself, or as a copy of another one.
//!
//! A copy has the name, the hardware addresses and the network of the guest that was saved, until its agent has changed
//! them. Its links are down meanwhile, so that its neighbours do not learn addresses at the wrong place.

use std::time::Duration;

use latlab_model::plan::NodePlan;
use latlab_wire::channel::Identity;
use serde_json::json;

use super::channel::Channel;
use super::error::Error;
use super::fingerprint;
use super::guest::Vm;
use super::network;
use super::nic::Nic;
use super::qemu::VmConfig;
use super::renewal;
use crate::nodes::driver::{Node, SavedAt};

/// The renewal, or the change of the identity.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Refuses a saved guest whose machine is another one than that of `config`, but for what a copy changes.
pub(super) fn check(config: &VmConfig<'_>, saved: &SavedAt<'_>) -> Result<(), Error> {
    let cards = config.nics.iter().zip(&saved.node.interfaces);
    let mut nics: Vec<_> = cards
        .map(|(nic, interface)| Nic {
            mac: interface.mac.0,
            ..nic.clone()
        })
        .collect();
    // One card more than the saved guest has is a difference.
    nics.extend(config.nics.iter().skip(nics.len()).cloned());
    let as_saved = VmConfig {
        name: saved.node.name.clone(),
        nics,
        ..config.clone()
    };
    fingerprint::check(&as_saved, saved.machine)
}

/// Lets a guest that was loaded go on. `saved` is the node that it was saved of.
pub(super) fn go_on(
    vm: &Vm,
    saved: &NodePlan,
    node: &Node<'_>,
    timeout: Duration,
) -> Result<Channel, Error> {
    let name = &node.plan.name;
    if saved.name == *name {
        vm.resume()?;
        let channel = vm.channel(timeout)?;
        channel.renew(renewal::draw(name)?, TIMEOUT)?;
        return Ok(channel);
    }
    set_links(vm, node.plan, false)?;
    vm.resume()?;
    let channel = vm.channel(timeout)?;
    let cards = saved.interfaces.iter().zip(&node.plan.interfaces);
    let identity = Identity {
        parameters: format!("latlab.name={name}"),
        macs: cards.map(|(from, to)| (from.mac.0, to.mac.0)).collect(),
        renewal: renewal::draw(name)?,
    };
    channel.identify(identity, TIMEOUT)?;
    set_links(vm, node.plan, true)?;
    network::set_up(&channel, node, Some(node.hosts_file()))?;
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
