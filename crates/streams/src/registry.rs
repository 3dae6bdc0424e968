//! Nodes, their addresses and their listening sockets, and what follows from them for a connection. Pure.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use latlab_wire::streams::{Config, End, canonical};

/// Index into the configuration's nodes.
pub type NodeId = usize;

/// Number of a host among those of all networks, in their order.
pub type HostId = usize;

/// Listening sockets of one node that are known at once; of a node with more, connections to further ones are plain.
const MAX_LISTENERS: usize = 4096;

/// Why a connection between two ends of a network is no stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Plain {
    Off,
    NoListener,
    SharedDescriptor,
    ResetAtClose,
    /// TCP_FASTOPEN_CONNECT, with which the first data connects, or SO_ZEROCOPY, whose completions no shadow tells.
    SpecialSending,
    AsyncIo,
    ForeignSource,
    Limit,
    /// A non-blocking connection that was not there at once.
    Slow,
    Interrupted,
    Failed,
}

impl Plain {
    pub fn word(self) -> &'static str {
        match self {
            Plain::Off => "off",
            Plain::NoListener => "no-listener",
            Plain::SharedDescriptor => "shared-descriptor",
            Plain::ResetAtClose => "reset-at-close",
            Plain::SpecialSending => "special-sending",
            Plain::AsyncIo => "async-io",
            Plain::ForeignSource => "foreign-source",
            Plain::Limit => "limit",
            Plain::Slow => "slow",
            Plain::Interrupted => "interrupted",
            Plain::Failed => "failed",
        }
    }
}

/// The way of a stream's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Here,
    Between { server: HostId, client: HostId },
}

/// The names of a connection: those that its server's end sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    pub server: NodeId,
    pub local: SocketAddr,
    pub peer: SocketAddr,
}

/// An address of a network and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    pub node: NodeId,
    pub host: Option<HostId>,
    network: usize,
}

/// The owner of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    node: NodeId,
    host: Option<HostId>,
}

#[derive(Debug)]
struct Listening {
    node: NodeId,
    /// As bound; a wildcard of IPv6 takes IPv4 as well.
    address: SocketAddr,
    inode: u64,
}

#[derive(Debug, Default)]
pub struct Registry {
    /// Owners of addresses, in each network.
    owners: Vec<HashMap<IpAddr, Owner>>,
    /// Servers' ports with streams, of each network; none are all.
    ports: Vec<Vec<u16>>,
    listening: HashMap<u64, Listening>,
    by_port: HashMap<(NodeId, u16), Vec<u64>>,
    /// Nodes in which a program has an io_uring, whose requests no filter sees.
    unseen: Vec<NodeId>,
}

impl Registry {
    pub fn new(config: &Config) -> Self {
        let mut hosts = 0;
        let mut of_end = |end: &End| {
            let host = end.host.is_some().then_some(hosts);
            hosts += usize::from(host.is_some());
            let node = end.node;
            end.addresses
                .iter()
                .map(move |ip| (ip.to_canonical(), Owner { node, host }))
                .collect::<Vec<_>>()
        };
        let networks = config.networks.iter();
        let owners = networks.map(|network| network.ends.iter().flat_map(&mut of_end).collect());
        Self {
            owners: owners.collect(),
            ports: config.networks.iter().map(|n| n.ports.clone()).collect(),
            ..Self::default()
        }
    }

    /// The owner of an address in a network that `client` is in as well. None for its own addresses.
    pub fn target(&self, client: NodeId, to: SocketAddr) -> Option<Target> {
        let ip = to.ip().to_canonical();
        let mut networks = self.owners.iter().enumerate();
        networks.find_map(|(network, owners)| {
            let Owner { node, host } = *owners.get(&ip)?;
            let is_member = owners.values().any(|member| member.node == client);
            (is_member && node != client).then_some(Target {
                node,
                host,
                network,
            })
        })
    }

    /// Whether connections to this port may be streams by the configuration of the target's network.
    pub fn has_port(&self, target: Target, port: u16) -> bool {
        let ports = &self.ports[target.network];
        ports.is_empty() || ports.contains(&port)
    }

