//! The network of a container once more, at other hosts: a second namespace with the same interfaces, each plugged
//! into the host that the container comes to.
//!
//! Nothing pins the new namespace, so it and its cables end with the latlab that made it, until it takes the place of
//! the one before. What cannot be made again there is refused, rather than left behind.

use std::os::fd::AsFd;

use latlab_model::kinds::Cable;
use latlab_model::plan::{InterfacePlan, Medium, NodePlan, Plan};
use latlab_netlink::{Handle, Interface, Link, LinkChange, LinkKind, MacAddress, NewLink, Table};
use latlab_netlink::{QdiscEntry, delete};

use super::configure;
use super::error::Error;
use super::impairment;
use super::namespaces::tunnel_name;
use super::netns_handle::port;
use super::network::Network;
use crate::sys::net_settings;
use crate::sys::netns::NetNs;

/// Files of iptables' older kind that list its tables (kernel: net/ipv4/netfilter/ip_tables.c).
const OLD_TABLES: [&str; 3] = [
    "/proc/thread-self/net/ip_tables_names",
    "/proc/thread-self/net/ip6_tables_names",
    "/proc/thread-self/net/arp_tables_names",
];

/// The cables of a container, at the hosts that its links give it.
#[derive(Clone, Copy)]
pub(crate) struct Plugs<'a> {
    pub network: &'a Network,
    pub plan: &'a Plan,
    pub node: &'a NodePlan,
}

impl Plugs<'_> {
    /// Has a namespace be the container's, whose cables at the hosts of node `from` are removed.
    pub(crate) fn settle(&self, netns: &NetNs, from: usize) -> Result<(), Error> {
        self.unplug(from);
        Ok(netns.replace(&self.network.pin_of(self.node))?)
    }

    /// Removes the container's cables at the hosts of a node. Those that stay end with their namespace.
    pub(crate) fn unplug(&self, host: usize) {
        for interface in &self.node.interfaces {
            let Some(netns) = self.host(interface, host).ok().flatten() else {
                continue;
            };
            let gone = delete(&port(interface.endpoint));
            let _ = Handle::open_in(netns.as_fd()).and_then(|mut handle| handle.apply(&gone));
        }
    }

    /// The namespace of the host that a link gives a node.
    fn host(&self, interface: &InterfacePlan, node: usize) -> Result<Option<NetNs>, Error> {
        let link = &self.plan.links[interface.link];
        let end = link.endpoints.iter().position(|end| end.node == node);
        let open = |end| self.network.open(&tunnel_name(link, end));
        end.map(open).transpose()
    }
}

/// A container's second network namespace.
pub(crate) struct Replica<'a> {
    plugs: Plugs<'a>,
    /// The namespace that it has.
    old: NetNs,
    new: NetNs,
}

