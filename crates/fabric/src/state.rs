//! The state of a fabric, as one reader has it: what was listed, and each change since.

use std::collections::{BTreeMap, BTreeSet};

use crate::etcd::{Change, Client, Error, KeyValue};
use crate::keys::{Address, Entry, Host, Keys, Network, Place, Request};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The store's.
    pub revision: u64,
    pub networks: BTreeMap<String, Network>,
    pub hosts: BTreeMap<String, Host>,
    /// The hosts whose lease is alive.
    pub connected: BTreeSet<String>,
    /// With the revision at which the address came there.
    pub places: BTreeMap<Address, (Place, u64)>,
    /// By their names, with their revisions.
    pub requests: BTreeMap<String, (Request, u64)>,
}

/// The meaning of a change to a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Networks, hosts, or where a host is reached.
    Configuration,
    Joined(String),
    Left(String),
    Connected(String),
    /// Its lease is over. Its links and addresses stay.
    Away(String),
    Moved(Address),
    Requested(String),
    /// A key that is not read, and changes nothing.
    Strange(String),
}

impl State {
    /// The whole state.
    pub fn read(client: &Client, keys: &Keys) -> Result<State, Error> {
        let (all, revision) = client.list(keys.prefix())?;
        Ok(State::listed(keys, &all, revision))
    }

    #[must_use]
    pub fn listed(keys: &Keys, all: &[KeyValue], revision: u64) -> State {
        let mut state = State {
            revision,
            ..State::default()
        };
        let mut news = Vec::new();
        for pair in all {
            state.set(keys, &pair.key, Some(&pair.value), pair.revision, &mut news);
        }
        state
    }

    /// Changes of the store, up to a revision.
    pub fn take(&mut self, keys: &Keys, changes: &[Change], revision: u64) -> Vec<News> {
        let mut news = Vec::new();
        for change in changes {
            match change {
                Change::Put(pair) => {
                    self.set(keys, &pair.key, Some(&pair.value), pair.revision, &mut news);
                }
                Change::Delete { key } => self.set(keys, key, None, revision, &mut news),
            }
        }
        self.revision = self.revision.max(revision);
        news
    }

    /// The differences from an earlier state, for a reader that missed the changes between them.
    #[must_use]
    pub fn since(&self, before: &State) -> Vec<News> {
        let mut news = Vec::new();
        let hosts = |state: &State| state.hosts.keys().cloned().collect::<BTreeSet<_>>();
        let (now, then) = (hosts(self), hosts(before));
        news.extend(now.difference(&then).cloned().map(News::Joined));
        news.extend(then.difference(&now).cloned().map(News::Left));
        if self.hosts != before.hosts || self.networks != before.networks {
            news.push(News::Configuration);
        }
        let away = before.connected.difference(&self.connected);
        let connected = self.connected.difference(&before.connected);
        news.extend(connected.cloned().map(News::Connected));
        news.extend(away.cloned().map(News::Away));
        let moved = self
            .places
            .iter()
            .filter(|(address, place)| before.places.get(*address) != Some(place));
        news.extend(moved.map(|(address, _)| News::Moved(address.clone())));
        news.extend(self.requests.keys().cloned().map(News::Requested));
        news
    }

    fn set(
        &mut self,
        keys: &Keys,
        key: &str,
        value: Option<&str>,
        revision: u64,
        news: &mut Vec<News>,
    ) {
        let Some(entry) = keys.read(key, value) else {
            news.push(News::Strange(key.into()));
            return;
        };
        match entry {
            Entry::Network(name, network) => {
                if put(&mut self.networks, name, network) {
                    news.push(News::Configuration);
                }
            }
            Entry::Host(name, host) => {
                let (was, is) = (self.hosts.contains_key(&name), host.is_some());
                if put(&mut self.hosts, name.clone(), host) {
                    match (was, is) {
                        (false, true) => news.push(News::Joined(name)),
                        (true, false) => news.push(News::Left(name)),
                        _ => {}
                    }
                    news.push(News::Configuration);
                }
            }
            Entry::Connected(name, true) => {
                if self.connected.insert(name.clone()) {
                    news.push(News::Connected(name));
                }
            }
            Entry::Connected(name, false) => {
                if self.connected.remove(&name) {
                    news.push(News::Away(name));
                }
            }
            Entry::Place(address, place) => {
                // An address without a place is learned again, where a frame of it comes from.
                let place = place.map(|place| (place, revision));
                if put(&mut self.places, address.clone(), place) {
                    news.push(News::Moved(address));
                }
            }
            Entry::Request(id, request) => {
                let request = request.map(|request| (request, revision));
                if put(&mut self.requests, id.clone(), request) {
                    news.push(News::Requested(id));
                }
            }
            Entry::Redundant => {}
        }
    }
}

/// Puts or removes; whether that changed anything.
fn put<K: Ord, V: PartialEq>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> bool {
    match value {
        Some(value) if map.get(&key) == Some(&value) => false,
        Some(value) => {
            map.insert(key, value);
            true
        }
        None => map.remove(&key).is_some(),
    }
}
