//! Labs and containerlab's topologies (`*.clab.yml`), made of each other.
//!
//! Both describe containers and cables, in nearly the same words, so that most of a topology is a lab. The rest is
//! told, each thing with its place: keys of images of network vendors, the management network, tunnels to other
//! hosts. What is read from a topology keeps the places of the topology, so that mistakes of the lab point there.

mod commands;
mod export;
mod images;
mod import;
mod names;
mod remarks;
mod sizes;
mod variables;

pub use export::{Exported, export};
pub use import::{Imported, Surroundings, import};
pub use remarks::Remarks;
pub use variables::Environment;
