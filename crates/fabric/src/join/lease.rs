//! The thread that keeps the host's lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::event::Input;
use crate::etcd::{Client, Compare, Error, Operation};
use crate::keys::Keys;

/// A host whose agent was silent for this time is away.
pub(super) const LEASE: Duration = Duration::from_secs(5);

/// Three times within a lease, so that one lost question does not end it.
const INTERVAL: Duration = Duration::from_millis(1500);

pub(super) struct Keeper {
    pub client: Client,
    pub keys: Keys,
    pub host: String,
    /// Shared with the agent, which revokes it at its end.
    pub lease: Arc<AtomicU64>,
    pub inputs: Sender<Input>,
}

impl Keeper {
    /// Keeps the lease alive, and takes another when it was over, until nothing takes what this tells.
    pub fn keep(self) {
        let mut is_lost = false;
        let mut tried = None;
        loop {
            std::thread::sleep(INTERVAL);
            let told = match turn(&self, &self.lease, &mut tried) {
                Ok(None) if is_lost => {
                    is_lost = false;
                    self.inputs.send(Input::StoreBack)
                }
                Ok(None) => Ok(()),
                Ok(Some(end)) => {
                    self.inputs.send(end).ok();
                    return;
                }
                Err(_) if is_lost => Ok(()),
                Err(error) => {
                    is_lost = true;
                    self.inputs.send(Input::StoreLost(error.to_string()))
                }
            };
            if told.is_err() {
                return;
            }
        }
    }
}

/// Whether a host is connected under this lease: a transaction of its own has been done, whatever its answer said.
pub(super) fn is_connected(client: &Client, connected: &str, lease: u64) -> Result<bool, Error> {
    let condition = Compare::is_leased(connected, lease);
    Ok(client.transact(&[condition], &[])?.is_done)
}

/// The store's side of the host and its leases.
trait Store {
    fn keep_alive(&self, lease: u64) -> Result<bool, Error>;
    fn grant(&self) -> Result<u64, Error>;
    /// Connects the host under a lease. False: it was removed, or is connected under a lease already.
    fn connect(&self, lease: u64) -> Result<bool, Error>;
    fn is_connected(&self, lease: u64) -> Result<bool, Error>;
    fn is_member(&self) -> Result<bool, Error>;
}

impl Store for Keeper {
    fn keep_alive(&self, lease: u64) -> Result<bool, Error> {
        self.client.keep_alive(lease)
    }

    fn grant(&self) -> Result<u64, Error> {
        self.client.grant(LEASE)
    }

    fn connect(&self, lease: u64) -> Result<bool, Error> {
        let (host, connected) = (self.keys.host(&self.host), self.keys.connected(&self.host));
        let conditions = [Compare::is_present(&host), Compare::is_absent(&connected)];
        let put = Operation::put_leased(&connected, "{}", lease);
        Ok(self.client.transact(&conditions, &[put])?.is_done)
    }

    fn is_connected(&self, lease: u64) -> Result<bool, Error> {
        is_connected(&self.client, &self.keys.connected(&self.host), lease)
    }

    fn is_member(&self) -> Result<bool, Error> {
        let condition = Compare::is_present(&self.keys.host(&self.host));
        Ok(self.client.transact(&[condition], &[])?.is_done)
    }
}

/// Keeps the host connected. Some: the agent's end. `own` is the lease under which the host is connected, `tried` one for
/// which that is not known: the answer may be lost, and the client asks the next member then.
fn turn(
    store: &impl Store,
    own: &AtomicU64,
    tried: &mut Option<u64>,
) -> Result<Option<Input>, Error> {
    if store.keep_alive(own.load(Ordering::Relaxed))? {
        return Ok(None);
    }
    let lease = match *tried {
        Some(lease) if store.keep_alive(lease)? => lease,
        _ => store.grant()?,
    };
    *tried = Some(lease);
    if store.connect(lease)? || store.is_connected(lease)? {
        own.store(lease, Ordering::Relaxed);
        return Ok(None);
    }
    Ok(Some(match store.is_member()? {
        true => Input::Replaced,
        false => Input::Removed,
    }))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// The fate of a transaction.
    #[derive(Clone, Copy)]
    enum Fate {
        /// Not done.
        Fails,
        /// Done, and an error all the same.
        AnswerLost,
        /// Done, and asked for once more.
        Repeated,
        Done,
    }

    struct Fake {
        next: Cell<u64>,
        alive: RefCell<Vec<u64>>,
        connected: Cell<Option<u64>>,
        is_member: bool,
        fate: Cell<Fate>,
    }

    impl Fake {
        fn new(connected: Option<u64>) -> Fake {
            Fake {
                next: Cell::new(10),
                alive: RefCell::new(connected.into_iter().collect()),
                connected: Cell::new(connected),
                is_member: true,
                fate: Cell::new(Fate::Done),
            }
        }

        fn put(&self, lease: u64) -> bool {
            let is_free = self.is_member && self.connected.get().is_none();
            if is_free {
                self.connected.set(Some(lease));
            }
            is_free
        }
    }

    fn unanswered() -> Error {
        Error::Unreachable {
            endpoint: "http://10.0.0.1:2379".into(),
            reason: "timeout".into(),
        }
    }

    impl Store for Fake {
        fn keep_alive(&self, lease: u64) -> Result<bool, Error> {
            Ok(self.alive.borrow().contains(&lease))
        }

        fn grant(&self) -> Result<u64, Error> {
            let lease = self.next.get();
            self.next.set(lease + 1);
            self.alive.borrow_mut().push(lease);
            Ok(lease)
        }

        fn connect(&self, lease: u64) -> Result<bool, Error> {
            match self.fate.replace(Fate::Done) {
                Fate::Fails => Err(unanswered()),
                Fate::AnswerLost => {
                    self.put(lease);
                    Err(unanswered())
                }
                Fate::Repeated => {
                    self.put(lease);
                    Ok(self.put(lease))
                }
                Fate::Done => Ok(self.put(lease)),
            }
        }

        fn is_connected(&self, lease: u64) -> Result<bool, Error> {
            Ok(self.connected.get() == Some(lease))
        }

        fn is_member(&self) -> Result<bool, Error> {
            Ok(self.is_member)
        }
    }

    /// The host is connected by the turn after any transaction, under the lease that is kept alive.
    #[test]
    fn a_host_whose_lease_is_over_is_connected_again() {
        for fate in [Fate::Done, Fate::Fails, Fate::AnswerLost, Fate::Repeated] {
            let store = Fake::new(None);
            store.fate.set(fate);
            let (own, mut tried) = (AtomicU64::new(1), None);
            let first = turn(&store, &own, &mut tried);
            if matches!(fate, Fate::Fails | Fate::AnswerLost) {
                assert!(first.is_err());
                assert_eq!(own.load(Ordering::Relaxed), 1, "not the host's yet");
            }
            assert!(matches!(turn(&store, &own, &mut tried), Ok(None)));
            assert_eq!(store.connected.get(), Some(own.load(Ordering::Relaxed)));
            assert_eq!(store.alive.borrow().len(), 1, "no lease too many");
        }
    }

    #[test]
    fn an_agent_ends_when_another_one_has_joined_and_when_its_host_was_removed() {
        let (own, mut tried) = (AtomicU64::new(1), None);
        let end = turn(&Fake::new(Some(2)), &own, &mut tried);
        assert!(matches!(end, Ok(Some(Input::Replaced))));
        let removed = Fake {
            is_member: false,
            ..Fake::new(None)
        };
        let end = turn(&removed, &own, &mut None);
        assert!(matches!(end, Ok(Some(Input::Removed))));
    }
}
