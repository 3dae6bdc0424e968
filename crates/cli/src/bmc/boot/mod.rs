//! `latlab host HOST boot`: a start with kernel parameters, which are verified.
//!
//! Nothing but the system that runs then says whether it has them: it is asked by the serial console where it is a live
//! system, else by ssh. What is asked for stays where the host's next start finds it, and the next `boot` replaces it, so that
//! parameters are taken back also after latlab was killed.

mod answer;
mod installed;
mod live;

use std::time::Instant;

use latlab_bmc::Controller;
use latlab_model::boot;
use latlab_model::spec::ManagedHost;
use serde_json::json;

use super::this_machine;
use crate::args::HostBoot;
use crate::failure::{Failure, Outcome};
use crate::files::Machine;
use crate::format::Format;
use crate::{print, profiles, table, tune};

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

/// The parameters that are asked for, as words.
fn parameters(args: &HostBoot) -> Result<Vec<String>, Failure> {
    let wrong = |(message, hint): (String, String)| Failure::new(message, hint);
    if let Some(text) = &args.cmdline {
        return boot::words(text).map_err(wrong);
    }
    let Some(name) = &args.profile else {
        return Ok(Vec::new());
    };
    let profile = profiles::load(name)?;
    let machine = Machine::of(args.facts.as_deref());
    let cores = tune::cores_of(&profile, args.cpus.as_deref(), machine)?;
    let parameters = boot::parameters(&profile, &cores).map_err(wrong)?;
    Ok(parameters.into_iter().map(|p| p.text).collect())
}
