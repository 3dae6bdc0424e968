//! Limits on the ratios between two runs, for a check that shall fail on a regression.
//!
//! A ratio is beyond a limit where its whole 95 % interval is: noise alone must not fail a check. Without an interval (one
//! replicate) the ratio itself counts.

use std::fmt;
use std::str::FromStr;

use crate::compare::{CellComparison, RunComparison};
use crate::text::ratio_with_interval;

/// For example `p99 > 1.10`.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// `median` for the cell's own quantity, or the name of a tail: `p99.9`, `sd`.
    of: String,
    side: Side,
    ratio: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Above,
    Below,
}

/// A ratio beyond a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Breach<'a> {
    pub cell: &'a str,
    pub limit: &'a Limit,
    pub ratio: f64,
    pub ci95: Option<(f64, f64)>,
}

impl Limit {
    /// The cells beyond the limit. `None` if no cell has the quantity in both runs, so that nothing was judged.
    pub fn breaches<'a>(&'a self, comparison: &'a RunComparison) -> Option<Vec<Breach<'a>>> {
        let found = comparison
            .cells
            .iter()
            .filter_map(|cell| self.of_cell(cell));
        let judged: Vec<Breach<'_>> = found.collect();
        let is_beyond = |breach: &Breach<'_>| match self.side {
            Side::Above => breach.ci95.map_or(breach.ratio, |ci| ci.0) > self.ratio,
            Side::Below => breach.ci95.map_or(breach.ratio, |ci| ci.1) < self.ratio,
        };
        (!judged.is_empty()).then(|| judged.into_iter().filter(is_beyond).collect())
    }

    fn of_cell<'a>(&'a self, cell: &'a CellComparison) -> Option<Breach<'a>> {
        let (ratio, ci95) = match self.of.as_str() {
            "median" => (cell.ratio, cell.ratio_ci95),
            name => {
                let tail = cell.tails.iter().find(|tail| tail.of == name)?;
                (tail.ratio, tail.ratio_ci95)
            }
        };
        Some(Breach {
            cell: &cell.id,
            limit: self,
            ratio,
            ci95,
        })
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = "a limit is a quantity, < or >, and a ratio: 'p99 > 1.10' or 'median < 0.95'";
        let at = text.find(['<', '>']).ok_or(wanted)?;
        let side = match text.as_bytes()[at] {
            b'<' => Side::Below,
            _ => Side::Above,
        };
        let of = text[..at].trim();
        let is_tail = |of: &str| {
            let share = of.strip_prefix('p').and_then(|share| share.parse().ok());
            of == "sd" || share.is_some_and(|share: f64| (50.0..100.0).contains(&share))
        };
        if of != "median" && !is_tail(of) {
            return Err(format!(
                "{of:?} is no quantity: median, sd, or a percentile such as p99.9"
            ));
        }
        let ratio = text[at + 1..].trim().parse().map_err(|_| wanted)?;
        if !(ratio > 0.0 && f64::is_finite(ratio)) {
            return Err("a ratio is a positive number; 1.10 allows 10 % more".into());
        }
        Ok(Self {
            of: of.to_owned(),
            side,
            ratio,
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Above => '>',
            Side::Below => '<',
        };
        write!(f, "{} {side} {}", self.of, self.ratio)
    }
}

impl fmt::Display for Breach<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} has {} of the first run's: {}",
            self.cell,
            self.limit.of,
            ratio_with_interval(self.ratio, self.ci95),
            self.limit
        )
    }
}

#[cfg(test)]
mod tests {
    use latlab_model::results::{TailRatio, Verdict};

    use super::*;

    fn comparison(ratio: f64, ci95: Option<(f64, f64)>) -> RunComparison {
        RunComparison {
            format: RunComparison::FORMAT,
            first: "a".into(),
            second: "b".into(),
            differences: Vec::new(),
            cells: vec![CellComparison {
                id: "rr".into(),
                quantity: "median latency".into(),
                unit: "ns".into(),
                first: 1.0,
                second: ratio,
                replicates: (5, 5),
                ratio,
                ratio_ci95: ci95,
                p_value: None,
                verdict: Verdict::Worse,
                tails: vec![TailRatio {
                    of: "p99".into(),
                    ratio: 1.5,
                    ratio_ci95: Some((1.2, 1.9)),
                    p_value: None,
                }],
                emulated: false,
                emulation: Vec::new(),
            }],
            left_out: Vec::new(),
        }
    }

    fn count(limit: &str, comparison: &RunComparison) -> Option<usize> {
        let limit: Limit = limit.parse().unwrap();
        limit.breaches(comparison).map(|breaches| breaches.len())
    }

    #[test]
    fn a_limit_is_broken_where_the_whole_interval_is_beyond_it() {
        let noisy = comparison(1.2, Some((0.9, 1.6)));
        assert_eq!(count("median > 1.10", &noisy), Some(0));
        assert_eq!(count("p99 > 1.1", &noisy), Some(1));
        assert_eq!(count("p99 > 1.3", &noisy), Some(0));
        let slower = comparison(0.8, Some((0.7, 0.85)));
        assert_eq!(count("median<0.9", &slower), Some(1));
        assert_eq!(
            count("median > 1.1", &comparison(1.2, None)),
            Some(1),
            "one replicate"
        );
        assert_eq!(count("p99.99 > 1.1", &noisy), None, "nothing to judge");
    }

    #[test]
    fn what_is_no_limit_is_refused_with_an_example() {
        for (text, reason) in [
            ("p99", "'p99 > 1.10'"),
            ("p99 > much", "'p99 > 1.10'"),
            ("p101 > 1", "no quantity"),
            ("speed > 1", "no quantity"),
            ("median > -1", "positive"),
        ] {
            let error = text.parse::<Limit>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert_eq!(
            "p99.9>1.1".parse::<Limit>().unwrap().to_string(),
            "p99.9 > 1.1"
        );
    }

    #[test]
    fn a_breach_names_cell_ratio_interval_and_limit() {
        let comparison = comparison(1.0, None);
        let limit = "p99 > 1.1".parse::<Limit>().unwrap();
        let breaches = limit.breaches(&comparison).unwrap();
        let text = breaches[0].to_string();
        assert_eq!(
            text,
            "rr: p99 has 1.50 [1.20, 1.90] of the first run's: p99 > 1.1"
        );
    }
}
