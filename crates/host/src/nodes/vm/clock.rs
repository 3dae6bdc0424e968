//! How far a guest's monotonic clock is from the host's.
//!
//! Each has a clock of its own, started at another time and (under software emulation) calibrated by
//! another timer, yet a one-way time has one end in each. The two meet on a page of shared memory (QEMU's
//! `ivshmem-plain` device): the host writes a question, the agent, spinning in the guest, answers with its
//! clock. The guest read its clock between the host's two readings, so the offset is known to within half
//! the round trip whatever the path does; the shortest of many round trips gives the best bound.
//!
//! Clocks drift. One exchange holds for its moment ([`ClockOffset::at_host_ns`]); a measurement takes one
//! before and one after and interpolates between them ([`ClockOffset::between`]).

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use latlab_wire::channel::clock_page::{
    ANSWER, GUEST_NS, PAGE_BYTES, QUESTION, READY, READY_VALUE, STOP,
};
use latlab_wire::channel::{Exec, ExitStatus};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

pub(crate) mod error;

pub use error::Error;

use super::channel::{self, Channel};
use crate::nodes::stood::monotonic_ns;
use crate::sys::shared::SharedWords;

/// Questions of one exchange. A preemption of either side spoils some; the shortest is kept.
const QUESTIONS: u64 = 2000;
/// A round trip without a preemption is shorter than this.
const GOOD_TRIP_NS: u64 = 5_000;
/// Once a good round trip is known, asking goes on for this long at most.
const GOOD_DURATION: Duration = Duration::from_millis(100);
/// Where the guest's CPU and we share a CPU every round trip costs a turn of the scheduler; the
/// exchange then ends after this, and its error says so.
const MAX_DURATION: Duration = Duration::from_secs(2);
/// When an answer takes this long, the guest's CPU may be waiting for the very CPU we spin on.
const CROWDED_NS: u64 = 300_000;
/// The agent's program starts within this, or not at all.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// An answer takes a microsecond; a guest that is not scheduled for this long is stopped.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockOffset {
    /// The guest's CLOCK_MONOTONIC minus the host's, in nanoseconds.
    pub offset_ns: i64,
    /// The true offset is within this of `offset_ns`: half the shortest round trip, rounded up.
    pub error_ns: u64,
    /// The host's CLOCK_MONOTONIC at the moment the offset holds for.
    pub at_host_ns: u64,
    /// The median round trip, for comparison with the shortest.
    pub median_round_trip_ns: u64,
}

impl ClockOffset {
    /// The offset at another moment, on the line through two exchanges, and its error: the larger of the
    /// two. `None` when both are of the same moment.
    pub fn between(first: &Self, second: &Self, at_host_ns: u64) -> Option<(i64, u64)> {
        let signed = |a: u64, b: u64| i128::from(a) - i128::from(b);
        let span = signed(second.at_host_ns, first.at_host_ns);
        if span == 0 {
            return None;
        }
        let change = i128::from(second.offset_ns) - i128::from(first.offset_ns);
        let since = signed(at_host_ns, first.at_host_ns);
        let offset = i128::from(first.offset_ns) + change * since / span;
        let offset = i64::try_from(offset).ok()?;
        Some((offset, first.error_ns.max(second.error_ns)))
    }
}

