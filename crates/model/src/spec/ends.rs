//! The ends of a measurement, and the way between them.

use std::fmt;

use super::reader::read;
use super::yaml::Yaml;
use crate::diagnostic::{Diagnostics, Spanned};

/// One end of a measurement: a node, and optionally which of its interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub node: String,
    /// Interface; the first link that joins both nodes otherwise.
    pub interface: Option<String>,
}

/// The two ends of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Ends {
    pub from: Spanned<Target>,
    pub to: Spanned<Target>,
}

impl Ends {
    /// The nodes that packets pass, both ends included.
    pub fn way<'a>(&'a self, through: &'a [Spanned<String>]) -> Vec<Waypoint<'a>> {
        let mut way = vec![Waypoint::from(&self.from.value)];
        way.extend(through.iter().map(|node| Waypoint::from(node.as_str())));
        way.push(Waypoint::from(&self.to.value));
        way
    }
}

/// A node on the way of packets, and its interface where that is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waypoint<'a> {
    pub node: &'a str,
    pub interface: Option<&'a str>,
}

impl Waypoint<'_> {
    /// Whether an interface of the node is the one that is meant.
    pub fn has(&self, interface: &str) -> bool {
        self.interface.is_none_or(|name| name == interface)
    }
}

impl<'a> From<&'a str> for Waypoint<'a> {
    fn from(node: &'a str) -> Waypoint<'a> {
        Waypoint {
            node,
            interface: None,
        }
    }
}

impl<'a> From<&'a Target> for Waypoint<'a> {
    fn from(target: &'a Target) -> Waypoint<'a> {
        Waypoint {
            node: &target.node,
            interface: target.interface.as_deref(),
        }
    }
}

impl fmt::Display for Waypoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.interface {
            Some(interface) => write!(f, "`{}` at `{interface}`", self.node),
            None => write!(f, "`{}`", self.node),
        }
    }
}

pub(super) fn read_target(
    yaml: &Yaml,
    what: &str,
    errors: &mut Diagnostics,
) -> Option<Spanned<Target>> {
    let text = read::<String>(yaml, what, errors)?;
    let (node, interface) = match text.split_once(':') {
        Some((node, interface)) => (node, Some(interface.trim().to_string())),
        None => (text.as_str(), None),
    };
    let node = node.trim().to_string();
    Some(Spanned::new(Target { node, interface }, text.at))
}
