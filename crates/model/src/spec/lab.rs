//! `lab.yaml` as written, after `defaults` and `kinds` are merged into each node.

use std::collections::{HashMap, HashSet};

use super::counted;
use super::host::{self, Host};
use super::link::Link;
use super::name::{check_host_name, check_name, read_name};
use super::node::{Node, NodeFields, read_tuning};
use super::reader::{FromYaml, Object, items};
use super::yaml::{MAX_WEIGHT, Value, Yaml};
use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of, shown};
use crate::kinds::{Carrier, LinkKind, NodeKind, Streams, VXLAN_OVERHEAD, VmAttachment};
use crate::units::BitsPerSecond;

#[derive(Debug, Clone, PartialEq)]
pub struct Lab {
    /// Its name, unique on a machine.
    pub name: Spanned<String>,
    /// The profile that the machine is quieted with while it is up; its nodes inherit it.
    pub tuning: Option<Spanned<String>>,
    /// The machines that it lies on; none: the one on which latlab is called.
    pub hosts: Vec<Host>,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
}

impl Lab {
    /// Reads a lab from its text. Errors: all mistakes that can be seen in the text alone; [`crate::plan::plan`] finds
    /// the rest.
    pub fn parse(text: &str) -> Result<Lab, Diagnostics> {
        Lab::read(&Yaml::parse(text)?)
    }

    /// Reads a lab from a tree, for example one in which factors were set.
    pub fn read(yaml: &Yaml) -> Result<Lab, Diagnostics> {
        let mut errors = Diagnostics::default();
        let mut top = Object::new(yaml, "the lab", &mut errors);
        let name = read_name(&mut top, "lab", &mut errors);
        top.get::<String>("description", &mut errors);
        let tuning = read_tuning(&mut top, &mut errors);
        let hosts = top.take("hosts");
        let hosts = hosts.map_or_else(Vec::new, |yaml| host::read(yaml, &mut errors));
        let topology = top.require("topology", &mut errors);
        top.finish(&mut errors);
        let (nodes, links) = match topology {
            Some(topology) => read_topology(topology, &mut errors),
            None => (Vec::new(), Vec::new()),
        };
        host::check(&hosts, &nodes, &links, &mut errors);
        errors.into_result(Lab {
            name,
            tuning,
            hosts,
            nodes,
            links,
        })
    }

    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| *node.name == name)
    }

    /// True when its nodes want particular CPUs, or cards, so that planning must know the machine's.
    pub fn is_placed(&self) -> bool {
        let asks = |n: &Node| {
            let f = &n.fields;
            n.kind.is_guest() || f.cpuset.is_some() || f.isolate.is_some() || f.tuning.is_some()
        };
        self.tuning.is_some() || self.has_cards() || self.nodes.iter().any(asks)
    }

    /// True when links of it are on cards of the machine.
    pub fn has_cards(&self) -> bool {
        self.links.iter().any(|link| link.kind.value.is_hardware())
    }

    /// The same lab on the machine as it is: nothing is tuned, no node has CPUs of its own.
    #[must_use]
    pub fn without_isolation(mut self) -> Lab {
        self.tuning = None;
        for node in &mut self.nodes {
            node.fields.tuning = None;
            node.fields.isolate = None;
        }
        self
    }

    /// The profile of a node: its own, else the lab's. The host itself belongs to no lab.
    pub fn tuning_of<'a>(&'a self, node: &'a Node) -> Option<&'a Spanned<String>> {
        let own = node.fields.tuning.as_ref().or(self.tuning.as_ref());
        own.filter(|_| !node.kind.is_host())
    }
}

#[derive(Default)]
struct Inherited {
    defaults: NodeFields,
    /// `defaults` has a `kind`, even if it could not be read.
    has_kind: bool,
    kinds: Vec<(NodeKind, NodeFields)>,
    /// [`Yaml::weight`] of all of it.
    weight: usize,
}

