//! The compiled configuration: immutable lookup tables.

use std::collections::HashMap;
use std::sync::Arc;

use latlab_model::overlay::{LinkKind, Overlay, PortName, Qualifier, Route};

use super::address::{Address, address};
use super::hold::{HeldCounters, Hold, Holds};
use crate::endpoints::port_id::PortId;
use crate::frames::Frame;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// A guest's interface, in the network with this index.
    Interface { network: u16 },
    /// A tunnel to another host, for all networks or some (`Table::carries`).
    Link,
    /// Raw frames of the network with this index.
    Direct { network: u16 },
}

#[derive(Debug)]
pub(super) struct TablePort {
    pub kind: PortKind,
    /// Whether the port may only use bound addresses.
    pub is_bound: bool,
}

#[derive(Debug)]
struct Rule {
    source: Match,
    destination: Match,
    to: PortId,
    from: Option<PortId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    Is(Address),
    Not(Address),
    Any,
    Otherwise,
}

impl Match {
    fn of(qualifier: Qualifier) -> Match {
        match qualifier {
            Qualifier::Is(mac) => Match::Is(address(mac.0)),
            Qualifier::Not(mac) => Match::Not(address(mac.0)),
            Qualifier::Any => Match::Any,
            Qualifier::None => Match::Otherwise,
        }
    }

    fn matches(self, address: Address) -> bool {
        match self {
            Match::Is(own) => own == address,
            Match::Not(own) => own != address,
            Match::Any | Match::Otherwise => true,
        }
    }

