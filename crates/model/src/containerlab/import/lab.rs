//! A lab that is made of a topology, and its file.

use super::addresses;
use super::draft::{Draft, End, Link};
use super::node::Converter;
use super::surroundings::Surroundings;
use super::topology::Topology;
use crate::containerlab::names::Names;
use crate::containerlab::remarks::Remarks;
use crate::containerlab::variables;
use crate::diagnostic::{Diagnostics, Mark, Spanned};
use crate::kinds::{LinkKind, NodeKind};
use crate::plan;
use crate::spec::Lab;
use crate::spec::yaml::Yaml;

/// A lab that was made of a topology. Places are those of the topology's text.
#[derive(Debug)]
pub struct Imported {
    pub lab: Yaml,
    pub remarks: Remarks,
}

/// Makes a lab of a topology of containerlab.
///
/// Errors: mistakes of the topology, and what of it cannot be in a lab though it has an equivalent, for example two
/// ends with one address. All have places in `text`.
pub fn import(text: &str, around: &Surroundings<'_>) -> Result<Imported, Diagnostics> {
    refuse_template(text)?;
    let mut yaml = Yaml::parse(text)?;
    let (mut errors, mut remarks) = (Diagnostics::default(), Remarks::default());
    variables::expand(&mut yaml, around.variable, &mut errors);
    let topology = Topology::read(&yaml, &mut remarks, &mut errors);
    // Without all nodes and links, most other mistakes would be made up.
    std::mem::take(&mut errors).into_result(())?;
    let mut draft = Draft::of(&topology, &mut remarks, &mut errors);
    if draft.nodes.is_empty() {
        let kinds = topology.nodes.first().map_or(yaml.at, |node| node.name.at);
        errors.add(
            kinds,
            "no node of the topology is of a kind that latlab has",
            "nodes of kind `linux` become containers",
        );
    }
    let mut converter = Converter {
        around,
        lab: &topology.name,
        remarks: &mut remarks,
        errors: &mut errors,
    };
    draft
        .nodes
        .iter_mut()
        .for_each(|node| converter.fill_exec(node));
    addresses::take(&mut draft);
    let nodes = draft.nodes.iter().map(|node| {
        let mut fields = vec![("kind", Yaml::text(node.name.at, node.kind.word()))];
        if let Some(written) = node.written.filter(|_| node.kind == NodeKind::Container) {
            fields.extend(converter.container(&written.name, &written.fields));
        }
        let exec = node.exec.iter().flatten().map(Yaml::of);
        Yaml::push_list("exec", exec.collect(), &mut fields);
        (node.name.as_str(), Yaml::map(node.name.at, fields))
    });
    let nodes = nodes.collect();
    let name = lab_name(&topology.name, &mut remarks);
    errors.into_result(())?;
    let mut topology_fields = vec![("nodes", Yaml::map(yaml.at, nodes))];
    let links = draft.links.iter().map(|link| written(link, &draft));
    Yaml::push_list("links", links.collect(), &mut topology_fields);
    let lab = Yaml::map(
        yaml.at,
        vec![
            ("name", Yaml::text(topology.name.at, name)),
            ("topology", Yaml::map(yaml.at, topology_fields)),
        ],
    );
    plan::addressed(&Lab::read(&lab)?)?;
    Ok(Imported { lab, remarks })
}

impl Imported {
    /// The lab's file, which begins with the remarks about `file`, the topology.
    pub fn text(&self, file: &str) -> String {
        let origin = format!("Imported by latlab from {file}, a topology of containerlab.");
        self.remarks.header(&origin) + &self.lab.to_text()
    }
}

fn lab_name(written: &Spanned<String>, remarks: &mut Remarks) -> String {
    let mut name = written.clone();
    for variable in ["__gitBranch__", "__gitHash__"] {
        if name.contains(variable) {
            let message = format!("`{variable}` in the name of the lab has no equivalent");
            let hint = "it is `none` here, as outside of a repository; name the lab yourself";
            remarks.add(name.at, message, hint);
            name.value = name.replace(variable, "none");
        }
    }
    Names::default().give("lab", &name, remarks)
}

fn refuse_template(text: &str) -> Result<(), Diagnostics> {
    let Some(line) = text.lines().position(|line| line.contains("{{")) else {
        return Ok(());
    };
    let message = "the topology is a template, which only containerlab can render";
    let hint =
        "have containerlab render it: `containerlab deploy --topo FILE --export-rendered OUT`";
    Err(Diagnostics::one(Mark::new(line + 1, 1), message, hint))
}

fn written(link: &Link, draft: &Draft<'_>) -> Yaml {
    let mut fields = Vec::new();
    fields.extend(link.name.as_ref().map(|name| ("name", Yaml::of(name))));
    if link.kind != LinkKind::Veth {
        fields.push(("type", Yaml::text(link.at, link.kind.word())));
    }
    let ends = link
        .ends
        .iter()
        .map(|end| written_end(end, &draft.nodes[end.node].name));
    fields.push(("endpoints", Yaml::list(ends.collect())));
    fields.extend(link.mtu.map(|mtu| ("mtu", Yaml::of(&mtu))));
    let parent = link.parent.as_ref();
    fields.extend(parent.map(|parent| ("parent", Yaml::of(parent))));
    Yaml::map(link.at, fields)
}

fn written_end(end: &End, node: &Spanned<String>) -> Yaml {
    let interface = &end.interface;
    if end.mac.is_none() && end.addresses.is_empty() {
        return Yaml::text(end.at, format!("{}:{}", node.value, interface.value));
    }
    let mut fields = vec![
        ("node", Yaml::text(end.at, node.value.clone())),
        ("interface", Yaml::of(interface)),
    ];
    if let Some(mac) = &end.mac {
        fields.push((
            "mac",
            Yaml::text(mac.at, mac.replace('-', ":").to_ascii_lowercase()),
        ));
    }
    for (key, ipv6) in [("ipv4", false), ("ipv6", true)] {
        let all = end
            .addresses
            .iter()
            .filter(|address| address.addr().is_ipv6() == ipv6);
        let mut all: Vec<Yaml> = all
            .map(|address| Yaml::text(address.at, address.to_string()))
            .collect();
        match all.len() {
            0 => {}
            1 => fields.extend(all.pop().map(|one| (key, one))),
            _ => fields.push((key, Yaml::list(all))),
        }
    }
    Yaml::map(end.at, fields)
}
