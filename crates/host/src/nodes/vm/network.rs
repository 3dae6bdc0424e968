//! The network of a guest as its plan has it: names of interfaces, addresses, routes and the hosts file.

use std::time::Duration;

use latlab_model::plan::NodePlan;
use latlab_wire::channel::{Interface, MAX_PAYLOAD, NetworkConfig, Route};

use super::channel::{self, Channel};
use crate::links::NicBackend;
use crate::nodes::driver::Node;
use crate::sys::named::HOSTS;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Sets it up inside, and returns when addresses are usable. `backends` are the network sides of its interfaces, where some
/// may be cards of hardware. `hosts` is the text of the hosts file, if it is the lab's.
pub(super) fn set_up(
    channel: &Channel,
    node: &Node<'_>,
    backends: &[NicBackend],
    hosts: Option<String>,
) -> Result<(), channel::Error> {
    // That of a large lab does not fit a message.
    let (short, long) = match hosts {
        Some(hosts) if hosts.len() > MAX_PAYLOAD / 2 => (None, Some(hosts)),
        hosts => (hosts, None),
    };
    channel.configure_network(config(node.plan, backends, short), TIMEOUT)?;
    match long {
        Some(hosts) => channel.put(&hosts, HOSTS),
        None => Ok(()),
    }
}

fn config(node: &NodePlan, backends: &[NicBackend], hosts: Option<String>) -> NetworkConfig {
    let there = node.interfaces.iter().enumerate();
    let there = there.filter(|(_, i)| !node.is_past_kernel(&i.name));
    let interfaces = there.clone().map(|(index, i)| Interface {
        mac: i.mac.0,
        own_mac: backends.get(index).and_then(NicBackend::own_mac),
        name: i.name.clone(),
        mtu: Some(i.mtu),
        addresses: i
            .addresses
            .iter()
            .map(|a| (a.addr(), a.prefix_len()))
            .collect(),
    });
    let routes = there.flat_map(|(_, i)| {
        i.routes.iter().map(|r| Route {
            destination: (r.to.addr(), r.to.prefix_len()),
            gateway: Some(r.via),
            interface: Some(i.name.clone()),
        })
    });
    NetworkConfig {
        interfaces: interfaces.collect(),
        routes: routes.collect(),
        hosts,
    }
}
