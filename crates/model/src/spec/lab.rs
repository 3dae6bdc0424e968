//! `lab.yaml` as written, after `defaults` and `kinds` are merged into each node.

use super::link::Link;
use super::node::{NodeFields, NodeKind};
use super::reader::Object;
use super::yaml::{Value, Yaml};
use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of};

/// A lab, as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Lab {
    /// Its name, unique on a machine.
    pub name: Spanned<String>,
    /// Its nodes, in the order of the text.
    pub nodes: Vec<Node>,
    /// Its links.
    pub links: Vec<Link>,
}

/// A node, as written, merged.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: Spanned<String>,
    /// Its kind.
    pub kind: NodeKind,
    /// Everything else.
    pub fields: NodeFields,
}

impl Lab {
    /// Reads a lab from its text.
    ///
    /// # Errors
    /// All mistakes that can be seen in the text alone; [`crate::plan::plan`] finds the rest.
    pub fn parse(text: &str) -> Result<Lab, Diagnostics> {
        Lab::read(&Yaml::parse(text)?)
    }

    /// Reads a lab from a tree, for example one in which factors were set.
    ///
    /// # Errors
    /// As [`Lab::parse`].
    pub fn read(yaml: &Yaml) -> Result<Lab, Diagnostics> {
        let mut errors = Diagnostics::default();
        let mut top = Object::new(yaml, "the lab", &mut errors);
        let name = top.require("name", &mut errors).is_some();
        let name = name
            .then(|| top.get::<String>("name", &mut errors))
            .flatten();
        let name = name.unwrap_or(Spanned::new(String::new(), yaml.at));
        top.take("description");
        let topology = top.require("topology", &mut errors);
        top.finish(&mut errors);
        if !name.is_empty() {
            check_name("lab", &name, &mut errors);
        }
        let (nodes, links) = match topology {
            Some(topology) => read_topology(topology, &mut errors),
            None => (Vec::new(), Vec::new()),
        };
        errors.into_result(Lab { name, nodes, links })
    }
}

/// Longest name of a lab or node: it becomes a directory, a hostname and part of messages.
const MAX_NAME: usize = 32;

/// Names are DNS labels in small letters: they become hostnames and file names.
pub(super) fn check_name(what: &str, name: &Spanned<String>, errors: &mut Diagnostics) {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let first = name.chars().next();
    if name.len() > MAX_NAME
        || !name.chars().all(good)
        || !first.is_some_and(|c| c.is_ascii_alphanumeric())
    {
        let fixed: String = name
            .to_lowercase()
            .chars()
            .map(|c| if good(c) { c } else { '-' })
            .collect();
        let fixed = fixed
            .trim_matches('-')
            .chars()
            .take(MAX_NAME)
            .collect::<String>();
        let hint = match fixed.is_empty() {
            true => "for example `client`".to_string(),
            false => format!("for example `{fixed}`"),
        };
        let message = format!(
            "{what} name `{}` is not 1 to {MAX_NAME} small letters, digits and hyphens",
            **name
        );
        errors.add(name.at, message, hint);
    }
}

fn read_topology(yaml: &Yaml, errors: &mut Diagnostics) -> (Vec<Node>, Vec<Link>) {
    let mut o = Object::new(yaml, "`topology`", errors);
    let defaults = match o.take("defaults") {
        Some(y) => NodeFields::read(y, "`topology.defaults`".into(), errors),
        None => NodeFields::default(),
    };
    let kinds = o
        .take("kinds")
        .map(|y| read_kinds(y, errors))
        .unwrap_or_default();
    let nodes_yaml = o.require("nodes", errors);
    let links_yaml = o.take("links");
    o.finish(errors);

    let mut nodes = Vec::new();
    if let Some(yaml) = nodes_yaml {
        let all = Object::new(yaml, "`topology.nodes`", errors);
        for (name, yaml) in all.entries() {
            nodes.push(read_node(name, yaml, &defaults, &kinds, errors));
        }
        if nodes.is_empty() && errors.is_empty() {
            let hint = "add one, for example `client: {kind: native}`";
            errors.add(yaml.at, "the lab has no nodes", hint);
        }
    }
    let links: Vec<Link> = match links_yaml.map(|y| (&y.value, y.at)) {
        Some((Value::Seq(items), _)) => items
            .iter()
            .enumerate()
            .map(|(i, y)| Link::read(y, i, errors))
            .collect(),
        Some((_, at)) => {
            errors.add(
                at,
                "`topology.links` must be a list",
                "begin each link with `- `",
            );
            Vec::new()
        }
        None => Vec::new(),
    };
    check_links(&nodes, &links, errors);
    (nodes, links)
}

fn read_kinds(yaml: &Yaml, errors: &mut Diagnostics) -> Vec<(NodeKind, NodeFields)> {
    use super::reader::FromYaml;
    let all = Object::new(yaml, "`topology.kinds`", errors);
    let mut kinds = Vec::new();
    for (name, yaml) in all.entries() {
        let fields = NodeFields::read(yaml, format!("`topology.kinds.{}`", *name), errors);
        match NodeKind::from_text(&name) {
            Some(kind) => {
                fields.check_kind(&format!("kinds.{kind}"), kind, errors);
                kinds.push((kind, fields));
            }
            None => {
                let message = format!("unknown kind `{}` in `topology.kinds`", *name);
                errors.add(name.at, message, hint_one_of(&name, NodeKind::WORDS));
            }
        }
    }
    kinds
}

