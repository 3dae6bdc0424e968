//! Errors of labs, each with a hint.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use latlab_model::plan::NodePlan;

use crate::nodes::container;
use crate::nodes::session::{self, Exit, NotStarted};
use crate::nodes::vm::{self, BOOT_VARIABLE};
use crate::{borrowed, cache, cgroup, images, journal, links, streams, sys};

/// Why a lab could not be brought up, used or taken down.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error(transparent)]
    Cache(#[from] cache::Error),
    #[error("no lab `{0}` is deployed")]
    NoLab(String),
    #[error("lab `{lab}` has no node `{node}`")]
    NoNode {
        lab: String,
        node: String,
        nodes: Vec<String>,
    },
    /// The lab exists but was never ready, or the host was booted since.
    #[error("lab `{lab}` is {what}")]
    NotUp { lab: String, what: &'static str },
    #[error("node `{node}` of lab `{lab}` is paused")]
    Paused { lab: String, node: String },
    /// A latlab was killed while it moved, saved or restored the node.
    #[error("a {what} of node `{node}` of lab `{lab}` was cut off")]
    CutOff {
        lab: String,
        node: String,
        /// `move`, `snapshot`, `restore`.
        what: &'static str,
    },
    /// The node has ended with that.
    #[error("node `{node}` of lab `{lab}` has ended: its {what} was cut off")]
    Lost {
        lab: String,
        node: String,
        what: &'static str,
        can_be_restored: bool,
    },
    #[error("cannot copy node `{node}` to `{copy}`: {reason}")]
    NoCopy {
        node: String,
        copy: String,
        reason: &'static str,
    },
    #[error("node `{0}` is the host itself, which cannot be paused")]
    HostStays(String),
    #[error("another latlab is giving away names and CPUs (waited {} s)", .0.as_secs())]
    Busy(Duration),
    #[error("{} exists already and is not latlab's", .0.display())]
    InTheWay(PathBuf),
    #[error("the host has an interface `{0}` already, and it is not this lab's")]
    InterfaceTaken(String),
    #[error(transparent)]
    Netlink(#[from] latlab_netlink::Error),
    #[error("the deployment of lab `{0}` was interrupted")]
    Interrupted(String),
    #[error("{first}; and then: {remains}")]
    Unclean {
        first: Box<Error>,
        remains: Box<Error>,
    },
    #[error("interface `{interface}` of the host belongs to lab `{owner}` already")]
    InterfaceLent { interface: String, owner: String },
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
    #[error(transparent)]
    Streams(#[from] streams::Error),
    #[error("no link of lab `{0}` has streams")]
    NoStreams(String),
    #[error("{count} streams of node `{node}` cannot be made plain connections: {reason}")]
    StreamsStay {
        node: String,
        count: u64,
        reason: String,
    },
    #[error("latlab-agent is not at {}", .0.display())]
    NoAgent(PathBuf),
    #[error(transparent)]
    Sys(#[from] sys::Error),
    #[error(transparent)]
    Links(#[from] links::Error),
    #[error("node `{node}`: {source}")]
    Cgroup { node: String, source: cgroup::Error },
    #[error("node `{node}`: {source}")]
    Image { node: String, source: images::Error },
    #[error("node `{node}`: {source}")]
    Node {
        node: String,
        source: Box<session::Error>,
    },
    /// Storage that the node or the machine cannot have.
    #[error("node `{node}`: {reason}")]
    Storage {
        node: String,
        reason: String,
        hint: &'static str,
    },
    #[error("node `{node}`: {source}")]
    Start {
        node: String,
        /// The node's own directory, with its logs.
        dir: PathBuf,
        source: Box<session::Error>,
    },
    #[error("node `{node}`: {what} `{command}` failed ({exit}){}", said(.output))]
    Command {
        node: String,
        /// `exec`, `setup`.
        what: &'static str,
        command: String,
        exit: Exit,
        /// The end of its output.
        output: String,
    },
    /// A directory that a node can be neither saved in nor restored from.
    #[error("cannot {action} {}: {reason}", path.display())]
    Snapshot {
        action: &'static str,
        path: PathBuf,
        reason: String,
    },
    #[error(transparent)]
    Borrowed(#[from] borrowed::Error),
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
    pub(super) fn not_up(lab: &str, what: &'static str) -> Error {
        let lab = lab.to_owned();
        Error::NotUp { lab, what }
    }

    /// For `map_err`: names the node.
    pub(super) fn of_cgroup(node: &str) -> impl Fn(cgroup::Error) -> Error {
        move |source| Error::Cgroup {
            node: node.to_owned(),
            source,
        }
    }

    pub(super) fn storage(node: &NodePlan, reason: String, hint: &'static str) -> Error {
        let node = node.name.clone();
        Error::Storage { node, reason, hint }
    }

    /// Whether a command could not be run in its node, although that is well.
    pub fn not_started(&self) -> Option<NotStarted> {
        match self {
            Error::Start { source, .. } | Error::Node { source, .. } => source.not_started(),
            _ => None,
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Error::Journal(journal) => journal_hint(journal),
            Error::Cache(cache) => cache.hint().into(),
            Error::Streams(streams) => streams.hint(),
            Error::NoStreams(_) => "`streams: true` on a link of type overlay".into(),
            Error::StreamsStay { reason, .. } if reason == "paused" => {
                "resume the paused node at their other end (`latlab resume`); the node was left as it is".into()
            }
            Error::StreamsStay { .. } => {
                "end their programs, or debuggers that hold them; the node was left as it is".into()
            }
            Error::NoLab(_) => "`latlab inspect` lists the deployed labs".into(),
            Error::NoNode { nodes, .. } => format!("its nodes: {}", nodes.join(", ")),
            Error::Lost {
                lab,
                node,
                can_be_restored: true,
                ..
            } => format!("`latlab restore {lab} {node} --from DIR` starts it where it was saved"),
            Error::NotUp { lab, .. } | Error::Lost { lab, .. } => {
                format!("`latlab destroy {lab}`, then deploy it again")
            }
            Error::Paused { lab, node } => format!("`latlab resume {lab} {node}` lets it go on"),
            Error::CutOff { lab, node, .. } => {
                format!("`latlab resume {lab} {node}` lets it go on in one place")
            }
            Error::NoCopy { .. } => {
                "name a VM, and others of the lab with the same fields and `root: disk`".into()
            }
            Error::HostStays(_) => "pause the nodes that it speaks with".into(),
            Error::Busy(_) => "try again; if it stays, look for a hanging latlab with `ps`".into(),
            Error::InTheWay(path) => format!("move {} away, or rename the lab", path.display()),
            Error::Tuning { hint, .. } => hint.clone(),
            Error::CpuTaken { owner, .. } => {
                format!("`latlab destroy {owner}`, or name other CPUs")
            }
            Error::InterfaceLent { owner, .. } => {
                format!("`latlab destroy {owner}`, or name another interface")
            }
            Error::InterfaceTaken(name) => format!(
                "call the host node's interface otherwise, or remove `{name}` if it is not needed"
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
            Error::Snapshot {
                action: SAVE_IN, ..
            } => "name a directory that is empty, or that is not there yet".into(),
            Error::Snapshot { .. } => SNAPSHOT_HINT.into(),
            Error::Borrowed(error) => error.hint(),
            Error::Remains { lab, .. } => format!("run `latlab destroy {lab}` again"),
            Error::Links(links) => links.hint(),
            Error::Sys(error) => io_hint(&error.source),
            Error::Netlink(_) => DOCTOR.into(),
            Error::Cgroup { source, .. } => cgroup_hint(source).into(),
            Error::Image { source, .. } => source.hint().into(),
            Error::Storage { hint, .. } => (*hint).into(),
            Error::Node { source, .. } => node_hint(source),
            Error::Start { node, dir, source } => start_hint(node, dir, source),
        }
    }
}

/// The action on a directory that a snapshot goes to.
pub(super) const SAVE_IN: &str = "save a node in";

/// For what this machine may simply not have.
const SNAPSHOT_HINT: &str = "name a directory that `latlab snapshot` filled";

const DOCTOR: &str = "`latlab doctor` says what this machine lacks";

fn cgroup_hint(error: &cgroup::Error) -> &'static str {
    match error {
        cgroup::Error::Occupied { .. } => {
            "end them, or move them into a group of their own beside latlab's"
        }
        cgroup::Error::Unavailable {
            what: cgroup::PROCESSES | cgroup::DEVICES,
            ..
        }
        | cgroup::Error::Sys(_) => {
            "a container does without where the lab says so: `security: {pids: unlimited, devices: all}`"
        }
        _ => "`latlab doctor` says which limits this machine can enforce",
    }
}

fn journal_hint(error: &journal::Error) -> String {
    match error {
        journal::Error::Taken(lab) => {
            format!("`latlab destroy {lab}` first, or give the lab another name")
        }
        journal::Error::Name(_) => "`latlab inspect` lists the deployed labs".into(),
        journal::Error::Held { holder, .. } => match holder {
            Some(pid) => format!("wait for process {pid}; `ps {pid}` says what it does"),
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

fn start_hint(node: &str, dir: &Path, error: &session::Error) -> String {
    match error.not_started() {
        Some(NotStarted::Missing) => format!(
            "install it in the image of `{node}` (`image: host` is this machine), or give its full \
             path"
        ),
        Some(NotStarted::Forbidden) => "it must be an executable file".into(),
        Some(NotStarted::NoDirectory) => "name a directory that is there inside the node".into(),
        None => session_hint(error)
            .map(|hint| hint.replace("the node's directory", &dir.display().to_string()))
            .unwrap_or_else(|| {
                let dir = dir.display();
                format!("`latlab inspect` says whether it lives; its logs are in {dir}")
            }),
    }
}

fn node_hint(error: &session::Error) -> String {
    match error {
        session::Error::Vm(vm::Error::AgentSilent { .. }) => format!(
            "`deploy --keep` leaves its console.log and qemu.log; a slow machine needs \
             {BOOT_VARIABLE}=SECONDS"
        ),
        session::Error::Vm(vm::Error::GuestPanicked { .. } | vm::Error::GuestEnded { .. }) => {
            "check its `boot` and `kernel`; `deploy --keep` leaves its console.log and qemu.log"
                .into()
        }
        _ => session_hint(error).unwrap_or_else(|| "`deploy --keep` leaves its logs".into()),
    }
}

fn session_hint(error: &session::Error) -> Option<String> {
    match error {
        session::Error::Sys(error)
        | session::Error::Container(container::Error::Sys(error))
        | session::Error::Vm(vm::Error::Sys(error)) => sys_hint(error),
        session::Error::Vm(error) => hint_or_cause(error.hint(), error),
        session::Error::Kernel(error) => hint_or_cause(error.hint(), error),
        session::Error::Initramfs(_) => {
            Some("build with `cargo build --release`, or set LATLAB_AGENT to its path".into())
        }
        session::Error::Cgroup(error) => hint_or_cause(None, error),
        session::Error::Container(error) => error.hint().or_else(|| hint_or_cause(None, error)),
        session::Error::Channel(error) => hint_or_cause(None, error),
        session::Error::Clock(error) => hint_or_cause(None, error),
        session::Error::Snapshot(_) => Some(SNAPSHOT_HINT.into()),
        session::Error::Image(_) | session::Error::Other(_) => None,
    }
}

/// An error's own hint, or that of the system's answer among its causes.
fn hint_or_cause(own: Option<&str>, error: &dyn std::error::Error) -> Option<String> {
    if let Some(hint) = own {
        return Some(hint.into());
    }
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref() {
            return known_hint(error);
        }
        next = error.source();
    }
    None
}

fn known_hint(error: &io::Error) -> Option<String> {
    Some(io_hint(error)).filter(|hint| hint != DOCTOR)
}

fn sys_hint(error: &sys::Error) -> Option<String> {
    if error.action == "execute" && error.is_not_found() {
        let tool = &error.object;
        return Some(format!("`latlab doctor` says which package has {tool}"));
    }
    known_hint(&error.source)
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
                source: source.into(),
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
            let source = source.into();
            Error::Node { node, source }.hint()
        };
        let start = Error::Start {
            node: "a".into(),
            dir: "/run/x".into(),
            source: Box::new(silent.into()),
        };
        assert_eq!(start.hint(), own.replace("the node's directory", "/run/x"));
        assert!(of(missing("execute").into()).contains("doctor"));
        assert!(of(session::Error::Other("anything".into())).contains("--keep"));
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        assert!(of(sys::Error::of("write", "x")(full).into()).contains("free some space"));
    }
}
