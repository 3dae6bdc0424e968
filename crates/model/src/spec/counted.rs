//! `count:` of a node: it stands for that many, `NAME-1`, `NAME-2` and so on, each at every link that names it.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use super::link::Link;
use super::node::{Node, NodeFields};
use super::yaml::Yaml;
use crate::diagnostic::{Diagnostics, Spanned, shown};
use crate::kinds::LinkKind;

/// More nodes than a bridge has ports have no link in common.
const COUNTS: RangeInclusive<u32> = 1..=1000;

/// The number of nodes that an entry of `nodes` stands for; 1 where that is no number.
pub(super) fn count_of(node: &Yaml) -> usize {
    let count = node.get("count").and_then(Yaml::scalar);
    count.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Puts the nodes in the place of the one that stands for them, and their ends in the place of its ends.
pub(super) fn expand(nodes: &mut Vec<Node>, links: &mut [Link], errors: &mut Diagnostics) {
    let mut counts: HashMap<String, u32> = HashMap::new();
    for node in nodes.iter() {
        let Some(count) = node.fields.count else {
            continue;
        };
        if node.kind.is_host() {
            let message = format!(
                "node `{}` is the host, of which there is one",
                shown(&node.name)
            );
            errors.add(count.at, message, "remove `count`");
        } else if COUNTS.contains(&count.value) {
            counts.insert(node.name.value.clone(), count.value);
        } else {
            let message = format!("`count` of node `{}` is {}", shown(&node.name), count.value);
            let hint = format!("from {} to {}", COUNTS.start(), COUNTS.end());
            errors.add(count.at, message, hint);
        }
    }
    if counts.is_empty() {
        return;
    }
    *nodes = std::mem::take(nodes)
        .into_iter()
        .flat_map(|node| match counts.get(&node.name.value) {
            Some(&count) => (1..=count).map(|number| numbered(&node, number)).collect(),
            None => vec![node],
        })
        .collect();
    check_names(nodes, errors);
    for link in links {
        expand_ends(link, &counts, errors);
    }
}

/// A name that is written may be that of a number of another node.
fn check_names(nodes: &[Node], errors: &mut Diagnostics) {
    let mut lines: HashMap<&str, usize> = HashMap::new();
    for node in nodes {
        if let Some(first) = lines.insert(&node.name, node.name.at.line) {
            let name = shown(&node.name);
            let message = format!("two nodes are named `{name}`; the first is on line {first}");
            errors.add(node.name.at, message, "rename one");
        }
    }
}

/// Notes a `count` that stands elsewhere than on a node.
pub(super) fn refuse(fields: &NodeFields, what: &str, errors: &mut Diagnostics) {
    if let Some(count) = fields.count {
        let message = format!("`count` of {what} would make many nodes of each");
        errors.add(count.at, message, "move it to the node");
    }
}

fn numbered(node: &Node, number: u32) -> Node {
    let mut node = node.clone();
    node.name.value = name(&node.name.value, number);
    node.fields.count = None;
    node
}

fn name(of: &str, number: u32) -> String {
    format!("{of}-{number}")
}

fn expand_ends(link: &mut Link, counts: &HashMap<String, u32>, errors: &mut Diagnostics) {
    let written = link.endpoints.len();
    let outer = link
        .endpoints
        .first()
        .filter(|_| link.kind.value == LinkKind::Nat);
    let many = outer.and_then(|end| {
        counts
            .get_key_value(&end.node.value)
            .filter(|(_, count)| **count > 1)
    });
    if let (Some(outer), Some((node, count))) = (outer, many) {
        let message = format!(
            "the outside of link `{}` is `{}`, which stands for {count} nodes",
            shown(&link.name),
            shown(node)
        );
        let hint = "a nat has one node outside: remove its `count`, or write another node first";
        errors.add(outer.node.at, message, hint);
    }
    let mut ends = Vec::new();
    for end in std::mem::take(&mut link.endpoints) {
        let Some(&count) = counts.get(&end.node.value) else {
            ends.push(end);
            continue;
        };
        let address = end.addresses.first().map(|address| address.at);
        let fixed = end.mac.as_ref().map(|mac| mac.at).or(address);
        if let Some(at) = fixed.filter(|_| count > 1) {
            let node = shown(&end.node).to_string();
            let message =
                format!("an address is fixed for `{node}`, which stands for {count} nodes");
            errors.add(at, message, "leave it out: latlab gives each its own");
        }
        ends.extend((1..=count).map(|number| {
            let mut end = end.clone();
            end.node = Spanned::new(name(&end.node.value, number), end.node.at);
            end
        }));
    }
    link.written_ends = link.written_ends - written + ends.len();
    link.endpoints = ends;
}

#[cfg(test)]
mod tests {
    use crate::spec::Lab;

    #[test]
    fn a_node_that_stands_for_several_is_at_its_links_as_often() {
        let lab = Lab::parse(
            "name: many\ntopology:\n  nodes:\n    one: {kind: native}\n    guest: {kind: vm, count: 3, memory: 256MiB}\n  \
             links:\n    - {type: bridge, endpoints: [\"one:eth0\", \"guest:eth0\"]}\n",
        )
        .unwrap();
        let names: Vec<&str> = lab.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["one", "guest-1", "guest-2", "guest-3"]);
        let ends = lab.links[0].endpoints.iter();
        let ends: Vec<&str> = ends.map(|end| end.node.as_str()).collect();
        assert_eq!(ends, names);
        assert!(lab.nodes[3].fields.memory.is_some());
    }
}
