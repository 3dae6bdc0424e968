//! Runtimes: one file for each way to start a container's first process in a prepared root.
//!
//! The OCI runtimes (`oci.rs`) do all that the configuration says and leave. The others have options of their own and a
//! process that stays. They are told what no one else can do: the root, the network namespace, the capabilities, the
//! name. The file systems over the root are latlab's (`world.rs`), so nodes of all runtimes see the same. What a runtime
//! would keep in directories of the machine goes to directories of its own mount namespace (`world.rs`).

mod docker;
pub(super) mod launch;
pub(super) mod launcher;
pub(super) mod launchers;
mod lxc;
pub(super) mod members;
mod nspawn;
mod oci;
mod podman;
pub(super) mod world;
