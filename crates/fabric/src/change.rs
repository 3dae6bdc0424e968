//! Changes of a fabric by a person or a program: addresses move, hosts are taken away.

use std::time::{Duration, Instant};

use latlab_model::overlay::MAX_ADDRESSES;
use latlab_model::spec::Mac;

use crate::etcd::{Change, Client, Compare, Error, Operation, Stopped};
use crate::keys::{self, Answer, Keys, Place, Request};
use crate::state::State;

/// Timeout of a host's answer; also the lease of what was asked.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The end of a move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// All of them, the last at this revision of the store.
    Done { revision: u64 },
    /// The first ones, of this number. Nothing of the rest was changed.
    Refused { done: usize, reason: Reason },
}

/// Why addresses did not move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    NoNetwork,
    NoHost,
    /// The host has no live lease.
    Away,
    /// An address is elsewhere than was said.
    Elsewhere {
        address: Mac,
        place: Option<Place>,
    },
    /// The host's daemon does not take them.
    Daemon(String),
    /// Its agent has not answered.
    Silent,
}

/// The names of the networks. Of a large fabric this is less than the whole state.
pub fn networks(client: &Client, keys: &Keys) -> Result<Vec<String>, Error> {
    let (all, revision) = client.list(&keys.network(""))?;
    let state = State::listed(keys, &all, revision);
    Ok(state.networks.into_keys().collect())
}

/// Moves addresses of a network to a place, 64 of them at once or none. With `from`, only while they are all there: of two
/// that move an address at once, one learns that it came second. `id` names what is asked, and is different each time.
pub fn move_addresses(
    client: &Client,
    keys: &Keys,
    (network, addresses): (&str, &[Mac]),
    (from, to): (Option<&Place>, &Place),
    id: &str,
) -> Result<Moved, Error> {
    let lease = client.grant(ANSWER_TIMEOUT)?;
    let mut moved = Moved::Done { revision: 0 };
    for (index, part) in addresses.chunks(MAX_ADDRESSES).enumerate() {
        let request = Request {
            network: network.into(),
            addresses: part.to_vec(),
            from: from.cloned(),
            to: to.clone(),
            lease,
        };
        client.keep_alive(lease)?;
        match ask(client, keys, &request, &format!("{id}.{index}"))? {
            Ok(revision) => moved = Moved::Done { revision },
            Err(reason) => {
                let done = index * MAX_ADDRESSES;
                moved = Moved::Refused { done, reason };
                break;
            }
        }
    }
    // A question that was not answered is no longer wanted.
    client.revoke(lease)?;
    Ok(moved)
}

/// Asks a host to take addresses. Returns the revision at which they have moved.
fn ask(
    client: &Client,
    keys: &Keys,
    request: &Request,
    id: &str,
) -> Result<Result<u64, Reason>, Error> {
    let host = &request.to.host;
    let conditions = [
        Compare::is_present(&keys.network(&request.network)),
        Compare::is_present(&keys.host(host)),
        Compare::is_present(&keys.connected(host)),
    ];
    let put = Operation::put_leased(&keys.request(id), &keys::text(request), request.lease);
    let asked = client.transact(&conditions, &[put])?;
    if !asked.is_done {
        let state = State::read(client, keys)?;
        return Ok(Err(if !state.networks.contains_key(&request.network) {
            Reason::NoNetwork
        } else if !state.hosts.contains_key(host) {
            Reason::NoHost
        } else {
            Reason::Away
        }));
    }
    let key = keys.answer(id);
    let end = Instant::now() + ANSWER_TIMEOUT;
    let (mut answer, mut after) = (None, asked.revision);
    while answer.is_none() && Instant::now() < end {
        let stopped = client.watch(&key, after, &mut |batch| {
            after = batch.revision;
            let mut answers = batch.changes.iter().filter_map(|change| match change {
                Change::Put(pair) if pair.key == key => serde_json::from_str(&pair.value)
                    .ok()
                    .map(|read| (read, pair.revision)),
                _ => None,
            });
            answer = answers.next_back();
            answer.is_none()
        });
        if matches!(stopped, Stopped::Failed(_)) {
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    Ok(match answer {
        Some((Answer::Done, revision)) => Ok(revision),
        Some((Answer::Elsewhere { address, place }, _)) => {
            Err(Reason::Elsewhere { address, place })
        }
        Some((Answer::Refused(reason), _)) => Err(Reason::Daemon(reason)),
        None => Err(Reason::Silent),
    })
}

/// The end of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// With this number of addresses that were there.
    Done {
        addresses: usize,
    },
    NoHost,
    /// Its agent runs, or an address has just moved.
    InUse,
}

/// Takes a host that is away out of the fabric, with the addresses that are there.
pub fn remove_host(client: &Client, keys: &Keys, host: &str) -> Result<Removed, Error> {
    let state = State::read(client, keys)?;
    if !state.hosts.contains_key(host) {
        return Ok(Removed::NoHost);
    }
    let away = Compare::is_absent(&keys.connected(host));
    let places = state.places.iter();
    let there: Vec<_> = places.filter(|(_, (at, _))| at.host == host).collect();
    for part in there.chunks(MAX_ADDRESSES) {
        let mut conditions = vec![away.clone()];
        let mut deletions = Vec::new();
        for ((network, mac), (_, revision)) in part {
            let key = keys.address(network, *mac);
            conditions.push(Compare::is_at(&key, *revision));
            deletions.push(Operation::delete(&key));
        }
        if !client.transact(&conditions, &deletions)?.is_done {
            return Ok(Removed::InUse);
        }
    }
    let deletion = [Operation::delete(&keys.host(host))];
    Ok(match client.transact(&[away], &deletion)?.is_done {
        true => Removed::Done {
            addresses: there.len(),
        },
        false => Removed::InUse,
    })
}
