//! Tables of workloads: what a node gets, and what it costs, over the number of nodes.

use latlab_model::results::{Cell, Slowdown, Summary};

use crate::style::Look;
use crate::table::{Align, Table};
use crate::text::{cell_name, count, quantity, ratio_with_interval, with_interval};

/// The metrics that stand here.
pub(crate) const METRICS: &[&str] = &[
    "min-max",
    "jain",
    "begin-spread",
    "cpu-per-node",
    "cpu-machine",
    "memory-host",
    "memory-pss",
    "memory-cgroup",
];

/// Both tables, the first where several nodes ran or a slowdown is known; nothing where no workload was measured.
pub(crate) fn tables(summary: &Summary, look: Look) -> String {
    let mut shares = Table::new(&[
        ("workload", Align::Left),
        ("nodes", Align::Right),
        ("slowdown [95 % CI]", Align::Left),
        ("smallest/largest", Align::Right),
        ("Jain", Align::Right),
        ("begins within", Align::Right),
    ]);
    let mut costs = Table::new(&[
        ("cost of a node", Align::Left),
        ("nodes", Align::Right),
        ("CPU time", Align::Right),
        ("memory: host lost [95 % CI]", Align::Left),
        ("PSS", Align::Right),
        ("cgroup", Align::Right),
    ]);
    for cell in &summary.cells {
        let Some(scaling) = &cell.scaling else {
            continue;
        };
        let nodes = count(u64::from(scaling.nodes));
        let slowdown = scaling.slowdown.as_ref().map_or(String::new(), times);
        let middle = |name| metric(cell, name, false);
        // One node alone has nothing to share.
        if scaling.nodes > 1 || scaling.slowdown.is_some() {
            shares.row(
                vec![
                    cell_name(summary, cell),
                    nodes.clone(),
                    slowdown,
                    middle("min-max"),
                    middle("jain"),
                    middle("begin-spread"),
                ],
                None,
            );
        }
        costs.row(
            vec![
                cell_name(summary, cell),
                nodes,
                middle("cpu-per-node"),
                metric(cell, "memory-host", true),
                middle("memory-pss"),
                middle("memory-cgroup"),
            ],
            None,
        );
    }
    shares.section(look) + &costs.section(look)
}

fn times(slowdown: &Slowdown) -> String {
    ratio_with_interval(slowdown.ratio, slowdown.ratio_ci95)
}

fn metric(cell: &Cell, name: &str, interval: bool) -> String {
    let metric = cell.metrics.iter().find(|metric| metric.name == name);
    metric.map_or(String::new(), |m| match interval {
        true => with_interval(m.spread.median, m.ci95, &m.unit),
        false => quantity(m.spread.median, &m.unit),
    })
}
