//! Effects of the factors: the analysis of a factorial design on logarithms.
//!
//! A study of two kernels, two networks and two kinds of node has eight cells. A comparison with one baseline uses two
//! of them at a time. A main effect uses all: the kernel's ratio, averaged over networks and kinds. An interaction says
//! whether the kernel's ratio depends on the network. Both are contrasts of the cells' estimates, which are medians or
//! percentiles and so do not follow a single slow trial (Jain 1991, chapter 17, has the same for means).

use std::collections::BTreeMap;

use latlab_model::results::{Change, Effect, Factor, Manifest};

use super::cells::Evidence;
use crate::stats::{Estimate, Ratio, contrast, judge_sizes};

/// Interactions of one order are left out where all effects on a quantity would be more: the correction for their
/// number would hide the main effects.
const MAX_EFFECTS: usize = 32;

/// Factors that interact at once.
const MAX_ORDER: usize = 3;

/// The standard deviation of a quantity's values, one a trial.
const BETWEEN_TRIALS: &str = "sd between trials";

/// A cell by the index of its level in each factor.
type Place = Vec<usize>;

/// The effects on each quantity of each measurement. Empty with fewer than two factors that vary: the comparison with the
/// baseline says all then.
pub(super) fn of(manifest: &Manifest, evidence: &BTreeMap<String, Evidence>) -> Vec<Effect> {
    let factors: Vec<&Factor> = manifest.factors.iter().collect();
    let varied = factors.iter().filter(|factor| factor.levels.len() > 1);
    if varied.count() < 2 {
        return Vec::new();
    }
    let references: Place = factors.iter().map(|f| reference(manifest, f)).collect();
    let mut all = Vec::new();
    for info in &manifest.measurements {
        let cells = manifest.cells.iter().filter(|c| c.measurement == info.name);
        let placed = cells.filter_map(|cell| {
            let levels = factors.iter().map(|factor| {
                let level = cell.levels.get(&factor.name)?;
                factor.levels.iter().position(|known| known == level)
            });
            Some((levels.collect::<Option<Place>>()?, evidence.get(&cell.id)?))
        });
        let placed: BTreeMap<Place, &Evidence> = placed.collect();
        for quantity in quantities(&placed) {
            let design = Design {
                factors: &factors,
                references: &references,
                cells: quantity.estimates,
            };
            let found = design.effects();
            let ratios: Vec<Ratio> = found.iter().map(|(_, ratio, _)| *ratio).collect();
            let judged = judge_sizes(&ratios, quantity.higher_is_better);
            let found = found.into_iter().zip(judged);
            all.extend(found.map(
                |((changes, ratio, combinations), (p_value, verdict))| Effect {
                    measurement: info.name.clone(),
                    quantity: quantity.name.clone(),
                    changes: design.named(&changes),
                    ratio: ratio.value,
                    ratio_ci95: ratio.ci95,
                    p_value,
                    combinations,
                    verdict,
                },
            ));
        }
    }
    all
}

/// The level that a factor's other levels are compared with.
fn reference(manifest: &Manifest, factor: &Factor) -> usize {
    let named = manifest.baseline.get(&factor.name);
    let place = named.and_then(|name| factor.levels.iter().position(|level| level == name));
    place.unwrap_or(0)
}

struct Quantity {
    name: String,
    higher_is_better: bool,
    estimates: BTreeMap<Place, Estimate>,
}

/// The cells' main quantity, the tails that every cell has, and the main quantity's deviation between trials.
fn quantities(cells: &BTreeMap<Place, &Evidence>) -> Vec<Quantity> {
    let Some(first) = cells.values().next() else {
        return Vec::new();
    };
    let alike = cells
        .iter()
        .filter(|(_, cell)| cell.quantity == first.quantity);
    let main = Quantity {
        name: first.quantity.clone(),
        higher_is_better: first.higher_is_better,
        estimates: alike
            .filter_map(|(place, cell)| Some((place.clone(), cell.estimate?)))
            .collect(),
    };
    let tails = first.tails.iter().filter_map(|tail| {
        let of_cell = |cell: &Evidence| cell.tails.iter().find(|own| own.of == tail.of)?.estimate;
        let estimates = cells
            .iter()
            .map(|(place, cell)| Some((place.clone(), of_cell(cell)?)));
        Some(Quantity {
            name: tail.of.clone(),
            higher_is_better: false,
            estimates: estimates.collect::<Option<_>>()?,
        })
    });
    let spreads = cells
        .iter()
        .map(|(place, cell)| Some((place.clone(), cell.spread?)));
    let spread = spreads.collect::<Option<_>>().map(|estimates| Quantity {
        name: BETWEEN_TRIALS.into(),
        higher_is_better: false,
        estimates,
    });
    std::iter::once(main).chain(tails).chain(spread).collect()
}

