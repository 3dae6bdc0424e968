//! The daemons, and the legs between their hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use latlab_host::sys::netns::NetNs;
use latlab_model::adapt::{Choice, Host as Room, Object, Pair};
use latlab_model::overlay::{LinkKind, Overlay, language};
use latlab_model::spec::Mac;
use latlab_netlink::Handle;
use latlab_overlay::control::Client;
use rustix::net::sockopt::socket_peercred;
use rustix::process::Pid;

use crate::failure::Failure;
use crate::overlay::connect;

/// More hosts would make more legs than one process should probe.
const MAX_HOSTS: usize = 16;

/// Where to reach a daemon, and the name of its host.
pub(super) struct Socket {
    pub path: PathBuf,
    pub host: String,
}

impl Socket {
    /// The host has the socket's name without its ending, or in a lab that of its directory.
    pub(super) fn of(path: &Path) -> Socket {
        let named = match path.file_name() {
            Some(name) if name == "control" => path.parent().and_then(Path::file_name),
            _ => path.file_stem(),
        };
        let name = named.unwrap_or(path.as_os_str());
        Socket {
            path: path.to_owned(),
            host: name.to_string_lossy().into_owned(),
        }
    }
}

/// A node of a host.
pub(super) struct Node {
    pub host: usize,
    pub name: String,
}

pub(super) struct Host {
    pub name: String,
    process: Pid,
    pub client: Client,
    /// As it was before the first change.
    pub configured: Overlay,
    pub netns: NetNs,
    /// Addresses of the host, each with its interface and the length of its prefix.
    addresses: Vec<(IpAddr, String, u8)>,
}

/// One direction of a leg.
pub(super) struct Leg<'h> {
    pub pair: Pair,
    pub netns: &'h NetNs,
    pub remote: IpAddr,
    pub local: Option<IpAddr>,
}

pub(super) struct Hosts {
    pub hosts: Vec<Host>,
    /// Links by the hosts at their two ends, in this direction.
    pub links: BTreeMap<[usize; 2], String>,
    nodes: BTreeMap<Mac, Node>,
    /// The interface of each host on the segment that all share.
    segment: Option<Vec<String>>,
    pub choices: BTreeMap<Object, Choice>,
}

impl Hosts {
    /// Connects to all daemons and finds out which link leads where. Errors: fewer than two hosts, a daemon that does not
    /// answer, or addresses of nodes that are not known.
    pub(super) fn meet(sockets: Vec<Socket>) -> Result<Hosts, Failure> {
        if !(2..=MAX_HOSTS).contains(&sockets.len()) {
            let message = format!("{} daemons are named", sockets.len());
            return Err(Failure::new(
                message,
                format!("name 2 to {MAX_HOSTS}, one of each host"),
            ));
        }
        let mut hosts: Vec<Host> = Vec::new();
        for socket in sockets {
            let host = Host::meet(socket)?;
            if let Some(other) = hosts.iter().find(|other| other.process == host.process) {
                let message = format!("{} and {} are the same daemon", other.name, host.name);
                return Err(Failure::new(message, "name each daemon once"));
            }
            hosts.push(host);
        }
        let mut all = Hosts {
            nodes: nodes(&hosts)?,
            links: links(&hosts),
            hosts,
            segment: None,
            choices: BTreeMap::new(),
        };
        if all.links.is_empty() {
            let message = "no VXLAN or UDP link leads from one of these daemons to another";
            return Err(Failure::new(
                message,
                "`latlab overlay … show` tells each daemon's links",
            ));
        }
        all.segment = all.find_segment();
        Ok(all)
    }

