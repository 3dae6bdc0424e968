//! Runtimes: one file for each way to start a container's first process in a prepared root.
//!
//! The OCI runtimes (`oci.rs`) do all that the configuration says and leave. The others have options of their own and a
//! process that stays. They are told what no one else can do: the root, the network namespace, the capabilities, the
//! name. The file systems over the root are latlab's (`world.rs`), so nodes of all runtimes see the same. What a runtime
//! would keep in directories of the machine goes to directories of its own mount namespace (`world.rs`).

mod launch;
mod lxc;
mod nspawn;
mod oci;
mod podman;
pub(super) mod world;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use latlab_model::kinds::Runtime;

pub(super) use launch::{Input, Launch};

use super::config::{CGROUP_ROOT, Config};
use super::error::Error;
use super::handle::ContainerConfig;
use crate::cgroup::NodeCgroup;
use crate::sys::inside;
use crate::sys::process::{self, Process};

pub(super) fn launch(input: &Input<'_>) -> Result<Launch, Error> {
    match input.config.runtime {
        Runtime::Crun | Runtime::Runc => Ok(oci::launch(input)),
        Runtime::Podman => podman::launch(input),
        Runtime::Nspawn => Ok(nspawn::launch(input)),
        Runtime::Lxc => lxc::launch(input),
    }
}

/// Shows the runtime cgroups that it can do no harm in.
pub(super) fn cover_cgroups(
    runtime: Runtime,
    dir: &Path,
    cgroup: &NodeCgroup,
) -> Result<(), Error> {
    match runtime {
        Runtime::Nspawn => nspawn::show_cgroups(dir, cgroup),
        // conmon has another environment than latlab gives: without a label, only its group finds it.
        Runtime::Podman if cgroup.dirs().is_empty() => Err(Error::Runtime {
            runtime: runtime.to_string(),
            message: "it needs a cgroup, without which its conmon could not be ended".into(),
        }),
        _ => Ok(inside::cover_cgroups(
            Path::new(CGROUP_ROOT),
            cgroup.unified(),
        )?),
    }
}

/// Whether the supervisor is to see its own group as the root of all.
pub(super) fn has_cgroup_namespace(runtime: Runtime) -> bool {
    runtime == Runtime::Nspawn
}

/// The first process of a container that has reported.
pub(super) fn first_process(
    config: &ContainerConfig,
    cgroup: &NodeCgroup,
) -> Result<Process, Error> {
    let found = match config.runtime {
        Runtime::Crun | Runtime::Runc => oci::pid(config)?,
        _ => {
            if config.runtime == Runtime::Nspawn {
                nspawn::gather(cgroup)?;
            }
            let mut first = members(config, cgroup)?.into_iter();
            first.find(|pid| is_first(*pid)).ok_or_else(|| {
                Error::Init("it is not among the processes of its node".to_owned())
            })?
        }
    };
    Process::of_pid(found)?.ok_or(Error::Ended)
}

/// The processes of a node that has just been started.
pub(super) fn members(config: &ContainerConfig, cgroup: &NodeCgroup) -> Result<Vec<u32>, Error> {
    if !cgroup.dirs().is_empty() {
        return Ok(cgroup.pids()?);
    }
    let inode = |path: &Path| fs::metadata(path).map(|metadata| metadata.ino());
    let netns = inode(&config.netns).map_err(Error::io("look at", &config.netns))?;
    let all = process::labelled(&config.lab_id)?;
    let all = all.iter().map(|process| process.id().pid);
    let is_here = |pid: &u32| {
        let own = inode(Path::new(&format!("/proc/{pid}/ns/net")));
        own.is_ok_and(|own| own == netns)
    };
    Ok(all.filter(is_here).collect())
}

/// Whether a process is number 1 in a process namespace below latlab's (proc_pid_status(5)).
fn is_first(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let numbers: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    numbers.len() > 1 && numbers.last() == Some(&"1")
}

/// The first process must have no right beyond those that it was to get.
pub(super) fn check_rights(process: &Process, document: &Config) -> Result<(), Error> {
    let path = format!("/proc/{}/status", process.id().pid);
    let status = fs::read_to_string(&path).map_err(Error::io("read", Path::new(&path)))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or_default()
    };
    let wanted = document
        .capabilities()
        .iter()
        .fold(0, |set, n| set | 1u64 << n);
    let is_within = |name: &str| {
        let set = u64::from_str_radix(field(name), 16);
        set.is_ok_and(|set| set & !wanted == 0)
    };
    let sets = ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:", "CapBnd:"];
    if field("NoNewPrivs:") == "1" && sets.iter().all(|set| is_within(set)) {
        return Ok(());
    }
    Err(Error::Rights)
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
