//! The middle of some values and their ends.

use latlab_model::results::Range;

use crate::stats::Pooled;

pub(super) fn range(mut values: Vec<i64>) -> Option<Range> {
    values.sort_unstable();
    let pooled = Pooled::new([values.as_slice()])?;
    Some(Range {
        median: pooled.quantile(0.5),
        smallest: pooled.min() as f64,
        largest: pooled.max() as f64,
    })
}
