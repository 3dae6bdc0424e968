//! Guests that move to another place while frames flow: holds of frames, and moves of addresses.

use std::collections::BTreeSet;

use super::change::{Refusal, refuse};
use super::document::{InterfaceKind, LinkKind, Network, Overlay, PortName, Qualifier};
use super::items::port;
use super::mistake::Mistake;
use super::values::valid_name;
use super::words::{Words, unknown};
use crate::spec::Mac;
use crate::units::{Bytes, Nanos};

/// Most addresses of one command.
pub const MAX_ADDRESSES: usize = 64;

/// Most memory of one hold, and how much it has without `limit`.
pub const MAX_HOLD: Bytes = Bytes(64 << 20);
pub const DEFAULT_HOLD: Bytes = Bytes(4 << 20);

/// Longest hold. A guest that is away for longer has not moved, it is down.
pub const MAX_HOLD_TIME: Nanos = Nanos(60_000_000_000);

/// Frames towards these addresses wait, in every network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub addresses: BTreeSet<Mac>,
    /// Most memory of all of their frames together.
    pub limit: Bytes,
    /// From its begin on.
    pub time: Nanos,
    /// The interface with whose rings it begins and ends: they are stopped, and they run again. Without one it begins at
    /// once.
    pub when_stopped: Option<String>,
    /// Whether the hold outlives the connection that made it, up to its time.
    pub stays: bool,
}

/// Frames towards these addresses go to another port from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub addresses: BTreeSet<Mac>,
    pub to: PortName,
    /// The network, where a link carries several.
    pub network: Option<String>,
    /// Higher than that of every earlier move of each of the addresses.
    pub revision: u64,
}

impl Overlay {
    /// Checks the interface of a hold that begins with it. Errors: one that is not there or has no rings, an address
    /// that it may not use.
    pub fn check_hold(&self, wanted: &Hold) -> Result<(), Refusal> {
        let Some(name) = &wanted.when_stopped else {
            return Ok(());
        };
        let interface = self.must_have_interface(name)?;
        if !matches!(interface.kind, InterfaceKind::VhostUser { .. }) {
            return refuse(
                format!("interface `{name}` has no rings that its guest could stop"),
                "name a vhost-user interface, or leave out `when-stopped`",
            );
        }
        let is_foreign = |mac: &&Mac| !interface.macs.is_empty() && !interface.macs.contains(mac);
        match wanted.addresses.iter().find(is_foreign) {
            None => Ok(()),
            Some(mac) => refuse(
                format!("{mac} is no address of interface `{name}`"),
                "`list interfaces` shows the addresses that it may use",
            ),
        }
    }

    /// The network of a move. Errors: a port that is not there, a network that the port does not carry or that does not
    /// learn, several networks and none named, an address that has a route.
    pub fn network_of_move(&self, wanted: &Move) -> Result<(String, &Network), Refusal> {
        let name = self.name_of_network(wanted)?;
        let network = self.must_have_network(name)?;
        if !network.learning {
            return refuse(
                format!("network `{name}` learns no addresses"),
                "change its routes instead, between `begin` and `commit`",
            );
        }
        let is_for = |destination: &Qualifier| matches!(destination, Qualifier::Is(mac) if wanted.addresses.contains(mac));
        let mut routes = self.routes.iter();
        match routes.find(|route| route.network == name && is_for(&route.destination)) {
            None => Ok((name.to_string(), network)),
            Some(route) => refuse(
                format!("an address has a route of its own: {route}"),
                "a route goes before a move; change the route, or delete it first",
            ),
        }
    }

    fn name_of_network<'a>(&'a self, wanted: &'a Move) -> Result<&'a str, Refusal> {
        let carried: Vec<&str> = match &wanted.to {
            PortName::Interface(name) => {
                vec![&self.must_have_interface(name)?.network]
            }
            PortName::Link(name) => {
                let link = self.must_have_link(name)?;
                match &link.kind {
                    LinkKind::Direct { network, .. } => vec![network],
                    _ => {
                        let names = self.networks.keys().map(String::as_str);
                        names.filter(|name| link.carries(name)).collect()
                    }
                }
            }
        };
        match (wanted.network.as_deref(), carried.as_slice()) {
            (Some(network), carried) if carried.contains(&network) => Ok(network),
            (Some(network), carried) => refuse(
                format!("{} does not carry the network `{network}`", wanted.to),
                format!("it carries {}", carried.join(", ")),
            ),
            (None, [only]) => Ok(only),
            (None, carried) => refuse(
                format!("{} carries {} networks", wanted.to, carried.len()),
                "name one, as `… network NETWORK revision N`",
            ),
        }
    }
}

pub(super) fn hold(mut words: Words) -> Result<Hold, Mistake> {
    let addresses = addresses(&mut words)?;
    let mut options = words.options(&["limit", "for", "when-stopped", "on-close"])?;
    let limit = options.get("limit", "a size as 4MiB, at most 64MiB", |text| {
        Bytes::parse(text).filter(|limit| limit.0 > 0 && *limit <= MAX_HOLD)
    })?;
    let time = options.need("for", "a time as 2s, at most 60s", |text| {
        Nanos::parse(text).filter(|time| time.0 > 0 && *time <= MAX_HOLD_TIME)
    })?;
    Ok(Hold {
        addresses,
        limit: limit.unwrap_or(DEFAULT_HOLD),
        time,
        when_stopped: options.get("when-stopped", "the name of an interface", valid_name)?,
        stays: options
            .get("on-close", "the word `stay`", |text| {
                (text == "stay").then_some(())
            })?
            .is_some(),
    })
}

pub(super) fn release(mut words: Words) -> Result<BTreeSet<Mac>, Mistake> {
    let addresses = addresses(&mut words)?;
    words.end()?;
    Ok(addresses)
}

pub(super) fn moved(mut words: Words) -> Result<Move, Mistake> {
    let addresses = addresses(&mut words)?;
    let hint = "write `to interface NAME` or `to link NAME`";
    let to = words.next("where to move", hint)?;
    if to.text != "to" {
        return Err(unknown("word", &to, &["to"]));
    }
    let to = port(&mut words, hint)?;
    let mut options = words.options(&["network", "revision"])?;
    Ok(Move {
        addresses,
        to,
        network: options.get("network", "the name of a network", valid_name)?,
        revision: options.need("revision", "a number that grows with each move", |text| {
            text.parse().ok()
        })?,
    })
}

/// Addresses of single guests, up to a word that is none.
fn addresses(words: &mut Words) -> Result<BTreeSet<Mac>, Mistake> {
    let hint = "write it as 02:00:00:00:00:01";
    let mut addresses = BTreeSet::new();
    while let Some(word) = words.peek() {
        let Some(mac) = Mac::parse(&word.text) else {
            break;
        };
        let wrong = |message: String, hint: &str| Err(Mistake::new(word.column, message, hint));
        if mac.is_group() {
            let hint = "frames to groups neither wait nor move; name a guest's own address";
            return wrong(format!("{mac} is the address of a group"), hint);
        }
        if addresses.len() == MAX_ADDRESSES {
            let message = format!("there are more than {MAX_ADDRESSES} addresses");
            return wrong(message, "use several commands");
        }
        if !addresses.insert(mac) {
            return wrong(format!("{mac} is given twice"), "give it once");
        }
        words.next("an address", hint)?;
    }
    if addresses.is_empty() {
        let word = words.next("an address", hint)?;
        let shown = crate::diagnostic::shown(&word.text);
        let message = format!("`{shown}` is no MAC address");
        return Err(Mistake::new(word.column, message, hint));
    }
    Ok(addresses)
}
