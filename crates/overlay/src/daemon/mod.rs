//! The daemon: a configuration, and what is open because of it.
//!
//! A change is a whole new configuration. What it adds is opened first; only when all of that has
//! worked does anything change: the dispatchers take a new snapshot between two batches, new ports
//! are attached, and old ones are detached and closed. Ports that both configurations have are not
//! touched, so that their traffic does not notice. A link in the place of another to the same host gets
//! its number: frames on their way and addresses that were learned belong to the one as to the other.

mod keeper;
mod open;
mod report;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use latlab_model::overlay::{Interface, InterfaceKind, Link, LinkKind, Network, Overlay, Refusal};

use crate::dispatch::{Dispatcher, Gone, Input, InputKey, Manner, Output, Snapshot};
use crate::endpoints::{Counters, PortId, Receive};
use crate::forwarding::{Learned, Table};
use keeper::Keeper;
pub use open::Failed;
use open::{Opened, Opener};
pub use report::Statistics;

/// Most interfaces and links together. The number after them is that of wires ([`keeper`]).
const MAX_PORTS: u16 = 4095;

/// What is open for an interface or a link.
struct Port {
    id: PortId,
    output: Arc<Output>,
    /// Where its receiving halves are: which dispatcher, by which name.
    inputs: Vec<(usize, InputKey)>,
    opened: Opened,
}

/// An interface or a link, to compare with.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Spec {
    Interface(Interface),
    Link(Link),
}

/// A running overlay.
pub struct Daemon {
    overlay: Overlay,
    /// Counts the changes.
    revision: u64,
    ports: BTreeMap<String, Port>,
    dispatchers: Vec<Dispatcher>,
    learned: Arc<Learned>,
    opener: Opener,
    next_input: u32,
    /// Keeps the kernel's path, from when there is one.
    keeper: Option<Keeper>,
}

fn manner(overlay: &Overlay) -> Manner {
    Manner {
        idle: overlay.dispatch.idle,
        realtime: overlay.dispatch.realtime,
    }
}

/// Why a configuration did not take effect. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Something could not be opened.
    #[error(transparent)]
    Failed(#[from] Failed),
    /// The configuration was changed by somebody else since it was read.
    #[error("the configuration was changed meanwhile")]
    Changed,
    /// The kernel's path could not be changed.
    #[error(transparent)]
    Kernel(#[from] crate::kernel::Error),
    /// The configuration is in force, but something that belongs to it could not be done.
    #[error("the change is in force, but {0}")]
    Partly(Box<Error>),
    /// Dispatchers could not be started.
    #[error("cannot start the dispatchers: {0}")]
    Dispatchers(std::io::Error),
    /// A dispatcher has died.
    #[error(transparent)]
    Gone(#[from] Gone),
}

impl Error {
    /// What to do.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Error::Refused(refusal) => refusal.hint.clone(),
            Error::Failed(failed) => failed.hint(),
            Error::Kernel(_) => "`latlab doctor` says whether BPF works here".into(),
            Error::Partly(_) => {
                "restart the daemon: it makes everything anew from its configuration".into()
            }
            Error::Changed => "look at it with `show`, and begin again".into(),
            Error::Dispatchers(_) => "name processors that exist with `set dispatch cpus`".into(),
            Error::Gone(_) => "restart the daemon, and report this with its last messages".into(),
        }
    }
}

impl Daemon {
    /// A daemon that runs this configuration. `name` tells it from others of its network namespace; a
    /// daemon that was killed is restarted under the same name, and finds what it left in the kernel.
    ///
    /// # Errors
    ///
    /// What cannot be opened or started.
    pub fn start(name: &str, overlay: &Overlay) -> Result<Daemon, Error> {
        let mut daemon = Daemon {
            overlay: Overlay::default(),
            revision: 0,
            ports: BTreeMap::new(),
            dispatchers: Vec::new(),
            learned: Arc::default(),
            opener: Opener::new(name),
            next_input: 0,
            keeper: None,
        };
        daemon.overlay.dispatch = overlay.dispatch.clone();
        daemon.dispatchers = daemon.start_dispatchers(&daemon.overlay)?;
        daemon.install(overlay.clone(), 0)?;
        Ok(daemon)
    }

    /// Before the daemon ends: nothing stays of its own that nobody else would take away. What the kernel
    /// was told of frames stays in force, until their interfaces go.
    pub fn leave(&self) {
        if let Some(path) = self.opener.kernel_path() {
            path.leave();
        }
    }

