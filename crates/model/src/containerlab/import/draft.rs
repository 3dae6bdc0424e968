//! A lab while it is made of a topology: which nodes there are, and what joins them.
//!
//! containerlab has cables only: a bridge is a node there, and each of its ports a cable. In a lab it is one link.

use std::collections::HashMap;

use ipnet::IpNet;

use super::link::{End as WrittenEnd, Link as WrittenLink, Type};
use super::topology::{self, Kind, Topology};
use crate::containerlab::commands::quoted;
use crate::containerlab::names::Names;
use crate::containerlab::remarks::Remarks;
use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of, shown};
use crate::kinds::{LinkKind, NodeKind};

/// The MTU of containerlab's cables.
const DEFAULT_MTU: u32 = 9500;

#[derive(Debug)]
pub(super) struct Node<'t> {
    pub name: Spanned<String>,
    pub kind: NodeKind,
    /// The node as written; none for the host that no node stands for.
    pub written: Option<&'t topology::Node>,
    /// `exec:`, in order; what became a field is taken out.
    pub exec: Vec<Option<Spanned<String>>>,
}

#[derive(Debug)]
pub(super) struct End {
    /// Index of its node.
    pub node: usize,
    pub at: Mark,
    pub interface: Spanned<String>,
    pub mac: Option<Spanned<String>>,
    pub addresses: Vec<Spanned<IpNet>>,
    /// Addresses that commands of the node add, with the index of the command.
    pub by_command: Vec<(Spanned<IpNet>, usize)>,
}

#[derive(Debug)]
pub(super) struct Link {
    pub at: Mark,
    /// The name, of a bridge.
    pub name: Option<Spanned<String>>,
    pub kind: LinkKind,
    pub ends: Vec<End>,
    pub mtu: Option<Spanned<u32>>,
    /// The host's interface below, of a macvlan.
    pub parent: Option<Spanned<String>>,
}

#[derive(Debug, Default)]
pub(super) struct Draft<'t> {
    pub nodes: Vec<Node<'t>>,
    pub links: Vec<Link>,
}

/// The place of a topology's node in the lab.
#[derive(Debug, Clone, Copy)]
enum Place {
    Node(usize),
    /// Index of the bridge.
    Bridge(usize),
    LeftOut,
}

/// A node that becomes a link.
struct Bridge {
    name: Spanned<String>,
    /// Index of its link, once it has an end.
    link: Option<usize>,
}

#[derive(Default)]
struct Builder<'t> {
    draft: Draft<'t>,
    places: HashMap<&'t str, Place>,
    bridges: Vec<Bridge>,
    /// Links of type macvlan, by the interface below and the mode.
    macvlans: HashMap<(String, String), usize>,
    host: Option<usize>,
    names: Names,
}

impl<'t> Draft<'t> {
    pub(super) fn of(
        topology: &'t Topology,
        remarks: &mut Remarks,
        errors: &mut Diagnostics,
    ) -> Draft<'t> {
        let mut builder = Builder::default();
        let mut links = Names::default();
        for node in &topology.nodes {
            builder.add_node(node, &mut links, remarks);
        }
        for link in &topology.links {
            builder.add_link(link, remarks, errors);
        }
        builder.leave_out_short(remarks);
        builder.draft
    }
}

impl<'t> Builder<'t> {
    fn add_node(&mut self, node: &'t topology::Node, links: &mut Names, remarks: &mut Remarks) {
        let place = match node.kind {
            None => Place::LeftOut,
            Some(Kind::Bridge | Kind::OvsBridge) => {
                tell_bridge(node, remarks);
                let name = links.give("bridge", &node.name, remarks);
                let name = Spanned::new(name, node.name.at);
                self.bridges.push(Bridge { name, link: None });
                Place::Bridge(self.bridges.len() - 1)
            }
            Some(Kind::Linux | Kind::Host) => {
                let is_host = node.kind == Some(Kind::Host);
                let name = self.names.give("node", &node.name, remarks);
                let kind = if is_host {
                    NodeKind::Host
                } else {
                    NodeKind::Container
                };
                let index = self.push_node(Spanned::new(name, node.name.at), kind, Some(node));
                if is_host {
                    self.host.get_or_insert(index);
                }
                Place::Node(index)
            }
        };
        self.places.insert(&node.name, place);
    }

    fn push_node(
        &mut self,
        name: Spanned<String>,
        kind: NodeKind,
        written: Option<&'t topology::Node>,
    ) -> usize {
        let exec = Vec::new();
        self.draft.nodes.push(Node {
            name,
            kind,
            written,
            exec,
        });
        self.draft.nodes.len() - 1
    }

