//! Ctrl-C during a deployment.
//!
//! A deployment spends its time waiting for processes: runtimes, guests, the nodes' own commands. So
//! it is ended by ending those. Every wait then fails by itself, and the failure is undone like any
//! other; no wait needs to know that it can be interrupted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::Signal;

use super::error::Error;
use crate::sys::process;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Fails once the deployment is to end.
pub(super) fn check(stop: Option<&AtomicBool>, lab: &str) -> Result<(), Error> {
    if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
        Err(Error::Interrupted(lab.to_string()))
    } else {
        Ok(())
    }
}

/// Runs `body`; once `stop` is true, ends all processes of deployment `id` until `body` returns.
pub(super) fn end_on_stop<T>(
    stop: Option<&AtomicBool>,
    lab: &str,
    id: &str,
    body: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let Some(flag) = stop else { return body() };
    let (done, ended) = channel::<()>();
    let result = std::thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if flag.load(Ordering::Relaxed) {
                    end_all(id);
                }
            }
        });
        let result = body();
        drop(done);
        result
    });
    // An error after the interruption is its consequence.
    result.map_err(|error| check(stop, lab).err().unwrap_or(error))
}

/// Their statuses are left for those who wait for them. What cannot be ended now is found again by
/// the removal, which says so.
fn end_all(id: &str) {
    for process in process::labelled(id).unwrap_or_default() {
        process.signal(Signal::KILL).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_interrupted_wait_ends_and_says_why() {
        let stop = AtomicBool::new(false);
        let id = format!("interrupt-{}", std::process::id());
        let result = end_on_stop(Some(&stop), "a", &id, || {
            let mut command = Command::new("sleep");
            let mut child = command
                .arg("600")
                .env(process::LAB_VARIABLE, &id)
                .spawn()
                .unwrap();
            stop.store(true, Ordering::Relaxed);
            let status = child.wait().unwrap();
            assert!(!status.success());
            Err::<(), _>(Error::NoLab("something else".into()))
        });
        assert!(matches!(result, Err(Error::Interrupted(lab)) if lab == "a"));
    }

    #[test]
    fn without_an_interruption_results_pass() {
        let stop = AtomicBool::new(false);
        for stop in [None, Some(&stop)] {
            assert_eq!(end_on_stop(stop, "a", "x", || Ok(7)).unwrap(), 7);
            let failed = end_on_stop(stop, "a", "x", || Err::<(), _>(Error::NoLab("b".into())));
            assert!(matches!(failed, Err(Error::NoLab(_))));
        }
    }
}
