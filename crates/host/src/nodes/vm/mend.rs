//! A guest whose move, save or restore was cut off.
//!
//! Both QEMUs are asked. A target that runs has the guest. While the source has not handed it over, which only a latlab
//! tells it to do (`migrate-continue`), the target is ended and the source goes on. In between the target is waited for:
//! it begins to run by itself.

use std::path::Path;
use std::time::{Duration, Instant};

use latlab_model::snapshot::SavedAs;

use super::command_line::process_name;
use super::copy;
use super::error::Error;
use super::guest::Vm;
use super::migrate;
use super::state;
use crate::nodes::driver::Node;
use crate::nodes::mend::{Act, Found};
use crate::nodes::session;
use crate::sys::process::{self, Process};

/// The wait for a target to load what it was sent, and for a QEMU that is being started.
const LOAD_TIMEOUT: Duration = Duration::from_secs(60);
const CHANNEL_TIMEOUT: Duration = Duration::from_secs(120);

/// The state of a guest that moves away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Ended, or silent.
    Gone,
    Has,
    /// The guest is on its way, and the target may have begun to run.
    HandedOver,
}

/// The state of a guest at the QEMU that it is to go on in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Has,
    Loads,
    /// QEMU was not told to load it. As the latlab that would tell it is gone, it waits for ever.
    Waits,
}

/// The place where a guest goes on; none if it has ended at both. `dir` is the directory of the other QEMU.
pub(super) fn find(node: &Node<'_>, act: Act, dir: &Path) -> Result<Option<Found>, session::Error> {
    let name = &node.plan.name;
    let source = node.process.map(|id| Vm::attach(name, &node.dir, id));
    let source = source.and_then(Result::ok).filter(|vm| vm.health().is_ok());
    let other = other(node)?.map(|process| Vm::attach(name, dir, process.id()));
    let other = other.transpose()?;
    let deadline = Instant::now() + LOAD_TIMEOUT;
    loop {
        let at_source = match &source {
            Some(vm) if act == Act::Move => ask_source(vm)?,
            Some(_) => Source::Has,
            None => Source::Gone,
        };
        if at_source == Source::Has {
            if let Some(other) = &other {
                other.end()?;
            }
            if let Some(source) = &source {
                migrate::take_back(&mut source.qmp()?)?;
            }
            return Ok(Some(Found::Before));
        }
        let Some(other) = &other else { return Ok(None) };
        match ask_target(other, act) {
            Ok(Target::Has) => return Ok(Some(Found::After(other.id()))),
            Ok(Target::Waits) => {
                other.end()?;
                return Ok(None);
            }
            Ok(Target::Loads) => {}
            Err(error) => {
                // A QEMU that ends closes its sockets before it is gone.
                return match other.end_of_its_own() {
                    Some(_) => Ok(None),
                    None => Err(error.into()),
                };
            }
        }
        if other.health().is_err() {
            return Ok(None);
        }
        if Instant::now() >= deadline {
            return Err(state::failed("it is still being loaded; try again").into());
        }
        std::thread::sleep(state::POLL_INTERVAL);
    }
}

fn ask_source(vm: &Vm) -> Result<Source, Error> {
    if vm.health().is_err() {
        return Ok(Source::Gone);
    }
    let mut qmp = vm.qmp()?;
    let status = state::status(&mut qmp, "query-status")?;
    let migration = state::status(&mut qmp, "query-migrate")?;
    Ok(match (status.as_deref(), migration.as_deref()) {
        // A former migration is told of for ever, so the guest's own state comes first.
        (Some("postmigrate"), _) | (Some("finish-migrate"), Some("device" | "completed")) => {
            Source::HandedOver
        }
        _ => Source::Has,
    })
}

/// The state of a guest in a QEMU that it was sent to or, of a restore, is loaded in.
fn ask_target(vm: &Vm, act: Act) -> Result<Target, Error> {
    // One that is still being started answers later, or ends.
    let Ok(mut qmp) = vm.qmp_within(LOAD_TIMEOUT) else {
        return Ok(Target::Loads);
    };
    if state::runs(&mut qmp)? {
        return Ok(Target::Has);
    }
    if act != Act::Restore {
        return Ok(Target::Loads);
    }
    Ok(match state::status(&mut qmp, "query-migrate")?.as_deref() {
        Some("completed") => Target::Has,
        Some(_) => Target::Loads,
        None => Target::Waits,
    })
}

/// Another QEMU of this guest than the one that the lab knows.
fn other(node: &Node<'_>) -> Result<Option<Process>, session::Error> {
    let name = process_name(&node.plan.name);
    let mut all = process::labelled(node.lab_id)?;
    all.retain(|process| {
        let line = std::fs::read(format!("/proc/{}/cmdline", process.id().pid)).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        let is_named = |pair: &[&[u8]]| pair[0] == b"-name" && pair[1] == name.as_bytes();
        words.windows(2).any(is_named) && Some(process.id()) != node.process
    });
    Ok(all.pop())
}

/// Lets the guest go on where it was found, and ends its other QEMU. `saved` is the identity that it was saved
/// with.
pub(super) fn settle(
    node: &Node<'_>,
    act: Act,
    found: Found,
    dir: &Path,
    saved: &SavedAs,
) -> Result<(), session::Error> {
    let name = &node.plan.name;
    let source = node
        .process
        .and_then(|id| Vm::attach(name, &node.dir, id).ok());
    match found {
        Found::Before => {
            let source = source.ok_or(Error::CardsGone)?;
            Ok(state::go_on(&mut source.qmp()?)?)
        }
        Found::After(process) => {
            if let Some(source) = source.filter(|source| source.id() != process) {
                source.end()?;
            }
            if act == Act::Restore {
                let vm = Vm::attach(name, dir, process)?;
                copy::go_on(&vm, saved, node, CHANNEL_TIMEOUT)?;
            }
            Ok(())
        }
    }
}
