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

use serde_json::{Value, json};

use super::error::Error;
use super::guest::Vm;
use super::qemu::{Origin, STATE_FD, VmConfig};
use super::qmp::Qmp;
use crate::sys::cgroup_entry::CgroupEntry;

/// The file of a guest's devices and memory.
pub(super) const STATE: &str = "state";

/// The first version whose emulator keeps track of all that a running guest writes.
const TRACKING_EMULATOR: u64 = 9;
/// A guest that writes faster than it is copied is stopped after this.
const MAX_RUNNING: Duration = Duration::from_secs(20);
/// Guests of some gigabytes on a slow disk.
const TIMEOUT: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// No bound on the copy's speed, in bytes per second.
const BANDWIDTH: u64 = 1 << 40;
/// QEMU stops the guest when the rest takes no longer than this.
const DOWNTIME_MS: u64 = 10;

/// Writes the guest's state into a new file and returns how long the guest stood still for it. It runs afterwards if
/// it ran before.
pub(super) fn save(vm: &Vm, is_emulated: bool, into: &Path) -> Result<Duration, Error> {
    let path = into.join(STATE);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600);
    let file = file.open(&path).map_err(Error::io("create", &path))?;
    let mut qmp = vm.qmp()?;
    let runs = runs(&mut qmp)?;
    let is_live = !is_emulated || version(&mut qmp)? >= TRACKING_EMULATOR;
    qmp.forget_events();
    if runs && !is_live {
        qmp.execute("stop", &json!({}))?;
    }
    let saved = migrate_into(&mut qmp, &file);
    if runs {
        qmp.execute("cont", &json!({}))?;
    }
    saved?;
    file.sync_all().map_err(Error::io("write", &path))?;
    let at = |event: &str| qmp.event_at(event);
    Ok(match (at("STOP"), at("RESUME")) {
        (Some(stopped), Some(resumed)) => resumed.saturating_sub(stopped),
        _ => Duration::ZERO,
    })
}

fn runs(qmp: &mut Qmp) -> Result<bool, Error> {
    let status = qmp.execute("query-status", &json!({}))?;
    Ok(status.get("running").and_then(Value::as_bool) == Some(true))
}

/// QEMU's major version.
fn version(qmp: &mut Qmp) -> Result<u64, Error> {
    let version = qmp.execute("query-version", &json!({}))?;
    let major = version.pointer("/qemu/major").and_then(Value::as_u64);
    Ok(major.unwrap_or_default())
}

fn migrate_into(qmp: &mut Qmp, file: &File) -> Result<(), Error> {
    // A guest that began as a clone left its memory out.
    let all = json!([{"capability": "x-ignore-shared", "state": false}]);
    qmp.execute("migrate-set-capabilities", &json!({"capabilities": all}))?;
    let limits = json!({"max-bandwidth": BANDWIDTH, "downtime-limit": DOWNTIME_MS});
    qmp.execute("migrate-set-parameters", &limits)?;
    qmp.execute_with("getfd", &json!({"fdname": STATE}), &[file.as_fd()])?;
    qmp.execute("migrate", &json!({"uri": format!("fd:{STATE}")}))?;
    let begin = Instant::now();
    let mut is_stopped = false;
    while !is_migrated(qmp)? {
        if !is_stopped && begin.elapsed() > MAX_RUNNING {
            qmp.execute("stop", &json!({}))?;
            is_stopped = true;
        }
        if begin.elapsed() > TIMEOUT {
            qmp.execute("migrate_cancel", &json!({}))?;
            return Err(failed(&format!("not done within {} s", TIMEOUT.as_secs())));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Whether a migration, out or in, is done.
fn is_migrated(qmp: &mut Qmp) -> Result<bool, Error> {
    let answer = qmp.execute("query-migrate", &json!({}))?;
    match answer.get("status").and_then(Value::as_str) {
        Some("completed") => Ok(true),
        Some(status @ ("failed" | "cancelled")) => {
            let reason = answer.get("error-desc").and_then(Value::as_str);
            Err(failed(reason.unwrap_or(status)))
        }
        _ => Ok(false),
    }
}

fn failed(reason: &str) -> Error {
    Error::State {
        reason: reason.to_owned(),
    }
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
        },
        ..config.clone()
    };
    let vm = Vm::start(&config, cgroup)?;
    let loaded = || -> Result<(), Error> {
        let mut qmp = vm.qmp_within(timeout)?;
        let source = json!({"uri": format!("fd:{STATE_FD}")});
        qmp.execute("migrate-incoming", &source)?;
        let deadline = Instant::now() + timeout;
        while !is_migrated(&mut qmp)? {
            if Instant::now() > deadline {
                return Err(failed("QEMU did not load it in time"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    };
    match loaded() {
        Ok(()) => Ok(vm),
        Err(error) => Err(vm.end_because(error)),
    }
}
