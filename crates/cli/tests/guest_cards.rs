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
const FUNCTIONS: &str = "name: functions\ntopology:\n  nodes: {a: {kind: native}, b: {kind: container}, c: {kind: native, cpuset: \"0\"}, \
    d: {kind: native}}\n  links:\n    \
    - {type: sriov, vlan: 401, spoof_check: false, trust: true, max_tx_rate: 100Mbit, endpoints: [\"a:lan0\", \"b:lan0\"], interfaces: [eth0, eth1], subnets: [10.9.0.0/24]}\n    \
    - {type: sriov, vlan: 402, endpoints: [\"c:lan0\", \"d:lan0\"], interfaces: [eth0, eth0], subnets: [10.8.0.0/24]}\n";

/// An IOMMU, which remaps interrupts too, and two cards behind a bridge that keeps them in one group.
const IOMMU: &str = r#"case "$*" in *-name\ latlab-machine,*)
    set -- -device intel-iommu,intremap=on "$@" -device pcie-pci-bridge,id=shared \
        -device e1000,bus=shared,addr=1,mac=02:00:00:00:01:03,romfile= -device e1000,bus=shared,addr=2,romfile= ;;
esac
"#;

/// A path with a QEMU whose machine has [`CARDS`] and `more`; none where the installed one cannot emulate them.
fn path_with_cards(bench: &Bench, more: &str) -> Option<String> {
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
    fs::write(&wrapper, format!("#!/bin/sh\n{CARDS}{more}{script}")).unwrap();
    tool(&["chmod", "755", wrapper.to_str()?]);
    let path = std::env::var("PATH").unwrap_or_default();
    Some(format!("{}:{path}", directory.display()))
}

#[test]
fn virtual_functions_are_made_and_vanish() {
    const NAME: &str = "virtual_functions_are_made_and_vanish";
    if guests() {
        enter(NAME, |bench| match path_with_cards(bench, "") {
            Some(path) => virtual_functions(bench, &path),
            None => println!("{NO_CARDS}"),
        });
    }
}

const NO_CARDS: &str = "skipped: the emulated card with SR-IOV (igb) is in QEMU 8 and later";

/// A lab is refused, among other things for this reason.
#[track_caller]
fn refuses(machine: &Machine<'_>, lab: &str, reason: &str, hint: &str) {
    let said = machine.try_sh(&format!("{WITH_KERNELS} deploy {lab}"));
    assert_eq!(said.code, 2, "{said:#?}");
    for part in [reason, hint] {
        assert!(said.err.contains(part), "{part}: {said:#?}");
    }
}

/// All that a lab may change of the cards: functions with their settings, names, addresses, drivers, interrupts.
const CARDS_NOW: &str = "for card in eth0 eth1; do cat /sys/class/net/$card/device/sriov_numvfs; \
    ip link show $card | grep -o 'mtu [0-9]*\\|vf .*'; cat /sys/class/net/$card/address; \
    readlink /sys/class/net/$card/device/driver; ip -o link show up dev $card | wc -l; \
    for number in $(ls /sys/class/net/$card/device/msi_irqs); do echo $number \
    $(grep \" $number:\" /proc/interrupts | grep -o '[^ ]*$' && cat /proc/irq/$number/smp_affinity_list); done; done; \
    ls /sys/class/net /sys/bus/pci/devices /sys/bus/pci/drivers/igbvf; grep -c : /proc/interrupts";

