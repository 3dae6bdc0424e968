//! Lifetime of sessions.

use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Datagrams under one key. Far below the limit of AES-GCM for datagrams of this size.
    pub datagrams: u64,
    pub renew: Duration,
    pub expire: Duration,
    pub retry: Duration,
    /// Maximum silence of a peer while it is sent to.
    pub silence: Duration,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            datagrams: 1 << 32,
            renew: Duration::from_secs(120),
            expire: Duration::from_secs(180),
            retry: Duration::from_millis(250),
            silence: Duration::from_secs(5),
        }
    }
}
