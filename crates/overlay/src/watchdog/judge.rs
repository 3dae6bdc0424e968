//! The judgement of a dispatcher by its signs of life at each tick; pure.

/// CPU time of a poll that is reported.
const SLOW: u64 = 100_000_000;
/// CPU time of a poll that is an endless loop: the longest polls take some milliseconds.
const ENDLESS: u64 = 2_000_000_000;
/// Consecutive ticks of waiting inside the kernel during a poll that are reported.
const SLOW_TICKS: u32 = 10;
/// Consecutive ticks of waiting that are a deadlock: a dispatcher waits for frames only.
const ENDLESS_TICKS: u32 = 100;

#[derive(Debug, Clone, Copy)]
pub struct Tick {
    /// The sign of life; changes with each poll.
    pub word: u64,
    pub asleep: bool,
    /// CPU time of its thread, in nanoseconds.
    pub cpu: u64,
    /// Whether the thread waits inside the kernel (states S and D of proc(5)), not for a CPU or a debugger.
    pub waits: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Fine,
    /// The poll takes long: reported once.
    Slow,
    Loops,
    Waits,
}

#[derive(Debug, Default)]
pub struct Judge {
    word: u64,
    /// CPU time when the word was first seen twice.
    since: Option<u64>,
    waited: u32,
    told: bool,
}

impl Judge {
    /// Whether more than the word has to be asked for at this tick.
    pub const fn suspects(&self, word: u64, asleep: bool) -> bool {
        self.word == word && !asleep
    }

    pub fn hear(&mut self, tick: Tick) -> Verdict {
        if !self.suspects(tick.word, tick.asleep) {
            *self = Judge {
                word: tick.word,
                ..Judge::default()
            };
            return Verdict::Fine;
        }
        let spent = tick.cpu.saturating_sub(*self.since.get_or_insert(tick.cpu));
        self.waited = if tick.waits { self.waited + 1 } else { 0 };
        if spent >= ENDLESS {
            return Verdict::Loops;
        }
        if self.waited >= ENDLESS_TICKS {
            return Verdict::Waits;
        }
        let is_slow = spent >= SLOW || self.waited >= SLOW_TICKS;
        if is_slow && !std::mem::replace(&mut self.told, true) {
            return Verdict::Slow;
        }
        Verdict::Fine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(ticks: impl IntoIterator<Item = Tick>) -> Vec<Verdict> {
        let mut judge = Judge::default();
        let verdicts = ticks.into_iter().map(|tick| judge.hear(tick));
        let mut told: Vec<Verdict> = verdicts.filter(|v| *v != Verdict::Fine).collect();
        told.dedup();
        told
    }

    const TICK: Tick = Tick {
        word: 7,
        asleep: false,
        cpu: 0,
        waits: false,
    };

    #[test]
    fn a_loop_is_judged_by_its_own_cpu_time() {
        let loops = (0..30).map(|n| Tick {
            cpu: n * 100_000_000,
            ..TICK
        });
        assert_eq!(verdicts(loops), [Verdict::Slow, Verdict::Loops]);
        // The same wall time, of which it hardly had any: other threads or the hypervisor had the CPU.
        let starves = (0..10_000).map(|n| Tick {
            cpu: n * 1_000,
            ..TICK
        });
        assert_eq!(verdicts(starves), []);
        // As much work, but it gets on.
        let works = (0..30).map(|n| Tick {
            word: n,
            cpu: n * 100_000_000,
            ..TICK
        });
        assert_eq!(verdicts(works), []);
    }

    #[test]
    fn a_wait_is_judged_by_ticks_in_a_row() {
        let waits = |n: u64| Tick {
            waits: n % 120 != 119,
            ..TICK
        };
        assert_eq!(
            verdicts((0..110).map(waits)),
            [Verdict::Slow, Verdict::Waits]
        );
        let at_times = |n: u64| Tick {
            waits: n % 9 != 8,
            ..TICK
        };
        assert_eq!(verdicts((0..1000).map(at_times)), []);
        let sleeps = Tick {
            asleep: true,
            waits: true,
            ..TICK
        };
        assert_eq!(verdicts([sleeps; 1000]), []);
    }
}
