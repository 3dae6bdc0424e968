//! Events of an agent, and what the threads beside it tell it.

use std::fmt;

use serde::Serialize;

use crate::etcd::{Batch, KeyValue};

/// An event, for the person or program that started the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The host is in the fabric, and the daemon is as the store says.
    Joined {
        hosts: usize,
        networks: usize,
        addresses: usize,
        revision: u64,
    },
    HostJoined {
        host: String,
    },
    HostLeft {
        host: String,
    },
    HostConnected {
        host: String,
    },
    /// Its lease is over. Nothing else changes.
    HostAway {
        host: String,
    },
    /// The daemon sends frames for these addresses to their new places.
    Moved {
        addresses: usize,
        revision: u64,
    },
    /// The daemon refuses; tried again each second.
    Refused {
        line: String,
        reason: String,
    },
    /// The state stays as it is.
    StoreLost {
        reason: String,
    },
    StoreBack {
        endpoint: String,
    },
    DaemonLost {
        reason: String,
    },
    DaemonBack {
        revision: u64,
    },
    /// A key below the fabric's prefix that this latlab does not read.
    StrangeKey {
        key: String,
    },
    /// The host's record was removed from the store, and its links from the daemon.
    Removed,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Joined {
                hosts,
                networks,
                addresses,
                revision,
            } => write!(
                f,
                "joined: {hosts} hosts, {networks} networks, {addresses} addresses, revision {revision}"
            ),
            Event::HostJoined { host } => write!(f, "host `{host}` joined"),
            Event::HostLeft { host } => write!(f, "host `{host}` was removed"),
            Event::HostConnected { host } => write!(f, "host `{host}` is connected to the store"),
            Event::HostAway { host } => {
                write!(f, "host `{host}` is away from the store; its links stay")
            }
            Event::Moved {
                addresses: 1,
                revision,
            } => write!(f, "moved an address, revision {revision}"),
            Event::Moved {
                addresses,
                revision,
            } => write!(f, "moved {addresses} addresses, revision {revision}"),
            Event::Refused { line, reason } => {
                write!(f, "the daemon refuses `{line}`: {reason}; tried again")
            }
            Event::StoreLost { reason } => {
                write!(f, "{reason}; links and places stay as they are")
            }
            Event::StoreBack { endpoint } => write!(f, "etcd answers again, at {endpoint}"),
            Event::DaemonLost { reason } => write!(f, "the daemon is gone: {reason}"),
            Event::DaemonBack { revision } => {
                write!(f, "the daemon is back, and at revision {revision}")
            }
            Event::StrangeKey { key } => {
                write!(
                    f,
                    "`{key}` is not as this latlab writes it, and is left out"
                )
            }
            Event::Removed => {
                f.write_str("this host was removed from the fabric; its links are deleted")
            }
        }
    }
}

/// A message of a thread beside the agent.
#[derive(Debug)]
pub(super) enum Input {
    Changed(Batch),
    /// All keys, because changes between were forgotten.
    Listed(Vec<KeyValue>, u64),
    StoreLost(String),
    StoreBack,
    /// The host's name is another agent's.
    Replaced,
    /// The host's record is gone.
    Removed,
}
