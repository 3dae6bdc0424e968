//! Errors of the kernel path.

use std::fmt::Display;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot load the kernel path: {0}")]
    Load(String),
    #[error("cannot {action} of the kernel path: {reason}")]
    Map {
        action: &'static str,
        reason: String,
    },
    #[error("cannot {action} interface #{device}: {reason}")]
    Attach {
        action: &'static str,
        device: u32,
        reason: String,
    },
    #[error("interface #{0} is no veth or netkit whose other end is in another network namespace")]
    NoContainer(u32),
    #[error("interface #{0} is a netkit of mode l3, which carries no Ethernet frames")]
    NoFrames(u32),
    #[error(
        "interface #{0} is the peer of its netkit pair, and programs are put at the primary end only"
    )]
    NotPrimary(u32),
    #[error("the kernel path `{name}` was made by another version of this program")]
    OtherVersion { name: String },
    #[error("the name `{0}` is longer than {most} bytes", most = super::layout::NAME_BYTES)]
    Name(String),
}

impl Error {
    pub(super) fn map(action: &'static str, reason: &impl Display) -> Error {
        let reason = reason.to_string();
        Error::Map { action, reason }
    }

    pub(super) fn attach(action: &'static str, device: u32, reason: &impl Display) -> Error {
        let reason = reason.to_string();
        Error::Attach {
            action,
            device,
            reason,
        }
    }
}
