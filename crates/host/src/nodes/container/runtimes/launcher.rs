//! A runtime, as a way to start a container's first process in a prepared root.

use std::path::Path;

use super::launch::{Input, Launch};
use super::{members, world};
use crate::cgroup::NodeCgroup;
use crate::nodes::container::config::CGROUP_ROOT;
use crate::nodes::container::error::Error;
use crate::nodes::container::handle::ContainerConfig;
use crate::sys::inside;

pub(in crate::nodes::container) trait Launcher: Sync {
    fn launch(&self, input: &Input<'_>) -> Result<Launch, Error>;

    /// Shows the runtime a machine that it can do no harm in: called in its own mount namespace.
    fn narrow(&self, config: &ContainerConfig, cgroup: &NodeCgroup) -> Result<(), Error> {
        world::keep_apart(&config.dir)?;
        cover_cgroups(cgroup)
    }

    /// Whether it is to see its own group as the root of all.
    fn has_cgroup_namespace(&self) -> bool {
        false
    }

    /// The first process of a container that has reported.
    fn first_process(&self, config: &ContainerConfig, cgroup: &NodeCgroup) -> Result<u32, Error> {
        members::first(config, cgroup)
    }

    /// Files of the root that it mounts unasked.
    fn unasked(&self) -> &'static [&'static str] {
        &[]
    }
}

pub(super) fn cover_cgroups(cgroup: &NodeCgroup) -> Result<(), Error> {
    Ok(inside::cover_cgroups(
        Path::new(CGROUP_ROOT),
        cgroup.unified(),
    )?)
}
