//! Settings of a network card, through ethtool.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use crate::sys::ethtool::{self, Offload};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    Queues,
    /// `RX/TX/ADAPT-RX/ADAPT-TX`: µs, and whether the card adapts them.
    Coalescing,
    /// Generic receive offload, `on` or `off`.
    Gro,
    Gso,
    Tso,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Setting::Queues => "queues",
            Setting::Coalescing => "coalescing",
            Setting::Gro => "GRO",
            Setting::Gso => "GSO",
            Setting::Tso => "TSO",
        })
    }
}

impl Setting {
    fn offload(self) -> Option<Offload> {
        match self {
            Setting::Gro => Some(Offload::Gro),
            Setting::Gso => Some(Offload::Gso),
            Setting::Tso => Some(Offload::Tso),
            Setting::Queues | Setting::Coalescing => None,
        }
    }

    pub(super) fn read(self, interface: &str) -> io::Result<Option<String>> {
        let value = match self.offload() {
            Some(offload) => ethtool::offload(interface, offload).map(|on| word(on).to_string()),
            None if self == Setting::Queues => ethtool::queues(interface).map(|q| q.0.to_string()),
            None => ethtool::coalescing(interface).map(|c| c.map(|v| v.to_string()).join("/")),
        };
        match value {
            // The driver does not support the request.
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            other => other.map(Some),
        }
    }

    pub(super) fn write(self, interface: &str, value: &str) -> io::Result<()> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
        match self.offload() {
            Some(offload) => ethtool::set_offload(interface, offload, value == word(true)),
            None if self == Setting::Queues => {
                ethtool::set_queues(interface, value.parse().map_err(|_| wrong())?)
            }
            None => {
                let values: Result<Vec<u32>, _> = value.split('/').map(str::parse).collect();
                let values = values.ok().and_then(|v| v.try_into().ok());
                ethtool::set_coalescing(interface, values.ok_or_else(wrong)?)
            }
        }
    }
}

fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