    /// Specificity: higher ranks win.
    const fn rank(self) -> u8 {
        match self {
            Match::Is(_) => 3,
            Match::Not(_) => 2,
            Match::Any => 1,
            Match::Otherwise => 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct Net {
    pub vni: u32,
    pub learning: bool,
    pub flood: u32,
    pub age_seconds: u32,
    /// Destinations of a broadcast.
    pub members: Vec<PortId>,
    exact: HashMap<Address, Vec<Rule>>,
    general: Vec<Rule>,
    bound: HashMap<Address, PortId>,
    pub held: Arc<HeldCounters>,
}

/// The compiled configuration, indexed by small numbers.
#[derive(Debug, Default)]
pub struct Table {
    pub(super) ports: Vec<Option<TablePort>>,
    pub(super) nets: Vec<Net>,
    by_vni: HashMap<u32, u16>,
    /// The networks of links that do not carry all.
    carried: HashMap<PortId, Vec<u16>>,
    held: HashMap<Address, Arc<Hold>>,
    /// Holds that begin and end with a port.
    armed: HashMap<Address, (PortId, Arc<Hold>)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Query {
    pub ingress: PortId,
    pub source: Address,
    pub destination: Address,
}

impl Query {
    #[inline]
    pub fn of(frame: &Frame) -> Query {
        Query {
            ingress: frame.ingress,
            source: address(frame.source()),
            destination: address(frame.destination()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleClass {
    Exact,
    General,
    Otherwise,
}

impl Table {
    /// Compiles a configuration; `ids` maps interfaces and links to port numbers. Those without a number are not open
    /// and are left out.
    #[must_use]
    pub fn compile(overlay: &Overlay, ids: &HashMap<String, PortId>) -> Table {
        let names: Vec<&String> = overlay.networks.keys().collect();
        let index = |name: &String| {
            let at = names.binary_search(&name).unwrap_or_default();
            u16::try_from(at).unwrap_or(u16::MAX)
        };
        let mut table = Table::default();
        for network in overlay.networks.values() {
            let number = u16::try_from(table.nets.len()).unwrap_or(u16::MAX);
            table.by_vni.insert(network.vni, number);
            table.nets.push(Net {
                vni: network.vni,
                learning: network.learning,
                flood: network.flood,
                age_seconds: u32::try_from(network.age.0.div_ceil(1_000_000_000))
                    .unwrap_or(u32::MAX),
                members: Vec::new(),
                exact: HashMap::new(),
                general: Vec::new(),
                bound: HashMap::new(),
                held: Arc::default(),
            });
        }
        for (name, interface) in &overlay.interfaces {
            let Some(&id) = ids.get(name) else { continue };
            let network = index(&interface.network);
            let is_bound = !interface.macs.is_empty();
            table.put(id, PortKind::Interface { network }, is_bound);
            let net = &mut table.nets[usize::from(network)];
            net.members.push(id);
            let bound = interface.macs.iter().map(|mac| (address(mac.0), id));
            net.bound.extend(bound);
        }
        for (name, link) in &overlay.links {
            let Some(&id) = ids.get(name) else { continue };
            if let LinkKind::Direct { network, .. } = &link.kind {
                let network = index(network);
                table.put(id, PortKind::Direct { network }, false);
                table.nets[usize::from(network)].members.push(id);
            } else {
                table.put(id, PortKind::Link, false);
                let carried = (0..).zip(&names).filter(|(_, name)| link.carries(name));
                let carried: Vec<u16> = carried.map(|(number, _)| number).collect();
                for number in &carried {
                    table.nets[usize::from(*number)].members.push(id);
                }
                if !link.networks.is_empty() {
                    table.carried.insert(id, carried);
                }
            }
        }
        for route in &overlay.routes {
            table.add_rule(index(&route.network), route, ids);
        }
        table
    }

    /// The same with these holds.
    #[must_use]
    pub fn with(mut self, holds: &mut Holds) -> Table {
        for hold in &holds.holds {
            let (address, it) = (hold.address(), Arc::clone(hold));
            match hold.port() {
                None => drop(self.held.insert(address, it)),
                Some(port) => drop(self.armed.insert(address, (port, it))),
            }
        }
        for net in &mut self.nets {
            net.held = holds.counters(net.vni);
        }
        self
    }

    /// The holds, over or not.
    pub fn holds(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.held.values().chain(self.armed().map(|(_, hold)| hold))
    }

    /// The holds that begin and end with a port.
    pub fn armed(&self) -> impl Iterator<Item = (PortId, &Arc<Hold>)> {
        self.armed.values().map(|(port, hold)| (*port, hold))
    }

    /// The hold of a frame that leaves through a port, and the counters of its network.
    #[must_use]
    pub fn armed_for(&self, frame: &Frame, port: PortId) -> Option<(&Arc<Hold>, &HeldCounters)> {
        let (of, hold) = self.armed.get(&address(frame.destination()))?;
        let network = self.network(frame.network)?;
        let is_it = *of == port && !hold.is_over();
        is_it.then(|| (hold, self.nets[usize::from(network)].held.as_ref()))
    }

    pub(super) fn plain_holds(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.held.values()
    }

    pub(super) fn hold(&self, destination: Address) -> Option<&Hold> {
        self.held.get(&destination).map(Arc::as_ref)
    }

    #[must_use]
    pub fn network(&self, vni: u32) -> Option<u16> {
        self.by_vni.get(&vni).copied()
    }

    pub(super) fn vni(&self, network: u16) -> Option<u32> {
        self.nets.get(usize::from(network)).map(|net| net.vni)
    }

    #[must_use]
    pub fn kind(&self, port: PortId) -> Option<PortKind> {
        self.port(port).map(|port| port.kind)
    }

    pub(super) fn port(&self, port: PortId) -> Option<&TablePort> {
        self.ports.get(usize::from(port.0))?.as_ref()
    }

    pub(super) fn carries(&self, port: PortId, network: u16) -> bool {
        match self.kind(port) {
            Some(PortKind::Interface { network: own } | PortKind::Direct { network: own }) => {
                own == network
            }
            Some(PortKind::Link) => {
                let carried = self.carried.get(&port);
                carried.is_none_or(|carried| carried.contains(&network))
            }
            None => false,
        }
    }

    fn put(&mut self, id: PortId, kind: PortKind, is_bound: bool) {
        let at = usize::from(id.0);
        if self.ports.len() <= at {
            self.ports.resize_with(at + 1, || None);
        }
        self.ports[at] = Some(TablePort { kind, is_bound });
    }

    fn add_rule(&mut self, network: u16, route: &Route, ids: &HashMap<String, PortId>) {
        let id = |port: &PortName| ids.get(port.name()).copied();
        let Some(to) = id(&route.to) else { return };
        let from = route.from.as_ref().map(id);
        if from == Some(None) {
            return;
        }
        let rule = Rule {
            source: Match::of(route.source),
            destination: Match::of(route.destination),
            to,
            from: from.flatten(),
        };
        let net = &mut self.nets[usize::from(network)];
        match rule.destination {
            Match::Is(destination) => net.exact.entry(destination).or_default().push(rule),
            _ => net.general.push(rule),
        }
    }

    fn is_link(&self, port: PortId) -> bool {
        matches!(
            self.kind(port),
            Some(PortKind::Link | PortKind::Direct { .. })
        )
    }

    /// Whether a frame from `ingress` may leave at `to` without a route that names both (split horizon).
    pub(super) fn may_pass(&self, ingress: PortId, to: PortId) -> bool {
        to != ingress && !(self.is_link(ingress) && self.is_link(to))
    }

    /// Appends the destinations of the most specific matching rules of a class; true if any matched.
    pub(super) fn matching(
        &self,
        network: u16,
        class: RuleClass,
        query: Query,
        outputs: &mut Vec<PortId>,
    ) -> bool {
        let net = &self.nets[usize::from(network)];
        let rules: &[Rule] = match class {
            RuleClass::Exact => net.exact.get(&query.destination).map_or(&[], Vec::as_slice),
            RuleClass::General | RuleClass::Otherwise => &net.general,
        };
        let otherwise =
            |rule: &Rule| rule.source == Match::Otherwise || rule.destination == Match::Otherwise;
        let start = outputs.len();
        let mut best = (0, 0);
        for rule in rules {
            let is_asked = match class {
                RuleClass::Exact => true,
                RuleClass::General => !otherwise(rule),
                RuleClass::Otherwise => otherwise(rule),
            };
            let passes = match rule.from {
                Some(from) => from == query.ingress && rule.to != query.ingress,
                None => self.may_pass(query.ingress, rule.to),
            };
            let matches =
                rule.source.matches(query.source) && rule.destination.matches(query.destination);
            if !is_asked || !passes || !matches {
                continue;
            }
            let rank = (rule.destination.rank(), rule.source.rank());
            if rank > best {
                outputs.truncate(start);
                best = rank;
            }
            if rank == best && !outputs[start..].contains(&rule.to) {
                outputs.push(rule.to);
            }
        }
        outputs.len() > start
    }

    pub(super) fn owner(&self, network: u16, address: Address) -> Option<PortId> {
        self.nets[usize::from(network)].bound.get(&address).copied()
    }

    pub(super) fn may_use(&self, network: u16, ingress: PortId, source: Address) -> bool {
        match self.owner(network, source) {
            Some(owner) => owner == ingress,
            None => !self.port(ingress).is_some_and(|port| port.is_bound),
        }
    }
}
