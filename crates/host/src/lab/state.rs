//! States of labs, read from the disk.

use std::fs;

use latlab_model::state::{LabState, NodeState};

use super::error::Error;
use crate::dirs::Dirs;
use crate::journal::exists;
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

pub(super) fn process_of(state: &NodeState) -> Option<ProcessId> {
    let (pid, start_time) = (state.pid?, state.start_time);
    Some(ProcessId { pid, start_time })
}

pub(super) fn state_of(process: Option<ProcessId>) -> NodeState {
    NodeState {
        pid: process.map(|process| process.pid),
        start_time: process.map_or(0, |process| process.start_time),
        ..NodeState::default()
    }
}
