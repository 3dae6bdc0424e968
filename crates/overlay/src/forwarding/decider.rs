//! Decides where frames go, for one dispatcher.

use std::sync::Arc;

use super::address::{Address, address, is_group, mac};
use super::cache::{Cache, CachedVerdict, FlowCounters, Key};
use super::flow::Flow;
use super::hold::Hold;
use super::learned::Learned;
use super::limit::Limit;
use super::matrix::Matrix;
use super::table::{PortKind, Query, RuleClass, Table};
use super::verdict::{Verdict, Waiting};
use crate::endpoints::DropReason;
use crate::endpoints::port_id::PortId;
use crate::frames::Frame;

/// Maximum lifetime of a cached verdict, in seconds; shorter where addresses age faster.
const MAX_LIFETIME: u32 = 60;

/// Maximum number of lists of ports; the cache is flushed when it is reached.
const MAX_LISTS: usize = 1024;

/// How a frame may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passage {
    Usual,
    /// After a hold, also from link to link, where the guest has moved to: the other host sent the frame before it knew.
    /// A frame waits once for each hold, so this makes no loop. Just after the move other frames may do so, too: moves
    /// that contradict each other make a loop for that moment at most.
    Released,
}

/// How a port uses a source address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Own,
    /// The guest has just moved from behind this port to another host: the frame was on its way before.
    Late,
    Spoofed,
}

fn is_holding(table: &Table) -> bool {
    table.plain_holds().any(|hold| !hold.is_over())
}

fn is_armed(table: &Table) -> bool {
    table.armed().any(|(_, hold)| !hold.is_over())
}

#[derive(Debug)]
pub struct Decider {
    table: Arc<Table>,
    learned: Arc<Learned>,
    cache: Cache,
    matrix: Matrix,
    generation: u32,
    moves: u32,
    lists: Vec<Box<[PortId]>>,
    /// Flows that were decided since they were last drained, and that can be offloaded.
    new: Vec<(Flow, PortId)>,
    scratch: Vec<PortId>,
    limits: Vec<Limit>,
    now: u64,
    seconds: u32,
    hits: u64,
    misses: u64,
    /// Whether frames for an address may have to wait.
    is_holding: bool,
    /// Whether they may have to once a port is stopped.
    is_armed: bool,
}

impl Decider {
    #[must_use]
    pub fn new(table: Arc<Table>, learned: Arc<Learned>, seed: u64) -> Decider {
        Decider {
            is_holding: is_holding(&table),
            is_armed: is_armed(&table),
            moves: learned.moves(),
            table,
            learned,
            cache: Cache::new(seed),
            matrix: Matrix::default(),
            generation: 1,
            lists: Vec::new(),
            new: Vec::new(),
            scratch: Vec::new(),
            limits: Vec::new(),
            now: 0,
            seconds: 0,
            hits: 0,
            misses: 0,
        }
    }

    pub fn install(&mut self, table: Arc<Table>) {
        self.collect();
        self.table = table;
        self.end_holds();
        self.flush();
    }

    /// Whether frames for an address may have to wait.
    #[must_use]
    pub const fn is_holding(&self) -> bool {
        self.is_holding || self.is_armed
    }

    /// Whether frames may have to wait once a port is stopped.
    #[must_use]
    pub const fn is_armed(&self) -> bool {
        self.is_armed
    }

    /// The time of the present batch, in ns.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    #[must_use]
    pub const fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Asks for holds no more once all are over.
    pub fn end_holds(&mut self) {
        self.is_holding = is_holding(&self.table);
        self.is_armed = is_armed(&self.table);
    }

    pub fn begin(&mut self, now: u64) {
        self.now = now;
        self.seconds = u32::try_from(now / 1_000_000_000).unwrap_or(u32::MAX);
        let moves = self.learned.moves();
        if moves != self.moves {
            self.moves = moves;
            self.flush();
        }
    }

