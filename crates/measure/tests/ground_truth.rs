//! The causes against a known truth: what was injected is what is named.
//!
//! Each disturbance is injected alone, at random times, and must be the first cause of the packets it
//! delayed, with its length. The truth does not come from the recorder: the injector knows when it
//! began and ended, and the device's own clock shows when it did not run.
//!
//! How many are named rightly depends on what else the machine does: somebody else's program that has the
//! processor meanwhile is, rightly, named too. So a test run asks for the most, and an idle machine
//! (`LATLAB_TEST_STRICT=1`) for 95 of a hundred.

#[path = "../../host/tests/namespaces/mod.rs"]
mod namespaces;

mod bench;
mod injections;

use std::sync::Mutex;
use std::time::Duration;

use bench::{Bench, Forwarder, Window};
use injections::{Injection, Truth};
use latlab_report::attribution::{Cause, Explained, blame};

const RATE: u64 = 10_000;
const DURATION: Duration = Duration::from_secs(3);
/// A packet that took no longer was not delayed.
const DELAYED_NS: u64 = 50_000;

/// The tests here disturb each other.
static ALONE: Mutex<()> = Mutex::new(());

/// Whether nothing else runs on this machine.
fn strict() -> bool {
    std::env::var_os("LATLAB_TEST_STRICT").is_some()
}

/// How the packets that one disturbance delayed were named.
#[derive(Default)]
struct Score {
    delayed: usize,
    /// Held up by the hypervisor for most of their time, as it says itself: not by what was injected.
    stolen: usize,
    named: usize,
    right_length: usize,
    others: std::collections::BTreeMap<String, usize>,
    lengths: Vec<(u64, u64)>,
}

impl Score {
    fn of(window: &Window, truths: &[Truth], injection: &Injection) -> Score {
        let mut score = Score::default();
        for one in &window.attribution.worst {
            let (begin, end) = (one.passage.in_ns, one.passage.out_ns.unwrap());
            // A packet may wait through several.
            let overlaps = |t: &&Truth| begin < t.end_ns && end > t.begin_ns;
            let own: Vec<&Truth> = truths.iter().filter(overlaps).collect();
            if own.is_empty() || one.latency_ns() <= DELAYED_NS {
                continue;
            }
            let stolen = one.by_cause().get(&Cause::Steal).copied().unwrap_or(0);
            if stolen * 2 > one.latency_ns() {
                score.stolen += 1;
                continue;
            }
            score.delayed += 1;
            if injection.is_it(&one.first) {
                score.named += 1;
                score.judge_length(one, &own, injection);
            } else {
                *score.others.entry(one.first.to_string()).or_default() += 1;
            }
        }
        score
    }

    /// Those that other programs kept from their processor for longest.
    fn waited_for_others(&self) -> usize {
        let waits = self
            .others
            .iter()
            .filter(|(cause, _)| cause.starts_with("waiting for a CPU: "));
        waits.map(|(_, packets)| packets).sum()
    }

    fn judge_length(&mut self, one: &Explained, own: &[&Truth], injection: &Injection) {
        let Some(episode) = &one.episode else { return };
        let found = match injection.in_pieces() {
            true => episode.end_ns - episode.start_ns,
            false => episode.active_ns,
        };
        let lengths = own.iter().map(|truth| truth.end_ns - truth.begin_ns);
        let is_right = |right: u64| found.abs_diff(right) <= (right / 10).max(5_000);
        if lengths.clone().any(is_right) {
            self.right_length += 1;
        } else {
            let longest = lengths.max().unwrap_or(0);
            self.lengths.push((longest / 1000, found / 1000));
        }
    }
}

#[test]
fn what_is_injected_is_what_is_named() {
    const NAME: &str = "what_is_injected_is_what_is_named";
    if bench::device() {
        return;
    }
    let _alone = ALONE.lock();
    namespaces::enter(NAME, || {
        let share = if strict() { 95 } else { 50 };
        let mut wrong = Vec::new();
        let only = std::env::var("LATLAB_TEST_ONLY").unwrap_or_default();
        for injection in Injection::ALL.iter().filter(|i| i.name().contains(&only)) {
            let bench = Bench::new();
            let mut device = Forwarder::start(&bench, NAME);
            let mut truths = Vec::new();
            let window = bench.run(RATE, DURATION, &mut device, |device, begin, end| {
                truths = injection.inject(device, begin, end);
            });
            let truths = injection.truth(truths, &window.gaps);
            let score = Score::of(&window, &truths, injection);
            println!(
                "{:<32} {:3} times, {:5} packets delayed ({} by the \
                 hypervisor instead), {:6.2} % named, {:6.2} % of them with the \
                 right length; others {:?}, lengths (us, right and found) {:?}",
                injection.name(),
                truths.len(),
                score.delayed,
                score.stolen,
                100.0 * score.named as f64 / score.delayed.max(1) as f64,
                100.0 * score.right_length as f64 / score.named.max(1) as f64,
                score.others,
                &score.lengths[..score.lengths.len().min(8)],
            );
            // On a busy machine other programs delay packets too, and are rightly named.
            let foreign = match strict() {
                true => 0,
                false => score.waited_for_others(),
            };
            let enough = score.delayed >= 50 && score.named >= 25;
            let named = score.named * 100 >= (score.delayed - foreign) * share;
            let length = score.right_length * 100 >= score.named * share;
            if !(enough && named && length) {
                wrong.push(injection.name());
            }
        }
        assert!(wrong.is_empty(), "not as injected: {wrong:?}");
    });
}

