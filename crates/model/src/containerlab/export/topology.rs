//! A topology that is made of a lab, and its file.

use super::cables::Cables;
use super::node::Nodes;
use crate::containerlab::remarks::Remarks;
use crate::containerlab::variables;
use crate::diagnostic::{Diagnostics, Mark};
use crate::plan::addressed;
use crate::spec::Lab;
use crate::spec::yaml::Yaml;

/// A topology that was made of a lab. Places are those of the lab's text.
#[derive(Debug)]
pub struct Exported {
    topology: Yaml,
    pub remarks: Remarks,
}

/// Makes a topology of a lab; `image` is that of nodes without one of a registry.
///
/// Errors: addresses that clash, and a node that needs `image` where there is none.
pub fn export(lab: &Lab, image: Option<&str>) -> Result<Exported, Diagnostics> {
    let (plans, links) = addressed(lab)?;
    let (mut errors, mut remarks) = (Diagnostics::default(), Remarks::default());
    if let Some(tuning) = &lab.tuning {
        let hint = "`latlab tune apply` quiets the machine without a lab";
        remarks.add(tuning.at, "`tuning` of the lab has no equivalent", hint);
    }
    if let Some(host) = lab.hosts.first() {
        let hint = "one containerlab has all nodes on its own machine";
        remarks.add(host.name.at, "`hosts` of the lab have no equivalent", hint);
    }
    let Cables {
        bridges,
        all: cables,
        kept,
        ..
    } = Cables::of(lab, &links, &mut remarks);
    let mut converter = Nodes {
        image,
        kept: &kept,
        remarks: &mut remarks,
        errors: &mut errors,
    };
    let mut nodes = Vec::new();
    for (node, plan) in lab.nodes.iter().zip(&plans) {
        let fields = converter.fields(node, plan);
        nodes.extend(fields.map(|fields| (node.name.as_str(), Yaml::map(node.name.at, fields))));
    }
    errors.into_result(())?;
    for (name, at) in &bridges {
        nodes.push((
            name,
            Yaml::map(*at, vec![("kind", Yaml::text(*at, "bridge"))]),
        ));
    }
    let top = Mark::new(1, 1);
    let mut fields = vec![("nodes", Yaml::map(top, nodes))];
    Yaml::push_list("links", cables, &mut fields);
    let name = Yaml::of(&lab.name);
    let mut topology = Yaml::map(
        top,
        vec![("name", name), ("topology", Yaml::map(top, fields))],
    );
    variables::escape(&mut topology);
    Ok(Exported { topology, remarks })
}

impl Exported {
    /// The topology's file, which begins with the remarks about `file`, the lab.
    pub fn text(&self, file: &str) -> String {
        let origin = format!("Exported by latlab from {file}, for containerlab.");
        let text = self.remarks.header(&origin) + &self.topology.to_text();
        // containerlab reads every topology as a template.
        text.replace("{{", "{{\"{{\"}}")
    }
}
