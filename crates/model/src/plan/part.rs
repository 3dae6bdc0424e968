//! The part of a lab on several hosts that one of them has.
//!
//! Every host plans the whole lab's addresses, which depend on nothing but the lab, and then only its own part: no host
//! has to be told what another has chosen.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use super::address;
use super::document::Plan;
use super::link::LinkPlan;
use super::names::Names;
use super::node::NodePlan;
use super::place::Profiles;
use super::planner::{addressed, filled};
use super::resolve;
use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of, shown};
use crate::facts::Facts;
use crate::kinds::{Carrier, HostTunnel, TunnelKeys};
use crate::spec::{Endpoint, Lab, Link};

/// Ports of tunnels where a link names none: below those that Linux gives to programs (from 32768, `ip_local_port_range`).
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A host's part of a lab.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its nodes and their ends of links, with the addresses that they have in the whole lab.
    pub lab: Lab,
    /// The names of all nodes of the whole lab.
    names: Names,
}

impl Part {
    /// Errors: a host that the lab lacks, and addresses that clash.
    pub fn of(lab: &Lab, host: &str) -> Result<Part, Diagnostics> {
        check_host(lab, host)?;
        let (nodes, links) = addressed(lab)?;
        Ok(Part {
            lab: part(lab, host, &nodes, &links),
            names: resolve::names(&nodes, &links),
        })
    }

    /// Gives sealed links the file of this machine's private key, and the other hosts' public keys. Errors: a host whose
    /// key is not there.
    pub fn with_keys(
        mut self,
        private: &Path,
        public: &BTreeMap<String, String>,
    ) -> Result<Part, Diagnostics> {
        let mut errors = Diagnostics::default();
        for link in self.lab.links.iter_mut() {
            let is_sealed = link.carrier() == Carrier::Sealed;
            let (Some(tunnel), true) = (&mut link.tunnel, is_sealed) else {
                continue;
            };
            let mut keys = BTreeMap::new();
            for host in tunnel.remotes.keys() {
                if let Some(key) = public.get(host) {
                    keys.insert(host.clone(), key.clone());
                    continue;
                }
                let message = format!(
                    "link `{}` is sealed, and host `{host}` has no key",
                    *link.name
                );
                let hint =
                    "`latlab deploy` asks all hosts for theirs; by hand: `--peer-key HOST=KEY`";
                errors.add(link.at, message, hint);
            }
            tunnel.keys = Some(TunnelKeys {
                private: private.to_path_buf(),
                public: keys,
            });
        }
        errors.into_result(self)
    }

    /// Plans it on the host with these facts. Errors: as of a lab on one machine.
    pub fn plan(&self, facts: &Facts, profiles: Profiles<'_>) -> Result<Plan, Diagnostics> {
        let mut plan = filled(&self.lab, facts, profiles, Diagnostics::default())?;
        plan.names.clone_from(&self.names);
        Ok(plan)
    }
}

fn check_host(lab: &Lab, host: &str) -> Result<(), Diagnostics> {
    let names: Vec<&str> = lab.hosts.iter().map(|host| host.name.as_str()).collect();
    if names.contains(&host) {
        return Ok(());
    }
    let message = match names.is_empty() {
        true => "the lab has no `hosts`".to_string(),
        false => format!("the lab has no host `{}`", shown(host)),
    };
    let first = lab.hosts.first();
    let at = first.map_or(Mark::default(), |host| host.name.at);
    Err(Diagnostics::one(at, message, hint_one_of(host, &names)))
}