    #[must_use]
    pub const fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// Drains the flows that were decided since the last call and can be offloaded, with their egress ports.
    pub fn drain_new(&mut self) -> impl Iterator<Item = (Flow, PortId)> + '_ {
        self.new.drain(..)
    }

    /// The egress port of a flow, if it can be offloaded. `is_used`: a frame of the flow has passed, which keeps its
    /// source address from ageing. That says nothing about when: an address that is known at another port may have gone
    /// there since, so it stays there, and the flow's next frame is to be decided about.
    #[must_use]
    pub fn egress(&mut self, flow: &Flow, is_used: bool) -> Option<PortId> {
        let network = self.table.network(flow.network)?;
        let query = Query {
            ingress: flow.ingress,
            source: address(flow.source),
            destination: address(flow.destination),
        };
        if !self.table.carries(query.ingress, network) || self.source(network, query) != Source::Own
        {
            return None;
        }
        if self.held(query.destination).is_some() || self.is_elsewhere(network, query) {
            return None;
        }
        if is_used {
            self.learn(network, query);
        }
        let mut outputs = Vec::new();
        let is_known = self.outputs(network, query, Passage::Usual, &mut outputs);
        match outputs.as_slice() {
            [one] if is_known => Some(*one),
            _ => None,
        }
    }

    #[must_use]
    pub fn matrix(&mut self) -> &Matrix {
        self.collect();
        &self.matrix
    }

    /// Moves the cache's counters into the matrix: network indexes change with the table.
    fn collect(&mut self) {
        for (key, traffic) in self.cache.take_traffic() {
            self.matrix.add(&self.table, key, traffic);
        }
    }

    fn flush(&mut self) {
        // Empty entries have generation 0.
        self.generation = self.generation.wrapping_add(1).max(1);
        self.lists.clear();
    }

    fn network(&self, frame: &Frame) -> Result<u16, DropReason> {
        match self.table.kind(frame.ingress) {
            Some(PortKind::Interface { network } | PortKind::Direct { network }) => Ok(network),
            Some(PortKind::Link) => self.table.network(frame.network).ok_or(DropReason::Unknown),
            None => Err(DropReason::Unknown),
        }
    }

    /// Whether an address is held, so that [`hold`](Self::hold) is to be asked before a frame is decided about.
    #[must_use]
    pub const fn holds_addresses(&self) -> bool {
        self.is_holding
    }

    fn held(&self, destination: Address) -> Option<&Hold> {
        let hold = self.table.hold(destination)?;
        (!hold.is_over()).then_some(hold)
    }

    /// A frame for a held address waits, if its port may send it. None for others, and for frames from the place where
    /// the address was before: these have waited there, and are older.
    pub fn hold(&mut self, frame: &Frame) -> Option<Result<Waiting<'_>, DropReason>> {
        self.held(address(frame.destination()))?;
        let network = match self.network(frame) {
            Ok(network) => network,
            Err(reason) => return Some(Err(reason)),
        };
        let query = Query::of(frame);
        let vni = self.table.nets[usize::from(network)].vni;
        if self.learned.moved_from(vni, query.destination) == Some(query.ingress) {
            return None;
        }
        if !self.table.carries(query.ingress, network) {
            return Some(Err(DropReason::NoRoute));
        }
        if self.source(network, query) == Source::Spoofed {
            return Some(Err(DropReason::Spoofed));
        }
        self.learn(network, query);
        let hold = self.table.hold(query.destination)?;
        let counters = &self.table.nets[usize::from(network)].held;
        Some(Ok(Waiting {
            hold,
            network: vni,
            counters,
        }))
    }

    /// The VNI and the verdict of a frame that has waited. The cache learns nothing, and nothing is offloaded: the
    /// frames behind it must not overtake it.
    pub fn decide_released(&mut self, frame: &Frame) -> (u32, Verdict<'_>) {
        let network = match self.network(frame) {
            Ok(network) => network,
            Err(reason) => return (0, Verdict::Drop(reason)),
        };
        let vni = self.table.nets[usize::from(network)].vni;
        let query = Query::of(frame);
        // The number of a port may be another's by now.
        if vni != frame.network || !self.table.carries(query.ingress, network) {
            return (vni, Verdict::Drop(DropReason::Unknown));
        }
        if self.source(network, query) == Source::Spoofed {
            return (vni, Verdict::Drop(DropReason::Spoofed));
        }
        let (verdict, _) = self.verdict(network, query, Passage::Released);
        (vni, self.admitted(verdict, frame.ingress, network, false))
    }

    /// Counts a frame that has waited and is sent now.
    pub fn count_released(&mut self, frame: &Frame) {
        if let Ok(network) = self.network(frame) {
            let query = Query::of(frame);
            let key = Key::new(query.ingress, network, query.source, query.destination);
            let traffic = FlowCounters {
                frames: 1,
                bytes: u64::from(frame.len),
            };
            self.matrix.add(&self.table, key, traffic);
        }
    }

    /// The VNI of a frame and its verdict, whatever is held.
    #[inline]
    pub fn decide(&mut self, frame: &Frame) -> (u32, Verdict<'_>) {
        let network = match self.network(frame) {
            Ok(network) => network,
            Err(reason) => return (0, Verdict::Drop(reason)),
        };
        let vni = self.table.nets[usize::from(network)].vni;
        let query = Query::of(frame);
        let key = Key::new(query.ingress, network, query.source, query.destination);
        let cached = match self
            .cache
            .find(key, self.generation, self.seconds, frame.len)
        {
            Some(verdict) => {
                self.hits += 1;
                verdict
            }
            None => {
                self.misses += 1;
                let traffic = FlowCounters {
                    frames: 1,
                    bytes: u64::from(frame.len),
                };
                self.matrix.add(&self.table, key, traffic);
                self.look_up(key, network, query)
            }
        };
        let is_group = is_group(query.destination);
        (vni, self.admitted(cached, frame.ingress, network, is_group))
    }

    /// The verdict, unless the frame goes to many ports and its port has sent too many such.
    #[inline]
    fn admitted(
        &mut self,
        cached: CachedVerdict,
        ingress: PortId,
        network: u16,
        is_group: bool,
    ) -> Verdict<'_> {
        let is_flooded = is_group || matches!(cached, CachedVerdict::Many(_));
        if is_flooded && !self.admits(ingress, network) {
            return Verdict::Drop(DropReason::Limited);
        }
        match cached {
            CachedVerdict::One(port) => Verdict::One(port),
            CachedVerdict::Many(list) => Verdict::Many(&self.lists[usize::from(list)]),
            CachedVerdict::NoRoute => Verdict::Drop(DropReason::NoRoute),
            CachedVerdict::Spoofed => Verdict::Drop(DropReason::Spoofed),
        }
    }

    fn admits(&mut self, ingress: PortId, network: u16) -> bool {
        let at = usize::from(ingress.0);
        if self.limits.len() <= at {
            self.limits.resize(at + 1, Limit::default());
        }
        let rate = self.table.nets[usize::from(network)].flood;
        self.limits[at].admits(rate, self.now)
    }

    /// A group's address never sends (IEEE 802.3, 3.2.3). An address with an owner is used there alone, or where it has
    /// moved to.
    fn source(&self, network: u16, query: Query) -> Source {
        if is_group(query.source) {
            return Source::Spoofed;
        }
        let is_own = match self.table.owner(network, query.source) {
            Some(owner) => self.moved_to(network, query.source).unwrap_or(owner) == query.ingress,
            None => self.table.may_use(network, query.ingress, query.source),
        };
        match is_own {
            true => Source::Own,
            false if self.is_late(network, query) => Source::Late,
            false => Source::Spoofed,
        }
    }

    /// Whether the other host may have sent the frame before its guest moved here. An interface has no such frames: its
    /// rings are stopped, or its cable is cut, before the address moves.
    fn is_late(&self, network: u16, query: Query) -> bool {
        let vni = self.table.nets[usize::from(network)].vni;
        let kind = self.table.kind(query.ingress);
        !matches!(kind, Some(PortKind::Interface { .. }) | None)
            && self.learned.moved_from(vni, query.source) == Some(query.ingress)
            && self.learned.has_just_moved(vni, query.source, self.now)
    }

    fn moved_to(&self, network: u16, address: Address) -> Option<PortId> {
        let vni = self.table.nets[usize::from(network)].vni;
        let port = self.learned.moved_to(vni, address)?;
        self.table.carries(port, network).then_some(port)
    }

    /// Whether the source is known at another port.
    fn is_elsewhere(&self, network: u16, query: Query) -> bool {
        if !self.table.nets[usize::from(network)].learning {
            return false;
        }
        let moved = self.moved_to(network, query.source);
        let place = moved.or_else(|| self.learned_at(network, query.source));
        place.is_some_and(|port| port != query.ingress)
    }

    /// The port that has learned an address.
    fn learned_at(&self, network: u16, address: Address) -> Option<PortId> {
        let net = &self.table.nets[usize::from(network)];
        let port = self
            .learned
            .find(net.vni, address, self.seconds, net.age_seconds)?;
        // The port may have gone to another network since.
        self.table.carries(port, network).then_some(port)
    }

    fn learn(&self, network: u16, query: Query) {
        let net = &self.table.nets[usize::from(network)];
        if net.learning {
            let (now, age) = (self.seconds, net.age_seconds);
            self.learned
                .learn(net.vni, query.source, query.ingress, now, age);
        }
    }

    fn look_up(&mut self, key: Key, network: u16, query: Query) -> CachedVerdict {
        if !self.table.carries(query.ingress, network) {
            return self.insert(key, MAX_LIFETIME, CachedVerdict::NoRoute);
        }
        let source = self.source(network, query);
        if source == Source::Spoofed {
            return self.insert(key, MAX_LIFETIME, CachedVerdict::Spoofed);
        }
        self.learn(network, query);
        let net = &self.table.nets[usize::from(network)];
        let (age, vni) = (net.age_seconds, net.vni);
        let (verdict, is_known) = self.verdict(network, query, Passage::Usual);
        if source == Source::Late {
            return verdict;
        }
        if let (true, CachedVerdict::One(egress)) = (is_known, verdict) {
            let flow = Flow {
                ingress: query.ingress,
                network: vni,
                source: mac(query.source),
                destination: mac(query.destination),
            };
            self.new.push((flow, egress));
        }
        // An unknown destination may be learned with the next frame, so it is not cached. Entries expire before the
        // source's address ages, so that it is learned again.
        if is_known || is_group(query.destination) {
            self.insert(key, MAX_LIFETIME.min(age / 4).max(1), verdict)
        } else {
            verdict
        }
    }

    /// The verdict by a frame's egress ports, and whether its destination is known.
    fn verdict(&mut self, network: u16, query: Query, passage: Passage) -> (CachedVerdict, bool) {
        let mut outputs = std::mem::take(&mut self.scratch);
        outputs.clear();
        let is_known = self.outputs(network, query, passage, &mut outputs);
        let verdict = match outputs.as_slice() {
            [] => CachedVerdict::NoRoute,
            [one] => CachedVerdict::One(*one),
            many => self.list(many),
        };
        self.scratch = outputs;
        (verdict, is_known)
    }

    fn list(&mut self, ports: &[PortId]) -> CachedVerdict {
        if self.lists.len() >= MAX_LISTS {
            self.flush();
        }
        let known = self.lists.iter().position(|list| **list == *ports);
        let at = known.unwrap_or_else(|| {
            self.lists.push(ports.into());
            self.lists.len() - 1
        });
        CachedVerdict::Many(u16::try_from(at).unwrap_or_default())
    }

    fn insert(&mut self, key: Key, seconds: u32, verdict: CachedVerdict) -> CachedVerdict {
        let until = self.seconds.saturating_add(seconds);
        let evicted = self.cache.insert(key, self.generation, until, verdict);
        if let Some((key, traffic)) = evicted {
            self.matrix.add(&self.table, key, traffic);
        }
        verdict
    }

    /// Collects the egress ports of a frame; true if the destination is known.
    fn outputs(
        &self,
        network: u16,
        query: Query,
        passage: Passage,
        outputs: &mut Vec<PortId>,
    ) -> bool {
        let net = &self.table.nets[usize::from(network)];
        let is_group = is_group(query.destination);
        if self
            .table
            .matching(network, RuleClass::Exact, query, outputs)
        {
            return true;
        }
        if net.learning && !is_group {
            let moved = self.moved_to(network, query.destination);
            if let Some(port) = moved {
                let is_late = !self.table.may_pass(query.ingress, port)
                    && self
                        .learned
                        .has_just_moved(net.vni, query.destination, self.now);
                if passage == Passage::Released || is_late {
                    if port != query.ingress {
                        outputs.push(port);
                    }
                    // The verdict about a late frame does not hold for long.
                    return passage == Passage::Released;
                }
            }
            let owner = || self.table.owner(network, query.destination);
            let learned = || self.learned_at(network, query.destination);
            if let Some(port) = moved.or_else(owner).or_else(learned) {
                // A destination at the ingress port, or beyond another link, is not forwarded to.
                if self.table.may_pass(query.ingress, port) {
                    outputs.push(port);
                }
                return true;
            }
        }
        let floods = net.learning && is_group;
        if !floods
            && self
                .table
                .matching(network, RuleClass::General, query, outputs)
        {
            return !net.learning;
        }
        if net.learning {
            let members = net.members.iter().copied();
            outputs.extend(members.filter(|port| self.table.may_pass(query.ingress, *port)));
        }
        if outputs.is_empty() {
            self.table
                .matching(network, RuleClass::Otherwise, query, outputs);
        }
        !net.learning
    }
}
