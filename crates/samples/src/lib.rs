//! The files of a run directory: raw samples as Parquet, documents as JSON, checksums over both.
//!
//! They have a crate of their own because two sides that must not know each other share them:
//! `measure` writes a run directory, `report` reads it. Nothing here concludes anything. The shapes
//! of the documents are in [`latlab_model::results`]; here are the bytes and the paths.

mod format;
mod place;
mod reader;
mod run_dir;
#[cfg(test)]
mod scratch;
pub mod table;
mod writer;

pub use format::{Sample, SamplesError};
pub use place::Place;
pub use reader::SampleReader;
pub use run_dir::{Damage, RunDir, RunDirError, write_atomically};
pub use table::Passage;
pub use writer::SampleWriter;
