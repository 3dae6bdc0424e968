//! The machine that a lab is deployed on.

use std::path::PathBuf;

use super::error::Error;
use crate::cgroup::Cgroups;
use crate::programs;

pub(super) fn groups() -> Result<Cgroups, Error> {
    Cgroups::discover().map_err(Error::of_cgroup("all"))
}

/// The agent's binary: beside latlab's own, or where `LATLAB_AGENT` says.
pub(super) fn agent() -> Result<PathBuf, Error> {
    let path = programs::latlab_program("latlab-agent", "LATLAB_AGENT");
    if path.is_file() {
        Ok(path)
    } else {
        Err(Error::NoAgent(path))
    }
}

/// The time, as documents have it: RFC 3339, UTC.
pub(super) fn now() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
