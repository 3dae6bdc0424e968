//! Cards of a guest for the nodes of a lab in it: whole ones, and virtual functions of them. Only with
//! `LATLAB_TEST_GUEST=1`.

mod common;

use std::fs;
use std::path::Path;

use common::machine::Machine;
use common::{Bench, enter, guests, tool};

/// Joins the guest's two cards.
const SWITCH: &str = "    switch: {kind: native, exec: [\"ip link add br0 up type bridge\", \
    \"ip link set eth0 master br0\", \"ip link set eth1 master br0\"]}\n  \
    links: [{endpoints: [\"machine:eth0\", \"switch:eth0\"]}, {endpoints: [\"machine:eth1\", \"switch:eth1\"]}]\n";

/// Two cards of the guest as interfaces of nodes.
const WIRES: &str = "name: wires\ntopology:\n  nodes: {a: {kind: native}, b: {kind: native}}\n  links: [{type: phys, \
     endpoints: [\"a:lan0\", \"b:lan0\"], interfaces: [eth0, eth1], \
     subnets: [10.9.0.0/24]}]\n";

/// The kernel returns a card from a namespace that ends, under the name that it has there.
#[test]
fn cards_are_lent_and_returned_whatever_their_nodes_did() {
    const NAME: &str = "cards_are_lent_and_returned_whatever_their_nodes_did";
    if guests() {
        enter(NAME, |bench| {
            let machine = Machine::among(bench, "cards", "standard", None, SWITCH);
            machine.write("wires.yaml", WIRES);
            let refused = machine.try_sh("latlab deploy wires.yaml");
            let reason = "the host uses `eth0` of link `l0`: it has the address 198.18.0.1/24";
            assert!(refused.err.contains(reason), "{refused:#?}");
            machine.sh("for card in eth0 eth1; do ip address flush dev $card; done");
            let cards = "ip -br link show eth0; ip -br link show eth1; ip -o link show eth0 | grep -o 'mtu.*qdisc'";
            let before = machine.sh(cards);
            let steps = [
                "",
                // A node may do that.
                "latlab exec wires a -- sh -c 'ip link set lan0 down; ip link set lan0 name evil alias theirs mtu 1300'",
                // Their namespaces end, and the kernel is first.
                "umount run/wires/netns/a run/wires/netns/b",
                "latlab exec wires a -- ip link set lan0 name eth7; umount run/wires/netns/a",
            ];
            for step in steps {
                machine.sh(
                    "latlab deploy wires.yaml; latlab exec wires a -- ping -c 1 -W 10 10.9.0.2",
                );
                let gone = machine.sh("ip -br link");
                assert!(!gone.contains("eth"), "{gone}");
                machine.sh(step);
                let said = machine.try_sh("latlab destroy wires").good();
                assert!(!said.err.contains("is gone"), "{step}: {said:#?}");
                assert_eq!(machine.sh(cards), before, "{step}");
            }
            machine.end();
        });
    }
}

/// Two cards of Intel's 82576 with a cable between them, which QEMU 8 and later emulate.
const CARDS: &str = r#"case "$*" in *-name\ latlab-machine,*)
    set -- "$@" -netdev hubport,id=cable0,hubid=1 -netdev hubport,id=cable1,hubid=1 \
        -device pcie-root-port,id=slot0,slot=21,chassis=21 -device pcie-root-port,id=slot1,slot=22,chassis=22 \
        -device igb,bus=slot0,netdev=cable0,mac=02:00:00:00:01:01,romfile= \
        -device igb,bus=slot1,netdev=cable1,mac=02:00:00:00:01:02,romfile= ;;
esac
"#;

/// A network over two cards, and one within a card.
const FUNCTIONS: &str = "name: functions\ntopology:\n  nodes: {a: {kind: native}, b: {kind: container}, c: {kind: native}, \
    d: {kind: native}}\n  links:\n    \
    - {type: sriov, vlan: 401, spoof_check: false, trust: true, max_tx_rate: 100Mbit, endpoints: [\"a:lan0\", \"b:lan0\"], interfaces: [eth0, eth1], subnets: [10.9.0.0/24]}\n    \
    - {type: sriov, vlan: 402, endpoints: [\"c:lan0\", \"d:lan0\"], interfaces: [eth0, eth0], subnets: [10.8.0.0/24]}\n";

