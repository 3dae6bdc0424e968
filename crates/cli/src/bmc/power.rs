//! `latlab host HOST power`.

use std::time::Duration;

use latlab_bmc::{Controller, Power, Switch, switch_and_wait};
use latlab_model::spec::ManagedHost;
use serde_json::json;

use super::this_machine;
use crate::args::{HostPower, PowerChange};
use crate::failure::{Outcome, of_controller};
use crate::format::Format;
use crate::{print, table};

/// Time in which a controller switches.
const SWITCH_SECONDS: u64 = 10;
/// Time in which a system shuts down.
const SHUTDOWN_SECONDS: u64 = 120;

pub fn run(host: &ManagedHost, controller: &dyn Controller, args: &HostPower) -> Outcome {
    let power = match args.change {
        None => controller.power().map_err(of_controller)?,
        Some(change) => {
            if change != PowerChange::On {
                this_machine::refuse(host, controller)?;
            }
            let (switch, seconds) = match change {
                PowerChange::On => (Switch::On, SWITCH_SECONDS),
                PowerChange::Off => (Switch::Off, SWITCH_SECONDS),
                PowerChange::Soft => (Switch::Soft, SHUTDOWN_SECONDS),
                PowerChange::Cycle => (Switch::Cycle, SWITCH_SECONDS),
                PowerChange::Reset => (Switch::Reset, SWITCH_SECONDS),
            };
            let limit = args.wait.unwrap_or(Duration::from_secs(seconds));
            switch_and_wait(&host.name, controller, switch, limit).map_err(of_controller)?
        }
    };
    let (name, word) = (host.name.value.as_str(), word(power));
    let row = [vec![name.to_owned(), word.to_owned()]];
    print::document(&match args.format {
        Format::Table => format!("{name}: {word}\n"),
        Format::Json => format!("{}\n", json!({ "host": name, "power": power })),
        Format::Csv => table::csv(&["host", "power"], &row),
    })
}

fn word(power: Power) -> &'static str {
    match power {
        Power::On => "on",
        Power::Off => "off",
    }
}
