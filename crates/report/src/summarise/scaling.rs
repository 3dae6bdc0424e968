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