    /// The configuration, and how often it has changed.
    #[must_use]
    pub const fn overlay(&self) -> (&Overlay, u64) {
        (&self.overlay, self.revision)
    }

    /// Takes a new configuration that was made from the one of this revision.
    ///
    /// # Errors
    ///
    /// What cannot be opened; nothing changes then.
    pub fn install(&mut self, overlay: Overlay, revision: u64) -> Result<(), Error> {
        if revision != self.revision {
            return Err(Error::Changed);
        }
        let (before, after) = (specs(&self.overlay), specs(&overlay));
        let stays = |name: &&String| match (before.get(*name), after.get(*name)) {
            (Some(old), Some(new)) => old.is_same_port(new),
            _ => false,
        };
        let gone: Vec<String> = before.keys().filter(|name| !stays(name)).cloned().collect();
        let added: Vec<&String> = after.keys().filter(|name| !stays(name)).collect();
        let restarts = self.overlay.dispatch.dispatchers != overlay.dispatch.dispatchers
            || self.overlay.dispatch.cpus != overlay.dispatch.cpus;
        let dispatchers = match restarts {
            true => Some(self.start_dispatchers(&overlay)?),
            false => None,
        };
        let opened = self.open(&overlay, &after, &added, &gone)?;
        if let Err(error) = self.start_keeper() {
            for (_, port, _) in opened {
                self.opener.close(port.id, port.opened, false);
            }
            return Err(error);
        }
        // From here on it goes through to the end: the first thing that fails is told, when all else is done.
        let mut trouble = Ok(());
        let mut note =
            |done: Result<(), Error>| trouble = std::mem::replace(&mut trouble, Ok(())).and(done);
        let mut leaving = Vec::new();
        for name in &gone {
            leaving.extend(self.ports.remove(name));
        }
        let mut arriving = Vec::new();
        let left: BTreeSet<PortId> = leaving.iter().map(|port| port.id).collect();
        let mut inherited = BTreeSet::new();
        for (name, port, receivers) in opened {
            if left.contains(&port.id) {
                self.opener.inherit(port.id, &port.opened);
                inherited.insert(port.id);
            }
            arriving.push((name.clone(), receivers));
            self.ports.insert(name, port);
        }
        if let Some(dispatchers) = dispatchers {
            note(self.move_to(dispatchers));
        }
        let (snapshot, kept) = self.snapshot_kept(&overlay);
        note(kept);
        for dispatcher in &self.dispatchers {
            dispatcher.install(Arc::clone(&snapshot));
            dispatcher.set_manner(manner(&overlay));
        }
        self.overlay = overlay;
        self.revision += 1;
        for (name, receivers) in arriving {
            self.attach(&name, receivers);
        }
        self.settle(&before);
        for dispatcher in &self.dispatchers {
            note(dispatcher.sync().map_err(Error::from));
        }
        if let Some(keeper) = &self.keeper {
            note(keeper.confirm().map_err(Error::from));
        }
        // Nobody sends to them any more.
        for mut port in leaving {
            self.hand_over(&mut port);
            for (dispatcher, key) in &port.inputs {
                let detached = self.dispatchers[*dispatcher].detach(*key);
                note(detached.map(drop).map_err(Error::from));
            }
            let has_heir = inherited.contains(&port.id);
            self.opener.close(port.id, port.opened, has_heir);
            if !has_heir {
                self.learned.forget(port.id);
            }
        }
        trouble.map_err(|error| Error::Partly(Box::new(error)))
    }

    fn start_dispatchers(&self, overlay: &Overlay) -> Result<Vec<Dispatcher>, Error> {
        let cpus: Vec<u32> = overlay.dispatch.cpus.iter().collect();
        (0..overlay.dispatch.dispatchers)
            .map(|number| {
                let cpu = match cpus.as_slice() {
                    [] => None,
                    cpus => Some(cpus[usize::from(number) % cpus.len()]),
                };
                let learned = Arc::clone(&self.learned);
                let snapshot = Arc::new(self.snapshot(overlay));
                Dispatcher::start(number, cpu, manner(overlay), snapshot, learned)
                    .map_err(Error::Dispatchers)
            })
            .collect()
    }

