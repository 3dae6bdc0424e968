//! Documents that people write: a lab and a study, with the place of every value. Reading needs nothing but
//! the text; whatever depends on the machine waits for [`crate::plan`].

mod document_kind;
mod gathered;
mod lab;
pub(crate) mod link;
pub(crate) mod measurement;
pub(crate) mod name;
mod node;
mod noise;
pub(crate) mod reader;
pub mod schema;
mod security;
mod study;
mod traffic;
pub mod yaml;

pub use document_kind::DocumentKind;
pub(crate) use gathered::Gathered;
pub use lab::{Lab, Node};
pub use link::{Cable, Carrier, Endpoint, Impairment, Link, LinkKind, Mac};
pub use measurement::{Measurement, Pin, Probe, Protocol, Target};
pub use node::{Acceleration, Bind, NodeFields, NodeKind, Runtime};
pub use noise::Noise;
pub use security::{CAPABILITIES, Devices, Pids, Seccomp, Security};
pub use study::{Combination, FactorSpec, LabSource, Level, Study};
pub use traffic::{Arrival, Device, Polling, Via};
