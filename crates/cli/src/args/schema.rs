//! Documents that have a JSON Schema.

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// lab.yaml
    Lab,
    /// study.yaml
    Study,
}
