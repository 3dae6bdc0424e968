//! systemd-nspawn: without systemd, units or a bus. It hands descriptors down as a service gets its sockets
//! (sd_listen_fds(3)), so a shell sets the variable that has to name the very process.
//!
//! The group that it is in is always divided into one for itself and one for the container. So it is shown the node's
//! group as the root of all groups, and its processes are brought back from there once the first one has reported.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use latlab_model::kinds::CAPABILITIES;

use super::launch::{ID, Input, Launch, inherited_limits};
use super::launcher::Launcher;
use super::{members, world};
use crate::cgroup::NodeCgroup;
use crate::nodes::container::config::{AGENT_INSIDE, CGROUP_ROOT};
use crate::nodes::container::error::Error;
use crate::nodes::container::handle::ContainerConfig;
use crate::sys::mount;

const LINE: &str = "exec sh -c 'export LISTEN_PID=$$; exec \"$@\"' sh \"$@\" &";

/// The groups that it divides its own into.
const PARTS: [&str; 2] = ["payload", "supervisor"];

pub(super) struct Nspawn;

impl Launcher for Nspawn {
    fn launch(&self, input: &Input<'_>) -> Result<Launch, Error> {
        let config = input.config;
        let words = [
            "--quiet",
            "--register=no",
            "--keep-unit",
            "--settings=no",
            "--console=pipe",
            "--resolv-conf=off",
            "--timezone=off",
            "--link-journal=no",
            "--no-new-privileges=yes",
            "--kill-signal=SIGTERM",
            "--machine",
            ID,
        ];
        let mut arguments: Vec<OsString> = words.map(OsString::from).into();
        let mut network = OsString::from("--network-namespace-path=");
        network.push(&config.netns);
        arguments.push(network);
        arguments.push(format!("--hostname={}", config.name).into());
        let (label, lab) = input.label();
        arguments.push(format!("--setenv={label}={lab}").into());
        // Its defaults are taken away one by one: a name in both lists is taken away.
        let wanted = input.document.capability_names();
        let all = CAPABILITIES.iter().map(|name| format!("CAP_{name}"));
        let others: Vec<String> = all.filter(|name| !wanted.contains(name)).collect();
        arguments.push(format!("--capability={}", wanted.join(",")).into());
        arguments.push(format!("--drop-capability={}", others.join(",")).into());
        for (name, limit) in inherited_limits() {
            let words = |value: Option<u64>| value.map_or("infinity".to_owned(), |v| v.to_string());
            let (soft, hard) = (words(limit.current), words(limit.maximum));
            arguments.push(format!("--rlimit={}={soft}:{hard}", name.to_uppercase()).into());
        }
        for name in input.document.forbidden_limits() {
            arguments.push(format!("--rlimit={}=0", name.to_uppercase()).into());
        }
        arguments.push("-D".into());
        arguments.push(config.dir.join("rootfs").into());
        arguments.extend(["--", AGENT_INSIDE, "pause"].map(OsString::from));
        let mut launch = Launch::in_background(LINE, "systemd-nspawn", arguments);
        launch.environment = vec![
            ("LISTEN_FDS", input.descriptors.to_string().into()),
            // The first process reads a filter of latlab's.
            ("SYSTEMD_SECCOMP", "0".into()),
            // The container shares the view that its supervisor got.
            ("SYSTEMD_NSPAWN_USE_CGNS", "0".into()),
            ("SYSTEMD_LOG_TARGET", "console".into()),
            // Version 252 aborts over a limit with `debug`, which a user may have set.
            ("SYSTEMD_LOG_LEVEL", "notice".into()),
        ];
        Ok(launch)
    }

    fn narrow(&self, config: &ContainerConfig, cgroup: &NodeCgroup) -> Result<(), Error> {
        world::keep_apart(&config.dir)?;
        show_cgroups(&config.dir, cgroup)
    }

    fn has_cgroup_namespace(&self) -> bool {
        true
    }

    fn first_process(&self, config: &ContainerConfig, cgroup: &NodeCgroup) -> Result<u32, Error> {
        gather(cgroup)?;
        members::first(config, cgroup)
    }
}

/// Shows the node's group, writable, as the only one. What it reads of process 1 is the machine's otherwise.
fn show_cgroups(dir: &Path, cgroup: &NodeCgroup) -> Result<(), Error> {
    let unified = cgroup.unified().ok_or_else(|| Error::Runtime {
        runtime: "nspawn".to_owned(),
        message: "it needs the unified tree of cgroups, and no group of the node is there".into(),
    })?;
    mount::bind(unified, Path::new(CGROUP_ROOT), false)?;
    let file = dir.join("cgroup-of-1");
    fs::write(&file, "0::/\n").map_err(Error::io("write", &file))?;
    Ok(mount::bind(&file, Path::new("/proc/1/cgroup"), false)?)
}

/// Brings all processes back into the node's group.
fn gather(cgroup: &NodeCgroup) -> Result<(), Error> {
    let Some(unified) = cgroup.unified() else {
        return Ok(());
    };
    for part in PARTS.map(|part| unified.join(part)) {
        let list = fs::read_to_string(part.join("cgroup.procs")).unwrap_or_default();
        for pid in list.lines() {
            let procs = unified.join("cgroup.procs");
            fs::write(&procs, pid).map_err(Error::io("write", &procs))?;
        }
        // None was made, or it is empty now; the end of the node removes what stays.
        let _ = fs::remove_dir(&part);
    }
    Ok(())
}