fn virtual_functions(bench: &Bench, path: &str) {
    let machine = Machine::with_cards(bench, "functions", "standard", path);
    machine.sh("for module in igb igbvf tun; do modprobe $module; done; ip link set eth1 up");
    machine.write("functions.yaml", FUNCTIONS);
    let before = machine.sh(CARDS_NOW);
    bad_machine_files(&machine);
    assert_eq!(machine.sh(CARDS_NOW), before);
    machine.write("both.yaml", BOTH);
    refuses(
        &machine,
        "both.yaml",
        "link `l0` gives functions to VMs by VFIO: the IOMMU is off",
        "intel_iommu=on iommu=pt",
    );
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
    // A function of `a` is free to use all, where there are several.
    let all = machine.sh("cat /sys/devices/system/cpu/online");
    for (function, cpus) in [(0, all.trim()), (1, "0")] {
        let affinity = machine.sh(&format!(
            "cd /proc/irq; for number in $(ls /sys/class/net/eth0/device/virtfn{function}/msi_irqs); do \
             cat $number/smp_affinity_list; done | sort -u"
        ));
        assert_eq!(affinity.trim(), cpus, "function {function}");
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

    // This driver has one queue, and sets no other number.
    let many = FUNCTIONS.replace("vlan: 402", "vlan: 402, queues: 2");
    machine.write("many.yaml", &many);
    let refused = machine.try_sh("latlab deploy many.yaml");
    assert_ne!(refused.code, 0, "{refused:#?}");
    assert!(
        refused.err.contains("its driver refuses 2 queues"),
        "{refused:#?}"
    );
    assert_eq!(machine.sh(CARDS_NOW), before);

    machine.sh("echo 1 > /sys/class/net/eth0/device/sriov_numvfs");
    let others = machine.try_sh("latlab deploy functions.yaml");
    others.refused(
        2,
        "`eth0` cannot be divided: it is divided already (1)",
        "sriov_numvfs",
    );
    machine.sh("echo 0 > /sys/class/net/eth0/device/sriov_numvfs");

    every_path_is_measured(&machine);
    assert_eq!(machine.sh(CARDS_NOW), before);
    a_line_is_measured(&machine);
    assert_eq!(machine.sh(CARDS_NOW), before);
    cards_take_the_times(&machine);
    assert_eq!(machine.sh(CARDS_NOW), before);

    machine.write("figure.yaml", FIGURE);
    if is_by_hand() {
        let told = machine.sh(&format!(
            "time -p env {WITH_MACHINE} deploy figure.yaml 2>&1"
        ));
        println!("client, device and server in functions of two cards: {told}");
        machine.sh(
            "latlab exec functions client -- ping -c 3 -W 10 10.0.2.1; latlab destroy functions",
        );
        assert_eq!(machine.sh(CARDS_NOW), before);
    }
    let kills = std::env::var(KILLS).ok();
    let kills: u32 = kills.and_then(|number| number.parse().ok()).unwrap_or(1);
    for kill in 0..kills {
        let moment = f64::from(kill + 1) * 8.0 / f64::from(kills + 1);
        let lab = ["figure.yaml", "functions.yaml"][kill as usize % 2];
        machine.sh(&format!(
            "{WITH_MACHINE} deploy {lab} > /dev/null 2>&1 & sleep {moment:.2}; kill -9 $!; wait; \
             latlab destroy --all -y"
        ));
        let after = machine.sh(CARDS_NOW);
        assert_eq!(after, before, "{lab} killed after {moment:.2} s");
    }
    machine.end();
}

/// The guest's ports under names of their own, and a claim for each mistake.
const MACHINE: &str = "ports:\n  left: {pci: \"01:00.0\", functions: 7}\n  right: {pci: \"02:00.0\"}\ncables: [[left, right]]\n";
const CLAIMS: &str = "ports:\n  left: {pci: \"01:00.0\", functions: 8, vfio: true}\n  right: {pci: \"02:00.0\"}\n  \
    third: {pci: \"09:00.0\"}\ncables: [[left, right]]\nhugepages: 64MiB\n";

const WITH_MACHINE: &str = "LATLAB_MACHINE=/run/labs/machine.yaml latlab";

/// Refused by `validate`, and before any change by a lab that asks for a wire.
fn bad_machine_files(machine: &Machine<'_>) {
    machine.write("claims.yaml", CLAIMS);
    let told = |line: &str, parts: &[&str]| {
        let said = machine.try_sh(line);
        for part in parts {
            let is_told = said.code == 2 && said.err.contains(part);
            assert!(is_told, "{part}: {said:#?}");
        }
    };
    let claims = [
        "port `left` has 7 virtual functions, and `functions` is 8",
        "port `left` cannot be given by VFIO: the IOMMU is off",
        "intel_iommu=on iommu=pt",
        "port `third`: this machine has no device 0000:09:00.0 on its PCI bus",
        "0000:01:00.0 (eth0), 0000:02:00.0 (eth1)",
        "`hugepages` is 64MiB, and the machine has reserved 0B",
        "sysctl vm.nr_hugepages=32",
    ];
    told("latlab validate claims.yaml", &claims);
    machine.write("machine.yaml", MACHINE);
    machine.write("wire.yaml", WIRE);
    let unnamed = "asks for a wire, and no file names one of this machine";
    told(
        "latlab deploy wire.yaml",
        &[unnamed, "/etc/latlab/machine.yaml"],
    );
    machine.sh("ip route add default dev eth1");
    let way_in = "the host uses `eth1`, port `right`: the default route leaves by it";
    let otherwise = "name a port that nothing uses";
    told("latlab validate machine.yaml", &[way_in, otherwise]);
    let deploy = format!("{WITH_MACHINE} deploy wire.yaml");
    told(&deploy, &[way_in, "free one, or name `interfaces`"]);
    machine.sh("ip route del default; latlab validate machine.yaml");
}

const WIRE: &str = "name: wire\ntopology:\n  nodes: {a: {kind: native}, b: {kind: native}}\n  \
    links: [{type: phys, endpoints: [\"a:lan0\", \"b:lan0\"]}]\n";

/// The study that comes with latlab, in little.
fn every_path_is_measured(machine: &Machine<'_>) {
    // The line has taps too, which take most of the time.
    let (taps, measurements) = match is_by_hand() {
        true => ("", 3),
        false => ("/taps/d; ", 2),
    };
    machine.sh(&format!(
        "latlab studies hardware | sed '{taps}s/duration: 2s/duration: 200ms, warmup: 20ms/; s/rate: 1000/rate: 200/' > hardware.yaml"
    ));
    let said = machine.long_sh(&format!("{WITH_MACHINE} run hardware.yaml --replicates 1"));
    let whole = "the machine (QEMU, software emulation)";
    let cards = "card eth0 (igb, by QEMU), card eth1 (igb, by QEMU)";
    let words = said.replace("\n  ", " ");
    assert!(
        words.contains(&format!("~ emulated: {whole}, {cards}")),
        "{said}"
    );
    let summary = machine.sh("cat runs/hardware-*/summary.json");
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let cells = summary["cells"].as_array().unwrap();
    assert_eq!(cells.len(), measurements * 6);
    for cell in cells {
        let id = cell["id"].as_str().unwrap();
        let samples = cell["latency"]["samples"].as_u64();
        assert!(samples.is_some_and(|samples| samples > 0), "{id}: {said}");
        let named = cell["environment"]["emulation"].as_array().unwrap();
        let on_cards = id.contains("type=sriov") || id.contains("type=phys");
        assert_eq!(named.len(), if on_cards { 3 } else { 1 }, "{id}: {named:?}");
        assert_eq!(cell["environment"]["emulated"], true, "{id}");
    }
    let verdicts = said.matches("too few replicates ~").count();
    assert_eq!(verdicts, measurements * 5, "{said}");
}

/// Client, two forwarders, server: containers on functions of one cable, each link in its VLAN.
const LINE: &str = "name: line
lab:
  name: line
  topology:
    nodes:
      client: {kind: container, exec: ip route add 10.0.0.0/16 via 10.0.1.254}
      first: {kind: container, exec: [echo 1 > /proc/sys/net/ipv4/ip_forward, ip route add 10.0.3.0/24 via 10.0.2.2]}
      second: {kind: container, exec: [echo 1 > /proc/sys/net/ipv4/ip_forward, ip route add 10.0.1.0/24 via 10.0.2.1]}
      server: {kind: container, exec: ip route add 10.0.0.0/16 via 10.0.3.254}
    links:
      - {type: sriov, vlan: 401, endpoints: [{node: client, interface: eth0, ipv4: 10.0.1.1/24}, {node: first, interface: left, ipv4: 10.0.1.254/24}]}
      - {type: sriov, vlan: 402, endpoints: [{node: first, interface: right, ipv4: 10.0.2.1/24}, {node: second, interface: left, ipv4: 10.0.2.2/24}]}
      - {type: sriov, vlan: 403, endpoints: [{node: second, interface: right, ipv4: 10.0.3.254/24}, {node: server, interface: eth0, ipv4: 10.0.3.1/24}]}
measurements:
  - {name: taps, probe: forward, from: client, to: server, through: [first, second], rate: 200, duration: 300ms}
replicates: 1
";

fn a_line_is_measured(machine: &Machine<'_>) {
    machine.write("line.yaml", LINE);
    machine.long_sh(&format!("{WITH_MACHINE} run line.yaml"));
    let told = machine.sh("latlab explain runs/line-*");
    assert!(told.contains("first") && told.contains("second"), "{told}");
}

/// The clocks of the cards are an hour apart.
const STAMPED: &str = "name: stamped
lab:
  name: stamped
  topology:
    nodes: {a: {kind: container}, b: {kind: native}}
    links: [{type: phys, timestamps: hardware, endpoints: [\"a:lan0\", \"b:lan0\"], interfaces: [eth0, eth1]}]
measurements:
  - {name: cards, probe: packets, timestamps: hardware, from: a, to: b, rate: 20, duration: 1s}
replicates: 1
";

const SET_APART: &str = "import os, time; clock = os.open('/dev/ptp1', os.O_RDWR); \
    time.clock_settime((~clock << 3) | 3, time.time() + 3600)";

/// Which packets both cards stamp, as `struct hwtstamp_config` has it.
const STAMPING: &str = "import array, fcntl, socket, struct\nfor name in b'eth0', b'eth1':\n \
    words = array.array('i', [0] * 3)\n request = struct.pack('16sP16x', name, words.buffer_info()[0])\n \
    fcntl.ioctl(socket.socket(), 0x89b1, request)\n print(list(words))";

/// A card stamps a received packet when the stamp before it was read. That of the 82576 was read when the driver has its
/// upper half; QEMU waits for RXSATRH instead, which no driver reads.
const UNLATCH: &str = "import ctypes, mmap, os, time\ncards = []\nfor card in '01', '02':\n \
    bar = os.open('/sys/bus/pci/devices/0000:' + card + ':00.0/resource0', os.O_RDWR)\n \
    cards.append(mmap.mmap(bar, 0x20000))\nwhile True:\n time.sleep(0.002)\n \
    for card in cards:\n  ctypes.c_uint32.from_buffer(card, 0xb630).value\n";

fn cards_take_the_times(machine: &Machine<'_>) {
    let python = |program: &str| machine.sh(&format!("python3 -c \"{program}\""));
    let stamping = python(STAMPING);
    assert_eq!(stamping.trim(), "[0, 0, 0]\n[0, 0, 0]");
    python(SET_APART);
    machine.write("stamped.yaml", STAMPED);
    machine.write("unlatch.py", UNLATCH);
    machine.sh("python3 unlatch.py > unlatch.log 2>&1 & echo $! > unlatch.pid");
    machine.long_sh("latlab run stamped.yaml || { cat unlatch.log; false; }");
    machine.sh("kill $(cat unlatch.pid)");
    assert_eq!(python(STAMPING), stamping);
    let trial = machine.sh("cat runs/stamped-*/trials/0001/trial.json");
    let trial: serde_json::Value = serde_json::from_str(&trial).unwrap();
    let counters = &trial["counters"];
    assert_eq!(
        (&counters["sent"], &counters["lost"]),
        (&20.into(), &0.into()),
        "{trial}"
    );
    let error_ns = trial["clock"]["error_ns"].as_i64().unwrap();
    let summary = machine.sh("cat runs/stamped-*/summary.json");
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let spread = &summary["trials"][0]["spread_ns"];
    println!("    the cards' clocks are known to {error_ns} ns: {spread}");
    // The hour is gone, and no packet arrives before it was sent by more than the clocks' error.
    let (least, most) = (
        spread["min"].as_f64().unwrap(),
        spread["max"].as_f64().unwrap(),
    );
    assert!(
        least >= -(error_ns as f64) && most < 60e9,
        "{error_ns}: {spread}"
    );
}

/// Client, device under test and server, on a cable of the machine.
const FIGURE: &str = include_str!("../../../labs/functions.yaml");

/// More of a test that takes longer is asked for by this variable.
const KILLS: &str = "LATLAB_TEST_KILLS";

fn is_by_hand() -> bool {
    std::env::var_os(KILLS).is_some()
}

/// A VM with a function and a whole port, which the hub joins to another function.
const BOTH: &str = "name: both\ntopology:\n  nodes: {n: {kind: native}, m: {kind: native}, v: {kind: vm, memory: 192MiB}}\n  \
    links:\n    \
    - {type: sriov, vm: vfio, vlan: 401, endpoints: [\"n:lan0\", \"v:lan0\"], interfaces: [eth0, eth0], subnets: [10.9.0.0/24]}\n    \
    - {type: sriov, endpoints: [{node: m, interface: lan0, addresses: [10.7.0.1/24]}], interfaces: [eth0]}\n    \
    - {type: passthrough, endpoints: [{node: v, interface: lan1, addresses: [10.7.0.2/24]}], interfaces: [eth1]}\n";

/// A program in a VM that drives the same, and answers pings.
const ECHO: &str = "name: echo\ntopology:\n  nodes: {n: {kind: native}, m: {kind: native}, \
    v: {kind: vm, memory: 256MiB, dpdk: {hugepages: 64MiB, driver: vfio}}}\n  \
    links:\n    \
    - {type: sriov, vm: vfio, vlan: 401, endpoints: [{node: n, interface: lan0, addresses: [10.9.0.1/24]}, \"v:lan0\"], interfaces: [eth0, eth0]}\n    \
    - {type: sriov, endpoints: [{node: m, interface: lan0, addresses: [10.7.0.1/24]}], interfaces: [eth0]}\n    \
    - {type: passthrough, endpoints: [\"v:lan1\"], interfaces: [eth1]}\n";

/// Reading all drivers of DPDK would take such a VM a quarter of an hour, so it has those that are needed.
const ANSWER: &str = "latlab exec echo v -- sh -c 'all=$(echo /usr/lib/*/dpdk/pmds-*); mkdir /tmp/few; \
    cp $(ldd /usr/bin/dpdk-testpmd | grep -o \"/[^ ]*/pmds-[^ ]*\") \
    $all/librte_mempool_ring.so.*.* $all/librte_net_e1000.so.*.* /tmp/few; mount --bind /tmp/few $all; \
    setsid dpdk-testpmd $LATLAB_DPDK_EAL \"--lcores=(0,1)@0\" -- --auto-start --nb-cores=1 --forward-mode=icmpecho \
    --total-num-mbufs=4096 --stats-period=5 < /dev/null > /tmp/log 2>&1 &'";

/// testpmd between two functions, which take frames for their own addresses only.
const TESTPMD: &str = "name: testpmd
topology:
  nodes:
    client: {kind: native, exec: ip route add 10.88.0.2 dev eth0}
    device: {kind: container, dpdk: {hugepages: 64MiB, driver: vfio}}
    server: {kind: native, exec: ip route add 10.77.0.1 dev eth0}
  links:
    - {type: sriov, vlan: 7, interfaces: [eth0, eth0], endpoints: [
        {node: client, interface: eth0, mac: \"02:00:00:00:09:01\", addresses: [10.77.0.1/24]},
        {node: device, interface: in, mac: \"02:00:00:00:09:11\"}]}
    - {type: sriov, vlan: 8, interfaces: [eth0, eth0], endpoints: [
        {node: device, interface: out, mac: \"02:00:00:00:09:12\"},
        {node: server, interface: eth0, mac: \"02:00:00:00:09:02\", addresses: [10.88.0.2/24]}]}
";

const FORWARD: &str = "latlab exec testpmd client -- ip neighbour add 10.88.0.2 lladdr 02:00:00:00:09:11 dev eth0; \
    latlab exec testpmd server -- ip neighbour add 10.77.0.1 lladdr 02:00:00:00:09:12 dev eth0; \
    latlab exec --detach testpmd device -- sh -c 'exec dpdk-testpmd $LATLAB_DPDK_EAL \"--lcores=(0,1)@0\" \
    -- --auto-start --nb-cores=1 --forward-mode=mac --eth-peer=0,02:00:00:00:09:01 --eth-peer=1,02:00:00:00:09:02 \
    --total-num-mbufs=4096 --stats-period=1'";

/// The same as a device under test.
const MEASURED: &str = "measurements:\n  - {name: ports, probe: forward, device: testpmd, from: client, to: server, \
    through: device, rate: 100, duration: 1s}\nreplicates: 1\n";

#[test]
fn virtual_functions_and_ports_are_driven_by_their_nodes() {
    const NAME: &str = "virtual_functions_and_ports_are_driven_by_their_nodes";
    if guests() {
        enter(NAME, |bench| match path_with_cards(bench, IOMMU) {
            Some(path) => driven_by_nodes(bench, &path),
            None => println!("{NO_CARDS}"),
        });
    }
}

const WITH_KERNELS: &str = "LATLAB_CACHE_DIR=/run/kernels LATLAB_BOOT_TIMEOUT=900 latlab";

/// All that a lab may change of cards that it gives by VFIO.
const DRIVERS_NOW: &str = "for card in 0000:01:00.0 0000:02:00.0; do at=/sys/bus/pci/devices/$card; \
    readlink $at/driver; cat $at/driver_override $at/reset_method; ls $at/net; done; ip -o link show eth1 | grep -o 'mtu.*'; \
    ls /sys/bus/pci/drivers/vfio-pci /dev/vfio; cat /proc/sys/vm/nr_hugepages";

fn driven_by_nodes(bench: &Bench, path: &str) {
    let machine = Machine::with_iommu(bench, "driven", "standard", path);
    machine.sh("for module in igb igbvf e1000 vfio_pci tun overlay; do modprobe $module; done");
    // The kernels of the host's cache: the guest has no network.
    machine.sh(
        "mkdir -p /run/above/new /run/above/work /run/kernels; \
         mount -t overlay -o lowerdir=/run/cache,upperdir=/run/above/new,workdir=/run/above/work none /run/kernels",
    );
    machine.sh("ip link set eth1 mtu 1400; ip link set eth1 alias mine; ip link set eth1 up");
    let now = format!("{CARDS_NOW}; {DRIVERS_NOW}");
    let before = machine.sh(&now);
    machine.write("both.yaml", BOTH);
    machine.write("testpmd.yaml", TESTPMD);
    refused_before_any_change(&machine);
    assert_eq!(machine.sh(&now), before);
    forwarded_by_dpdk(&machine);
    assert_eq!(machine.sh(&now), before);
    driven_by_a_vm(&machine, &now, &before);
    if is_by_hand() {
        driven_by_dpdk_in_a_vm(&machine);
        assert_eq!(machine.sh(&now), before);
    }
    machine.end();
}

fn refused_before_any_change(machine: &Machine<'_>) {
    let refused = |interface: &str, reason: &str, hint: &str| {
        let port = format!(
            "name: port\ntopology:\n  nodes: {{v: {{kind: vm}}}}\n  \
             links: [{{type: passthrough, endpoints: [\"v:eth0\"], interfaces: [{interface}]}}]\n"
        );
        machine.write("port.yaml", &port);
        refuses(machine, "port.yaml", reason, hint);
    };
    let shared = machine.sh("grep -l 02:00:00:00:01:03 /sys/class/net/*/address | cut -d/ -f5");
    let reason = "is in an IOMMU group with 0000:03:02.0, and a group is given as a whole";
    refused(shared.trim(), reason, "another slot");
    let claim = format!(
        "ports: {{third: {{interface: {}, vfio: true}}}}\n",
        shared.trim()
    );
    machine.write("claim.yaml", &claim);
    let said = machine.try_sh("latlab validate claim.yaml");
    let reason = "port `third` cannot be given by VFIO: its IOMMU group has 0000:03:02.0 too";
    assert!(said.code == 2 && said.err.contains(reason), "{said:#?}");
    refused("eth7", "is not an interface of this machine", "eth");
    refused("lo", "the host uses `lo`", "choose one that nothing uses");
    machine.sh("ip address add 192.0.2.1/24 dev eth1");
    let reason = "it has the address 192.0.2.1/24";
    refused("eth1", reason, "choose one that nothing uses");
    machine.sh(
        "ip address del 192.0.2.1/24 dev eth1; echo 1 > /sys/class/net/eth1/device/sriov_numvfs",
    );
    refused(
        "eth1",
        "it is divided into virtual functions",
        "sriov_numvfs",
    );
    machine.sh("echo 0 > /sys/class/net/eth1/device/sriov_numvfs");
    // An administrator may take all ways from a device.
    machine.sh("echo > /sys/class/net/eth1/device/reset_method");
    refused(
        "eth1",
        "the kernel knows no way to reset",
        "write `default`",
    );
    machine.write(
        "reset.yaml",
        "ports: {right: {pci: \"02:00.0\", vfio: true, reset: flr}}\n",
    );
    let said = machine.try_sh("latlab validate reset.yaml");
    for part in [
        "no way to reset it",
        "cannot be reset, and `reset` is `flr`",
    ] {
        assert!(said.code == 2 && said.err.contains(part), "{said:#?}");
    }
    machine
        .sh("echo default > /sys/class/net/eth1/device/reset_method; latlab validate reset.yaml");
}

/// The files of VFIO for these devices, in the order of `ls`.
fn files_of(machine: &Machine<'_>, devices: &str) -> String {
    machine.sh(&format!(
        "(for device in {devices}; do basename $(readlink /sys/bus/pci/devices/$device/iommu_group); done; echo vfio) | LC_ALL=C sort"
    ))
}

fn forwarded_by_dpdk(machine: &Machine<'_>) {
    machine.sh("latlab deploy testpmd.yaml");
    let seen = machine
        .sh("latlab exec testpmd device -- sh -c 'LC_ALL=C ls /dev/vfio; grep -c : /proc/net/dev'");
    // No other group, and no interface but that of the loopback.
    let functions = "0000:01:10.2 0000:01:10.4";
    assert_eq!(seen, files_of(machine, functions) + "1\n");
    let arguments = machine.sh("latlab exec testpmd device -- sh -c 'echo $LATLAB_DPDK_EAL'");
    assert!(
        arguments.ends_with("--allow=0000:01:10.2 --allow=0000:01:10.4\n"),
        "{arguments}"
    );
    machine.sh(FORWARD);
    let ping = "latlab exec testpmd client -- ping -c 3 -i 0.3 -W 5 10.88.0.2";
    let reached = (0..10).any(|_| machine.try_sh(ping).code == 0);
    let said = "cat run/testpmd/nodes/device/output/*; true";
    assert!(reached, "{}", machine.sh(said));
    machine.sh("latlab destroy testpmd");
    let lab = TESTPMD.replace('\n', "\n  ");
    let study = format!("name: measured\nlab:\n  {}\n{MEASURED}", lab.trim_end());
    machine.write("measured.yaml", &study);
    machine.long_sh("latlab run measured.yaml");
    let manifest = machine.sh("cat runs/measured-*/manifest.json");
    let path = "in out by vfio, past the kernel and its taps";
    assert!(manifest.contains(path), "{manifest}");
    let samples = machine.sh("find runs/measured-*/trials -name '*.parquet' -size +0 | wc -l");
    assert_ne!(samples.trim(), "0");
}

/// The boot of a VM in an emulated machine takes most of a minute, so one VM has a function and a port.
fn driven_by_a_vm(machine: &Machine<'_>, now: &str, before: &str) {
    let latlab = WITH_KERNELS;
    // The emulated CPU has SVM, with which a guest boots in a third of the time of emulation within emulation. But it
    // misses the bound of the proof.
    machine.sh("modprobe kvm_amd || true");
    machine.long_sh(&format!(
        "{latlab} deploy --dry-run both.yaml > plan.json; test ! -e /dev/kvm || sed -i s/tcg/kvm/ /run/kernels/accelerator.json"
    ));
    let trace = "/sys/kernel/tracing";
    machine.sh(&format!(
        "echo p:reset pci_reset_function > {trace}/kprobe_events; echo 1 > {trace}/events/kprobes/reset/enable"
    ));
    for moment in [2, 6] {
        machine.sh(&format!(
            "{latlab} deploy both.yaml > /dev/null 2>&1 & sleep {moment}; kill -9 $!; wait; {latlab} destroy --all -y"
        ));
        assert_eq!(machine.sh(now), before, "killed after {moment} s");
    }
    machine.long_sh(&format!("{latlab} deploy both.yaml"));
    machine.sh("latlab exec both n -- ping -c 3 -W 20 10.9.0.2");
    machine.sh("latlab exec both m -- ping -c 3 -W 20 10.7.0.2");
    let addresses = machine
        .sh("latlab exec both v -- sh -c 'cd /sys/class/net; cat lan0/address lan1/address'");
    let plan: serde_json::Value = serde_json::from_str(&machine.sh("cat plan.json")).unwrap();
    let planned = plan["nodes"][2]["interfaces"].as_array().unwrap().iter();
    let planned: String = planned
        .map(|i| format!("{}\n", i["mac"].as_str().unwrap()))
        .collect();
    assert_eq!(addresses, planned);
    // QEMU has the files of its two groups, locks no more than its guest needs, and keeps no capability.
    let qemu = machine
        .sh("pgrep -f '^qemu-system-x86_64.*latlab-v'")
        .trim()
        .to_owned();
    let seen = machine.sh(&format!("LC_ALL=C ls /proc/{qemu}/root/dev/vfio"));
    assert_eq!(seen, files_of(machine, "0000:01:10.2 0000:02:00.0"));
    let limit = machine.sh(&format!(
        "grep 'Max locked memory' /proc/{qemu}/limits; grep CapPrm /proc/{qemu}/status"
    ));
    let bytes = (192 + 64) << 20;
    assert!(
        limit.contains(&format!(" {bytes} ")) && limit.contains("0000000000000000"),
        "{limit}"
    );
    machine.sh(&format!("kill -9 {qemu}"));
    let resets = || machine.sh(&format!("grep -c 'reset: (' {trace}/trace; true"));
    let earlier = resets();
    machine.sh("latlab destroy both");
    assert_eq!(machine.sh(now), before);
    assert_ne!(resets(), earlier, "the port is reset when it is given back");
}

/// Beyond what a run of the tests has the time for: another boot in an emulated machine.
fn driven_by_dpdk_in_a_vm(machine: &Machine<'_>) {
    machine.write("echo.yaml", ECHO);
    machine.long_sh(&format!("{WITH_KERNELS} deploy echo.yaml"));
    machine.sh(ANSWER);
    let ask = "latlab exec echo v -- sh -c 'for i in $(seq 60); do \
        grep -q \"packet forwarding\" /tmp/log && break; sleep 1; done; cat /tmp/log'";
    let has_begun = |said: &String| said.contains("packet forwarding");
    let said = (0..10).map(|_| machine.sh(ask)).find(has_begun);
    assert!(said.is_some(), "{}", machine.sh(ask));
    for ping in [
        "n -- ping -c 3 -W 20 10.9.0.2",
        "m -- ping -c 3 -W 20 10.7.0.2",
    ] {
        machine.sh(&format!("latlab exec echo {ping}"));
    }
    machine.sh("latlab destroy echo");
}