fn read_node(
    name: Spanned<&str>,
    yaml: &Yaml,
    defaults: &NodeFields,
    kinds: &[(NodeKind, NodeFields)],
    errors: &mut Diagnostics,
) -> Node {
    let name = Spanned::new(name.value.to_string(), name.at);
    check_name("node", &name, errors);
    let own = NodeFields::read(yaml, format!("node `{}`", *name), errors);
    // An unknown kind was noted; going on as `native` lets the rest be checked.
    let written = own
        .kind
        .as_ref()
        .or(defaults.kind.as_ref())
        .map(|k| k.value);
    let kind = written.unwrap_or(NodeKind::Native);
    if own.kind.is_some() || defaults.kind.is_some() {
        own.check_kind(&name, kind, errors);
    } else if yaml.get("kind").is_none() {
        let message = format!("node `{}` has no `kind`", *name);
        let hint = format!("add `kind:` (one of: {})", NodeKind::WORDS.join(", "));
        errors.add(name.at, message, hint);
    }
    let of_kind = kinds
        .iter()
        .find(|(k, _)| *k == kind)
        .map(|(_, f)| f.clone())
        .unwrap_or_default();
    Node {
        name,
        kind,
        fields: own.over(&of_kind.over(defaults)),
    }
}

/// What a link's ends must satisfy against the nodes and each other.
fn check_links(nodes: &[Node], links: &[Link], errors: &mut Diagnostics) {
    let names: Vec<&str> = nodes.iter().map(|n| n.name.value.as_str()).collect();
    let mut taken: Vec<(&str, &str, Mark)> = Vec::new();
    let mut link_names: Vec<&str> = Vec::new();
    for link in links {
        check_name("link", &link.name, errors);
        if link_names.contains(&link.name.as_str()) {
            let message = format!("two links are named `{}`", *link.name);
            errors.add(link.name.at, message, "rename one");
        }
        link_names.push(&link.name);
        for end in &link.endpoints {
            if !names.contains(&end.node.as_str()) {
                let message = format!(
                    "link `{}` names node `{}`, which does not exist",
                    *link.name, *end.node
                );
                errors.add(end.node.at, message, hint_one_of(&end.node, &names));
            }
            check_interface(&end.interface, errors);
            let same =
                |t: &&(&str, &str, Mark)| t.0 == end.node.as_str() && t.1 == end.interface.as_str();
            if let Some((_, _, first)) = taken.iter().find(same) {
                let message = format!(
                    "`{}:{}` is already an end of the link at line {}",
                    *end.node, *end.interface, first.line
                );
                errors.add(end.interface.at, message, "use another interface name");
            }
            taken.push((&end.node, &end.interface, link.at));
        }
        check_shape(link, errors);
    }
}

/// The kernel's limit (IFNAMSIZ - 1) and alphabet for interface names.
fn check_interface(name: &Spanned<String>, errors: &mut Diagnostics) {
    if name.len() > 15 {
        let message = format!(
            "interface name `{}` has {} bytes; the kernel allows 15",
            **name,
            name.len()
        );
        errors.add(
            name.at,
            message,
            format!("for example `{}`", name.chars().take(8).collect::<String>()),
        );
    } else if name.is_empty()
        || matches!(name.as_str(), "." | ".." | "lo" | "all" | "default")
        || name.contains(|c: char| !c.is_ascii_graphic() || matches!(c, '/' | ':' | '%' | '@'))
    {
        let message = format!("`{}` cannot be the name of an interface", **name);
        errors.add(name.at, message, "for example `eth0`");
    }
}

/// Numbers of ends and keys that fit the type of a link.
fn check_shape(link: &Link, errors: &mut Diagnostics) {
    use super::link::LinkKind;
    let (name, kind, ends) = (&link.name.value, link.kind.value, link.endpoints.len());
    // Ends that could not be read were noted already and still count as written.
    if ends < 2 && errors.is_empty() {
        let hint = "a link joins at least two interfaces; add the other end or remove the link";
        errors.add(
            link.at,
            format!("link `{name}` has {ends} end(s): unconnected"),
            hint,
        );
    }
    if kind == LinkKind::Veth && ends > 2 {
        let message = format!("link `{name}` is a veth with {ends} ends; it has exactly two");
        errors.add(link.kind.at, message, "`type: bridge` joins any number");
    }
    let mut only = |at: Option<Mark>, key: &str, owner: LinkKind| {
        if let Some(at) = at.filter(|_| kind != owner) {
            let message = format!("`{key}` of link `{name}` has no meaning for a {kind}");
            errors.add(at, message, format!("remove it, or use `type: {owner}`"));
        }
    };
    only(
        link.parent.as_ref().map(|s| s.at),
        "parent",
        LinkKind::Macvlan,
    );
    only(link.vni.as_ref().map(|s| s.at), "vni", LinkKind::Vxlan);
    only(link.port.as_ref().map(|s| s.at), "port", LinkKind::Vxlan);
    if let Some(vni) = link.vni.as_ref().filter(|v| v.value >= 1 << 24) {
        let message = format!("vni {} of link `{name}` does not fit 24 bits", vni.value);
        errors.add(vni.at, message, "use a number below 16777216");
    }
    if let Some(mtu) = link
        .mtu
        .as_ref()
        .filter(|m| !(68..=65535).contains(&m.value))
    {
        let message = format!(
            "mtu {} of link `{name}` is not between 68 and 65535",
            mtu.value
        );
        errors.add(
            mtu.at,
            message,
            "1500 is Ethernet's; IPv6 needs at least 1280",
        );
    }
}