    /// The hosts of both ends, the server's first, of a client that speaks from an address of its own; `None` for one that
    /// it took. Without hosts, both are on this one.
    pub fn way(&self, target: Target, client: NodeId, from: SocketAddr) -> Option<Way> {
        let owner = self.owners[target.network].get(&from.ip().to_canonical())?;
        let way = match (target.host, owner.host) {
            (Some(server), Some(client)) if server != client => Way::Between { server, client },
            _ => Way::Here,
        };
        (owner.node == client).then_some(way)
    }

    /// Whether no more listening sockets of a node are noted.
    pub fn is_full(&self, node: NodeId) -> bool {
        let of_node = self.listening.values().filter(|l| l.node == node);
        of_node.count() >= MAX_LISTENERS
    }

    /// Forgets the listening sockets of a node that are not open any more.
    pub fn forget_closed(&mut self, node: NodeId, open: &HashSet<u64>) {
        self.forget_those(|l| l.node == node && !open.contains(&l.inode));
    }

    fn forget_those(&mut self, are_gone: impl Fn(&Listening) -> bool) {
        let gone = self.listening.iter().filter(|(_, l)| are_gone(l));
        let cookies: Vec<u64> = gone.map(|(cookie, _)| *cookie).collect();
        cookies.into_iter().for_each(|cookie| self.forget(cookie));
    }

    /// Notes a listening socket by its cookie.
    pub fn listens(&mut self, cookie: u64, inode: u64, node: NodeId, address: SocketAddr) {
        if self.unseen.contains(&node) || self.is_full(node) {
            return;
        }
        let address = canonical(address);
        let port = self.by_port.entry((node, address.port())).or_default();
        if !port.contains(&cookie) {
            port.push(cookie);
        }
        let listening = Listening {
            node,
            address,
            inode,
        };
        self.listening.insert(cookie, listening);
    }

    /// The node of a listening socket whose connections may be streams.
    pub fn listener(&self, cookie: u64) -> Option<NodeId> {
        self.listening.get(&cookie).map(|listening| listening.node)
    }

    /// Forgets a listening socket: its connections are plain from now on.
    pub fn forget(&mut self, cookie: u64) {
        let Some(listening) = self.listening.remove(&cookie) else {
            return;
        };
        let port = (listening.node, listening.address.port());
        if let Some(cookies) = self.by_port.get_mut(&port) {
            cookies.retain(|other| *other != cookie);
            if cookies.is_empty() {
                self.by_port.remove(&port);
            }
        }
    }

    /// Has all connections to a node be plain: it may accept them unseen.
    pub fn unseen(&mut self, node: NodeId) {
        if !self.unseen.contains(&node) {
            self.unseen.push(node);
        }
        self.forget_those(|l| l.node == node);
    }