    /// Opens what is new. What was opened before a failure is closed again.
    fn open(
        &mut self,
        overlay: &Overlay,
        specs: &BTreeMap<String, Spec>,
        added: &[&String],
        gone: &[String],
    ) -> Result<Vec<(String, Port, Receivers)>, Error> {
        let mut taken: Vec<u16> = self.ports.values().map(|port| port.id.0).collect();
        taken.sort_unstable();
        // Each leaves its number to one heir at most.
        let mut to_inherit: BTreeSet<PortId> = gone
            .iter()
            .filter_map(|name| Some(self.ports.get(name)?.id))
            .collect();
        let mut opened: Vec<(String, Port, Receivers)> = Vec::new();
        for &name in added {
            let holder = match &specs[name] {
                Spec::Link(link) => self.opener.holder(link),
                Spec::Interface(_) => None,
            };
            let own = holder.filter(|id| to_inherit.remove(id)).map(|id| id.0);
            let free = || (0..MAX_PORTS).find(|id| taken.binary_search(id).is_err());
            let result = match own.or_else(free) {
                Some(id) => {
                    if own.is_none() {
                        let place = taken.partition_point(|other| *other < id);
                        taken.insert(place, id);
                    }
                    let counters = Arc::<Counters>::default();
                    let way = open::Way {
                        name,
                        id: PortId(id),
                        counters: Arc::clone(&counters),
                        dispatchers: overlay.dispatch.dispatchers,
                        network: specs[name].network(overlay),
                        in_kernel: specs[name].is_in_kernel(overlay),
                    };
                    let made = match &specs[name] {
                        Spec::Interface(interface) => self.opener.interface(&way, interface),
                        Spec::Link(link) => self.opener.link(&way, link),
                    };
                    made.map(|made| (PortId(id), counters, made))
                }
                None => Err(Failed::too_many(name, MAX_PORTS)),
            };
            match result {
                Ok((id, counters, made)) => {
                    let output = Output {
                        transmit: std::sync::Mutex::new(made.sender),
                        counters,
                    };
                    let port = Port {
                        id,
                        output: Arc::new(output),
                        inputs: Vec::new(),
                        opened: made.opened,
                    };
                    opened.push((name.clone(), port, made.receivers));
                }
                Err(failed) => {
                    for (_, port, _) in opened {
                        self.opener.close(port.id, port.opened, false);
                    }
                    return Err(failed.into());
                }
            }
        }
        Ok(opened)
    }

    /// Gives the receiving halves that a tunnel's links share to one that stays.
    fn hand_over(&mut self, leaving: &mut Port) {
        let Opened::Tunnel(key) = &leaving.opened else {
            return;
        };
        let shares =
            |port: &&mut Port| matches!(&port.opened, Opened::Tunnel(other) if other == key);
        if let Some(heir) = self.ports.values_mut().find(shares) {
            heir.inputs.append(&mut leaving.inputs);
        }
    }

    /// Starts to keep the kernel's path, from when there is one.
    fn start_keeper(&mut self) -> Result<(), Error> {
        if let (None, Some(path)) = (&self.keeper, self.opener.kernel_path()) {
            let learned = Arc::clone(&self.learned);
            let keeper = Keeper::start(path, learned).map_err(Error::Dispatchers)?;
            self.keeper = Some(keeper);
        }
        Ok(())
    }

    /// A snapshot whose decisions the kernel follows too, where it can; and what the kernel did not take.
    fn snapshot_kept(&mut self, overlay: &Overlay) -> (Arc<Snapshot>, Result<(), Error>) {
        let mut snapshot = self.snapshot(overlay);
        let mut kept = Ok(());
        if let Some(keeper) = &self.keeper {
            let places = self.ports.iter().filter_map(|(name, port)| {
                let place = port.opened.place(overlay.links.get(name))?;
                Some((port.id, place))
            });
            let table = Arc::clone(&snapshot.table);
            match keeper.install(table, places.collect()) {
                Ok(settled) => snapshot.settled = Some(settled),
                Err(error) => kept = Err(error.into()),
            }
        }
        (Arc::new(snapshot), kept)
    }

    fn snapshot(&self, overlay: &Overlay) -> Snapshot {
        let ids: HashMap<String, PortId> = self
            .ports
            .iter()
            .map(|(name, port)| (name.clone(), port.id))
            .collect();
        let mut snapshot = Snapshot {
            table: Arc::new(Table::compile(overlay, &ids)),
            ..Snapshot::default()
        };
        for port in self.ports.values() {
            let at = usize::from(port.id.0);
            if snapshot.ports.len() <= at {
                snapshot.ports.resize_with(at + 1, || None);
            }
            snapshot.ports[at] = Some(Arc::clone(&port.output));
        }
        snapshot
    }