    /// Keeps others from adapting the same daemons until the connections end.
    pub(super) fn claim(&mut self) -> Result<(), Failure> {
        self.ask_all("adapt").map(drop)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.name.clone()).collect()
    }

    /// The interface of each host on the Ethernet segment that all share, if they do.
    pub(super) fn segment(&self) -> Option<&[String]> {
        self.segment.as_deref()
    }

    /// A host whose configuration has routes.
    pub(super) fn with_own_routes(&self) -> Option<&str> {
        let has_routes = |host: &&Host| !host.configured.routes.is_empty();
        self.hosts
            .iter()
            .find(has_routes)
            .map(|host| host.name.as_str())
    }

    pub(super) fn legs(&self) -> impl Iterator<Item = Leg<'_>> {
        let from_lower = self.links.iter().filter(|([a, b], _)| a < b);
        from_lower.filter_map(|([a, b], name)| {
            let host = &self.hosts[*a];
            let (remote, local) = ends(&host.configured.links[name].kind)?;
            Some(Leg {
                pair: Pair::new(*a, *b),
                netns: &host.netns,
                remote,
                local,
            })
        })
    }

    pub(super) fn node_of(&self, mac: Mac) -> Option<&Node> {
        self.nodes.get(&mac)
    }

    /// Addresses of a host's nodes in a network, by its VNI.
    pub(super) fn addresses_of(&self, host: usize, vni: u32) -> BTreeSet<Mac> {
        let overlay = &self.hosts[host].configured;
        let Some((network, _)) = overlay.network_of(vni) else {
            return BTreeSet::new();
        };
        let interfaces = overlay.interfaces.values();
        let of_network = interfaces.filter(|interface| interface.network == network);
        of_network
            .flat_map(|interface| interface.macs.iter().copied())
            .collect()
    }

    /// The different hosts of two addresses, the sender's first.
    pub(super) fn hosts_of(&self, source: Mac, destination: Mac) -> Option<[usize; 2]> {
        let ends = [self.node_of(source)?.host, self.node_of(destination)?.host];
        (ends[0] != ends[1]).then_some(ends)
    }

    /// The number of nodes that each host has.
    pub(super) fn rooms(&self) -> Vec<Room> {
        let names: BTreeMap<&str, usize> = self.placed().collect();
        let room = |(number, host): (usize, &Host)| Room {
            name: host.name.clone(),
            room: names.values().filter(|place| **place == number).count(),
        };
        self.hosts.iter().enumerate().map(room).collect()
    }

    pub(super) fn places(&self) -> BTreeMap<String, usize> {
        self.placed()
            .map(|(name, host)| (name.to_owned(), host))
            .collect()
    }

    fn placed(&self) -> impl Iterator<Item = (&str, usize)> {
        self.nodes
            .values()
            .map(|node| (node.name.as_str(), node.host))
    }

    /// The answers of all daemons to a command.
    pub(super) fn ask_all(&mut self, command: &str) -> Result<Vec<Vec<String>>, Failure> {
        self.hosts
            .iter_mut()
            .map(|host| host.say(command))
            .collect()
    }

    /// Direct links replace all tunnels at once, so every pair of hosts has to have one, in one network, and every
    /// remote address has to be of the subnet of one interface.
    fn find_segment(&self) -> Option<Vec<String>> {
        let count = self.hosts.len();
        let is_mesh = self.links.len() == count * (count - 1);
        let is_simple = |host: &Host| {
            let tunnels = host.configured.links.len() == count - 1;
            tunnels && host.configured.networks.len() == 1
        };
        if !is_mesh || !self.hosts.iter().all(is_simple) {
            return None;
        }
        let of_host = |number: usize| {
            let host = &self.hosts[number];
            let own = self.links.iter().filter(|([from, _], _)| *from == number);
            let devices: Option<BTreeSet<&str>> = own
                .map(|(_, name)| {
                    let (remote, _) = ends(&host.configured.links[name].kind)?;
                    host.device_to(remote)
                })
                .collect();
            let devices: Vec<&str> = devices?.into_iter().collect();
            match devices[..] {
                [one] => Some(one.to_owned()),
                _ => None,
            }
        };
        (0..count).map(of_host).collect()
    }
}

impl Host {
    fn meet(socket: Socket) -> Result<Host, Failure> {
        let mut client = connect(&socket.path)?;
        let configured = shown(&mut client, &socket.host)?;
        let process = socket_peercred(UnixStream::connect(&socket.path)?)?.pid;
        let namespace = format!("/proc/{}/ns/net", process.as_raw_nonzero());
        let netns = NetNs::open(Path::new(&namespace))?;
        let mut handle = Handle::open_in(netns.as_fd())?;
        let names: BTreeMap<u32, String> = handle
            .links()?
            .into_iter()
            .map(|link| (link.index, link.name))
            .collect();
        let addresses = handle.addresses()?.into_iter().filter_map(|address| {
            let address = address.address;
            let name = names.get(&address.interface)?.clone();
            Some((address.address, name, address.prefix_length))
        });
        Ok(Host {
            addresses: addresses.collect(),
            name: socket.host,
            process,
            client,
            configured,
            netns,
        })
    }

