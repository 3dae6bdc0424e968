//! Packets that a link holds long after the last was sent are not lost.

#[path = "../../host/tests/namespaces/mod.rs"]
mod namespaces;

mod labs;

use std::process::Command;

use latlab_measure::trial;
use latlab_model::results::Counters;
use latlab_model::spec::Study;

/// Measures `packets` over a link with an impairment.
fn packets(impairment: &str, words: &str) -> Counters {
    let nodes = "  nodes:\n    client: {kind: native}\n    server: {kind: native}\n  links:\n";
    let link = format!("    - {{{impairment}, endpoints: ['client:eth0', 'server:eth0']}}\n");
    let scratch = labs::Scratch::new();
    let lab = scratch.deploy(&format!("{nodes}{link}"));
    let text = format!(
        "name: t\nlab:\n  name: t\n  topology:\n    nodes:\n      client: {{kind: native}}\n      server: {{kind: native}}\n    \
         links:\n      - endpoints: ['client:eth0', 'server:eth0']\n\
         measurements:\n  - {{probe: packets, from: client, to: server, {words}}}\n"
    );
    let study = Study::parse(&text).unwrap_or_else(|e| panic!("{}", e.render("study")));
    let measured = trial::measure(&lab, &study.measurements[0], 1).unwrap();
    lab.destroy().unwrap();
    measured.counters
}

#[test]
fn packets_in_the_queue_of_a_slow_link_arrive() {
    namespaces::enter("packets_in_the_queue_of_a_slow_link_arrive", || {
        // All are due at once, and take 1.8 s.
        let words = "rate: 40, burst: 40, size: 1400, duration: 1s, warmup: 0s";
        let counters = packets("rate: 250kbit", words);
        assert_eq!((counters.sent, counters.lost), (40, 0), "{counters:?}");
    });
}

#[test]
fn packets_on_a_long_link_arrive() {
    namespaces::enter("packets_on_a_long_link_arrive", || {
        let netem = ["qdisc", "add", "dev", "lo", "root", "netem"];
        let added = Command::new("tc")
            .args(netem)
            .args(["delay", "1ms"])
            .status();
        if !added.unwrap().success() {
            eprintln!("this kernel has no netem");
            return;
        }
        let counters = packets("delay: 500ms", "rate: 1000, duration: 300ms");
        assert_eq!((counters.sent, counters.lost), (300, 0), "{counters:?}");
    });
}
