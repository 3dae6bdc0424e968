//! The Mann–Whitney U test (Wilcoxon's rank sum): do two sets of replicates come from one distribution? It
//! makes no assumption on their shape, which suits latencies. In return, three against three replicates can
//! never give less than p = 0.1.

/// Largest size of either side for the exact permutation distribution.
const EXACT_UP_TO: usize = 20;

/// Two-sided p-value; `None` when a side is empty.
///
/// Up to 20 values a side it is exact, ties included: every assignment of the observed mid-ranks to the two
/// sides is equally likely under the null hypothesis, and all are counted. Beyond, the normal approximation
/// with corrections for ties and continuity.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let ranks = doubled_mid_ranks(a, b);
    let p = if a.len().max(b.len()) <= EXACT_UP_TO {
        exact(&ranks, a.len())
    } else {
        approximate(&ranks, a.len())
    };
    Some(p.min(1.0))
}

/// Twice the mid-rank of every value, first those of `a`, then those of `b`: integers also where values tie.
fn doubled_mid_ranks(a: &[f64], b: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let below = |x: f64| all.iter().filter(|&&y| y < x).count();
    let equal = |x: f64| all.iter().filter(|&&y| y == x).count();
    all.iter().map(|&x| 2 * below(x) + equal(x) + 1).collect()
}

/// Counts the subsets of `n` ranks by their sum, and those as extreme as the first `n`.
fn exact(ranks: &[usize], n: usize) -> f64 {
    let observed: usize = ranks[..n].iter().sum();
    let top: usize = ranks.iter().sum();
    // ways[k][s]: subsets of k ranks whose sum is s; at most C(40, 20) ≈ 1.4e11, exact in an f64.
    let mut ways = vec![vec![0.0; top + 1]; n + 1];
    ways[0][0] = 1.0;
    for &rank in ranks {
        for k in (1..=n).rev() {
            let (fewer, these) = ways.split_at_mut(k);
            for sum in rank..=top {
                these[0][sum] += fewer[k - 1][sum - rank];
            }
        }
    }
    let total: f64 = ways[n].iter().sum();
    let low: f64 = ways[n][..=observed].iter().sum();
    let high: f64 = ways[n][observed..].iter().sum();
    2.0 * low.min(high) / total
}

fn approximate(ranks: &[usize], n: usize) -> f64 {
    let (n1, n2) = (n as f64, (ranks.len() - n) as f64);
    let total = n1 + n2;
    let rank_sum = ranks[..n].iter().sum::<usize>() as f64 / 2.0;
    let u = rank_sum - n1 * (n1 + 1.0) / 2.0;
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    let ties: f64 = sorted
        .chunk_by(|x, y| x == y)
        .map(|tied| (tied.len() as f64).powi(3) - tied.len() as f64)
        .sum();
    let variance = n1 * n2 / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - n1 * n2 / 2.0).abs() - 0.5).max(0.0);
    libm::erfc(distance / libm::sqrt(2.0 * variance))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 1e-12,
            "{found} instead of {expected}"
        );
    }

    #[test]
    fn small_sets_are_exact() {
        close(mann_whitney(&[1., 2., 3.], &[4., 5., 6.]).unwrap(), 0.1);
        let (low, high) = ([1., 2., 3., 4., 5.], [6., 7., 8., 9., 10.]);
        close(mann_whitney(&low, &high).unwrap(), 2.0 / 252.0);
        close(mann_whitney(&high, &low).unwrap(), 2.0 / 252.0);
        // The example of scipy.stats.mannwhitneyu: exact p = 1/9.
        let (males, females) = ([19., 22., 16., 29., 24.], [20., 11., 17., 12.]);
        close(mann_whitney(&males, &females).unwrap(), 1.0 / 9.0);
    }

    #[test]
    fn ties_are_counted_not_broken() {
        close(mann_whitney(&[1., 1., 1.], &[1., 1., 1.]).unwrap(), 1.0);
        // Ranks 1.5 1.5 | 3 4: one of the six subsets of two has the smallest sum.
        close(mann_whitney(&[1., 1.], &[2., 3.]).unwrap(), 2.0 / 6.0);
        // Ranks 1, 2.5 | 2.5, 4: sums as small as 3.5 are {1, 2.5} twice.
        close(mann_whitney(&[1., 2.], &[2., 3.]).unwrap(), 4.0 / 6.0);
    }

    #[test]
    fn the_approximation_agrees_with_scipy() {
        let ranks = doubled_mid_ranks(&[19., 22., 16., 29., 24.], &[20., 11., 17., 12.]);
        // scipy.stats.mannwhitneyu(males, females, method="asymptotic")
        close(approximate(&ranks, 5), 0.111_346_886_533_140_41);
    }

    #[test]
    fn both_ways_agree_where_they_meet() {
        let a: Vec<f64> = (0..20).map(|i| f64::from(i * 7 % 20)).collect();
        let b: Vec<f64> = (0..20).map(|i| f64::from(i) + 4.5).collect();
        let ranks = doubled_mid_ranks(&a, &b);
        assert!((exact(&ranks, 20) - approximate(&ranks, 20)).abs() < 0.002);
    }

    #[test]
    fn nothing_to_compare_is_no_p_value() {
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        close(mann_whitney(&[1.0], &[2.0]).unwrap(), 1.0);
    }
}
