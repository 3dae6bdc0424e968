//! States of labs, read from the disk.

use std::fs;

use latlab_model::state::{LabState, NodeState};

use super::error::Error;
use crate::dirs::Dirs;
use crate::journal::{Journal, exists};
use crate::sys;
use crate::sys::process::ProcessId;

/// The state of a lab; `None` when its deployment did not get that far.
pub(super) fn read_state(dirs: &Dirs, name: &str) -> Result<Option<LabState>, Error> {
    if !exists(dirs, name) {
        return Err(Error::NoLab(name.to_string()));
    }
    let path = dirs.state(name);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(sys::Error::of("read", path.display())(source).into()),
    };
    // A state that cannot be read is treated as none: the journal is what counts.
    Ok(serde_json::from_str(&text).ok())
}

/// Journal of a lab, for those who only need to know that it exists.
pub(super) fn has_journal(dirs: &Dirs, name: &str) -> Result<bool, Error> {
    Ok(Journal::read(dirs, name)?.is_some())
}

pub(super) fn state_of(process: Option<ProcessId>) -> NodeState {
    NodeState {
        pid: process.map(|process| process.pid),
        start_time: process.map_or(0, |process| process.start_time),
        ..NodeState::default()
    }
}
