//! `latlab inspect`: the nodes of deployed labs.

use std::collections::BTreeMap;
use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::lab;
use latlab_model::state::NodeRow;
use latlab_model::units::Bytes;

use crate::args::Inspect;
use crate::failure::{AT_FAULT, Failure, Outcome, explain, need_root};
use crate::format::Format;
use crate::hosts::{self, record::Record};
use crate::{print, table};

pub fn run(args: &Inspect) -> Outcome {
    need_root(
        "inspect",
        "the state of a lab holds its environment variables",
    )?;
    let dirs = Dirs::from_env();
    let (across, unreadable) = match &args.lab {
        _ if args.here => (Vec::new(), Vec::new()),
        Some(name) => (Record::read(&dirs, name)?.into_iter().collect(), Vec::new()),
        None => hosts::record::all(&dirs)?,
    };
    let is_across = |name: &String| across.iter().any(|record| record.lab == *name);
    let mut names = match &args.lab {
        Some(name) => vec![name.clone()],
        None => lab::list(&dirs).map_err(explain)?,
    };
    names.retain(|name| !is_across(name));
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for name in &names {
        match lab::inspect(&dirs, name) {
            Ok(found) => rows.extend(found),
            // Another latlab has removed it since the names were read.
            Err(lab::Error::NoLab(_)) if args.lab.is_none() => {}
            Err(error) if args.lab.is_none() => missing.push(error.to_string()),
            Err(error) => return Err(explain(error)),
        }
    }
    for record in &across {
        let found = hosts::inspect::rows(record);
        rows.extend(found.rows);
        missing.extend(found.missing);
    }
    for reason in &missing {
        eprintln!("latlab: {reason}");
    }
    for failure in &unreadable {
        eprint!("{failure}");
    }
    let is_whole = missing.is_empty() && unreadable.is_empty();
    if rows.is_empty() && is_whole && args.format == Format::Table {
        return print::document("no labs are deployed\n");
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
    Ok(match is_whole {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(AT_FAULT),
    })
}

/// Prints rows; JSON is an object keyed by lab, as containerlab's.
pub fn print(rows: &[NodeRow], format: Format) -> Result<(), Failure> {
    let (header, cells) = columns(rows);
    let text = match format {
        Format::Json => {
            let mut labs: BTreeMap<&str, Vec<&NodeRow>> = BTreeMap::new();
            for row in rows {
                labs.entry(&row.lab_name).or_default().push(row);
            }
            serde_json::to_string_pretty(&labs)? + "\n"
        }
        Format::Csv => table::csv(&header, &cells),
        Format::Table => table::render(&header, &cells),
    };
    print::out_if_read(&text)
}

/// The columns; the host where a lab names several.
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

/// The header and the cells of each row.
fn columns(rows: &[NodeRow]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let mut header = HEADER.to_vec();
    let mut all: Vec<Vec<String>> = rows.iter().map(cells).collect();
    if rows.iter().any(|row| row.host.is_some()) {
        header.insert(1, "HOST");
        for (cells, row) in all.iter_mut().zip(rows) {
            cells.insert(1, row.host.clone().unwrap_or_else(|| "-".into()));
        }
    }
    (header, all)
}

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
