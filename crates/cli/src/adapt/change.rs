//! Changes of daemons: a new way is there at all hosts before the first frame takes it, and the old one until the last
//! frame has left it. Links are replaced at all hosts within milliseconds; frames on their way meanwhile are lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use latlab_model::adapt::{Choice, Object};
use latlab_model::overlay::{Link, LinkKind, PortName, Qualifier, Route};

use super::hosts::{Host, Hosts};
use crate::failure::Failure;

/// Name of the direct link that replaces tunnels.
const DIRECT_LINK: &str = "adapt-direct";

/// Time in which frames on their way arrive: a full queue of a slow wire.
const DRAIN: Duration = Duration::from_millis(200);

/// A host's links and routes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    links: BTreeMap<String, Link>,
    routes: BTreeSet<Route>,
}

impl Hosts {
    pub(super) fn is_changed(&self) -> bool {
        !self.choices.is_empty()
    }

    /// Carries out a choice. Errors: a daemon refuses; everything is as before then.
    pub(super) fn carry_out(&mut self, object: Object, to: Choice) -> Result<(), Failure> {
        let before = self.choices.clone();
        match to {
            Choice::Straight | Choice::Tunnel => self.choices.remove(&object),
            _ => self.choices.insert(object, to),
        };
        let changed = self.change(&before);
        if changed.is_err() {
            self.choices = before;
            self.reset()?;
        }
        changed
    }

    /// Everything as it was configured.
    pub(super) fn take_back(&mut self) -> Result<(), Failure> {
        let before = std::mem::take(&mut self.choices);
        let changed = self.change(&before);
        // Without regard for frames on their way, should the orderly change have failed.
        changed.or_else(|_| self.reset())
    }

    fn change(&mut self, before: &BTreeMap<Object, Choice>) -> Result<(), Failure> {
        let (old, new) = (self.wanted(before), self.wanted(&self.choices));
        let of_host = |host| {
            let steered = self.steered(host, &old[host], &new[host]);
            phases(&old[host], &new[host], &steered)
        };
        let all: Vec<[Vec<String>; 4]> = (0..self.hosts.len()).map(of_host).collect();
        for phase in 0..4 {
            if phase == 2 && all.iter().any(|phases| !phases[phase].is_empty()) {
                std::thread::sleep(DRAIN);
            }
            // All hosts are ready before the first one begins.
            let mut ready = Vec::new();
            for (host, phases) in self.hosts.iter_mut().zip(&all) {
                if host.prepare(&phases[phase])? {
                    ready.push(host);
                }
            }
            for host in ready {
                host.say("commit")?;
            }
        }
        Ok(())
    }

    /// Makes all daemons as the choices say, from whatever state. Errors: the first of them; the other daemons are made so
    /// all the same.
    fn reset(&mut self) -> Result<(), Failure> {
        let wanted = self.wanted(&self.choices);
        let mut outcome = Ok(());
        for (host, wanted) in self.hosts.iter_mut().zip(&wanted) {
            let made = host.make(wanted);
            outcome = outcome.and(made);
        }
        outcome
    }

    fn wanted(&self, choices: &BTreeMap<Object, Choice>) -> Vec<Wanted> {
        let configured = |host: &Host| Wanted {
            links: host.configured.links.clone(),
            routes: host.configured.routes.clone(),
        };
        let mut wanted: Vec<Wanted> = self.hosts.iter().map(configured).collect();
        for (object, choice) in choices {
            match (object, choice) {
                (Object::Way(pair), Choice::Through(third)) => {
                    let [a, b] = pair.ends();
                    for ends in [[a, b], [b, a]] {
                        self.route_through(ends, *third, &mut wanted);
                    }
                }
                (Object::Carrier, Choice::Direct) => self.direct_links(&mut wanted),
                _ => {}
            }
        }
        wanted
    }

