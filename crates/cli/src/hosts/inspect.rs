//! The nodes of a lab on several hosts.

use std::collections::BTreeMap;

use latlab_model::state::NodeRow;

use super::record::{Host, Record};
use super::remote::each;

/// The rows of every host that answers, and what the others are.
#[derive(Debug, Default)]
pub struct Rows {
    pub rows: Vec<NodeRow>,
    /// A sentence for each host that did not answer.
    pub missing: Vec<String>,
}

/// Asks the hosts of a lab for its nodes.
pub fn rows(record: &Record) -> Rows {
    let mut all = Rows::default();
    let found = each(&record.hosts, |host| rows_of(host, &record.lab));
    for (host, found) in record.hosts.iter().zip(found) {
        match found {
            Ok(rows) => all.rows.extend(rows),
            Err(reason) => all.missing.push(format!("host `{}`: {reason}", host.name)),
        }
    }
    all
}

fn rows_of(host: &Host, lab: &str) -> Result<Vec<NodeRow>, String> {
    let answer = host.ask(&["inspect", "--here", "--format", "json"]);
    if !answer.is_good() {
        return Err(answer.reason());
    }
    let rows = labs_in(&answer.output)?.remove(lab);
    rows.map(|rows| of_host(rows, host))
        .ok_or_else(|| format!("no part of lab `{lab}` is there"))
}

/// The labs in the output of `inspect --format json`.
pub(super) fn labs_in(output: &str) -> Result<BTreeMap<String, Vec<NodeRow>>, String> {
    serde_json::from_str(output).map_err(|_| "its latlab is another version".into())
}

/// Rows as a host printed them, with its name.
pub(super) fn of_host(mut rows: Vec<NodeRow>, host: &Host) -> Vec<NodeRow> {
    for row in &mut rows {
        row.host = Some(host.name.clone());
    }
    rows
}
