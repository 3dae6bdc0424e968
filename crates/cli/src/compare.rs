//! `latlab compare`: two runs, cell by cell. Exit code 1 when a difference was found.

use std::process::ExitCode;

use latlab_report::compare;

use crate::args::Compare;
use crate::failure::{Failure, Outcome};
use crate::format::Format;
use crate::report::{look, read};

pub fn run(args: &Compare) -> Outcome {
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let comparison = compare(&before, &after, args.force).map_err(|unlike| {
        let hint = if unlike.forceable {
            "`--force` compares them anyway"
        } else {
            "compare runs of the same study"
        };
        Failure::new(unlike, hint)
    })?;
    let text = match args.format {
        Format::Table => compare::render(&comparison, look()),
        Format::Json => serde_json::to_string_pretty(&comparison)? + "\n",
        Format::Csv => compare::csv(&comparison),
    };
    crate::print::out(&text)?;
    Ok(match comparison.different().next() {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    })
}
