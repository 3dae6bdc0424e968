//! A dispatcher's decisions.

use std::sync::Arc;

use super::cache::{Cache, Carried, Kept, Key};
use super::learned::Learned;
use super::limit::Limit;
use super::matrix::Matrix;
use super::table::{Address, PortKind, Table, Which, address, is_group, mac};
use crate::dispatch::Decision;
use crate::endpoints::{DropReason, PortId};
use crate::frames::Frame;

/// Where a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// To this port.
    One(PortId),
    /// To all these.
    Many(&'a [PortId]),
    /// Nowhere.
    Drop(DropReason),
}

/// How long a decision is kept at most, in seconds; shorter when addresses age faster.
const KEPT: u32 = 60;

/// Most lists of ports that are kept; then all are forgotten.
const MAX_LISTS: usize = 1024;

/// Decides for one dispatcher.
#[derive(Debug)]
pub struct Decider {
    table: Arc<Table>,
    learned: Arc<Learned>,
    cache: Cache,
    matrix: Matrix,
    generation: u32,
    moves: u32,
    lists: Vec<Box<[PortId]>>,
    /// Decisions that were made since they were last taken, and that last.
    fresh: Vec<Decision>,
    scratch: Vec<PortId>,
    limits: Vec<Limit>,
    now: u64,
    seconds: u32,
    /// Frames decided by the cache, and not.
    hits: u64,
    misses: u64,
}

impl Decider {
    /// A decider that knows nothing yet. `seed` is random.
    #[must_use]
    pub fn new(table: Arc<Table>, learned: Arc<Learned>, seed: u64) -> Decider {
        Decider {
            moves: learned.moves(),
            table,
            learned,
            cache: Cache::new(seed),
            matrix: Matrix::default(),
            generation: 1,
            lists: Vec::new(),
            fresh: Vec::new(),
            scratch: Vec::new(),
            limits: Vec::new(),
            now: 0,
            seconds: 0,
            hits: 0,
            misses: 0,
        }
    }

    /// Takes a new table; what was decided by the old one is forgotten.
    pub fn install(&mut self, table: Arc<Table>) {
        self.collect();
        self.table = table;
        self.forget();
    }

    /// Begins a batch at this time, in nanoseconds since the switch started.
    pub fn begin(&mut self, now: u64) {
        self.now = now;
        self.seconds = u32::try_from(now / 1_000_000_000).unwrap_or(u32::MAX);
        let moves = self.learned.moves();
        if moves != self.moves {
            self.moves = moves;
            self.forget();
        }
    }