/// A lab with the nodes of this host, and of every link the ends here. Its addresses are the whole lab's.
fn part(lab: &Lab, host: &str, nodes: &[NodePlan], links: &[LinkPlan]) -> Lab {
    let mut part = lab.clone();
    part.hosts.clear();
    let host_of: BTreeMap<&str, &str> = lab
        .nodes
        .iter()
        .filter_map(|node| Some((node.name.as_str(), node.fields.host.as_ref()?.as_str())))
        .collect();
    for (number, (link, plan)) in part.links.iter_mut().zip(links).enumerate() {
        for (end, planned) in link.endpoints.iter_mut().zip(&plan.endpoints) {
            let interface = &nodes[planned.node].interfaces[planned.interface];
            let at = end.node.at;
            end.mac = Some(Spanned::new(interface.mac, at));
            let addresses = interface.addresses.iter();
            end.addresses = addresses
                .map(|address| Spanned::new(*address, at))
                .collect();
        }
        if link.may_join_hosts() {
            link.tunnel = tunnel(lab, host, number, &host_of);
        }
        let is_here = |end: &Endpoint| host_of.get(end.node.as_str()) == Some(&host);
        // Each end of hardware has an interface of its own host.
        let mut here = link.endpoints.iter().map(is_here);
        link.interfaces.retain(|_| here.next().unwrap_or(false));
        link.endpoints.retain(is_here);
    }
    part.links.retain(|link| !link.endpoints.is_empty());
    part.nodes.retain(|node| {
        node.fields
            .host
            .as_ref()
            .is_some_and(|own| *own.value == *host)
    });
    part
}

/// The tunnel from this host to the others of a link; none where it has no other.
fn tunnel(
    lab: &Lab,
    host: &str,
    number: usize,
    host_of: &BTreeMap<&str, &str>,
) -> Option<HostTunnel> {
    let link = &lab.links[number];
    let port = port(lab, link, number);
    let ends = link.endpoints.iter();
    let places: Vec<&str> = ends
        .filter_map(|end| host_of.get(end.node.as_str()).copied())
        .collect();
    let at = |name: &str| {
        let host = lab.hosts.iter().find(|host| *host.name == *name)?;
        Some(SocketAddr::new(host.address.value, port))
    };
    let others = places.iter().filter(|place| **place != host);
    let remotes: BTreeMap<String, SocketAddr> = others
        .filter_map(|place| Some(((*place).to_owned(), at(place)?)))
        .collect();
    let is_here = places.contains(&host);
    let local = at(host).filter(|_| is_here && !remotes.is_empty())?;
    Some(HostTunnel {
        local,
        remotes,
        keys: None,
    })
}