    /// Hands the receiving halves of a port to the dispatchers, in turn.
    fn attach(&mut self, name: &str, receivers: Receivers) {
        let mode = self.mode(name);
        let Some(port) = self.ports.get_mut(name) else {
            return;
        };
        for (queue, receive) in receivers.into_iter().enumerate() {
            let key = InputKey(self.next_input);
            self.next_input += 1;
            let dispatcher = (usize::from(port.id.0) + queue) % self.dispatchers.len();
            let counters = Arc::clone(&port.output.counters);
            self.dispatchers[dispatcher].attach(Input {
                key,
                name: name.to_string(),
                receive,
                mode,
                counters,
            });
            port.inputs.push((dispatcher, key));
        }
    }

    /// When a port is looked at.
    fn mode(&self, name: &str) -> latlab_model::overlay::Mode {
        let own = self.overlay.interfaces.get(name).and_then(|i| i.mode);
        own.unwrap_or(self.overlay.dispatch.mode)
    }

    /// Puts what `set` changed into effect on ports that stay.
    fn settle(&mut self, before: &BTreeMap<String, Spec>) {
        for (name, port) in &self.ports {
            if let Some(Spec::Interface(interface)) = specs(&self.overlay).get(name) {
                port.opened.settle(interface);
            }
            if before.contains_key(name) {
                for (dispatcher, key) in &port.inputs {
                    self.dispatchers[*dispatcher].set_mode(*key, self.mode(name));
                }
            }
        }
    }

    /// Moves every input to other dispatchers. Frames wait where they are meanwhile.
    fn move_to(&mut self, dispatchers: Vec<Dispatcher>) -> Result<(), Error> {
        let mut moved = Ok(());
        for port in self.ports.values_mut() {
            for (queue, place) in port.inputs.iter_mut().enumerate() {
                let input = self.dispatchers[place.0].detach(place.1);
                place.0 = (usize::from(port.id.0) + queue) % dispatchers.len();
                match input {
                    Ok(Some(input)) => dispatchers[place.0].attach(input),
                    Ok(None) => {}
                    Err(gone) => moved = Err(gone.into()),
                }
            }
        }
        self.dispatchers = dispatchers;
        moved
    }
}

type Receivers = Vec<Box<dyn Receive>>;

fn specs(overlay: &Overlay) -> BTreeMap<String, Spec> {
    let interfaces = overlay
        .interfaces
        .iter()
        .map(|(name, spec)| (name.clone(), Spec::Interface(spec.clone())));
    let links = overlay
        .links
        .iter()
        .map(|(name, spec)| (name.clone(), Spec::Link(spec.clone())));
    interfaces.chain(links).collect()
}

impl Spec {
    /// Whether it shares a network with containers, whose frames stay in the kernel.
    fn is_in_kernel(&self, overlay: &Overlay) -> bool {
        let is_veth = |interface: &Interface| matches!(interface.kind, InterfaceKind::Veth { .. });
        let network = match self {
            Spec::Interface(interface) => &interface.network,
            Spec::Link(Link {
                kind: LinkKind::Direct { network, .. },
                ..
            }) => network,
            Spec::Link(_) => return overlay.interfaces.values().any(is_veth),
        };
        let mut interfaces = overlay.interfaces.values();
        interfaces.any(|interface| interface.network == *network && is_veth(interface))
    }

    /// The network that it is in, if it is in one only.
    fn network<'a>(&self, overlay: &'a Overlay) -> Option<&'a Network> {
        let name = match self {
            Spec::Interface(interface) => &interface.network,
            Spec::Link(link) => match &link.kind {
                LinkKind::Direct { network, .. } => network,
                _ => return None,
            },
        };
        overlay.networks.get(name)
    }

    /// Whether the port stays open from the one to the other: only what `set` may change differs.
    fn is_same_port(&self, other: &Spec) -> bool {
        match (self, other) {
            (Spec::Interface(old), Spec::Interface(new)) => {
                let mut old = old.clone();
                old.mode = new.mode;
                // The kernel's path knows both of a container; elsewhere only the table does.
                if !matches!(old.kind, InterfaceKind::Veth { .. }) {
                    old.macs.clone_from(&new.macs);
                    old.network.clone_from(&new.network);
                }
                open::take_settings(&mut old.kind, &new.kind);
                old == *new
            }
            _ => self == other,
        }
    }
}
