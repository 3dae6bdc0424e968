//! The watch over a machine while a trial runs in a lab on it: whether the machine kept up, and who disturbed it.

use latlab_host::lab::Lab;
use latlab_model::results::{Check, Intruder};
use serde::{Deserialize, Serialize};

use crate::checks;
use crate::guard::Guard;

pub struct Watch {
    tuning: Option<Check>,
    guard: Guard,
    checks: checks::Watch,
}

/// The findings of a watch.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Watched {
    pub checks: Vec<Check>,
    /// Processes and interrupts that ran on the lab's dedicated CPUs.
    pub intruders: Vec<Intruder>,
}

impl Watch {
    pub fn begin(lab: &Lab) -> Watch {
        Watch {
            tuning: checks::of_tuning(lab),
            guard: Guard::begin(lab),
            checks: checks::Watch::begin(lab),
        }
    }

    pub fn end(self, lab: &Lab) -> Watched {
        let mut checks = self.checks.end(lab);
        checks.extend(self.tuning);
        Watched {
            checks,
            intruders: self.guard.end(),
        }
    }
}
