//! Errors of controllers, in words for the one who asked.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the password of the controller is not in the environment: {0} is not set")]
    NoVariable(String),
    #[error("cannot read the controller's password: {}: {source}", path.display())]
    PasswordFile { path: PathBuf, source: io::Error },
    #[error("the password of the controller has {0} bytes; IPMI 2.0 has 20 at most")]
    LongPassword(usize),
    #[error("{} cannot be used: {reason}", path.display())]
    Authority { path: PathBuf, reason: String },
    #[error("`{0}` is no address of a Redfish service")]
    Address(String),
    #[error("cannot start {tool}: {source}")]
    Tool {
        tool: &'static str,
        source: io::Error,
    },
    #[error("the controller of host `{host}` does not answer at {address}")]
    Silent { host: String, address: String },
    #[error("there is no address of {address}, the controller of host `{host}`")]
    Unknown { host: String, address: String },
    #[error("the controller of host `{host}` refuses the password of `{user}`")]
    Password { host: String, user: String },
    #[error("the controller of host `{host}` knows no user `{user}`")]
    User { host: String, user: String },
    /// The user is known, with a role that lacks a privilege.
    #[error("the controller of host `{host}` does not let `{user}` {action}: {reason}")]
    Forbidden {
        host: String,
        user: String,
        action: String,
        reason: String,
    },
    #[error("the controller of host `{host}` does not have the cipher suite")]
    Cipher { host: String },
    #[error("the controller of host `{host}` has a certificate that is not trusted: {reason}")]
    Untrusted { host: String, reason: String },
    #[error("the controller of host `{host}` has no console over Redfish")]
    NoConsole { host: String },
    #[error("the console of host `{host}` is in use by another session")]
    Busy { host: String },
    #[error("the controller of host `{host}` cannot {action}: {reason}")]
    Refused {
        host: String,
        action: String,
        reason: String,
    },
    /// The controller answers, and is slow.
    #[error("the controller of host `{host}` has not done `{action}` within {seconds} s")]
    Unfinished {
        host: String,
        action: String,
        seconds: u64,
    },
    #[error("host `{host}` is still {state} {seconds} s after it was told to {action}")]
    NotSwitched {
        host: String,
        state: &'static str,
        seconds: u64,
        action: &'static str,
    },
}

impl Error {
    /// A remedy.
    pub fn hint(&self) -> &'static str {
        match self {
            Error::NoVariable(_) => "set it for this command, or name a `file:`",
            Error::PasswordFile { .. } => "its first line is the password",
            Error::LongPassword(_) => "give the user of the controller a shorter one",
            Error::Authority { .. } => "`authority:` is a file of certificates in PEM",
            Error::Address(_) => "for example `192.0.2.8`; without TLS only this machine's own",
            Error::Tool { .. } => "install ipmitool",
            Error::Silent { .. } => {
                "check `address`, and whether the management network reaches it"
            }
            Error::Unknown { .. } => "check `address`",
            Error::Password { .. } => "check `password`",
            Error::User { .. } => "check `user`, and that it may use IPMI over the network",
            Error::Forbidden { .. } => {
                "give the user a role that may do that: Operator switches and reads, as a rule"
            }
            Error::Cipher { .. } => "leave `cipher` out, or set the one that it has: often 17 or 3",
            Error::Untrusted { .. } => "`authority:` is the file of the one who signed it, in PEM",
            Error::NoConsole { .. } => "many controllers have one over IPMI: `type: ipmi`",
            Error::Busy { .. } => "`--take` ends the other session",
            Error::Refused { .. } => "the controller's own page or log may say more",
            Error::Unfinished { .. } => {
                "try again; other sessions, or its own page, may keep it busy"
            }
            Error::NotSwitched { .. } => {
                "its system may hang, or take longer: `--wait`; `power off` does not ask the system"
            }
        }
    }
}
