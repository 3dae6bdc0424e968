//! The agent itself: joins, then applies each change to its daemon.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::applied::Applied;
use super::event::{Event, Input};
use super::lease::{Keeper, LEASE, is_connected};
use super::taking::Taker;
use super::watcher;
use crate::etcd::{self, Batch, Client, Compare, Operation};
use crate::keys::{self, Address, Keys, Network};
use crate::orders::Own;
use crate::state::{News, State};
use crate::switch::Switch;

/// How often refused lines are tried again, and a daemon that is gone is looked for.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] etcd::Error),
    #[error("the daemon does not answer: {0}")]
    Daemon(#[source] io::Error),
    #[error("{message}")]
    Refused { message: String, hint: String },
}

fn refuse<T>(message: impl Into<String>, hint: impl Into<String>) -> Result<T, Error> {
    Err(Error::Refused {
        message: message.into(),
        hint: hint.into(),
    })
}

#[derive(Debug, Clone)]
pub struct Options {
    pub keys: Keys,
    pub own: Own,
    /// Networks that the fabric is to have.
    pub networks: Vec<(String, Network)>,
}

/// A host in a fabric.
pub struct Member<C> {
    client: Client,
    options: Options,
    /// Connects to the daemon.
    connect: C,
    lease: Arc<AtomicU64>,
    state: State,
    /// Addresses that the daemon took, and the store may not have here.
    unsure: BTreeSet<Address>,
}

impl<S: Switch, C: FnMut() -> io::Result<S>> Member<C> {
    /// Joins. Errors: no store, no daemon, a name or an address that another host has, networks or carriers that do not
    /// fit; the store is as it was then.
    pub fn join(client: Client, options: Options, mut connect: C) -> Result<Self, Error> {
        connect().map_err(Error::Daemon)?;
        let keys = options.keys.clone();
        check(&options, &State::read(&client, &keys)?)?;
        for (name, network) in &options.networks {
            add_network(&client, &keys, name, *network)?;
        }
        let lease = enter(&client, &options)?;
        let state = State::read(&client, &keys)?;
        Ok(Member {
            client,
            options,
            connect,
            lease: Arc::new(AtomicU64::new(lease)),
            state,
            unsure: BTreeSet::new(),
        })
    }

    /// Follows the store until `stop` is set, or the host is removed. The lease ends with this; links and places stay.
    pub fn follow(mut self, stop: &AtomicBool, tell: &mut dyn FnMut(&Event)) -> Result<(), Error> {
        let (send, inputs) = channel();
        let keeper = Keeper {
            client: self.client.clone(),
            keys: self.options.keys.clone(),
            host: self.options.own.name.clone(),
            lease: Arc::clone(&self.lease),
            inputs: send.clone(),
        };
        // Both end when `inputs` is dropped and they have something to tell, within seconds.
        std::thread::spawn(move || keeper.keep());
        let (client, prefix) = (self.client.clone(), self.options.keys.prefix().to_owned());
        let revision = self.state.revision;
        std::thread::spawn(move || watcher::watch(&client, &prefix, revision, &send));
        let result = self.apply(&inputs, stop, tell);
        self.client.revoke(self.lease.load(Ordering::Relaxed)).ok();
        result
    }

