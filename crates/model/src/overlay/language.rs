//! The control language: one command a line, `#` starts a comment.
//!
//! ```text
//! add network NAME vni N [learning on|off] [flood FRAMES-PER-SECOND] [age TIME]
//! add interface NAME network NETWORK vhost-user SOCKET [client on] [queues N]
//!               [interrupts batch|early|before-data] [cut-through on|off] [mac MAC,…] [mtu N] [mode MODE]
//! add interface NAME network NETWORK tap DEVICE [netns FILE] [queues N] [mac …] [mtu N] [mode MODE]
//! add interface NAME network NETWORK veth DEVICE [netns FILE] [mac …] [mtu N]
//! add link NAME vxlan|udp ADDRESS[:PORT] [local ADDRESS[:PORT]]
//! add link NAME sealed ADDRESS[:PORT] key FILE peer HEX [local ADDRESS[:PORT]]
//! add link NAME connect|listen ADDRESS:PORT [certificate FILE certificate-key FILE authority FILE]
//! add link NAME direct DEVICE network NETWORK [netns FILE]
//! add route NETWORK SOURCE DESTINATION interface|link NAME [from interface|link NAME]
//! delete network|interface|link NAME          delete route …as added…
//! set dispatch [dispatchers N] [cpus LIST] [mode MODE] [idle YIELD]
//! set interface NAME [mode MODE] [interrupts …] [cut-through on|off]
//! set network NAME [learning on|off] [flood N] [age TIME]
//! list networks|interfaces|links|routes       show | counters [openmetrics] | matrix | help
//! begin | commit | abort                      what is between takes effect at once, or not at all
//! ```
//!
//! SOURCE and DESTINATION are VNET's: `any`, `none`, a MAC address, or `not-` and one. MODE is `guest`,
//! `vmm`, `adaptive`, `adaptive:wakeups=ENTER/LEAVE/IDLE` (frames per wake-up) or
//! `adaptive:rate=ENTER/LEAVE/WINDOW` (frames per second). YIELD is `immediate`, `timed:SLEEP` or
//! `adaptive:SLEEP/AFTER`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::document::{
    Dispatch, Interface, InterfaceKind, Interrupts, Item, ItemName, Link, LinkKind, Mode, Network,
    Overlay, PortName, Qualifier, Refusal, Route, Thresholds, Tls, Yield,
};
use super::words::{Options, Words, split, unknown};
use crate::spec::Mac;
use crate::units::{CpuList, Nanos};

/// All of it, for people.
pub const HELP: &str = "\
add network NAME vni N [learning on|off] [flood FRAMES-PER-SECOND] [age TIME]
add interface NAME network NETWORK vhost-user SOCKET [client on] [queues N]
              [interrupts batch|early|before-data] [cut-through on|off] [mac MAC,…] [mtu N] [mode MODE]
add interface NAME network NETWORK tap DEVICE [netns FILE] [queues N] [mac …] [mtu N] [mode MODE]
add interface NAME network NETWORK veth DEVICE [netns FILE] [mac …] [mtu N]
add link NAME vxlan|udp ADDRESS[:PORT] [local ADDRESS[:PORT]]
add link NAME sealed ADDRESS[:PORT] key FILE peer HEX [local ADDRESS[:PORT]]
add link NAME connect|listen ADDRESS:PORT [certificate FILE certificate-key FILE authority FILE]
add link NAME direct DEVICE network NETWORK [netns FILE]
add route NETWORK SOURCE DESTINATION interface|link NAME [from interface|link NAME]
delete network|interface|link NAME          delete route …as added…
set dispatch [dispatchers N] [cpus LIST] [mode MODE] [idle YIELD]
set interface NAME [mode MODE] [interrupts …] [cut-through on|off]
set network NAME [learning on|off] [flood N] [age TIME]
list networks|interfaces|links|routes       show | counters [openmetrics] | matrix | help
begin | commit | abort                      what is between takes effect at once, or not at all

