//! Docker for one container (on the host): its daemon is started, is told of the container, and stays.
//!
//! Docker makes a container of an image and of options, and latlab has a root and a configuration. So the daemon knows
//! an empty image, and a runtime that is this program under another name: it replaces the configuration that Docker
//! wrote by latlab's, and executes runc. Descriptors do not come through the daemons either. The runtime opens
//! them where the first process of the chain has them, which waits until the container runs.

mod api;
pub mod daemon;
mod handover;
pub mod runtime;
