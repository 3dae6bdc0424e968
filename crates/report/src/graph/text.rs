//! For the terminal: nodes, then every link with its ends.

use latlab_model::results::Topology;

pub fn text(topology: &Topology) -> String {
    let mut out = format!("{}\n", topology.lab);
    let width = topology
        .nodes
        .iter()
        .map(|n| n.name.len())
        .max()
        .unwrap_or(0);
    for node in &topology.nodes {
        let facts = [vec![node.kind.clone()], node.facts.clone()]
            .concat()
            .join(", ");
        out += &format!("  {:width$}  {facts}\n", node.name);
    }
    for link in &topology.links {
        let facts = [vec![link.kind.clone()], link.facts.clone()]
            .concat()
            .join(", ");
        out += &format!("\n  {}  {facts}\n", link.name);
        let ends: Vec<String> = link
            .endpoints
            .iter()
            .map(|e| format!("{}:{}", e.node, e.interface))
            .collect();
        let width = ends.iter().map(String::len).max().unwrap_or(0);
        for (index, (end, name)) in link.endpoints.iter().zip(&ends).enumerate() {
            let branch = if index + 1 == ends.len() {
                "└─"
            } else {
                "├─"
            };
            let line = format!("  {branch} {name:width$}  {}", end.addresses.join("  "));
            out += line.trim_end();
            out += "\n";
        }
    }
    out
}
