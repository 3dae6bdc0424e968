//! Captures of a real router by a real dumpcap, imported; tshark tells the truth.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{Bench, enter, tool, until};
use latlab_samples::{RunDir, SampleReader};

const LAB: &str = "name: NAME
topology:
  nodes:
    client: {kind: native, exec: [\"ip route add 10.0.0.0/16 via 10.0.1.254\"]}
    router: {kind: native, exec: [\"echo 1 > /proc/sys/net/ipv4/ip_forward\"]}
    server: {kind: native, exec: [\"ip route add 10.0.0.0/16 via 10.0.2.254\"]}
  links:
    - endpoints:
        - {node: client, interface: eth0, ipv4: 10.0.1.1/24}
        - {node: router, interface: left, ipv4: 10.0.1.254/24}
    - endpoints:
        - {node: router, interface: right, ipv4: 10.0.2.254/24}
        - {node: server, interface: eth0, ipv4: 10.0.2.1/24}
";
const PINGS: u64 = 200;

/// A capture of both sides of the router while the client pings the server.
fn capture(bench: &Bench, lab: &str, name: &str) -> PathBuf {
    let path = bench.root().join(name);
    let file = path.to_str().unwrap();
    // Requests and replies, each on two interfaces.
    let all = (4 * PINGS).to_string();
    let mut words = vec!["exec", lab, "router", "--", "dumpcap", "-q", "-f", "icmp"];
    words.extend(["-c", &all, "-i", "left", "-i", "right", "-w", file]);
    let dumpcap = bench.command(&words).stderr(Stdio::piped()).spawn();
    let dumpcap = dumpcap.unwrap();
    // The file's first block is written when the capture has begun.
    until("dumpcap captures", || {
        fs::metadata(&path).is_ok_and(|about| about.len() > 0)
    });
    let count = PINGS.to_string();
    let ping = ["ping", "-q", "-i", "0.002", "-c", &count, "10.0.2.1"];
    bench.exec(lab, "client", &ping).good();
    common::finished(dumpcap).good();
    path
}

/// The times of requests by interface and number, in ns, as tshark reads them.
fn tshark(path: &Path) -> BTreeMap<(String, u64), i64> {
    let file = path.to_str().unwrap();
    let fields = ["frame.interface_name", "icmp.seq", "frame.time_epoch"];
    let mut words = vec!["tshark", "-r", file, "-Y", "icmp.type == 8", "-T", "fields"];
    words.extend(fields.iter().flat_map(|field| ["-e", field]));
    let read = |line: &str| {
        let words: Vec<&str> = line.split('\t').collect();
        let (seconds, rest) = words[2].split_once('.').unwrap();
        let ns = seconds.parse::<i64>().unwrap() * 1_000_000_000;
        let key = (words[0].to_owned(), words[1].parse().unwrap());
        (key, ns + format!("{rest:0<9}")[..9].parse::<i64>().unwrap())
    };
    tool(&words).lines().map(read).collect()
}

/// The latencies of an import, in the order of the first point.
fn imported(bench: &Bench, path: &Path, by: &str) -> Vec<Option<i64>> {
    let [before, after] = ["left", "right"].map(|side| format!("{}#{side}", path.display()));
    let runs = bench.root().join(format!("runs-{by}"));
    let words = [
        "import",
        &before,
        &after,
        "--by",
        by,
        "--runs",
        runs.to_str().unwrap(),
    ];
    let said = bench.latlab(&words).good();
    let other_way = format!("{PINGS} packets went the other way");
    assert!(said.err.contains(&other_way), "the replies: {said:?}");
    let run = fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    assert!(run.join("report.html").exists());
    let run = RunDir::open(run).unwrap();
    let place = run.inside(1, &RunDir::samples_name(1)).unwrap();
    let samples = SampleReader::open(place).unwrap().read_all().unwrap();
    samples.iter().map(|sample| sample.latency_ns).collect()
}

#[test]
fn captures_of_a_router_give_the_times_that_tshark_reads() {
    enter(
        "captures_of_a_router_give_the_times_that_tshark_reads",
        |bench| {
            let lab = bench.deploy("captured", LAB);
            let path = capture(bench, &lab, "routed.pcapng");
            let times = tshark(&path);
            let of = |side: &str, number| times[&(side.to_owned(), number)];
            let truth = (1..=PINGS).map(|number| Some(of("right", number) - of("left", number)));
            assert_eq!(imported(bench, &path, "packet"), truth.collect::<Vec<_>>());

            let nat = "nft add table ip nat; nft add chain ip nat out '{ type nat hook postrouting priority 100; }'; \
             nft add rule ip nat out oifname right masquerade";
            bench.exec(&lab, "router", &["sh", "-c", nat]).good();
            let path = capture(bench, &lab, "nat.pcapng");
            let times = tshark(&path);
            let of = |side: &str, number| times[&(side.to_owned(), number)];
            let truth = (1..=PINGS).map(|number| Some(of("right", number) - of("left", number)));
            assert_eq!(imported(bench, &path, "payload"), truth.collect::<Vec<_>>());

            let runs = bench.root().join("nothing");
            let file = path.to_str().unwrap();
            let import = |before: &str, after: &str| {
                let words = [before, after].map(|side| format!("{file}{side}"));
                let words = [
                    "import",
                    &words[0],
                    &words[1],
                    "--runs",
                    runs.to_str().unwrap(),
                ];
                bench.latlab(&words)
            };
            import("#left", "#right").refused(2, "no packet of", "behind NAT --by payload");
            import("", "#right").refused(2, "has packets of several interfaces", "FILE#NAME");
            import("#left", "#up").refused(2, "no packets of an interface `up`", "FILE#NAME");
            assert!(
                !runs.exists(),
                "nothing is made of captures that are refused"
            );
            bench.latlab(&["destroy", &lab]).good();
        },
    );
}
