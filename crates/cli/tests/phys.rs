//! Interfaces of the host that nodes have for a while: everything of them is as before afterwards. Here they are two
//! ends of a veth pair, in a guest cards with a device (`guest_cards`); `kill` kills latlab meanwhile.

mod common;

use common::{Bench, enter, enter_with_vms, tool};

const LAB: &str = "name: NAME\ntopology:\n  nodes: {a: {kind: native}, b: {kind: container}}\n  links:\n    \
                   - {type: phys, mtu: 1600, endpoints: [\"a:eth0\", \"b:lan0\"], interfaces: [nic0, nic1]}\n    \
                   - {endpoints: [\"a:eth1\", \"b:eth1\"]}\n";

fn pair(bench: &Bench) {
    tool(&[
        "ip", "link", "add", "nic0", "mtu", "9000", "type", "veth", "peer", "name", "nic1", "mtu",
        "1400",
    ]);
    tool(&["ip", "link", "set", "nic0", "up", "alias", "the left one"]);
    bench.take_as_given();
}

fn ip(bench: &Bench, lab: &str, node: &str, words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    bench.exec(lab, node, &words).good().out
}

#[test]
fn interfaces_of_the_host_are_lent_and_returned_as_they_were() {
    enter(
        "interfaces_of_the_host_are_lent_and_returned_as_they_were",
        |bench| {
            pair(bench);
            for _ in 0..2 {
                let lab = bench.deploy("wires", LAB);
                assert!(
                    !tool(&["ip", "link"]).contains("nic"),
                    "the host has them yet"
                );
                ip(bench, &lab, "a", "ping -c 1 -W 5 198.18.0.2");
                ip(bench, &lab, "b", "ping -c 1 -W 5 -s 1572 -M do 198.18.0.1");
                let shown = ip(bench, &lab, "b", "ip link show lan0");
                assert!(
                    shown.contains("mtu 1600") && shown.contains("alias latlab:"),
                    "{shown}"
                );
                bench.latlab(&["destroy", &lab]).good();
                bench.assert_clean();
            }
        },
    );
}

#[test]
fn a_measurement_goes_over_them() {
    enter("a_measurement_goes_over_them", |bench| {
        pair(bench);
        let text = format!(
            "name: over-wires\nlab:\n{}factors:\n  link: {{path: topology.links.0, levels: {{\
             nics: {{type: phys, endpoints: [\"a:eth0\", \"b:lan0\"], interfaces: [nic0, nic1]}}, \
             veth: {{endpoints: [\"a:eth0\", \"b:lan0\"]}}}}}}\nmeasurements:\n  \
             - {{name: rr, probe: rr, protocol: udp, from: a, to: b, duration: 100ms}}\nreplicates: 2\n",
            LAB.lines()
                .map(|line| format!("  {line}\n"))
                .collect::<String>()
        );
        let study = bench.file("study", &text);
        let runs = bench.root().join("runs").display().to_string();
        let said = bench.latlab(&["run", &study, "--runs", &runs]).good();
        assert!(
            said.out.contains("nics") && said.out.contains("veth"),
            "{said:#?}"
        );
        bench.assert_clean();
    });
}

/// A device under test, behind an interface of the host.
const DEVICE: &str = "name: device\nlab:\n  name: NAME\n  topology:\n    nodes: {client: {kind: native}, device: {kind: native}, \
                      server: {kind: native}}\n    links:\n      \
                      - {type: phys, endpoints: [\"client:eth0\", \"device:eth0\"], interfaces: [nic0, nic1]}\n      \
                      - {endpoints: [\"device:eth1\", \"server:eth0\"]}\nmeasurements:\n  \
                      - {name: bridge, probe: forward, device: bridge, from: client, through: device, to: server, \
                      rate: 2000, duration: 200ms}\nreplicates: 1\n";

#[test]
fn packets_are_timed_by_taps_and_explained() {
    enter("packets_are_timed_by_taps_and_explained", |bench| {
        pair(bench);
        let study = bench.file("device", DEVICE);
        let runs = bench.root().join("runs").display().to_string();
        let said = bench.latlab(&["run", &study, "--runs", &runs]).good();
        assert!(said.out.contains("bridge"), "{said:#?}");
        let run = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap();
        let said = bench
            .latlab(&["explain", run.path().to_str().unwrap()])
            .good();
        assert!(said.out.contains("µs"), "{said:#?}");
        bench.assert_clean();
    });
}

