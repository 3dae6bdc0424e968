//! Calls of `accept` that are held on one listening socket.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::held::Held;

/// How long a connection is kept for the next call whose own call was interrupted while it was accepted.
pub(super) const UNDELIVERED_TIMEOUT: Duration = Duration::from_secs(2);

/// The calls that are held on one listening socket.
#[derive(Debug)]
pub(super) struct Accepts {
    pub waiting: VecDeque<Waiting>,
    pub undelivered: VecDeque<(OwnedFd, Instant)>,
    /// The token at the poller; one for the life of the socket.
    pub token: u64,
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub held: Held,
    pub flags: i32,
    pub deadline: Option<Instant>,
}

impl Accepts {
    pub(super) fn new(token: u64) -> Self {
        Self {
            waiting: VecDeque::new(),
            undelivered: VecDeque::new(),
            token,
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let waiting = self.waiting.iter().filter_map(|waiting| waiting.deadline);
        let kept = self.undelivered.iter();
        let kept = kept.map(|(_, since)| *since + UNDELIVERED_TIMEOUT);
        waiting.chain(kept).min()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.undelivered.is_empty()
    }
}
