//! The verb: it starts the host, live or installed, with the parameters, and prints the command line that runs.

use std::time::Instant;

use latlab_bmc::Controller;
use latlab_model::spec::ManagedHost;
use serde_json::json;

use super::parameters::parameters;
use super::{installed, live};
use crate::args::HostBoot;
use crate::bmc::this_machine;
use crate::failure::Outcome;
use crate::format::Format;
use crate::{print, table};

pub fn run(host: &ManagedHost, controller: &dyn Controller, args: &HostBoot) -> Outcome {
    let begun = Instant::now();
    let parameters = parameters(args)?;
    let line = match &host.live {
        Some(directory) if !args.installed => {
            this_machine::refuse(host, controller)?;
            live::boot(host, controller, directory, &parameters, args)?
        }
        _ => installed::boot(host, controller, &parameters, args.wait)?,
    };
    let (name, words) = (host.name.value.as_str(), parameters.join(" "));
    let seconds = format!("{:.1}", begun.elapsed().as_secs_f64());
    print::document(&match args.format {
        Format::Table if words.is_empty() => {
            format!("{name}: runs without more parameters after {seconds} s\n")
        }
        Format::Table => format!("{name}: runs with `{words}` after {seconds} s\n"),
        Format::Json => {
            let seconds: f64 = seconds.parse().unwrap_or_default();
            let document = json!({ "host": name, "seconds": seconds, "command_line": line });
            format!("{document}\n")
        }
        Format::Csv => {
            let row = [vec![name.to_owned(), seconds, line]];
            table::csv(&["host", "seconds", "command_line"], &row)
        }
    })
}
