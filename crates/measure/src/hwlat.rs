//! What interrupts processors from underneath the kernel, at regular times: a hypervisor's own timer, a
//! firmware's.
//!
//! The kernel has a tracer for it, hwlat, that keeps interrupts off while it reads its clock. Here threads
//! read theirs as they are ([`crate::osnoise`]), for a moment before a window and after it, and the flight
//! recorder says whether the kernel had anything to do with what interrupted them. Where it had not, and it
//! comes back at the same time of every period, it was there in between as well. A hypervisor tells what it
//! gives to others ([`latlab_trace::steal`]), not what it takes for itself.

use std::time::Duration;

use latlab_model::results::Hwlat;
use latlab_trace::recorder::Recorder;
use latlab_wire::trace::Event;

use crate::osnoise::{self, Spun};

/// How long a look is: ten times the longest period.
const LOOK: Duration = Duration::from_millis(100);
/// A step of the clock that is shorter is no interruption: a busy neighbour on the same core makes some.
const THRESHOLD_NS: u64 = 3_000;
/// The periods that are looked for, the shortest first: of the rates at which kernels tick (`CONFIG_HZ`:
/// 1000, 300, 250, 100).
const PERIODS_NS: [u64; 4] = [1_000_000, 3_333_333, 4_000_000, 10_000_000];
/// So much do clocks drift apart between two looks at most, in parts in a million.
const DRIFT: u64 = 2;
/// It is seen this often at least, and in so many of a hundred periods: at other times the kernel has
/// something to do with it, too.
const LEAST: usize = 5;
const MOST_PERIODS_PERCENT: u64 = 70;
/// No look is longer: within it the clocks' drift does not count.
const LONGEST_NS: u64 = 1_000_000_000;

/// What was seen of one processor within a short time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    cpu: u16,
    window: (u64, u64),
    /// When it stood still and the kernel did nothing there.
    silent: Vec<(u64, u64)>,
}

/// Looks at these processors now, which nobody else should need meanwhile; those that this process may not
/// use are left out. `recorder` watches them, and does not record before or afterwards.
#[must_use]
pub fn look(recorder: &Recorder, cpus: &[u16]) -> Vec<Look> {
    let mark = recorder.mark();
    recorder.start();
    let spun = osnoise::spin_on(cpus, LOOK, THRESHOLD_NS);
    recorder.stop();
    let events = recorder.since(&mark);
    let spun = spun.into_iter().flatten();
    spun.flat_map(|spun| looks(&spun, &events)).collect()
}

/// What a thread that only reads its clock saw, in pieces that are short enough. `events` are in the order
/// of time.
#[must_use]
pub fn looks(spun: &Spun, events: &[Event]) -> Vec<Look> {
    let own: Vec<&Event> = events.iter().filter(|e| e.cpu == spun.cpu).collect();
    let is_silent = |gap: &(u64, u64)| {
        let next = own.partition_point(|event| event.time_ns < gap.0);
        let behind = own.get(next);
        let before = next.checked_sub(1).map(|last| own[last].steal_ns);
        // What was taken is known at the next event.
        let is_taken = match (before, behind) {
            (Some(before), Some(behind)) => behind.steal_ns != before,
            _ => false,
        };
        let is_alone = behind.is_none_or(|event| event.time_ns > gap.1);
        is_alone && !is_taken && gap.1 - gap.0 >= THRESHOLD_NS
    };
    let silent: Vec<(u64, u64)> = spun.gaps.iter().copied().filter(is_silent).collect();
    let (mut from, end) = spun.window;
    let mut all = Vec::new();
    while from < end {
        let to = (from + LONGEST_NS).min(end);
        let begins = |gap: &&(u64, u64)| (from..to).contains(&gap.0);
        all.push(Look {
            cpu: spun.cpu,
            window: (from, to),
            silent: silent.iter().filter(begins).copied().collect(),
        });
        from = to;
    }
    all
}

