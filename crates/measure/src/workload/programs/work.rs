//! A program as a measurement needs it.

use latlab_model::results::Figure;

use crate::workload::node::Ended;

/// A program in each node, and how its output is read.
pub(crate) trait Work {
    /// A command in each node beforehand: it tells the version, and warms up. Empty for none.
    fn preparation(&self) -> Vec<String> {
        Vec::new()
    }

    /// The program and its arguments.
    fn command(&self) -> Vec<String>;

    /// The meaning of its values; the first is the metric.
    fn figures(&self) -> Vec<Figure>;

    /// The values, once it is certain that it did what it was asked for. The error says, of the program, what it did
    /// instead.
    fn read(&self, ended: &Ended) -> Result<Vec<f64>, String>;

    /// The program's version in the output of the preparation.
    fn version(&self, _prepared: &str) -> Option<String> {
        None
    }
}

pub(super) fn figure(name: &str, title: &str, unit: &str, higher_is_better: bool) -> Figure {
    Figure {
        name: name.into(),
        title: title.into(),
        unit: unit.into(),
        higher_is_better,
    }
}
