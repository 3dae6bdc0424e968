//! Keys of the store, and what is below them, in JSON:
//!
//! ```text
//! /latlab/1/FABRIC/networks/NAME          Network
//! /latlab/1/FABRIC/vnis/N                 the name of the network with this number
//! /latlab/1/FABRIC/hosts/NAME             Host
//! /latlab/1/FABRIC/connected/NAME         {}, under the host's lease
//! /latlab/1/FABRIC/addresses/NETWORK/MAC  Place
//! /latlab/1/FABRIC/requests/ID            Request, under the asker's lease
//! /latlab/1/FABRIC/requests/ID/answer     Answer, under the same lease
//! ```
//!
//! `1` is the version of this layout. A host's record stays when its lease is over: only who is connected changes by time.

use std::net::SocketAddr;

use latlab_model::overlay::{MAX_ADDRESSES, valid_name};
use latlab_model::spec::Mac;
use serde::{Deserialize, Serialize};

/// The name of a link of the daemon is that of its host behind this.
pub const LINK_PREFIX: &str = "host-";
/// Longest name of a host, in bytes: with the prefix it is a name of the control language.
const MAX_HOST_NAME: usize = 63 - LINK_PREFIX.len();

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Its number on the wire (RFC 7348, section 5).
    pub vni: u32,
}

/// Where the other hosts reach a host, and how frames travel between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// With the UDP port.
    pub address: SocketAddr,
    #[serde(flatten)]
    pub carrier: Carrier,
}

/// The format of the frames between all hosts of a fabric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "carrier", rename_all = "lowercase")]
pub enum Carrier {
    Udp,
    Vxlan,
    /// Encrypted.
    Sealed {
        /// The public half of the host's key, 64 hexadecimal digits.
        key: String,
    },
}

impl Carrier {
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Carrier::Udp => "udp",
            Carrier::Vxlan => "vxlan",
            Carrier::Sealed { .. } => "sealed",
        }
    }

    fn is_valid(&self) -> bool {
        match self {
            Carrier::Udp | Carrier::Vxlan => true,
            Carrier::Sealed { key } => {
                key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit())
            }
        }
    }
}

/// The place of an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub host: String,
    /// An interface of the daemon there.
    pub interface: String,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.interface)
    }
}

impl Place {
    /// Reads `HOST:INTERFACE`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Place> {
        let (host, interface) = text.split_once(':')?;
        let place = Place {
            host: host.into(),
            interface: interface.into(),
        };
        place.is_valid().then_some(place)
    }

    fn is_valid(&self) -> bool {
        is_host_name(&self.host) && valid_name(&self.interface).is_some()
    }
}

#[must_use]
pub fn is_host_name(name: &str) -> bool {
    name.len() <= MAX_HOST_NAME && valid_name(name).is_some()
}

/// The wish that addresses move to a host. The host takes them in its daemon first, and then writes their places: a host that
/// sends frames there finds it ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub network: String,
    /// At most 64.
    pub addresses: Vec<Mac>,
    /// Only while all of them are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Place>,
    pub to: Place,
    /// The lease of the request and of its answer.
    pub lease: u64,
}

impl Request {
    fn is_valid(&self) -> bool {
        let places = self.from.iter().chain([&self.to]);
        valid_name(&self.network).is_some()
            && (1..=MAX_ADDRESSES).contains(&self.addresses.len())
            && self.addresses.iter().all(|mac| !mac.is_group())
            && places.into_iter().all(Place::is_valid)
    }

    /// The addresses, as the state has them.
    pub fn all(&self) -> impl Iterator<Item = Address> + '_ {
        self.addresses
            .iter()
            .map(|mac| (self.network.clone(), *mac))
    }
}

/// The host's answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Done,
    /// An address is elsewhere than was asked for.
    Elsewhere {
        address: Mac,
        place: Option<Place>,
    },
    /// The daemon's reason.
    Refused(String),
}

/// An address in a network.
pub type Address = (String, Mac);

/// A key with what is below it; `None`: it was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    Network(String, Option<Network>),
    Host(String, Option<Host>),
    Connected(String, bool),
    Place(Address, Option<Place>),
    Request(String, Option<Request>),
    /// A key that says the same in another order.
    Redundant,
}

/// The keys of one fabric.
#[derive(Debug, Clone)]
pub struct Keys {
    prefix: String,
}

impl Keys {
    /// None: the text is no name.
    #[must_use]
    pub fn of(fabric: &str) -> Option<Keys> {
        let fabric = valid_name(fabric)?;
        let prefix = format!("/latlab/1/{fabric}/");
        Some(Keys { prefix })
    }

    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    #[must_use]
    pub fn network(&self, name: &str) -> String {
        format!("{}networks/{name}", self.prefix)
    }

    #[must_use]
    pub fn vni(&self, vni: u32) -> String {
        format!("{}vnis/{vni}", self.prefix)
    }

    #[must_use]
    pub fn host(&self, name: &str) -> String {
        format!("{}hosts/{name}", self.prefix)
    }

    #[must_use]
    pub fn connected(&self, name: &str) -> String {
        format!("{}connected/{name}", self.prefix)
    }

