//! Configuration of a TCP link.

use std::net::SocketAddr;
use std::sync::Arc;

use latlab_model::overlay::Peer;

use crate::endpoints::{Counters, PortId};
use crate::tls::Credentials;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    Connect(SocketAddr),
    /// Without TLS the peer is known by its source address, under TLS by its certificate
    /// ([`Credentials::accepting`]). With `any` and without TLS, a live connection is replaced only by its own host.
    Listen(SocketAddr, Peer),
}

#[derive(Debug, Clone)]
pub struct TcpConfig {
    pub id: PortId,
    pub role: Role,
    pub tls: Option<Credentials>,
    /// This daemon's number, not zero.
    pub origin: u64,
    pub counters: Arc<Counters>,
}
