//! Conditions for claiming a difference.
//!
//! Two tests guard against false claims, and both must agree before the report says "better" or "worse":
//!
//! 1. *by size*: the ratio's t test, with its p-values adjusted after Holm for all comparisons made
//!    against the same baseline, must fall below 0.05. With one comparison that is the same as the
//!    95 % interval of the ratio leaving out 1;
//! 2. *by shape*: the Mann–Whitney test, which does not lean on the logarithms being normal, must
//!    fall below 0.05 too. With three against three replicates it cannot (its smallest p-value is
//!    0.1); there, and wherever it has no power, every replicate of one side must lie beyond every
//!    one of the other.
//!
//! The second p-value is not adjusted: as a second condition it can only make claims rarer, and the first
//! keeps the chance of any false claim in a group below 5 %.
//!
//! "No difference" is a claim as well. The interval of the ratio must lie within the margin of equivalence, as in a test
//! of equivalence (two one-sided tests, Schuirmann 1987). A wide interval that holds 1 decides nothing.

use latlab_model::results::Verdict;

use super::estimate::Ratio;
use super::rank::mann_whitney;

pub const SIGNIFICANCE: f64 = 0.05;

/// A ratio of 1 / 1.1 to 1.1 counts as none.
const EQUIVALENCE_MARGIN: f64 = 1.1;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// The cell's ratio to its baseline is above 1.
    pub above: bool,
    /// Larger values are better.
    pub higher_is_better: bool,
    /// `None` with too few replicates.
    pub tested: Option<Ratio>,
    pub rank: Option<f64>,
    /// Smallest p-value the rank test could have given with these replicates.
    pub rank_least: f64,
    /// Every replicate of one side lies beyond every one of the other.
    pub separated: bool,
}

impl Claim {
    /// Fills in the rank test and the separation from the two sides' values.
    pub fn new(
        cell: &[f64],
        baseline: &[f64],
        ratio: f64,
        higher: bool,
        tested: Option<Ratio>,
    ) -> Self {
        let below = |a: &[f64], b: &[f64]| a.iter().all(|x| b.iter().all(|y| x < y));
        let steps = |n: usize, from: f64| (0..n).map(move |i| from + i as f64).collect::<Vec<_>>();
        let apart = mann_whitney(&steps(cell.len(), 0.0), &steps(baseline.len(), 1e6));
        Self {
            above: ratio > 1.0,
            higher_is_better: higher,
            tested,
            rank: mann_whitney(cell, baseline),
            rank_least: apart.unwrap_or(1.0),
            separated: below(cell, baseline) || below(baseline, cell),
        }
    }
}

pub fn judge(claims: &[Claim]) -> Vec<Verdict> {
    let tested = claims.iter().filter_map(|claim| claim.tested);
    let sizes: Vec<f64> = tested.map(|ratio| ratio.p_value).collect();
    let mut adjusted = holm(&sizes).into_iter();
    let verdict = |claim: &Claim| {
        let Some(ratio) = claim.tested else {
            return Verdict::TooFewReplicates;
        };
        let size = adjusted.next().unwrap_or(1.0);
        let shape = if claim.rank_least <= SIGNIFICANCE {
            claim.rank.is_some_and(|p| p <= SIGNIFICANCE)
        } else {
            claim.separated
        };
        let is_better = claim.above == claim.higher_is_better;
        of_ratio(size <= SIGNIFICANCE && shape, is_better, ratio.ci95)
    };
    claims.iter().map(verdict).collect()
}

/// Verdicts by size alone, where there are no two sides to compare by ranks; each with its p-value after Holm.
pub fn judge_sizes(ratios: &[Ratio], higher_is_better: bool) -> Vec<(f64, Verdict)> {
    let sizes: Vec<f64> = ratios.iter().map(|ratio| ratio.p_value).collect();
    let verdict = |(ratio, size): (&Ratio, f64)| {
        let is_better = (ratio.value > 1.0) == higher_is_better;
        (size, of_ratio(size <= SIGNIFICANCE, is_better, ratio.ci95))
    };
    ratios.iter().zip(holm(&sizes)).map(verdict).collect()
}