fn read_topology(yaml: &Yaml, errors: &mut Diagnostics) -> (Vec<Node>, Vec<Link>) {
    let mut o = Object::new(yaml, "`topology`", errors);
    let mut inherited = Inherited::default();
    if let Some(y) = o.take("defaults") {
        inherited.defaults = NodeFields::read(y, "`topology.defaults`".into(), errors);
        counted::refuse(&inherited.defaults, "`topology.defaults`", errors);
        inherited.has_kind = y.get("kind").is_some_and(|k| !k.is_null());
        inherited.weight += y.weight();
    }
    if let Some(y) = o.take("kinds") {
        inherited.kinds = read_kinds(y, errors);
        inherited.weight += y.weight();
    }
    let nodes_yaml = o.require("nodes", errors);
    let links_yaml = o.take("links");
    o.finish(errors);
    let mut nodes = match nodes_yaml {
        Some(y) => read_nodes(y, &inherited, errors),
        None => Vec::new(),
    };
    let hint = "begin each link with `- `";
    let links = links_yaml.and_then(|y| items(y, "`topology.links`", hint, errors));
    let links = links.unwrap_or_default().iter().enumerate();
    let mut links: Vec<Link> = links.map(|(i, y)| Link::read(y, i, errors)).collect();
    counted::expand(&mut nodes, &mut links, errors);
    check_links(&nodes, &links, errors);
    (nodes, links)
}

fn read_nodes(yaml: &Yaml, inherited: &Inherited, errors: &mut Diagnostics) -> Vec<Node> {
    let all = Object::new(yaml, "`topology.nodes`", errors);
    let count = all.entries().count();
    if count == 0 && matches!(yaml.value, Value::Map(_)) {
        let hint = "add one, for example `client: {kind: native}`";
        errors.add(yaml.at, "the lab has no nodes", hint);
    }
    // Every node gets a copy of what it inherits, and of its own where it stands for many.
    let weights = all.entries().map(|(_, node)| {
        let own = if counted::count_of(node) > 1 {
            node.weight()
        } else {
            0
        };
        (inherited.weight + own).saturating_mul(counted::count_of(node))
    });
    if weights.fold(0, usize::saturating_add) > 8 * MAX_WEIGHT {
        let message = format!("`defaults` and `kinds`, repeated for {count} nodes, are too large");
        let hint = "move long scripts into a file, and name it";
        errors.add(yaml.at, message, hint);
        return Vec::new();
    }
    all.entries()
        .map(|(name, yaml)| read_node(name, yaml, inherited, errors))
        .collect()
}

fn read_kinds(yaml: &Yaml, errors: &mut Diagnostics) -> Vec<(NodeKind, NodeFields)> {
    let all = Object::new(yaml, "`topology.kinds`", errors);
    let mut kinds = Vec::new();
    for (name, yaml) in all.entries() {
        let what = format!("`topology.kinds.{}`", shown(&name));
        let fields = NodeFields::read(yaml, what.clone(), errors);
        counted::refuse(&fields, &what, errors);
        if let Some(kind) = fields.kind {
            let hint = "remove it: what is below a kind applies to the nodes of that kind";
            errors.add(kind.at, format!("{what} names a kind itself"), hint);
        }
        match NodeKind::from_text(&name) {
            Some(kind) => {
                fields.check_kind(&what, kind, errors);
                kinds.push((kind, fields));
            }
            None => {
                let message = format!("unknown kind `{}` in `topology.kinds`", shown(&name));
                errors.add(name.at, message, hint_one_of(&name, NodeKind::WORDS));
            }
        }
    }
    kinds
}

fn read_node(
    name: Spanned<&str>,
    yaml: &Yaml,
    inherited: &Inherited,
    errors: &mut Diagnostics,
) -> Node {
    let defaults = &inherited.defaults;
    let name = Spanned::new(name.value.to_string(), name.at);
    check_name("node", &name, errors);
    check_host_name(&name, errors);
    let what = format!("node `{}`", shown(&name));
    let own = NodeFields::read(yaml, what.clone(), errors);
    let written = own.kind.or(defaults.kind).map(|k| k.value);
    let is_mapping = matches!(yaml.value, Value::Map(_)) || yaml.is_null();
    let own_unread = own.kind.is_none() && yaml.get("kind").is_some_and(|k| !k.is_null());
    match written {
        Some(kind) if !own_unread => own.check_kind(&what, kind, errors),
        None if is_mapping && !own_unread && !inherited.has_kind => {
            let hint = format!("add `kind:` (one of: {})", NodeKind::WORDS.join(", "));
            errors.add(name.at, format!("{what} has no `kind`"), hint);
        }
        // A kind that cannot be read was noted; without it nothing can be said of the other keys.
        _ => {}
    }
    // Going on as `native` lets the rest be checked.
    let kind = written.unwrap_or(NodeKind::Native);
    let of_kind = inherited.kinds.iter().find(|(k, _)| *k == kind);
    let below = match of_kind {
        Some((_, fields)) => fields.clone().over(defaults),
        None => defaults.clone(),
    };
    Node {
        name,
        kind,
        fields: own.over(&below),
    }
}

