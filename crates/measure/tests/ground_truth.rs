//! Attribution against ground truth: the injected disturbance is the named cause.
//!
//! Each disturbance is injected alone, at random times, and must be the first cause of the packets it
//! delayed, with its length. The truth does not come from the recorder: the injector knows its begin and end,
//! and the device's own clock shows when the device did not run.
//!
//! On a shared machine other programs delay packets too, and are rightly named. A test run therefore requires
//! a majority, with retries; an idle machine (`LATLAB_TEST_STRICT=1`) must reach 95 % at once. If other
//! programs had the device's CPU for long each time, the test says so and checks names alone: an injector
//! does not know the length of a disturbance that shared its CPU.

#[path = "../../host/tests/namespaces/mod.rs"]
mod namespaces;

mod bench;
mod injections;

use std::sync::Mutex;
use std::time::Duration;

use bench::{Bench, Forwarder, Window};
use injections::{Injection, Truth};
use latlab_report::attribution::{Cause, Explained, blame, joined};
use latlab_report::explain::Code;

const RATE: u64 = 10_000;
const DURATION: Duration = Duration::from_secs(3);
/// Windows until one is as injected; a wrong attribution is wrong in each.
const ATTEMPTS: usize = 4;
/// A machine whose other programs had more of the device's CPU is too busy to judge lengths.
const BUSY: f64 = 0.05;

/// The tests here disturb each other.
static ALONE: Mutex<()> = Mutex::new(());

/// All of it; a quick choice otherwise.
fn whole() -> bool {
    std::env::var("LATLAB_TEST_WHOLE").is_ok_and(|word| word == "yes")
}

/// Whether this machine is idle otherwise.
fn strict() -> bool {
    std::env::var_os("LATLAB_TEST_STRICT").is_some()
}

/// Attributions of the packets that one disturbance delayed.
#[derive(Default)]
struct Score {
    delayed: usize,
    /// Packets delayed by the hypervisor for most of their time, by its own steal counter.
    stolen: usize,
    named: usize,
    right_length: usize,
    others: std::collections::BTreeMap<String, usize>,
    lengths: Vec<(u64, u64)>,
    /// Part of the window that other programs had the device's CPU.
    foreign: f64,
}

impl Score {
    fn of(window: &Window, truths: &[Truth], injection: &Injection) -> Score {
        let mut score = Score {
            foreign: window.foreign_share(injections::HOG),
            ..Score::default()
        };
        let stolen = stolen(&window.attribution.worst);
        for one in &window.attribution.worst {
            let (begin, end) = (one.passage.in_ns, one.passage.out_ns.unwrap());
            let overlaps = |t: &Truth| begin < t.end_ns && end > t.begin_ns;
            if !truths.iter().any(overlaps) || one.latency_ns() <= injection.delayed_ns() {
                continue;
            }
            let by_steal = one.by_cause().get(&Cause::Steal).copied().unwrap_or(0);
            if by_steal * 2 > one.latency_ns() {
                score.stolen += 1;
                continue;
            }
            score.delayed += 1;
            if injection.is_it(&one.first) {
                score.named += 1;
                score.judge_length(one, truths, &stolen, injection);
            } else {
                *score.others.entry(one.first.to_string()).or_default() += 1;
            }
        }
        score
    }

    /// Packets that other programs delayed for longest.
    fn waited_for_others(&self) -> usize {
        let waits = self
            .others
            .iter()
            .filter(|(cause, _)| cause.starts_with("waiting for a CPU: "));
        waits.map(|(_, packets)| packets).sum()
    }

    /// The interruption that was found, against all injections within it.
    fn judge_length(
        &mut self,
        one: &Explained,
        truths: &[Truth],
        stolen: &[(u64, u64)],
        injection: &Injection,
    ) {
        let Some(episode) = &one.episode else { return };
        let own = |t: &&Truth| episode.start_ns < t.end_ns && episode.end_ns > t.begin_ns;
        let own = truths.iter().filter(own);
        let (found, right) = if injection.in_pieces() {
            let right: u64 = own.map(|t| t.end_ns - t.begin_ns).sum();
            (episode.end_ns - episode.start_ns, right)
        } else if matches!(injection, Injection::Flood | Injection::Held(_)) {
            // The device's clock does not show steal; steal is subtracted separately.
            let had = own.map(|t| t.end_ns - t.begin_ns - t.overlap(stolen));
            (episode.active_ns, had.sum())
        } else {
            (episode.active_ns, own.map(|t| t.end_ns - t.begin_ns).sum())
        };
        if found.abs_diff(right) <= (right / 10).max(5_000) {
            self.right_length += 1;
        } else {
            self.lengths.push((right / 1000, found / 1000));
        }
    }

