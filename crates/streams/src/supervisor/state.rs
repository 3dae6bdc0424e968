//! The supervisor's state, and the steps that several calls have in common.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use latlab_wire::streams::Config;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::accepts::Accepts;
use super::connection::{ConnectionId, Connections, Offered, State};
use super::held::Session;
use super::poll::Poller;
use super::switch::{Counts, Switch};
use crate::control;
use crate::hosts::Hosts;
use crate::ledger::Ledger;
use crate::registry::{NodeId, Plain, Registry, Target};
use crate::shadow::Kind;
use crate::sys::listener::Listener;
use crate::sys::tracee::Tracee;

/// Streams that are open at once; further connections are plain.
const MAX_CONNECTIONS: usize = 100_000;
/// Descriptors of a stream here: two anchors, or before it is accepted one and both ends of the shadow.
const DESCRIPTORS: usize = 3;
/// Descriptors that are left for calls under way. Without them a call could be neither decided nor left to the kernel.
const RESERVED: usize = 512;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Shadow(String),
    #[error("{action}: {source}")]
    Io {
        action: &'static str,
        source: io::Error,
    },
}

pub(super) fn failed(action: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { action, source }
}

/// The meaning of a token of the poller.
#[derive(Debug)]
pub(super) enum Source {
    /// The socket for requests.
    Control,
    Client(control::Client),
    Session(Rc<Session>),
    /// A held `connect`.
    Connecting(ConnectionId),
    /// A held `accept` on the listening socket with this cookie.
    Accepting(u64),
    /// The anchor of a client whose stream was not claimed yet.
    Offered(ConnectionId),
}

pub struct Supervisor {
    pub(super) poller: Poller,
    pub(super) sources: HashMap<u64, Source>,
    pub(super) config: Config,
    /// The kind of shadows within a host.
    pub(super) kind: Kind,
    pub(super) hosts: Hosts,
    /// The namespaces of the nodes.
    pub(super) nodes: Vec<File>,
    pub(super) switch: Switch,
    pub(super) counts: Counts,
    /// Nodes whose connections are plain whatever is switched on.
    pub(super) excluded: HashSet<NodeId>,
    pub(super) registry: Registry,
    pub(super) connections: Connections,
    /// Those whose client's call is held.
    pub(super) connecting: HashSet<ConnectionId>,
    /// Held `accept` calls, by the cookie of their listening socket.
    pub(super) accepts: HashMap<u64, Accepts>,
    pub(super) control: OwnedFd,
    /// Takes a copy of each listener, for when this process ends.
    pub(super) keeper: OwnedFd,
    pub(super) ledger: Rc<Ledger>,
    /// Threads that were asked to stop and did not in time: they stop some day, and have to be let go then.
    pub(super) stuck: Vec<Tracee>,
    /// Those that this process may have.
    descriptors: usize,
    pub(super) sessions: usize,
    pub(super) streams: u64,
    pub(super) relayed: u64,
    pub(super) demoted: u64,
    pub(super) plain: BTreeMap<Plain, u64>,
    pub(super) next_sweep: Instant,
}

impl Supervisor {
    /// A supervisor that takes requests at `control`, a listening SOCK_SEQPACKET socket.
    pub fn new(
        config: Config,
        control: OwnedFd,
        keeper: OwnedFd,
        held: OwnedFd,
    ) -> Result<Self, Error> {
        let kind = Kind::choose(config.shadow).map_err(Error::Shadow)?;
        let nodes = config.nodes.iter().map(|node| File::open(&node.netns));
        let nodes: io::Result<Vec<File>> = nodes.collect();
        let poller = Poller::new().map_err(failed("make a poller"))?;
        let mut supervisor = Self {
            poller,
            sources: HashMap::new(),
            kind,
            hosts: Hosts::new(&config).map_err(failed("listen in the hosts"))?,
            nodes: nodes.map_err(failed("open the nodes' namespaces"))?,
            switch: Switch::new(true),
            counts: Counts::default(),
            excluded: HashSet::new(),
            registry: Registry::new(&config),
            config,
            connections: Connections::default(),
            connecting: HashSet::new(),
            accepts: HashMap::new(),
            control,
            keeper,
            ledger: Ledger::new(held),
            stuck: Vec::new(),
            descriptors: getrlimit(Resource::Nofile)
                .current
                .map_or(usize::MAX, |limit| {
                    usize::try_from(limit).unwrap_or(usize::MAX)
                }),
            sessions: 0,
            streams: 0,
            relayed: 0,
            demoted: 0,
            plain: BTreeMap::new(),
            next_sweep: Instant::now(),
        };
        let token = supervisor.poller.token();
        supervisor
            .poller
            .add(&supervisor.control, token, EventFlags::IN)
            .map_err(failed("watch the control socket"))?;
        supervisor.sources.insert(token, Source::Control);
        Ok(supervisor)
    }

    /// Takes over the listener of processes of a node.
    pub(super) fn add_session(&mut self, node: NodeId, listener: OwnedFd) -> Result<(), Errno> {
        control::send_descriptor(self.keeper.as_fd(), listener.as_fd()).ok();
        let number = self.sessions;
        self.sessions += 1;
        let listener = Listener::new(listener);
        // Without it, calls are answered as well.
        listener.wake_in_turn().ok();
        let token = self.poller.token();
        self.poller
            .add(listener.descriptor(), token, EventFlags::IN)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let session = Rc::new(Session::new(listener, node, number));
        self.sources.insert(token, Source::Session(session));
        Ok(())
    }

    /// Whether connections of a client to a target's port stay plain.
    pub(super) fn is_off(&self, client: NodeId, target: Target, port: u16) -> bool {
        let is_excluded = [client, target.node]
            .iter()
            .any(|node| self.excluded.contains(node));
        let has_port = self.registry.has_port(target, port);
        is_excluded || !self.switch.allows(client, target.node, port, has_port)
    }

    /// Counts a connection that stays plain.
    pub(super) fn stays_plain(&mut self, reason: Plain) {
        *self.plain.entry(reason).or_default() += 1;
    }

    pub(super) fn is_full(&self) -> bool {
        let streams = self.connections.len();
        let taken = streams * DESCRIPTORS + self.sources.len() + self.nodes.len();
        streams >= MAX_CONNECTIONS || taken + RESERVED >= self.descriptors
    }

    /// Puts an offer into a state after it, and watches its client's anchor no more.
    pub(super) fn take_offer(&mut self, id: ConnectionId, next: State) -> Option<Offered> {
        let connection = self.connections.get_mut(id)?;
        if !matches!(connection.state, State::Offered(_)) {
            return None;
        }
        let State::Offered(offered) = std::mem::replace(&mut connection.state, next) else {
            return None;
        };
        if let Some(anchor) = self.client_anchor(id) {
            // By the number under which it was added.
            self.poller.remove(anchor);
        }
        self.sources.remove(&offered.token);
        Some(offered)
    }

    pub(super) fn client_anchor(&self, id: ConnectionId) -> Option<&OwnedFd> {
        let connection = self.connections.get(id)?;
        connection.client.as_ref().map(|client| &client.anchor)
    }
}