/// Conditions of a link's ends against the nodes and each other.
fn check_links(nodes: &[Node], links: &[Link], errors: &mut Diagnostics) {
    let names: Vec<&str> = nodes.iter().map(|n| n.name.value.as_str()).collect();
    let known: HashSet<&str> = names.iter().copied().collect();
    let mut taken: HashMap<(&str, &str), Mark> = HashMap::new();
    let mut link_names: HashMap<&str, Mark> = HashMap::new();
    for link in links {
        check_name("link", &link.name, errors);
        if let Some(first) = link_names.insert(&link.name, link.name.at) {
            let name = shown(&link.name);
            let message = format!(
                "two links are named `{name}`; the first is on line {}",
                first.line
            );
            let hint = "rename one; a link without a name is called `l0`, `l1`, … by its position";
            errors.add(link.name.at, message, hint);
        }
        for end in &link.endpoints {
            // Looking for a hint costs a comparison with every node.
            if !known.contains(end.node.as_str()) && !errors.is_full() {
                let message = format!(
                    "link `{}` names node `{}`, which does not exist",
                    shown(&link.name),
                    shown(&end.node)
                );
                errors.add(end.node.at, message, hint_one_of(&end.node, &names));
            }
            check_interface(&end.interface, errors);
            let place = end.interface.at;
            if let Some(first) = taken.insert((&end.node, &end.interface), place) {
                let message = format!(
                    "`{}:{}` is an end of a link already, on line {}",
                    shown(&end.node),
                    shown(&end.interface),
                    first.line
                );
                errors.add(place, message, "use another interface name");
            }
        }
        check_shape(link, errors);
    }
}

/// The kernel's limit (IFNAMSIZ - 1) and alphabet for interface names.
fn check_interface(name: &Spanned<String>, errors: &mut Diagnostics) {
    if name.len() > 15 {
        let (full, bytes) = (shown(name), name.len());
        let message = format!("interface name `{full}` has {bytes} bytes; the kernel allows 15");
        errors.add(name.at, message, "shorten it, for example `eth0`");
    } else if name.is_empty()
        || matches!(name.as_str(), "." | ".." | "lo" | "all" | "default")
        || name.contains(|c: char| !c.is_ascii_graphic() || matches!(c, '/' | ':' | '%' | '@'))
    {
        let message = format!("`{}` cannot be the name of an interface", shown(name));
        errors.add(name.at, message, "for example `eth0`");
    }
}

/// Ports of a bridge at most (`BR_MAX_PORTS` in the kernel's `net/bridge/br_private.h`; number 0 is none).
const BRIDGE_PORTS: usize = 1023;

/// Numbers of ends and keys that fit the type of a link.
fn check_shape(link: &Link, errors: &mut Diagnostics) {
    let (name, kind, ends) = (shown(&link.name), link.kind.value, link.written_ends);
    // A link with no end at all lacks its `endpoints`, which was noted; unless they are `[]`.
    let few = (ends == 1 && !kind.is_hardware()) || (ends == 0 && link.has_endpoints);
    if few {
        let (message, hint) = match ends {
            0 => (
                format!("link `{name}` has no ends"),
                "for example `endpoints: [\"a:eth0\", \"b:eth0\"]`",
            ),
            _ => (
                format!("the only end of link `{name}` is unconnected"),
                "add the other end, or remove the link",
            ),
        };
        let at = link.endpoints.first().map_or(link.at, |e| e.node.at);
        errors.add(at, message, hint);
    }
    if kind == LinkKind::Veth && ends > 2 {
        let message = format!("link `{name}` is a veth with {ends} ends; it has exactly two");
        errors.add(link.kind.at, message, "`type: bridge` joins any number");
    }
    // The first endpoint of a nat is before the router.
    let outside = usize::from(kind == LinkKind::Nat);
    let is_bridge = matches!(kind, LinkKind::Bridge | LinkKind::Nat);
    if is_bridge && ends > BRIDGE_PORTS + outside {
        let message = format!("link `{name}` has {ends} ends; a bridge has {BRIDGE_PORTS} ports");
        let hint = "use several links, and nodes that forward between them";
        errors.add(link.kind.at, message, hint);
    }
    check_keys(link, errors);
    check_streams(link, errors);
    check_interfaces(link, errors);
    check_subnets(link, errors);
    check_numbers(link, errors);
}

