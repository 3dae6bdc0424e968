use latlab_model::profile::{Cores, Wanted};

use super::files;
use crate::tuning::items::{Form, Item, Value};
use crate::tuning::journal::Entry;
use crate::tuning::root::Root;

#[derive(Debug, Clone, Copy)]
pub struct Machine<'m> {
    pub root: &'m Root,
    pub cores: &'m Cores,
}

/// Why a knob has no targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnobError {
    /// This machine does not have the knob: the reason.
    Absent(String),
    /// The machine cannot have the wanted value: message and hint.
    Impossible(String, String),
}

impl From<String> for KnobError {
    fn from(reason: String) -> KnobError {
        KnobError::Absent(reason)
    }
}

impl From<(String, String)> for KnobError {
    fn from((message, hint): (String, String)) -> KnobError {
        KnobError::Impossible(message, hint)
    }
}

/// Items, each with its wanted value.
pub type Targets = Vec<(Item, Value)>;

/// How the wanted value becomes the items' values.
#[derive(Debug, Clone, Copy)]
pub enum Mapping {
    /// All items get the same text.
    Same(fn(&Machine<'_>, &Wanted) -> Result<String, KnobError>),
    /// Each item gets its own value; items may be left out or added.
    Each(fn(&Machine<'_>, &Wanted) -> Result<Targets, KnobError>),
    /// As `Each`, where the values depend on the items' state before tuning: `retarget` gives an item that is
    /// already tuned its value in a new CPU split.
    Moving {
        each: fn(&Machine<'_>, &Wanted) -> Result<Targets, KnobError>,
        retarget: fn(&Machine<'_>, &Wanted, &Entry) -> Result<Value, KnobError>,
    },
}

/// The items on a machine; a text says why it has none.
#[derive(Debug, Clone, Copy)]
pub enum Items {
    File(&'static str, Form, &'static str),
    /// All files that match a pattern.
    Files(&'static str, Form, &'static str),
    Found(fn(&Machine<'_>) -> Result<Vec<Item>, String>),
    /// As `Found`, of items that come and go (threads), so they are scanned again after the writes.
    Moving(fn(&Machine<'_>) -> Result<Vec<Item>, String>),
}

impl Items {
    pub fn find(&self, machine: &Machine<'_>) -> Result<Vec<Item>, String> {
        match *self {
            Items::File(path, form, without) => files::one(machine.root, path, form, without),
            Items::Files(pattern, form, without) => {
                files::each(machine.root, pattern, form, without)
            }
            Items::Found(find) | Items::Moving(find) => find(machine),
        }
    }
}

#[derive(Debug)]
pub struct Knob {
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// A paper's section, or a document of the kernel.
    pub evidence: &'static str,
    /// Costs, and what may go wrong.
    pub risk: &'static str,
    pub items: Items,
    pub mapping: Mapping,
}

impl Knob {
    /// Whether its items come and go.
    pub fn moves(&self) -> bool {
        matches!(self.items, Items::Moving(_))
    }

    /// Errors: the machine does not have the knob, or cannot have the value.
    pub fn targets(&self, machine: &Machine<'_>, wanted: &Wanted) -> Result<Targets, KnobError> {
        match self.mapping {
            Mapping::Each(each) | Mapping::Moving { each, .. } => each(machine, wanted),
            Mapping::Same(text) => {
                let value = Value::Text(text(machine, wanted)?);
                let items = self.items.find(machine)?;
                Ok(items.into_iter().map(|i| (i, value.clone())).collect())
            }
        }
    }
}
