//! Links: what joins the nodes of a lab. One file a kind, each holding that kind's whole making.
//!
//! | kind | what is made | seen by the nodes |
//! |---|---|---|
//! | `veth` | a pair of interfaces, nothing between | a point-to-point Ethernet |
//! | `bridge` | a learning switch | one Ethernet segment |
//! | `nat` | a switch, a router with masquerading, a point-to-point Ethernet | what Docker's users get |
//! | `macvlan` | slices of one parent interface | one Ethernet segment, no switch |
//! | `vxlan` | a switch and a tunnel end per endpoint, an underlay | an Ethernet over UDP |
//! | `overlay` | latlab's own switch, one or one per endpoint on an underlay | one Ethernet segment |
//!
//! **Where things live.** Every node but a `host` has a network namespace, pinned under its name.
//! What is inside a link (switches, routers, tunnel ends) has namespaces of its own, pinned as
//! `@LINK` and `@LINK.N`. So the host's own namespace holds nothing of a lab except interfaces of
//! `host` nodes, and a lab's links are removed, all of them, by unpinning its namespaces. No kind
//! has a way of its own to remove it.
//!
//! **Virtual machines.** Their end of a link is a tap, whose descriptor QEMU inherits. Its network
//! side is where a container's interface would be plugged in: a port of the switch, or the other
//! node's interface itself. A guest configures its own addresses.
//!
//! **Labels.** Interfaces carry the alias `latlab:ID`. One that goes to the root namespace is made
//! and labelled in a namespace of the lab first and then moved, so that there never is one of ours
//! without its label among everybody's.
//!
//! **Ready means ready.** [`Network::connect`] returns when every interface passes packets and
//! every address can be used.

mod attach;
mod bridge;
mod configure;
mod impairment;
mod macvlan;
mod nat;
mod overlay;
mod underlay;
mod veth;
mod vxlan;
pub mod wire;

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use latlab_model::plan::{EndpointPlan, InterfacePlan, LinkPlan, Medium, NodePlan, Plan};
use latlab_model::spec::{Carrier, NodeKind};

use crate::sys;
use crate::sys::netns::{self, NetNs, NewNetNs};

/// Namespaces inside links have no use for IPv6 unless they route it. Without it a switch sends
/// nothing of its own into the segment, and interfaces are made faster.
const NO_IPV6: &[(&str, &str)] = &[("net/ipv6/conf/default/disable_ipv6", "1")];

/// Why the links of a lab could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused something over netlink.
    #[error("link `{link}`: {source}")]
    Netlink {
        link: String,
        source: latlab_netlink::Error,
    },
    #[error("link `{link}`: {source}")]
    Sys { link: String, source: sys::Error },
    /// A node's interface could not be configured.
    #[error("node `{node}`: {source}")]
    Node {
        node: String,
        source: latlab_netlink::Error,
    },
    /// A namespace could not be made or entered.
    #[error(transparent)]
    Namespace(#[from] sys::Error),
    /// The switch of an `overlay` link did not start.
    #[error("link `{link}`: its overlay daemon did not start{}", said(log))]
    Overlay { link: String, log: Vec<String> },
    /// The overlay's daemon, or what keeps it running, is not where it should be.
    #[error("link `{link}` needs a program of latlab's that is not at {}", path.display())]
    NoOverlay {
        link: String,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Files of a link could not be written.
    #[error("link `{link}`: cannot write {}: {source}", path.display())]
    File {
        link: String,
        path: PathBuf,
        source: std::io::Error,
    },
    /// The rules of a `nat` link were refused.
    #[error("link `{link}`: nft refused the rules: {reason}")]
    Rules { link: String, reason: String },
    /// The kernel cannot delay or lose packets on purpose.
    #[error("link `{link}`: this kernel has no `{kind}` queueing discipline")]
    NoQdisc { link: String, kind: &'static str },
    /// An interface did not start to pass packets.
    #[error("{place}: interface `{interface}` is not ready: {reason}")]
    NotReady {
        place: String,
        interface: String,
        reason: String,
    },
}

impl Error {
    /// What a person can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::NoQdisc { .. } => {
                "run it on a kernel with that module, or remove rate, delay, jitter and loss".into()
            }
            Self::Overlay { log, .. } => {
                let own = log
                    .iter()
                    .find_map(|line| line.trim().strip_prefix("hint: "));
                own.unwrap_or("look at the daemon's log below the lab's run directory")
                    .into()
            }
            Self::NoOverlay { .. } => {
                "build it (`cargo build --workspace`), or say where it is with LATLAB_OVERLAY or LATLAB_AGENT"
                    .into()
            }
            Self::Rules { .. } => "`latlab doctor` says whether nftables works here".into(),
            Self::NotReady { .. } => "look at the node with `ip -s link`, or deploy again".into(),
            Self::Netlink { source, .. } | Self::Node { source, .. }
                if matches!(source.errno(), Some(libc::EEXIST | libc::EADDRINUSE)) =>
            {
                "something else has that name or address; give the interface another one".into()
            }
            _ => "`latlab doctor` says which kinds of links this machine can make".into(),
        }
    }
}

