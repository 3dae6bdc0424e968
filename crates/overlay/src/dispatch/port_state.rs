//! The poll state machine of one port.
//!
//! ```text
//! Armed ──kick──► Draining ──empty──► Armed
//!                    │  └─empty, one-way sender─► Coalescing ──window over─► Coalescing, or as Draining
//!                    └─many frames─► Polling ──few frames─► Draining
//! ```
//!
//! Pure: events, counters and times (in ns) are arguments. Arming a wakeup is the caller's; the machine calls for it
//! where the result decides about the next state.

use latlab_model::overlay::Mode;

use super::kick_moderation::KickModeration;
use super::poll_mode::PollMode;

/// Frames of one port before the next has its turn (NAPI's word).
pub(super) const BUDGET: u64 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Armed,
    /// The wakeup came, and has brought this many frames.
    Draining(u64),
    /// Kicks are suppressed; the next poll is due at this time.
    Coalescing(u64),
    Polling,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Poll {
    pub frames: u64,
    pub is_empty: bool,
    /// All frames sent to the guest so far.
    pub sent: u64,
    /// The port's coalescing window, if it has one.
    pub window: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// Nothing: the port is being polled.
    Ignored,
    Disarm,
    /// Arm and disarm it: the guest kicked before it saw the suppression.
    Rearm,
}

#[derive(Debug)]
pub(super) struct PortState {
    pub phase: Phase,
    mode: PollMode,
    kicks: KickModeration,
}

impl PortState {
    pub fn new(mode: Mode, now: u64) -> PortState {
        PortState {
            phase: Phase::Armed,
            mode: PollMode::new(mode, now),
            kicks: KickModeration::default(),
        }
    }

    pub fn set_mode(&mut self, mode: Mode, now: u64) {
        self.mode = PollMode::new(mode, now);
    }

    /// Starts in the mode's first phase; true if that is polling, which the caller disarms.
    pub fn start(&mut self, arm: impl FnOnce() -> bool) -> bool {
        let is_polling = self.mode.is_polling();
        if is_polling {
            self.phase = Phase::Polling;
        } else {
            self.rearm(arm);
        }
        is_polling
    }

    pub const fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Armed | Phase::Coalescing(_))
    }

    /// Time until the next poll that no wakeup announces.
    pub fn next_poll(&self, now: u64) -> Option<u64> {
        match self.phase {
            Phase::Coalescing(until) => Some(until.saturating_sub(now)),
            _ => None,
        }
    }

    pub fn after_wakeup(&mut self) -> Woken {
        let woken = match self.phase {
            Phase::Armed => Woken::Disarm,
            Phase::Coalescing(_) => Woken::Rearm,
            Phase::Draining(_) | Phase::Polling => return Woken::Ignored,
        };
        self.phase = Phase::Draining(0);
        woken
    }

    /// Updates the state after a poll while draining or coalescing. `arm` arms the wakeup and tells whether frames have
    /// arrived meanwhile. True if the port is polled continuously from now on: the caller disarms it.
    pub fn after_poll(&mut self, poll: Poll, now: u64, arm: impl FnOnce() -> bool) -> bool {
        let window = poll.window.filter(|_| self.mode.is_adaptive());
        let mut frames = poll.frames;
        match (self.phase, window) {
            (Phase::Coalescing(_), Some(window)) => {
                if self.mode.after_window(frames, window, now) {
                    return self.start_polling();
                }
                if poll.is_empty && self.kicks.after_window(frames, poll.sent) {
                    self.phase = Phase::Coalescing(now + window);
                    return false;
                }
                // These frames are counted already, and the end of a window is no wakeup.
                frames = 0;
            }
            (Phase::Draining(before), _) => frames += before,
            _ => {}
        }
        let was_woken = matches!(self.phase, Phase::Draining(_));
        let window =
            window.filter(|_| was_woken && poll.is_empty && self.kicks.after_kick(poll.sent));
        let is_drained = poll.is_empty && (window.is_some() || !arm());
        self.phase = Phase::Draining(frames);
        // A port that is never empty counts like one whose wakeups bring much.
        if !is_drained && frames < BUDGET {
            return false;
        }
        if was_woken && self.mode.after_wakeup(frames, now) {
            return self.start_polling();
        }
        self.phase = match (is_drained, window) {
            (true, Some(window)) => Phase::Coalescing(now + window),
            (true, None) => Phase::Armed,
            (false, _) => Phase::Draining(0),
        };
        false
    }

    /// Updates the state after a poll while polling; true if the mode has changed.
    pub fn after_busy_poll(&mut self, frames: u64, now: u64, arm: impl FnOnce() -> bool) -> bool {
        if self.mode.after_poll(frames, now) {
            return false;
        }
        self.rearm(arm);
        true
    }

    fn rearm(&mut self, arm: impl FnOnce() -> bool) {
        self.phase = if arm() {
            Phase::Draining(0)
        } else {
            Phase::Armed
        };
    }

    fn start_polling(&mut self) -> bool {
        self.phase = Phase::Polling;
        true
    }
}

