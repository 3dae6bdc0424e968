//! The processes of a node, and the first one of its container among them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::cgroup::NodeCgroup;
use crate::nodes::container::error::Error;
use crate::nodes::container::handle::ContainerConfig;
use crate::sys::proc::Status;
use crate::sys::process;

/// The processes of a node that has just been started.
pub(in crate::nodes::container) fn all(
    config: &ContainerConfig,
    cgroup: &NodeCgroup,
) -> Result<Vec<u32>, Error> {
    if !cgroup.dirs().is_empty() {
        return Ok(cgroup.pids()?);
    }
    let inode = |path: &Path| fs::metadata(path).map(|metadata| metadata.ino());
    let netns = inode(&config.netns).map_err(Error::io("look at", &config.netns))?;
    let labelled = process::labelled(&config.lab_id)?;
    let pids = labelled.iter().map(|process| process.id().pid);
    let is_here = |pid: &u32| {
        let own = inode(Path::new(&format!("/proc/{pid}/ns/net")));
        own.is_ok_and(|own| own == netns)
    };
    Ok(pids.filter(is_here).collect())
}

/// The first process of its container.
pub(super) fn first(config: &ContainerConfig, cgroup: &NodeCgroup) -> Result<u32, Error> {
    let mut members = all(config, cgroup)?.into_iter();
    members
        .find(|pid| is_first(*pid))
        .ok_or_else(|| Error::Init("it is not among the processes of its node".to_owned()))
}

/// Whether a process is number 1 in a process namespace below latlab's (proc_pid_status(5)).
fn is_first(pid: u32) -> bool {
    let Ok(status) = Status::of(pid) else {
        return false;
    };
    let numbers: Vec<&str> = status.field("NSpid").split_whitespace().collect();
    numbers.len() > 1 && numbers.last() == Some(&"1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_not_the_first_of_a_container() {
        assert!(!is_first(std::process::id()));
        assert!(!is_first(0), "there is none");
    }
}
