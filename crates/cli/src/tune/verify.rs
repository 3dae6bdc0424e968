//! `latlab tune verify`: drift from the applied values. Threads of other programs that moved are listed and do not
//! fail it: they may move at any time.

use latlab_host::dirs::Dirs;
use latlab_host::tuning::{self, Drift, Root};

use super::args::Verify;
use super::choose::explain_tuning;
use super::inside::run_inside;
use crate::failure::{Outcome, measured};
use crate::format::Format;
use crate::table;

const HEADER: [&str; 5] = ["knob", "what", "wanted", "found", "for"];

pub fn run(args: &Verify) -> Outcome {
    if let Some(code) = run_inside(&args.place, "verify", &[], args.format)? {
        return Ok(code);
    }
    let drift =
        tuning::verify(None, &Dirs::from_env(), &Root::default()).map_err(explain_tuning)?;
    let row = |d: &Drift| {
        let text = |s: &String| s.clone();
        vec![
            text(&d.knob),
            text(&d.item),
            text(&d.wanted),
            if d.strayed {
                format!("{} (moved by others)", d.found)
            } else {
                text(&d.found)
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
        Format::Table if rows.is_empty() => {
            "no drift: all that is applied, if anything, is in force\n".into()
        }
        Format::Table => table::render(&HEADER, &rows),
    };
    crate::print::out_if_read(&out)?;
    Ok(measured(drift.is_empty()))
}
