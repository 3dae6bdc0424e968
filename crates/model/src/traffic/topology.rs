//! Known topologies of parallel applications, and their recognition.

use std::collections::BTreeSet;

use serde::Serialize;

/// Beyond, a mesh is not looked for: its recognition tries arrangements.
const MAX_MESH: usize = 64;

/// Neighbours of each node, by number.
type Neighbours = [BTreeSet<usize>];

/// How a component's nodes are joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "topology", rename_all = "kebab-case")]
pub enum Topology {
    Pair,
    /// All talk with one alone.
    Star {
        center: String,
    },
    /// One after the other, without a way back.
    Chain,
    Ring,
    /// A grid of two dimensions.
    Mesh {
        rows: usize,
        columns: usize,
    },
    AllToAll,
    Irregular,
}

/// Nodes that are joined with each other, directly or by others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Component {
    pub nodes: Vec<String>,
    #[serde(flatten)]
    pub topology: Topology,
}

impl std::fmt::Display for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.nodes.len();
        match &self.topology {
            Topology::Pair => write!(f, "a pair")?,
            Topology::Star { center } => write!(f, "a star around {center}")?,
            Topology::Chain => write!(f, "a chain of {count}")?,
            Topology::Ring => write!(f, "a ring of {count}")?,
            Topology::Mesh { rows, columns } => write!(f, "a mesh of {rows} x {columns}")?,
            Topology::AllToAll => write!(f, "all to all of {count}")?,
            Topology::Irregular => write!(f, "no known topology of {count}")?,
        }
        write!(f, ": {}", self.nodes.join(", "))
    }
}

impl Component {
    /// Nodes are numbered in the order of `names`, and joined.
    pub(super) fn of(names: Vec<String>, neighbours: &Neighbours) -> Component {
        let count = names.len();
        let of_degree = |degree| {
            neighbours
                .iter()
                .filter(|near| near.len() == degree)
                .count()
        };
        let (ones, twos) = (of_degree(1), of_degree(2));
        let center = neighbours.iter().position(|near| near.len() + 1 == count);
        let topology = match center {
            _ if count == 2 => Topology::Pair,
            _ if of_degree(count - 1) == count => Topology::AllToAll,
            Some(center) if ones + 1 == count => Topology::Star {
                center: names[center].clone(),
            },
            _ if twos == count => Topology::Ring,
            _ if ones == 2 && twos + 2 == count => Topology::Chain,
            _ => mesh(neighbours).unwrap_or(Topology::Irregular),
        };
        Component {
            nodes: names,
            topology,
        }
    }
}

/// A grid of at least two rows and three columns: smaller ones are rings and chains.
fn mesh(neighbours: &Neighbours) -> Option<Topology> {
    let count = neighbours.len();
    if count > MAX_MESH {
        return None;
    }
    let sizes = (2..).take_while(|rows| rows * rows <= count);
    let mut sizes = sizes.filter(|rows| count % rows == 0);
    let rows = sizes.find(|rows| is_grid(neighbours, *rows, count / rows))?;
    let columns = count / rows;
    Some(Topology::Mesh { rows, columns })
}

/// Whether the nodes can be laid out in rows so that neighbours are those beside and below each other.
fn is_grid(neighbours: &Neighbours, rows: usize, columns: usize) -> bool {
    let of_degree = |degree| {
        neighbours
            .iter()
            .filter(|near| near.len() == degree)
            .count()
    };
    let edge = 2 * (rows + columns) - 8;
    let degrees = [of_degree(2), of_degree(3), of_degree(4)];
    if degrees != [4, edge, neighbours.len() - 4 - edge] {
        return false;
    }
    let mut corners = (0..neighbours.len()).filter(|node| neighbours[*node].len() == 2);
    corners.any(|corner| is_laid_out(neighbours, columns, &mut vec![corner]))
}

