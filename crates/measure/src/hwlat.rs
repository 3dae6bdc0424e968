//! Periodic interruptions from underneath the kernel: a hypervisor's timer, or a firmware's.
//!
//! The kernel's hwlat tracer keeps interrupts off while it reads its clock. Here spinner threads read theirs
//! with interrupts on ([`crate::osnoise`]), for a moment before a window and after it. The flight recorder
//! says whether a kernel event explains an interruption. If none does, and it returns at the same time of
//! every period, it was there in the window as well. A hypervisor reports the time that it gives to others
//! ([`latlab_trace::steal`]), not the time that it takes for itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use latlab_model::results::{Hwlat, SilentStalls};
use latlab_trace::recorder::Recorder;
use latlab_wire::trace::Event;

use crate::osnoise::{self, SpinRecord};

/// Spinning time: ten times the longest period.
const DURATION: Duration = Duration::from_millis(100);
/// A shorter step of the clock is no interruption: a busy sibling hyperthread causes some.
const THRESHOLD_NS: u64 = 3_000;
/// Periods of the tick rates of kernels (`CONFIG_HZ`: 1000, 300, 250, 100), the shortest first.
const PERIODS_NS: [u64; 4] = [1_000_000, 3_333_333, 4_000_000, 10_000_000];
/// Maximum drift of two clocks between two windows.
const MAX_DRIFT_PPM: u64 = 2;
/// Occurrences required in a window, and the share of its periods: in the others a kernel event may coincide.
const MIN_COUNT: usize = 5;
const MIN_PERIODS_PERCENT: u64 = 70;
/// Stalls of a CPU that are kept at most, the longest first.
const MAX_STALLS: usize = 10_000;
/// Longest window, within which clock drift is negligible.
const MAX_WINDOW_NS: u64 = 1_000_000_000;

/// Interruptions of one CPU within a short time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpinWindow {
    cpu: u16,
    window: (u64, u64),
    /// Begin and end of each interruption without a kernel event.
    silent: Vec<(u64, u64)>,
}

/// Spins on these CPUs, which should otherwise be idle, with `recorder` recording. CPUs that this process may
/// not use are left out.
#[must_use]
pub fn spin_recorded(recorder: &Recorder, cpus: &[u16]) -> Vec<SpinWindow> {
    let mark = recorder.mark();
    recorder.start();
    let spun = osnoise::spin_on(cpus, DURATION, THRESHOLD_NS);
    recorder.stop();
    let events = recorder.since(&mark);
    let spun = spun.into_iter().flatten();
    spun.flat_map(|spun| spin_windows(&spun, &events)).collect()
}

/// Windows of a spinner thread, at most `MAX_WINDOW_NS` long. `events` are in the order of time.
#[must_use]
pub fn spin_windows(spun: &SpinRecord, events: &[Event]) -> Vec<SpinWindow> {
    let own: Vec<&Event> = events.iter().filter(|e| e.cpu == spun.cpu).collect();
    let is_silent = |gap: &(u64, u64)| {
        let next = own.partition_point(|event| event.time_ns < gap.0);
        let behind = own.get(next);
        let before = next.checked_sub(1).map(|last| own[last].steal_ns);
        // The next event tells the steal time.
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
        let to = (from + MAX_WINDOW_NS).min(end);
        let begins = |gap: &&(u64, u64)| (from..to).contains(&gap.0);
        all.push(SpinWindow {
            cpu: spun.cpu,
            window: (from, to),
            silent: silent.iter().filter(begins).copied().collect(),
        });
        from = to;
    }
    all
}

