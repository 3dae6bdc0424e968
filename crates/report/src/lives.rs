//! Tables of the lives of nodes, their start and what was done to them within the measured windows; and of the machines'
//! sensors beside them.

use latlab_model::results::{ActionKind, Actions, Range, Summary};

use crate::style::Look;
use crate::table::{Align, Table};
use crate::text::{cell_name, count, nanos, plural, quantity, with_interval};

pub(crate) fn tables(summary: &Summary, look: Look) -> String {
    starts(summary, look) + &actions(summary, look) + &sensors(summary, look)
}

/// How long containers and VMs took to start.
fn starts(summary: &Summary, look: Look) -> String {
    let mut table = Table::new(&[
        ("start of nodes", Align::Left),
        ("kind", Align::Left),
        ("nodes", Align::Right),
        ("labs", Align::Right),
        ("one node [range]", Align::Right),
        ("all of them [range]", Align::Right),
    ]);
    for start in &summary.starts {
        let levels: Vec<&str> = start.levels.values().map(String::as_str).collect();
        table.row(
            vec![
                levels.join(" "),
                start.kind.clone(),
                count(start.nodes as u64),
                count(start.deployments as u64),
                times(&start.each),
                times(&start.all),
            ],
            None,
        );
    }
    table.section(look)
}

/// Actions on nodes, and how long packets did not arrive for them.
fn actions(summary: &Summary, look: Look) -> String {
    let mut table = Table::new(&[
        ("done to nodes", Align::Left),
        ("times", Align::Right),
        ("silence [range]", Align::Right),
        ("stood still [range]", Align::Right),
        ("QEMU says", Align::Right),
        ("took", Align::Right),
        ("copied", Align::Right),
    ]);
    let cell_of = |row: &Actions| {
        let cell = summary.cells.iter().find(|cell| cell.id == row.cell);
        cell.map_or_else(|| row.cell.clone(), |cell| cell_name(summary, cell))
    };
    for row in &summary.actions {
        let optional = |range: &Option<Range>| range.as_ref().map_or("".to_owned(), times);
        let claimed = row
            .claimed
            .map_or(String::new(), |range| nanos(range.median));
        let copied = row
            .copied
            .map_or(String::new(), |range| quantity(range.median, "B"));
        table.row(
            vec![
                format!("{}: `{}` {}", cell_of(row), row.node, done(row.act)),
                count(row.count as u64),
                optional(&row.gap),
                optional(&row.stood),
                claimed,
                nanos(row.took.median),
                copied,
            ],
            None,
        );
    }
    table.section(look)
}

/// Sensors of machines, before and after the trials.
fn sensors(summary: &Summary, look: Look) -> String {
    let mut table = Table::new(&[
        ("sensors of machines", Align::Left),
        ("sensor", Align::Left),
        ("reading [range]", Align::Right),
        ("unit", Align::Left),
        ("remarks", Align::Left),
    ]);
    for sensor in &summary.sensors {
        let readings = sensor.readings.map_or_else(String::new, |range| {
            let Range {
                median,
                smallest,
                largest,
            } = range;
            format!("{median} [{smallest}, {largest}]")
        });
        let states = sensor.states.iter();
        let states =
            states.map(|(state, trials)| format!("{state} in {}", plural(*trials, "trial")));
        table.row(
            vec![
                sensor.host.clone(),
                sensor.name.clone(),
                readings,
                sensor.unit.clone(),
                states.collect::<Vec<_>>().join(", "),
            ],
            None,
        );
    }
    table.section(look)
}

/// The participle of an act.
pub(crate) fn done(act: ActionKind) -> &'static str {
    match act {
        ActionKind::Pause => "paused",
        ActionKind::Migrate => "moved",
        ActionKind::Snapshot => "saved",
        ActionKind::Restore => "restored",
    }
}

fn times(range: &Range) -> String {
    with_interval(range.median, Some((range.smallest, range.largest)), "ns")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::synthetic;

    #[test]
    fn rows_of_cells_that_differ_beside_the_baseline_are_told_apart() {
        let mut summary = synthetic::summary();
        let took = Range {
            median: 4e8,
            smallest: 3e8,
            largest: 5e8,
        };
        let of = |cell: &str| Actions {
            cell: cell.to_owned(),
            node: "server".to_owned(),
            act: ActionKind::Pause,
            count: 1,
            gap: None,
            stood: None,
            claimed: None,
            took,
            copied: None,
            passes: None,
            forced: 0,
        };
        summary.actions = summary.cells.iter().map(|cell| of(&cell.id)).collect();
        let out = tables(&summary, Look::default());
        let rows = out.lines().filter_map(|line| line.split_once(": `server`"));
        let rows: BTreeSet<&str> = rows.map(|(cell, _)| cell.trim()).collect();
        assert_eq!(rows.len(), summary.cells.len(), "{out}");
        assert!(rows.contains("rr-udp · native · bridge"), "{rows:?}");
    }
}
