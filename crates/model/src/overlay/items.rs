//! Reads what follows the name of a thing in the control language.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::document::{
    Interface, InterfaceKind, Interrupts, Link, LinkKind, Network, Peer, PortName, Qualifier,
    Route, Switches, Tls, UDP_PORT, VXLAN_PORT,
};
use super::mistake::Mistake;
use super::values::{INTERRUPTS, MODES, address, device, file, mode, name, switch, valid_name};
use super::words::{Options, Words, unknown};
use crate::spec::Mac;
use crate::units::Nanos;

pub(super) fn network(options: &mut Options, mut network: Network) -> Result<Network, Mistake> {
    if let Some(on) = options.get("learning", "on or off", switch)? {
        network.learning = on;
    }
    if let Some(flood) = options.get("flood", "frames per second", |t| t.parse().ok())? {
        network.flood = flood;
    }
    if let Some(age) = options.get("age", "a time as 300s", Nanos::parse)? {
        network.age = age;
    }
    Ok(network)
}

/// Longest time for which a guest may not be told what has left, or its frames may lie: a program that waits for that
/// stands still.
const MAX_COALESCE: Nanos = Nanos(100_000_000);

/// The names of [`Switches`] as options.
pub(super) const SWITCHES: [&str; 4] =
    ["interrupts", "cut-through", "tx-coalesce", "kick-coalesce"];

pub(super) fn switches(options: &mut Options, mut switches: Switches) -> Result<Switches, Mistake> {
    if let Some(when) = options.get("interrupts", INTERRUPTS, Interrupts::of_word)? {
        switches.interrupts = when;
    }
    if let Some(on) = options.get("cut-through", "on or off", switch)? {
        switches.cut_through = on;
    }
    let coalesce = |text: &str| Nanos::parse(text).filter(|time| *time <= MAX_COALESCE);
    if let Some(time) = options.get("tx-coalesce", "a time as 1ms, at most 100ms", coalesce)? {
        switches.tx_coalesce = time;
    }
    if let Some(time) = options.get("kick-coalesce", "a time as 50us, at most 100ms", coalesce)? {
        switches.kick_coalesce = time;
    }
    Ok(switches)
}

pub(super) fn interface(words: Words) -> Result<Interface, Mistake> {
    let kinds = ["vhost-user", "tap", "veth"];
    let own = [
        "network",
        "vhost-user",
        "tap",
        "veth",
        "client",
        "queues",
        "netns",
        "mac",
        "mtu",
        "mode",
    ];
    let mut options = words.options(&[&own[..], &SWITCHES].concat())?;
    let network = options.need("network", "the name of a network", valid_name)?;
    let Some((kind, place)) = options.one_of(&kinds) else {
        return Err(Mistake::new(
            options.end(),
            "how the interface is reached is missing",
            "add `vhost-user SOCKET`, `tap DEVICE` or `veth DEVICE`",
        ));
    };
    let queues = |options: &mut Options| {
        let read = |text: &str| text.parse().ok().filter(|n| (1..=64).contains(n));
        options.get("queues", "a number from 1 to 64", read)
    };
    let made = match kind.as_str() {
        "vhost-user" => InterfaceKind::VhostUser {
            socket: PathBuf::from(place.text),
            client: options.get("client", "on or off", switch)?.unwrap_or(false),
            queues: queues(&mut options)?.unwrap_or(1),
            switches: switches(&mut options, Switches::default())?,
        },
        "tap" => InterfaceKind::Tap {
            device: device(place)?,
            netns: options.get("netns", "a file", file)?,
            queues: queues(&mut options)?.unwrap_or(1),
        },
        _ => InterfaceKind::Veth {
            device: device(place)?,
            netns: options.get("netns", "a file", file)?,
        },
    };
    let macs = options.get(
        "mac",
        "addresses as 02:00:00:00:00:01, with commas",
        |text| text.split(',').map(Mac::parse).collect(),
    )?;
    let mtu = options.get("mtu", "68 to 65535", |text| {
        text.parse().ok().filter(|mtu: &u16| *mtu >= 68)
    })?;
    let interface = Interface {
        network,
        kind: made,
        macs: macs.unwrap_or_default(),
        mtu: mtu.unwrap_or(1500),
        mode: options.get("mode", MODES, mode)?,
    };
    options.done(&format!("a {kind} interface"))?;
    Ok(interface)
}

pub(super) fn link(words: Words) -> Result<Link, Mistake> {
    let kinds = ["vxlan", "udp", "sealed", "connect", "listen", "direct"];
    let mut known = kinds.to_vec();
    known.extend(["local", "key", "peer", "network", "networks", "netns"]);
    known.extend(["certificate", "certificate-key", "authority"]);
    let mut options = words.options(&known)?;
    let Some((kind, place)) = options.one_of(&kinds) else {
        return Err(Mistake::new(
            options.end(),
            "what carries the link is missing",
            format!("add one of {}, and where to", kinds.join(", ")),
        ));
    };
    let default_port = match kind.as_str() {
        "vxlan" => Some(VXLAN_PORT),
        "udp" | "sealed" => Some(UDP_PORT),
        _ => None,
    };
    let wanted = match default_port {
        Some(_) => "an address as 10.0.0.2, 10.0.0.2:4789 or [fd00::2]:4789",
        None => "an address with a port, as 10.0.0.2:5000 or [fd00::2]:5000",
    };
    let address = |text: &str| address(text, default_port);
    let made = if kind == "direct" {
        LinkKind::Direct {
            device: device(place)?,
            netns: options.get("netns", "a file", file)?,
            network: options.need("network", "the name of a network", valid_name)?,
        }
    } else {
        let Some(at) = address(&place.text) else {
            let message = format!("`{}` is not where a link leads", place.text);
            return Err(Mistake::new(
                place.column,
                message,
                format!("write {wanted}"),
            ));
        };
        match kind.as_str() {
            "connect" => LinkKind::Connect {
                remote: at,
                tls: tls(&mut options)?,
            },
            "listen" => listen(at, &mut options)?,
            _ => udp(&kind, at, &mut options, wanted, address)?,
        }
    };
    let networks = match kind.as_str() {
        "direct" => None,
        _ => options.get("networks", "names of networks, with commas", |text| {
            text.split(',').map(valid_name).collect()
        })?,
    };
    options.done(&format!("a {kind} link"))?;
    Ok(Link {
        kind: made,
        networks: networks.unwrap_or_default(),
    })
}