#[test]
fn a_vm_has_all_frames_of_an_interface() {
    enter_with_vms("a_vm_has_all_frames_of_an_interface", |bench| {
        pair(bench);
        let text = LAB.replace(
            "b: {kind: container}",
            "b: {kind: vm, memory: 256MiB, start: clone}",
        );
        let lab = bench.deploy("wires", &text);
        ip(bench, &lab, "a", "ping -c 2 -W 10 198.18.0.2");
        ip(bench, &lab, "a", "ping -6 -c 1 -W 10 fd4c:61:62::2");
        ip(bench, &lab, "b", "ping -c 1 -W 10 -s 1572 -M do 198.18.0.1");
        bench.latlab(&["destroy", &lab]).good();
        bench.assert_clean();
    });
}

#[test]
fn an_interface_in_use_or_of_another_lab_is_refused() {
    enter(
        "an_interface_in_use_or_of_another_lab_is_refused",
        |bench| {
            pair(bench);
            tool(&["ip", "address", "add", "192.0.2.1/24", "dev", "nic1"]);
            let file = bench.file("wires", LAB);
            let used = bench.latlab(&["deploy", &file]);
            assert_eq!(used.code, 2, "{used:#?}");
            let reason = "the host uses `nic1` of link `l0`: it has the address 192.0.2.1/24";
            assert!(used.err.contains(reason), "{used:#?}");
            tool(&["ip", "address", "flush", "dev", "nic1"]);
            tool(&[
                "ip", "link", "add", "link", "nic1", "name", "above", "type", "macvlan",
            ]);
            let used = bench.latlab(&["deploy", &file]);
            assert!(
                used.err.contains("`above` is made on top of it"),
                "{used:#?}"
            );
            tool(&["ip", "link", "delete", "above"]);
            bench.assert_clean();

            bench.latlab(&["deploy", &file]).good();
            let other = bench.latlab(&["deploy", &bench.file("other", LAB)]);
            assert_eq!(other.code, 2, "{other:#?}");
            assert!(
                other.err.contains("is not an interface of this machine"),
                "{other:#?}"
            );
            bench.latlab(&["destroy", "--all", "-y"]).good();
            bench.assert_clean();
            bench.deploy("other", LAB);
            bench.latlab(&["destroy", "--all", "-y"]).good();
            bench.assert_clean();
        },
    );
}

#[test]
fn two_labs_at_once_do_not_get_the_same_interface() {
    enter("two_labs_at_once_do_not_get_the_same_interface", |bench| {
        pair(bench);
        let files = ["one", "other"].map(|lab| bench.file(lab, LAB));
        for _ in 0..5 {
            let mut both: Vec<_> = files
                .iter()
                .map(|file| {
                    let mut command = bench.command(&["deploy", file]);
                    command.stdout(std::process::Stdio::piped());
                    command
                        .stderr(std::process::Stdio::piped())
                        .spawn()
                        .unwrap()
                })
                .collect();
            let both = [both.remove(0), both.remove(0)].map(common::finished);
            let good = both.iter().filter(|said| said.code == 0).count();
            assert_eq!(good, 1, "{both:#?}");
            bench.latlab(&["destroy", "--all", "-y"]).good();
            bench.assert_clean();
        }
    });
}

#[test]
fn a_lab_goes_without_an_interface_that_was_deleted() {
    enter(
        "a_lab_goes_without_an_interface_that_was_deleted",
        |bench| {
            bench.take_as_given();
            tool(&[
                "ip", "link", "add", "nic0", "type", "veth", "peer", "name", "nic1",
            ]);
            let lab = bench.deploy("wires", LAB);
            ip(bench, &lab, "a", "ip link delete eth0");
            let said = bench.latlab(&["destroy", &lab]).good();
            for (name, node) in [("nic0", "a"), ("nic1", "b")] {
                let told =
                    format!("interface `{name}` of the host, which node `{node}` had, is gone");
                assert!(said.err.contains(&told), "{said:#?}");
            }
            bench.assert_clean();
        },
    );
}
