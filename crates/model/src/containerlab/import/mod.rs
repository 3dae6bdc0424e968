//! A lab of a topology: read, drafted, written.

mod addresses;
mod draft;
mod fields;
mod lab;
mod link;
mod node;
mod surroundings;
mod topology;

pub use lab::{Imported, import};
pub use surroundings::Surroundings;