    /// Routes for frames from a host to another by a third one.
    fn route_through(&self, [from, to]: [usize; 2], third: usize, wanted: &mut [Wanted]) {
        let link = |ends: [usize; 2]| PortName::Link(self.links[&ends].clone());
        for (name, network) in &self.hosts[from].configured.networks {
            let Some((name_there, _)) = self.hosts[third].configured.network_of(network.vni) else {
                continue;
            };
            for mac in self.addresses_of(to, network.vni) {
                let route = |network: &str, to, from| Route {
                    network: network.to_owned(),
                    source: Qualifier::Any,
                    destination: Qualifier::Is(mac),
                    to,
                    from,
                };
                wanted[from]
                    .routes
                    .insert(route(name, link([from, third]), None));
                let came_in = Some(link([third, from]));
                wanted[third]
                    .routes
                    .insert(route(name_there, link([third, to]), came_in));
            }
        }
    }

    fn direct_links(&self, wanted: &mut [Wanted]) {
        let devices = self.segment().unwrap_or_default();
        for ((host, device), wanted) in self.hosts.iter().zip(devices).zip(wanted) {
            let Some(network) = host.configured.networks.keys().next() else {
                continue;
            };
            let direct = Link::new(LinkKind::Direct {
                device: device.clone(),
                netns: None,
                network: network.clone(),
            });
            wanted.links = BTreeMap::from([(DIRECT_LINK.to_owned(), direct)]);
        }
    }

    /// Routes to the straight links, until what was learned by a third host is forgotten.
    fn steered(&self, host: usize, old: &Wanted, new: &Wanted) -> BTreeSet<Route> {
        let gone = old.routes.difference(&new.routes);
        let ends = gone.filter(|route| route.from.is_none() && !new.has_end(route));
        let straight = |route: &Route| {
            let to = self.straight_link(host, route)?;
            let to = PortName::Link(to.to_owned());
            Some(Route {
                to,
                ..route.clone()
            })
        };
        ends.filter_map(straight).collect()
    }

    /// The link to the host with a route's destination.
    fn straight_link(&self, host: usize, route: &Route) -> Option<&str> {
        let Qualifier::Is(mac) = route.destination else {
            return None;
        };
        let other = self.node_of(mac)?.host;
        self.links.get(&[host, other]).map(String::as_str)
    }
}

impl Wanted {
    /// Whether a route leads frames of this host to the same destination.
    fn has_end(&self, of: &Route) -> bool {
        let is_same = |route: &Route| {
            let same = route.network == of.network && route.destination == of.destination;
            same && route.from.is_none()
        };
        self.routes.iter().any(is_same)
    }
}

impl Host {
    fn make(&mut self, wanted: &Wanted) -> Result<(), Failure> {
        let shown = self.shown()?;
        let gone = shown.routes.difference(&wanted.routes).map(delete_route);
        let come = wanted.routes.difference(&shown.routes).map(add_route);
        let old = added(&wanted.links, &shown.links).map(delete_link);
        let new = added(&shown.links, &wanted.links).map(add_link);
        let commands: Vec<String> = gone.chain(old).chain(new).chain(come).collect();
        if self.prepare(&commands)? {
            self.say("commit")?;
        }
        Ok(())
    }

    /// Says commands that take effect at once with the next `commit`; whether there are any. Errors: one is refused; none
    /// of them takes effect then.
    fn prepare(&mut self, commands: &[String]) -> Result<bool, Failure> {
        // A change that failed here before its end has left a batch.
        let _ = self.say("abort");
        if commands.is_empty() {
            return Ok(false);
        }
        self.say("begin")?;
        commands
            .iter()
            .try_for_each(|line| self.say(line).map(drop))?;
        Ok(true)
    }
}

/// The commands of a host, in phases. Routes on the way come first, which nothing takes yet. Then frames follow the ends, and
/// links replace others. Routes on the way go that nothing takes any more, and at last those that learning replaces.
fn phases(old: &Wanted, new: &Wanted, steered: &BTreeSet<Route>) -> [Vec<String>; 4] {
    let is_transit = |route: &&Route| route.from.is_some();
    let is_end = |route: &&Route| route.from.is_none();
    let gone = || old.routes.difference(&new.routes);
    let come = || new.routes.difference(&old.routes);
    // One interface carries either VXLAN or bare frames on the kernel path: no host may have both for a while.
    let links = added(&new.links, &old.links)
        .map(delete_link)
        .chain(added(&old.links, &new.links).map(add_link));
    let ends = gone().filter(is_end).map(delete_route);
    let come_ends = come().filter(is_end).chain(steered).map(add_route);
    [
        come().filter(is_transit).map(add_route).collect(),
        ends.chain(links).chain(come_ends).collect(),
        gone().filter(is_transit).map(delete_route).collect(),
        steered.iter().map(delete_route).collect(),
    ]
}

