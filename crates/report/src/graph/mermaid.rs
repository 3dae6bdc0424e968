//! For Markdown: <https://mermaid.js.org/syntax/flowchart.html>.

use latlab_model::results::Topology;

/// Draws a lab as a Mermaid flowchart. A plain link of two ends is an edge, every other link a round node.
pub fn mermaid(topology: &Topology) -> String {
    let mut out = String::from("graph LR\n");
    for (index, node) in topology.nodes.iter().enumerate() {
        let (open, close) = match node.kind.as_str() {
            "vm" => ("[[", "]]"),
            "container" => ("[", "]"),
            "host" => ("{{", "}}"),
            _ => ("(", ")"),
        };
        out += &format!(
            "  n{index}{open}\"{}<br/><small>{}</small>\"{close}\n",
            node.name, node.kind
        );
    }
    let position = |name: &str| {
        topology
            .nodes
            .iter()
            .position(|n| n.name == name)
            .unwrap_or(0)
    };
    for (index, link) in topology.links.iter().enumerate() {
        let ends: Vec<(usize, &str)> = link
            .endpoints
            .iter()
            .map(|e| (position(&e.node), e.interface.as_str()))
            .collect();
        match ends.as_slice() {
            [(a, first), (b, second)] if link.kind == "veth" => {
                out += &format!("  n{a} ---|\"{first} · {second}\"| n{b}\n");
            }
            _ => {
                out += &format!(
                    "  l{index}((\"{}<br/><small>{}</small>\"))\n",
                    link.name, link.kind
                );
                for (node, interface) in ends {
                    out += &format!("  n{node} ---|\"{interface}\"| l{index}\n");
                }
            }
        }
    }
    out
}
