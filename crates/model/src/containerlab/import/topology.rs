//! A topology as containerlab reads it: nodes with all that they inherit, and links.

use std::collections::HashMap;

use super::fields::{Fields, Level};
use super::link::Link;
use crate::containerlab::remarks::Remarks;
use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of, shown};
use crate::spec::reader::{Object, items};
use crate::spec::yaml::{MAX_WEIGHT, Yaml};

/// Kinds of nodes that latlab has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A container of any image.
    Linux,
    /// A bridge of the host's.
    Bridge,
    OvsBridge,
    Host,
}

impl Kind {
    const WORDS: [&'static str; 4] = ["linux", "bridge", "ovs-bridge", "host"];

    fn of(word: &str) -> Option<Kind> {
        match word {
            "linux" => Some(Kind::Linux),
            "bridge" => Some(Kind::Bridge),
            "ovs-bridge" => Some(Kind::OvsBridge),
            "host" => Some(Kind::Host),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub name: Spanned<String>,
    /// None where latlab has none like it.
    pub kind: Option<Kind>,
    pub fields: Fields,
}

#[derive(Debug)]
pub(super) struct Topology {
    pub name: Spanned<String>,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
}

/// Keys of the top without an equivalent.
const NO_EQUIVALENT: [(&str, &str); 4] = [
    (
        "prefix",
        "a node is named by its lab and its name: `latlab exec LAB NODE`",
    ),
    (
        "mgmt",
        "there is no management network; `latlab exec` reaches every node",
    ),
    ("settings", "they are containerlab's own"),
    ("debug", "it is containerlab's own"),
];

impl Topology {
    pub(super) fn read(yaml: &Yaml, remarks: &mut Remarks, errors: &mut Diagnostics) -> Topology {
        let mut top = Object::new(yaml, "the topology's file", errors);
        let name = top.need("name", errors);
        let topology = top.require("topology", errors);
        for (key, instead) in NO_EQUIVALENT {
            top.take(key);
            if let Some(at) = top.key_at(key) {
                remarks.add(at, format!("`{key}` has no equivalent"), instead);
            }
        }
        top.finish(errors);
        let (nodes, links) = match topology {
            Some(topology) => read_topology(topology, remarks, errors),
            None => (Vec::new(), Vec::new()),
        };
        Topology {
            name: name.unwrap_or(Spanned::new(String::new(), yaml.at)),
            nodes,
            links,
        }
    }
}

fn read_topology(
    yaml: &Yaml,
    remarks: &mut Remarks,
    errors: &mut Diagnostics,
) -> (Vec<Node>, Vec<Link>) {
    let mut o = Object::new(yaml, "`topology`", errors);
    let mut levels = Levels::default();
    if let Some(yaml) = o.take("defaults") {
        levels.defaults = Level::read(yaml, "`topology.defaults`".into(), errors);
    }
    if let Some(yaml) = o.take("kinds") {
        levels.kinds = read_levels(yaml, "kinds", errors);
    }
    if let Some(yaml) = o.take("groups") {
        levels.groups = read_levels(yaml, "groups", errors);
    }
    let nodes = o.require("nodes", errors);
    let links = o.take("links");
    o.finish(errors);
    let nodes = nodes.map_or_else(Vec::new, |yaml| read_nodes(yaml, &levels, remarks, errors));
    let hint = "begin each link with `- `";
    let links = links.and_then(|yaml| items(yaml, "`topology.links`", hint, errors));
    let links = links.unwrap_or_default().iter().enumerate();
    let links = links.filter_map(|(index, yaml)| Link::read(yaml, index, remarks, errors));
    (nodes, links.collect())
}

fn read_levels(yaml: &Yaml, key: &str, errors: &mut Diagnostics) -> HashMap<String, Level> {
    let all = Object::new(yaml, format!("`topology.{key}`"), errors);
    let mut levels = HashMap::new();
    for (name, yaml) in all.entries() {
        let what = format!("`topology.{key}.{}`", shown(&name));
        levels.insert(name.value.to_string(), Level::read(yaml, what, errors));
    }
    levels
}

#[derive(Default)]
struct Levels {
    defaults: Level,
    kinds: HashMap<String, Level>,
    groups: HashMap<String, Level>,
}

impl Levels {
    /// Kind and group of a node. Its group may be that of its kind, but no group of a kind says which kind it is.
    fn kind_and_group(&self, own: &Fields) -> (Option<Spanned<String>>, Option<Spanned<String>>) {
        let defaults = &self.defaults.fields;
        let of_group = |group: &Option<Spanned<String>>| {
            self.groups.get(&group.as_ref()?.value)?.fields.kind.clone()
        };
        let kind = own.kind.clone().or_else(|| of_group(&own.group));
        let kind = kind
            .or_else(|| of_group(&defaults.group))
            .or_else(|| defaults.kind.clone());
        let of_kind = kind
            .as_ref()
            .and_then(|kind| self.kinds.get(&kind.value)?.fields.group.clone());
        let group = own
            .group
            .clone()
            .or(of_kind)
            .or_else(|| defaults.group.clone());
        (kind, group)
    }

    /// Those that a node of this kind and group inherits from, the most general first.
    fn below(&self, kind: &str, group: Option<&str>) -> impl Iterator<Item = &Level> {
        let group = group.and_then(|group| self.groups.get(group));
        [Some(&self.defaults), self.kinds.get(kind), group]
            .into_iter()
            .flatten()
    }

    fn weight(&self) -> usize {
        let named = self.kinds.values().chain(self.groups.values());
        named.map(|level| level.weight).sum::<usize>() + self.defaults.weight
    }
}

fn read_nodes(
    yaml: &Yaml,
    levels: &Levels,
    remarks: &mut Remarks,
    errors: &mut Diagnostics,
) -> Vec<Node> {
    let all = Object::new(yaml, "`topology.nodes`", errors);
    let count = all.entries().count();
    if count == 0 && all.is_mapping() {
        errors.add(
            yaml.at,
            "the topology has no nodes",
            "add one, for example `a: {kind: linux, image: alpine}`",
        );
    }
    // Every node gets a copy of what it inherits.
    if levels.weight().saturating_mul(count) > 8 * MAX_WEIGHT {
        let message =
            format!("`defaults`, `kinds` and `groups`, repeated for {count} nodes, are too large");
        errors.add(
            yaml.at,
            message,
            "move long scripts into a file, and name it",
        );
        return Vec::new();
    }
    let nodes = all
        .entries()
        .map(|(name, yaml)| read_node(name, yaml, levels, remarks, errors));
    nodes.collect()
}

fn read_node(
    name: Spanned<&str>,
    yaml: &Yaml,
    levels: &Levels,
    remarks: &mut Remarks,
    errors: &mut Diagnostics,
) -> Node {
    let what = format!("node `{}`", shown(&name));
    let own = Level::read(yaml, what.clone(), errors);
    let (kind, group) = levels.kind_and_group(&own.fields);
    let name = Spanned::new(name.value.to_string(), name.at);
    let Some(word) = kind else {
        errors.add(
            name.at,
            format!("{what} has no kind"),
            "add `kind:`, for example `linux`, or to `topology.defaults`",
        );
        return Node {
            name,
            kind: None,
            fields: own.fields,
        };
    };
    let lower = word.to_lowercase();
    let kind = Kind::of(&lower);
    let group = group.map(|group| group.value);
    let mut below = Fields::default();
    for level in levels.below(&word, group.as_deref()) {
        below = level.fields.clone().over(&below);
        if kind == Some(Kind::Linux) {
            level.tell(remarks);
        }
    }
    match kind {
        Some(_) => own.tell(remarks),
        None => tell_kind(
            &what,
            &word,
            own.fields.kind.as_ref().map_or(name.at, |own| own.at),
            remarks,
        ),
    }
    Node {
        name,
        kind,
        fields: own.fields.over(&below),
    }
}

fn tell_kind(what: &str, word: &str, at: Mark, remarks: &mut Remarks) {
    let why = format!(
        "{what} is of kind `{}`, which latlab does not have",
        shown(word)
    );
    let hint = match hint_one_of(word, &Kind::WORDS) {
        near if near.starts_with("did you") => near,
        _ if word == "ext-container" => {
            "latlab starts all nodes of a lab itself: `kind: linux` and its image".into()
        }
        _ => "a router of `kind: linux`, for example FRR's or BIRD's image, can take its place"
            .into(),
    };
    remarks.node_left_out(at, &why, hint);
}
