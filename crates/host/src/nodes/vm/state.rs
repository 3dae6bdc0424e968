//! QEMU's migration of a guest's state, into a file or to another QEMU.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::error::Error;
use super::qmp::Qmp;

/// The first version whose emulator keeps track of all that a running guest writes. Before it, a busy guest panics or
/// is silent after most live migrations.
const TRACKING_EMULATOR: u64 = 9;
/// A guest that writes faster than it is copied is stopped for the rest after this.
pub(super) const MAX_RUNNING: Duration = Duration::from_secs(20);
/// Guests of some gigabytes to a slow disk.
pub(super) const TIMEOUT: Duration = Duration::from_secs(600);
/// QEMU tidies up at once, on a machine that is not overloaded.
const TIDY_TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// No bound on the copy's speed, in bytes per second.
const BANDWIDTH: u64 = 1 << 40;
/// QEMU stops the guest when the rest takes no longer than this.
const DOWNTIME_MS: u64 = 10;

/// The parameters of a migration.
pub(super) fn limits() -> Value {
    json!({"max-bandwidth": BANDWIDTH, "downtime-limit": DOWNTIME_MS})
}

/// The parameter with which QEMU stops the guest whatever the rest is. A guest that `stop` has stopped would stand still
/// at its new place, too: QEMU sends along that it was paused.
pub(super) fn for_any_rest() -> Value {
    json!({"downtime-limit": TIMEOUT.as_millis() as u64})
}

/// The status that QEMU answers a question with.
pub(super) fn status(qmp: &mut Qmp, question: &str) -> Result<Option<String>, Error> {
    let answer = qmp.execute(question, &json!({}))?;
    let status = answer.get("status").and_then(Value::as_str);
    Ok(status.map(str::to_owned))
}

pub(super) fn runs(qmp: &mut Qmp) -> Result<bool, Error> {
    let status = qmp.execute("query-status", &json!({}))?;
    Ok(status.get("running").and_then(Value::as_bool) == Some(true))
}

/// Has a guest that stands still be one that can be saved. QEMU refuses that of one that was saved since it was paused,
/// until its CPUs have run.
pub(super) fn make_savable(qmp: &mut Qmp) -> Result<(), Error> {
    if status(qmp, "query-status")?.as_deref() == Some("postmigrate") {
        qmp.execute("cont", &json!({}))?;
        qmp.execute("stop", &json!({}))?;
    }
    Ok(())
}

/// Whether memory may be copied while the guest runs.
pub(super) fn can_copy_running(qmp: &mut Qmp, is_emulated: bool) -> Result<bool, Error> {
    if !is_emulated {
        return Ok(true);
    }
    let version = qmp.execute("query-version", &json!({}))?;
    let major = version.pointer("/qemu/major").and_then(Value::as_u64);
    Ok(major.unwrap_or_default() >= TRACKING_EMULATOR)
}

/// Whether a migration, out or in, is done.
pub(super) fn is_migrated(qmp: &mut Qmp) -> Result<bool, Error> {
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

/// Lets a guest go on whose state was sent. QEMU refuses that while it tidies up behind a migration.
pub(super) fn go_on(qmp: &mut Qmp) -> Result<(), Error> {
    let deadline = Instant::now() + TIDY_TIMEOUT;
    loop {
        let status = status(qmp, "query-status")?;
        if status.as_deref() != Some("finish-migrate") || Instant::now() >= deadline {
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    qmp.execute("cont", &json!({}))?;
    Ok(())
}

pub(super) fn failed(reason: &str) -> Error {
    Error::State {
        reason: reason.to_owned(),
    }
}
