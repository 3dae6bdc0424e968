//! What can go wrong with a lab, and what a person can do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::guest::BOOT_VARIABLE;
use crate::nodes::container;
use crate::nodes::session::{self, Exit, NotStarted};
use crate::nodes::vm::{self, initramfs, kernel};
use crate::{cgroup, images, journal, links, sys};

/// Why a lab could not be brought up, used or taken down.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal could not be written or read.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// No lab of that name.
    #[error("no lab `{0}` is deployed")]
    NoLab(String),
    /// The lab has no such node.
    #[error("lab `{lab}` has no node `{node}`")]
    NoNode {
        lab: String,
        node: String,
        nodes: Vec<String>,
    },
    /// The lab exists but was never ready, or the host was booted since.
    #[error("lab `{lab}` is {what}")]
    NotUp {
        lab: String,
        /// `half-made`, or `gone since the host was booted`.
        what: &'static str,
    },
    /// Another latlab is at work.
    #[error("another latlab is giving away names and CPUs (waited {} s)", .0.as_secs())]
    Busy(Duration),
    /// Something is where the lab's things should go.
    #[error("{} exists already and is not latlab's", .0.display())]
    InTheWay(PathBuf),
    /// An interface for the root namespace has a name that is taken there.
    #[error("the host has an interface `{0}` already, and it is not this lab's")]
    InterfaceTaken(String),
    /// The kernel could not be asked about interfaces.
    #[error(transparent)]
    Netlink(#[from] latlab_netlink::Error),
    /// It was told to stop.
    #[error("the deployment of lab `{0}` was interrupted")]
    Interrupted(String),
    /// A deployment failed, and what it had made could not all be removed.
    #[error("{first}; and then: {remains}")]
    Unclean {
        first: Box<Error>,
        remains: Box<Error>,
    },
    /// Exclusive CPUs were given away since they were planned.
    #[error("CPU {cpu} belongs to lab `{owner}` already")]
    CpuTaken { cpu: u32, owner: String },
    /// The machine's knobs could not be turned as the lab wants.
    #[error("tuning `{profile}`: {reason}")]
    Tuning {
        /// As the lab names it.
        profile: String,
        reason: String,
        hint: String,
    },
    /// The agent's binary is not beside latlab's.
    #[error("latlab-agent is not at {}", .0.display())]
    NoAgent(PathBuf),
    #[error(transparent)]
    Sys(#[from] sys::Error),
    /// Links could not be made.
    #[error(transparent)]
    Links(#[from] links::Error),
    /// Limits could not be put in force.
    #[error("node `{node}`: {source}")]
    Cgroup { node: String, source: cgroup::Error },
    /// An image could not be used.
    #[error("node `{node}`: {source}")]
    Image { node: String, source: images::Error },
    /// A node did not come up or cannot be used.
    #[error("node `{node}`: {source}")]
    Node {
        node: String,
        source: session::Error,
    },
    /// A node that was up cannot be used, or a command not be run in it.
    #[error("node `{node}`: {source}")]
    Start {
        node: String,
        /// The node's own directory, with its logs.
        dir: PathBuf,
        source: session::Error,
    },
    /// A command of the lab's file failed.
    #[error("node `{node}`: {what} `{command}` failed ({exit}){}", said(.output))]
    Command {
        node: String,
        /// `exec`, `setup`.
        what: &'static str,
        command: String,
        exit: Exit,
        /// What it said last.
        output: String,
    },
    /// A file of the lab could not be written or read.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// Things that could not be removed; the rest was.
    #[error("lab `{lab}` is not wholly removed: {}", .causes.join("; "))]
    Remains { lab: String, causes: Vec<String> },
}

fn said(output: &str) -> String {
    match output.trim() {
        "" => String::new(),
        text => format!(": {}", text.lines().last().unwrap_or_default()),
    }
}

impl Error {
    /// One line that says what to do.
    pub fn hint(&self) -> String {
        match self {
            Error::Journal(journal) => journal_hint(journal),
            Error::NoLab(_) => "`latlab inspect` lists the deployed labs".into(),
            Error::NoNode { nodes, .. } => format!("its nodes: {}", nodes.join(", ")),
            Error::NotUp { lab, .. } => format!("`latlab destroy {lab}`, then deploy it again"),
            Error::Busy(_) => "try again; if it stays, look for a hanging latlab with `ps`".into(),
            Error::InTheWay(path) => format!("move {} away, or rename the lab", path.display()),
            Error::Tuning { hint, .. } => hint.clone(),
            Error::CpuTaken { owner, .. } => {
                format!("`latlab destroy {owner}`, or name other CPUs")
            }
            Error::InterfaceTaken(name) => format!(
                "call the host node's interface otherwise, or remove `{name}` if nobody needs it"
            ),
            Error::NoAgent(_) => {
                "build with `cargo build --release`, or set LATLAB_AGENT to its path".into()
            }
            Error::Interrupted(lab) => {
                format!("what was made is gone again; `latlab inspect {lab}` finds it with --keep")
            }
            Error::Unclean { remains, .. } => remains.hint(),
            Error::Command { node, .. } => {
                format!("deploy with --keep and look inside: `latlab exec LAB {node} -- sh`")
            }
            Error::Remains { lab, .. } => format!("run `latlab destroy {lab}` again"),
            Error::Links(links) => links.hint(),
            Error::Io { source, .. } => io_hint(source),
            Error::Sys(error) => io_hint(&error.source),
            Error::Netlink(_) => DOCTOR.into(),
            Error::Cgroup {
                source: cgroup::Error::Occupied { .. },
                ..
            } => "end them, or move them into a group of their own beside latlab's".into(),
            Error::Cgroup {
                source:
                    cgroup::Error::Unavailable {
                        what: cgroup::PROCESSES | cgroup::DEVICES,
                        ..
                    }
                    | cgroup::Error::Sys(_),
                ..
            } => "a container does without where the lab says so: `security: {pids: unlimited, \
                  devices: all}`"
                .into(),
            Error::Cgroup { .. } => {
                "`latlab doctor` says which limits this machine can enforce".into()
            }
            Error::Image { .. } => {
                "an image is `host`, a directory, or an OCI archive (.tar)".into()
            }
            Error::Node { source, .. } => node_hint(source.as_ref()),
            Error::Start { node, dir, source } => start_hint(node, dir, source.as_ref()),
        }
    }
}

/// For what this machine may simply not have.
const DOCTOR: &str = "`latlab doctor` says what this machine lacks";

fn journal_hint(error: &journal::Error) -> String {
    match error {
        journal::Error::Taken(lab) => {
            format!("`latlab destroy {lab}` first, or give the lab another name")
        }
        journal::Error::Name(_) => "`latlab inspect` lists the deployed labs".into(),
        journal::Error::Held { holder, .. } => match holder {
            Some(pid) => format!("wait for process {pid}, or end it with `kill {pid}`"),
            None => "wait for it, or look for a hanging latlab with `ps`".into(),
        },
        journal::Error::Damaged { path, .. } => {
            format!(
                "look at {}; its lab must be removed by hand",
                path.display()
            )
        }
        journal::Error::Io { source, .. } => io_hint(source),
    }
}

/// What to do about a file that cannot be used.
fn io_hint(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => "free some space there and try again".into(),
        Some(libc::EROFS | libc::EACCES | libc::EPERM) => {
            "it is for root to read and write: try `sudo`; LATLAB_STATE_DIR, LATLAB_RUN_DIR and LATLAB_CACHE_DIR \
             name other places"
                .into()
        }
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files: `ulimit -n`".into(),
        _ => DOCTOR.into(),
    }
}

/// What to do when a command cannot be run in a node, or its node goes away under it.
fn start_hint(node: &str, dir: &Path, error: &(dyn std::error::Error + 'static)) -> String {
    match session::not_started(error) {
        Some(NotStarted::Missing) => format!(
            "install it in the image of `{node}` (`image: host` is this machine), or give its full \
             path"
        ),
        Some(NotStarted::Forbidden) => "it must be an executable file".into(),
        Some(NotStarted::NoDirectory) => "name a directory that is there inside the node".into(),
        None => chain_hint(error)
            .map(|hint| hint.replace("the node's directory", &dir.display().to_string()))
            .unwrap_or_else(|| {
                let dir = dir.display();
                format!("`latlab inspect` says whether it lives; its logs are in {dir}")
            }),
    }
}

/// What to do when a node does not come up.
fn node_hint(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref() {
        Some(vm::Error::AgentSilent { .. }) => format!(
            "`deploy --keep` leaves its console.log and qemu.log; a slow machine needs \
             {BOOT_VARIABLE}=SECONDS"
        ),
        Some(vm::Error::GuestPanicked { .. } | vm::Error::GuestEnded { .. }) => {
            "check its `boot` and `kernel`; `deploy --keep` leaves its console.log and qemu.log"
                .into()
        }
        _ => chain_hint(error).unwrap_or_else(|| "`deploy --keep` leaves its logs".into()),
    }
}

/// The hint of the first error in the chain that has one. Nodes of different kinds fail with errors
/// of different types, so they arrive here as values of any type.
fn chain_hint(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        let hint = own_hint(error);
        if hint.is_some() {
            return hint;
        }
        next = error.source();
    }
    None
}

fn own_hint(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    // Transparent errors are left out of the chain of causes.
    match error.downcast_ref() {
        Some(vm::Error::Sys(error)) => return own_hint(error),
        Some(error) => return error.hint().map(Into::into),
        None => {}
    }
    if let Some(container::Error::Sys(error)) = error.downcast_ref() {
        return own_hint(error);
    }
    if let Some(error) = error.downcast_ref::<kernel::Error>() {
        return error.hint().map(Into::into);
    }
    if error.is::<initramfs::Error>() {
        return Some("build with `cargo build --release`, or set LATLAB_AGENT to its path".into());
    }
    let known = |error: &io::Error| Some(io_hint(error)).filter(|hint| hint != DOCTOR);
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return known(error);
    }
    let error = error.downcast_ref::<sys::Error>()?;
    if error.action == "execute" && error.is_not_found() {
        let tool = &error.object;
        return Some(format!("`latlab doctor` says which package has {tool}"));
    }
    known(&error.source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(action: &'static str) -> sys::Error {
        sys::Error::because(action, "ping", io::ErrorKind::NotFound, "not found in PATH")
    }

    #[test]
    fn a_missing_program_is_missing_in_every_kind_of_node() {
        let refused = vm::channel::Error::Refused {
            errno: 2,
            message: "start ping: No such file".into(),
        };
        let contained = container::Error::Command {
            program: "ping".into(),
            reason: "not found".into(),
        };
        let errors: [session::Error; 4] = [
            missing("execute").into(),
            contained.into(),
            container::Error::from(missing("execute")).into(),
            refused.into(),
        ];
        for source in errors {
            let error = Error::Start {
                node: "a".into(),
                dir: PathBuf::new(),
                source,
            };
            assert!(
                error.hint().starts_with("install it in the image of `a`"),
                "{error}"
            );
        }
    }

    #[test]
    fn hints_come_from_the_error_that_knows_best() {
        let silent = vm::Error::AgentSilent {
            name: "a".into(),
            after: Duration::from_secs(1),
            console: Vec::new(),
        };
        let own = silent.hint().unwrap();
        let of = |source: session::Error| {
            let node = "a".into();
            Error::Node { node, source }.hint()
        };
        let start = Error::Start {
            node: "a".into(),
            dir: "/run/x".into(),
            source: silent.into(),
        };
        assert_eq!(start.hint(), own.replace("the node's directory", "/run/x"));
        assert!(of(missing("execute").into()).contains("doctor"));
        assert!(of("anything".into()).contains("--keep"));
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        assert!(of(sys::Error::of("write", "x")(full).into()).contains("free some space"));
    }
}
