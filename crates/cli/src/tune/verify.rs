//! `latlab tune verify`: is what was applied still in force? Threads of others that moved since are listed,
//! and are no reason to fail: they may move at any time.

use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::tuning::{self, Drift};

use super::{Verify, explain, root, say};
use crate::args::Format;
use crate::failure::{MEASURED_FAILED, Outcome};
use crate::table;

const HEADER: [&str; 5] = ["knob", "what", "wanted", "found", "for"];

pub fn run(args: &Verify) -> Outcome {
    if let Some(code) = args.place.inside("verify", &[], args.format)? {
        return Ok(code);
    }
    let drift = tuning::verify(None, &Dirs::from_env(), &root()).map_err(explain)?;
    let row = |d: &Drift| {
        let text = |s: &String| s.clone();
        vec![
            text(&d.knob),
            text(&d.item),
            text(&d.wanted),
            match d.strayed {
                true => format!("{} (moved by others)", d.found),
                false => text(&d.found),
            },
            d.owners.join(", "),
        ]
    };
    let rows: Vec<Vec<String>> = drift.iter().map(row).collect();
    let (strayed, drift): (Vec<Drift>, Vec<Drift>) = drift.into_iter().partition(|d| d.strayed);
    let out = match args.format {
        Format::Json => format!(
            "{:#}\n",
            serde_json::json!({ "drift": drift, "strayed": strayed })
        ),
        Format::Csv => table::csv(&HEADER, &rows),
        Format::Table if rows.is_empty() => "everything that was applied is in force\n".into(),
        Format::Table => table::render(&HEADER, &rows),
    };
    say(&out)?;
    Ok(match drift.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(MEASURED_FAILED),
    })
}