#[test]
fn without_a_disturbance_little_is_unexplained() {
    const NAME: &str = "without_a_disturbance_little_is_unexplained";
    if bench::device() {
        return;
    }
    let _alone = ALONE.lock();
    namespaces::enter(NAME, || {
        let bench = Bench::new();
        let mut device = Forwarder::start(&bench, NAME);
        let window = bench.run(RATE, Duration::from_secs(5), &mut device, |_, _, _| {});
        let all = blame(&window.attribution, 0.0).unwrap();
        println!("device {:?}", window.attribution.device);
        for row in &all.rows {
            println!(
                "{:6.2} % {:5} {}",
                row.share * 100.0,
                row.first_of,
                row.cause
            );
        }
        for one in &window.attribution.worst {
            let sum: u64 = one.by_cause().values().sum();
            assert_eq!(sum, one.latency_ns(), "{one:?}");
        }
        assert!(window.attribution.worst.len() == 5000);
        let unexplained = all.unexplained();
        println!("unexplained {:.2} %", unexplained * 100.0);
        let most = if strict() { 0.05 } else { 0.5 };
        assert!(unexplained < most, "{unexplained}");
        let known = |one: &&Explained| one.first != Cause::NotRecorded;
        assert!(window.attribution.worst.iter().all(|one| known(&one)));
    });
}

/// A ring that is far too small keeps the newest events only: of what was before, nothing is said.
#[test]
fn before_a_full_ring_begins_nothing_is_blamed() {
    const NAME: &str = "before_a_full_ring_begins_nothing_is_blamed";
    if bench::device() {
        return;
    }
    let _alone = ALONE.lock();
    namespaces::enter(NAME, || {
        let mut bench = Bench::new();
        bench.events_per_cpu = 1 << 10;
        let mut device = Forwarder::start(&bench, NAME);
        let window = bench.run(RATE, Duration::from_secs(1), &mut device, |_, _, _| {});
        let complete_from = |cpu: u16| {
            let watched = window.capture.watched.iter();
            watched.clone().find(|w| w.0 == cpu).map_or(0, |w| w.1)
        };
        assert!(window.capture.watched.iter().all(|watched| watched.1 > 0));
        let mut before = 0;
        for one in &window.attribution.worst {
            for piece in &one.pieces {
                let known_from = piece.cpu.map_or(u64::MAX, complete_from);
                if piece.end_ns <= known_from {
                    before += 1;
                    assert_eq!(piece.cause, Cause::NotRecorded, "{one:?}");
                }
            }
        }
        assert!(before > 1000, "{before}");
    });
}

/// Frames without our numbers are counted, and no time of theirs is taken for ours.
#[test]
fn packets_of_others_are_counted_and_never_timed() {
    const NAME: &str = "packets_of_others_are_counted_and_never_timed";
    const OTHERS: u64 = 500;
    if bench::device() {
        return;
    }
    let _alone = ALONE.lock();
    namespaces::enter(NAME, || {
        let bench = Bench::new();
        let mut device = Forwarder::start(&bench, NAME);
        let window = bench.run(RATE, Duration::from_secs(1), &mut device, |_, begin, _| {
            bench::sleep_until(begin);
            let bind = || std::net::UdpSocket::bind("10.9.0.1:0");
            let socket = bench.client.run(bind).unwrap().unwrap();
            for number in 0..OTHERS {
                // As long as ours, and as numbered; only the mark is another's.
                socket.send_to(&number.to_be_bytes(), "10.9.0.2:9").ok();
            }
        });
        assert!(window.foreign >= OTHERS, "{}", window.foreign);
        assert!(window.fates.entered <= RATE, "{:?}", window.fates);
        assert!(window.capture.passages.iter().all(|p| p.flow == 1));
    });
}
