//! Moving a guest that runs to another QEMU (live migration by pre-copy).
//!
//! ```text
//! source   runs ── copies memory ──┐ stops ── devices ──┐               ends
//! target   waits ──────────────────┘        ────────────┘ loads ── runs
//! network                            waits    moves                  waits no more
//! ```
//!
//! The network follows while the target loads, which takes it longer.
//!
//! Until the target runs, every failure ends the target and lets the source go on. From then on the source never
//! runs again.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::clock;
use super::error::Error;
use super::guest::Vm;
use super::qemu::STATE_FD;
use super::qmp::{Event, Qmp};
use super::state;
use crate::nodes::driver::{Moved, Switch};
use crate::nodes::stood::{Stood, monotonic_ns};

/// Time for QEMU to stop, send and load the devices and the last pages, where these are few.
const SWITCH_TIMEOUT: Duration = Duration::from_secs(30);
/// The name under which the source knows the socket to the target.
const NAME: &str = "target";

/// Moves the guest of `source` to `target`, a QEMU that waits for it. `channel` leads from the source to the target;
/// `switch` follows once the guest stands still. The trouble of the move is what kept the network from that.
pub(super) fn run(
    source: &Vm,
    target: &Vm,
    channel: &UnixStream,
    switch: &mut dyn Switch,
) -> Result<Moved, Error> {
    let mut from = source.qmp()?;
    let mut to = target.qmp()?;
    let result = copy(&mut from, &mut to, channel).and_then(|copied| {
        let timeout = match copied.was_forced {
            true => state::TIMEOUT,
            false => SWITCH_TIMEOUT,
        };
        let followed = hand_over(&mut from, &mut to, switch, timeout)?;
        Ok((copied, followed.err()))
    });
    match result {
        Ok((copied, trouble)) => {
            let running_ns = monotonic_ns();
            let stood = copied.stopped_ns.map(|stopped_ns| Stood {
                stopped_ns,
                running_ns,
            });
            let account = account(&mut from).map(|account| (account, copied.was_forced));
            let (account, was_forced) = account.unwrap_or_default();
            let number = |path: &str| account.pointer(path).and_then(Value::as_u64).unwrap_or(0);
            Ok(Moved {
                process: target.id(),
                total: Duration::from_millis(number("/total-time")),
                stood,
                downtime: Some(Duration::from_millis(number("/downtime"))),
                bytes: number("/ram/transferred"),
                rounds: number("/ram/dirty-sync-count"),
                was_forced,
                trouble,
            })
        }
        Err(error) => {
            // QEMU has one control connection, and is told to end by it.
            drop(to);
            let error = target.end_because(error);
            let back = take_back(&mut from);
            switch.given_up();
            // A source that is gone is the reason for the rest.
            Err(back.map_or_else(|back| source.end_of_its_own().unwrap_or(back), |()| error))
        }
    }
}

/// A guest that stands still, with all but a rest of its memory at the target.
struct Copied {
    /// Whether the guest wrote faster than it was copied, so that the rest may be large.
    was_forced: bool,
    /// On the host's monotonic clock.
    stopped_ns: Option<u64>,
}

/// Copies memory until the rest is small, or for long enough, and the source stands still.
fn copy(from: &mut Qmp, to: &mut Qmp, channel: &UnixStream) -> Result<Copied, Error> {
    let events = json!({"capability": "events", "state": true});
    let whole = json!({"capability": "x-ignore-shared", "state": false});
    let pause = json!({"capability": "pause-before-switchover", "state": true});
    let set = |qmp: &mut Qmp, all: Value| {
        qmp.execute("migrate-set-capabilities", &json!({"capabilities": all}))
    };
    set(from, json!([events, whole, pause]))?;
    set(to, json!([events]))?;
    from.execute("migrate-set-parameters", &state::limits())?;
    let source = json!({"uri": format!("fd:{STATE_FD}")});
    to.execute("migrate-incoming", &source)?;
    from.execute_with("getfd", &json!({"fdname": NAME}), &[channel.as_fd()])?;
    from.forget_events();
    from.execute("migrate", &json!({"uri": format!("fd:{NAME}")}))?;
    let stopped_ns = Cell::new(None);
    let is_news = |event: &Event| {
        if event.name == "STOP" {
            stopped_ns.set(Some(clock::monotonic_of(event.at)));
        }
        let news = ["pre-switchover", "failed", "completed", "cancelled"];
        status(event).is_some_and(|status| news.contains(&status))
    };
    let began = Instant::now();
    let mut event = from.await_event(state::MAX_RUNNING, is_news)?;
    let was_forced = event.is_none();
    if was_forced {
        from.execute("migrate-set-parameters", &state::for_any_rest())?;
        let left = state::TIMEOUT.saturating_sub(began.elapsed());
        event = from.await_event(left, is_news)?;
    }
    match event.as_ref().and_then(status) {
        Some("pre-switchover") => Ok(Copied {
            was_forced,
            stopped_ns: stopped_ns.get(),
        }),
        _ => {
            state::is_migrated(from)?;
            Err(state::failed("the copy did not come to an end"))
        }
    }
}

/// The last part: devices and the pages that are left. Returns when the target runs, with what the network says.
fn hand_over(
    from: &mut Qmp,
    to: &mut Qmp,
    switch: &mut dyn Switch,
    timeout: Duration,
) -> Result<Result<(), String>, Error> {
    let at = json!({"state": "pre-switchover"});
    from.execute("migrate-continue", &at)?;
    let followed = switch.stopped();
    let runs = |event: &Event| event.name == "RESUME" || status(event) == Some("failed");
    match to.await_event(timeout, runs)? {
        Some(event) if event.name == "RESUME" => Ok(followed),
        Some(_) => Err(state::failed("the target could not load the guest")),
        None => Err(state::failed("the target did not begin to run in time")),
    }
}

/// Lets the source go on. The target is gone.
pub(super) fn take_back(from: &mut Qmp) -> Result<(), Error> {
    // Refused where nothing is under way.
    let _ = from.execute("migrate_cancel", &json!({}));
    let deadline = Instant::now() + SWITCH_TIMEOUT;
    while matches!(state::is_migrated(from), Ok(false)) && Instant::now() < deadline {
        if state::status(from, "query-migrate")?.is_none() {
            break;
        }
        std::thread::sleep(state::POLL_INTERVAL);
    }
    state::go_on(from)
}

fn status(event: &Event) -> Option<&str> {
    let is_migration = event.name == "MIGRATION";
    is_migration.then(|| event.data.get("status"))??.as_str()
}

/// The move by QEMU's own account.
fn account(from: &mut Qmp) -> Result<Value, Error> {
    // The source says "completed" a moment after the target began to run.
    let deadline = Instant::now() + SWITCH_TIMEOUT;
    while !state::is_migrated(from)? && Instant::now() < deadline {
        std::thread::sleep(state::POLL_INTERVAL);
    }
    Ok(from.execute("query-migrate", &json!({}))?)
}
