//! Every device under test forwards: packets of a measurement pass it from tap to tap, and its changes are
//! reverted when the trial is over.

#[path = "../../host/tests/namespaces/mod.rs"]
mod namespaces;

mod labs;

use std::io::Read;

use latlab_host::lab::Lab;
use latlab_host::nodes::session::Command;
use latlab_measure::measured::Measured;
use latlab_measure::trial;
use latlab_model::spec::{Measurement, Study};

const RATE: u64 = 2000;

fn topology(device: &str) -> String {
    format!(
        "  nodes:
    client: {{kind: native}}
    device: {{{device}}}
    server: {{kind: native}}
  links:
    - endpoints: ['client:eth0', 'device:in']
    - endpoints: ['device:out', 'server:eth0']
"
    )
}

/// The measurement of a study.
fn measurement(words: &str) -> Measurement {
    let text = format!(
        "name: t\nlab:\n  name: t\n  topology:\n    nodes:\n      client: {{kind: native}}\n      \
         device: {{kind: native}}\n      second: {{kind: native}}\n      server: {{kind: native}}\n    links:\n      \
         - endpoints: ['client:eth0', 'server:eth0']\n\
         measurements:\n  - {{from: client, to: server, rate: {RATE}, duration: 300ms, {words}}}\n"
    );
    let mut study = Study::parse(&text).unwrap_or_else(|e| panic!("{}", e.render("study")));
    study.measurements.remove(0)
}

fn measure(lab: &Lab, words: &str) -> Measured {
    let measurement = measurement(words);
    trial::measure(lab, &measurement, 1).unwrap_or_else(|error| panic!("{words}: {error}"))
}

/// Nearly all packets that entered came out again; a loaded machine may lose a few.
fn forwards(lab: &Lab, words: &str) -> Measured {
    let measured = measure(lab, words);
    let counters = &measured.counters;
    eprintln!("{words}: {counters:?}");
    assert!(counters.sent > RATE / 10, "{words}: {counters:?}");
    assert!(
        counters.received * 10 >= counters.sent * 9,
        "{words}: {counters:?}"
    );
    assert_eq!(
        (counters.unmatched, counters.corrupted),
        (0, 0),
        "{words}: {counters:?}"
    );
    measured
}

/// Output of a command in a node.
fn said(lab: &Lab, node: &str, command: &str) -> String {
    let mut session = lab.start(node, &Command::shell(command)).unwrap();
    drop(session.take_stdin());
    let mut text = String::new();
    session
        .take_stdout()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    session.wait().unwrap();
    text
}

/// State of a node that a device may change.
fn state(lab: &Lab) -> Vec<String> {
    let shown = |node, command| said(lab, node, command);
    let mut all = vec![
        shown("device", "ip -o link | sed 's/ master [^ ]*//; s/ mtu.*//'"),
        shown(
            "device",
            "cat /proc/sys/net/ipv4/ip_forward; nft list ruleset",
        ),
    ];
    for node in ["client", "device", "server"] {
        all.push(shown(node, "ip route"));
    }
    all
}

fn every_device(lab: &Lab) {
    let before = state(lab);
    for device in ["bridge", "route", "nat", "xdp", "af-packet", "af-xdp"] {
        forwards(
            lab,
            &format!("probe: forward, through: device, device: {device}"),
        );
        assert_eq!(state(lab), before, "{device} leaves things behind");
    }
    for device in ["af-packet", "af-xdp"] {
        let words = format!("probe: forward, through: device, device: {device}, poll: block");
        forwards(lab, &words);
    }
}

