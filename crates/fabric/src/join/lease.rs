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
        loop {
            std::thread::sleep(INTERVAL);
            let told = match self.turn() {
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

impl Keeper {
    /// Some: the agent's end.
    fn turn(&self) -> Result<Option<Input>, Error> {
        if self.client.keep_alive(self.lease.load(Ordering::Relaxed))? {
            return Ok(None);
        }
        let lease = self.client.grant(LEASE)?;
        self.lease.store(lease, Ordering::Relaxed);
        let (host, connected) = (self.keys.host(&self.host), self.keys.connected(&self.host));
        let conditions = [Compare::is_present(&host), Compare::is_absent(&connected)];
        let put = Operation::put_leased(&connected, "{}", lease);
        if self.client.transact(&conditions, &[put])?.is_done {
            return Ok(None);
        }
        let is_there = self.client.transact(&[Compare::is_present(&host)], &[])?;
        Ok(Some(match is_there.is_done {
            true => Input::Replaced,
            false => Input::Removed,
        }))
    }
}