SOURCE and DESTINATION are VNET's: any, none, a MAC address, or not- and one. MODE is guest,
vmm, adaptive, adaptive:wakeups=ENTER/LEAVE/IDLE (frames per wake-up) or
adaptive:rate=ENTER/LEAVE/WINDOW (frames per second). YIELD is immediate, timed:SLEEP or
adaptive:SLEEP/AFTER.
";

/// The port of VXLAN (RFC 7348, section 5).
pub const VXLAN_PORT: u16 = 4789;

/// The port of this daemon's own format; in the dynamic range, so nobody's.
pub const UDP_PORT: u16 = 51_789;

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Adds something.
    Add(Item),
    /// Deletes something.
    Delete(ItemName),
    /// Changes how frames are dispatched.
    SetDispatch(Dispatch),
    /// Changes an interface.
    SetInterface(String, Interface),
    /// Changes a network.
    SetNetwork(String, Network),
    /// Lists one kind of things.
    List(ListWhat),
    /// The whole configuration, as the commands that make it.
    Show,
    /// Counters, as text or for OpenMetrics.
    Counters {
        /// In the format of OpenMetrics.
        openmetrics: bool,
    },
    /// Frames and bytes between addresses.
    Matrix,
    /// What can be said.
    Help,
    /// What follows is to take effect at once.
    Begin,
    /// It does.
    Commit,
    /// It does not.
    Abort,
}

/// What `list` lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListWhat {
    /// Networks.
    Networks,
    /// Interfaces.
    Interfaces,
    /// Links.
    Links,
    /// Routes.
    Routes,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{column}: {message}")]
