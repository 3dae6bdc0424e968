//! The start of containers and VMs, from the records of the deployments.

use std::collections::BTreeMap;

use latlab_model::results::{Manifest, NodeStart, Starts};

use super::range::range;
use super::trials::TrialData;

/// One entry for each lab of the study and each kind of node in it.
pub(super) fn of(manifest: &Manifest, trials: &BTreeMap<usize, TrialData>) -> Vec<Starts> {
    let mut found: Vec<(BTreeMap<String, String>, String, Deployments)> = Vec::new();
    for trial in trials.values() {
        let Some(record) = &trial.record else {
            continue;
        };
        let cell = manifest.cells.iter().find(|cell| cell.id == record.cell);
        let levels = cell.map(|cell| cell.levels.clone()).unwrap_or_default();
        let mut kinds: BTreeMap<&str, Vec<&NodeStart>> = BTreeMap::new();
        for start in &record.starts {
            kinds.entry(&start.kind).or_default().push(start);
        }
        for (kind, starts) in kinds {
            let at = found
                .iter()
                .position(|(of, other, _)| *of == levels && other == kind);
            let at = at.unwrap_or_else(|| {
                found.push((levels.clone(), kind.to_owned(), Deployments::default()));
                found.len() - 1
            });
            found[at].2.add(&starts);
        }
    }
    let entries = found.into_iter();
    let entries = entries.filter_map(|(levels, kind, deployments)| {
        Some(Starts {
            levels,
            kind,
            nodes: deployments.nodes,
            deployments: deployments.all.len(),
            each: range(deployments.each)?,
            all_ns: deployments.all.iter().map(|&ns| ns as f64).collect(),
            all: range(deployments.all)?,
        })
    });
    let mut entries: Vec<Starts> = entries.collect();
    entries.sort_by(|a, b| (&a.levels, &a.kind).cmp(&(&b.levels, &b.kind)));
    entries
}

#[derive(Default)]
struct Deployments {
    nodes: usize,
    each: Vec<i64>,
    all: Vec<i64>,
}

impl Deployments {
    fn add(&mut self, starts: &[&NodeStart]) {
        self.nodes = self.nodes.max(starts.len());
        let took = |start: &&NodeStart| start.ready_ns.saturating_sub(start.began_ns) as i64;
        self.each.extend(starts.iter().map(took));
        let first = starts.iter().map(|start| start.began_ns).min();
        let last = starts.iter().map(|start| start.ready_ns).max();
        if let (Some(first), Some(last)) = (first, last) {
            self.all.push(last.saturating_sub(first) as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_is_timed_by_itself_and_all_from_the_first_to_the_last() {
        let start = |began_ns, ready_ns| NodeStart {
            node: "v".into(),
            kind: "vm".into(),
            began_ns,
            ready_ns,
            kernel: None,
        };
        let nodes = [start(0, 100), start(5, 95), start(100, 180)];
        let mut deployments = Deployments::default();
        deployments.add(&nodes.iter().collect::<Vec<_>>());
        assert_eq!((deployments.nodes, &deployments.all), (3, &vec![180]));
        let each = range(deployments.each).unwrap();
        assert_eq!(
            (each.smallest, each.median, each.largest),
            (80.0, 90.0, 100.0)
        );
        assert!(range(Vec::new()).is_none());
    }
}
