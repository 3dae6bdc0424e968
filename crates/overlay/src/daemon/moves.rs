//! Guests that move while frames flow: holds of frames, and moves of addresses.
//!
//! Neither is a part of the configuration: a hold ends by itself, and a move is a correction of what was learned. So both
//! leave drafts of the configuration alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use latlab_model::overlay::{self as model, MAX_HOLD, Refusal};
use latlab_model::spec::Mac;
use latlab_model::units::Bytes;

use super::error::Error;
use super::state::{Daemon, Holder};
use crate::endpoints::PortId;
use crate::forwarding::{Hold, HoldBudget, MoveError};

/// Maximum number of addresses that are held at one time.
const MAX_HELD: usize = 256;

/// Maximum wait for frames that are released.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

const OPEN_HINT: &str = "`list interfaces` and `list links` show those that there are";

fn refuse(message: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::Refused(Refusal {
        message: message.into(),
        hint: hint.into(),
    })
}

impl Daemon {
    /// Lets frames towards addresses wait, from the return on or from the stop of an interface on. An address may have
    /// one hold of each kind. Errors: an address that is held already, too many addresses, too much memory, an interface
    /// that does not fit; nothing is held then.
    pub fn hold(&mut self, holder: Holder, wanted: &model::Hold) -> Result<(), Error> {
        self.prune_holds();
        self.overlay.check_hold(wanted)?;
        let port = wanted
            .when_stopped
            .as_ref()
            .map(|name| match self.ports.get(name) {
                Some(port) => Ok(port.id),
                None => Err(refuse(format!("interface `{name}` is not open"), OPEN_HINT)),
            });
        let port = port.transpose()?;
        let all = self.holds.holds.iter();
        let mut alike = all.filter(|hold| hold.port().is_some() == port.is_some());
        if let Some(hold) = alike.find(|hold| wanted.addresses.contains(&Mac(hold.mac()))) {
            let hint = "`release` it first; `list holds` shows all";
            let message = format!("{} is held already", Mac(hold.mac()));
            return Err(refuse(message, hint));
        }
        if self.holds.holds.len() + wanted.addresses.len() > MAX_HELD {
            let message = format!("more than {MAX_HELD} addresses would be held");
            return Err(refuse(message, "`release` some first"));
        }
        // Each budget counts once, however many addresses share it.
        let budgets = self.holds.holds.iter().map(|hold| hold.budget());
        let limits: BTreeMap<_, u64> = budgets.map(|one| (Arc::as_ptr(one), one.limit())).collect();
        let taken: u64 = limits.values().sum();
        if taken + wanted.limit.0 > MAX_HOLD.0 {
            let free = Bytes(MAX_HOLD.0.saturating_sub(taken));
            let message = format!("{free} of {MAX_HOLD} are left for holds");
            return Err(refuse(
                message,
                "give a smaller `limit`, or `release` some first",
            ));
        }
        let budget = Arc::new(HoldBudget::new(wanted.limit.0));
        let (now, time) = (self.learned.now(), wanted.time.0);
        let new = |mac: &Mac| {
            let budget = Arc::clone(&budget);
            Arc::new(match port {
                Some(port) => Hold::armed(mac.0, budget, time, port),
                None => Hold::begun(mac.0, budget, time, now),
            })
        };
        let new: Vec<Arc<Hold>> = wanted.addresses.iter().map(new).collect();
        if !wanted.stays {
            self.holders
                .extend(new.iter().map(|hold| (holder, Arc::clone(hold))));
        }
        self.holds.holds.extend(new.iter().cloned());
        // Without its routes in the kernel, every frame for the address meets a dispatcher.
        self.refresh()
            .inspect_err(|_| new.iter().for_each(|hold| hold.end()))
    }

