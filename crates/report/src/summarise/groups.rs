//! Which cells are held against each other.
//!
//! The study names its baseline by levels of some factors (`kind: native`). Cells that agree in the
//! measurement and in all other factors form a group; within it, the cell with the baseline's
//! levels is what the others are compared with. Without a baseline, all cells of a measurement are
//! drawn together and nothing is compared.

use std::collections::BTreeMap;

use latlab_model::results::{CellPlan, Group, Manifest};

/// The groups of a run, by measurement and then in the order of cells.
pub(super) fn form(manifest: &Manifest) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for cell in &manifest.cells {
        let levels = shared_levels(manifest, cell);
        let same =
            |group: &&mut Group| group.measurement == cell.measurement && group.levels == levels;
        match groups.iter_mut().find(same) {
            Some(group) => group.cells.push(cell.id.clone()),
            None => groups.push(Group {
                id: identifier(&cell.measurement, &levels),
                measurement: cell.measurement.clone(),
                title: title(manifest, &cell.measurement, &levels),
                levels,
                cells: vec![cell.id.clone()],
                baseline: None,
            }),
        }
    }
    for group in &mut groups {
        set_baseline(manifest, group);
    }
    let place = |group: &Group| {
        manifest
            .measurements
            .iter()
            .position(|info| info.name == group.measurement)
    };
    groups.sort_by_key(place);
    groups
}

/// How a cell is called within its group: the levels in which it differs from the others.
pub(super) fn label(manifest: &Manifest, cell: &CellPlan) -> String {
    let differs = |name: &str| manifest.baseline.is_empty() || manifest.baseline.contains_key(name);
    let levels: Vec<&str> = manifest
        .factors
        .iter()
        .filter(|factor| differs(&factor.name))
        .filter_map(|factor| cell.levels.get(&factor.name))
        .map(String::as_str)
        .collect();
    if levels.is_empty() {
        cell.measurement.clone()
    } else {
        levels.join(" · ")
    }
}

fn shared_levels(manifest: &Manifest, cell: &CellPlan) -> BTreeMap<String, String> {
    if manifest.baseline.is_empty() {
        return BTreeMap::new();
    }
    let held = |(name, _): &(&String, &String)| !manifest.baseline.contains_key(*name);
    cell.levels
        .iter()
        .filter(held)
        .map(|(name, level)| (name.clone(), level.clone()))
        .collect()
}

fn set_baseline(manifest: &Manifest, group: &mut Group) {
    if manifest.baseline.is_empty() {
        return;
    }
    let is_baseline = |id: &String| {
        manifest.cells.iter().any(|cell| {
            cell.id == *id
                && manifest
                    .baseline
                    .iter()
                    .all(|(name, level)| cell.levels.get(name) == Some(level))
        })
    };
    if let Some(position) = group.cells.iter().position(is_baseline) {
        let id = group.cells.remove(position);
        group.cells.insert(0, id.clone());
        group.baseline = Some(id);
    }
}

fn identifier(measurement: &str, levels: &BTreeMap<String, String>) -> String {
    let levels = levels
        .iter()
        .map(|(name, level)| format!("/{name}={level}"));
    std::iter::once(measurement.to_owned())
        .chain(levels)
        .collect()
}

fn title(manifest: &Manifest, measurement: &str, levels: &BTreeMap<String, String>) -> String {
    let parts = manifest.factors.iter().filter_map(|factor| {
        levels
            .get(&factor.name)
            .map(|level| format!("{} {level}", factor.name))
    });
    std::iter::once(measurement.to_owned())
        .chain(parts)
        .collect::<Vec<_>>()
        .join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn cells_are_grouped_by_what_the_baseline_leaves_open() {
        let manifest = synthetic::Plan::small().manifest();
        let groups = form(&manifest);
        let titles: Vec<&str> = groups.iter().map(|group| group.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "rr-udp · link veth",
                "rr-udp · link bridge",
                "packets · link veth",
                "packets · link bridge",
            ]
        );
        assert_eq!(groups[1].cells[0], "rr-udp/kind=native/link=bridge");
        assert_eq!(
            groups[1].baseline.as_deref(),
            Some("rr-udp/kind=native/link=bridge")
        );
        assert_eq!(label(&manifest, &manifest.cells[0]), "native");
    }

    #[test]
    fn the_baseline_comes_first_wherever_it_was_planned() {
        let mut manifest = synthetic::Plan::small().manifest();
        manifest.cells.reverse();
        for group in form(&manifest) {
            assert_eq!(group.baseline.as_ref(), group.cells.first());
        }
    }

    #[test]
    fn without_a_baseline_a_measurement_is_one_group() {
        let mut manifest = synthetic::Plan::small().manifest();
        manifest.baseline.clear();
        let groups = form(&manifest);
        assert_eq!(groups.len(), 2);
        assert!(groups.iter().all(|group| group.baseline.is_none()));
        assert_eq!(label(&manifest, &manifest.cells[0]), "native · veth");
    }

    #[test]
    fn a_baseline_that_was_not_measured_is_absent() {
        let mut manifest = synthetic::Plan::small().manifest();
        manifest
            .baseline
            .insert("kind".to_owned(), "bare".to_owned());
        assert!(form(&manifest).iter().all(|group| group.baseline.is_none()));
    }
}