/// One quantity in all combinations of levels that were measured.
struct Design<'a> {
    factors: &'a [&'a Factor],
    references: &'a [usize],
    cells: BTreeMap<Place, Estimate>,
}

/// For some factors, by index, the level that is compared with the reference.
type Changes = Vec<(usize, usize)>;

impl Design<'_> {
    /// Main effects, then interactions of two factors, and of three.
    fn effects(&self) -> Vec<(Changes, Ratio, usize)> {
        let mut all = Vec::new();
        let mut order: Vec<Changes> = vec![Vec::new()];
        for _ in 0..MAX_ORDER {
            order = order
                .iter()
                .flat_map(|changes| self.extended(changes))
                .collect();
            let found = order.iter().filter_map(|changes| {
                let (ratio, combinations) = self.effect(changes)?;
                Some((changes.clone(), ratio, combinations))
            });
            let found: Vec<_> = found.collect();
            if all.len() + found.len() > MAX_EFFECTS {
                break;
            }
            all.extend(found);
        }
        all
    }

    /// These changes with one more, of a factor behind theirs.
    fn extended(&self, changes: &Changes) -> Vec<Changes> {
        let next = changes.last().map_or(0, |(factor, _)| factor + 1);
        let others = (next..self.factors.len()).flat_map(|factor| {
            let levels = 0..self.factors[factor].levels.len();
            let changed = levels.filter(move |level| *level != self.references[factor]);
            changed.map(move |level| (factor, level))
        });
        let with = |change| changes.iter().copied().chain([change]).collect();
        others.map(with).collect()
    }

    /// The effect, and the combinations of the other factors' levels in which all of its cells are there; `None` without
    /// one.
    fn effect(&self, changes: &Changes) -> Option<(Ratio, usize)> {
        let is_changed = |place: &&Place| {
            changes
                .iter()
                .all(|(factor, level)| place[*factor] == *level)
        };
        let corners = self.cells.keys().filter(is_changed);
        let complete: Vec<Vec<(f64, &Estimate)>> = corners
            .filter_map(|place| self.corners(place, changes))
            .collect();
        let share = 1.0 / complete.len() as f64;
        let terms = complete.iter().flatten();
        let terms: Vec<(f64, &Estimate)> = terms
            .map(|(sign, estimate)| (sign * share, *estimate))
            .collect();
        if terms.is_empty() {
            return None;
        }
        Some((contrast(&terms)?, complete.len()))
    }

    /// The cells between all references and all changes, each with its sign; `None` if one is missing.
    fn corners(&self, place: &Place, changes: &Changes) -> Option<Vec<(f64, &Estimate)>> {
        let subsets = 0..1_usize << changes.len();
        let corner = |kept: usize| {
            let mut corner = place.clone();
            let mut sign = 1.0;
            for (bit, (factor, _)) in changes.iter().enumerate() {
                if kept & (1 << bit) == 0 {
                    corner[*factor] = self.references[*factor];
                    sign = -sign;
                }
            }
            Some((sign, self.cells.get(&corner)?))
        };
        subsets.map(corner).collect()
    }

    fn named(&self, changes: &Changes) -> Vec<Change> {
        let named = changes.iter().map(|(factor, level)| {
            let reference = self.references[*factor];
            let factor = self.factors[*factor];
            Change {
                factor: factor.name.clone(),
                from: factor.levels[reference].clone(),
                to: factor.levels[*level].clone(),
            }
        });
        named.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Resamples, Rng, median};
    use crate::synthetic;
    use latlab_model::results::Verdict;

    /// Two kinds of node on two links, with these medians; trials differ by one percent.
    fn effects_of(medians: [[f64; 2]; 2]) -> Vec<Effect> {
        let plan = synthetic::Plan {
            kinds: vec!["native", "vm"],
            measurements: vec!["rr-udp"],
            ..synthetic::Plan::small()
        };
        let manifest = plan.manifest();
        let evidence = |kind: usize, link: usize| {
            let middle = medians[kind][link];
            let values: Vec<f64> = [0.99, 0.995, 1.0, 1.005, 1.01]
                .map(|by| by * middle)
                .to_vec();
            let resamples = Resamples::new(values.len(), &mut Rng::new(1));
            Evidence {
                quantity: "median latency".into(),
                unit: "ns".into(),
                higher_is_better: false,
                value: median(&values),
                estimate: Estimate::of_values(&values, &resamples),
                spread: Estimate::of_spread(&values),
                values,
                tails: Vec::new(),
                tails_steal_aside: Vec::new(),
                ruler_spread: 0.0,
            }
        };
        let cells = manifest.cells.iter().map(|cell| {
            let kind = usize::from(cell.levels["kind"] == "vm");
            let link = usize::from(cell.levels["link"] == "bridge");
            (cell.id.clone(), evidence(kind, link))
        });
        of(&manifest, &cells.collect())
    }

    fn of_quantity(mut effects: Vec<Effect>, quantity: &str) -> Vec<Effect> {
        effects.retain(|effect| effect.quantity == quantity);
        effects
    }

    fn ratios(effects: &[Effect]) -> Vec<(String, f64, Verdict)> {
        let told = effects.iter().map(|effect| {
            let changes = effect
                .changes
                .iter()
                .map(|c| format!("{}={}", c.factor, c.to));
            (
                changes.collect::<Vec<_>>().join(" x "),
                effect.ratio,
                effect.verdict,
            )
        });
        told.collect()
    }

    #[test]
    fn independent_factors_have_main_effects_only() {
        // A VM doubles, a bridge adds a half, wherever they are.
        let found = effects_of([[100.0, 150.0], [200.0, 300.0]]);
        // Trials differ by one percent of the median everywhere, so the deviation has its ratios.
        let spreads = ratios(&of_quantity(found.clone(), BETWEEN_TRIALS));
        assert_eq!((spreads.len(), spreads[0].1), (3, 2.0));
        let found = ratios(&of_quantity(found, "median latency"));
        let expected = [
            ("kind=vm".to_owned(), 2.0, Verdict::Worse),
            ("link=bridge".to_owned(), 1.5, Verdict::Worse),
            (
                "kind=vm x link=bridge".to_owned(),
                1.0,
                Verdict::NoDifference,
            ),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_interaction_is_a_ratio_of_ratios() {
        // A VM doubles on a cable and does nothing on a bridge.
        let found = effects_of([[100.0, 150.0], [200.0, 150.0]]);
        let found = of_quantity(found, "median latency");
        assert_eq!(found.len(), 3);
        assert!(
            (found[0].ratio - libm::sqrt(2.0)).abs() < 1e-6,
            "{found:#?}"
        );
        assert_eq!(found[0].combinations, 2);
        assert_eq!(
            ratios(&found)[2],
            ("kind=vm x link=bridge".into(), 0.5, Verdict::Better)
        );
        let (low, high) = found[2].ratio_ci95;
        assert!(low < 0.5 && high > 0.5 && high < 0.55, "{found:#?}");
    }

    #[test]
    fn an_effect_is_over_the_combinations_that_were_measured() {
        let plan = synthetic::Plan::small();
        let mut manifest = plan.manifest();
        let summary = synthetic::summary();
        assert!(summary.effects.iter().any(|e| e.quantity == "p99"));
        // Without a VM on the bridge its kind is compared on the other link, and their interaction is not known.
        manifest
            .cells
            .retain(|c| c.id != "rr-udp/kind=vm/link=bridge");
        let scratch = synthetic::Scratch::new("effects");
        let run = plan.write(scratch.path().join("run"));
        let analysis = crate::analyse(&run).unwrap();
        let found = of(&manifest, &analysis.evidence);
        let of = |changes: &[&str]| {
            found.iter().find(|effect| {
                let named = effect.changes.iter().map(|change| change.to.as_str());
                effect.measurement == "rr-udp" && named.eq(changes.iter().copied())
            })
        };
        assert_eq!(of(&["vm"]).unwrap().combinations, 1);
        assert_eq!(of(&["container"]).unwrap().combinations, 2);
        assert!(of(&["vm", "bridge"]).is_none() && of(&["container", "bridge"]).is_some());
    }

    #[test]
    fn one_factor_has_no_effects_beside_its_comparison() {
        let plan = synthetic::Plan {
            links: vec!["veth"],
            ..synthetic::Plan::small()
        };
        let scratch = synthetic::Scratch::new("effects-of-one");
        let run = plan.write(scratch.path().join("run"));
        assert!(crate::analyse(&run).unwrap().summary.effects.is_empty());
    }
}