    fn are_names_right(&self) -> bool {
        // On a busy machine other programs delay packets too, and are rightly named.
        let (share, foreign) = if strict() {
            (95, 0)
        } else {
            (50, self.waited_for_others())
        };
        self.named * 100 >= (self.delayed - foreign) * share
    }

    fn is_right(&self) -> bool {
        let share = if strict() { 95 } else { 50 };
        let enough = self.delayed >= 50 && self.named >= 25;
        enough && self.are_names_right() && self.right_length * 100 >= self.named * share
    }

    fn print(&self, injection: Injection, truths: &[Truth]) {
        println!(
            "{:<32} {:3} times, {:5} packets delayed ({} by the \
             hypervisor instead), {:6.2} % named, {:6.2} % of them with the \
             right length; others had the CPU for {:.1} %, were named {:?}; \
             lengths (us, right and found) {:?}",
            injection.name(),
            truths.len(),
            self.delayed,
            self.stolen,
            100.0 * self.named as f64 / self.delayed.max(1) as f64,
            100.0 * self.right_length as f64 / self.named.max(1) as f64,
            100.0 * self.foreign,
            self.others,
            &self.lengths[..self.lengths.len().min(8)],
        );
    }
}

/// Times at which the hypervisor had the device's CPU while packets were in the device.
fn stolen(worst: &[Explained]) -> Vec<(u64, u64)> {
    let pieces = worst.iter().flat_map(|one| &one.pieces);
    let stolen = pieces.filter(|piece| piece.cause == Cause::Steal);
    joined(stolen.map(|piece| (piece.start_ns, piece.end_ns)))
}

/// One window with one disturbance.
fn score(injection: Injection, test: &str) -> Score {
    let mut bench = Bench::new();
    bench.system_calls = injection.needs_system_calls();
    let mut device = Forwarder::start_holding(&bench, test, injection.hold());
    let mut truths = Vec::new();
    let window = bench.run(RATE, DURATION, &mut device, |device, begin, end| {
        truths = injection.inject(device, begin, end);
    });
    let truths = injection.truth(truths, &window.gaps);
    let score = Score::of(&window, &truths, &injection);
    score.print(injection, &truths);
    score
}

#[test]
fn the_injected_disturbance_is_the_named_cause() {
    const NAME: &str = "the_injected_disturbance_is_the_named_cause";
    if bench::device() {
        return;
    }
    let _alone = ALONE.lock();
    namespaces::enter(NAME, || {
        let mut wrong = Vec::new();
        let only = std::env::var("LATLAB_TEST_ONLY").unwrap_or_default();
        let every = if whole() || !only.is_empty() { 1 } else { 4 };
        let injections = Injection::ALL.iter().step_by(every);
        for injection in injections.filter(|i| i.name().contains(&only)) {
            let mut left = if strict() { 1 } else { ATTEMPTS };
            let last = loop {
                left -= 1;
                let last = score(*injection, NAME);
                if left == 0 || last.is_right() {
                    break last;
                }
            };
            if last.is_right() {
                continue;
            }
            if !strict() && last.foreign > BUSY && last.are_names_right() {
                println!("  too busy a machine: only the names were judged");
            } else {
                wrong.push(injection.name());
            }
        }
        assert!(wrong.is_empty(), "not as injected: {wrong:?}");
    });
}

/// Computations of the device that are longer than two sampling periods, and those whose function is named.
fn named_functions(window: &Window, truths: &[Truth], rate: u32) -> (usize, usize) {
    let slow = truths.iter().map(|t| (t.begin_ns, t.end_ns)).collect();
    let code = Code::of(&window.stacks, slow, rate, 0);
    let namer = code.namer(&window.stacks);
    let (mut long, mut named) = (0, 0);
    let mut others: std::collections::BTreeMap<String, usize> = Default::default();
    let period_ns = 1_000_000_000 / u64::from(rate);
    for truth in truths
        .iter()
        .filter(|t| t.end_ns - t.begin_ns > 2 * period_ns)
    {
        let overlaps = |one: &&Explained| {
            let (begin, end) = (one.passage.in_ns, one.passage.out_ns.unwrap());
            begin < truth.end_ns && end > truth.begin_ns
        };
        let Some(held) = window.attribution.worst.iter().find(overlaps) else {
            continue;
        };
        let (from, to) = (held.passage.in_ns, held.passage.out_ns.unwrap());
        long += 1;
        match namer.function(from, to) {
            Some(name) if name.contains("compute_until") => named += 1,
            other => *others.entry(other.unwrap_or("nothing".into())).or_default() += 1,
        }
    }
    println!(
        "{} samples, {} in {} computations; {named} of {long} long ones named, others {others:?}",
        code.samples(),
        code.slow.samples,
        truths.len(),
    );
    for function in code.functions().iter().take(6) {
        println!(
            "  {:.2} {:.2} {}",
            function.slow, function.otherwise, function.name
        );
    }
    (long, named)
}

