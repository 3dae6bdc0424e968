//! The files of a run directory: raw samples as Parquet, documents as JSON, checksums over both.
//!
//! A crate below `measure`, which writes a run directory, and `report`, which reads it, so that neither knows
//! the other. No conclusions are drawn here. The formats of the documents are in [`latlab_model::results`];
//! here are the bytes and the paths.

pub mod carried;
mod format;
pub mod import;
pub mod merge;
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
