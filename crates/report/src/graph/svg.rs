//! A picture: nodes on a ring, shared media between the nodes they join. The layout depends on the lab alone,
//! so the same lab gives the same file.

use std::f64::consts::TAU;

use latlab_model::results::{Topology, TopologyNode};

const BOX: (f64, f64) = (132.0, 46.0);
const MARGIN: f64 = 90.0;

pub fn svg(topology: &Topology) -> String {
    let count = topology.nodes.len().max(1) as f64;
    // Neighbours on the ring must not touch.
    let radius = (count * (BOX.0 + 40.0) / TAU).max(140.0);
    let size = 2.0 * (radius + MARGIN);
    let at = |index: usize| {
        // From the left, so that two nodes lie side by side.
        let angle = TAU * index as f64 / count + TAU / 2.0;
        (
            size / 2.0 + radius * angle.cos(),
            size / 2.0 + radius * angle.sin(),
        )
    };
    let position = |name: &str| topology.nodes.iter().position(|n| n.name == name).map(at);
    let mut body = String::new();
    let mut hubs = String::new();
    let mut seen: Vec<Vec<&str>> = Vec::new();
    for link in &topology.links {
        let mut names: Vec<&str> = link.endpoints.iter().map(|e| e.node.as_str()).collect();
        names.sort_unstable();
        // Several links between the same nodes fan out sideways.
        let twins = seen.iter().filter(|other| **other == names).count() as f64;
        seen.push(names);
        let ends: Vec<(f64, f64)> = link
            .endpoints
            .iter()
            .filter_map(|e| position(&e.node))
            .collect();
        let n = ends.len().max(1) as f64;
        let (x, y) = (
            ends.iter().map(|e| e.0).sum::<f64>() / n,
            ends.iter().map(|e| e.1).sum::<f64>() / n,
        );
        let y = y + (if twins as i64 % 2 == 0 { 1.0 } else { -1.0 }) * (twins / 2.0).ceil() * 64.0;
        for (end, point) in link.endpoints.iter().zip(&ends) {
            body += &format!(
                "<path class=\"link\" d=\"M{:.1} {:.1}L{x:.1} {y:.1}\"/>",
                point.0, point.1
            );
            let (tx, ty) = (point.0 * 0.62 + x * 0.38, point.1 * 0.62 + y * 0.38 - 4.0);
            body += &format!(
                "<text class=\"small\" x=\"{tx:.1}\" y=\"{ty:.1}\">{}</text>",
                escape(&end.interface)
            );
        }
        hubs += &format!("<circle class=\"hub\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"20\"/>");
        hubs += &format!(
            "<text class=\"hubname\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            y + 4.0,
            escape(&link.kind)
        );
    }
    for (index, node) in topology.nodes.iter().enumerate() {
        hubs += &drawn_node(node, at(index));
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {size:.0} {size:.0}\" role=\"img\" \
         aria-label=\"lab {}\"><style>{STYLE}</style>{body}{hubs}</svg>\n",
        escape(&topology.lab)
    )
}

fn drawn_node(node: &TopologyNode, (x, y): (f64, f64)) -> String {
    let (left, top) = (x - BOX.0 / 2.0, y - BOX.1 / 2.0);
    let corner = if node.kind == "native" { 22 } else { 4 };
    let mut drawn = format!(
        "<rect class=\"{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{}\" height=\"{}\" rx=\"{corner}\"/>",
        escape(&node.kind),
        BOX.0,
        BOX.1
    );
    drawn += &format!(
        "<text class=\"name\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
        y - 2.0,
        escape(&node.name)
    );
    drawn += &format!(
        "<text class=\"small\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
        y + 14.0,
        escape(&node.kind)
    );
    drawn
}

const STYLE: &str = "text{font:13px system-ui,sans-serif;text-anchor:middle;fill:#1b2733}\
.name{font-weight:600}.small{font-size:11px;fill:#566}.hubname{font-size:10px;fill:#fff}\
.link{stroke:#8a99a8;stroke-width:1.5;fill:none}.hub{fill:#4a6076}\
rect{stroke-width:1.5}.native{fill:#e6f2ea;stroke:#3b8256}.container{fill:#e5eef9;stroke:#2f6db3}\
.vm{fill:#f8ebdd;stroke:#b8651b}.host{fill:#eee;stroke:#777}";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::{mermaid, text};
    use super::*;
    use latlab_model::facts::Facts;
    use latlab_model::plan::plan;
    use latlab_model::spec::Lab;

    fn topology() -> Topology {
        let lab = Lab::parse(
            "name: t\ntopology:\n  nodes: {a: {kind: native}, b: {kind: native}, c: {kind: native}}\n  links:\n    - endpoints: ['a:eth0', 'b:eth0']\n    - {type: bridge, endpoints: ['a:eth1', 'b:eth1', 'c:eth1']}\n",
        );
        plan(&lab.unwrap(), &Facts::default())
            .unwrap()
            .topology(Default::default())
    }

    #[test]
    fn every_node_and_end_is_drawn() {
        let t = topology();
        let picture = svg(&t);
        assert_eq!(picture.matches("<rect").count(), 3);
        assert_eq!(picture.matches("class=\"link\"").count(), 5);
        let chart = mermaid(&t);
        assert!(chart.contains("n0 ---|\"eth0 · eth0\"| n1"), "{chart}");
        assert_eq!(chart.matches("| l1\n").count(), 3);
        let lines = text(&t);
        assert!(lines.contains("└─ c:eth1  198.18.1.3/24"), "{lines}");
    }
}