    /// Whether a known socket of the node listens at the address.
    pub fn is_listening(&self, node: NodeId, at: SocketAddr) -> bool {
        let at = canonical(at);
        let cookies = self.by_port.get(&(node, at.port()));
        cookies.into_iter().flatten().any(|cookie| {
            let bound = self.listening[cookie].address.ip();
            bound == at.ip() || (bound.is_unspecified() && (bound.is_ipv6() || at.is_ipv4()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_wire::streams::{Host, Network, Node};

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn registry() -> Registry {
        let node = |name: &str| Node {
            name: name.into(),
            netns: name.into(),
        };
        let end = |node, addresses: &[&str]| End {
            node,
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
            host: None,
        };
        Registry::new(&Config {
            nodes: vec![node("a"), node("b"), node("c")],
            networks: vec![
                Network {
                    name: "lan".into(),
                    ends: vec![
                        end(0, &["10.0.0.1", "fd00::1"]),
                        end(1, &["10.0.0.2", "fd00::2"]),
                    ],
                    ports: Vec::new(),
                },
                Network {
                    name: "other".into(),
                    ends: vec![end(1, &["10.1.0.2"]), end(2, &["10.1.0.3"])],
                    ports: vec![80],
                },
            ],
            ..Config::default()
        })
    }

    #[test]
    fn a_target_is_another_node_of_a_common_network() {
        let registry = registry();
        let node = |client, to| registry.target(client, at(to)).map(|target| target.node);
        assert_eq!(node(0, "10.0.0.2:80"), Some(1));
        assert_eq!(node(0, "[fd00::2]:80"), Some(1));
        assert_eq!(node(0, "[::ffff:10.0.0.2]:80"), Some(1));
        assert_eq!(node(1, "10.1.0.3:80"), Some(2));
        // Its own address, a network that it is not in, an address without an owner.
        assert_eq!(node(0, "10.0.0.1:80"), None);
        assert_eq!(node(0, "10.1.0.3:80"), None);
        assert_eq!(node(0, "10.0.0.9:80"), None);
    }

    #[test]
    fn a_network_has_streams_to_its_ports_alone() {
        let registry = registry();
        let has = |client, to| {
            let target = registry.target(client, at(to)).unwrap();
            registry.has_port(target, at(to).port())
        };
        assert!(has(0, "10.0.0.2:80") && has(0, "10.0.0.2:81"));
        assert!(has(1, "10.1.0.3:80") && !has(1, "10.1.0.3:81"));
    }

    #[test]
    fn a_source_that_the_client_took_is_not_its_own() {
        let registry = registry();
        let target = registry.target(0, at("10.0.0.2:80")).unwrap();
        let way = |from| registry.way(target, 0, at(from));
        assert_eq!(way("10.0.0.1:4000"), Some(Way::Here));
        assert_eq!(way("[::ffff:10.0.0.1]:4000"), Some(Way::Here));
        assert_eq!(way("10.0.0.2:4000"), None);
        assert_eq!(way("10.0.0.7:4000"), None);
    }

    #[test]
    fn nodes_of_two_hosts_have_a_way_between_these() {
        let node = |name: &str| Node {
            name: name.into(),
            netns: name.into(),
        };
        let end = |node: usize| End {
            node,
            addresses: vec![format!("10.0.0.{node}").parse().unwrap()],
            host: Some(Host {
                netns: format!("host{node}").into(),
                address: format!("10.9.0.{node}").parse().unwrap(),
            }),
        };
        let registry = Registry::new(&Config {
            nodes: vec![node("a"), node("b")],
            networks: vec![Network {
                name: "lan".into(),
                ends: vec![end(0), end(1)],
                ports: Vec::new(),
            }],
            ..Config::default()
        });
        let target = registry.target(0, at("10.0.0.1:80")).unwrap();
        let way = Way::Between {
            server: 1,
            client: 0,
        };
        assert_eq!(registry.way(target, 0, at("10.0.0.0:4000")), Some(way));
    }

    #[test]
    fn a_listening_socket_is_found_by_what_it_is_bound_to() {
        let mut registry = registry();
        registry.listens(1, 1, 1, at("10.0.0.2:80"));
        registry.listens(2, 2, 1, at("0.0.0.0:81"));
        registry.listens(3, 3, 1, at("[::]:82"));
        let listening = |registry: &Registry, to| registry.is_listening(1, at(to));
        assert!(listening(&registry, "10.0.0.2:80") && !listening(&registry, "[fd00::2]:80"));
        assert!(listening(&registry, "10.0.0.2:81") && !listening(&registry, "[fd00::2]:81"));
        assert!(listening(&registry, "10.0.0.2:82") && listening(&registry, "[fd00::2]:82"));
        assert!(!listening(&registry, "10.0.0.2:83"));
        assert!(!registry.is_listening(0, at("10.0.0.2:80")));
        registry.forget(1);
        assert!(!listening(&registry, "10.0.0.2:80"));
    }

    #[test]
    fn a_node_with_unseen_requests_has_no_listening_socket_before_or_after() {
        let mut registry = registry();
        registry.listens(1, 1, 1, at("0.0.0.0:80"));
        registry.unseen(1);
        assert!(!registry.is_listening(1, at("10.0.0.2:80")));
        registry.listens(2, 2, 1, at("0.0.0.0:81"));
        assert!(!registry.is_listening(1, at("10.0.0.2:81")));
        assert_eq!(registry.listener(1), None);
    }

    #[test]
    fn listening_sockets_of_a_node_are_bounded() {
        let mut registry = registry();
        for cookie in 0..MAX_LISTENERS as u64 + 10 {
            registry.listens(cookie, cookie, 1, at("0.0.0.0:80"));
        }
        assert_eq!(registry.listening.len(), MAX_LISTENERS);
        assert_eq!(registry.listener(MAX_LISTENERS as u64), None);
        // Those that are closed make room.
        registry.forget_closed(1, &HashSet::from([3]));
        assert_eq!(
            (registry.listening.len(), registry.listener(3)),
            (1, Some(1))
        );
    }
}
