//! Receiving halves in the hands of a dispatcher.

use std::sync::Arc;

use latlab_model::overlay::Mode;

use crate::endpoints::{Counters, Receive};

pub struct Input {
    /// Chosen by control, to address the input.
    pub key: InputKey,
    pub name: String,
    pub receive: Box<dyn Receive>,
    pub mode: Mode,
    pub counters: Arc<Counters>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InputKey(pub u32);
