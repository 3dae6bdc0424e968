//! Repetition of trials that the machine disturbed: which are repeated, and the wait for a quiet machine.
//!
//! A repetition must not be a choice among results, or the numbers would be better than the machine. So it is
//! decided by two checks alone, neither of which can see a measured value: the time that a hypervisor took from
//! the CPUs, and the time that processes outside the lab used. The checks of the endpoints themselves
//! (runqueue, lateness, drops) are left out: how an endpoint fares depends on the path that is measured.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use latlab_host::lab::Lab;
use latlab_model::results::Check;

use crate::checks;

/// The checks by which a trial is repeated.
const OF_THE_MACHINE: [&str; 2] = ["steal", "foreign-load"];

/// How long the machine is watched before it is taken for quiet.
const LOOK: Duration = Duration::from_millis(500);

/// How long a repetition waits for a quiet machine; afterwards it begins anyway.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Whether a trial is to be repeated: others took the CPUs, and there were fewer repetitions than `retries`.
pub(crate) fn is_due(checks: &[Check], repeats: u32, retries: u32) -> bool {
    repeats < retries && is_disturbed(checks)
}

fn is_disturbed(checks: &[Check]) -> bool {
    let of_the_machine = |check: &&Check| OF_THE_MACHINE.contains(&check.name.as_str());
    checks
        .iter()
        .filter(of_the_machine)
        .any(|check| !check.passed)
}

/// Waits until the machine is quiet, up to [`TIMEOUT`].
pub(crate) fn wait_for_quiet(lab: &Lab, stop: &AtomicBool) {
    let begun = Instant::now();
    while begun.elapsed() < TIMEOUT && !stop.load(Ordering::Relaxed) {
        let watch = checks::Watch::begin(lab);
        std::thread::sleep(LOOK);
        if !is_disturbed(&watch.end(lab)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, passed: bool) -> Check {
        Check {
            name: name.into(),
            question: String::new(),
            value: 0.5,
            limit: if passed { 1.0 } else { 0.1 },
            unit: "1".into(),
            passed,
            consumers: Vec::new(),
        }
    }

    #[test]
    fn only_what_others_took_repeats_a_trial() {
        let failed = |name| is_due(&[check("steal", true), check(name, false)], 0, 1);
        assert!(failed("steal") && failed("foreign-load"));
        // Each of these depends on what is measured, or stays as it is.
        for name in [
            "runqueue",
            "involuntary-switches",
            "lateness",
            "drops",
            "clock-error",
            "tuning",
        ] {
            assert!(!failed(name), "{name}");
        }
        assert!(!is_due(&[check("steal", true)], 0, 1));
        assert!(!is_due(&[], 0, 1));
    }

    #[test]
    fn repetitions_are_bounded_and_off_by_default() {
        let disturbed = [check("foreign-load", false)];
        let due = |repeats, retries| is_due(&disturbed, repeats, retries);
        assert!(!due(0, 0));
        assert!(due(0, 2) && due(1, 2) && !due(2, 2));
    }

    /// The same machine, whatever was measured: values other than the two shares do not enter.
    #[test]
    fn measured_values_do_not_enter() {
        for value in [0.0, 1e9] {
            let mut checks = [check("foreign-load", false), check("lateness", true)];
            checks[1].value = value;
            assert!(is_due(&checks, 0, 1));
            checks[0].passed = true;
            assert!(!is_due(&checks, 0, 1));
        }
    }
}