/// A path with a QEMU whose machine has [`CARDS`]; none where the installed one cannot emulate them.
fn path_with_cards(bench: &Bench) -> Option<String> {
    let version = tool(&["qemu-system-x86_64", "--version"]);
    let (_, version) = version.split_once("version ")?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    if major < 8 {
        return None;
    }
    let program = tool(&["sh", "-c", "command -v qemu-system-x86_64"]);
    let program = Path::new(program.trim());
    let directory = bench.root().join("qemu");
    let script = match fs::read_to_string(program) {
        // One that was unpacked somewhere, with its files below.
        Ok(script) => {
            let from = program.parent()?.display().to_string();
            tool(&["cp", "-a", &from, directory.to_str()?]);
            let script = script.replace(&from, directory.to_str()?);
            script.strip_prefix("#!/bin/sh\n")?.to_owned()
        }
        Err(_) => {
            fs::create_dir(&directory).unwrap();
            format!("exec {} \"$@\"\n", program.display())
        }
    };
    let wrapper = directory.join("qemu-system-x86_64");
    fs::write(&wrapper, format!("#!/bin/sh\n{CARDS}{script}")).unwrap();
    tool(&["chmod", "755", wrapper.to_str()?]);
    let path = std::env::var("PATH").unwrap_or_default();
    Some(format!("{}:{path}", directory.display()))
}

#[test]
fn virtual_functions_are_made_and_vanish() {
    const NAME: &str = "virtual_functions_are_made_and_vanish";
    if guests() {
        enter(NAME, |bench| match path_with_cards(bench) {
            Some(path) => virtual_functions(bench, &path),
            None => println!("skipped: the emulated card with SR-IOV (igb) is in QEMU 8 and later"),
        });
    }
}

/// All that a lab may change of the cards.
const CARDS_NOW: &str = "for card in eth0 eth1; do cat /sys/class/net/$card/device/sriov_numvfs; \
    ip -o link show $card | grep -o 'mtu [0-9]*'; cat /sys/class/net/$card/address; \
    ip -o link show up dev $card | wc -l; done; ls /sys/class/net /sys/bus/pci/devices";

fn virtual_functions(bench: &Bench, path: &str) {
    let machine = Machine::with_one_cpu(bench, "functions", "standard", path);
    machine.sh("modprobe igb; modprobe igbvf; ip link set eth1 up");
    machine.write("functions.yaml", FUNCTIONS);
    let before = machine.sh(CARDS_NOW);
    machine.sh("latlab deploy functions.yaml");
    machine.sh("latlab exec functions a -- ping -c 1 -W 10 10.9.0.2");
    machine.sh("latlab exec functions c -- ping -c 1 -W 10 10.8.0.2");
    // The card next door has the functions of both links.
    for (card, function, settings) in [
        (
            "eth0",
            0,
            [
                "vlan 401",
                "spoof checking off",
                "trust on",
                "max_tx_rate 100Mbps",
            ],
        ),
        (
            "eth0",
            1,
            [
                "vlan 402",
                "spoof checking on",
                "trust off",
                "link-state auto",
            ],
        ),
        (
            "eth1",
            0,
            [
                "vlan 401",
                "spoof checking off",
                "trust on",
                "max_tx_rate 100Mbps",
            ],
        ),
    ] {
        let shown = machine.sh(&format!("ip link show {card} | grep 'vf {function} '"));
        for setting in settings {
            assert!(shown.contains(setting), "{card}: {setting}: {shown}");
        }
    }
    // Frames stay on their VLAN, whatever address a node takes.
    machine.sh("latlab exec functions c -- ip address add 10.9.0.3/24 dev lan0");
    let said = machine.try_sh("latlab exec functions c -- ping -c 1 -W 2 10.9.0.2");
    assert_eq!(said.code, 1, "{said:#?}");
    machine.write(
        "second.yaml",
        &FUNCTIONS.replace("name: functions", "name: second"),
    );
    let second = machine.try_sh("latlab deploy second.yaml");
    second.refused(
        2,
        "`eth0` of the host belongs to lab `functions` already",
        "latlab destroy functions",
    );
    machine.sh("latlab destroy functions");
    assert_eq!(machine.sh(CARDS_NOW), before);

    machine.sh("echo 1 > /sys/class/net/eth0/device/sriov_numvfs");
    let others = machine.try_sh("latlab deploy functions.yaml");
    others.refused(
        2,
        "`eth0` cannot be divided: it is divided already (1)",
        "sriov_numvfs",
    );
    machine.sh("echo 0 > /sys/class/net/eth0/device/sriov_numvfs");

    let kills = std::env::var("LATLAB_TEST_KILLS").ok();
    let kills: u32 = kills.and_then(|number| number.parse().ok()).unwrap_or(1);
    for kill in 0..kills {
        let moment = f64::from(kill + 1) * 8.0 / f64::from(kills + 1);
        machine.sh(&format!(
            "latlab deploy functions.yaml > /dev/null 2>&1 & sleep {moment:.2}; kill -9 $!; wait; \
             latlab destroy --all -y"
        ));
        assert_eq!(machine.sh(CARDS_NOW), before, "killed after {moment:.2} s");
    }
    machine.end();
}
