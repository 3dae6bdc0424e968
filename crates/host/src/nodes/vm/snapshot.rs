//! Saving a guest with all its state, and going on from there.
//!
//! QEMU migrates the guest into a file. It copies memory while the guest runs and stops it for the rest only; then the
//! guest goes on. An emulator before version 9 loses pages that a busy guest writes meanwhile, so there the guest stops
//! for the whole copy.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::clock;
use super::error::Error;
use super::guest::Vm;
use super::qemu::{Origin, STATE_FD, VmConfig};
use super::qmp::Qmp;
use super::state;
use crate::nodes::Stood;
use crate::sys::cgroup_entry::CgroupEntry;

/// The file of a guest's devices and memory.
pub(super) const STATE: &str = "state";

/// Writes the guest's state into a new file and returns when the guest stood still for it. It runs afterwards if it ran
/// before.
pub(super) fn save(vm: &Vm, is_emulated: bool, into: &Path) -> Result<Option<Stood>, Error> {
    let path = into.join(STATE);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600);
    let file = file.open(&path).map_err(Error::io("create", &path))?;
    let mut qmp = vm.qmp()?;
    let runs = state::runs(&mut qmp)?;
    let is_live = state::can_copy_running(&mut qmp, is_emulated)?;
    if !runs {
        state::make_savable(&mut qmp)?;
    }
    qmp.forget_events();
    if runs && !is_live {
        qmp.execute("stop", &json!({}))?;
    }
    let saved = migrate_into(&mut qmp, &file);
    if runs {
        state::go_on(&mut qmp)?;
    }
    saved?;
    file.sync_all().map_err(Error::io("write", &path))?;
    let at = |event: &str| qmp.event_at(event).map(clock::monotonic_of);
    let stood = at("STOP").zip(at("RESUME"));
    Ok(stood.map(|(stopped_ns, running_ns)| Stood {
        stopped_ns,
        running_ns,
    }))
}

fn migrate_into(qmp: &mut Qmp, file: &File) -> Result<(), Error> {
    // A guest that began as a clone left its memory out, and a move that failed leaves it waiting before the end.
    let off = |name: &str| json!({"capability": name, "state": false});
    let all = json!([off("x-ignore-shared"), off("pause-before-switchover")]);
    qmp.execute("migrate-set-capabilities", &json!({"capabilities": all}))?;
    qmp.execute("migrate-set-parameters", &state::limits())?;
    qmp.execute_with("getfd", &json!({"fdname": STATE}), &[file.as_fd()])?;
    qmp.execute("migrate", &json!({"uri": format!("fd:{STATE}")}))?;
    let begin = Instant::now();
    let mut is_stopped = false;
    while !state::is_migrated(qmp)? {
        if !is_stopped && begin.elapsed() > state::MAX_RUNNING {
            qmp.execute("stop", &json!({}))?;
            is_stopped = true;
        }
        if begin.elapsed() > state::TIMEOUT {
            qmp.execute("migrate_cancel", &json!({}))?;
            return Err(state::failed(&format!(
                "not done within {} s",
                state::TIMEOUT.as_secs()
            )));
        }
        std::thread::sleep(state::POLL_INTERVAL);
    }
    Ok(())
}

/// Starts a QEMU that has loaded the state and stands still. Fails when QEMU refuses it; nothing of it runs then.
pub(super) fn load(
    config: &VmConfig<'_>,
    cgroup: Option<&CgroupEntry>,
    state: &File,
    timeout: Duration,
) -> Result<Vm, Error> {
    let config = VmConfig {
        origin: Origin::Saved {
            state: state.as_fd(),
            waits: true,
        },
        ..config.clone()
    };
    let vm = Vm::start(&config, cgroup)?;
    let loaded = || -> Result<(), Error> {
        let mut qmp = vm.qmp_within(timeout)?;
        let source = json!({"uri": format!("fd:{STATE_FD}")});
        qmp.execute("migrate-incoming", &source)?;
        let deadline = Instant::now() + timeout;
        while !state::is_migrated(&mut qmp)? {
            if Instant::now() > deadline {
                return Err(state::failed("QEMU did not load it in time"));
            }
            std::thread::sleep(state::POLL_INTERVAL);
        }
        Ok(())
    };
    loaded().map_err(|error| vm.end_because(error))?;
    Ok(vm)
}
