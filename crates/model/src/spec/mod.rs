//! What people write: a lab and a study, with the place of every value. Reading needs nothing but
//! the text; whatever depends on the machine waits for [`crate::plan`].

mod gathered;
mod lab;
pub(crate) mod link;
pub(crate) mod measurement;
mod node;
mod noise;
pub(crate) mod reader;
pub mod schema;
mod security;
mod study;
mod traffic;
pub mod yaml;

pub(crate) use gathered::Gathered;
pub(crate) use lab::check_name;
pub use lab::{Lab, Node};
pub use link::{Cable, Carrier, Endpoint, Impairment, Link, LinkKind, Mac};
pub use measurement::{Measurement, Pin, Probe, Protocol, Target};
pub use node::{Acceleration, Bind, NodeFields, NodeKind, Runtime};
pub use noise::Noise;
pub use security::{CAPABILITIES, Devices, Pids, Seccomp, Security};
pub use study::{Combination, FactorSpec, LabSource, Level, Study};
pub use traffic::{Arrival, Device, Polling, Via};

/// Which of the two documents a tree is. People name files as they like, so the content decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// See [`Lab`].
    Lab,
    /// See [`Study`].
    Study,
}

impl DocumentKind {
    /// A study has one of the keys that only studies have, and not the one that only labs have.
    pub fn of(yaml: &yaml::Yaml) -> DocumentKind {
        let has = |key| yaml.get(key).is_some();
        match !has("topology") && ["lab", "measurements", "factors"].into_iter().any(has) {
            true => DocumentKind::Study,
            false => DocumentKind::Lab,
        }
    }
}