pub struct Mistake {
    /// Where, from 1, in characters.
    pub column: usize,
    /// What.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl Mistake {
    pub(super) fn new(
        column: usize,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Mistake {
        Mistake {
            column,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl From<(usize, Refusal)> for Mistake {
    fn from((column, refusal): (usize, Refusal)) -> Mistake {
        Mistake::new(column, refusal.message, refusal.hint)
    }
}

const VERBS: &[&str] = &[
    "add", "delete", "set", "list", "show", "counters", "matrix", "help", "begin", "commit",
    "abort",
];
const THINGS: &[&str] = &["network", "interface", "link", "route"];

/// Reads one line; `None` when it says nothing. `overlay` is what a `set` starts from.
///
/// # Errors
///
/// What is wrong with it, and where.
pub fn parse(line: &str, overlay: &Overlay) -> Result<Option<Command>, Mistake> {
    let mut words = Words::new(split(line)?);
    if words.peek().is_none() {
        return Ok(None);
    }
    let verb = words.next("a command", "`help` lists them")?;
    let command = match verb.text.as_str() {
        "add" => Command::Add(add(words)?),
        "delete" => Command::Delete(delete(words)?),
        "set" => set(words, overlay)?,
        "list" => {
            let what = words.next("what to list", "one of networks, interfaces, links, routes")?;
            let list = match what.text.as_str() {
                "networks" => ListWhat::Networks,
                "interfaces" => ListWhat::Interfaces,
                "links" => ListWhat::Links,
                "routes" => ListWhat::Routes,
                _ => {
                    let known = ["networks", "interfaces", "links", "routes"];
                    return Err(unknown("list", &what, &known));
                }
            };
            words.end()?;
            Command::List(list)
        }
        "counters" => {
            let openmetrics = match words.peek() {
                None => false,
                Some(word) if word.text == "openmetrics" => true,
                Some(word) => return Err(unknown("format", word, &["openmetrics"])),
            };
            Command::Counters { openmetrics }
        }
        simple => {
            let command = match simple {
                "show" => Command::Show,
                "matrix" => Command::Matrix,
                "help" => Command::Help,
                "begin" => Command::Begin,
                "commit" => Command::Commit,
                "abort" => Command::Abort,
                _ => return Err(unknown("command", &verb, VERBS)),
            };
            words.end()?;
            command
        }
    };
    Ok(Some(command))
}

/// Reads a file of commands into an overlay: only `add` and `set` mean something there.
///
/// # Errors
///
/// The first mistake, with its line.
pub fn parse_file(text: &str) -> Result<Overlay, (usize, Mistake)> {
    let mut overlay = Overlay::default();
    for (index, line) in text.lines().enumerate() {
        let wrong = |mistake| (index + 1, mistake);
        let Some(command) = parse(line, &overlay).map_err(wrong)? else {
            continue;
        };
        overlay
            .apply(&command)
            .map_err(|refusal| wrong((1, refusal).into()))?;
    }
    Ok(overlay)
}

impl Overlay {
    /// Carries out a command that changes the configuration.
    ///
    /// # Errors
    ///
    /// Why it is not; nothing is changed then. A command that changes nothing is refused too.
    pub fn apply(&mut self, command: &Command) -> Result<(), Refusal> {
        match command {
            Command::Add(item) => self.add(item.clone()),
            Command::Delete(name) => self.delete(name),
            Command::SetDispatch(dispatch) => {
                self.dispatch = dispatch.clone();
                Ok(())
            }
            Command::SetInterface(name, interface) => {
                self.interfaces.insert(name.clone(), interface.clone());
                Ok(())
            }
            Command::SetNetwork(name, network) => {
                self.networks.insert(name.clone(), network.clone());
                Ok(())
            }
            _ => Err(Refusal {
                message: "this changes no configuration".into(),
                hint: "a file holds `add` and `set`, nothing else".into(),
            }),
        }
    }
}

fn add(mut words: Words) -> Result<Item, Mistake> {
    let thing = words.next("what to add", "one of network, interface, link, route")?;
    match thing.text.as_str() {
        "network" => {
            let name = name(&mut words, "network")?;
            let mut options = words.options(&["vni", "learning", "flood", "age"])?;
            let vni = options.need("vni", "a number below 16777216", |text| {
                text.parse().ok().filter(|vni: &u32| *vni < 1 << 24)
            })?;
            let network = network(&mut options, Network::new(vni))?;
            options.done("a network")?;
            Ok(Item::Network(name, network))
        }
        "interface" => {
            let name = name(&mut words, "interface")?;
            Ok(Item::Interface(name, interface(words)?))
        }
        "link" => {
            let name = name(&mut words, "link")?;
            Ok(Item::Link(name, Link { kind: link(words)? }))
        }
        "route" => Ok(Item::Route(route(words)?)),
        _ => Err(unknown("thing", &thing, THINGS)),
    }
}

fn delete(mut words: Words) -> Result<ItemName, Mistake> {
    let thing = words.next("what to delete", "one of network, interface, link, route")?;
    let item = match thing.text.as_str() {
        "network" => ItemName::Network(name(&mut words, "network")?),
        "interface" => ItemName::Interface(name(&mut words, "interface")?),
        "link" => ItemName::Link(name(&mut words, "link")?),
        "route" => return Ok(ItemName::Route(route(words)?)),
        _ => return Err(unknown("thing", &thing, THINGS)),
    };
    words.end()?;
    Ok(item)
}

fn set(mut words: Words, overlay: &Overlay) -> Result<Command, Mistake> {
    let things = ["dispatch", "interface", "network"];
    let thing = words.next("what to set", "one of dispatch, interface, network")?;
    let column = thing.column;
    match thing.text.as_str() {
        "dispatch" => {
            let mut options = words.options(&["dispatchers", "cpus", "mode", "idle"])?;
            let mut dispatch = overlay.dispatch.clone();
            if let Some(threads) = options.get("dispatchers", "a number from 1 to 64", |text| {
                text.parse().ok().filter(|n| (1..=64).contains(n))
            })? {
                dispatch.dispatchers = threads;
            }
            if let Some(cpus) = options.get("cpus", "a list as 0-3,8, or none", cpus)? {
                dispatch.cpus = cpus;
            }
            if let Some(mode) = options.get("mode", MODES, mode)? {
                dispatch.mode = mode;
            }
            if let Some(idle) = options.get("idle", YIELDS, yields)? {
                dispatch.idle = idle;
            }
            Ok(Command::SetDispatch(dispatch))
        }
        "interface" => {
            let name = name(&mut words, "interface")?;
            let known = overlay.interfaces.get(&name);
            let mut interface = super::document::missing(
                "interface",
                &name,
                known.cloned(),
                overlay.interfaces.keys(),
            )
            .map_err(|refusal| (column, refusal))?;
            let mut options = words.options(&["mode", "interrupts", "cut-through"])?;
            if let Some(mode) = options.get("mode", MODES, mode)? {
                interface.mode = Some(mode);
            }
            if let InterfaceKind::VhostUser {
                interrupts: when,
                cut_through,
                ..
            } = &mut interface.kind
            {
                if let Some(new) = options.get("interrupts", INTERRUPTS, interrupts)? {
                    *when = new;
                }
                if let Some(on) = options.get("cut-through", "on or off", switch)? {
                    *cut_through = on;
                }
            }
            options.done("this kind of interface")?;
            Ok(Command::SetInterface(name, interface))
        }
        "network" => {
            let name = name(&mut words, "network")?;
            let known = overlay.networks.get(&name);
            let known =
                super::document::missing("network", &name, known.cloned(), overlay.networks.keys())
                    .map_err(|refusal| (column, refusal))?;
            let mut options = words.options(&["learning", "flood", "age"])?;
            Ok(Command::SetNetwork(name, network(&mut options, known)?))
        }
        _ => Err(unknown("thing", &thing, &things)),
    }
}

fn network(options: &mut Options, mut network: Network) -> Result<Network, Mistake> {
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

fn interface(words: Words) -> Result<Interface, Mistake> {
    let kinds = ["vhost-user", "tap", "veth"];
    let mut options = words.options(&[
        "network",
        "vhost-user",
        "tap",
        "veth",
        "client",
        "queues",
        "interrupts",
        "cut-through",
        "netns",
        "mac",
        "mtu",
        "mode",
    ])?;
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
            interrupts: options
                .get("interrupts", INTERRUPTS, interrupts)?
                .unwrap_or_default(),
            cut_through: options
                .get("cut-through", "on or off", switch)?
                .unwrap_or(true),
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

fn link(words: Words) -> Result<LinkKind, Mistake> {
    let kinds = ["vxlan", "udp", "sealed", "connect", "listen", "direct"];
    let mut known = kinds.to_vec();
    known.extend(["local", "key", "peer", "network", "netns"]);
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
            "listen" => LinkKind::Listen {
                local: at,
                tls: tls(&mut options)?,
            },
            _ => udp(&kind, at, &mut options, wanted, address)?,
        }
    };
    options.done(&format!("a {kind} link"))?;
    Ok(made)
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
    let port = match kind {
        "vxlan" => VXLAN_PORT,
        _ => UDP_PORT,
    };
    let anywhere = match remote {
        SocketAddr::V4(_) => IpAddr::from([0, 0, 0, 0]),
        SocketAddr::V6(_) => IpAddr::from([0; 16]),
    };
    let local = local.unwrap_or(SocketAddr::new(anywhere, port));
    Ok(match kind {
        "vxlan" => LinkKind::Vxlan { remote, local },
        "udp" => LinkKind::Udp { remote, local },
        _ => LinkKind::Sealed {
            remote,
            local,
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

fn route(mut words: Words) -> Result<Route, Mistake> {
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
    let to = port(&mut words)?;
    let from = match words.peek() {
        None => None,
        Some(word) if word.text == "from" => {
            words.next("from", "")?;
            Some(port(&mut words)?)
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

fn port(words: &mut Words) -> Result<PortName, Mistake> {
    let kind = words.next("interface or link", "write `interface NAME` or `link NAME`")?;
    match kind.text.as_str() {
        "interface" => Ok(PortName::Interface(name(words, "interface")?)),
        "link" => Ok(PortName::Link(name(words, "link")?)),
        _ => Err(unknown("port", &kind, &["interface", "link"])),
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

fn name(words: &mut Words, kind: &str) -> Result<String, Mistake> {
    let word = words.next(&format!("the name of the {kind}"), "write it here")?;
    valid_name(&word.text).ok_or_else(|| {
        Mistake::new(
            word.column,
            format!("`{}` is no name", crate::diagnostic::shown(&word.text)),
            "1 to 63 letters, digits, dots, dashes and underscores",
        )
    })
}

fn valid_name(text: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let valid = (1..=63).contains(&text.len()) && text.chars().all(fits);
    valid.then(|| text.to_string())
}

fn device(word: super::words::Word) -> Result<String, Mistake> {
    // The kernel's own rule (dev_valid_name).
    let bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    let text = word.text;
    if text.is_empty() || text.len() > 15 || text.contains(bad) || text == "." || text == ".." {
        return Err(Mistake::new(
            word.column,
            format!(
                "`{}` is no name of an interface",
                crate::diagnostic::shown(&text)
            ),
            "1 to 15 bytes without blanks, `/` and `:`",
        ));
    }
    Ok(text)
}

fn file(text: &str) -> Option<PathBuf> {
    (!text.is_empty() && !text.contains('\0')).then(|| PathBuf::from(text))
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn cpus(text: &str) -> Option<CpuList> {
    match text {
        "none" => Some(CpuList::default()),
        _ => CpuList::parse(text),
    }
}

fn address(text: &str, default_port: Option<u16>) -> Option<SocketAddr> {
    if let Ok(with_port) = text.parse() {
        return Some(with_port);
    }
    let address: IpAddr = text.parse().ok()?;
    Some(SocketAddr::new(address, default_port?))
}

const MODES: &str =
    "guest, vmm, adaptive, adaptive:wakeups=10/5/50us or adaptive:rate=10000/1000/10ms";
const YIELDS: &str = "immediate, timed:100us or adaptive:100us/50us";
const INTERRUPTS: &str = "batch, early or before-data";

fn interrupts(text: &str) -> Option<Interrupts> {
    match text {
        "batch" => Some(Interrupts::Batch),
        "early" => Some(Interrupts::Early),
        "before-data" => Some(Interrupts::BeforeData),
        _ => None,
    }
}

fn mode(text: &str) -> Option<Mode> {
    let thresholds = match text {
        "guest" => return Some(Mode::GuestDriven),
        "vmm" => return Some(Mode::VmmDriven),
        "adaptive" => Thresholds::default(),
        _ => {
            let (by, bounds) = text.strip_prefix("adaptive:")?.split_once('=')?;
            let mut bounds = bounds.split('/');
            let enter: u32 = bounds.next()?.parse().ok()?;
            let leave: u32 = bounds.next()?.parse().ok()?;
            let time = Nanos::parse(bounds.next()?)?;
            if leave >= enter || bounds.next().is_some() || time.0 == 0 {
                return None;
            }
            match by {
                "wakeups" => Thresholds::Wakeups {
                    enter,
                    leave,
                    idle: time,
                },
                "rate" => Thresholds::Rate {
                    enter,
                    leave,
                    window: time,
                },
                _ => return None,
            }
        }
    };
    Some(Mode::Adaptive(thresholds))
}

fn yields(text: &str) -> Option<Yield> {
    if text == "immediate" {
        return Some(Yield::Immediate);
    }
    let (kind, times) = text.split_once(':')?;
    match kind {
        "timed" => Nanos::parse(times).map(|sleep| Yield::Timed { sleep }),
        "adaptive" => {
            let (sleep, after) = times.split_once('/')?;
            let (sleep, after) = (Nanos::parse(sleep)?, Nanos::parse(after)?);
            Some(Yield::Adaptive { sleep, after })
        }
        _ => None,
    }
}
