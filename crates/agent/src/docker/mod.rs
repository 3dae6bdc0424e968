//! Docker for one container (on the host): its daemon is started, is told of the container, and stays.
//!
//! Docker makes a container of an image and of options, and latlab has a root and a configuration. So the daemon knows
//! an empty image, and a runtime that is this program under another name: it replaces the configuration that Docker
//! wrote by latlab's, and executes runc. Descriptors do not come through the daemons either. The runtime opens
//! them where the first process of the chain has them, which waits until the container runs.

mod api;
pub mod daemon;
pub mod runtime;

/// The configuration that the container gets.
const DOCUMENT: &str = "LATLAB_DOCKER_DOCUMENT";

/// The directory of the descriptors that it gets, and their number.
const DESCRIPTORS: &str = "LATLAB_DOCKER_DESCRIPTORS";
const COUNT: &str = "LATLAB_DOCKER_COUNT";

/// The first descriptor that a runtime can pass through.
const FIRST: i32 = 3;