    /// Says a line to the daemon.
    pub(super) fn say(&mut self, line: &str) -> Result<Vec<String>, Failure> {
        say(&mut self.client, &self.name, line)
    }

    pub(super) fn shown(&mut self) -> Result<Overlay, Failure> {
        shown(&mut self.client, &self.name)
    }

    fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, ..)| *own == address)
    }

    /// The interface with a subnet of this address.
    fn device_to(&self, address: IpAddr) -> Option<&str> {
        let within = |(own, _, length): &&(IpAddr, String, u8)| {
            let equal_bits = match (own, address) {
                (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
                (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
                _ => return false,
            };
            equal_bits >= u32::from(*length)
        };
        let found = self.addresses.iter().find(within)?;
        Some(&found.1)
    }
}

fn say(client: &mut Client, host: &str, line: &str) -> Result<Vec<String>, Failure> {
    // An error of this pipe is none of standard output, whose end is no failure.
    let answer = client.say(line).map_err(|error| {
        let message = format!("cannot speak with the daemon of host {host}: {error}");
        Failure::new(message, "does it still run? look at what it said last")
    })?;
    answer.map_err(|refusal| {
        let message = format!("host {host} refuses `{line}`: {}", refusal.message);
        Failure::new(message, refusal.hint)
    })
}

fn shown(client: &mut Client, host: &str) -> Result<Overlay, Failure> {
    let lines = say(client, host, "show")?;
    language::parse_file(&lines.join("\n")).map_err(|(line, mistake)| {
        let message = format!("line {line} of what host {host} shows: {}", mistake.message);
        Failure::new(message, "is the daemon of this version of latlab?")
    })
}

/// The addresses of a tunnel without encryption, the remote one first: a sealed one stays as it is.
fn ends(kind: &LinkKind) -> Option<(IpAddr, Option<IpAddr>)> {
    match kind {
        LinkKind::Vxlan {
            remote,
            local,
            netns: None,
        }
        | LinkKind::Udp {
            remote,
            local,
            netns: None,
        } => Some((remote.ip(), local.map(|local| local.ip()))),
        _ => None,
    }
}

/// Links by their ends: one leads to the host that has its remote address.
fn links(hosts: &[Host]) -> BTreeMap<[usize; 2], String> {
    let mut links = BTreeMap::new();
    for (from, host) in hosts.iter().enumerate() {
        for (name, link) in &host.configured.links {
            let Some((remote, _)) = ends(&link.kind) else {
                continue;
            };
            let others = hosts.iter().enumerate().filter(|(other, _)| *other != from);
            let to = others.into_iter().find(|(_, other)| other.has(remote));
            if let Some((to, _)) = to {
                links.entry([from, to]).or_insert_with(|| name.clone());
            }
        }
    }
    // Frames go both ways.
    let both: BTreeSet<[usize; 2]> = links.keys().copied().collect();
    links.retain(|[a, b], _| both.contains(&[*b, *a]));
    links
}

/// Nodes by their addresses: interfaces, by the names that they have.
fn nodes(hosts: &[Host]) -> Result<BTreeMap<Mac, Node>, Failure> {
    let mut nodes = BTreeMap::new();
    for (number, host) in hosts.iter().enumerate() {
        for (name, interface) in &host.configured.interfaces {
            if interface.macs.is_empty() {
                let message = format!("interface {name} of host {} has no addresses", host.name);
                let hint = "bind them with `mac`: traffic is told, and routed, by them";
                return Err(Failure::new(message, hint));
            }
            for mac in &interface.macs {
                let name = format!("{}/{name}", host.name);
                nodes.insert(*mac, Node { host: number, name });
            }
        }
    }
    Ok(nodes)
}