    /// Frames decided by the cache and not by it.
    #[must_use]
    pub const fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// The decisions that were made since this was last asked, and that last.
    pub fn take_fresh(&mut self) -> impl Iterator<Item = Decision> + '_ {
        self.fresh.drain(..)
    }

    /// Where frames go by what is known now, if that is one port and lasts: (where they come in, their
    /// network's number, their sender, their receiver). `seen` says that one has come, which keeps
    /// the sender's address known.
    #[must_use]
    pub fn settled(
        &mut self,
        (ingress, vni, source, destination): (PortId, u32, [u8; 6], [u8; 6]),
        seen: bool,
    ) -> Option<PortId> {
        let network = self.table.network(vni)?;
        let (source, destination) = (address(source), address(destination));
        if !self.table.carries(ingress, network)
            || is_group(source)
            || !self.table.may_use(network, ingress, source)
        {
            return None;
        }
        let net = &self.table.nets[usize::from(network)];
        if seen && net.learning {
            self.learned
                .learn(vni, source, ingress, self.seconds, net.age_seconds);
        }
        let mut outputs = Vec::new();
        let is_settled = self.outputs(network, (ingress, source, destination), &mut outputs);
        match outputs.as_slice() {
            [one] if is_settled => Some(*one),
            _ => None,
        }
    }

    /// Who sent how much to whom, since this decider began.
    #[must_use]
    pub fn matrix(&mut self) -> &Matrix {
        self.collect();
        &self.matrix
    }

    /// Moves what the cache counted into the matrix. Networks have other numbers in another table.
    fn collect(&mut self) {
        for (key, carried) in self.cache.take_traffic() {
            self.matrix.add(&self.table, key, carried);
        }
    }

    fn forget(&mut self) {
        // Generation 0 is no generation: it is what empty entries have.
        self.generation = self.generation.wrapping_add(1).max(1);
        self.lists.clear();
    }

    /// The network of a frame, if it may be in it.
    fn network(&self, frame: &Frame) -> Result<u16, DropReason> {
        match self.table.kind(frame.ingress) {
            Some(PortKind::Interface { network } | PortKind::Direct { network }) => Ok(network),
            Some(PortKind::Link) => self.table.network(frame.network).ok_or(DropReason::Unknown),
            None => Err(DropReason::Unknown),
        }
    }

    /// Where a frame goes, and in which network (its VNI).
    #[inline]
    pub fn decide(&mut self, frame: &Frame) -> (u32, Verdict<'_>) {
        let network = match self.network(frame) {
            Ok(network) => network,
            Err(reason) => return (0, Verdict::Drop(reason)),
        };
        let vni = self.table.nets[usize::from(network)].vni;
        let (source, destination) = (address(frame.source()), address(frame.destination()));
        let key = Key::new(frame.ingress, network, source, destination);
        let kept = match self
            .cache
            .find(key, self.generation, self.seconds, frame.len)
        {
            Some(kept) => {
                self.hits += 1;
                kept
            }
            None => {
                self.misses += 1;
                let carried = Carried {
                    frames: 1,
                    bytes: u64::from(frame.len),
                };
                self.matrix.add(&self.table, key, carried);
                self.look_up(key, network, (frame.ingress, source, destination))
            }
        };
        let is_for_many = is_group(destination) || matches!(kept, Kept::Many(_));
        if is_for_many && !self.admits(frame.ingress, network) {
            return (vni, Verdict::Drop(DropReason::Limited));
        }
        let verdict = match kept {
            Kept::One(port) => Verdict::One(port),
            Kept::Many(list) => Verdict::Many(&self.lists[usize::from(list)]),
            Kept::Nowhere => Verdict::Drop(DropReason::NoRoute),
            Kept::Spoofed => Verdict::Drop(DropReason::Spoofed),
        };
        (vni, verdict)
    }

    fn admits(&mut self, ingress: PortId, network: u16) -> bool {
        let at = usize::from(ingress.0);
        if self.limits.len() <= at {
            self.limits.resize(at + 1, Limit::default());
        }
        let rate = self.table.nets[usize::from(network)].flood;
        self.limits[at].admits(rate, self.now)
    }

    fn look_up(&mut self, key: Key, network: u16, way: (PortId, Address, Address)) -> Kept {
        let (ingress, source, destination) = way;
        let net = &self.table.nets[usize::from(network)];
        if !self.table.carries(ingress, network) {
            return self.keep(key, KEPT, Kept::Nowhere);
        }
        // A group never sends (IEEE 802.3, 3.2.3): who claims to be one lies.
        if is_group(source) || !self.table.may_use(network, ingress, source) {
            return self.keep(key, KEPT, Kept::Spoofed);
        }
        let (age, vni) = (net.age_seconds, net.vni);
        if net.learning {
            self.learned
                .learn(net.vni, source, ingress, self.seconds, age);
        }
        let mut outputs = std::mem::take(&mut self.scratch);
        outputs.clear();
        let is_settled = self.outputs(network, way, &mut outputs);
        let kept = match outputs.as_slice() {
            [] => Kept::Nowhere,
            [one] => Kept::One(*one),
            many => {
                if self.lists.len() >= MAX_LISTS {
                    self.forget();
                }
                self.list(many)
            }
        };
        self.scratch = outputs;
        // An unknown destination may be known with the next frame: that is not kept. The source is
        // to be seen again before it ages, so that its address stays known.
        if let (true, Kept::One(egress)) = (is_settled, kept) {
            self.fresh.push(Decision {
                ingress,
                network: vni,
                source: mac(source),
                destination: mac(destination),
                egress,
            });
        }
        match is_settled || is_group(destination) {
            true => self.keep(key, KEPT.min(age / 4).max(1), kept),
            false => kept,
        }
    }

    /// The number of this list of ports.
    fn list(&mut self, ports: &[PortId]) -> Kept {
        let known = self.lists.iter().position(|list| **list == *ports);
        let at = known.unwrap_or_else(|| {
            self.lists.push(ports.into());
            self.lists.len() - 1
        });
        Kept::Many(u16::try_from(at).unwrap_or_default())
    }

    fn keep(&mut self, key: Key, seconds: u32, kept: Kept) -> Kept {
        let until = self.seconds.saturating_add(seconds);
        let before = self.cache.keep(key, self.generation, until, kept);
        if let Some((key, carried)) = before {
            self.matrix.add(&self.table, key, carried);
        }
        kept
    }

    /// Collects where a frame goes; true if the destination is known to be there.
    fn outputs(
        &self,
        network: u16,
        way: (PortId, Address, Address),
        outputs: &mut Vec<PortId>,
    ) -> bool {
        let (ingress, _, destination) = way;
        let net = &self.table.nets[usize::from(network)];
        if self.table.matching(network, Which::Exact, way, outputs) {
            return true;
        }
        if net.learning && !is_group(destination) {
            let learned = || {
                self.learned
                    .find(net.vni, destination, self.seconds, net.age_seconds)
            };
            if let Some(port) = self.table.owner(network, destination).or_else(learned) {
                // Known to be where it came from, or beyond another link: it need not go anywhere.
                if self.table.may_pass(ingress, port) {
                    outputs.push(port);
                }
                return true;
            }
        }
        let floods = net.learning && is_group(destination);
        if !floods && self.table.matching(network, Which::General, way, outputs) {
            return !net.learning;
        }
        if net.learning {
            let members = net.members.iter().copied();
            outputs.extend(members.filter(|port| self.table.may_pass(ingress, *port)));
        }
        if outputs.is_empty() {
            self.table.matching(network, Which::Otherwise, way, outputs);
        }
        !net.learning
    }
}
