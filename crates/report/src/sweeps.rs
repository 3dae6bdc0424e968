//! Tables of measurements with a parameter at several values: rate and latency, value by value.

use latlab_model::results::{Cell, MeasurementInfo, Metric, Summary, SweepPoint};

use crate::style::Look;
use crate::table::{Align, Table};
use crate::text::{levels, percentile, with_interval};

/// Percentiles of the table.
const SHOWN: [f64; 2] = [0.5, 0.99];

/// A table for each sweep; nothing where there is none.
pub(crate) fn tables(summary: &Summary, look: Look) -> String {
    let points = summary.measurements.iter().filter_map(of);
    let mut names: Vec<&str> = points.map(|(_, point)| point.sweep.as_str()).collect();
    names.dedup();
    let tables = names.iter().map(|name| table(summary, name, look));
    tables.collect()
}

fn of(info: &MeasurementInfo) -> Option<(&MeasurementInfo, &SweepPoint)> {
    Some((info, info.sweep.as_ref()?))
}

fn table(summary: &Summary, sweep: &str, look: Look) -> String {
    let all = summary.measurements.iter().filter_map(of);
    let points: Vec<_> = all.filter(|(_, point)| point.sweep == sweep).collect();
    let cells = |info: &MeasurementInfo| {
        let name = info.name.clone();
        let all = summary.cells.iter();
        all.filter(move |cell| cell.measurement == name)
    };
    let Some((_, point)) = points.first() else {
        return String::new();
    };
    let all = points.iter();
    let mut all = all.flat_map(|(info, _)| cells(info).map(move |cell| columns(info, cell)));
    // A cell without results has none: all of its trials failed.
    let Some(columns) = all.find(|columns| !columns.is_empty()) else {
        return String::new();
    };
    let parameter = point.parameter.rsplit('.').next().unwrap_or(sweep);
    let parameter = parameter.replace('_', " ");
    let mut head = vec![(sweep, Align::Left), (parameter.as_str(), Align::Right)];
    head.extend(columns.iter().map(|column| (column.title(), Align::Left)));
    let mut table = Table::new(&head);
    let mut environments: Vec<String> = Vec::new();
    for cell in points.iter().flat_map(|(info, _)| cells(info)) {
        let environment = levels(summary, cell);
        if !environments.contains(&environment) {
            environments.push(environment);
        }
    }
    for wanted in &environments {
        for (info, point) in &points {
            let own = cells(info).filter(|cell| levels(summary, cell) == *wanted);
            for cell in own {
                let mut row = vec![wanted.clone(), point.value.clone()];
                row.extend(columns.iter().map(|column| column.of(cell)));
                table.row(row, None);
            }
        }
    }
    table.section(look)
}

/// A quantity of the cells of a sweep.
enum Column {
    /// By name and title.
    Metric(String, String),
    Percentile(f64, String),
}

/// The rate of programs and streams, and times: a program's own, or those of packets.
fn columns(info: &MeasurementInfo, cell: &Cell) -> Vec<Column> {
    let metric = |metric: &Metric| Column::Metric(metric.name.clone(), metric.title.clone());
    if cell.latency.is_some() {
        return SHOWN.map(|p| Column::Percentile(p, percentile(p))).into();
    }
    let rate = cell.metrics.first().filter(|m| m.higher_is_better);
    let is_time = |m: &&Metric| {
        let tail = m.name.rsplit('-').next().unwrap_or_default();
        let number = tail.strip_prefix('p').unwrap_or_default();
        m.unit == "ns" && number.parse::<u32>().is_ok()
    };
    let times = cell.metrics.iter().filter(is_time);
    let times = times.filter(|_| info.probe == "workload").take(SHOWN.len());
    rate.into_iter().chain(times).map(metric).collect()
}

impl Column {
    fn title(&self) -> &str {
        match self {
            Column::Metric(_, title) | Column::Percentile(_, title) => title,
        }
    }

    /// The median over replicates with its 95 % interval.
    fn of(&self, cell: &Cell) -> String {
        let found = match self {
            Column::Metric(name, _) => cell
                .metrics
                .iter()
                .find(|metric| metric.name == *name)
                .map(|metric| with_interval(metric.spread.median, metric.ci95, &metric.unit)),
            Column::Percentile(p, _) => cell.latency.as_ref().and_then(|latency| {
                let found = latency.quantiles.iter().find(|one| one.p == *p)?;
                Some(with_interval(found.value_ns?, found.ci95_ns, "ns"))
            }),
        };
        found.unwrap_or_else(|| "*".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::WIDTH;
    use crate::synthetic;

    /// The first measurement at two values, and its cells.
    fn swept() -> (Summary, Vec<Cell>) {
        let mut summary = synthetic::summary();
        let of = summary.measurements[0].clone();
        let own = summary.cells.iter().filter(|c| c.measurement == of.name);
        let own: Vec<Cell> = own.cloned().collect();
        assert!(tables(&summary, Look::default()).is_empty());
        (summary.measurements, summary.cells) = (Vec::new(), Vec::new());
        for value in ["1000", "50000"] {
            let name = format!("ask-{value}");
            let sweep = Some(SweepPoint {
                sweep: "ask".to_owned(),
                parameter: "rate".to_owned(),
                value: value.to_owned(),
            });
            let (name, of) = (name.clone(), of.clone());
            summary.measurements.push(MeasurementInfo {
                name: name.clone(),
                sweep,
                ..of
            });
            let cells = own.iter().cloned();
            summary.cells.extend(cells.map(|cell| Cell {
                measurement: name.clone(),
                ..cell
            }));
        }
        (summary, own)
    }

    #[test]
    fn a_first_cell_that_failed_takes_no_column_away() {
        let (mut summary, own) = swept();
        let head = |summary: &Summary| {
            let out = tables(summary, Look::default());
            let line = out.trim_start().lines().next().unwrap_or_default();
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let fail = |cell: &mut Cell| (cell.latency, cell.metrics) = (None, Vec::new());
        summary.cells[..own.len()].iter_mut().for_each(fail);
        assert_eq!(head(&summary), ["ask", "rate", "p50", "p99"]);
        summary.cells.iter_mut().for_each(fail);
        assert_eq!(head(&summary), [""; 0]);
    }

    #[test]
    fn values_stand_in_their_order_for_each_environment() {
        let (summary, own) = swept();
        let out = tables(&summary, Look::default());
        println!("{out}");
        let lines: Vec<&str> = out.trim_start().lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH));
        assert_eq!(
            lines[0].split_whitespace().collect::<Vec<_>>(),
            ["ask", "rate", "p50", "p99"]
        );
        let values = lines[1..].iter().map(|line| line.contains(" 1000 "));
        let values: Vec<bool> = values.collect();
        let expected: Vec<bool> = own.iter().flat_map(|_| [true, false]).collect();
        assert_eq!(values, expected);
        let median = own[0]
            .latency
            .as_ref()
            .unwrap()
            .quantiles
            .iter()
            .find(|q| q.p == 0.5)
            .unwrap();
        let shown = with_interval(median.value_ns.unwrap(), median.ci95_ns, "ns");
        assert!(lines[1].contains(&shown), "{shown}");
    }
}