/// The UDP port of a link, the same on all of its hosts: the lab's name spreads labs over the range, and each link has
/// the next.
fn port(lab: &Lab, link: &Link, number: usize) -> u16 {
    let first = address::hash(&lab.name);
    let place = first.wrapping_add(number as u64) % PORTS.len() as u64;
    let chosen = || PORTS.start + u16::try_from(place).unwrap_or(0);
    link.port.map_or_else(chosen, |port| port.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Medium;
    use crate::profile::Profile;

    const LAB: &str = "name: wide
hosts:
  left: {address: 192.0.2.1}
  right: {ssh: root@right, address: 192.0.2.2}
  far: {ssh: root@far, address: 192.0.2.3}
topology:
  defaults: {kind: native}
  nodes:
    a: {host: left}
    b: {host: left}
    c: {host: right}
    d: {host: far}
  links:
    - endpoints: ['a:eth0', 'b:eth0']
    - {type: overlay, carrier: udp, endpoints: ['a:eth1', 'b:eth1', 'c:eth0']}
    - {type: overlay, carrier: vxlan, port: 4000, endpoints: ['c:eth1', 'd:eth0']}
";

    fn planned(host: &str) -> Plan {
        let lab = Lab::parse(LAB).unwrap_or_else(|e| panic!("{}", e.render("t")));
        Part::of(&lab, host)
            .and_then(|part| part.plan(&Facts::default(), &Profile::builtin))
            .unwrap_or_else(|e| panic!("{}", e.render("t")))
    }

    fn addresses(plan: &Plan) -> Vec<String> {
        let each = plan.nodes.iter().flat_map(|node| {
            let each = node.interfaces.iter();
            each.map(|i| format!("{}:{} {} {}", node.name, i.name, i.mac, i.addresses[0]))
        });
        each.collect()
    }

    fn tunnel_of(plan: &Plan, link: &str) -> Option<HostTunnel> {
        let link = plan.links.iter().find(|l| l.name == link)?;
        match &link.medium {
            Medium::Overlay(overlay) => overlay.tunnel.clone(),
            _ => None,
        }
    }

    #[test]
    fn the_parts_together_have_the_addresses_of_the_whole() {
        let lab = Lab::parse(LAB).unwrap();
        let (nodes, _) = addressed(&lab).unwrap();
        let whole: Vec<String> = nodes
            .iter()
            .flat_map(|node| {
                let each = node.interfaces.iter();
                each.map(|i| format!("{}:{} {} {}", node.name, i.name, i.mac, i.addresses[0]))
            })
            .collect();
        let parts: Vec<String> = ["left", "right", "far"]
            .iter()
            .flat_map(|host| addresses(&planned(host)))
            .collect();
        assert_eq!(parts, whole);
    }

    #[test]
    fn both_ends_of_a_tunnel_know_each_other() {
        let left = tunnel_of(&planned("left"), "l1").expect("a tunnel");
        let right = tunnel_of(&planned("right"), "l1").expect("a tunnel");
        assert_eq!(left.remotes["right"], right.local);
        assert_eq!(right.remotes["left"], left.local);
        assert!(PORTS.contains(&left.local.port()));
        assert_eq!(tunnel_of(&planned("left"), "l0"), None);
        let far = tunnel_of(&planned("far"), "l2").expect("a tunnel");
        assert_eq!(far.local.to_string(), "192.0.2.3:4000");
        assert_eq!(planned("far").links.len(), 1);
    }

    #[test]
    fn a_node_knows_the_names_of_those_on_other_hosts() {
        let plan = planned("right");
        assert_eq!(plan.names.lookup("c", "a")[0].to_string(), "198.18.1.1");
        assert_eq!(plan.names.nodes.len(), 4);
    }

    #[test]
    fn a_sealed_link_has_the_keys_of_its_other_hosts() {
        let lab = LAB.replace("carrier: vxlan, port: 4000", "carrier: sealed");
        let lab = Lab::parse(&lab).unwrap();
        let part = || Part::of(&lab, "right").unwrap();
        let private = Path::new("/var/lib/latlab/host.key");
        let none = part().with_keys(private, &BTreeMap::new()).unwrap_err();
        let text = none.render("t");
        assert!(
            text.contains("link `l2` is sealed, and host `far` has no key"),
            "{text}"
        );
        let public =
            BTreeMap::from(["far", "left"].map(|name| (name.to_string(), "00".repeat(32))));
        let part = part().with_keys(private, &public).unwrap();
        let plan = part.plan(&Facts::default(), &Profile::builtin).unwrap();
        let keys = tunnel_of(&plan, "l2")
            .and_then(|tunnel| tunnel.keys)
            .expect("keys");
        assert_eq!(keys.public.keys().collect::<Vec<_>>(), ["far"]);
        assert_eq!(tunnel_of(&plan, "l1").unwrap().keys, None);
    }

    #[test]
    fn a_port_past_the_kernel_has_no_written_address() {
        let lab = |end: &str| {
            let text = LAB
                .replace(
                    "d: {host: far}",
                    "d: {host: far, dpdk: {hugepages: 64MiB, driver: virtio-user}}",
                )
                .replace("'d:eth0'", end);
            Lab::parse(&text).unwrap_or_else(|e| panic!("{}", e.render("t")))
        };
        let part = Part::of(&lab("'d:eth0'"), "far").unwrap();
        let plan = part.plan(&Facts::default(), &Profile::builtin);
        let plan = plan.unwrap_or_else(|e| panic!("{}", e.render("t")));
        assert!(plan.nodes[0].is_past_kernel("eth0"));
        let written = lab("{node: d, interface: eth0, ipv4: 10.0.0.1/24}");
        let text = Part::of(&written, "far").unwrap_err().render("t");
        assert!(text.contains("would not have its address"), "{text}");
    }

    #[test]
    fn the_whole_is_not_planned_on_one_machine() {
        let lab = Lab::parse(LAB).unwrap();
        let errors = crate::plan::plan(&lab, &Facts::default()).unwrap_err();
        let text = errors.render("t");
        assert!(text.starts_with("t:3:3: a lab on several hosts"), "{text}");
    }

    #[test]
    fn a_host_that_the_lab_lacks_is_refused() {
        let lab = Lab::parse(LAB).unwrap();
        let errors = Part::of(&lab, "rigth").unwrap_err();
        let text = errors.render("t");
        assert!(text.contains("the lab has no host `rigth`"), "{text}");
        assert!(text.contains("right"), "{text}");
    }
}