/// Each key with the type of links that it is for.
fn check_keys(link: &Link, errors: &mut Diagnostics) {
    let (name, kind) = (shown(&link.name), link.kind.value);
    let interfaces = link.interfaces.first().filter(|_| !kind.is_hardware());
    // An overlay's is between hosts.
    let port = link.port.filter(|_| kind != LinkKind::Overlay);
    let keys = [
        (
            link.parent.as_ref().map(|s| s.at),
            "parent",
            LinkKind::Macvlan,
        ),
        (link.vni.map(|s| s.at), "vni", LinkKind::Vxlan),
        (port.map(|s| s.at), "port", LinkKind::Vxlan),
        (link.carrier.map(|s| s.at), "carrier", LinkKind::Overlay),
        (link.cable.map(|s| s.at), "cable", LinkKind::Overlay),
        (link.streams.map(|s| s.at), "streams", LinkKind::Overlay),
        (
            link.stream_ports.first().map(|s| s.at),
            "stream_ports",
            LinkKind::Overlay,
        ),
        (link.vlan.map(|s| s.at), "vlan", LinkKind::Sriov),
        (
            link.spoof_check.map(|s| s.at),
            "spoof_check",
            LinkKind::Sriov,
        ),
        (link.trust.map(|s| s.at), "trust", LinkKind::Sriov),
        (
            link.max_tx_rate.map(|s| s.at),
            "max_tx_rate",
            LinkKind::Sriov,
        ),
        (link.queues.map(|s| s.at), "queues", LinkKind::Sriov),
        (link.vm.map(|s| s.at), "vm", LinkKind::Sriov),
        (link.timestamps.map(|s| s.at), "timestamps", LinkKind::Phys),
        (interfaces.map(|s| s.at), "interfaces", LinkKind::Phys),
    ];
    for (at, key, owner) in keys {
        if let Some(at) = at.filter(|_| kind != owner) {
            let message = format!("`{key}` of link `{name}` has no meaning for type {kind}");
            errors.add(at, message, format!("remove it, or use `type: {owner}`"));
        }
    }
}

/// Bytes of streams are no frames: nothing on the link would delay, limit or carry them.
fn check_streams(link: &Link, errors: &mut Diagnostics) {
    let name = shown(&link.name);
    let Some(streams) = link.streams.filter(|s| s.value != Streams::Off) else {
        let ports = link.stream_ports.first();
        if let Some(port) = ports.filter(|_| link.kind.value == LinkKind::Overlay) {
            let message = format!("`stream_ports` of link `{name}` has no streams");
            errors.add(port.at, message, "remove it, or add `streams: true`");
        }
        return;
    };
    if let Some(port) = link.stream_ports.iter().find(|port| port.value == 0) {
        let message = format!("no server of link `{name}` listens at port 0");
        errors.add(port.at, message, "for example `stream_ports: [80, 5432]`");
    }
    if let Some(carrier) = link.carrier.filter(|c| c.value == Carrier::Direct) {
        let message = format!("link `{name}` has streams, and its hosts have no IP of their own");
        let hint = "remove `streams`, or use `carrier: vxlan`, `udp` or `local`";
        errors.add(carrier.at, message, hint);
    }
    let mut ends = link.endpoints.iter();
    if let Some(end) = ends.find(|end| !end.impairment.is_none()) {
        let end = format!("{}:{}", shown(&end.node), shown(&end.interface));
        let message = format!(
            "link `{name}` has streams, which the rate, delay or loss of end `{end}` would not reach"
        );
        let hint = "remove `streams`, or the impairment";
        errors.add(streams.at, message, hint);
    }
}

