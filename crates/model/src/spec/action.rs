//! `actions:` of a measurement: things done to the lab within the measured window.

use super::reader::{Object, items};
use super::yaml::Yaml;
use crate::diagnostic::{Diagnostics, Spanned, nearest, shown};
use crate::results::ActionKind;
use crate::units::Nanos;

/// Something done to a node of the lab.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    /// When it begins, from the begin of the measured window.
    pub at: Spanned<Nanos>,
    pub node: Spanned<String>,
    pub act: Act,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// The node stands still for a while.
    Pause { lasts: Nanos },
    /// The node moves to the hosts of another one.
    Migrate { to: Spanned<String> },
    /// The node is saved, and goes on.
    Snapshot,
    /// The node goes back to where it was last saved in this window.
    Restore,
}

impl Act {
    pub fn kind(&self) -> ActionKind {
        match self {
            Act::Pause { .. } => ActionKind::Pause,
            Act::Migrate { .. } => ActionKind::Migrate,
            Act::Snapshot => ActionKind::Snapshot,
            Act::Restore => ActionKind::Restore,
        }
    }
}

impl Action {
    /// When it is over, where that is known beforehand; else the time of its begin.
    pub fn end(&self) -> Nanos {
        match self.act {
            Act::Pause { lasts } => Nanos(self.at.value.0.saturating_add(lasts.0)),
            _ => self.at.value,
        }
    }

    /// As it is shown with results.
    pub fn describe(&self) -> String {
        let (node, at) = (&self.node.value, self.at.value);
        match &self.act {
            Act::Pause { lasts } => format!("`{node}` paused for {lasts} at {at}"),
            Act::Migrate { to } => format!("`{node}` moved to `{}` at {at}", to.value),
            Act::Snapshot => format!("`{node}` saved at {at}"),
            Act::Restore => format!("`{node}` restored at {at}"),
        }
    }

    fn overlaps(&self, other: &Action) -> bool {
        let (at, other_at) = (self.at.value, other.at.value);
        let meets = at == other_at || (at < other.end() && other_at < self.end());
        self.node.value == other.node.value && meets
    }

    /// The verb of a sentence whose object is the node.
    pub(crate) fn verb(&self) -> &'static str {
        match self.act {
            Act::Pause { .. } => "pauses",
            Act::Migrate { .. } => "moves",
            Act::Snapshot => "saves",
            Act::Restore => "restores",
        }
    }
}

/// More would be a load, and their own record a nuisance.
const MAX_ACTIONS: usize = 100;
/// The words of `do`, each of which names the node.
const ACTS: [&str; 4] = ["pause", "migrate", "snapshot", "restore"];
const EXAMPLES: &str = "for example `{pause: server, for: 200ms}`, `{migrate: server, to: other}` or `{snapshot: server}`";

/// Reads `actions:` of `o`.
pub(super) fn read_all(o: &mut Object<'_>, errors: &mut Diagnostics) -> Vec<Action> {
    let what = format!("`actions` of {}", o.what);
    let Some(yaml) = o.take("actions") else {
        return Vec::new();
    };
    let hint = "for example `- {at: 1s, do: {pause: server, for: 200ms}}`";
    let Some(items) = items(yaml, &what, hint, errors) else {
        return Vec::new();
    };
    if items.len() > MAX_ACTIONS {
        let message = format!("{what} has {} entries", items.len());
        errors.add(yaml.at, message, format!("at most {MAX_ACTIONS}"));
    }
    let read = |item: &Yaml| read(item, &what, errors);
    items.iter().filter_map(read).collect()
}

fn read(yaml: &Yaml, list: &str, errors: &mut Diagnostics) -> Option<Action> {
    let mut o = Object::new(yaml, format!("an entry of {list}"), errors);
    let at = o.need("at", errors);
    let act = o.require("do", errors);
    o.finish(errors);
    let (node, act) = read_act(act?, list, errors)?;
    Some(Action { at: at?, node, act })
}

/// Reads `do:`. Its first word says what, and names the node.
fn read_act(yaml: &Yaml, list: &str, errors: &mut Diagnostics) -> Option<(Spanned<String>, Act)> {
    let mut o = Object::new(yaml, format!("`do` in {list}"), errors);
    let mut named: Vec<(&str, &Yaml)> = Vec::new();
    for word in ACTS {
        named.extend(o.take(word).map(|node| (word, node)));
    }
    let &[(word, _)] = named.as_slice() else {
        // A word that is only misspelt is told as an unknown key.
        let is_close = |key: Spanned<&str>| nearest(&key, ACTS).is_some();
        let is_misspelt = named.is_empty() && o.entries().any(|(key, _)| is_close(key));
        if o.is_mapping() && !is_misspelt {
            let message = format!("`do` in {list} must say one thing to do");
            errors.add(yaml.at, message, EXAMPLES);
        }
        let _ = (o.take("for"), o.take("to"));
        o.finish(errors);
        return None;
    };
    let node = o.get::<String>(word, errors);
    let act = match word {
        "pause" => {
            let lasts = o.need::<Nanos>("for", errors);
            lasts.map(|lasts| Act::Pause { lasts: lasts.value })
        }
        "migrate" => o.need("to", errors).map(|to| Act::Migrate { to }),
        "snapshot" => Some(Act::Snapshot),
        _ => Some(Act::Restore),
    };
    o.finish(errors);
    Some((node?, act?))
}

/// Refuses actions that end after the window of `duration`, two at a time for one node, and a node that is to go back to
/// where it never was.
pub(super) fn check(actions: &[Action], what: &str, duration: Nanos, errors: &mut Diagnostics) {
    for (index, action) in actions.iter().enumerate() {
        let (node, at, verb) = (shown(&action.node), action.at.value, action.verb());
        let until = match action.act {
            Act::Pause { .. } if action.end() > duration => format!("until {}", action.end()),
            Act::Pause { .. } => String::new(),
            _ if at >= duration => format!("at {at}"),
            _ => String::new(),
        };
        if !until.is_empty() {
            let message = format!("{what} {verb} `{node}` {until}, after its end at {duration}");
            let hint =
                "all of it lies within `duration`; packets after it show how the node recovers";
            errors.add(action.at.at, message, hint);
        }
        if let Some(other) = actions[..index].iter().find(|other| action.overlaps(other)) {
            let (also, hint) = match other.act {
                Act::Pause { .. } => (
                    "while it is paused already".to_owned(),
                    format!("the other pause ends at {}", other.end()),
                ),
                _ => (
                    format!("and {} it at {}", other.verb(), other.at.value),
                    "one after the other".to_owned(),
                ),
            };
            let message = format!("{what} {verb} `{node}` at {at} {also}");
            errors.add(action.at.at, message, hint);
        }
        let is_saved = |other: &Action| {
            other.act == Act::Snapshot
                && other.node.value == action.node.value
                && other.at.value < at
        };
        if action.act == Act::Restore && !actions.iter().any(is_saved) {
            let message = format!("{what} restores `{node}` at {at} and does not save it before");
            let hint = format!("begin with `{{at: …, do: {{snapshot: {node}}}}}`");
            errors.add(action.at.at, message, hint);
        }
    }
}
