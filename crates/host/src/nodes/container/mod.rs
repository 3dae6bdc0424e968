//! A container node: all namespaces, an overlay root, started by an OCI runtime (crun or runc).
//!
//! The runtime is given a prepared world and very little to do. A thread of latlab enters a mount
//! namespace of its own, mounts the node's root there and starts the runtime in it, inside the
//! node's control group. This has three consequences:
//!
//! - No mount ever appears in the machine's mount namespace. The container's mounts live in its
//!   own namespace and vanish with its last process, so a crash at any moment leaves only files
//!   below the node's directory and processes in its control group.
//! - The runtime sees a plain read-only cgroup tree and leaves control groups alone. So it works on
//!   version 1, on version 2 and on the mixture that crun refuses, and the limits are latlab's own
//!   everywhere.
//! - It works where the machine's `/` cannot be pivoted: in a chroot, or on an initramfs.
//!
//! The default of what a container may do is Docker's, with less (no device nodes) and more (its own
//! network): capabilities, masked paths and the mounts' options are in `config.rs`, system calls in
//! `sys::seccomp`, devices and numbers of processes in its control group. Nothing in it gets the host's
//! binaries to execute or to hold: see `sys::spawn::Executable`.
//!
//! The first process is latlab's agent, bound into the container, so any image will do, down to an
//! empty directory. It says when it runs, reaps orphans, and hands SIGTERM on.
//!
//! Commands do not go through the runtime: [`Container::spawn`] enters the container's namespaces
//! itself, which costs a tenth of `crun exec` and makes the command latlab's own child, with its
//! own descriptors, terminal and exit status. Nor does removal: everything of a container dies
//! with the processes of its control group and process namespace.

mod config;
mod exec;
mod start;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use latlab_model::spec::{Bind, Runtime, Security};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::cgroup::{self, NodeCgroup};
use crate::images::RootView;
use crate::sys;
use crate::sys::process::{Process, ProcessId};

/// After SIGKILL a process ends unless it is stuck in the kernel.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// What went wrong with a container.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    Sys(#[from] sys::Error),
    /// The control group refused something.
    #[error(transparent)]
    Cgroup(#[from] cgroup::Error),
    /// The runtime reported a failure.
    #[error("{runtime} cannot start the container: {message}")]
    Runtime {
        /// Its name.
        runtime: String,
        /// What it wrote.
        message: String,
    },
    /// The first process did not say that it runs.
    #[error("the first process of the container did not start: {0}")]
    Init(String),
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was being done, in the infinitive.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A command cannot be run inside.
    #[error("cannot run `{program}` in the container: {reason}")]
    Command {
        /// What was to be run.
        program: String,
        /// Why not.
        reason: String,
    },
    /// The kernel did not put the first process under the filter.
    #[error("the first process of the container runs without its seccomp filter")]
    Unfiltered,
    /// The container is not there any more.
    #[error("the container has ended")]
    Ended,
    /// It outlived SIGKILL.
    #[error("process {} of the container does not end; it waits inside the kernel", .0.pid)]
    Stuck(ProcessId),
}

impl Error {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

/// What to start.
#[derive(Debug, Clone)]
pub struct ContainerConfig {
    /// Name of the node; the container's host name.
    pub name: String,
    /// Identifier of the deployment, the label of its processes.
    pub lab_id: String,
    /// Which runtime.
    pub runtime: Runtime,
    /// The image.
    pub root: RootView,
    /// The pinned network namespace.
    pub netns: PathBuf,
    /// The node's own directory, for its writable layer and the runtime's files. Made if need be;
    /// not inside `root.dir` unless that is `/`.
    pub dir: PathBuf,
    /// The agent's binary on the machine; statically linked.
    pub agent: PathBuf,
    /// Directories and files of the machine seen inside; sources are absolute.
    pub binds: Vec<Bind>,
    /// Environment of its commands, over the image's.
    pub env: BTreeMap<String, String>,
    /// What it may do beyond the default.
    pub security: Security,
}

/// A container whose first process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Its first process.
    pub process: ProcessId,
    /// The writable layer is in memory rather than on a disk, because the node's directory is, or
    /// because its file system cannot carry a layer.
    pub layer_in_memory: bool,
}

/// Starts a container in `cgroup`. Returns when its first process runs.
///
/// # Errors
/// When anything is missing; what was made by then is removed by [`delete`].
pub fn start(config: &ContainerConfig, cgroup: &NodeCgroup) -> Result<Running, Error> {
    start::start(config, cgroup)
}

/// A running container, to run commands in.
#[derive(Debug)]
pub struct Container {
    /// Identifier of the deployment, the label of its processes.
    pub lab_id: String,
    /// The node's own directory.
    pub dir: PathBuf,
    /// The agent's binary on the machine, through which commands are started.
    pub agent: PathBuf,
    /// Its first process.
    pub process: ProcessId,
    /// Its control group.
    pub cgroup: NodeCgroup,
}

/// Ends a container: SIGTERM to all its processes, at most `grace` for them to end, then SIGKILL.
/// One that has ended is success.
///
/// # Errors
/// When processes outlive SIGKILL.
pub fn stop(process: ProcessId, cgroup: &NodeCgroup, grace: Duration) -> Result<(), Error> {
    let Some(init) = Process::open(process)? else {
        return Ok(());
    };
    // The agent passes SIGTERM on and ends when it is alone; with it ends the process namespace.
    init.signal(Signal::TERM)?;
    if !init.wait(grace)? {
        init.signal(Signal::KILL)?;
        cgroup.kill_all()?;
        // Killed processes are gone from the group, and hold nothing, before they can be
        // collected. The first process remains until the last command started by somebody
        // outside is collected there, which may be the caller of this; so only without a group
        // is its own end what there is to wait for.
        if cgroup.dirs().is_empty() && !init.wait(KILL_PATIENCE)? {
            return Err(Error::Stuck(process));
        }
    }
    init.collect()?;
    Ok(())
}

/// Removes what [`start`] made, whole or half, running or not: the processes of its control group,
/// the group, and the node's directory. What is not there is removed already.
///
/// # Errors
/// When processes or files remain; it can be called again.
pub fn delete(dir: &Path, cgroup: &NodeCgroup) -> Result<(), Error> {
    cgroup.kill_all()?;
    cgroup.remove()?;
    // Our mounts are in a namespace that is gone. Should somebody have mounted something here,
    // removing through it would remove their files.
    if sys::inside::has_mounts_below(dir)? {
        let busy = io::Error::from_raw_os_error(libc::EBUSY);
        return Err(Error::io(
            "remove, because something is mounted below it,",
            dir,
        )(busy));
    }
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(Error::io("remove", dir)),
    }
}
