//! Podman: a storage and a state of the node's own, so that containers of the machine's users are not even listed.
//! conmon stays beside the container, in its cgroup.

use std::ffi::OsString;
use std::fs;

use super::launch::{ID, Input, Launch, inherited_limits};
use super::launcher::Launcher;
use crate::nodes::container::config::AGENT_INSIDE;
use crate::nodes::container::error::Error;

/// In the runtime's own mount namespace; it takes no path of more than 50 characters.
const RUN: &str = "/run/containers";

const WORDS: [&str; 18] = [
    "--storage-driver=vfs",
    "--cgroup-manager=cgroupfs",
    "--events-backend=none",
    "--runtime=crun",
    "run",
    "--detach",
    // The node's group is made, and all of it is in it.
    "--cgroups=disabled",
    "--log-driver=none",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
    // The first process reads a filter of latlab's.
    "--security-opt=seccomp=unconfined",
    "--security-opt=apparmor=unconfined",
    "--no-hosts",
    "--dns=none",
    "--image-volume=ignore",
    "--systemd=false",
    "--name",
    ID,
];

pub(super) struct Podman;

impl Launcher for Podman {
    fn launch(&self, input: &Input<'_>) -> Result<Launch, Error> {
        let (state, config) = (input.state(), input.config);
        let (hooks, storage) = (state.join("hooks"), state.join("storage.conf"));
        fs::create_dir_all(&hooks).map_err(Error::io("make", &hooks))?;
        // Options of the machine's own configuration are for another driver.
        let root = state.join("root");
        let text =
            format!("[storage]\ndriver = \"vfs\"\nrunroot = \"{RUN}\"\ngraphroot = {root:?}\n");
        fs::write(&storage, text).map_err(Error::io("write", &storage))?;
        let mut arguments: Vec<OsString> = Vec::new();
        let path = |option: &str, name: &str| {
            let mut argument = OsString::from(option);
            argument.push("=");
            argument.push(state.join(name));
            argument
        };
        arguments.push(path("--root", "root"));
        arguments.push(format!("--runroot={RUN}").into());
        arguments.push(path("--tmpdir", "tmp"));
        arguments.push(path("--volumepath", "volumes"));
        arguments.push(path("--hooks-dir", "hooks"));
        arguments.extend(WORDS.map(OsString::from));
        let mut network = OsString::from("--network=ns:");
        network.push(&config.netns);
        arguments.push(network);
        arguments.push(format!("--preserve-fds={}", input.descriptors).into());
        arguments.push(format!("--hostname={}", config.name).into());
        let (label, lab) = input.label();
        arguments.push(format!("--env={label}={lab}").into());
        for name in input.document.capability_names() {
            arguments.push(format!("--cap-add={name}").into());
        }
        arguments.extend(limits());
        for name in input.document.forbidden_limits() {
            arguments.push(format!("--ulimit={name}=0:0").into());
        }
        arguments.push("--rootfs".into());
        arguments.push(config.dir.join("rootfs").into());
        arguments.extend([AGENT_INSIDE, "pause"].map(OsString::from));
        let mut launch = Launch::new("podman", arguments);
        launch.environment = vec![
            ("CONTAINERS_CONF", "/dev/null".into()),
            ("CONTAINERS_STORAGE_CONF", storage.into()),
            ("TMPDIR", state.into()),
        ];
        Ok(launch)
    }

    fn unasked(&self) -> &'static [&'static str] {
        &["/etc/hostname"]
    }
}

/// Limits as latlab has them, which Podman would replace.
fn limits() -> Vec<OsString> {
    let limits = inherited_limits().into_iter().map(|(name, limit)| {
        let words = |value: Option<u64>| match (name, value) {
            // Podman lowers its own to that, and more processes there cannot be.
            ("nproc", value) => value.unwrap_or(u64::MAX).min(most_processes()).to_string(),
            (_, None) => "-1".to_owned(),
            (_, Some(value)) => value.to_string(),
        };
        let (soft, hard) = (words(limit.current), words(limit.maximum));
        format!("--ulimit={name}={soft}:{hard}").into()
    });
    limits.collect()
}

/// The number of processes that the kernel can tell apart (proc_sys_kernel(5)).
fn most_processes() -> u64 {
    let text = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    text.trim().parse().unwrap_or(32768)
}
