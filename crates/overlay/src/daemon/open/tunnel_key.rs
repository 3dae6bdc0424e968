//! Identity of a tunnel endpoint.

use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::daemon) struct TunnelKey {
    pub(super) local: SocketAddr,
    /// The network namespace of its sockets; none: the daemon's.
    pub(super) netns: Option<PathBuf>,
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
    /// The endpoint's address, if the path in the kernel can serve it: IPv4, in the daemon's namespace.
    pub fn in_kernel(&self) -> Option<SocketAddrV4> {
        match (self.local, &self.netns) {
            (SocketAddr::V4(local), None) => Some(local),
            _ => None,
        }
    }
}
