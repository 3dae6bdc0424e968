use std::process::ExitCode;

use clap::ValueEnum;
use latlab_host::dirs::Dirs;
use latlab_host::lab::Lab;

use super::args::Place;
use crate::failure::{Failure, explain};
use crate::format::Format;

/// Runs a verb inside the node, if one is named, and returns its exit code.
pub fn run_inside(
    place: &Place,
    verb: &str,
    more: &[String],
    format: Format,
) -> Result<Option<ExitCode>, Failure> {
    let (Some(lab), Some(node)) = (&place.lab, &place.node) else {
        return Ok(None);
    };
    let lab = Lab::open(&Dirs::from_env(), lab).map_err(explain)?;
    let format = format.to_possible_value();
    let format = format.as_ref().map_or("table", |value| value.get_name());
    let mut arguments = vec![verb, "--format", format];
    arguments.extend(more.iter().map(String::as_str));
    let (out, code) = lab.tune_inside(node, &arguments).map_err(explain)?;
    crate::print::out_if_read(&String::from_utf8_lossy(&out))?;
    Ok(Some(ExitCode::from(code as u8)))
}
