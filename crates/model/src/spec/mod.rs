//! What people write: a lab and a study, with the place of every value. Reading needs nothing but
//! the text; whatever depends on the machine waits for [`crate::plan`].

mod lab;
pub(crate) mod link;
mod node;
pub(crate) mod reader;
pub mod schema;
mod study;
pub mod yaml;

pub use lab::{Lab, Node};
pub use link::{Endpoint, Impairment, Link, LinkKind, Mac};
pub use node::{Acceleration, Bind, NodeFields, NodeKind, Runtime};
pub use study::{
    Combination, FactorSpec, LabSource, Level, Measurement, Probe, Protocol, Study, Target,
};
