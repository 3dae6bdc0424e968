//! The steal watch against the kernel's own account.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use latlab_trace::Error;
use latlab_trace::steal::Watch;

/// Steal of all CPUs in `/proc/stat`, in hundredths of a second.
fn accounted_ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let all = text.lines().next().unwrap();
    all.split_whitespace().nth(8).unwrap().parse().unwrap()
}

#[test]
fn steal_lies_between_two_readings_and_agrees_with_the_kernel() {
    let count = std::thread::available_parallelism().map_or(1, usize::from) as u16;
    let cpus: BTreeSet<u16> = (0..count).collect();
    let began = accounted_ticks();
    let watch = match Watch::begin(&cpus) {
        Ok(Some(watch)) => watch,
        Ok(None) => {
            return println!("skipped: this kernel is not made for a hypervisor that tells");
        }
        Err(Error::Load { reason, .. }) if !rustix::process::geteuid().is_root() => {
            return println!("skipped: needs root ({reason})");
        }
        Err(error) => panic!("{error}"),
    };
    // Work that lets go of the CPU often, on all of them.
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(700) {
                    std::hint::black_box((0..20_000u64).sum::<u64>());
                    std::thread::sleep(Duration::from_micros(50));
                }
            });
        }
    });
    let Some(taken) = watch.end() else {
        return println!("skipped: no hypervisor underneath tells what it takes");
    };
    let ended = accounted_ticks();
    assert_eq!(taken.no_room, 0);
    for stretch in &taken.stretches {
        assert!(stretch.since_ns < stretch.until_ns, "{stretch:?}");
        assert!(stretch.stolen_ns > 0, "{stretch:?}");
        assert!(cpus.contains(&stretch.cpu), "{stretch:?}");
    }
    for pair in taken.stretches.windows(2) {
        assert!(pair[0].until_ns <= pair[1].until_ns);
        if pair[0].cpu == pair[1].cpu {
            assert!(pair[0].until_ns <= pair[1].since_ns, "{pair:?}");
        }
    }
    let found: u64 = taken
        .stretches
        .iter()
        .map(|stretch| stretch.stolen_ns)
        .sum();
    // The kernel updates its account at each tick, up to one step behind on each CPU, at either end.
    let slack = 2 * u64::from(count) + 1;
    let ticks = found / 10_000_000;
    assert!(
        ticks.abs_diff(ended - began) <= slack,
        "{ticks} ticks were found, {} accounted",
        ended - began
    );
}