    /// The node that is the host, for a link that is written here.
    fn host(&mut self, at: Mark) -> usize {
        if let Some(host) = self.host {
            return host;
        }
        let name = self.names.free("host", "host".len() + 4);
        let host = self.push_node(Spanned::new(name, at), NodeKind::Host, None);
        *self.host.insert(host)
    }

    fn add_link(&mut self, link: &WrittenLink, remarks: &mut Remarks, errors: &mut Diagnostics) {
        let mut places = Vec::new();
        for end in &link.ends {
            match self.places.get(end.node.as_str()) {
                Some(place) => places.push(*place),
                None => return unknown(&end.node, &self.places, errors),
            }
        }
        if places.iter().any(|place| matches!(place, Place::LeftOut)) {
            // Its node was told of.
            remarks.links_left_out += 1;
            return;
        }
        let ends: Vec<&WrittenEnd> = link.ends.iter().collect();
        match (link.kind.value, &places[..], &ends[..]) {
            (Type::Veth, [Place::Node(a), Place::Node(b)], [first, second]) => {
                let ends = vec![end(*a, first), end(*b, second)];
                self.push_veth(link, ends);
            }
            (Type::Veth, [Place::Node(node), Place::Bridge(bridge)], [other, _])
            | (Type::Veth, [Place::Bridge(bridge), Place::Node(node)], [_, other]) => {
                self.push_port(*bridge, link, end(*node, other), remarks);
            }
            (Type::Veth, ..) => {
                let why = "the link joins two bridges";
                remarks.link_left_out(
                    link.at,
                    why,
                    "attach all nodes to one of them: a link of type bridge is one Ethernet",
                );
            }
            (Type::Host, [place], [written]) => {
                let Some(outside) = self.outside(link, errors) else {
                    return;
                };
                match place {
                    Place::Bridge(bridge) => self.push_port(*bridge, link, outside, remarks),
                    Place::Node(node) => self.push_veth(link, vec![end(*node, written), outside]),
                    Place::LeftOut => {}
                }
            }
            (Type::Macvlan, [Place::Node(node)], [written]) => {
                self.push_macvlan(link, end(*node, written), remarks, errors);
            }
            (Type::Dummy, [Place::Node(node)], [written]) => {
                let message = format!(
                    "interface `{}` of type dummy is made by `exec`",
                    shown(&written.interface)
                );
                let hint = "the kernel needs `dummy`, and the image the program `ip`";
                remarks.add(link.at, message, hint);
                let command = dummy(link, written);
                self.draft.nodes[*node]
                    .exec
                    .push(Some(Spanned::new(command, link.at)));
            }
            (kind, ..) => without_equivalent(kind, link, remarks),
        }
    }

    /// The end in the host's own network.
    fn outside(&mut self, link: &WrittenLink, errors: &mut Diagnostics) -> Option<End> {
        let interface = required(link, errors)?;
        Some(End {
            node: self.host(link.at),
            at: interface.at,
            interface,
            mac: None,
            addresses: Vec::new(),
            by_command: Vec::new(),
        })
    }

    fn push_veth(&mut self, link: &WrittenLink, ends: Vec<End>) {
        self.draft.links.push(Link {
            at: link.at,
            name: None,
            kind: LinkKind::Veth,
            ends,
            mtu: Some(mtu(link)),
            parent: None,
        });
    }

    fn push_port(&mut self, bridge: usize, link: &WrittenLink, end: End, remarks: &mut Remarks) {
        let Builder { draft, bridges, .. } = self;
        let bridge = &mut bridges[bridge];
        let index = *bridge.link.get_or_insert_with(|| {
            draft.links.push(Link {
                at: link.at,
                name: Some(bridge.name.clone()),
                kind: LinkKind::Bridge,
                ends: Vec::new(),
                mtu: Some(mtu(link)),
                parent: None,
            });
            draft.links.len() - 1
        });
        let whole = &mut draft.links[index];
        if let Some(least) = whole.mtu.filter(|all| all.value != mtu(link).value) {
            let least = if mtu(link).value < least.value {
                mtu(link)
            } else {
                least
            };
            let message = format!("cables of bridge `{}` have several MTUs", *bridge.name);
            remarks.add(
                link.at,
                message,
                format!("all have the least, {}", least.value),
            );
            whole.mtu = Some(least);
        }
        whole.ends.push(end);
    }

