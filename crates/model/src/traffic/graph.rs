//! Pairs of nodes that exchange much, as an undirected graph.

use std::collections::{BTreeMap, BTreeSet};

use super::topology::Component;

/// Share of the largest pair's bytes below which a pair is no edge: acknowledgements, name lookups, heartbeats.
pub const PRUNING: f64 = 0.10;

/// Traffic from one node to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    pub from: String,
    pub to: String,
    pub bytes_per_second: f64,
}

/// Nodes, by their names, and the pairs of them that exchange much.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graph {
    pub(super) neighbours: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Both directions of a pair are one weight. Edges have at least `pruning` of the largest weight.
    pub fn of(rates: &[Rate], pruning: f64) -> Graph {
        let mut weights: BTreeMap<[&str; 2], f64> = BTreeMap::new();
        for rate in rates.iter().filter(|rate| rate.from != rate.to) {
            let mut pair = [rate.from.as_str(), rate.to.as_str()];
            pair.sort_unstable();
            *weights.entry(pair).or_default() += rate.bytes_per_second;
        }
        let largest = weights.values().copied().fold(0.0, f64::max);
        let mut graph = Graph::default();
        for ([a, b], weight) in weights {
            if weight > 0.0 && weight >= pruning * largest {
                graph.join(a, b);
            }
        }
        graph
    }

    fn join(&mut self, a: &str, b: &str) {
        for (from, to) in [(a, b), (b, a)] {
            let neighbours = self.neighbours.entry(from.to_owned()).or_default();
            neighbours.insert(to.to_owned());
        }
    }

    /// Parts that exchange nothing with each other, the largest first.
    pub fn components(&self) -> Vec<Component> {
        let mut left: BTreeSet<&String> = self.neighbours.keys().collect();
        let mut components = Vec::new();
        while let Some(first) = left.pop_first() {
            let mut nodes = vec![first];
            let mut at = 0;
            while let Some(node) = nodes.get(at) {
                let near = self.neighbours[*node].iter();
                let new: Vec<&String> = near.filter(|near| left.remove(near)).collect();
                nodes.extend(new);
                at += 1;
            }
            components.push(self.component(nodes));
        }
        components.sort_by_key(|component| std::cmp::Reverse(component.nodes.len()));
        components
    }

    fn component(&self, mut nodes: Vec<&String>) -> Component {
        nodes.sort_unstable();
        let numbers: BTreeMap<&String, usize> = nodes.iter().copied().zip(0..).collect();
        let near = |node: &&String| self.neighbours[*node].iter().map(|near| numbers[near]);
        let neighbours: Vec<BTreeSet<usize>> =
            nodes.iter().map(|node| near(node).collect()).collect();
        Component::of(nodes.into_iter().cloned().collect(), &neighbours)
    }
}