/// What came back regularly, from looks in the order of time.
#[must_use]
pub fn found(looks: &[Look]) -> Vec<Hwlat> {
    let (mut done, mut going_on): (Vec<Hwlat>, Vec<Hwlat>) = Default::default();
    let mut cpus: Vec<u16> = looks.iter().map(|look| look.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    for cpu in cpus {
        for look in looks.iter().filter(|look| look.cpu == cpu) {
            let mut here = regular(look);
            let mut still = Vec::new();
            for mut one in going_on {
                match here.iter().position(|next| continues(&one, next)) {
                    Some(at) => {
                        let next = here.swap_remove(at);
                        one.begins_ns.extend(next.begins_ns);
                        one.longest_ns = one.longest_ns.max(next.longest_ns);
                        still.push(one);
                    }
                    None => done.push(one),
                }
            }
            still.extend(here);
            going_on = still;
        }
        done.append(&mut going_on);
    }
    done
}

/// Whether what was seen later is the same as before.
fn continues(before: &Hwlat, later: &Hwlat) -> bool {
    let (Some(&last), Some(&next)) = (before.begins_ns.last(), later.begins_ns.first()) else {
        return false;
    };
    let apart = next.saturating_sub(last);
    let off = distance(apart, before.period_ns);
    before.period_ns == later.period_ns && off <= 2 * Hwlat::JITTER_NS + apart * DRIFT / 1_000_000
}

/// How far a time is from the nearest multiple of a period.
fn distance(ns: u64, period_ns: u64) -> u64 {
    let past = ns % period_ns;
    past.min(period_ns - past)
}

/// What comes back within one look. A shorter period comes first: what it explains is no longer one.
fn regular(look: &Look) -> Vec<Hwlat> {
    let mut rest = look.silent.clone();
    let mut all = Vec::new();
    for period_ns in PERIODS_NS {
        let periods = (look.window.1 - look.window.0) / period_ns;
        let least = LEAST.max((periods * MOST_PERIODS_PERCENT / 100) as usize);
        while let Some(begin) = densest(&rest, period_ns, least) {
            let is_it =
                |gap: &(u64, u64)| distance(gap.0.abs_diff(begin), period_ns) <= Hwlat::JITTER_NS;
            let own = rest.iter().filter(|gap| is_it(gap));
            all.push(Hwlat {
                cpu: look.cpu,
                period_ns,
                begins_ns: vec![begin],
                longest_ns: own.map(|gap| gap.1 - gap.0).max().unwrap_or(0),
            });
            rest.retain(|gap| !is_it(gap));
        }
    }
    all
}

/// A begin in the middle of those that lie closest together, laid over each other by a period; `None` if
/// these are fewer than `least`.
fn densest(gaps: &[(u64, u64)], period_ns: u64, least: usize) -> Option<u64> {
    let mut laid: Vec<(u64, u64)> = gaps.iter().map(|gap| (gap.0 % period_ns, gap.0)).collect();
    laid.sort_unstable();
    let count = laid.len();
    // What is at a period's end is near what is at its beginning.
    laid.extend_from_within(..);
    laid[count..].iter_mut().for_each(|one| one.0 += period_ns);
    let mut best = (0, 0);
    let mut end = 0;
    for first in 0..count {
        while end < first + count && laid[end].0 - laid[first].0 <= Hwlat::JITTER_NS {
            end += 1;
        }
        best = best.max((end - first, first));
    }
    let (most, first) = best;
    (most >= least).then(|| laid[first + most / 2].1)
}

#[cfg(test)]
mod tests {
    use latlab_wire::trace::{EventKind, TEXT_BYTES};

    use super::*;

    const MS: u64 = 1_000_000;

    fn event(time_ns: u64, cpu: u16, steal_ns: u64) -> Event {
        Event {
            time_ns,
            steal_ns,
            cpu,
            kind: EventKind::VectorEntry,
            detail: 0,
            a: 0,
            b: 0,
            text: [0; TEXT_BYTES],
        }
    }

    fn spun(window: (u64, u64), gaps: Vec<(u64, u64)>) -> Spun {
        Spun {
            cpu: 1,
            task: 9,
            window,
            gaps,
            no_room: 0,
            step_ns: 30,
        }
    }

    /// A standstill at `phase` of every period, and now and then one at no time in particular.
    fn gaps(window: (u64, u64), phase: u64, period: u64) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        for number in window.0 / period..window.1 / period {
            let begin = number * period + phase;
            all.push((begin, begin + 20_000 + number % 7 * 1_000));
            let odd = number * period + number * 7_919 % (period - 200_000);
            all.push((odd, odd + 5_000));
        }
        all.sort_unstable();
        all
    }

    /// What is found by two looks five seconds apart, of what comes at these phases of 10 ms.
    fn before_and_after(phases: [u64; 2]) -> Vec<Hwlat> {
        let windows = [(0, 100 * MS), (5_000 * MS, 5_100 * MS)];
        let both = windows.iter().zip(phases);
        let seen = both.flat_map(|(&at, phase)| looks(&spun(at, gaps(at, phase, 10 * MS)), &[]));
        found(&seen.collect::<Vec<_>>())
    }

    #[test]
    fn what_comes_back_in_silence_is_found() {
        // The hypervisor's clock is slower by a millionth.
        let found = before_and_after([400_000, 405_000]);
        assert_eq!(found.len(), 1, "{found:?}");
        let one = &found[0];
        assert_eq!((one.cpu, one.period_ns), (1, 10 * MS));
        assert_eq!(one.longest_ns, 26_000);
        // In between it was there as well, half the drift later.
        let between = one.last_begin(2_505 * MS).unwrap();
        assert!(between.abs_diff(2_500 * MS + 402_500) < 500, "{between}");
    }

    #[test]
    fn the_shortest_period_is_the_period() {
        let window = (0, 100 * MS);
        let found = found(&looks(&spun(window, gaps(window, 70_000, 4 * MS)), &[]));
        let periods: Vec<u64> = found.iter().map(|one| one.period_ns).collect();
        assert_eq!(periods, [4 * MS]);
    }

    #[test]
    fn what_the_kernel_did_is_not_underneath_it() {
        let window = (0, 100 * MS);
        let ticks = gaps(window, 400_000, 10 * MS);
        let events: Vec<Event> = ticks.iter().map(|gap| event(gap.0 + 900, 1, 0)).collect();
        assert_eq!(found(&looks(&spun(window, ticks.clone()), &events)), []);
        let elsewhere: Vec<Event> = ticks.iter().map(|gap| event(gap.0 + 900, 0, 0)).collect();
        let found_there = found(&looks(&spun(window, ticks.clone()), &elsewhere));
        assert_eq!(found_there.len(), 1, "another processor's events");
        // What the hypervisor says that it took is told by that.
        let between = |gap: &(u64, u64)| {
            [
                event(gap.0.saturating_sub(900), 1, gap.0),
                event(gap.1 + 9, 1, gap.1),
            ]
        };
        let stolen: Vec<Event> = ticks.iter().flat_map(between).collect();
        assert_eq!(found(&looks(&spun(window, ticks), &stolen)), []);
    }

    #[test]
    fn a_period_has_no_end() {
        let window = (0, 100 * MS);
        // Now shortly before the period is over, now shortly after it began.
        let gaps = (1..10).map(|n| {
            let begin = n * 10 * MS + 1_000 * (n % 2);
            (begin - 500, begin + 9_000)
        });
        let found = found(&looks(&spun(window, gaps.collect()), &[]));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn what_comes_at_no_time_in_particular_is_not_found() {
        let window = (0, 1_000 * MS);
        let mut state = 1u64;
        let random = (0..1_000).map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let begin = (state >> 20) % (1_000 * MS);
            (begin, begin + 10_000)
        });
        let mut gaps: Vec<(u64, u64)> = random.collect();
        gaps.sort_unstable();
        assert_eq!(found(&looks(&spun(window, gaps), &[])), []);
    }

    #[test]
    fn what_was_seen_only_before_is_not_taken_for_what_is_there_after() {
        let found = before_and_after([400_000, 800_000]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|one| one.last_begin(2_500 * MS).is_none()));
    }
}
