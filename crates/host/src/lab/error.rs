//! What can go wrong with a lab, and what a person can do about it.

use std::path::PathBuf;
use std::time::Duration;

use crate::nodes::session::{self, Exit};
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
        /// Which lab.
        lab: String,
        /// Which node.
        node: String,
        /// Those it has.
        nodes: Vec<String>,
    },
    /// The lab exists but was never ready, or the host was booted since.
    #[error("lab `{lab}` is {what}")]
    NotUp {
        /// Which lab.
        lab: String,
        /// `half-made`, or `gone since the host was booted`.
        what: &'static str,
    },
    /// Another latlab is at work.
    #[error("another latlab is deploying or removing a lab (waited {} s)", .0.as_secs())]
    Busy(Duration),
    /// Something is where the lab's things should go.
    #[error("{} exists already and is not latlab's", .0.display())]
    InTheWay(PathBuf),
    /// Exclusive processors were given away since they were planned.
    #[error("CPU {cpu} belongs to lab `{owner}` already")]
    CpuTaken {
        /// Processor.
        cpu: u32,
        /// Its owner.
        owner: String,
    },
    /// The agent's binary is not beside latlab's.
    #[error("latlab-agent is not at {}", .0.display())]
    NoAgent(PathBuf),
    /// A system call failed.
    #[error(transparent)]
    Sys(#[from] sys::Error),
    /// Links could not be made.
    #[error(transparent)]
    Links(#[from] links::Error),
    /// Limits could not be put in force.
    #[error("node `{node}`: {source}")]
    Cgroup {
        /// Whose.
        node: String,
        /// Why.
        source: cgroup::Error,
    },
    /// An image could not be used.
    #[error("node `{node}`: {source}")]
    Image {
        /// Whose.
        node: String,
        /// Why.
        source: images::Error,
    },
    /// A node did not come up or cannot be used.
    #[error("node `{node}`: {source}")]
    Node {
        /// Which.
        node: String,
        /// Why.
        source: session::Error,
    },
    /// A command of the lab's file failed.
    #[error("node `{node}`: {what} `{command}` failed ({exit}){}", said(.output))]
    Command {
        /// Where.
        node: String,
        /// `exec`, `setup`.
        what: &'static str,
        /// The command.
        command: String,
        /// How it ended.
        exit: Exit,
        /// What it said last.
        output: String,
    },
    /// A file of the lab could not be written or read.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was done.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Things that could not be removed; the rest was.
    #[error("lab `{lab}` is not wholly removed: {}", .causes.join("; "))]
    Remains {
        /// Which lab.
        lab: String,
        /// One line each.
        causes: Vec<String>,
    },
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
            Error::Journal(journal::Error::Taken(lab)) => {
                format!("`latlab destroy {lab}` first, or give the lab another name")
            }
            Error::Journal(journal::Error::Damaged { path, .. }) => {
                format!(
                    "look at {}; its lab must be removed by hand",
                    path.display()
                )
            }
            Error::NoLab(_) => "`latlab inspect` lists the deployed labs".into(),
            Error::NoNode { nodes, .. } => format!("its nodes: {}", nodes.join(", ")),
            Error::NotUp { lab, .. } => format!("`latlab destroy {lab}`, then deploy it again"),
            Error::Busy(_) => "wait for it, or look for a hanging latlab with `ps`".into(),
            Error::InTheWay(path) => format!("move {} away, or rename the lab", path.display()),
            Error::CpuTaken { owner, .. } => {
                format!("`latlab destroy {owner}`, or name other processors")
            }
            Error::NoAgent(_) => {
                "build with `cargo build --release`, or set LATLAB_AGENT to its path".into()
            }
            Error::Command { node, .. } => {
                format!("deploy with --keep and look inside: `latlab exec LAB {node} -- sh`")
            }
            Error::Remains { lab, .. } => format!("run `latlab destroy {lab}` again"),
            Error::Links(links) => links.hint(),
            Error::Journal(journal::Error::Io { .. }) | Error::Io { .. } | Error::Sys(_) => {
                "`latlab doctor` says what this machine lacks".into()
            }
            Error::Cgroup { .. } => {
                "`latlab doctor` says which limits this machine can enforce".into()
            }
            Error::Image { .. } => {
                "an image is `host`, a directory, or an OCI archive (.tar)".into()
            }
            Error::Node { .. } => {
                "deploy with --keep and look at the node's console and logs".into()
            }
        }
    }
}
