//! Why nothing is recorded.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot load {what} into the kernel: {reason}")]
    Load { what: &'static str, reason: String },
    /// A program is loaded but could not be attached.
    #[error("cannot attach {what} to {to}: {reason}")]
    Attach {
        what: &'static str,
        /// An interface, a tracepoint.
        to: String,
        reason: String,
    },
    /// The kernel has no BTF, so that its structures cannot be read.
    #[error("this kernel does not describe its types (/sys/kernel/btf/vmlinux is missing)")]
    NoTypes,
    #[error("there is no interface `{0}` here")]
    NoInterface(String),
    /// The shared memory cannot be read.
    #[error("cannot map the memory of {what}: {source}")]
    Map {
        what: &'static str,
        source: rustix::io::Errno,
    },
    /// More was asked for than there can be.
    #[error("{what}: {asked} is more than {most}")]
    TooMany {
        what: &'static str,
        asked: u64,
        most: u64,
    },
}

impl Error {
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Error::Load { .. } | Error::NoTypes => {
                "`latlab doctor` says what of BPF works here; without it packets are timed by the \
                 endpoints only and slow ones stay unexplained"
            }
            Error::Attach { .. } | Error::NoInterface(_) => "is the lab still deployed?",
            Error::Map { .. } => "is the memory limit too low?",
            Error::TooMany { .. } => "ask for less",
        }
    }
}
