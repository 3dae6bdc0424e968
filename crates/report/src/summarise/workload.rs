//! The quantities of a workload's trials.

use latlab_model::results::WorkloadResult;

use crate::stats::{median, tidy};

/// The metric of a cell: the median over the nodes of a trial.
pub(super) const PER_NODE: &str = "per-node";

/// A quantity of one trial.
pub(super) struct Quantity {
    pub name: String,
    pub title: String,
    pub unit: String,
    pub higher_is_better: bool,
    pub value: f64,
}

/// The quantities of one trial, the metric of a node first.
pub(super) fn quantities(workload: &WorkloadResult) -> Vec<Quantity> {
    let mut all = said(workload);
    all.extend(cost(workload));
    all
}

/// `None` without a value.
pub(super) fn quantity(
    name: &str,
    title: &str,
    (unit, higher_is_better): (&str, bool),
    value: Option<f64>,
) -> Option<Quantity> {
    Some(Quantity {
        name: name.to_owned(),
        title: title.to_owned(),
        unit: unit.to_owned(),
        higher_is_better,
        value: value?,
    })
}

/// The figures of the programs, over the nodes.
fn said(workload: &WorkloadResult) -> Vec<Quantity> {
    let mut all = Vec::new();
    for (index, figure) in workload.figures.iter().enumerate() {
        let of_nodes = workload.nodes.iter().map(|node| node.values.get(index));
        let values: Vec<f64> = of_nodes.flatten().copied().collect();
        let kind = (figure.unit.as_str(), figure.higher_is_better);
        let middle = (!values.is_empty()).then(|| median(&values));
        if index > 0 {
            all.push(quantity(&figure.name, &figure.title, kind, middle));
            continue;
        }
        let title = format!("{}, per node", figure.title);
        all.push(quantity(PER_NODE, &title, kind, middle));
        if values.len() > 1 {
            // Rates add up; times do not.
            let sum = figure.higher_is_better.then(|| values.iter().sum());
            let title = format!("{}, all nodes", figure.title);
            let share = ("1", true);
            all.push(quantity("all-nodes", &title, kind, sum));
            all.push(quantity(
                "min-max",
                "Smallest node / largest",
                share,
                min_max(&values),
            ));
            all.push(quantity("jain", "Jain's index", share, jain(&values)));
        }
    }
    all.into_iter().flatten().collect()
}

/// The cost of the nodes, and how far apart they began.
fn cost(workload: &WorkloadResult) -> Vec<Quantity> {
    let nodes = &workload.nodes;
    let (time, memory) = (("ns", false), ("B", false));
    let number = |value: Option<u64>| value.map(|value| value as f64);
    let spread = (nodes.len() > 1).then_some(workload.begin_spread_ns as f64);
    let used = middle(nodes.iter().map(|node| number(node.cpu_ns)));
    let client = middle(
        nodes
            .iter()
            .map(|node| number(node.client.as_ref()?.cpu_ns)),
    );
    let machine = number(workload.machine_cpu_ns);
    let lost = workload.available_lost_bytes;
    let lost = lost.map(|bytes| bytes as f64 / f64::from(workload.count().max(1)));
    let pss = middle(nodes.iter().map(|node| number(node.memory.pss_bytes)));
    let charge = middle(nodes.iter().map(|node| number(node.memory.cgroup_bytes)));
    let all = [
        quantity("begin-spread", "Spread of begins", time, spread),
        quantity("cpu-per-node", "CPU time, per node", time, used),
        quantity("cpu-client", "CPU time, client's node", time, client),
        quantity("cpu-machine", "CPU time, machine", time, machine),
        quantity("memory-host", "Memory per node, host's loss", memory, lost),
        quantity("memory-pss", "Memory per node, PSS", memory, pss),
        quantity("memory-cgroup", "Memory per node, cgroup", memory, charge),
    ];
    all.into_iter().flatten().collect()
}

/// The median over nodes, if it is known for all.
fn middle(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    (!values.is_empty()).then(|| median(&values))
}

fn min_max(values: &[f64]) -> Option<f64> {
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (largest > 0.0).then(|| tidy(smallest / largest))
}

/// (Σx)² / (n Σx²): 1 where all have the same, 1/n where one has all (Jain, Chiu, Hawe 1984).
fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| tidy(sum * sum / (values.len() as f64 * squares)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use latlab_model::results::{Figure, NodeMemory, NodeWorkload};

    use super::*;

    fn workload(values: &[f64], higher_is_better: bool) -> WorkloadResult {
        let node = |value: &f64| NodeWorkload {
            values: vec![*value],
            cpu_ns: Some(7),
            memory: NodeMemory {
                pss_bytes: Some(100),
                cgroup_bytes: None,
            },
            ..NodeWorkload::default()
        };
        WorkloadResult {
            figures: vec![Figure {
                name: "metric".into(),
                title: "Events".into(),
                unit: "events/s".into(),
                higher_is_better,
            }],
            begin_spread_ns: 50,
            available_lost_bytes: Some(-300),
            nodes: values.iter().map(node).collect(),
            ..WorkloadResult::default()
        }
    }

    fn by_name(workload: &WorkloadResult) -> BTreeMap<String, f64> {
        let all = quantities(workload).into_iter();
        all.map(|one| (one.name, one.value)).collect()
    }

    #[test]
    fn nodes_are_summed_up_and_compared_with_each_other() {
        let found = by_name(&workload(&[10.0, 30.0, 20.0], true));
        assert_eq!(found[PER_NODE], 20.0);
        assert_eq!(found["all-nodes"], 60.0);
        assert_eq!(found["min-max"], tidy(1.0 / 3.0));
        assert_eq!(found["jain"], tidy(3600.0 / (3.0 * 1400.0)));
        assert_eq!((found["begin-spread"], found["cpu-per-node"]), (50.0, 7.0));
        assert_eq!((found["memory-host"], found["memory-pss"]), (-100.0, 100.0));
        // Not counted in this node.
        assert!(!found.contains_key("memory-cgroup"));
    }

    #[test]
    fn memory_is_shared_by_all_nodes_of_a_job() {
        let job = WorkloadResult {
            job_nodes: Some(4),
            ..workload(&[10.0], true)
        };
        assert_eq!(job.count(), 4);
        assert_eq!(by_name(&job)["memory-host"], -75.0);
    }

    #[test]
    fn one_node_is_fair_to_itself_and_times_do_not_add_up() {
        let alone = by_name(&workload(&[10.0], true));
        assert!(!alone.contains_key("jain") && !alone.contains_key("all-nodes"));
        let times = by_name(&workload(&[10.0, 20.0], false));
        assert!(!times.contains_key("all-nodes"));
        assert_eq!(times[PER_NODE], 15.0);
    }

    #[test]
    fn the_index_is_one_over_n_where_one_node_has_all() {
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(min_max(&[0.0, 0.0]), None);
    }
}