fn udp(
    kind: &str,
    remote: SocketAddr,
    options: &mut Options,
    wanted: &str,
    address: impl FnOnce(&str) -> Option<SocketAddr>,
) -> Result<LinkKind, Mistake> {
    let local = options.get("local", wanted, |text| {
        address(text).filter(|local| local.is_ipv4() == remote.is_ipv4())
    })?;
    let netns = options.get("netns", "a file", file)?;
    Ok(match kind {
        "vxlan" => LinkKind::Vxlan {
            remote,
            local,
            netns,
        },
        "udp" => LinkKind::Udp {
            remote,
            local,
            netns,
        },
        _ => LinkKind::Sealed {
            remote,
            local,
            netns,
            key: options.need("key", "the file with this host's private key", file)?,
            peer: options.need(
                "peer",
                "the other's public key, 64 hexadecimal digits",
                |t| {
                    let hex = t.len() == 64 && t.chars().all(|c| c.is_ascii_hexdigit());
                    hex.then(|| t.to_lowercase())
                },
            )?,
        },
    })
}

fn listen(local: SocketAddr, options: &mut Options) -> Result<LinkKind, Mistake> {
    let tls = tls(options)?;
    let wanted = match tls {
        Some(_) => "the address or name in the other's certificate, or any",
        None => "the other's address, or any (a name needs certificates)",
    };
    let read = |text: &str| Peer::parse(text).filter(|peer| tls.is_some() || !peer.is_name());
    let peer = options.need("peer", wanted, read)?;
    Ok(LinkKind::Listen { local, peer, tls })
}

fn tls(options: &mut Options) -> Result<Option<Tls>, Mistake> {
    let Some(certificate) = options.get("certificate", "a PEM file", file)? else {
        return Ok(None);
    };
    Ok(Some(Tls {
        certificate,
        key: options.need("certificate-key", "a PEM file", file)?,
        authority: options.need("authority", "a PEM file", file)?,
    }))
}

pub(super) fn route(mut words: Words) -> Result<Route, Mistake> {
    let network = name(&mut words, "network")?;
    let mut qualifiers = [Qualifier::Any; 2];
    for (place, qualifier) in ["the source", "the destination"]
        .iter()
        .zip(&mut qualifiers)
    {
        let hint = "`any`, `none`, a MAC address, or `not-` and one";
        let word = words.next(place, hint)?;
        *qualifier = Qualifier::parse(&word.text).ok_or_else(|| {
            let message = format!("`{}` cannot be {place} of a route", word.text);
            Mistake::new(word.column, message, format!("write {hint}"))
        })?;
    }
    let hint = "write `interface NAME` or `link NAME`";
    let to = port(&mut words, hint)?;
    let from = match words.peek() {
        None => None,
        Some(word) if word.text == "from" => {
            words.next("from", "")?;
            Some(port(&mut words, hint)?)
        }
        Some(word) => return Err(unknown("option", word, &["from"])),
    };
    words.end()?;
    let [source, destination] = qualifiers;
    Ok(Route {
        network,
        source,
        destination,
        to,
        from,
    })
}

pub(super) fn port(words: &mut Words, hint: &str) -> Result<PortName, Mistake> {
    let kind = words.next("interface or link", hint)?;
    match kind.text.as_str() {
        "interface" => Ok(PortName::Interface(name(words, "interface")?)),
        "link" => Ok(PortName::Link(name(words, "link")?)),
        _ => Err(unknown("port", &kind, &["interface", "link"])),
    }
}

impl Peer {
    /// Reads `any`, an address, a DNS name (RFC 1123, section 2.1).
    #[must_use]
    pub fn parse(text: &str) -> Option<Peer> {
        if text == "any" {
            return Some(Peer::Any);
        }
        if let Ok(address) = text.parse() {
            return Some(Peer::Address(address));
        }
        let is_label = |label: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
            (1..=63).contains(&label.len()) && label.chars().all(fits)
        };
        // All digits would be a mistyped address.
        let is_name = text.len() <= 253
            && text.split('.').all(is_label)
            && text.contains(|c: char| c.is_ascii_alphabetic());
        is_name.then(|| Peer::Name(text.to_ascii_lowercase()))
    }

    const fn is_name(&self) -> bool {
        matches!(self, Peer::Name(_))
    }
}

impl Qualifier {
    /// Reads `any`, `none`, an address, `not-` and an address.
    #[must_use]
    pub fn parse(text: &str) -> Option<Qualifier> {
        match text {
            "any" => Some(Qualifier::Any),
            "none" => Some(Qualifier::None),
            _ => match text.strip_prefix("not-") {
                Some(mac) => Mac::parse(mac).map(Qualifier::Not),
                None => Mac::parse(text).map(Qualifier::Is),
            },
        }
    }
}
