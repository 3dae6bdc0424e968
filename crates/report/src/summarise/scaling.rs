//! Workloads over the number of their nodes.

use std::collections::BTreeMap;

use latlab_model::results::{Cell, Manifest, Scaling, Slowdown};

use super::cells::{Evidence, Pair};

/// Notes how many nodes each cell has, and how much slower one of them is than one alone: in the cell that differs in
/// a `count` only.
pub(super) fn scale(
    manifest: &Manifest,
    nodes: &BTreeMap<String, u32>,
    cells: &mut [Cell],
    evidence: &BTreeMap<String, Evidence>,
) {
    let counts = |name: &String| {
        let factor = manifest.factors.iter().find(|factor| factor.name == *name);
        factor.is_some_and(|f| f.path.split(", ").any(|path| path.ends_with(".count")))
    };
    let same_but_count = |one: &Cell, other: &Cell| {
        let mut levels = one.levels.iter();
        one.measurement == other.measurement
            && levels.all(|(name, level)| counts(name) || other.levels.get(name) == Some(level))
    };
    let slowdowns = cells.iter().map(|cell| {
        let number = *nodes.get(&cell.id)?;
        let alone = cells.iter().find(|other| {
            other.id != cell.id && nodes.get(&other.id) == Some(&1) && same_but_count(cell, other)
        });
        let slowdown = alone.filter(|_| number > 1).and_then(|alone| {
            let (here, there) = (evidence.get(&cell.id)?, evidence.get(&alone.id)?);
            // A rate is larger in the one alone, a time in the one among many.
            let pair = match here.higher_is_better {
                true => Pair::new(there, here)?,
                false => Pair::new(here, there)?,
            };
            Some(Slowdown {
                alone: alone.id.clone(),
                ratio: pair.ratio,
                ratio_ci95: pair.ci95,
            })
        });
        Some(Scaling {
            nodes: number,
            slowdown,
        })
    });
    let found: Vec<Option<Scaling>> = slowdowns.collect();
    for (cell, scaling) in cells.iter_mut().zip(found) {
        cell.scaling = scaling;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Estimate, Resamples, Rng, median};
    use crate::synthetic;

    fn evidence(values: &[f64], higher_is_better: bool) -> Evidence {
        let resamples = Resamples::new(values.len(), &mut Rng::new(1));
        Evidence {
            quantity: "Events, per node".into(),
            unit: "events/s".into(),
            higher_is_better,
            value: median(values),
            values: values.to_vec(),
            estimate: Estimate::of_values(values, &resamples),
            spread: Estimate::of_spread(values),
            tails: Vec::new(),
            tails_steal_aside: Vec::new(),
            ruler_spread: 0.0,
        }
    }

    /// The cells of one measurement: one node at the link `veth`, four at `bridge`.
    fn scaled(alone: &[f64], among: &[f64], higher_is_better: bool) -> Vec<Cell> {
        let summary = synthetic::summary();
        let mut manifest = synthetic::Plan::small().manifest();
        let factor = manifest.factors.iter_mut().find(|f| f.name == "link");
        factor.unwrap().path = "topology.nodes.guest.count".into();
        let cells = summary.cells.into_iter();
        let mut cells: Vec<Cell> = cells.filter(|cell| cell.measurement == "packets").collect();
        let is_alone = |cell: &Cell| cell.levels["link"] == "veth";
        let of = |cell: &Cell| if is_alone(cell) { alone } else { among };
        let nodes = cells
            .iter()
            .map(|c| (c.id.clone(), if is_alone(c) { 1 } else { 4 }));
        let nodes = nodes.collect();
        let found = cells
            .iter()
            .map(|c| (c.id.clone(), evidence(of(c), higher_is_better)));
        let found = found.collect();
        scale(&manifest, &nodes, &mut cells, &found);
        cells
    }

    #[test]
    fn a_node_among_others_is_compared_with_the_one_alone_of_its_kind() {
        let (fast, slow) = ([990.0, 1000.0, 1010.0], [480.0, 500.0, 520.0]);
        // A rate that halves is as much slower as a time that doubles.
        for cells in [scaled(&fast, &slow, true), scaled(&slow, &fast, false)] {
            let mut compared = 0;
            for cell in &cells {
                let scaling = cell.scaling.as_ref().unwrap();
                let Some(slowdown) = &scaling.slowdown else {
                    assert_eq!(scaling.nodes, 1);
                    continue;
                };
                compared += 1;
                assert_eq!(scaling.nodes, 4);
                let kind = &cell.levels["kind"];
                assert_eq!(slowdown.alone, format!("packets/kind={kind}/link=veth"));
                assert!((slowdown.ratio - 2.0).abs() < 1e-6, "{slowdown:?}");
                let (low, high) = slowdown.ratio_ci95.unwrap();
                assert!(low < 2.0 && high > 2.0 && low > 1.5, "{slowdown:?}");
            }
            assert_eq!(compared, 3);
        }
    }

    #[test]
    fn nothing_is_compared_where_no_count_differs() {
        let summary = synthetic::summary();
        let manifest = synthetic::Plan::small().manifest();
        let mut cells = summary.cells;
        let nodes = cells.iter().enumerate();
        let nodes = nodes.map(|(i, c)| (c.id.clone(), 1 + i as u32)).collect();
        let found = cells
            .iter()
            .map(|c| (c.id.clone(), evidence(&[1.0, 2.0, 3.0], true)));
        let found = found.collect();
        scale(&manifest, &nodes, &mut cells, &found);
        let compared = |cell: &Cell| cell.scaling.as_ref().unwrap().slowdown.is_some();
        assert!(!cells.iter().any(compared));
    }
}
