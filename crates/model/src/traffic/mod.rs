//! Traffic between nodes, and the topology that an application uses in it.
//!
//! VNET's VTTIF (Cui 2013, 2.3.3) infers from the frames of VMs how the application within them communicates: rates of
//! pairs are counted where frames pass, small ones are pruned, and what is left is compared with known topologies.

mod graph;
mod topology;

pub use graph::{Graph, PRUNING, Rate};
pub use topology::{Component, Topology};
