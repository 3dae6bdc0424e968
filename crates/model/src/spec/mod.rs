//! Documents that people write: a lab and a study, with the place of every value. Reading needs nothing but
//! the text; whatever depends on the machine waits for [`crate::plan`].

pub(crate) mod action;
mod counted;
mod document_kind;
mod dpdk;
mod ends;
mod gathered;
mod host;
mod image;
mod lab;
pub(crate) mod link;
mod machine_file;
mod managed;
pub(crate) mod measurement;
mod mpi;
pub(crate) mod name;
pub(crate) mod needs;
mod node;
mod noise;
mod parameter;
mod probe;
mod program;
pub(crate) mod reader;
mod recipe;
mod sampling;
pub mod schema;
mod security;
mod storage;
mod study;
mod sweep;
mod timestamps;
mod traffic;
mod uses;
mod vm_hardware;
mod vm_net;
pub(crate) mod workload;
pub mod yaml;
pub(crate) mod yaml_text;

pub use crate::kinds::{
    Acceleration, Bind, CAPABILITIES, Cable, Carrier, Devices, Impairment, LinkKind, LostTicks,
    Mac, NetBackend, NodeKind, Pids, Runtime, Seccomp, Security, ToldTopology, VmHardware, VmNet,
};
pub use action::{Act, Action};
pub use document_kind::DocumentKind;
pub use dpdk::Dpdk;
pub use ends::{Ends, Target, Waypoint};
pub(crate) use gathered::Gathered;
pub use host::{AUTO_HOST, Host};
pub use image::NodeImage;
pub use lab::Lab;
pub use link::{Endpoint, Link};
pub use machine_file::{MachineFile, PciAddress, Port, PortPlace};
pub use managed::{Bmc, BmcProtocol, ManagedHost, ManagedHosts, Secret};
pub use measurement::{Measurement, Pin};
pub use mpi::{Class, Kernel, MpiMicro, Npb};
pub use needs::Need;
pub use node::{Node, NodeFields};
pub use noise::Noise;
pub use probe::{Probe, Protocol};
pub use program::{
    Access, Engine, FileMode, Fio, Hpcc, Oltp, Program, ProgramName, Redis, SysbenchCpu,
    SysbenchFileio, Xz,
};
pub use recipe::{Distribution, FileSource, Recipe};
pub use storage::Storage;
pub(crate) use storage::meet;
pub use study::{FactorSpec, LabSource, Level, MAX_RETRIES, Study};
pub use traffic::{Arrival, Device, Polling, Via};
pub use workload::{Better, Extract, Metric, OwnCommand, Task, Workload};
