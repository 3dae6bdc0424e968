//! `latlab forward` between two interfaces, in every way it has: what goes in on one side comes out on
//! the other and back, it says how much, and what it cannot do it refuses.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use common::{Bench, Said, enter, finished, signal, tool, until};

const PINGS: u64 = 20;

/// A network namespace, for as long as a process that sleeps is in it.
struct End(Child);

impl End {
    /// With one end of a link, of which the other is `name` here.
    fn new(name: &str, address: &str) -> End {
        let mut holder = Command::new("unshare");
        let holder = holder.args(["--net", "sleep", "1000"]).spawn().unwrap();
        let end = End(holder);
        let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
        until("the namespace is there", || of(&end.pid()) != of("self"));
        tool(&[
            "ip",
            "link",
            "add",
            name,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            &end.pid(),
        ]);
        tool(&["ip", "link", "set", name, "up"]);
        end.run(&["ip", "addr", "add", address, "dev", "eth0"]);
        end.run(&["ip", "link", "set", "eth0", "up"]);
        end
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn run(&self, words: &[&str]) -> String {
        let pid = self.pid();
        tool(&[&["nsenter", "-t", &pid, "-n"], words].concat())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The forwarder's final output, and its first.
fn forwarding(bench: &Bench, options: &[&str], meanwhile: impl FnOnce()) -> (String, Said) {
    let words = [&["forward", "in", "out"], options].concat();
    let mut command = bench.command(&words);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut began = String::new();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    said.read_line(&mut began).unwrap();
    meanwhile();
    signal(child.id(), "INT");
    (began, finished(child).good())
}

#[test]
fn every_method_forwards_frames_in_both_directions() {
    enter("every_method_forwards_frames_in_both_directions", |bench| {
        tool(&["ip", "link", "set", "lo", "up"]);
        bench.take_as_given();
        let near = End::new("in", "10.0.0.1/24");
        let _far = End::new("out", "10.0.0.2/24");
        for (by, how) in [
            ("af-packet", "packet sockets"),
            ("af-xdp", "AF_XDP sockets"),
            ("xdp", "XDP program"),
        ] {
            for wait in [&[][..], &["--block"]] {
                let options = [&["--by", by], wait].concat();
                let count = PINGS.to_string();
                let (began, said) = forwarding(bench, &options, || {
                    near.run(&["ping", "-q", "-c", &count, "-i", "0.01", "10.0.0.2"]);
                });
                assert!(began.contains(how), "{options:?}: {began}");
                if by == "xdp" {
                    assert!(said.out.contains("`ip -s link` counts"), "{said:?}");
                    continue;
                }
                let numbers: Vec<u64> = said
                    .out
                    .split_whitespace()
                    .filter_map(|word| word.parse().ok())
                    .collect();
                assert!(numbers[0] >= PINGS && numbers[1] >= PINGS, "{said:?}");
            }
        }
        for name in ["in", "out"] {
            tool(&["ip", "link", "del", name]);
        }
    });
}

#[test]
fn impossible_forwarding_is_refused() {
    enter("impossible_forwarding_is_refused", |bench| {
        let forward = |words: &[&str]| bench.latlab(&[&["forward"], words].concat());
        forward(&["lo", "lo"]).refused(2, "both are `lo`", "ip link");
        forward(&["lo", "nowhere"]).refused(2, "between lo and nowhere", "ip -d link");
        forward(&["lo", "nowhere", "--cpu", "x"]).refused(2, "no list of CPUs", "2-3");
        forward(&["lo", "nowhere", "--duration", "0s"]).refused(2, "is no time", "10s");
    });
}
