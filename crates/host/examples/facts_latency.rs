//! How long it takes to read this machine's facts: for planning labs of several kinds, which every
//! deployment pays, and in full. Prints each series' minimum, median and maximum; asserts nothing.
//!
//! `cargo run --release -p latlab-host --example facts_latency -- [repetitions]`

use std::collections::BTreeSet;
use std::time::Instant;

use latlab_host::facts::{self, CpusInUse, ReadOptions};
use latlab_model::facts::Facts;

fn main() {
    let repetitions = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(50);
    let native = [Facts::NAMESPACES, Facts::VETH, Facts::BRIDGE];
    let limits = [
        Facts::CGROUP_CPU,
        Facts::CGROUP_MEMORY,
        Facts::CGROUP_CPUSET,
    ];
    let shaped = [Facts::TBF, Facts::NETEM];
    let mut everything = ReadOptions::everything(CpusInUse::default());
    everything.prove.remove(Facts::KVM);
    let planning = |names: &[&[&str]]| ReadOptions {
        prove: names
            .iter()
            .flat_map(|n| n.iter())
            .map(ToString::to_string)
            .collect(),
        detail: false,
        ..everything.clone()
    };
    let nothing = ReadOptions {
        prove: BTreeSet::new(),
        ..planning(&[])
    };
    println!(
        "{:<44} {:>5} {:>9} {:>9} {:>9}",
        "what", "n", "min ms", "median", "max"
    );
    for (what, options) in [
        ("planning, nothing to prove", nothing),
        ("planning, native on a bridge", planning(&[&native])),
        (
            "planning, the same with limits",
            planning(&[&native, &limits]),
        ),
        (
            "planning, the same with limits and netem",
            planning(&[&native, &limits, &shaped]),
        ),
        ("everything but KVM", everything.clone()),
    ] {
        let time = || {
            let start = Instant::now();
            std::hint::black_box(facts::read(&options));
            start.elapsed().as_secs_f64() * 1e3
        };
        let mut times: Vec<f64> = (0..repetitions).map(|_| time()).collect();
        times.sort_by(f64::total_cmp);
        let (min, max) = (times.first(), times.last());
        let (min, max) = (
            min.copied().unwrap_or_default(),
            max.copied().unwrap_or_default(),
        );
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        println!("{what:<44} {repetitions:>5} {min:>9.2} {median:>9.2} {max:>9.2}");
    }
}
