//! Statistics of an honest comparison.
//!
//! * *Distributions, not means*: all results are order statistics of the raw samples.
//! * *The replicate is the unit of evidence*: samples of one trial share its boot, its memory layout and its
//!   minute of the machine. A hundred thousand of them are one observation of a median, so intervals and tests
//!   rest on the variation between replicates.
//! * *The same input gives the same bytes*: random choices come from a recorded seed, and logarithms from a
//!   portable library instead of the platform's.

mod change;
mod curve;
mod distribution;
mod estimate;
mod rank;
mod resample;
mod rng;
mod special;
mod tidy;
mod verdict;

pub use change::{Change, changes};
pub use curve::{CURVE_POINTS, cdf, percentile_curve, sound_to};
pub use distribution::{Pooled, log_spread, median, quantile, spread, standard_deviation};
pub use estimate::{Estimate, MIN_REPLICATES, Ratio, contrast, ratio};
pub use rank::mann_whitney;
pub use resample::Resamples;
pub use rng::Rng;
pub use special::{student_quantile, student_two_sided};
pub(crate) use tidy::tidy;
pub use verdict::{Claim, SIGNIFICANCE, holm, judge, judge_sizes};
