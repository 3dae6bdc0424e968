//! Identity of a tunnel endpoint.

use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::daemon) struct TunnelKey {
    pub(super) local: SocketAddr,
    pub(super) form: FormKey,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FormKey {
    Vxlan,
    Private,
    /// Encrypted, with the private key in this file.
    Sealed(PathBuf),
}

impl TunnelKey {
    /// The endpoint's address, if it is IPv4.
    pub fn local_v4(&self) -> Option<SocketAddrV4> {
        match self.local {
            SocketAddr::V4(local) => Some(local),
            SocketAddr::V6(_) => None,
        }
    }
}
