//! Whether a guest sends on without waiting for answers, so that its frames may be gathered.
//!
//! A kick for each frame costs the guest more than the frame, and whoever receives an interrupt each. Frames that come
//! one by one can be left lying for some microseconds, and the guest be had not to kick meanwhile, as cards moderate
//! their interrupts; but not a frame that somebody waits for. Who waits for an answer sends nothing before it has come:
//! so a guest that has woken us several times in a row, and was sent nothing in between, waits for nobody.
//!
//! Pure: it is told what happened.

/// Wake-ups in a row without an answer: more than a program sends that then waits for one.
const ENOUGH: u32 = 64;
/// As many after a pause in which no answer came either.
const AGAIN: u32 = 8;

/// What is known of one port.
#[derive(Debug, Clone, Default)]
pub(super) struct Stream {
    /// Frames that its guest had been sent when it last woke us.
    answers: u64,
    unanswered: u32,
}

impl Stream {
    /// Its guest woke us, and has been sent so many frames in all. True if it waits for none.
    pub const fn woke(&mut self, answers: u64) -> bool {
        self.unanswered = match answers == self.answers {
            true => self.unanswered.saturating_add(1),
            false => 0,
        };
        self.answers = answers;
        self.unanswered >= ENOUGH
    }

    /// What was gathered was so many frames. True if it is worth while to go on: otherwise its guest has paused, or was
    /// answered.
    pub const fn gathered(&mut self, frames: u64, answers: u64) -> bool {
        let is_answered = answers != self.answers;
        self.answers = answers;
        if is_answered {
            self.unanswered = 0;
        } else if frames == 0 {
            self.unanswered = ENOUGH - AGAIN;
        }
        !is_answered && frames > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_and_waits_is_never_gathered() {
        let mut stream = Stream::default();
        for answers in 1..1000 {
            assert!(!stream.woke(answers));
        }
        // Also where a question is several frames.
        for answers in 1000..2000 {
            for _ in 0..ENOUGH {
                assert!(!stream.woke(answers));
            }
        }
    }

    #[test]
    fn who_sends_on_is_gathered_until_it_pauses_or_is_answered() {
        let mut stream = Stream::default();
        let woken = |stream: &mut Stream, answers| (0..).find(|_| stream.woke(answers));
        assert_eq!(woken(&mut stream, 0), Some(ENOUGH - 1));
        assert!(stream.gathered(3, 0));
        assert!(stream.gathered(1, 0));
        assert!(!stream.gathered(0, 0), "a pause");
        assert_eq!(woken(&mut stream, 0), Some(AGAIN - 1));
        assert!(!stream.gathered(5, 1), "an answer");
        assert_eq!(woken(&mut stream, 1), Some(ENOUGH - 1));
    }
}
