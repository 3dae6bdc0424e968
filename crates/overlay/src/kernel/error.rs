//! Why a container's frames do not stay in the kernel.

/// What went wrong, and with what.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel takes no such programs.
    #[error("cannot load the kernel path: {0}")]
    Load(String),
    /// Its maps cannot be read or written.
    #[error("cannot {action} of the kernel path: {reason}")]
    Map {
        /// What was tried.
        action: &'static str,
        /// Why not.
        reason: String,
    },
    /// A program could not be put at an interface, or taken away.
    #[error("cannot {action} interface #{device}: {reason}")]
    Attach {
        /// What was tried.
        action: &'static str,
        /// The interface's number.
        device: u32,
        /// Why not.
        reason: String,
    },
    /// The interface is no end of a pair whose other end is elsewhere.
    #[error("interface #{0} is no veth whose other end is in another network namespace")]
    NoContainer(u32),
    /// Another version of this program left a kernel path.
    #[error("the kernel path `{name}` was made by another version of this program")]
    OtherVersion {
        /// Its name.
        name: String,
    },
    /// The name does not fit.
    #[error("the name `{0}` is longer than {most} bytes", most = super::layout::NAME_BYTES)]
    Name(String),
}

impl Error {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Error::Load(_) => {
                "`latlab doctor` says what of BPF works here; without it containers use the \
                 daemon's taps"
            }
            Error::Map { .. } => "is the daemon root, and the memory limit high enough?",
            Error::Attach { .. } => "is the interface in the daemon's own network namespace?",
            Error::NoContainer(_) => {
                "make a veth pair, move one end into the container and name the other one"
            }
            Error::OtherVersion { .. } => {
                "stop the old daemon and take its programs away, `bpftool net` shows them: `bpftool \
                 net detach tcx_ingress dev IF`, or `tc qdisc del dev IF clsact`"
            }
            Error::Name(_) => "take a shorter one",
        }
    }
}