fn add_route(route: &Route) -> String {
    format!("add route {route}")
}

fn delete_route(route: &Route) -> String {
    format!("delete route {route}")
}

fn add_link((name, link): (&String, &Link)) -> String {
    format!("add link {name} {link}")
}

fn delete_link((name, _): (&String, &Link)) -> String {
    format!("delete link {name}")
}

/// Links that only the second has, or that are others there.
fn added<'w>(
    old: &'w BTreeMap<String, Link>,
    new: &'w BTreeMap<String, Link>,
) -> impl Iterator<Item = (&'w String, &'w Link)> {
    new.iter()
        .filter(|(name, link)| old.get(*name) != Some(link))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::overlay::language::parse_file;

    fn wanted(lines: &str) -> Wanted {
        let networks = "add network lan vni 7\n";
        let links = "add link ab vxlan 10.0.0.2\nadd link ac vxlan 10.0.0.3\n";
        let overlay = parse_file(&format!("{networks}{links}{lines}")).unwrap();
        Wanted {
            links: overlay.links,
            routes: overlay.routes,
        }
    }

    const BY_C: &str = "add route lan any 02:00:00:00:00:02 link ac";
    const STRAIGHT: &str = "add route lan any 02:00:00:00:00:02 link ab";
    const TRANSIT: &str = "add route lan any 02:00:00:00:00:02 link ab from link ac";

    fn said(phases: &[Vec<String>; 4]) -> [Vec<&str>; 4] {
        phases
            .each_ref()
            .map(|phase| phase.iter().map(String::as_str).collect())
    }

    #[test]
    fn a_third_host_is_ready_before_frames_come_and_until_the_last_has_left() {
        let (none, transit) = (wanted(""), wanted(TRANSIT));
        let there = phases(&none, &transit, &BTreeSet::new());
        assert_eq!(said(&there), [vec![TRANSIT], vec![], vec![], vec![]]);
        let back = phases(&transit, &none, &BTreeSet::new());
        let delete = TRANSIT.replace("add", "delete");
        assert_eq!(said(&back), [vec![], vec![], vec![delete.as_str()], vec![]]);
    }

    #[test]
    fn frames_are_steered_back_before_learning_decides_again() {
        let (straight, by_c) = (wanted(""), wanted(BY_C));
        let there = phases(&straight, &by_c, &BTreeSet::new());
        assert_eq!(said(&there), [vec![], vec![BY_C], vec![], vec![]]);
        let steered = wanted(STRAIGHT).routes;
        let back = phases(&by_c, &straight, &steered);
        let [old, new] = [BY_C, STRAIGHT].map(|line| line.replace("add", "delete"));
        let expected = [
            vec![],
            vec![old.as_str(), STRAIGHT],
            vec![],
            vec![new.as_str()],
        ];
        assert_eq!(said(&back), expected);
    }

    #[test]
    fn links_are_replaced_in_one_batch() {
        let (tunnels, mut direct) = (wanted(""), wanted(""));
        let kind = LinkKind::Direct {
            device: "eth0".into(),
            netns: None,
            network: "lan".into(),
        };
        direct.links = BTreeMap::from([(DIRECT_LINK.to_owned(), Link::new(kind))]);
        let changed = phases(&tunnels, &direct, &BTreeSet::new());
        let batch = [
            "delete link ab",
            "delete link ac",
            "add link adapt-direct direct eth0 network lan",
        ];
        assert_eq!(said(&changed), [vec![], batch.to_vec(), vec![], vec![]]);
    }
}
