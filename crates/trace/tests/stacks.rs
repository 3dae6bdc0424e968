//! Stacks of this program, sampled by itself: it knows where it is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latlab_trace::Error;
use latlab_trace::stacks::Sampler;

const RATE: u32 = 1_000;
const THREAD: &str = "spinner";

#[inline(never)]
fn add_numbers(stop: &AtomicBool) -> u64 {
    let mut sum = 0u64;
    while !stop.load(Ordering::Relaxed) {
        for number in 0..1_000u64 {
            sum = std::hint::black_box(sum.wrapping_add(number));
        }
    }
    sum
}

#[inline(never)]
fn call_it(stop: &AtomicBool) -> u64 {
    // Not the last thing that it does, or its frame would be gone.
    std::hint::black_box(add_numbers(stop)).wrapping_add(1)
}

#[test]
fn a_thread_is_sampled_in_its_function_and_its_callers() {
    let mut sampler = match Sampler::load(4 * u64::from(RATE)) {
        Ok(sampler) => sampler,
        Err(Error::Load { reason, .. }) if !rustix::process::geteuid().is_root() => {
            return println!("skipped: needs root ({reason})");
        }
        Err(error) => panic!("{error}"),
    };
    let stop = AtomicBool::new(false);
    let sampled = std::thread::scope(|scope| {
        sampler.watch(std::process::id(), RATE).unwrap();
        // A thread that is started afterwards is sampled too.
        let named = std::thread::Builder::new().name(THREAD.into());
        let spinner = named.spawn_scoped(scope, || call_it(&stop)).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let sampled = sampler.finish();
        stop.store(true, Ordering::Relaxed);
        spinner.join().unwrap();
        sampled
    });
    assert_eq!(sampled.lost, 0);
    let own = sampled.stacks.iter();
    let own: Vec<&str> = own
        .map(|stack| stack.frames.as_str())
        .filter(|frames| frames.starts_with(THREAD))
        .collect();
    assert!(!own.is_empty(), "{} samples", sampled.stacks.len());
    let is_found = |frames: &&&str| {
        let names: Vec<&str> = frames.split(';').collect();
        let found = |name: &str| names.iter().position(|frame| frame.contains(name));
        found("call_it").is_some_and(|caller| found("add_numbers") == Some(caller + 1))
    };
    let found = own.iter().filter(is_found).count();
    // Interrupted before or after its loop, or in a tick, it is elsewhere.
    assert!(found * 2 > own.len(), "{found} of {}: {own:?}", own.len());
    assert!(sampled.stacks.is_sorted_by_key(|stack| stack.time_ns));
    assert!(
        sampled
            .stacks
            .iter()
            .all(|stack| stack.process == std::process::id())
    );
}
