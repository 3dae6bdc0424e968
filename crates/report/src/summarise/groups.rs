//! Groups of cells that are compared with each other.
//!
//! The study names its baseline by levels of some factors (`kind: native`), or by one level for each level of a
//! factor. Cells that agree in the measurement, in all other factors and in their baseline form a group; the cell with
//! the baseline's levels is the one to compare with. That cell may be compared with the baseline of another group
//! itself. Without a baseline, all cells of a measurement are drawn together and nothing is compared.

use std::collections::BTreeMap;

use latlab_model::results::{CellPlan, Group, Manifest};

pub(super) fn form(manifest: &Manifest) -> Vec<Group> {
    let mut groups: Vec<(BTreeMap<String, String>, Group)> = Vec::new();
    for cell in &manifest.cells {
        let levels = shared_levels(manifest, cell);
        let base = base_levels(manifest, cell);
        let same = |(other, group): &&mut (BTreeMap<String, String>, Group)| {
            group.measurement == cell.measurement && group.levels == levels && *other == base
        };
        match groups.iter_mut().find(same) {
            Some((_, group)) => group.cells.push(cell.id.clone()),
            None => {
                let said = said(manifest, &base);
                let group = Group {
                    id: identifier(&cell.measurement, &levels, &said),
                    measurement: cell.measurement.clone(),
                    title: title(manifest, &cell.measurement, &levels, &said),
                    levels,
                    cells: vec![cell.id.clone()],
                    baseline: None,
                };
                groups.push((base, group));
            }
        }
    }
    let mut groups: Vec<Group> = groups
        .into_iter()
        .map(|(base, group)| with_baseline(manifest, &base, group))
        .collect();
    let place = |group: &Group| {
        manifest
            .measurements
            .iter()
            .position(|info| info.name == group.measurement)
    };
    groups.sort_by_key(place);
    groups
}

/// A cell's label within its group: the levels in which it differs from the others.
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

/// Levels of a cell's baseline, of the compared factors.
fn base_levels(manifest: &Manifest, cell: &CellPlan) -> BTreeMap<String, String> {
    let of = |(name, common): (&String, &String)| {
        let each = manifest.against.get(name);
        let own = each.and_then(|each| each.get(cell.levels.get(name)?));
        (name.clone(), own.unwrap_or(common).clone())
    };
    manifest.baseline.iter().map(of).collect()
}

/// Those of them that vary within the study.
fn said(manifest: &Manifest, base: &BTreeMap<String, String>) -> Vec<String> {
    let differ = base
        .iter()
        .filter(|(name, _)| manifest.against.contains_key(*name));
    differ.map(|(_, level)| level.clone()).collect()
}

fn with_baseline(manifest: &Manifest, base: &BTreeMap<String, String>, mut group: Group) -> Group {
    if base.is_empty() {
        return group;
    }
    let is_baseline = |cell: &&CellPlan| {
        cell.measurement == group.measurement
            && shared_levels(manifest, cell) == group.levels
            && base
                .iter()
                .all(|(name, level)| cell.levels.get(name) == Some(level))
    };
    if let Some(cell) = manifest.cells.iter().find(is_baseline) {
        group.cells.retain(|id| *id != cell.id);
        group.cells.insert(0, cell.id.clone());
        group.baseline = Some(cell.id.clone());
    }
    group
}

fn identifier(measurement: &str, levels: &BTreeMap<String, String>, against: &[String]) -> String {
    let levels = levels
        .iter()
        .map(|(name, level)| format!("/{name}={level}"));
    let against = against.iter().map(|level| format!("/against={level}"));
    std::iter::once(measurement.to_owned())
        .chain(levels)
        .chain(against)
        .collect()
}

fn title(
    manifest: &Manifest,
    measurement: &str,
    levels: &BTreeMap<String, String>,
    against: &[String],
) -> String {
    let parts = manifest.factors.iter().filter_map(|factor| {
        levels
            .get(&factor.name)
            .map(|level| format!("{} {level}", factor.name))
    });
    let against = against.iter().map(|level| format!("against {level}"));
    std::iter::once(measurement.to_owned())
        .chain(parts)
        .chain(against)
        .collect::<Vec<_>>()
        .join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn cells_are_grouped_by_factors_that_the_baseline_leaves_open() {
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
    fn levels_have_baselines_of_their_own_and_a_baseline_is_in_two_groups() {
        let mut manifest = synthetic::Plan::small().manifest();
        let kinds = ["native", "container", "vm"];
        let found: Vec<&str> = manifest.factors[0]
            .levels
            .iter()
            .map(String::as_str)
            .collect();
        assert_eq!(found, kinds);
        // A container beside a process, a machine beside a container.
        let each = kinds.iter().zip(["native", "native", "container"]);
        let each = each.map(|(level, base)| ((*level).to_owned(), base.to_owned()));
        manifest.against = [("kind".to_owned(), each.collect())].into();
        let groups = form(&manifest);
        let of = |title: &str| {
            let group = groups.iter().find(|group| group.title == title).unwrap();
            let cells = group.cells.iter().map(|id| id.split('/').nth(1).unwrap());
            (group.baseline.clone().unwrap(), cells.collect::<Vec<_>>())
        };
        let (base, cells) = of("rr-udp · link bridge · against native");
        assert_eq!(base, "rr-udp/kind=native/link=bridge");
        assert_eq!(cells, ["kind=native", "kind=container"]);
        let (base, cells) = of("rr-udp · link bridge · against container");
        assert_eq!(base, "rr-udp/kind=container/link=bridge");
        assert_eq!(cells, ["kind=container", "kind=vm"]);
        let ids: std::collections::BTreeSet<&str> = groups.iter().map(|g| g.id.as_str()).collect();
        assert_eq!(ids.len(), groups.len());
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
