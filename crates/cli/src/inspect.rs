//! `latlab inspect`: the nodes of deployed labs.

use std::collections::BTreeMap;
use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::lab;
use latlab_model::state::NodeRow;
use latlab_model::units::Bytes;

use crate::args::Inspect;
use crate::failure::{Failure, Outcome, explain, need_root};
use crate::format::Format;
use crate::table;

pub fn run(args: &Inspect) -> Outcome {
    need_root(
        "inspect",
        "the state of a lab holds its environment variables",
    )?;
    let dirs = Dirs::from_env();
    let names = match &args.lab {
        Some(name) => vec![name.clone()],
        None => lab::list(&dirs).map_err(explain)?,
    };
    let mut rows = Vec::new();
    for name in &names {
        rows.extend(lab::inspect(&dirs, name).map_err(explain)?);
    }
    if rows.is_empty() && args.format == Format::Table {
        println!("no labs are deployed");
        return Ok(ExitCode::SUCCESS);
    }
    print(&rows, args.format)?;
    let plans = names
        .iter()
        .filter_map(|name| lab::plan_of(&dirs, name).ok());
    for choice in plans.flat_map(|plan| plan.choices()) {
        eprintln!("note: {choice}");
    }
    for restart in names.iter().flat_map(|name| lab::restarts(&dirs, name)) {
        eprintln!("note: {restart}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints rows; JSON is an object keyed by lab, as containerlab's.
pub fn print(rows: &[NodeRow], format: Format) -> Result<(), Failure> {
    let text = match format {
        Format::Json => {
            let mut labs: BTreeMap<&str, Vec<&NodeRow>> = BTreeMap::new();
            for row in rows {
                labs.entry(&row.lab_name).or_default().push(row);
            }
            serde_json::to_string_pretty(&labs)? + "\n"
        }
        Format::Csv => table::csv(&HEADER, &rows.iter().map(cells).collect::<Vec<_>>()),
        Format::Table => table::render(&HEADER, &rows.iter().map(cells).collect::<Vec<_>>()),
    };
    crate::print::out(&text)?;
    Ok(())
}

const HEADER: [&str; 10] = [
    "LAB",
    "NODE",
    "KIND",
    "STATE",
    "PID",
    "CPUS",
    "MEMORY",
    "IPV4",
    "IPV6",
    "INTERFACES",
];

fn cells(row: &NodeRow) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let kind = match &row.acceleration {
        Some(how) => format!("{} ({how})", row.kind),
        None => row.kind.to_string(),
    };
    let cpus = match (&row.cpus, &row.cpuset) {
        (Some(cpus), Some(set)) => Some(format!("{cpus} on {set}")),
        (Some(cpus), None) => Some(cpus.to_string()),
        (None, Some(set)) => Some(format!("on {set}")),
        (None, None) => None,
    };
    vec![
        row.lab_name.clone(),
        row.name.clone(),
        kind,
        row.state.clone(),
        or_dash(row.pid.map(|p| p.to_string())),
        or_dash(cpus),
        or_dash(row.memory_bytes.map(|b| Bytes(b).to_string())),
        or_dash(row.ipv4_address.clone()),
        or_dash(row.ipv6_address.clone()),
        row.interfaces.join(" "),
    ]
}
