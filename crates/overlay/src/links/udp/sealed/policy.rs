//! Lifetime of sessions.

use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Datagrams under one key. Far below the limit of AES-GCM for datagrams of this size.
    pub datagrams: u64,
    pub renew: Duration,
    pub expire: Duration,
    /// How long the first handshake waits for an answer. Each one that gets none doubles that, because an answer to an earlier
    /// handshake is refused: the time has to outgrow that of a round trip.
    pub retry: Duration,
    pub longest_retry: Duration,
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
            longest_retry: Duration::from_secs(5),
            silence: Duration::from_secs(5),
        }
    }
}

impl Policy {
    /// How long the last of this many handshakes waits for an answer.
    pub(super) fn retry_after(&self, unanswered: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(unanswered.saturating_sub(1));
        self.retry.saturating_mul(doubled).min(self.longest_retry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_outgrow_every_round_trip_and_stay_within_seconds() {
        let policy = Policy::default();
        let waits = [0, 1, 2, 3, 5, 6, u32::MAX].map(|count| policy.retry_after(count));
        let expected = [250, 250, 500, 1000, 4000, 5000, 5000].map(Duration::from_millis);
        assert_eq!(waits, expected);
    }
}