/// Tries the nodes that can follow those that have a place, row by row. A grid has as many neighbours as nodes of these
/// degrees have, so each one beside another in the layout leaves none over.
fn is_laid_out(neighbours: &Neighbours, columns: usize, places: &mut Vec<usize>) -> bool {
    let at = places.len();
    if at == neighbours.len() {
        return true;
    }
    let left = (at % columns != 0).then(|| places[at - 1]);
    let above = at.checked_sub(columns).map(|above| places[above]);
    let near = |node: Option<usize>| node.map(|node| &neighbours[node]);
    let (Some(first), second) = (near(left.or(above)), near(above)) else {
        return false;
    };
    let both = first
        .iter()
        .filter(|node| second.is_none_or(|second| second.contains(node)));
    for node in both {
        if places.contains(node) {
            continue;
        }
        places.push(*node);
        if is_laid_out(neighbours, columns, places) {
            return true;
        }
        places.pop();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::{Graph, PRUNING, Rate};
    use super::*;

    fn rates(edges: &[(usize, usize)], bytes_per_second: f64) -> Vec<Rate> {
        let name = |number: &usize| format!("n{number:02}");
        let rate = |(a, b): &(usize, usize)| Rate {
            from: name(a),
            to: name(b),
            bytes_per_second,
        };
        edges.iter().map(rate).collect()
    }

    /// The topologies of these edges, with acknowledgements and a little between all.
    fn seen(count: usize, edges: &[(usize, usize)]) -> Vec<Component> {
        let back: Vec<(usize, usize)> = edges.iter().map(|(a, b)| (*b, *a)).collect();
        let all: Vec<(usize, usize)> = (0..count)
            .flat_map(|a| (0..count).map(move |b| (a, b)))
            .collect();
        let mut rates_of_all = rates(edges, 1e6);
        rates_of_all.extend(rates(&back, 2e4));
        rates_of_all.extend(rates(&all, 3e4));
        let graph = Graph::of(&rates_of_all, PRUNING);
        let ends: usize = graph.neighbours.values().map(BTreeSet::len).sum();
        assert_eq!(ends, 2 * edges.len());
        graph.components()
    }

    fn topology(count: usize, edges: &[(usize, usize)]) -> Topology {
        let mut all = seen(count, edges);
        assert_eq!(all.len(), 1);
        all.remove(0).topology
    }

    fn grid(rows: usize, columns: usize, order: &[usize]) -> Vec<(usize, usize)> {
        let beside = (0..rows * columns)
            .filter(|at| at % columns != 0)
            .map(|at| (at - 1, at));
        let below = (columns..rows * columns).map(|at| (at - columns, at));
        let edges = beside.chain(below);
        edges.map(|(a, b)| (order[a], order[b])).collect()
    }

    #[test]
    fn topologies_of_parallel_applications_are_recognised() {
        let ring: Vec<_> = (0..6).map(|n| (n, (n + 1) % 6)).collect();
        assert_eq!(topology(6, &ring), Topology::Ring);
        assert_eq!(topology(6, &ring[..5]), Topology::Chain);
        let star: Vec<_> = [0, 1, 3, 4].map(|n| (n, 2)).to_vec();
        let center = "n02".to_owned();
        assert_eq!(topology(5, &star), Topology::Star { center });
        assert_eq!(topology(2, &[(0, 1)]), Topology::Pair);
        for count in 3..9 {
            let all: Vec<_> = (0..count)
                .flat_map(|a| (0..a).map(move |b| (a, b)))
                .collect();
            assert_eq!(topology(count, &all), Topology::AllToAll);
        }
        // A node more at a ring.
        let tail = [&ring[..], &[(0, 6)]].concat();
        assert_eq!(topology(7, &tail), Topology::Irregular);
    }

    #[test]
    fn meshes_are_recognised_in_any_order_of_their_nodes() {
        for (rows, columns) in [
            (2, 3),
            (2, 4),
            (3, 3),
            (3, 4),
            (2, 8),
            (4, 4),
            (5, 6),
            (8, 8),
        ] {
            let count = rows * columns;
            let step = [7, 11, 5, 13].into_iter().find(|step| count % step != 0);
            let order: Vec<usize> = (0..count).map(|at| at * step.unwrap() % count).collect();
            let mesh = Topology::Mesh { rows, columns };
            assert_eq!(topology(count, &grid(rows, columns, &order)), mesh);
        }
        // The degrees of a mesh of 3 x 4, and other neighbours.
        let order: Vec<usize> = (0..12).collect();
        let mut twisted = grid(3, 4, &order);
        twisted.retain(|edge| !matches!(edge, (0, 1) | (6, 7)));
        twisted.extend([(0, 7), (1, 6)]);
        assert_eq!(topology(12, &twisted), Topology::Irregular);
    }

    #[test]
    fn groups_without_traffic_between_them_are_told_apart() {
        let said: Vec<String> = seen(7, &[(0, 1), (2, 3), (3, 4), (4, 2)])
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(said, ["all to all of 3: n02, n03, n04", "a pair: n00, n01"]);
        assert!(Graph::of(&[], PRUNING).components().is_empty());
        assert!(
            Graph::of(&rates(&[(0, 0), (1, 2)], 0.0), PRUNING)
                .components()
                .is_empty()
        );
    }
}
