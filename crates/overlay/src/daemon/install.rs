//! Changes of the configuration.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use latlab_model::overlay::{Overlay, Qualifier};

use super::error::Error;
use super::open::{OpenError, PortContext, PortHandle, Receivers};
use super::port_config::{PortConfig, port_configs};
use super::route_offload::RouteOffload;
use super::state::{Daemon, DaemonPort, policy};
use crate::dispatch::{Dispatcher, Input, InputKey, Output, Snapshot};
use crate::endpoints::Counters;
use crate::endpoints::port_id::{MAX_PORTS, PortId};

struct Change {
    before: BTreeMap<String, PortConfig>,
    after: BTreeMap<String, PortConfig>,
    removed: Vec<String>,
    added: Vec<String>,
}

impl Change {
    fn between(old: &Overlay, new: &Overlay) -> Change {
        let (before, after) = (port_configs(old), port_configs(new));
        let stays = |name: &&String| match (before.get(*name), after.get(*name)) {
            (Some(old), Some(new)) => old.is_same_port(new),
            _ => false,
        };
        let removed = before.keys().filter(|name| !stays(name)).cloned().collect();
        let added = after.keys().filter(|name| !stays(name)).cloned().collect();
        Change {
            before,
            after,
            removed,
            added,
        }
    }
}

struct NewPort {
    name: String,
    port: DaemonPort,
    receivers: Receivers,
}

/// The first error of steps that all have to be done.
#[derive(Default)]
struct FirstError(Option<Error>);

impl FirstError {
    fn note(&mut self, done: Result<(), impl Into<Error>>) {
        if let Err(error) = done {
            self.0.get_or_insert(error.into());
        }
    }
}

impl Daemon {
    /// Installs a configuration that was derived from the one of this revision. Errors: ports that cannot be opened,
    /// and all of [`Error`].
    pub fn install(&mut self, overlay: Overlay, revision: u64) -> Result<(), Error> {
        if revision != self.revision {
            return Err(Error::Changed);
        }
        let change = Change::between(&self.overlay, &overlay);
        let restarts = self.overlay.dispatch.dispatchers != overlay.dispatch.dispatchers
            || self.overlay.dispatch.cpus != overlay.dispatch.cpus;
        let dispatchers = restarts.then(|| self.start_dispatchers(&overlay));
        let dispatchers = dispatchers.transpose()?;
        let opened = self.open(&overlay, &change)?;
        if let Err(error) = self.start_offload() {
            self.close_all(opened);
            return Err(error);
        }
        // From here on every step is taken, and the first error is reported.
        let mut errors = FirstError::default();
        let renumbered = self.renumbered(&change, &opened);
        let removed: Vec<DaemonPort> = change
            .removed
            .iter()
            .filter_map(|name| self.ports.remove(name))
            .collect();
        let (receivers, inherited) = self.adopt(opened, &removed);
        if let Some(dispatchers) = dispatchers {
            errors.note(self.move_inputs(dispatchers));
        }
        let (snapshot, offloaded) = self.offloaded_snapshot(&overlay);
        errors.note(offloaded);
        for dispatcher in &self.dispatchers {
            dispatcher.install(Arc::clone(&snapshot));
            dispatcher.set_policy(policy(&overlay));
        }
        let rerouted = rerouted(&self.overlay, &overlay);
        self.overlay = overlay;
        self.revision += 1;
        let networks = &self.overlay;
        self.learned
            .keep_networks(|vni| networks.network_of(vni).is_some());
        for (name, receivers) in receivers {
            self.attach(&name, receivers);
        }
        self.apply_settings(&change.before);
        for dispatcher in &self.dispatchers {
            errors.note(dispatcher.sync());
        }
        self.learned.renumber_moved(&renumbered);
        for (vni, address) in rerouted {
            if let Some(offload) = &self.offload {
                errors.note(offload.forget(vni, address));
            }
            self.learned.forget_address(vni, address);
        }
        errors.note(self.confirm());
        self.close_removed(removed, &inherited, &mut errors);
        match errors.0 {
            None => Ok(()),
            Some(error) => Err(Error::Partly(Box::new(error))),
        }
    }