/// A device that computes for longer than two sampling periods: its function is named.
#[test]
fn the_function_that_computes_is_named() {
    const NAME: &str = "the_function_that_computes_is_named";
    const SAMPLES: u32 = 2_000;
    if bench::device() {
        return;
    }
    let _alone = ALONE.lock();
    namespaces::enter(NAME, || {
        let mut left = if strict() { 1 } else { ATTEMPTS };
        let share = if strict() { 90 } else { 50 };
        loop {
            left -= 1;
            let injection = Injection::Held(bench::Hold::Compute);
            let mut bench = Bench::new();
            bench.sampling = Some(SAMPLES);
            let mut device = Forwarder::start_holding(&bench, NAME, injection.hold());
            let window = bench.run(RATE, DURATION, &mut device, |device, begin, end| {
                injection.inject(device, begin, end);
            });
            let truths = injection.truth(Vec::new(), &window.gaps);
            Score::of(&window, &truths, &injection).print(injection, &truths);
            let (long, named) = named_functions(&window, &truths, SAMPLES);
            let is_right = long >= 10 && named * 100 >= long * share;
            if is_right || left == 0 {
                assert!(is_right, "{named} of {long} named");
                break;
            }
        }
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
        println!("underneath {:?}", window.capture.hwlat);
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
        // Nor is it given to the device, whose own time would take whatever has no other cause. How much that is
        // depends on the machine.
        let own = all.rows.iter().filter(|row| row.cause == Cause::OwnCode);
        let own: f64 = own.map(|row| row.share).sum();
        assert!(own < 0.5, "{own}");
        let known = |one: &&Explained| one.first != Cause::NotRecorded;
        assert!(window.attribution.worst.iter().all(|one| known(&one)));
    });
}

/// A ring that is too small keeps the newest events only; earlier time is reported as unknown.
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

/// A ring that is overwritten many times during the run: causes at its begin are named all the same, because
/// the reader takes them in time.
#[test]
fn causes_of_overwritten_events_are_still_named() {
    const NAME: &str = "causes_of_overwritten_events_are_still_named";
    const RING: u32 = 1 << 15;
    if bench::device() {
        return;
    }
    let _alone = ALONE.lock();
    namespaces::enter(NAME, || {
        let mut bench = Bench::new();
        (bench.events_per_cpu, bench.follow) = (RING, true);
        let injection = Injection::FifoHog;
        let judge = || {
            let mut device = Forwarder::start(&bench, NAME);
            let mut truths = Vec::new();
            let mut early = 0;
            let window = bench.run(
                RATE,
                Duration::from_secs(12),
                &mut device,
                |device, begin, end| {
                    early = begin + (end - begin) / 12;
                    truths = injection.inject(device, begin, early);
                },
            );
            let truths = injection.truth(truths, &window.gaps);
            let score = Score::of(&window, &truths, &injection);
            score.print(injection, &truths);
            // Every packet wrote an event.
            assert!(
                window.counters.entered > 3 * u64::from(RING),
                "{:?}",
                window.counters
            );
            let mut explained = 0;
            for one in &window.attribution.worst {
                let sum: u64 = one.by_cause().values().sum();
                assert_eq!(sum, one.latency_ns(), "{one:?}");
                explained += usize::from(one.first != Cause::NotRecorded);
            }
            let lost = window.overwritten;
            println!("  {explained} explained, {lost} events overwritten before they were read");
            let not_known = score.others.get(&Cause::NotRecorded.to_string());
            let right = score.named + not_known.copied().unwrap_or(0);
            let foreign = score.waited_for_others();
            assert!(
                right * 2 >= score.delayed - foreign,
                "a wrong cause: {:?}",
                score.others
            );
            let named = score.delayed >= 50 && score.named * 2 >= score.delayed - foreign;
            (named && explained >= 2500, lost > 0)
        };
        // If the machine does not let the reader run, unread events are overwritten and reported so.
        let mut left = ATTEMPTS;
        let mut last = judge();
        while !last.0 && left > 1 {
            left -= 1;
            last = judge();
        }
        let (is_named, is_lost) = last;
        assert!(is_named || is_lost && !strict());
    });
}

/// Foreign frames are counted, and their times do not count as ours.
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
                // Our length and numbering; only the mark differs.
                socket.send_to(&number.to_be_bytes(), "10.9.0.2:9").ok();
            }
        });
        assert!(window.foreign >= OTHERS, "{}", window.foreign);
        assert!(window.counters.entered <= RATE, "{:?}", window.counters);
        assert!(window.capture.passages.iter().all(|p| p.flow == 1));
    });
}