/// Compares the clocks of the guest with this page ([`Vm::clock_page`](super::Vm::clock_page)), over an open channel to it. Takes a few milliseconds in
/// which one of the guest's CPUs and the calling thread spin. Fails when the page cannot be mapped or the guest does
/// not answer on it.
pub fn exchange(path: &Path, channel: &Channel) -> Result<ClockOffset, Error> {
    let open = File::options().read(true).write(true).open(path);
    let page = open
        .and_then(|file| SharedWords::map(&file, PAGE_BYTES))
        .map_err(|source| Error::Page {
            path: path.to_owned(),
            source,
        })?;
    page.word(READY).store(0, Ordering::Release);
    page.word(QUESTION).store(0, Ordering::Release);
    let exec = Exec {
        argv: vec!["latlab-agent".into(), "clock-sync".into()],
        ..Exec::default()
    };
    let session = channel.exec(exec)?;
    let started = Instant::now();
    while page.word(READY).load(Ordering::Acquire) != READY_VALUE {
        let ended = session.wait_for(Duration::from_millis(1));
        let gave_up = !matches!(ended, Err(channel::Error::Silent { .. }));
        if gave_up || started.elapsed() > START_TIMEOUT {
            return Err(silent("for it to start", started.elapsed(), session));
        }
    }
    let rounds = ask(&page);
    page.word(QUESTION).store(STOP, Ordering::Release);
    let Some(rounds) = rounds else {
        return Err(silent("for an answer", ANSWER_TIMEOUT, session));
    };
    match session.wait_for(ANSWER_TIMEOUT)? {
        ExitStatus::Code(0) => Ok(best(&rounds)),
        _ => Err(silent("for its end", ANSWER_TIMEOUT, session)),
    }
}

fn silent(what: &'static str, after: Duration, mut session: channel::Session) -> Error {
    // Best effort towards a guest that may be stopped: its words explain more than ours.
    let _ = session.signal(9);
    let mut said = String::new();
    if let (Ok(_), Some(mut stderr)) = (session.wait_for(ANSWER_TIMEOUT), session.stderr.take()) {
        let _ = io::Read::read_to_string(&mut stderr, &mut said);
    }
    let said = said.trim();
    let said = if said.is_empty() {
        String::new()
    } else {
        format!("; it said: {said}")
    };
    Error::Silent { what, after, said }
}

/// One question and its answer: the host's clock before, the guest's, the host's after.
#[derive(Debug, Clone, Copy)]
struct Round {
    before_ns: u64,
    guest_ns: u64,
    after_ns: u64,
}

impl Round {
    fn trip_ns(&self) -> u64 {
        self.after_ns.saturating_sub(self.before_ns)
    }
}

/// `None` when the guest stops answering.
fn ask(page: &SharedWords) -> Option<Vec<Round>> {
    let mut rounds = Vec::with_capacity(QUESTIONS as usize);
    let started = Instant::now();
    let mut shortest_ns = u64::MAX;
    let place = Place::remember();
    for number in 1..=QUESTIONS {
        let round = ask_once(page, number, &place)?;
        shortest_ns = shortest_ns.min(round.trip_ns());
        rounds.push(round);
        let limit = if shortest_ns < GOOD_TRIP_NS {
            GOOD_DURATION
        } else {
            MAX_DURATION
        };
        if started.elapsed() > limit {
            break;
        }
    }
    Some(rounds)
}

fn ask_once(page: &SharedWords, number: u64, place: &Place) -> Option<Round> {
    let mut moved = false;
    let before_ns = monotonic_ns();
    page.word(QUESTION).store(number, Ordering::Release);
    let mut looks = 0_u32;
    while page.word(ANSWER).load(Ordering::Acquire) != number {
        std::hint::spin_loop();
        looks = looks.wrapping_add(1);
        // The clock is not read at every poll: that would make polls rarer.
        if looks % 256 == 0 {
            let waited_ns = monotonic_ns().saturating_sub(before_ns);
            if u128::from(waited_ns) > ANSWER_TIMEOUT.as_nanos() {
                return None;
            }
            if waited_ns > CROWDED_NS && !moved {
                moved = true;
                place.leave_cpu();
            }
        }
    }
    let after_ns = monotonic_ns();
    let guest_ns = page.word(GUEST_NS).load(Ordering::Relaxed);
    Some(Round {
        before_ns,
        guest_ns,
        after_ns,
    })
}

/// Which CPUs this thread may use, given back when dropped. Two threads that spin for each other
/// on one CPU take turns by the scheduler's clock, and on a busy machine nothing parts them; so the
/// one that notices moves over.
struct Place {
    allowed: Option<CpuSet>,
}

impl Place {
    fn remember() -> Self {
        // Without knowledge of the CPUs there is nowhere to move to.
        Self {
            allowed: sched_getaffinity(None).ok(),
        }
    }

