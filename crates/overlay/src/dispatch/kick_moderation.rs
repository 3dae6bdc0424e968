//! Detects guests that send without waiting for answers, so that kicks may be suppressed.
//!
//! Each kick costs the guest more than the frame, and costs the receiver an interrupt. Frames that come one by one can
//! wait some µs while kicks are suppressed, as NICs moderate interrupts, unless a peer waits for them. A guest that
//! waits for an answer sends nothing before it arrives. A guest that has kicked several times in a row without being
//! sent anything therefore waits for no peer.
//!
//! Pure: events and counters are arguments.

/// Kicks in a row without an answer: more than a request-response program sends.
const MIN_KICKS: u32 = 64;
/// Kicks in a row after a pause without answers.
const MIN_KICKS_AGAIN: u32 = 8;

/// Kicks of one guest since its last answer.
#[derive(Debug, Clone, Default)]
pub(super) struct KickModeration {
    /// Frames sent to the guest until its last kick.
    sent: u64,
    unanswered: u32,
}

impl KickModeration {
    /// The guest kicked, after `sent` frames were sent to it in all. True if it waits for no answer.
    pub const fn after_kick(&mut self, sent: u64) -> bool {
        self.unanswered = if sent == self.sent {
            self.unanswered.saturating_add(1)
        } else {
            0
        };
        self.sent = sent;
        self.unanswered >= MIN_KICKS
    }

    /// A coalescing window brought `frames` frames. True if another window is worthwhile: the guest neither paused nor
    /// was answered.
    pub const fn after_window(&mut self, frames: u64, sent: u64) -> bool {
        let is_answered = sent != self.sent;
        self.sent = sent;
        if is_answered {
            self.unanswered = 0;
        } else if frames == 0 {
            self.unanswered = MIN_KICKS - MIN_KICKS_AGAIN;
        }
        !is_answered && frames > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_wait_for_answers_are_never_coalesced() {
        let mut moderation = KickModeration::default();
        for sent in 1..1000 {
            assert!(!moderation.after_kick(sent));
        }
        // Also where a request is several frames.
        for sent in 1000..2000 {
            for _ in 0..MIN_KICKS {
                assert!(!moderation.after_kick(sent));
            }
        }
    }

    #[test]
    fn a_one_way_sender_is_coalesced_until_it_pauses_or_is_answered() {
        let mut moderation = KickModeration::default();
        let kicks =
            |moderation: &mut KickModeration, sent| (0..).find(|_| moderation.after_kick(sent));
        assert_eq!(kicks(&mut moderation, 0), Some(MIN_KICKS - 1));
        assert!(moderation.after_window(3, 0));
        assert!(moderation.after_window(1, 0));
        assert!(!moderation.after_window(0, 0), "a pause");
        assert_eq!(kicks(&mut moderation, 0), Some(MIN_KICKS_AGAIN - 1));
        assert!(!moderation.after_window(5, 1), "an answer");
        assert_eq!(kicks(&mut moderation, 1), Some(MIN_KICKS - 1));
    }
}