/// The first thing that a program said, for the end of a line.
fn said(log: &[String]) -> String {
    log.first().map_or_else(String::new, |line| {
        format!(": {}", line.strip_prefix("error: ").unwrap_or(line))
    })
}

/// The network side of a virtual machine's interface, for QEMU.
#[derive(Debug)]
pub struct VmEnd {
    /// Index of the node in the plan.
    pub node: usize,
    /// Index of the interface in the node.
    pub interface: usize,
    pub plug: Plug,
}

/// What QEMU is given for a network card.
#[derive(Debug)]
pub enum Plug {
    /// An open tap with a virtio-net header.
    Tap(OwnedFd),
    /// The socket of somebody who serves the card's rings (vhost-user).
    VhostUser(PathBuf),
}

/// The network of one lab.
#[derive(Debug)]
pub struct Network {
    directory: PathBuf,
    alias: String,
    lab_id: String,
    root: NetNs,
}

impl Network {
    /// The network of the lab with this identifier, whose namespaces are pinned in `directory`. To
    /// be called in the root namespace, where the interfaces of `host` nodes go.
    pub fn new(directory: PathBuf, lab_id: &str) -> Result<Self, Error> {
        let (alias, lab_id) = (alias(lab_id), lab_id.to_owned());
        Ok(Self {
            directory,
            alias,
            lab_id,
            root: NetNs::current()?,
        })
    }

    /// Makes every namespace of the plan, for nodes and links, as fast as the machine can. The
    /// directory must exist and should be a private mount.
    pub fn make_namespaces(&self, plan: &Plan) -> Result<(), Error> {
        let all: Vec<NewNetNs> = namespaces(plan)
            .into_iter()
            .map(|(name, sysctls)| NewNetNs {
                path: self.directory.join(name),
                sysctls,
            })
            .collect();
        Ok(netns::create_all(&all)?)
    }

    /// Makes every link, configures the nodes' interfaces and waits until they are ready. Returns
    /// the network side of every virtual machine's interface.
    pub fn connect(&self, plan: &Plan) -> Result<Vec<VmEnd>, Error> {
        let mut taps = Vec::new();
        for index in 0..plan.links.len() {
            let link = Wiring {
                network: self,
                plan,
                index,
            };
            let made = match &link.plan().medium {
                Medium::Veth => veth::make(&link),
                Medium::Bridge => bridge::make(&link),
                Medium::Nat(nat) => nat::make(&link, nat),
                Medium::Macvlan { parent } => macvlan::make(&link, parent.as_deref()),
                Medium::Vxlan(vxlan) => vxlan::make(&link, vxlan),
                Medium::Overlay(overlay) => overlay::make(&link, overlay),
            };
            taps.extend(made?);
        }
        configure::configure(self, plan)?;
        configure::wait_for_nodes(self, plan)?;
        configure::switch_on(self, plan)?;
        Ok(taps)
    }

    /// Opens the namespace of that name.
    fn open(&self, name: &str) -> Result<NetNs, Error> {
        Ok(NetNs::open(&self.directory.join(name))?)
    }

    /// Opens the namespace a node's interfaces are in; a `host` node's are in the root namespace.
    fn open_node(&self, node: &NodePlan) -> Result<NetNs, Error> {
        match node.kind {
            NodeKind::Host => Ok(self.root.try_clone()?),
            _ => self.open(&node.name),
        }
    }
}

/// The kernel's label on the interfaces of the lab with this identifier.
pub fn alias(lab_id: &str) -> String {
    format!("latlab:{lab_id}")
}

/// The interfaces that a lab puts into the root namespace: the only ones that unpinning its
/// namespaces does not remove.
pub fn host_interfaces(plan: &Plan) -> Vec<String> {
    let hosts = plan.nodes.iter().filter(|node| node.kind == NodeKind::Host);
    hosts
        .flat_map(|node| &node.interfaces)
        .map(|interface| interface.name.clone())
        .collect()
}

/// The names of all namespaces of a lab, with their settings.
fn namespaces(plan: &Plan) -> Vec<(String, &'static [(&'static str, &'static str)])> {
    let mut all = Vec::new();
    for node in plan.nodes.iter().filter(|node| node.kind != NodeKind::Host) {
        all.push((node.name.clone(), &[][..]));
    }
    all.extend(
        link_namespaces(plan)
            .into_iter()
            .map(|(_, name)| (name, NO_IPV6)),
    );
    all
}