    /// Opens new ports. On an error, those opened before are closed.
    fn open(&mut self, overlay: &Overlay, change: &Change) -> Result<Vec<NewPort>, Error> {
        let mut taken: BTreeSet<u16> = self.ports.values().map(|port| port.id.0).collect();
        // Each number is inherited at most once.
        let mut to_inherit: BTreeSet<PortId> = change
            .removed
            .iter()
            .filter_map(|name| Some(self.ports.get(name)?.id))
            .collect();
        let mut opened = Vec::new();
        for name in &change.added {
            let config = &change.after[name];
            let holder = match config {
                PortConfig::Link(link) => self.opener.holder(link),
                PortConfig::Interface(_) => None,
            };
            let inherited = holder.filter(|id| to_inherit.remove(id)).map(|id| id.0);
            let free = || (0..MAX_PORTS).find(|id| !taken.contains(id));
            let result = match inherited.or_else(free) {
                Some(id) => {
                    taken.insert(id);
                    self.open_port(overlay, name, config, PortId(id))
                }
                None => Err(OpenError::too_many(name, MAX_PORTS)),
            };
            match result {
                Ok(port) => opened.push(port),
                Err(error) => {
                    self.close_all(opened);
                    return Err(error.into());
                }
            }
        }
        Ok(opened)
    }

    fn open_port(
        &mut self,
        overlay: &Overlay,
        name: &str,
        config: &PortConfig,
        id: PortId,
    ) -> Result<NewPort, OpenError> {
        let counters = Arc::<Counters>::default();
        let context = PortContext {
            name,
            id,
            counters: Arc::clone(&counters),
            dispatchers: overlay.dispatch.dispatchers,
            network: config.network(overlay),
            in_kernel: config.is_in_kernel(overlay),
        };
        let opened = match config {
            PortConfig::Interface(interface) => self.opener.interface(&context, interface)?,
            PortConfig::Link(link) => self.opener.link(&context, link)?,
        };
        let output = Output {
            transmit: Mutex::new(opened.sender),
            counters,
        };
        Ok(NewPort {
            name: name.to_string(),
            port: DaemonPort {
                id,
                output: Arc::new(output),
                inputs: Vec::new(),
                handle: opened.handle,
            },
            receivers: opened.receivers,
        })
    }

    fn close_all(&mut self, opened: Vec<NewPort>) {
        for NewPort { port, .. } in opened {
            self.opener.close(port.id, port.handle, false);
        }
    }

    /// Adds new ports to the daemon's; returns their receiving halves, and the numbers that were inherited.
    fn adopt(
        &mut self,
        opened: Vec<NewPort>,
        removed: &[DaemonPort],
    ) -> (Vec<(String, Receivers)>, BTreeSet<PortId>) {
        let mut inherited = BTreeSet::new();
        let mut all_receivers = Vec::new();
        for new in opened {
            let id = new.port.id;
            if removed.iter().any(|old| old.id == id) {
                self.opener.inherit(id, &new.port.handle);
                inherited.insert(id);
            } else {
                self.clear_counts(id);
            }
            all_receivers.push((new.name.clone(), new.receivers));
            self.ports.insert(new.name, new.port);
        }
        (all_receivers, inherited)
    }

    /// Old and new numbers of links that are replaced by one of the same name. A `move` is to a name, so it holds for the
    /// new link too, whatever address the host has now.
    fn renumbered(&self, change: &Change, opened: &[NewPort]) -> HashMap<PortId, PortId> {
        let is_link = |ports: &BTreeMap<String, PortConfig>, name: &str| {
            matches!(ports.get(name), Some(PortConfig::Link(_)))
        };
        let replaced = opened.iter().filter_map(|new| {
            let old = self.ports.get(&new.name)?;
            let are_links = is_link(&change.before, &new.name) && is_link(&change.after, &new.name);
            (are_links && old.id != new.port.id).then_some((old.id, new.port.id))
        });
        replaced.collect()
    }

    fn close_removed(
        &mut self,
        removed: Vec<DaemonPort>,
        inherited: &BTreeSet<PortId>,
        errors: &mut FirstError,
    ) {
        for mut port in removed {
            self.hand_over(&mut port);
            for (dispatcher, key) in &port.inputs {
                errors.note(self.dispatchers[*dispatcher].detach(*key).map(drop));
            }
            let has_heir = inherited.contains(&port.id);
            self.opener.close(port.id, port.handle, has_heir);
            if !has_heir {
                self.learned.forget(port.id);
                self.holds.forget(port.id);
            }
        }
    }

