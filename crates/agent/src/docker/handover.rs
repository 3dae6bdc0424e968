//! The handover to the runtime, which the daemon calls: names of variables, and the first descriptor.

/// The configuration that the container gets.
pub(super) const DOCUMENT: &str = "LATLAB_DOCKER_DOCUMENT";

/// The directory of the descriptors that it gets, and their number.
pub(super) const DESCRIPTORS: &str = "LATLAB_DOCKER_DESCRIPTORS";
pub(super) const COUNT: &str = "LATLAB_DOCKER_COUNT";

/// The first descriptor that a runtime can pass through.
pub(super) const FIRST: i32 = 3;