/// Each link's namespaces: name of the link, name of the namespace.
fn link_namespaces(plan: &Plan) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (index, link) in plan.links.iter().enumerate() {
        let mut add = |namespace| all.push((link.name.clone(), namespace));
        if has_inside(plan, index) {
            add(inside_name(link));
        }
        if has_hosts(&link.medium) {
            (0..link.endpoints.len()).for_each(|end| add(tunnel_name(link, end)));
        }
    }
    all
}

/// Whether every end is behind a host of its own.
fn has_hosts(medium: &Medium) -> bool {
    match medium {
        Medium::Vxlan(_) => true,
        Medium::Overlay(overlay) => overlay.carrier != Carrier::Local,
        _ => false,
    }
}

/// Whether a link has anything inside. Only a pair between two namespaces has not: a virtual
/// machine that is impaired needs a shaper, two need a switch, and interfaces for the root
/// namespace are prepared inside.
fn has_inside(plan: &Plan, index: usize) -> bool {
    let link = &plan.links[index];
    if link.medium != Medium::Veth {
        return true;
    }
    let kinds = link.endpoints.iter().map(|end| plan.nodes[end.node].kind);
    let vms = link
        .endpoints
        .iter()
        .filter(|end| plan.nodes[end.node].kind == NodeKind::Vm);
    kinds.clone().any(|kind| kind == NodeKind::Host)
        || kinds.clone().all(|kind| kind == NodeKind::Vm)
        || vms.clone().any(|end| !end.impairment.is_none())
}

fn inside_name(link: &LinkPlan) -> String {
    format!("@{}", link.name)
}

fn tunnel_name(link: &LinkPlan, end: usize) -> String {
    format!("@{}.{end}", link.name)
}

/// One link while it is made.
#[derive(Debug, Clone, Copy)]
struct Wiring<'a> {
    network: &'a Network,
    plan: &'a Plan,
    index: usize,
}

impl<'a> Wiring<'a> {
    fn plan(&self) -> &'a LinkPlan {
        &self.plan.links[self.index]
    }

    fn ends(&self) -> std::ops::Range<usize> {
        0..self.plan().endpoints.len()
    }

    fn end(&self, end: usize) -> End<'a> {
        let (node, interface) = self.plan.end(self.index, end);
        End {
            plan: &self.plan().endpoints[end],
            number: end,
            node,
            interface,
        }
    }

    /// The namespace of what is inside the link.
    fn inside(&self) -> Result<NetNs, Error> {
        self.network.open(&inside_name(self.plan()))
    }

    /// The namespace of one end's tunnel end.
    fn tunnel(&self, end: usize) -> Result<NetNs, Error> {
        self.network.open(&tunnel_name(self.plan(), end))
    }

    /// For `map_err`: names the link.
    fn refused(&self) -> impl Fn(latlab_netlink::Error) -> Error + use<'a> {
        let link = &self.plan().name;
        move |source| Error::Netlink {
            link: link.clone(),
            source,
        }
    }

    /// For `map_err`: names the link.
    fn failed(&self) -> impl Fn(sys::Error) -> Error + use<'a> {
        let link = &self.plan().name;
        move |source| Error::Sys {
            link: link.clone(),
            source,
        }
    }
}

/// One end of a link.
#[derive(Debug, Clone, Copy)]
struct End<'a> {
    plan: &'a EndpointPlan,
    number: usize,
    node: &'a NodePlan,
    interface: &'a InterfacePlan,
}

impl End<'_> {
    fn is_vm(&self) -> bool {
        self.node.kind == NodeKind::Vm
    }

    fn is_host(&self) -> bool {
        self.node.kind == NodeKind::Host
    }

    fn vm_end(&self, plug: Plug) -> VmEnd {
        VmEnd {
            node: self.plan.node,
            interface: self.plan.interface,
            plug,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_daemon_said_is_the_reason_and_its_hint_the_hint() {
        let error = |log: &[&str]| Error::Overlay {
            link: "lan".into(),
            log: log.iter().map(ToString::to_string).collect(),
        };
        let told = error(&["error: there is no interface p0", "  hint: make one"]);
        let reason = "link `lan`: its overlay daemon did not start: there is no interface p0";
        assert_eq!(told.to_string(), reason);
        assert_eq!(told.hint(), "make one");
        let silent = error(&[]);
        assert!(silent.to_string().ends_with("did not start"), "{silent}");
        assert!(silent.hint().contains("the daemon's log"));
    }
}
