//! `actions:` of a measurement: things done to the lab within the measured window.

use super::reader::Object;
use super::yaml::{Value, Yaml};
use crate::diagnostic::{Diagnostics, Spanned, shown};
use crate::units::Nanos;

/// A node of the lab stands still for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    /// When it begins, from the begin of the measured window.
    pub at: Spanned<Nanos>,
    pub node: Spanned<String>,
    /// How long it lasts.
    pub lasts: Nanos,
}

impl Action {
    pub fn end(&self) -> Nanos {
        Nanos(self.at.value.0.saturating_add(self.lasts.0))
    }

    /// As it is shown with results.
    pub fn describe(&self) -> String {
        let (node, lasts, at) = (&self.node.value, self.lasts, self.at.value);
        format!("`{node}` paused for {lasts} at {at}")
    }
}

/// More would be a load, and their own record a nuisance.
const MAX_ACTIONS: usize = 100;

/// Reads `actions:` of `o`.
pub(super) fn read_all(o: &mut Object<'_>, errors: &mut Diagnostics) -> Vec<Action> {
    let what = format!("`actions` of {}", o.what);
    let Some(yaml) = o.take("actions") else {
        return Vec::new();
    };
    let hint = "for example `- {at: 1s, do: {pause: server, for: 200ms}}`";
    let Value::Seq(items) = &yaml.value else {
        errors.add(yaml.at, format!("{what} must be a list"), hint);
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
    let at = o.require("at", errors).is_some();
    let at = at.then(|| o.get::<Nanos>("at", errors)).flatten();
    let act = o.require("do", errors).is_some();
    let act = act.then(|| o.take("do")).flatten();
    o.finish(errors);
    let mut act = Object::new(act?, format!("`do` in {list}"), errors);
    let node = act.require("pause", errors).is_some();
    let node = node.then(|| act.get::<String>("pause", errors)).flatten();
    let lasts = act.require("for", errors).is_some();
    let lasts = lasts.then(|| act.get::<Nanos>("for", errors)).flatten();
    act.finish(errors);
    Some(Action {
        at: at?,
        node: node?,
        lasts: lasts?.value,
    })
}

/// Refuses actions that end after the window of `duration`, and two at a time for one node.
pub(super) fn check(actions: &[Action], what: &str, duration: Nanos, errors: &mut Diagnostics) {
    for (index, action) in actions.iter().enumerate() {
        if action.end() > duration {
            let message = format!(
                "{what} pauses `{}` until {}, after its end at {duration}",
                shown(&action.node),
                action.end()
            );
            let hint =
                "all of it lies within `duration`; packets after it show how the node recovers";
            errors.add(action.at.at, message, hint);
        }
        let overlaps = |other: &&Action| {
            other.node.value == action.node.value
                && other.at.value < action.end()
                && action.at.value < other.end()
        };
        if let Some(other) = actions[..index].iter().find(overlaps) {
            let message = format!(
                "{what} pauses `{}` at {} while it is paused already",
                shown(&action.node),
                action.at.value
            );
            let hint = format!("the other pause ends at {}", other.end());
            errors.add(action.at.at, message, hint);
        }
    }
}
