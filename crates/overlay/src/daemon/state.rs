//! The daemon's state, and its start.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use latlab_model::overlay::{Mode, Overlay};

use super::error::Error;
use super::open::{Opener, PortHandle};
use super::route_offload::RouteOffload;
use crate::dispatch::{DispatchPolicy, Dispatcher, InputKey, Output, Snapshot};
use crate::endpoints::PortId;
use crate::forwarding::{Hold, Holds, Learned, Table};

pub(super) struct DaemonPort {
    pub id: PortId,
    pub output: Arc<Output>,
    /// Its receiving halves: index of the dispatcher, and key there.
    pub inputs: Vec<(usize, InputKey)>,
    pub handle: PortHandle,
}

/// A client's connection that holds frames, or adapts the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder(u64);

impl Holder {
    /// One that is no other.
    #[must_use]
    pub fn unique() -> Holder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Holder(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

pub struct Daemon {
    pub(super) overlay: Overlay,
    pub(super) revision: u64,
    pub(super) ports: BTreeMap<String, DaemonPort>,
    pub(super) dispatchers: Vec<Dispatcher>,
    pub(super) learned: Arc<Learned>,
    pub(super) holds: Holds,
    /// Which connection made which hold.
    pub(super) holders: Vec<(Holder, Arc<Hold>)>,
    /// The connection that adapts this daemon.
    pub(super) adapting: Option<Holder>,
    pub(super) opener: Opener,
    pub(super) next_input: u32,
    /// Started with the kernel path.
    pub(super) offload: Option<RouteOffload>,
}

pub(super) fn policy(overlay: &Overlay) -> DispatchPolicy {
    DispatchPolicy {
        idle: overlay.dispatch.idle,
        realtime: overlay.dispatch.realtime,
    }
}

impl Daemon {
    /// Starts a daemon with this configuration. `name` is unique in its network namespace: a daemon that was killed is
    /// restarted under the same name, and finds its kernel path by it. Errors: ports that cannot be opened,
    /// dispatchers that cannot be started.
    pub fn start(name: &str, overlay: &Overlay) -> Result<Daemon, Error> {
        let mut daemon = Daemon {
            overlay: Overlay::default(),
            revision: 0,
            ports: BTreeMap::new(),
            dispatchers: Vec::new(),
            learned: Arc::default(),
            holds: Holds::default(),
            holders: Vec::new(),
            adapting: None,
            opener: Opener::new(name),
            next_input: 0,
            offload: None,
        };
        daemon.overlay.dispatch = overlay.dispatch.clone();
        let dispatch_only = daemon.overlay.clone();
        daemon.dispatchers = daemon.start_dispatchers(&dispatch_only)?;
        daemon.install(overlay.clone(), 0)?;
        Ok(daemon)
    }

    /// Gives adaptation to a connection until [`Daemon::end_all_of`] it. Errors: another one has it.
    pub fn adapt(&mut self, holder: Holder) -> Result<(), Error> {
        match self.adapting {
            Some(other) if other != holder => Err(Error::Adapting),
            _ => {
                self.adapting = Some(holder);
                Ok(())
            }
        }
    }

    /// Ends what a closed connection had.
    pub fn end_all_of(&mut self, holder: Holder) {
        self.end_holds_of(holder);
        self.adapting.take_if(|adapting| *adapting == holder);
    }

    /// Gives back the host's own interfaces before the daemon ends. Routes in the kernel stay in force until their
    /// interfaces are deleted.
    pub fn leave(&self) {
        if let Some(path) = self.opener.kernel_path() {
            path.leave();
        }
    }

    #[must_use]
    pub const fn overlay(&self) -> (&Overlay, u64) {
        (&self.overlay, self.revision)
    }

    pub(super) fn start_dispatchers(
        &mut self,
        overlay: &Overlay,
    ) -> Result<Vec<Dispatcher>, Error> {
        let cpus: Vec<u32> = overlay.dispatch.cpus.iter().collect();
        let snapshot = Arc::new(self.snapshot(overlay));
        (0..overlay.dispatch.dispatchers)
            .map(|number| {
                let cpu = match cpus.as_slice() {
                    [] => None,
                    cpus => Some(cpus[usize::from(number) % cpus.len()]),
                };
                let learned = Arc::clone(&self.learned);
                let snapshot = Arc::clone(&snapshot);
                Dispatcher::start(number, cpu, policy(overlay), snapshot, learned)
                    .map_err(Error::Dispatchers)
            })
            .collect()
    }

    pub(super) fn snapshot(&mut self, overlay: &Overlay) -> Snapshot {
        self.prune_holds();
        let ids: HashMap<String, PortId> = self
            .ports
            .iter()
            .map(|(name, port)| (name.clone(), port.id))
            .collect();
        let mut snapshot = Snapshot {
            table: Arc::new(Table::compile(overlay, &ids).with(&mut self.holds)),
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

    pub(super) fn mode(&self, name: &str) -> Mode {
        let own = self.overlay.interfaces.get(name).and_then(|i| i.mode);
        own.unwrap_or(self.overlay.dispatch.mode)
    }
}
