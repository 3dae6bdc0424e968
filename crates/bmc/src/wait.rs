//! Switching, and waiting until the machine is as it was told to be.

use std::thread;
use std::time::{Duration, Instant};

use crate::controller::{Controller, Power, Switch};
use crate::error::Error;

/// Interval between two questions.
const POLL: Duration = Duration::from_millis(200);
/// Time in which a cycle has begun.
const CYCLE_BEGIN: Duration = Duration::from_secs(5);

impl Switch {
    /// The state in which it ends.
    pub fn ends_in(self) -> Power {
        match self {
            Switch::On | Switch::Cycle | Switch::Reset => Power::On,
            Switch::Off | Switch::Soft => Power::Off,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Switch::On => "switch on",
            Switch::Off => "switch off",
            Switch::Soft => "shut down",
            Switch::Cycle => "switch off and on",
            Switch::Reset => "reset",
        }
    }
}

/// Switches a host, and waits up to `limit` until its power is as it should be then. A host that is off is switched on
/// instead of cycled or reset, which controllers refuse then.
pub fn switch_and_wait(
    host: &str,
    controller: &dyn Controller,
    switch: Switch,
    limit: Duration,
) -> Result<Power, Error> {
    let before = controller.power()?;
    let switch = match (switch, before) {
        (Switch::Cycle | Switch::Reset, Power::Off) => Switch::On,
        _ => switch,
    };
    let aim = switch.ends_in();
    // A controller may refuse to switch off what is off.
    if !matches!(switch, Switch::Cycle | Switch::Reset) && before == aim {
        return Ok(aim);
    }
    controller.switch(switch)?;
    if switch == Switch::Cycle {
        // Off for a second at least, which a slow controller may begin late (IPMI 2.0, 28.3).
        is_in(controller, Power::Off, limit.min(CYCLE_BEGIN))?;
    }
    match is_in(controller, aim, limit)? {
        true => Ok(aim),
        false => Err(Error::NotSwitched {
            host: host.to_owned(),
            state: match aim {
                Power::On => "off",
                Power::Off => "on",
            },
            seconds: limit.as_secs(),
            action: switch.words(),
        }),
    }
}

/// Waits until the power is so. False: it was not within the limit.
fn is_in(controller: &dyn Controller, aim: Power, limit: Duration) -> Result<bool, Error> {
    let end = Instant::now() + limit;
    loop {
        if controller.power()? == aim {
            return Ok(true);
        }
        if Instant::now() >= end {
            return Ok(false);
        }
        thread::sleep(POLL);
    }
}
