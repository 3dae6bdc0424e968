//! What people write: a lab and a study, with the place of every value. Reading needs nothing but
//! the text; whatever depends on the machine waits for [`crate::plan`].

mod lab;
pub(crate) mod link;
pub(crate) mod measurement;
mod node;
pub(crate) mod reader;
pub mod schema;
mod study;
pub mod yaml;

pub use lab::{Lab, Node};
pub use link::{Endpoint, Impairment, Link, LinkKind, Mac};
pub use measurement::{Measurement, Probe, Protocol, Target};
pub use node::{Acceleration, Bind, NodeFields, NodeKind, Runtime};
pub use study::{FactorSpec, LabSource, Level, Study};
