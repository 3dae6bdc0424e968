//! The supervisor's file, from the plan.

use std::path::Path;

use ipnet::IpNet;
use latlab_model::kinds::Streams;
use latlab_model::plan::{EndpointPlan, LinkPlan, Medium, Plan};
use latlab_wire::streams::{Config, End, Host, Network, Node, Shadow};

use crate::links::tunnel_name;

/// Whether a link of the lab has streams.
pub fn has_streams(plan: &Plan) -> bool {
    links(plan).next().is_some()
}

fn links(plan: &Plan) -> impl Iterator<Item = &LinkPlan> {
    plan.links.iter().filter(|link| !link.streams().is_off())
}

/// One kind serves all links of a lab: TCP where any asks for it, because it differs least.
fn shadow(plan: &Plan) -> Shadow {
    let asked: Vec<Streams> = links(plan).map(LinkPlan::streams).collect();
    match () {
        () if asked.contains(&Streams::Tcp) => Shadow::Tcp,
        () if asked.contains(&Streams::Unix) => Shadow::Unix,
        () => Shadow::Auto,
    }
}

/// The host of an end, where each end has one of its own.
fn host(link: &LinkPlan, end: usize, namespaces: &Path) -> Option<Host> {
    let Medium::Overlay(overlay) = &link.medium else {
        return None;
    };
    Some(Host {
        netns: namespaces.join(tunnel_name(link, end)),
        address: overlay.underlay.get(end)?.addr(),
    })
}

/// The networks of the lab. `namespaces` is the directory of its pinned network namespaces.
pub(super) fn config(plan: &Plan, namespaces: &Path) -> Config {
    let nodes: Vec<usize> = (0..plan.nodes.len())
        .filter(|node| plan.has_streams(&plan.nodes[*node]))
        .collect();
    let end = |link: &LinkPlan, number: usize, end: &EndpointPlan| {
        let interface = &plan.nodes[end.node].interfaces[end.interface];
        Some(End {
            node: nodes.iter().position(|node| *node == end.node)?,
            addresses: interface.addresses.iter().map(IpNet::addr).collect(),
            host: host(link, number, namespaces),
        })
    };
    let networks = links(plan).map(|link| Network {
        name: link.name.clone(),
        ports: link.stream_ports().to_vec(),
        ends: link
            .endpoints
            .iter()
            .enumerate()
            .filter_map(|(number, at)| end(link, number, at))
            .collect(),
    });
    Config {
        networks: networks.collect(),
        shadow: shadow(plan),
        nodes: nodes
            .iter()
            .map(|node| Node {
                name: plan.nodes[*node].name.clone(),
                netns: namespaces.join(&plan.nodes[*node].name),
            })
            .collect(),
    }
}