impl<'a> Replica<'a> {
    /// Makes it. `to` is the node to whose hosts the container comes; all links are overlays that have such.
    pub(crate) fn make(
        network: &'a Network,
        plan: &'a Plan,
        node: &'a NodePlan,
        to: usize,
    ) -> Result<Replica<'a>, Error> {
        let replica = Replica {
            plugs: Plugs {
                network,
                plan,
                node,
            },
            old: network.open_node(node)?,
            new: NetNs::fresh()?,
        };
        match replica.fill(to) {
            Ok(()) => Ok(replica),
            Err(error) => {
                replica.unplug(to);
                Err(error)
            }
        }
    }

    pub(crate) fn netns(&self) -> &NetNs {
        &self.new
    }

    fn fill(&self, to: usize) -> Result<(), Error> {
        let refused = Error::of_node(self.plugs.node);
        let mut from = Handle::open_in(self.old.as_fd()).map_err(&refused)?;
        let mut into = Handle::open_in(self.new.as_fd()).map_err(&refused)?;
        let links = from.links().map_err(&refused)?;
        let mut cables: Vec<(&InterfacePlan, &Link)> = Vec::new();
        for interface in &self.plugs.node.interfaces {
            let link = links.iter().find(|link| link.name == interface.name);
            let link = link.ok_or_else(|| self.not_copied(&interface.name, "is gone"))?;
            cables.push((interface, link));
        }
        // Numbers are given away in the order of making.
        cables.sort_by_key(|(_, link)| link.index);
        for (interface, link) in &cables {
            self.plug_in(interface, link, to)?;
        }
        self.check_same_links(&links, &into.links().map_err(&refused)?)?;
        net_settings::copy(&self.old, &self.new)?;
        for (interface, link) in &cables {
            self.dress(&mut into, interface, link)?;
        }
        for table in [Table::Addresses, Table::Rules] {
            into.copy_table(&mut from, table).map_err(&refused)?;
        }
        configure::wait_for_node(&mut into, self.plugs.node)?;
        // A route needs its interface to run.
        into.copy_table(&mut from, Table::Routes)
            .map_err(&refused)?;
        self.check_qdiscs(&mut from, &mut into)?;
        self.check_rules()
    }

    /// Copies what the container knows of its neighbours: a question that is asked while frames are held would be lost,
    /// and asked again after a second.
    pub(crate) fn copy_neighbours(&self) -> Result<(), Error> {
        let refused = Error::of_node(self.plugs.node);
        let mut from = Handle::open_in(self.old.as_fd()).map_err(&refused)?;
        let mut into = Handle::open_in(self.new.as_fd()).map_err(&refused)?;
        into.copy_table(&mut from, Table::Neighbours)
            .map_err(&refused)
    }

    /// Puts it in the place of the namespace before, whose cables at the hosts of node `from` are removed.
    pub(crate) fn settle(&self, from: usize) -> Result<(), Error> {
        self.plugs.settle(&self.new, from)
    }

    /// Removes the container's cables at the hosts of a node. Those that stay end with their namespace.
    pub(crate) fn unplug(&self, host: usize) {
        self.plugs.unplug(host);
    }

    fn plug_in(&self, interface: &InterfacePlan, old: &Link, to: usize) -> Result<(), Error> {
        let link = &self.plugs.plan.links[interface.link];
        let cable = match &link.medium {
            Medium::Overlay(overlay) => overlay.cable,
            _ => Cable::Veth,
        };
        let Some(host) = self.plugs.host(interface, to)? else {
            return Err(self.not_copied(&interface.name, "has no host there"));
        };
        let name = port(interface.endpoint);
        let near = Interface::new(&name).mtu(Some(link.mtu));
        let far = Interface::new(&interface.name)
            .mac(Some(MacAddress(interface.mac.0)))
            .mtu(Some(old.mtu_bytes))
            .netns(self.new.as_fd());
        let kind = match cable {
            Cable::Veth => LinkKind::Veth(far),
            Cable::Netkit => LinkKind::Netkit(far),
        };
        let label = LinkChange::of(&name)
            .alias(&self.plugs.network.alias)
            .request();
        let requests = [NewLink::new(near, kind).up().request(), label];
        Handle::open_in(host.as_fd())
            .and_then(|mut handle| handle.apply_all(&requests))
            .map_err(Error::of_link(link))
    }

    /// The label, the impairment and the state of an interface.
    fn dress(&self, into: &mut Handle, interface: &InterfacePlan, old: &Link) -> Result<(), Error> {
        let link = &self.plugs.plan.links[interface.link];
        let impair = &link.endpoints[interface.endpoint].impairment;
        let qdiscs = impairment::requests(old.index, interface.mtu, impair);
        into.apply_all(&qdiscs)
            .map_err(|error| impairment::refused(&link.name, impair, error))?;
        let change = LinkChange::of_index(old.index).alias(&self.plugs.network.alias);
        into.apply(&change.up(true).request())
            .map_err(Error::of_node(self.plugs.node))
    }

    fn check_same_links(&self, old: &[Link], new: &[Link]) -> Result<(), Error> {
        for link in old {
            let reason = match new.iter().find(|other| other.name == link.name) {
                None => "was made inside, and would be left behind",
                Some(other) if other.index != link.index => {
                    "would get another number, by which sockets know it"
                }
                Some(other) if other.mac != link.mac => "has another address than in the lab",
                Some(_) if !link.up && self.is_ours(link) => "is down",
                Some(_) => continue,
            };
            return Err(self.not_copied(&link.name, reason));
        }
        Ok(())
    }

    fn is_ours(&self, link: &Link) -> bool {
        let mut own = self.plugs.node.interfaces.iter();
        own.any(|interface| interface.name == link.name)
    }

    fn check_qdiscs(&self, from: &mut Handle, into: &mut Handle) -> Result<(), Error> {
        let refused = Error::of_node(self.plugs.node);
        let plain = |all: Vec<QdiscEntry>| -> Vec<QdiscEntry> {
            let uncounted = |entry| QdiscEntry {
                dropped: 0,
                ..entry
            };
            all.into_iter().map(uncounted).collect()
        };
        let old = plain(from.qdiscs().map_err(&refused)?);
        let new = plain(into.qdiscs().map_err(&refused)?);
        match old == new {
            true => Ok(()),
            false => Err(self.not_copied("", "its queueing disciplines were changed inside")),
        }
    }

    /// Rules of a firewall are not copied.
    fn check_rules(&self) -> Result<(), Error> {
        let tables = self.old.run(|| {
            let lists = OLD_TABLES.map(|list| std::fs::read_to_string(list).unwrap_or_default());
            let is_old = lists.iter().any(|list| !list.trim().is_empty());
            Handle::nftables().map(|tables| is_old || tables > 0)
        })?;
        match tables.map_err(Error::of_node(self.plugs.node))? {
            false => Ok(()),
            true => Err(self.not_copied("", "it has rules of a firewall (nftables, iptables)")),
        }
    }

    fn not_copied(&self, interface: &str, reason: &str) -> Error {
        let what = match interface {
            "" => reason.to_owned(),
            name => format!("its interface `{name}` {reason}"),
        };
        let node = self.plugs.node.name.clone();
        Error::NotCopied { node, what }
    }
}
