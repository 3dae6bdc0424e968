//! JSON Schemas of `lab.yaml` and `study.yaml` for editors. Tests hold them against the readers.

pub const LAB: &str = include_str!("../../schema/lab.schema.json");
pub const STUDY: &str = include_str!("../../schema/study.schema.json");