    /// Sends the frames that wait for addresses, and ends their holds; returns once that is done. Of an address with two
    /// holds, the one that waits for an interface stays. Errors: addresses that are not held, after all others have been
    /// released; frames that no port takes.
    pub fn release(&mut self, addresses: &BTreeSet<Mac>) -> Result<(), Error> {
        let live = self.holds.holds.iter().filter(|hold| !hold.is_over());
        let mut meant: BTreeMap<Mac, &Arc<Hold>> = BTreeMap::new();
        for hold in live.filter(|hold| addresses.contains(&Mac(hold.mac()))) {
            let chosen = meant.entry(Mac(hold.mac())).or_insert(hold);
            if hold.port().is_none() {
                *chosen = hold;
            }
        }
        let holds: Vec<Arc<Hold>> = meant.into_values().cloned().collect();
        for hold in &holds {
            hold.end();
        }
        let end = Instant::now() + RELEASE_TIMEOUT;
        while let Some(hold) = holds.iter().find(|hold| !hold.is_over()) {
            // This also wakes dispatchers that sleep.
            self.sync()?;
            if Instant::now() >= end {
                let message = format!("frames for {} still wait", Mac(hold.mac()));
                return Err(refuse(
                    message,
                    "its port takes none; `list holds` shows how many",
                ));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        self.prune_holds();
        let released: BTreeSet<Mac> = holds.iter().map(|hold| Mac(hold.mac())).collect();
        match addresses.difference(&released).next() {
            None => Ok(()),
            Some(mac) => Err(refuse(
                format!("{mac} was not held"),
                "a hold ends with its time and with its connection; the other addresses are released",
            )),
        }
    }

    /// Ends the holds of a connection that is closed. The dispatchers send what waits.
    pub(super) fn end_holds_of(&mut self, holder: Holder) {
        let own = self.holders.iter().filter(|(of, _)| *of == holder);
        let own: Vec<_> = own.collect();
        own.iter().for_each(|(_, hold)| hold.end());
        if !own.is_empty() {
            // A dispatcher that has died is told with the next command.
            let _ = self.sync();
        }
    }

    /// Moves addresses to a port, all at once: from the return on, no frame goes elsewhere. Errors: a port or network
    /// that they cannot move to, a revision that is not newer; nothing is moved then.
    pub fn move_addresses(&mut self, wanted: &model::Move) -> Result<(), Error> {
        let (_, network) = self.overlay.network_of_move(wanted)?;
        let vni = network.vni;
        let Some(port) = self.ports.get(wanted.to.name()).map(|port| port.id) else {
            return Err(refuse(format!("{} is not open", wanted.to), OPEN_HINT));
        };
        let addresses = || wanted.addresses.iter().map(|mac| mac.0);
        let revision = wanted.revision;
        self.learned
            .may_relocate(vni, addresses(), revision)
            .map_err(|error| unmoved(error, revision))?;
        let ending = self.leave_holds(wanted, port)?;
        self.learned
            .relocate(vni, addresses(), port, revision)
            .map_err(|error| unmoved(error, revision))?;
        ending.iter().for_each(|hold| hold.end());
        self.sync()?;
        self.confirm()
    }

    /// Holds at the port that addresses leave catch all their frames from now on: those that are on their way to another
    /// port must not overtake the ones that wait. Returns those of addresses that are held already: they are to end
    /// once the addresses have moved.
    fn leave_holds(&mut self, wanted: &model::Move, port: PortId) -> Result<Vec<Arc<Hold>>, Error> {
        let is_moved = |hold: &&Arc<Hold>| wanted.addresses.contains(&Mac(hold.mac()));
        let all = self.holds.holds.iter().filter(|hold| !hold.is_over());
        let (plain, armed): (Vec<_>, Vec<_>) = all
            .filter(is_moved)
            .cloned()
            .partition(|hold| hold.port().is_none());
        let left = armed.into_iter().filter(|hold| hold.port() != Some(port));
        let (ending, going_on): (Vec<_>, Vec<_>) =
            left.partition(|hold| plain.iter().any(|other| other.mac() == hold.mac()));
        let now = self.learned.now();
        going_on.iter().for_each(|hold| hold.detach(now));
        if !going_on.is_empty() {
            self.refresh()?;
        }
        Ok(ending)
    }

    /// The holds, one a line.
    #[must_use]
    pub fn list_holds(&self) -> String {
        let now = self.learned.now();
        let mut out = String::new();
        for hold in self.holds.holds.iter().filter(|hold| !hold.is_over()) {
            let (frames, bytes) = hold.waiting();
            let left = hold.left(now) / 1_000_000;
            let limit = hold.budget().limit();
            let _ = write!(
                out,
                "{} frames {frames} bytes {bytes} limit {limit} left {left}ms",
                Mac(hold.mac())
            );
            let mut ports = self.ports.iter();
            if let Some((name, _)) = ports.find(|(_, port)| Some(port.id) == hold.port()) {
                let _ = write!(out, " when-stopped {name}");
            }
            out.push('\n');
        }
        out
    }

    /// The moved addresses, one a line.
    #[must_use]
    pub fn list_moves(&self) -> String {
        let mut out = String::new();
        for moved in self.learned.moved() {
            let network = self.overlay.network_of(moved.vni).map_or("?", |it| it.0);
            let port = self
                .ports
                .iter()
                .find(|(_, port)| Some(port.id) == moved.port);
            let place = match port {
                Some((name, _)) if self.overlay.links.contains_key(name) => format!("link {name}"),
                Some((name, _)) => format!("interface {name}"),
                None => "learned".to_string(),
            };
            let seen = if moved.is_seen { " seen" } else { "" };
            let (mac, revision) = (Mac(moved.address), moved.revision);
            let _ = writeln!(out, "{network} {mac} {place} revision {revision}{seen}");
        }
        out
    }

    pub(super) fn prune_holds(&mut self) {
        self.holds.holds.retain(|hold| !hold.is_over());
        self.holders.retain(|(_, hold)| !hold.is_over());
    }

    fn sync(&self) -> Result<(), Error> {
        for dispatcher in &self.dispatchers {
            dispatcher.sync()?;
        }
        Ok(())
    }

    /// Installs the configuration again, with the holds of now.
    fn refresh(&mut self) -> Result<(), Error> {
        let overlay = self.overlay.clone();
        let (snapshot, offloaded) = self.offloaded_snapshot(&overlay);
        for dispatcher in &self.dispatchers {
            dispatcher.install(Arc::clone(&snapshot));
        }
        self.sync()?;
        offloaded?;
        self.confirm()
    }
}

/// The refusal of a move at this revision.
fn unmoved(error: MoveError, wanted: u64) -> Error {
    match error {
        MoveError::Stale { address, revision } => refuse(
            format!(
                "revision {wanted} of {} is not newer than {revision}",
                Mac(address)
            ),
            "the address has moved since; nothing was moved",
        ),
        MoveError::TooMany(most) => refuse(
            format!("revisions of {most} addresses are stored already"),
            "a network that is deleted takes its own along",
        ),
    }
}