    fn apply(
        &mut self,
        inputs: &Receiver<Input>,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<(), Error> {
        let own = self.options.own.clone();
        let switch = (self.connect)().map_err(Error::Daemon)?;
        let mut daemon =
            Some(Applied::new(switch, &own, &self.state, tell).map_err(Error::Daemon)?);
        tell(&Event::Joined {
            hosts: self.state.hosts.len(),
            networks: self.state.networks.len(),
            addresses: self.state.places.len(),
            revision: self.state.revision,
        });
        let mut next = Instant::now() + RETRY;
        while !stop.load(Ordering::Relaxed) {
            let wait = next.saturating_duration_since(Instant::now());
            let input = inputs.recv_timeout(wait.min(Duration::from_millis(100)));
            let done = match input {
                Ok(Input::Replaced) => {
                    return refuse(
                        format!("another agent has joined as host `{}`", own.name),
                        "each host has a name of its own in a fabric",
                    );
                }
                Ok(Input::Removed) => {
                    self.removed(daemon, tell);
                    return Ok(());
                }
                Ok(input) => {
                    let news = self.take(input, tell);
                    if !self.state.hosts.contains_key(&own.name) {
                        self.removed(daemon, tell);
                        return Ok(());
                    }
                    self.tell_daemon(&mut daemon, &news, tell)
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() < next => continue,
                Err(_) => {
                    next = Instant::now() + RETRY;
                    self.retry(&mut daemon, tell)
                }
            };
            if let Err(error) = done {
                daemon = None;
                tell(&Event::DaemonLost {
                    reason: error.to_string(),
                });
            }
        }
        Ok(())
    }

    /// The news in what a thread tells.
    fn take(&mut self, input: Input, tell: &mut dyn FnMut(&Event)) -> Vec<News> {
        let keys = &self.options.keys;
        let news = match input {
            Input::Changed(Batch { changes, revision }) => {
                self.state.take(keys, &changes, revision)
            }
            Input::Listed(all, revision) => {
                let state = State::listed(keys, &all, revision);
                let before = std::mem::replace(&mut self.state, state);
                self.state.since(&before)
            }
            Input::StoreLost(reason) => {
                tell(&Event::StoreLost { reason });
                Vec::new()
            }
            Input::StoreBack => {
                let endpoint = self.client.endpoint().to_owned();
                tell(&Event::StoreBack { endpoint });
                Vec::new()
            }
            Input::Replaced | Input::Removed => Vec::new(),
        };
        for one in &news {
            let event = match one.clone() {
                News::Joined(host) => Event::HostJoined { host },
                News::Left(host) => Event::HostLeft { host },
                News::Connected(host) => Event::HostConnected { host },
                News::Away(host) => Event::HostAway { host },
                News::Strange(key) => Event::StrangeKey { key },
                News::Configuration | News::Moved(_) | News::Requested(_) => continue,
            };
            tell(&event);
        }
        news
    }

    fn tell_daemon(
        &mut self,
        daemon: &mut Option<Applied<S>>,
        news: &[News],
        tell: &mut dyn FnMut(&Event),
    ) -> io::Result<()> {
        // A daemon that is gone is told everything when it is back.
        if let Some(daemon) = daemon {
            let own = &self.options.own;
            if news.contains(&News::Configuration) {
                daemon.configure(own, &self.state, tell)?;
            }
            let moved = news.iter().filter_map(|one| match one {
                News::Moved(address) => Some(address),
                _ => None,
            });
            let addresses = daemon.relocate(own, &self.state, moved, tell)?;
            self.moved(addresses, tell);
        }
        for one in news {
            if let News::Requested(id) = one {
                self.requested(id, daemon.as_mut())?;
            }
        }
        Ok(())
    }

    /// Takes addresses that are to move to this host.
    fn requested(&mut self, id: &str, daemon: Option<&mut Applied<S>>) -> io::Result<()> {
        let Some((request, revision)) = self.state.requests.get(id) else {
            return Ok(());
        };
        if request.to.host != self.options.own.name {
            return Ok(());
        }
        let taker = self.taker();
        let unsure = match daemon {
            Some(daemon) => taker.take(id, (request, *revision), daemon)?,
            None => taker.refuse(id, request, "it is gone"),
        };
        self.unsure.extend(unsure);
        Ok(())
    }

    fn taker(&self) -> Taker<'_> {
        Taker {
            client: &self.client,
            keys: &self.options.keys,
            own: &self.options.own,
            state: &self.state,
        }
    }

    fn moved(&self, addresses: usize, tell: &mut dyn FnMut(&Event)) {
        if addresses > 0 {
            tell(&Event::Moved {
                addresses,
                revision: self.state.revision,
            });
        }
    }

    /// Tries refused lines again, and to reach a daemon that is gone.
    fn retry(
        &mut self,
        daemon: &mut Option<Applied<S>>,
        tell: &mut dyn FnMut(&Event),
    ) -> io::Result<()> {
        let unsure = std::mem::take(&mut self.unsure);
        let taker = self.taker();
        let unsure = unsure.into_iter().filter(|address| !taker.restate(address));
        self.unsure = unsure.collect();
        let own = &self.options.own;
        if let Some(daemon) = daemon {
            daemon.ping()?;
            let addresses = daemon.retry(own, &self.state, tell)?;
            self.moved(addresses, tell);
            return Ok(());
        }
        // One that is not there yet was told of.
        let Ok(switch) = (self.connect)() else {
            return Ok(());
        };
        if let Ok(applied) = Applied::new(switch, own, &self.state, tell) {
            *daemon = Some(applied);
            tell(&Event::DaemonBack {
                revision: self.state.revision,
            });
        }
        Ok(())
    }

    /// Takes the fabric's links from the daemon.
    fn removed(&self, daemon: Option<Applied<S>>, tell: &mut dyn FnMut(&Event)) {
        let alone = State {
            networks: self.state.networks.clone(),
            ..State::default()
        };
        if let Some(mut daemon) = daemon {
            daemon.configure(&self.options.own, &alone, tell).ok();
        }
        tell(&Event::Removed);
    }
}

/// Refuses a host that does not fit the others.
fn check(options: &Options, state: &State) -> Result<(), Error> {
    let own = &options.own;
    for (name, host) in state.hosts.iter().filter(|(name, _)| **name != own.name) {
        let address = host.address;
        if address == own.host.address {
            return refuse(
                format!("host `{name}` has the address {address}"),
                format!("`latlab fabric remove` takes a host away that is no more: {name}"),
            );
        }
        let (theirs, ours) = (host.carrier.word(), own.host.carrier.word());
        if theirs != ours {
            return refuse(
                format!("host `{name}` carries frames over {theirs}, and this host over {ours}"),
                format!("all hosts of a fabric carry them alike: `--carrier {theirs}`"),
            );
        }
        if address.is_ipv4() != own.host.address.is_ipv4() {
            return refuse(
                format!("host `{name}` is reached at {address}, of another family"),
                "give all hosts IPv4 addresses, or all IPv6",
            );
        }
    }
    Ok(())
}

fn add_network(client: &Client, keys: &Keys, name: &str, network: Network) -> Result<(), Error> {
    let (key, number) = (keys.network(name), keys.vni(network.vni));
    let absent = [Compare::is_absent(&key), Compare::is_absent(&number)];
    let put = [
        Operation::put(&key, &keys::text(&network)),
        Operation::put(&number, name),
    ];
    if client.transact(&absent, &put)?.is_done {
        return Ok(());
    }
    let state = State::read(client, keys)?;
    let message = match state.networks.get(name) {
        Some(known) if *known == network => return Ok(()),
        Some(known) => format!("network `{name}` has number {} in this fabric", known.vni),
        None => format!("another network of this fabric has number {}", network.vni),
    };
    refuse(message, "`latlab fabric show` lists the networks")
}

/// Writes the host's record, under a lease that no other agent of this name has.
fn enter(client: &Client, options: &Options) -> Result<u64, Error> {
    let (keys, own) = (&options.keys, &options.own);
    let (host, connected) = (keys.host(&own.name), keys.connected(&own.name));
    let lease = client.grant(LEASE)?;
    let put = [
        Operation::put(&host, &keys::text(&own.host)),
        Operation::put_leased(&connected, "{}", lease),
    ];
    // An agent that was killed leaves a lease that is still to end.
    let end = Instant::now() + 2 * LEASE;
    while !client
        .transact(&[Compare::is_absent(&connected)], &put)?
        .is_done
        && !is_connected(client, &connected, lease)?
    {
        if Instant::now() > end {
            client.revoke(lease).ok();
            return refuse(
                format!("host `{}` has joined this fabric already", own.name),
                "stop the agent there, or give this host another name",
            );
        }
        std::thread::sleep(Duration::from_millis(300));
        client.keep_alive(lease)?;
    }
    Ok(lease)
}
