//! The control language: one command a line, `#` starts a comment.
//!
#![doc = concat!("```text\n", include_str!("help.txt"), "```")]

use super::change::{Item, ItemName, Refusal, refuse};
use super::command::{Command, ListWhat};
use super::document::{InterfaceKind, Network, Overlay};
use super::items::{SWITCHES, interface, link, network, route, switches};
use super::mistake::Mistake;
use super::moves::{hold, moved, release};
use super::values::{MODES, YIELDS, cpus, mode, name, switch, yields};
use super::words::{Words, split, unknown};

pub const HELP: &str = include_str!("help.txt");

const VERBS: &[&str] = &[
    "add", "delete", "set", "hold", "release", "move", "adapt", "list", "show", "counters",
    "matrix", "help", "begin", "commit", "abort",
];
const THINGS: &[&str] = &["network", "interface", "link", "route"];

/// Reads one line; `None` when it says nothing. `overlay` is what a `set` starts from.
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
        "hold" => Command::Hold(hold(words)?),
        "release" => Command::Release(release(words)?),
        "move" => Command::Move(moved(words)?),
        "list" => Command::List(list(words)?),
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
                "adapt" => Command::Adapt,
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

/// Reads a file of commands into an overlay: only `add` and `set` mean something there. Errors: the first mistake,
/// with its line.
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
    /// Carries out a command that changes the configuration. On an error nothing is changed. A command
    /// that changes nothing is refused too.
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
            _ => refuse(
                "this changes no configuration",
                "a file holds `add` and `set`, nothing else",
            ),
        }
    }
}

fn list(mut words: Words) -> Result<ListWhat, Mistake> {
    let known = ListWhat::WORDS;
    let what = words.next("what to list", &format!("one of {}", known.join(", ")))?;
    let list = ListWhat::of_word(&what.text).ok_or_else(|| unknown("list", &what, known))?;
    words.end()?;
    Ok(list)
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
            Ok(Item::Link(name, link(words)?))
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
            let mut options =
                words.options(&["dispatchers", "cpus", "mode", "idle", "realtime"])?;
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
            if let Some(on) = options.get("realtime", "on or off", switch)? {
                dispatch.realtime = on;
            }
            Ok(Command::SetDispatch(dispatch))
        }
        "interface" => {
            let name = name(&mut words, "interface")?;
            let known = overlay.must_have_interface(&name);
            let mut interface = known.map_err(|refusal| (column, refusal))?.clone();
            let mut options = words.options(&[&["mode"][..], &SWITCHES].concat())?;
            if let Some(mode) = options.get("mode", MODES, mode)? {
                interface.mode = Some(mode);
            }
            if let InterfaceKind::VhostUser { switches: old, .. } = &mut interface.kind {
                *old = switches(&mut options, *old)?;
            }
            options.done("this kind of interface")?;
            Ok(Command::SetInterface(name, interface))
        }
        "network" => {
            let name = name(&mut words, "network")?;
            let known = overlay.must_have_network(&name);
            let known = known.map_err(|refusal| (column, refusal))?.clone();
            let mut options = words.options(&["learning", "flood", "age"])?;
            Ok(Command::SetNetwork(name, network(&mut options, known)?))
        }
        _ => Err(unknown("thing", &thing, &things)),
    }
}
