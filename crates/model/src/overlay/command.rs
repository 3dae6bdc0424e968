//! Commands of the control language.

use std::collections::BTreeSet;

use super::change::{Item, ItemName};
use super::document::{Dispatch, Interface, Network};
use super::moves::{Hold, Move};
use crate::spec::Mac;
use crate::words::vocabulary;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Add(Item),
    Delete(ItemName),
    SetDispatch(Dispatch),
    SetInterface(String, Interface),
    SetNetwork(String, Network),
    List(ListWhat),
    /// The whole configuration, as the commands that make it.
    Show,
    /// Counters, as text or for OpenMetrics.
    Counters {
        openmetrics: bool,
    },
    /// Frames and bytes between addresses.
    Matrix,
    Help,
    Hold(Hold),
    Release(BTreeSet<Mac>),
    Move(Move),
    /// This connection alone changes the configuration by what it measures, until it is closed.
    Adapt,
    /// Begins commands that take effect at once.
    Begin,
    Commit,
    Abort,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListWhat {
    Networks,
    Interfaces,
    Links,
    Routes,
    Holds,
    Moves,
}

vocabulary!(ListWhat, {
    "networks" => Networks, "interfaces" => Interfaces, "links" => Links, "routes" => Routes, "holds" => Holds,
    "moves" => Moves,
});
