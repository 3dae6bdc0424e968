//! The imports of every knob.

pub(super) use super::files;
pub(super) use super::knob::{Items, Knob, KnobError, Machine, Mapping, Targets};
pub(super) use super::values::*;
pub(super) use crate::tuning::items::{Form, Item, Value};
pub(super) use crate::tuning::journal::Entry;
pub(super) use latlab_model::profile::Wanted;