/// Each end is on an interface of the host.
fn check_interfaces(link: &Link, errors: &mut Diagnostics) {
    let (name, ends, named) = (shown(&link.name), link.written_ends, link.interfaces.len());
    let kind = link.kind.value;
    if !kind.is_hardware() || named == ends || link.wants_wire() {
        return;
    }
    let message = match named {
        0 => format!("link `{name}`, of type {kind}, lacks `interfaces`"),
        _ => format!("link `{name}` has {ends} ends, and `interfaces` names {named} of the host"),
    };
    let at = link.interfaces.first().map_or(link.kind.at, |i| i.at);
    let hint = "one for each end, in their order: `interfaces: [enp3s0f0, enp3s0f1]`; two ends without any ask for a wire";
    errors.add(at, message, hint);
}

const MEGABIT: u64 = 1_000_000;

fn check_numbers(link: &Link, errors: &mut Diagnostics) {
    let (name, kind) = (shown(&link.name), link.kind.value);
    if let Some(vlan) = link.vlan.filter(|v| !(1..=4094).contains(&v.value)) {
        let message = format!(
            "vlan {} of link `{name}` is not between 1 and 4094",
            vlan.value
        );
        errors.add(vlan.at, message, "without `vlan:` frames have no tag");
    }
    let whole =
        |rate: &Spanned<BitsPerSecond>| rate.value.0 >= MEGABIT && rate.value.0 % MEGABIT == 0;
    if let Some(count) = link
        .queues
        .filter(|count| !(1..=1024).contains(&count.value))
    {
        let message = format!("link `{name}` has {} queues", count.value);
        errors.add(count.at, message, "from 1 to 1024 for each function");
    }
    let driven = link.vm.filter(|vm| vm.value == VmAttachment::Vfio);
    if let (Some(count), Some(_)) = (link.queues, driven) {
        let message = format!("link `{name}` has queues, and VMs drive its functions");
        let hint = "remove `queues`: the VM's driver has as many as its CPUs";
        errors.add(count.at, message, hint);
    }
    if let Some(rate) = link.max_tx_rate.filter(|rate| !whole(rate)) {
        let message = format!(
            "max_tx_rate {} of link `{name}` is no whole number of megabits per second",
            rate.value
        );
        errors.add(rate.at, message, "cards count so, for example `500Mbit`");
    }
    if let Some(vni) = link.vni.as_ref().filter(|v| v.value >= 1 << 24) {
        let message = format!("vni {} of link `{name}` does not fit 24 bits", vni.value);
        errors.add(vni.at, message, "use a number below 16777216");
    }
    // VXLAN's own headers travel below.
    let largest = match kind {
        LinkKind::Vxlan => 65_535 - VXLAN_OVERHEAD,
        LinkKind::Overlay => 65_535 - link.carrier().overhead(),
        _ => 65_535,
    };
    if let Some(mtu) = link
        .mtu
        .as_ref()
        .filter(|m| !(68..=largest).contains(&m.value))
    {
        let message = format!(
            "mtu {} of link `{name}`, of type {kind}, is not between 68 and {largest}",
            mtu.value
        );
        let hint = match kind {
            LinkKind::Vxlan => "1450 is the default; VXLAN's own headers take 50 bytes more",
            _ => "1500 is Ethernet's; IPv6 needs at least 1280",
        };
        errors.add(mtu.at, message, hint);
    }
}

/// A link numbers its ends from one subnet of each family; a `nat` has two sides.
fn check_subnets(link: &Link, errors: &mut Diagnostics) {
    let name = shown(&link.name);
    let sides = match link.kind.value {
        LinkKind::Nat => 2,
        _ => 1,
    };
    for ipv6 in [false, true] {
        let which = if sides == 1 { "second" } else { "third" };
        let mut of_family = link.subnets.iter().filter(|s| s.addr().is_ipv6() == ipv6);
        if let Some(extra) = of_family.nth(sides) {
            let family = if ipv6 { "IPv6" } else { "IPv4" };
            let message = format!("link `{name}` has a {which} {family} subnet");
            let hint = match sides {
                2 => "the first is inside, the second outside",
                _ => "keep one; ends with fixed `addresses:` need none",
            };
            errors.add(extra.at, message, hint);
        }
    }
}