#[cfg(test)]
mod tests {
    use latlab_model::overlay::Thresholds;

    use super::*;

    const WINDOW: u64 = 50_000;
    const DRAINED: Poll = Poll {
        frames: 1,
        is_empty: true,
        sent: 0,
        window: None,
    };

    fn adaptive() -> PortState {
        PortState::new(Mode::Adaptive(Thresholds::default()), 0)
    }

    /// A port whose guest has kicked 64 times without an answer.
    fn one_way() -> PortState {
        let mut state = adaptive();
        let poll = Poll {
            window: Some(WINDOW),
            ..DRAINED
        };
        for kick in 1..=64 {
            assert_eq!(state.phase, Phase::Armed, "before kick {kick}");
            assert_eq!(state.after_wakeup(), Woken::Disarm);
            state.after_poll(poll, kick * 1_000_000, || false);
        }
        state
    }

    #[test]
    fn each_phase_and_poll_has_one_next_phase() {
        use Phase::{Armed, Coalescing, Draining, Polling};
        let guest_driven = Mode::GuestDriven;
        let adaptive = Mode::Adaptive(Thresholds::default());
        let poll = |frames, is_empty| Poll {
            frames,
            is_empty,
            ..DRAINED
        };
        for (mode, phase, poll, arrived, next) in [
            (guest_driven, Draining(0), poll(3, true), false, Armed),
            (guest_driven, Draining(0), poll(3, true), true, Draining(3)),
            (
                guest_driven,
                Draining(3),
                poll(2, false),
                false,
                Draining(5),
            ),
            (
                guest_driven,
                Draining(250),
                poll(6, false),
                false,
                Draining(0),
            ),
            (
                guest_driven,
                Draining(250),
                poll(6, true),
                true,
                Draining(0),
            ),
            (adaptive, Draining(0), poll(1000, true), false, Polling),
            (adaptive, Draining(0), poll(4, true), false, Armed),
            (guest_driven, Coalescing(7), poll(1000, true), false, Armed),
        ] {
            let mut state = PortState::new(mode, 0);
            state.phase = phase;
            let polls = state.after_poll(poll, 1_000_000, || arrived);
            assert_eq!(state.phase, next, "{phase:?} {poll:?} {arrived}");
            assert_eq!(polls, next == Polling);
        }
    }

    #[test]
    fn a_one_way_sender_is_coalesced_without_arming() {
        let mut state = one_way();
        assert_eq!(state.phase, Phase::Coalescing(64_000_000 + WINDOW));
        assert!(state.is_idle());
        assert_eq!(state.next_poll(64_000_000), Some(WINDOW));
        let poll = Poll {
            window: Some(WINDOW),
            ..DRAINED
        };
        state.after_poll(poll, 65_000_000, || panic!("armed within a window"));
        assert_eq!(state.phase, Phase::Coalescing(65_000_000 + WINDOW));
        // An answer ends it, and its frames do not count as those of a wakeup.
        state.after_poll(Poll { sent: 1, ..poll }, 66_000_000, || false);
        assert_eq!(state.phase, Phase::Armed);
    }

    #[test]
    fn a_full_window_starts_polling() {
        let mut state = one_way();
        let poll = Poll {
            frames: 10_000,
            window: Some(WINDOW),
            ..DRAINED
        };
        assert!(state.after_poll(poll, 65_000_000, || false));
        assert_eq!(state.phase, Phase::Polling);
    }

    #[test]
    fn a_kick_within_a_window_is_cleared() {
        let mut state = one_way();
        assert_eq!(state.after_wakeup(), Woken::Rearm);
        assert_eq!(state.phase, Phase::Draining(0));
        assert_eq!(state.after_wakeup(), Woken::Ignored);
    }

    #[test]
    fn polling_ends_armed_unless_frames_have_arrived() {
        for (arrived, next) in [(false, Phase::Armed), (true, Phase::Draining(0))] {
            let mut state = adaptive();
            state.phase = Phase::Polling;
            assert!(state.after_busy_poll(0, 1_000_000_000, || arrived));
            assert_eq!(state.phase, next);
        }
        let mut fixed = PortState::new(Mode::VmmDriven, 0);
        assert!(fixed.start(|| panic!("armed while polling")));
        assert!(!fixed.after_busy_poll(0, 1_000_000_000, || false));
        assert_eq!(fixed.phase, Phase::Polling);
    }
}
