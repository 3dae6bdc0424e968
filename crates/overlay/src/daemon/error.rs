//! Errors of a change of the configuration.

use latlab_model::overlay::Refusal;

use super::open::OpenError;
use crate::dispatch::Died;

/// Why a configuration did not take effect. Nothing has changed then, except after [`Error::Partly`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Another client has changed the configuration since it was read.
    #[error("the configuration was changed meanwhile")]
    Changed,
    #[error("another connection adapts this daemon")]
    Adapting,
    #[error(transparent)]
    Kernel(#[from] crate::kernel::Error),
    /// The configuration is in force, but a part of it failed.
    #[error("the change is in force, but {0}")]
    Partly(Box<Error>),
    #[error("cannot start the dispatchers: {0}")]
    Dispatchers(std::io::Error),
    #[error(transparent)]
    Died(#[from] Died),
}

impl Error {
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Error::Refused(refusal) => refusal.hint.clone(),
            Error::Open(error) => error.hint(),
            Error::Kernel(_) => "`latlab doctor` says whether BPF works here".into(),
            Error::Partly(_) => {
                "restart the daemon: it makes everything anew from its configuration".into()
            }
            Error::Changed => "look at it with `show`, and begin again".into(),
            Error::Adapting => {
                "end the other `latlab adapt`: two would undo each other's work".into()
            }
            Error::Dispatchers(_) => "name CPUs that exist with `set dispatch cpus`".into(),
            Error::Died(_) => "restart the daemon, and report this with its last messages".into(),
        }
    }
}
