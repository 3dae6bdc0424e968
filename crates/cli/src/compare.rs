//! `latlab compare`: two runs, cell by cell. Exit code 1 when a difference was found, or a limit is broken.

use latlab_report::compare;
use latlab_report::compare::RunComparison;
use latlab_report::limit::Limit;

use crate::args::Compare;
use crate::failure::{Failure, Outcome, measured};
use crate::format::Format;
use crate::print::look;
use crate::report::read;

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
    crate::print::out_if_read(&text)?;
    let has_failed = match args.fail_if.is_empty() {
        true => comparison.different().next().is_some(),
        false => is_beyond(&args.fail_if, &comparison)?,
    };
    Ok(measured(!has_failed))
}

/// Tells what is beyond a limit; whether anything is.
fn is_beyond(limits: &[Limit], comparison: &RunComparison) -> Result<bool, Failure> {
    let mut is_beyond = false;
    for limit in limits {
        let breaches = limit.breaches(comparison).ok_or_else(|| {
            Failure::new(
                format!("`--fail-if '{limit}'`: no cell has this quantity in both runs"),
                "take a percentile that the table shows, or measure longer: a percentile needs enough packets beyond it",
            )
        })?;
        for breach in &breaches {
            eprintln!("latlab: beyond its limit: {breach}");
            is_beyond = true;
        }
    }
    Ok(is_beyond)
}
