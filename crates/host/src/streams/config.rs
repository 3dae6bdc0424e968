//! The supervisor's file, from the plan.

use std::path::Path;

use ipnet::IpNet;
use latlab_model::kinds::Streams;
use latlab_model::plan::{EndpointPlan, LinkPlan, Medium, NodePlan, Plan};
use latlab_wire::streams::{Config, End, Network, Node, Shadow};

/// Whether a link of the lab has streams.
pub fn has_streams(plan: &Plan) -> bool {
    plan.links.iter().any(is_of_streams)
}

/// Whether programs of a node are to be under the filter: its processes are the host's, and a link of it has streams.
pub fn joins(plan: &Plan, node: usize) -> bool {
    can_join(&plan.nodes[node])
        && plan
            .links
            .iter()
            .filter(|link| is_of_streams(link))
            .any(|link| link.endpoints.iter().any(|end| end.node == node))
}

fn is_of_streams(link: &LinkPlan) -> bool {
    !streams_of(link).is_off()
}

fn streams_of(link: &LinkPlan) -> Streams {
    match &link.medium {
        Medium::Overlay(overlay) => overlay.streams,
        _ => Streams::Off,
    }
}

/// One kind serves all links of a lab: TCP where any asks for it, because it differs least.
fn shadow(plan: &Plan) -> Shadow {
    let asked: Vec<Streams> = plan.links.iter().map(streams_of).collect();
    match () {
        () if asked.contains(&Streams::Tcp) => Shadow::Tcp,
        () if asked.contains(&Streams::Unix) => Shadow::Unix,
        () => Shadow::Auto,
    }
}

fn can_join(node: &NodePlan) -> bool {
    !node.kind().is_guest() && !node.kind().is_host()
}

/// The networks of the lab. `namespaces` is the directory of its pinned network namespaces.
pub(super) fn config(plan: &Plan, namespaces: &Path) -> Config {
    let nodes: Vec<usize> = (0..plan.nodes.len())
        .filter(|node| joins(plan, *node))
        .collect();
    let end = |end: &EndpointPlan| {
        let interface = &plan.nodes[end.node].interfaces[end.interface];
        Some(End {
            node: nodes.iter().position(|node| *node == end.node)?,
            addresses: interface.addresses.iter().map(IpNet::addr).collect(),
        })
    };
    let networks = plan.links.iter().filter(|link| is_of_streams(link));
    let networks = networks.map(|link| Network {
        name: link.name.clone(),
        ends: link.endpoints.iter().filter_map(end).collect(),
    });
    Config {
        networks: networks.collect(),
        nodes: nodes
            .iter()
            .map(|node| Node {
                name: plan.nodes[*node].name.clone(),
                netns: namespaces.join(&plan.nodes[*node].name),
            })
            .collect(),
        shadow: shadow(plan),
    }
}