    fn push_macvlan(
        &mut self,
        link: &WrittenLink,
        end: End,
        remarks: &mut Remarks,
        errors: &mut Diagnostics,
    ) {
        let Some(parent) = required(link, errors) else {
            return;
        };
        let mode = link.mode.as_ref().map_or("bridge", |mode| mode.as_str());
        if let Some(written) = link.mode.as_ref().filter(|_| mode != "bridge") {
            let message = format!("mode `{}` of a macvlan has no equivalent", shown(mode));
            remarks.add(
                written.at,
                message,
                "its ends see each other, as with `mode: bridge`",
            );
        }
        let links = &mut self.draft.links;
        let index = self
            .macvlans
            .entry((parent.value.clone(), mode.to_string()))
            .or_insert_with(|| {
                links.push(Link {
                    at: link.at,
                    name: None,
                    kind: LinkKind::Macvlan,
                    ends: Vec::new(),
                    mtu: link.mtu,
                    parent: Some(parent),
                });
                links.len() - 1
            });
        links[*index].ends.push(end);
    }

    /// Leaves out links with one end, which a lab cannot have, and bridges without any.
    fn leave_out_short(&mut self, remarks: &mut Remarks) {
        for bridge in &self.bridges {
            if bridge.link.is_none() {
                let why = format!("bridge `{}` joins no node of the lab", *bridge.name);
                remarks.link_left_out(
                    bridge.name.at,
                    &why,
                    "a link of type bridge has two ends or more",
                );
            }
        }
        self.draft.links.retain(|link| {
            let is_short = link.ends.len() < 2;
            if is_short {
                let (at, what) = match &link.name {
                    Some(name) => (name.at, format!("{} `{}`", link.kind, **name)),
                    None => (link.at, format!("this {}", link.kind)),
                };
                let hint = "add a second node; `type: phys` gives a node an interface of the host";
                remarks.link_left_out(at, &format!("{what} has one end in the lab"), hint);
            }
            !is_short
        });
    }
}

fn end(node: usize, written: &WrittenEnd) -> End {
    End {
        node,
        at: written.node.at,
        interface: written.interface.clone(),
        mac: written.mac.clone(),
        addresses: written.addresses.clone(),
        by_command: Vec::new(),
    }
}

fn mtu(link: &WrittenLink) -> Spanned<u32> {
    link.mtu.unwrap_or(Spanned::new(DEFAULT_MTU, link.at))
}

fn required(link: &WrittenLink, errors: &mut Diagnostics) -> Option<Spanned<String>> {
    if link.host_interface.is_none() {
        let message = format!(
            "the link of type {} has no `host-interface`",
            link.kind.word()
        );
        errors.add(
            link.at,
            message,
            "add `host-interface:`, the interface of the host",
        );
    }
    link.host_interface.clone()
}

fn unknown(node: &Spanned<String>, known: &HashMap<&str, Place>, errors: &mut Diagnostics) {
    let message = format!("a link names node `{}`, which does not exist", shown(node));
    // Looking for a hint costs a comparison with every node.
    let mut names: Vec<&str> = if errors.is_full() {
        Vec::new()
    } else {
        known.keys().copied().collect()
    };
    names.sort_unstable();
    errors.add(node.at, message, hint_one_of(node, &names));
}

fn tell_bridge(node: &topology::Node, remarks: &mut Remarks) {
    let name = shown(&node.name);
    let message = match node.kind {
        Some(Kind::OvsBridge) => {
            format!("bridge `{name}` of Open vSwitch becomes a bridge of the kernel")
        }
        _ => format!("bridge `{name}` of the host becomes one of the lab"),
    };
    remarks.add(
        node.name.at,
        message,
        "what else is attached to it on the host stays apart",
    );
}

/// The command that makes a dummy interface.
fn dummy(link: &WrittenLink, end: &WrittenEnd) -> String {
    let name = quoted(&end.interface);
    let mac = end.mac.as_ref().map(|mac| quoted(mac));
    let mac = mac.map_or_else(String::new, |mac| format!(" address {mac}"));
    let mtu = link
        .mtu
        .map_or_else(String::new, |mtu| format!(" mtu {}", mtu.value));
    format!("ip link add {name}{mac}{mtu} type dummy && ip link set {name} up")
}

fn without_equivalent(kind: Type, link: &WrittenLink, remarks: &mut Remarks) {
    let why = format!("a link of type {} has no equivalent", kind.word());
    let hint = match kind {
        Type::MgmtNet => "there is no management network; `latlab exec` reaches every node",
        Type::Vxlan => {
            "`type: phys` gives a node an interface of the host; both ends of a vxlan are in the lab"
        }
        _ => "only a node of kind linux can have it",
    };
    remarks.link_left_out(link.at, &why, hint);
}