    /// Gives the receiving halves that links of one tunnel endpoint share to a link that stays.
    fn hand_over(&mut self, removed: &mut DaemonPort) {
        let PortHandle::Tunnel(key) = &removed.handle else {
            return;
        };
        let shares = |port: &&mut DaemonPort| matches!(&port.handle, PortHandle::Tunnel(other) if other == key);
        if let Some(heir) = self.ports.values_mut().find(shares) {
            heir.inputs.append(&mut removed.inputs);
        }
    }

    /// Every dispatcher has the last table now, so the kernel's routes follow it too.
    pub(super) fn confirm(&self) -> Result<(), Error> {
        match &self.offload {
            Some(offload) => Ok(offload.confirm()?),
            None => Ok(()),
        }
    }

    /// Starts the offload once there is a kernel path.
    fn start_offload(&mut self) -> Result<(), Error> {
        if let (None, Some(path)) = (&self.offload, self.opener.kernel_path()) {
            let learned = Arc::clone(&self.learned);
            let offload = RouteOffload::start(path, learned).map_err(Error::Dispatchers)?;
            self.offload = Some(offload);
            // The path may be a previous daemon's, whose ports had other numbers.
            for port in self.ports.values() {
                self.clear_counts(port.id);
            }
        }
        Ok(())
    }

    /// The kernel counts by a port's number, which another port may have had before.
    fn clear_counts(&self, id: PortId) {
        if let Some(path) = self.opener.kernel_path() {
            // A failure leaves the sum of both.
            let _ = path.clear_counts(id);
        }
    }

    /// A snapshot whose flows are offloaded to the kernel if possible, and the kernel's error.
    pub(super) fn offloaded_snapshot(
        &mut self,
        overlay: &Overlay,
    ) -> (Arc<Snapshot>, Result<(), Error>) {
        let mut snapshot = self.snapshot(overlay);
        let mut done = Ok(());
        if let Some(offload) = &self.offload {
            let attachments = self.ports.iter().filter_map(|(name, port)| {
                let attachment = port.handle.attachment(overlay.links.get(name))?;
                Some((port.id, attachment))
            });
            let table = Arc::clone(&snapshot.table);
            match offload.install(table, attachments.collect()) {
                Ok(sink) => snapshot.offload = Some(sink),
                Err(error) => done = Err(error.into()),
            }
        }
        (Arc::new(snapshot), done)
    }

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

    /// Applies settings that `set` changed on ports that stay.
    fn apply_settings(&mut self, before: &BTreeMap<String, PortConfig>) {
        let after = port_configs(&self.overlay);
        for (name, port) in &self.ports {
            if let Some(PortConfig::Interface(interface)) = after.get(name) {
                port.handle.apply(interface);
            }
            if before.contains_key(name) {
                for (dispatcher, key) in &port.inputs {
                    self.dispatchers[*dispatcher].set_mode(*key, self.mode(name));
                }
            }
        }
    }

    /// Moves every input to other dispatchers. Frames wait in their queues meanwhile.
    fn move_inputs(&mut self, dispatchers: Vec<Dispatcher>) -> Result<(), Error> {
        let mut moved = Ok(());
        for port in self.ports.values_mut() {
            for (queue, place) in port.inputs.iter_mut().enumerate() {
                let input = self.dispatchers[place.0].detach(place.1);
                place.0 = (usize::from(port.id.0) + queue) % dispatchers.len();
                match input {
                    Ok(Some(input)) => dispatchers[place.0].attach(input),
                    Ok(None) => {}
                    Err(died) => moved = Err(died.into()),
                }
            }
        }
        self.dispatchers = dispatchers;
        moved
    }
}

/// Addresses whose route is gone. While it was there, their frames may have come by another way than frames to them now
/// have to take.
fn rerouted(before: &Overlay, after: &Overlay) -> Vec<(u32, [u8; 6])> {
    let gone = before.routes.difference(&after.routes);
    gone.filter_map(|route| match route.destination {
        Qualifier::Is(mac) => Some((before.networks.get(&route.network)?.vni, mac.0)),
        _ => None,
    })
    .collect()
}
