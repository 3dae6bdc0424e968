//! The written form: what [`super::language`] reads back.

use std::borrow::Cow;
use std::fmt::{Display, Formatter, Result};
use std::net::SocketAddr;
use std::path::Path;

use super::document::{
    Dispatch, Interface, InterfaceKind, Link, LinkKind, Mode, Network, Overlay, Peer, PortName,
    Qualifier, Route, Switches, Thresholds, Tls, Yield,
};
use crate::units::Nanos;

/// An overlay as the commands that make it, in an order in which they can be given.
impl Display for Overlay {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "set dispatch {}", self.dispatch)?;
        for (name, network) in &self.networks {
            writeln!(f, "add network {name} {network}")?;
        }
        for (name, interface) in &self.interfaces {
            writeln!(f, "add interface {name} {interface}")?;
        }
        for (name, link) in &self.links {
            writeln!(f, "add link {name} {link}")?;
        }
        for route in &self.routes {
            writeln!(f, "add route {route}")?;
        }
        Ok(())
    }
}

impl Display for Network {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let learning = on(self.learning);
        let age = exact(self.age);
        write!(
            f,
            "vni {} learning {learning} flood {} age {age}",
            self.vni, self.flood
        )
    }
}

impl Display for Switches {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (interrupts, cut_through) = (self.interrupts, on(self.cut_through));
        let (tx, kick) = (exact(self.tx_coalesce), exact(self.kick_coalesce));
        write!(
            f,
            "interrupts {interrupts} cut-through {cut_through} tx-coalesce {tx} kick-coalesce {kick}"
        )
    }
}

impl Display for Interface {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "network {} ", self.network)?;
        match &self.kind {
            InterfaceKind::VhostUser {
                socket,
                client,
                queues,
                switches,
            } => write!(
                f,
                "vhost-user {} client {} queues {queues} {switches}",
                path(socket),
                on(*client),
            )?,
            InterfaceKind::Tap {
                device,
                netns,
                queues,
            } => {
                write!(
                    f,
                    "tap {}{} queues {queues}",
                    word(device),
                    within(netns.as_deref())
                )?;
            }
            InterfaceKind::Veth { device, netns } => {
                write!(f, "veth {}{}", word(device), within(netns.as_deref()))?;
            }
        }
        if !self.macs.is_empty() {
            let macs: Vec<String> = self.macs.iter().map(ToString::to_string).collect();
            write!(f, " mac {}", macs.join(","))?;
        }
        write!(f, " mtu {}", self.mtu)?;
        match self.mode {
            Some(mode) => write!(f, " mode {mode}"),
            None => Ok(()),
        }
    }
}

impl Display for Link {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.kind)?;
        if self.networks.is_empty() {
            return Ok(());
        }
        let networks: Vec<&str> = self.networks.iter().map(String::as_str).collect();
        write!(f, " networks {}", networks.join(","))
    }
}

impl Display for LinkKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            LinkKind::Vxlan {
                remote,
                local,
                netns,
            } => {
                let within = within(netns.as_deref());
                write!(f, "vxlan {remote}{}{within}", at(*local))
            }
            LinkKind::Udp {
                remote,
                local,
                netns,
            } => {
                let within = within(netns.as_deref());
                write!(f, "udp {remote}{}{within}", at(*local))
            }
            LinkKind::Sealed {
                remote,
                local,
                netns,
                key,
                peer,
            } => {
                let (at, within) = (at(*local), within(netns.as_deref()));
                let key = path(key);
                write!(f, "sealed {remote}{at}{within} key {key} peer {peer}")
            }
            LinkKind::Connect { remote, tls } => {
                write!(f, "connect {remote}{}", certificates(tls.as_ref()))
            }
            LinkKind::Listen { local, peer, tls } => {
                write!(
                    f,
                    "listen {local} peer {peer}{}",
                    certificates(tls.as_ref())
                )
            }
            LinkKind::Direct {
                device,
                netns,
                network,
            } => {
                let within = within(netns.as_deref());
                write!(f, "direct {}{within} network {network}", word(device))
            }
        }
    }
}

impl Display for Peer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Peer::Any => f.write_str("any"),
            Peer::Address(address) => write!(f, "{address}"),
            Peer::Name(name) => f.write_str(name),
        }
    }
}

impl Display for Route {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(
            f,
            "{} {} {} {}",
            self.network, self.source, self.destination, self.to
        )?;
        match &self.from {
            Some(from) => write!(f, " from {from}"),
            None => Ok(()),
        }
    }
}

impl Display for Qualifier {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Qualifier::Is(mac) => write!(f, "{mac}"),
            Qualifier::Not(mac) => write!(f, "not-{mac}"),
            Qualifier::Any => f.write_str("any"),
            Qualifier::None => f.write_str("none"),
        }
    }
}

impl Display for PortName {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            PortName::Interface(name) => write!(f, "interface {name}"),
            PortName::Link(name) => write!(f, "link {name}"),
        }
    }
}

impl Display for Dispatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "dispatchers {} cpus ", self.dispatchers)?;
        if self.cpus.is_empty() {
            f.write_str("none")?;
        } else {
            write!(f, "{}", self.cpus)?;
        }
        let realtime = on(self.realtime);
        write!(
            f,
            " mode {} idle {} realtime {realtime}",
            self.mode, self.idle
        )
    }
}

impl Display for Mode {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Mode::GuestDriven => f.write_str("guest"),
            Mode::VmmDriven => f.write_str("vmm"),
            Mode::Adaptive(Thresholds::Wakeups { enter, leave, idle }) => {
                write!(f, "adaptive:wakeups={enter}/{leave}/{}", exact(*idle))
            }
            Mode::Adaptive(Thresholds::Rate {
                enter,
                leave,
                window,
            }) => write!(f, "adaptive:rate={enter}/{leave}/{}", exact(*window)),
        }
    }
}

impl Display for Yield {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Yield::Immediate => f.write_str("immediate"),
            Yield::Timed { sleep } => write!(f, "timed:{}", exact(*sleep)),
            Yield::Adaptive { sleep, after } => {
                write!(f, "adaptive:{}/{}", exact(*sleep), exact(*after))
            }
        }
    }
}

fn at(local: Option<SocketAddr>) -> String {
    local.map_or_else(String::new, |local| format!(" local {local}"))
}

fn certificates(tls: Option<&Tls>) -> String {
    let Some(tls) = tls else {
        return String::new();
    };
    format!(
        " certificate {} certificate-key {} authority {}",
        path(&tls.certificate),
        path(&tls.key),
        path(&tls.authority)
    )
}

fn within(netns: Option<&Path>) -> String {
    netns.map_or_else(String::new, |file| format!(" netns {}", path(file)))
}

fn path(path: &Path) -> String {
    word(&path.to_string_lossy()).into_owned()
}

/// A word that is read as one.
fn word(text: &str) -> Cow<'_, str> {
    if text.contains(|c: char| c.is_whitespace() || c == '#') || text.is_empty() {
        format!("\"{text}\"").into()
    } else {
        text.into()
    }
}

const fn on(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// A time in the largest unit that says it exactly.
fn exact(time: Nanos) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let fits = units.iter().find(|(_, factor)| time.0 % factor == 0);
    match fits {
        Some((unit, factor)) => format!("{}{unit}", time.0 / factor),
        None => format!("{}ns", time.0),
    }
}