    #[must_use]
    pub fn address(&self, network: &str, mac: Mac) -> String {
        format!("{}addresses/{network}/{mac}", self.prefix)
    }

    #[must_use]
    pub fn request(&self, id: &str) -> String {
        format!("{}requests/{id}", self.prefix)
    }

    #[must_use]
    pub fn answer(&self, id: &str) -> String {
        format!("{}/answer", self.request(id))
    }

    /// Reads a key and its value. None: they are not of this fabric, or not as this version writes them. What is read makes
    /// lines of the daemon's control language, so that nothing else may be in it.
    #[must_use]
    pub fn read(&self, key: &str, value: Option<&str>) -> Option<Entry> {
        let (kind, name) = key.strip_prefix(&self.prefix)?.split_once('/')?;
        match kind {
            "networks" => {
                let network = parse::<Network>(value, |network| network.vni < 1 << 24)?;
                valid_name(name).map(|name| Entry::Network(name, network))
            }
            "hosts" => {
                let is_valid = |host: &Host| host.carrier.is_valid() && host.address.port() > 0;
                let host = parse(value, is_valid)?;
                is_host_name(name).then(|| Entry::Host(name.into(), host))
            }
            "connected" => {
                is_host_name(name).then(|| Entry::Connected(name.into(), value.is_some()))
            }
            "addresses" => {
                let (network, mac) = name.split_once('/')?;
                let mac = Mac::parse(mac).filter(|mac| !mac.is_group())?;
                let address = (valid_name(network)?, mac);
                Some(Entry::Place(address, parse(value, Place::is_valid)?))
            }
            "requests" if name.ends_with("/answer") => Some(Entry::Redundant),
            "requests" => {
                let request = parse(value, Request::is_valid)?;
                valid_name(name).map(|id| Entry::Request(id, request))
            }
            "vnis" => Some(Entry::Redundant),
            _ => None,
        }
    }
}

/// The value of a key that is there, if it is one.
fn parse<T: serde::de::DeserializeOwned>(
    value: Option<&str>,
    is_valid: impl Fn(&T) -> bool,
) -> Option<Option<T>> {
    match value {
        None => Some(None),
        Some(text) => serde_json::from_str(text).ok().filter(is_valid).map(Some),
    }
}

/// A document as the store has it.
pub(crate) fn text(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("a document of text and numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_are_written() {
        let keys = Keys::of("f").unwrap();
        let carrier = Carrier::Sealed {
            key: "ab".repeat(32),
        };
        let host = Host {
            address: "10.0.0.1:51789".parse().unwrap(),
            carrier,
        };
        let value = text(&host);
        assert!(
            value.contains(r#""carrier":"sealed","key":"abab"#),
            "{value}"
        );
        let read = keys.read(&keys.host("a"), Some(&value));
        assert_eq!(read, Some(Entry::Host("a".into(), Some(host))));
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let place = Place::parse("a:vm1").unwrap();
        let read = keys.read(&keys.address("lan", mac), Some(&text(&place)));
        assert_eq!(read, Some(Entry::Place(("lan".into(), mac), Some(place))));
        assert_eq!(
            keys.read(&keys.connected("a"), None),
            Some(Entry::Connected("a".into(), false))
        );
    }

    /// The store may hold anything; a line of the control language must not.
    #[test]
    fn nothing_else_is_read() {
        let keys = Keys::of("f").unwrap();
        assert!(Keys::of("a/b").is_none() && Keys::of("").is_none());
        let host = r#"{"address":"10.0.0.1:1","carrier":"udp"}"#;
        assert!(keys.read("/latlab/1/f/hosts/a", Some(host)).is_some());
        for (key, value) in [
            ("/latlab/1/g/hosts/a", host),
            ("/latlab/1/f/hosts/a b", host),
            ("/latlab/1/f/hosts/a\nadd link x", host),
            (
                "/latlab/1/f/hosts/a",
                r#"{"address":"10.0.0.1:0","carrier":"udp"}"#,
            ),
            (
                "/latlab/1/f/hosts/a",
                r#"{"address":"10.0.0.1:1","carrier":"sealed","key":"x"}"#,
            ),
            (
                "/latlab/1/f/hosts/a",
                r#"{"address":"10.0.0.1","carrier":"udp"}"#,
            ),
            ("/latlab/1/f/networks/lan", r#"{"vni":16777216}"#),
            (
                "/latlab/1/f/addresses/lan/03:00:00:00:00:01",
                r#"{"host":"a","interface":"vm1"}"#,
            ),
            (
                "/latlab/1/f/addresses/lan/02:00",
                r#"{"host":"a","interface":"vm1"}"#,
            ),
            (
                "/latlab/1/f/addresses/lan/02:00:00:00:00:01",
                r#"{"host":"a","interface":"x y"}"#,
            ),
            ("/latlab/1/f/others/a", "{}"),
        ] {
            assert_eq!(keys.read(key, Some(value)), None, "{key} {value}");
        }
        let long = "a".repeat(59);
        assert!(!is_host_name(&long) && is_host_name(&long[..58]));
    }
}