#[test]
fn every_device_forwards_natively() {
    namespaces::enter("every_device_forwards_natively", || {
        let scratch = labs::Scratch::new();
        let lab = scratch.deploy(&topology("kind: native"));
        every_device(&lab);
        let many = "probe: forward, through: device, device: bridge, flows: 16, burst: 8, arrival: poisson, size: 1400";
        let measured = forwards(&lab, many);
        let mut flows = std::collections::BTreeSet::new();
        let timed = &measured.trace.as_ref().unwrap().timed;
        timed.each_passage(|passage| {
            flows.insert(passage.flow);
        });
        assert_eq!(flows.len(), 16);
        // Sockets of an application, with checksum offload.
        let sockets = "probe: forward, through: device, device: af-packet, via: socket, flows: 4";
        forwards(&lab, sockets);
        lab.destroy().unwrap();
    });
}

#[test]
fn every_device_forwards_in_a_container() {
    namespaces::enter("every_device_forwards_in_a_container", || {
        let scratch = labs::Scratch::new();
        let lab = scratch.deploy(&topology("kind: container"));
        every_device(&lab);
        lab.destroy().unwrap();
    });
}

#[test]
fn testpmd_forwards_in_a_container() {
    namespaces::enter("testpmd_forwards_in_a_container", || {
        let found = std::process::Command::new("dpdk-testpmd")
            .arg("-v")
            .output();
        assert!(
            found.is_ok(),
            "there is no dpdk-testpmd: scripts/setup test installs it"
        );
        let scratch = labs::Scratch::new();
        let lab = scratch.deploy(&topology("kind: container"));
        forwards(&lab, "probe: forward, through: device, device: testpmd");
        lab.destroy().unwrap();
    });
}

#[test]
fn a_chain_of_routers_has_a_latency_per_hop() {
    namespaces::enter("a_chain_of_routers_has_a_latency_per_hop", || {
        let scratch = labs::Scratch::new();
        let lab = scratch.deploy(
            "  nodes:
    client: {kind: native}
    device: {kind: native}
    second: {kind: native}
    server: {kind: native}
  links:
    - endpoints: ['client:eth0', 'device:in']
    - endpoints: ['device:out', 'second:in']
    - endpoints: ['second:out', 'server:eth0']
",
        );
        for device in ["route", "bridge", "af-packet"] {
            let words = format!("probe: forward, through: [device, second], device: {device}");
            let measured = forwards(&lab, &words);
            let trace = &measured.trace.as_ref().unwrap().trace;
            let hops: Vec<&str> = trace.hops.iter().map(|hop| hop.device.as_str()).collect();
            assert_eq!(hops, ["device", "second"]);
            assert!(trace.hops.iter().all(|hop| hop.counters.received > 0));
        }
        lab.destroy().unwrap();
    });
}

#[test]
fn frames_by_af_xdp_arrive_at_a_program() {
    namespaces::enter("frames_by_af_xdp_arrive_at_a_program", || {
        let scratch = labs::Scratch::new();
        let lab = scratch.deploy(
            "  nodes:
    client: {kind: native}
    server: {kind: container}
  links:
    - endpoints: ['client:eth0', 'server:eth0']
",
        );
        for words in [
            "probe: packets, via: xdp, flows: 3",
            "probe: packets, via: packet, burst: 4, size: 1500",
        ] {
            forwards(&lab, words);
        }
        lab.destroy().unwrap();
    });
}

#[test]
fn devices_forward_in_a_guest() {
    if std::env::var_os("LATLAB_TEST_GUEST").is_none_or(|value| value != "1") {
        eprintln!("guest tests boot virtual machines: set LATLAB_TEST_GUEST=1 to run them");
        return;
    }
    namespaces::enter("devices_forward_in_a_guest", || {
        let scratch = labs::Scratch::new();
        // Kernels are fetched once for all tests.
        std::os::unix::fs::symlink("/var/cache/latlab", scratch.root.join("cache")).unwrap();
        let lab = scratch.deploy(&topology("kind: vm"));
        for device in ["bridge", "route", "nat", "af-packet", "af-xdp", "xdp"] {
            let words = format!("probe: forward, through: device, device: {device}");
            forwards(&lab, &words);
        }
        lab.destroy().unwrap();
    });
}
