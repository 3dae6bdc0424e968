//! Errors of guests.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::channel::error as channel;
use super::qmp;
use crate::sys;

/// The longest path a socket can have (`sun_path` with its final NUL).
pub(super) const SOCKET_PATH_BYTES: usize = 107;
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the kernel of guest {name} panicked: {}", first_line(console))]
    GuestPanicked {
        name: String,
        /// The lines of the panic.
        console: Vec<String>,
    },
    #[error("guest {name} ended ({how}){}", last_line(": ", said))]
    GuestEnded {
        name: String,
        how: String,
        /// Last lines of QEMU's log, or of the console if QEMU was silent.
        said: Vec<String>,
    },
    #[error(
        "the agent of guest {name} did not answer within {:.1} s{}",
        after.as_secs_f64(),
        last_line("; last on its console: ", console)
    )]
    AgentSilent {
        name: String,
        after: Duration,
        /// Last lines of the console.
        console: Vec<String>,
    },
    #[error(
        "cannot make sockets in {}: their paths would exceed {SOCKET_PATH_BYTES} bytes",
        dir.display()
    )]
    PathTooLong { dir: PathBuf },
    #[error("cannot mount a share at '{target}': an absolute path without white space is needed")]
    BadTarget { target: String },
    #[error("cannot share {} with a guest: it is not a directory", source_path.display())]
    NotADirectory { source_path: PathBuf },
    #[error(
        "kernel {release} has no 9p and reaches its image only over virtiofs, but there is no \
         virtiofsd (looked for {})",
        looked.join(", ")
    )]
    NoVirtiofsd {
        /// `uname -r`.
        release: String,
        looked: Vec<String>,
    },
    #[error("cannot make the template that the guest is to be a clone of: {reason}")]
    Template { reason: String },
    #[error("QEMU could not save or load the guest's state: {reason}")]
    State { reason: String },
    #[error("it has shares or cards of the host, which QEMU cannot save")]
    Shares,
    #[error("the machine is not the one that it was saved on: {difference}")]
    OtherMachine { difference: String },
    #[error("the lab's network is not the one that it was saved in: {difference}")]
    OtherNetwork { difference: String },
    #[error(
        "it runs under emulation by a QEMU before version 9, which loses pages that it writes while it moves"
    )]
    Untracked,
    #[error("its network cards are gone with its QEMU")]
    CardsGone,
    #[error("huge pages inside: {reason}")]
    HugePages { reason: String },
    #[error("ports of DPDK inside: {reason}")]
    Ports { reason: String },
    #[error("QEMU gives no guest the CPU `{cpu}` here: {reason}")]
    Cpu { cpu: String, reason: String },
    #[error(transparent)]
    Sys(#[from] sys::Error),
    #[error("guest: {0}")]
    Channel(#[from] channel::Error),
    #[error(transparent)]
    Qmp(#[from] qmp::Error),
}

impl Error {
    /// For `map_err`: an action on a path that the system refused.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let failed = sys::Error::of(action, path.display());
        |source: io::Error| Self::Sys(failed(source))
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoVirtiofsd { .. } => Some(
                "install virtiofsd (Debian 13: package virtiofsd; Debian 12: part of \
                 qemu-system-common), or use `kernel: standard`",
            ),
            Self::GuestPanicked { .. } | Self::AgentSilent { .. } | Self::GuestEnded { .. } => {
                Some("the kernel's log is console.log, QEMU's is qemu.log, in the node's directory")
            }
            Self::PathTooLong { .. } => {
                Some("give the lab or the node a shorter name, or set a shorter LATLAB_RUN_DIR")
            }
            Self::Cpu { .. } => Some(
                "`qemu-system-x86_64 -cpu help` lists models and features; emulation has few of the newer ones",
            ),
            Self::Template { .. } => Some("`start: boot` needs no template"),
            Self::Shares => {
                Some("give it `root: disk`, an image of its own, no binds, and no card by VFIO")
            }
            Self::OtherMachine { .. } | Self::OtherNetwork { .. } => Some(
                "it goes on with the same QEMU, image and fields of the lab; deploy it as it was then",
            ),
            Self::Untracked => {
                Some("a newer QEMU: Debian 12 has one in its backports; KVM moves guests with any")
            }
            Self::CardsGone => Some("deploy the lab again, then restore it"),
            Self::HugePages { .. } => Some(
                "lower `hugepages` in its `dpdk`, or raise its `memory`; `page: 2MiB` fits everywhere",
            ),
            Self::Ports { .. } => Some(
                "`driver: af-packet` needs nothing of the guest's kernel; `vfio` needs CONFIG_INTEL_IOMMU",
            ),
            Self::NotADirectory { .. } => Some("share the directory that holds it"),
            _ => None,
        }
    }
}

fn first_line(lines: &[String]) -> &str {
    lines.first().map_or("(no line)", String::as_str)
}

fn last_line(introduction: &str, lines: &[String]) -> String {
    let last = lines.last().map(|line| format!("{introduction}{line}"));
    last.unwrap_or_default()
}