fn of_ratio(is_proven: bool, is_better: bool, ci95: (f64, f64)) -> Verdict {
    match (is_proven, is_better) {
        (false, _) => without_proof(ci95),
        (true, true) => Verdict::Better,
        (true, false) => Verdict::Worse,
    }
}

/// The verdict on a difference that is not proven.
fn without_proof((low, high): (f64, f64)) -> Verdict {
    match (
        low > 1.0 || high < 1.0,
        low * EQUIVALENCE_MARGIN >= 1.0 && high <= EQUIVALENCE_MARGIN,
    ) {
        (true, _) => Verdict::NotProven,
        (false, true) => Verdict::NoDifference,
        (false, false) => Verdict::Inconclusive,
    }
}

/// p-values adjusted after Holm (1979), in the order given.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut least: f64 = 0.0;
    for (done, index) in order.into_iter().enumerate() {
        least = least
            .max(p_values[index] * (p_values.len() - done) as f64)
            .min(1.0);
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With an interval that leaves 1 out where the p-value is small.
    fn claim(cell: &[f64], baseline: &[f64], value: f64, p_value: f64) -> Claim {
        let far = if p_value <= SIGNIFICANCE {
            value.sqrt()
        } else {
            value.recip()
        };
        let tested = Ratio {
            value,
            ci95: (far.min(value), far.max(value)),
            p_value,
        };
        Claim::new(cell, baseline, value, false, Some(tested))
    }

    #[test]
    fn holm_as_in_r() {
        // p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[]), Vec::<f64>::new());
    }

    #[test]
    fn both_tests_must_agree() {
        let (low, high) = ([1., 2., 3., 4., 5.], [6., 7., 8., 9., 10.]);
        let mixed = [3.5, 4.5, 5.5, 1.5, 9.0];
        let verdicts = |claims: &[Claim]| judge(claims);
        assert_eq!(
            verdicts(&[claim(&high, &low, 2.0, 0.001)]),
            [Verdict::Worse]
        );
        assert_eq!(
            verdicts(&[claim(&low, &high, 0.5, 0.001)]),
            [Verdict::Better]
        );
        assert_eq!(
            verdicts(&[claim(&high, &low, 2.0, 0.2)]),
            [Verdict::Inconclusive]
        );
        assert_eq!(
            verdicts(&[claim(&mixed, &low, 2.0, 0.001)]),
            [Verdict::NotProven]
        );
    }

    #[test]
    fn three_replicates_must_be_apart() {
        let base = [1., 2., 3.];
        assert_eq!(
            judge(&[claim(&[4., 5., 6.], &base, 2.0, 0.01)]),
            [Verdict::Worse]
        );
        assert_eq!(
            judge(&[claim(&[2.5, 5., 6.], &base, 2.0, 0.01)]),
            [Verdict::NotProven]
        );
    }

    #[test]
    fn many_comparisons_raise_the_bar() {
        let (low, high) = ([1., 2., 3., 4., 5.], [6., 7., 8., 9., 10.]);
        let one = claim(&high, &low, 2.0, 0.03);
        assert_eq!(judge(&[one]), [Verdict::Worse]);
        assert_eq!(judge(&[one, one]), [Verdict::NotProven; 2]);
    }

    #[test]
    fn no_difference_needs_a_narrow_interval() {
        assert_eq!(without_proof((0.95, 1.04)), Verdict::NoDifference);
        assert_eq!(without_proof((0.95, 1.2)), Verdict::Inconclusive);
        assert_eq!(without_proof((0.4, 1.04)), Verdict::Inconclusive);
        assert_eq!(without_proof((1.01, 1.04)), Verdict::NotProven);
        assert_eq!(without_proof((0.2, 0.9)), Verdict::NotProven);
    }

    #[test]
    fn without_an_interval_there_is_no_verdict() {
        let claim = Claim::new(&[9.0, 9.0], &[1.0, 2.0, 3.0], 4.0, false, None);
        assert_eq!(judge(&[claim]), [Verdict::TooFewReplicates]);
    }

    #[test]
    fn more_throughput_is_better() {
        let (low, high) = ([1., 2., 3., 4., 5.], [6., 7., 8., 9., 10.]);
        let claim = Claim {
            higher_is_better: true,
            ..claim(&high, &low, 2.0, 0.001)
        };
        assert_eq!(judge(&[claim]), [Verdict::Better]);
    }
}