/// Periodic interruptions, from windows in the order of time.
#[must_use]
pub fn found(spin_windows: &[SpinWindow]) -> Vec<Hwlat> {
    let (mut done, mut going_on): (Vec<Hwlat>, Vec<Hwlat>) = Default::default();
    let cpus: BTreeSet<u16> = spin_windows.iter().map(|window| window.cpu).collect();
    for cpu in cpus {
        for window in spin_windows.iter().filter(|window| window.cpu == cpu) {
            let mut here = regular(window);
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

/// The other silent interruptions of each CPU: those that are not among `periodic`, whose phase is known.
#[must_use]
pub fn stalls(spin_windows: &[SpinWindow], periodic: &[Hwlat]) -> Vec<SilentStalls> {
    let mut all: BTreeMap<u16, SilentStalls> = BTreeMap::new();
    for window in spin_windows {
        let is_periodic = |gap: &&(u64, u64)| {
            let is_it = |one: &Hwlat| {
                let off = 2 * Hwlat::JITTER_NS;
                let last = one.last_begin(gap.0 + off);
                one.cpu == window.cpu && last.is_some_and(|last| last.abs_diff(gap.0) <= off)
            };
            // An interruption that was seen only once has no known phase in the window.
            let known = periodic.iter().filter(|one| one.begins_ns.len() > 1);
            known.into_iter().any(is_it)
        };
        let of_cpu = all.entry(window.cpu).or_default();
        of_cpu.cpu = window.cpu;
        of_cpu.watched_ns += window.window.1 - window.window.0;
        let others = window.silent.iter().filter(|gap| !is_periodic(gap));
        of_cpu.lengths_ns.extend(others.map(|gap| gap.1 - gap.0));
    }
    for of_cpu in all.values_mut() {
        of_cpu.lengths_ns.sort_unstable_by_key(|&ns| Reverse(ns));
        of_cpu.lengths_ns.truncate(MAX_STALLS);
    }
    all.into_values().collect()
}

/// Whether a later interruption continues an earlier one in phase.
fn continues(before: &Hwlat, later: &Hwlat) -> bool {
    let (Some(&last), Some(&next)) = (before.begins_ns.last(), later.begins_ns.first()) else {
        return false;
    };
    let apart = next.saturating_sub(last);
    let off = distance(apart, before.period_ns);
    before.period_ns == later.period_ns
        && off <= 2 * Hwlat::JITTER_NS + apart * MAX_DRIFT_PPM / 1_000_000
}

/// Distance of a time from the nearest multiple of a period.
fn distance(ns: u64, period_ns: u64) -> u64 {
    let past = ns % period_ns;
    past.min(period_ns - past)
}

/// Periodic interruptions of one window. Shorter periods come first and take their multiples.
fn regular(spun: &SpinWindow) -> Vec<Hwlat> {
    let mut rest = spun.silent.clone();
    let mut all = Vec::new();
    for period_ns in PERIODS_NS {
        let periods = (spun.window.1 - spun.window.0) / period_ns;
        let min = MIN_COUNT.max((periods * MIN_PERIODS_PERCENT / 100) as usize);
        while let Some(begin) = densest(&rest, period_ns, min) {
            let is_it =
                |gap: &(u64, u64)| distance(gap.0.abs_diff(begin), period_ns) <= Hwlat::JITTER_NS;
            let own = rest.iter().filter(|gap| is_it(gap));
            all.push(Hwlat {
                cpu: spun.cpu,
                period_ns,
                begins_ns: vec![begin],
                longest_ns: own.map(|gap| gap.1 - gap.0).max().unwrap_or(0),
            });
            rest.retain(|gap| !is_it(gap));
        }
    }
    all
}

/// The middle begin of the densest cluster of begins modulo a period; `None` if it has fewer than `min`.
fn densest(gaps: &[(u64, u64)], period_ns: u64, min: usize) -> Option<u64> {
    let mut laid: Vec<(u64, u64)> = gaps.iter().map(|gap| (gap.0 % period_ns, gap.0)).collect();
    laid.sort_unstable();
    let count = laid.len();
    // The end of a period is near its beginning.
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
    (most >= min).then(|| laid[first + most / 2].1)
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

    fn spun(window: (u64, u64), gaps: Vec<(u64, u64)>) -> SpinRecord {
        SpinRecord {
            cpu: 1,
            task: 9,
            window,
            gaps,
            no_room: 0,
            step_ns: 30,
        }
    }

    /// An interruption at `phase` of every period, and irregular ones.
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

    /// Finds interruptions of period 10 ms in two windows five seconds apart, with these phases.
    fn before_and_after(phases: [u64; 2]) -> Vec<Hwlat> {
        let windows = [(0, 100 * MS), (5_000 * MS, 5_100 * MS)];
        let both = windows.iter().zip(phases);
        let seen =
            both.flat_map(|(&at, phase)| spin_windows(&spun(at, gaps(at, phase, 10 * MS)), &[]));
        found(&seen.collect::<Vec<_>>())
    }

    #[test]
    fn periodic_interruptions_without_events_are_found() {
        // The hypervisor's clock is slower by a millionth.
        let found = before_and_after([400_000, 405_000]);
        assert_eq!(found.len(), 1, "{found:?}");
        let one = &found[0];
        assert_eq!((one.cpu, one.period_ns), (1, 10 * MS));
        assert_eq!(one.longest_ns, 26_000);
        // In between, half of the drift has passed.
        let between = one.last_begin(2_505 * MS).unwrap();
        assert!(between.abs_diff(2_500 * MS + 402_500) < 500, "{between}");
    }

    #[test]
    fn stalls_are_those_without_a_known_phase() {
        let windows = [(0, 100 * MS), (5_000 * MS, 5_100 * MS)];
        let spun = windows.map(|at| spin_windows(&spun(at, gaps(at, 400_000, 10 * MS)), &[]));
        let spun = spun.concat();
        let all = stalls(&spun, &found(&spun));
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].cpu, all[0].watched_ns), (1, 200 * MS));
        assert_eq!(all[0].lengths_ns, vec![5_000; 20], "the irregular ones");
        // Without the second window the phase in between is not known.
        let once = &spun[..1];
        let all = stalls(once, &found(once));
        assert_eq!(
            (all[0].lengths_ns.len(), all[0].lengths_ns[0]),
            (20, 26_000)
        );
    }

    #[test]
    fn the_shortest_fitting_period_is_reported() {
        let window = (0, 100 * MS);
        let found = found(&spin_windows(
            &spun(window, gaps(window, 70_000, 4 * MS)),
            &[],
        ));
        let periods: Vec<u64> = found.iter().map(|one| one.period_ns).collect();
        assert_eq!(periods, [4 * MS]);
    }

    #[test]
    fn interruptions_with_a_kernel_event_are_not_reported() {
        let window = (0, 100 * MS);
        let ticks = gaps(window, 400_000, 10 * MS);
        let events: Vec<Event> = ticks.iter().map(|gap| event(gap.0 + 900, 1, 0)).collect();
        assert_eq!(
            found(&spin_windows(&spun(window, ticks.clone()), &events)),
            []
        );
        let elsewhere: Vec<Event> = ticks.iter().map(|gap| event(gap.0 + 900, 0, 0)).collect();
        let found_there = found(&spin_windows(&spun(window, ticks.clone()), &elsewhere));
        assert_eq!(found_there.len(), 1, "events of another CPU");
        // Steal that the hypervisor reports explains the interruption.
        let between = |gap: &(u64, u64)| {
            [
                event(gap.0.saturating_sub(900), 1, gap.0),
                event(gap.1 + 9, 1, gap.1),
            ]
        };
        let stolen: Vec<Event> = ticks.iter().flat_map(between).collect();
        assert_eq!(found(&spin_windows(&spun(window, ticks), &stolen)), []);
    }

    #[test]
    fn clusters_wrap_around_the_end_of_a_period() {
        let window = (0, 100 * MS);
        // Alternately shortly before the end of a period and shortly after its begin.
        let gaps = (1..10).map(|n| {
            let begin = n * 10 * MS + 1_000 * (n % 2);
            (begin - 500, begin + 9_000)
        });
        let found = found(&spin_windows(&spun(window, gaps.collect()), &[]));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn irregular_interruptions_are_not_found() {
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
        assert_eq!(found(&spin_windows(&spun(window, gaps), &[])), []);
    }

    #[test]
    fn interruptions_out_of_phase_are_not_joined() {
        let found = before_and_after([400_000, 800_000]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|one| one.last_begin(2_500 * MS).is_none()));
    }
}
