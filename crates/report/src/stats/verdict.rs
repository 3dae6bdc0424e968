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

use latlab_model::results::Verdict;

use super::rank::mann_whitney;

pub const SIGNIFICANCE: f64 = 0.05;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// The cell's ratio to its baseline is above 1.
    pub above: bool,
    /// Larger values are better.
    pub higher_is_better: bool,
    /// p-value of the ratio; `None` with too few replicates.
    pub size: Option<f64>,
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
        size: Option<f64>,
    ) -> Self {
        let below = |a: &[f64], b: &[f64]| a.iter().all(|x| b.iter().all(|y| x < y));
        let steps = |n: usize, from: f64| (0..n).map(move |i| from + i as f64).collect::<Vec<_>>();
        let apart = mann_whitney(&steps(cell.len(), 0.0), &steps(baseline.len(), 1e6));
        Self {
            above: ratio > 1.0,
            higher_is_better: higher,
            size,
            rank: mann_whitney(cell, baseline),
            rank_least: apart.unwrap_or(1.0),
            separated: below(cell, baseline) || below(baseline, cell),
        }
    }
}

pub fn judge(claims: &[Claim]) -> Vec<Verdict> {
    let sizes: Vec<f64> = claims.iter().filter_map(|claim| claim.size).collect();
    let mut adjusted = holm(&sizes).into_iter();
    let verdict = |claim: &Claim| {
        let Some(size) = claim.size.and_then(|_| adjusted.next()) else {
            return Verdict::TooFewReplicates;
        };
        let shape = if claim.rank_least <= SIGNIFICANCE {
            claim.rank.is_some_and(|p| p <= SIGNIFICANCE)
        } else {
            claim.separated
        };
        match (
            size <= SIGNIFICANCE && shape,
            claim.above == claim.higher_is_better,
        ) {
            (false, _) => Verdict::NoDifference,
            (true, true) => Verdict::Better,
            (true, false) => Verdict::Worse,
        }
    };
    claims.iter().map(verdict).collect()
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

    fn claim(cell: &[f64], baseline: &[f64], ratio: f64, size: f64) -> Claim {
        Claim::new(cell, baseline, ratio, false, Some(size))
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
            [Verdict::NoDifference]
        );
        assert_eq!(
            verdicts(&[claim(&mixed, &low, 2.0, 0.001)]),
            [Verdict::NoDifference]
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
            [Verdict::NoDifference]
        );
    }

    #[test]
    fn many_comparisons_raise_the_bar() {
        let (low, high) = ([1., 2., 3., 4., 5.], [6., 7., 8., 9., 10.]);
        let one = claim(&high, &low, 2.0, 0.03);
        assert_eq!(judge(&[one]), [Verdict::Worse]);
        assert_eq!(judge(&[one, one]), [Verdict::NoDifference; 2]);
    }

    #[test]
    fn without_an_interval_there_is_no_verdict() {
        let claim = Claim::new(&[9.0, 9.0], &[1.0, 2.0, 3.0], 4.0, false, None);
        assert_eq!(judge(&[claim]), [Verdict::TooFewReplicates]);
    }

    #[test]
    fn more_throughput_is_better() {
        let (low, high) = ([1., 2., 3., 4., 5.], [6., 7., 8., 9., 10.]);
        let claim = Claim::new(&high, &low, 2.0, true, Some(0.001));
        assert_eq!(judge(&[claim]), [Verdict::Better]);
    }
}