    fn leave_cpu(&self) {
        if let Some(mut others) = self.allowed.filter(|allowed| allowed.count() > 1) {
            others.unset(sched_getcpu());
            // Staying is what happens otherwise.
            let _ = sched_setaffinity(None, &others);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(allowed) = &self.allowed {
            // The same set was in force before, unless another process narrowed it meanwhile.
            let _ = sched_setaffinity(None, allowed);
        }
    }
}

fn best(rounds: &[Round]) -> ClockOffset {
    let mut trips: Vec<_> = rounds.iter().map(Round::trip_ns).collect();
    trips.sort_unstable();
    let shortest = rounds.iter().min_by_key(|round| round.trip_ns());
    let shortest = shortest.expect("an exchange has many questions");
    let at_host_ns = shortest.before_ns + shortest.trip_ns() / 2;
    ClockOffset {
        offset_ns: shortest.guest_ns.wrapping_sub(at_host_ns) as i64,
        error_ns: shortest.trip_ns().div_ceil(2),
        at_host_ns,
        median_round_trip_ns: trips[trips.len() / 2],
    }
}

/// A moment of the last minutes, given since 1970, in ns of the host's monotonic clock.
pub(super) fn monotonic_of(since_1970: Duration) -> u64 {
    let ago = SystemTime::now().duration_since(UNIX_EPOCH + since_1970);
    monotonic_ns().saturating_sub(ago.unwrap_or_default().as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_decides() {
        let round = |before_ns, guest_ns, after_ns| Round {
            before_ns,
            guest_ns,
            after_ns,
        };
        let found = best(&[
            round(1000, 510, 1101),
            round(2000, 1507, 2011),
            round(3000, 9, 3300),
        ]);
        assert_eq!(found.offset_ns, 1507 - 2005);
        assert_eq!((found.error_ns, found.at_host_ns), (6, 2005));
        assert_eq!(found.median_round_trip_ns, 101);
    }

    #[test]
    fn between_two_exchanges_the_offset_is_on_the_line() {
        let at = |offset_ns, error_ns, at_host_ns| ClockOffset {
            offset_ns,
            error_ns,
            at_host_ns,
            median_round_trip_ns: 0,
        };
        let (first, second) = (at(-1000, 5, 10_000), at(-3000, 7, 20_000));
        assert_eq!(
            ClockOffset::between(&first, &second, 15_000),
            Some((-2000, 7))
        );
        assert_eq!(
            ClockOffset::between(&first, &second, 30_000),
            Some((-5000, 7))
        );
        assert_eq!(ClockOffset::between(&first, &first, 15_000), None);
    }

    /// A thread plays the guest with a clock that is 5 s behind.
    #[test]
    fn questions_are_answered_over_a_real_page() {
        const BEHIND_NS: u64 = 5_000_000_000;
        let path = std::env::temp_dir().join(format!("latlab-clock-{}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path);
        let file = file.unwrap();
        file.set_len(PAGE_BYTES as u64).unwrap();
        let (host, guest) = (
            SharedWords::map(&file, PAGE_BYTES).unwrap(),
            SharedWords::map(&file, PAGE_BYTES).unwrap(),
        );
        let rounds = std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut last = 0;
                while last != STOP {
                    let question = guest.word(QUESTION).load(Ordering::Acquire);
                    if question != last {
                        guest
                            .word(GUEST_NS)
                            .store(monotonic_ns() - BEHIND_NS, Ordering::Relaxed);
                        guest.word(ANSWER).store(question, Ordering::Release);
                        last = question;
                    }
                    std::thread::yield_now();
                }
            });
            let rounds = ask(&host);
            host.word(QUESTION).store(STOP, Ordering::Release);
            rounds.unwrap()
        });
        let found = best(&rounds);
        let wrong = (found.offset_ns + BEHIND_NS as i64).unsigned_abs();
        assert!(wrong <= found.error_ns, "{found:?}");
        std::fs::remove_file(path).unwrap();
    }
}
