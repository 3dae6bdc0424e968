//! JSON Schemas of `lab.yaml` and `study.yaml` for editors. Tests hold them against the readers.

/// Schema of a lab.
pub const LAB: &str = include_str!("../../schema/lab.schema.json");
/// Schema of a study.
pub const STUDY: &str = include_str!("../../schema/study.schema.json");
