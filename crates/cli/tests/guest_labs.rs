//! Labs deployed by a latlab inside a guest, which provides a different machine: four CPUs, cgroups of either
//! version, and optionally two NUMA nodes. Only with `LATLAB_TEST_GUEST=1`.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::machine::Machine;
use common::{Bench, enter, guests, tool};
use latlab_model::plan::{Blueprint, NodePlace};
use latlab_model::units::CpuList;

/// Two labs that each isolate a CPU.
struct Two<'m> {
    machine: &'m Machine<'m>,
    /// The mount point of the quiet CPUs' cgroups.
    groups: &'static str,
}

/// The CPU of each.
const LABS: [(&str, u32); 2] = [("second", 2), ("third", 3)];

/// Version 2.
const UNIFIED: &str = "/sys/fs/cgroup";

/// The files that the profile writes on every kernel.
const FILES: &str = "/proc/irq/default_smp_affinity /sys/devices/virtual/workqueue/cpumask \
    /proc/sys/vm/swappiness /proc/sys/vm/stat_interval /proc/sys/kernel/timer_migration \
    /proc/sys/kernel/nmi_watchdog /proc/sys/kernel/watchdog_cpumask \
    /sys/kernel/mm/transparent_hugepage/enabled";

impl Two<'_> {
    fn describe(&self) {
        for (lab, cpu) in LABS {
            let profile = format!("name: on-{cpu}\nabout: x\nextends: isolated\ncores: {cpu}\n");
            self.machine
                .write(&format!("profiles/on-{cpu}.yaml"), &profile);
            let text = format!(
                "name: {lab}\ntuning: on-{cpu}\ntopology:\n  nodes: {{a: {{kind: native}}}}\n"
            );
            self.machine.write(&format!("{lab}.yaml"), &text);
        }
    }

    /// The settings, and the existing cgroups of latlab.
    fn settings(&self) -> String {
        let groups = self.groups;
        self.machine.sh(&format!(
            "tail -n +1 {FILES}; cat {groups}/cpuset.sched_load_balance 2> /dev/null; \
             ls -d {groups}/latlab* 2> /dev/null; true"
        ))
    }

    /// Asserts that each of these labs has its CPU and everything else has the rest.
    fn in_force(&self, up: &[(&str, u32)]) {
        let groups = self.groups;
        let mut line = format!(
            "set -e; cat {groups}/latlab.isolated/cpuset.cpus /proc/irq/default_smp_affinity;"
        );
        for (lab, _) in up {
            line += &format!("latlab exec {lab} a -- grep Cpus_allowed_list /proc/self/status;");
        }
        let told = self.machine.sh(&(line + "latlab tune verify >&2"));
        let told: Vec<&str> = told
            .lines()
            .filter_map(|l| l.split_whitespace().last())
            .collect();
        let cpus: Vec<u32> = up.iter().map(|(_, cpu)| *cpu).collect();
        let left = cpus.iter().fold(0xf_u32, |mask, cpu| mask & !(1 << cpu));
        let mut wanted = vec![CpuList::new(cpus.clone()).to_string(), format!("{left:x}")];
        wanted.extend(cpus.iter().map(ToString::to_string));
        assert_eq!(told, wanted, "{up:?}");
    }

    /// The first command of a node makes its group, which a process beside it in the partition does not let
    /// happen on version 2: that is said, with its number.
    fn crowded(&self) {
        let groups = self.groups;
        let said = self.machine.try_sh(&format!(
            "sleep 60 & echo $!; echo $! > {groups}/latlab.isolated/cgroup.procs
             latlab exec second a -- true; code=$?; kill $!; wait; exit $code"
        ));
        let reason = format!(
            "processes [{}] run in {groups}/latlab.isolated",
            said.out.trim()
        );
        said.refused(2, &reason, "move them into a group of their own");
    }

    fn deploy(&self, lab: &str) {
        self.machine.sh(&format!("latlab deploy {lab}.yaml"));
    }

    fn destroy(&self, lab: &str) {
        self.machine.sh(&format!("latlab destroy {lab}"));
    }

    /// A lab's own program may run there; kernel work for other programs is reported.
    fn watch(&self) {
        let said = self.machine.try_sh(
            "latlab exec second a -- timeout 20 sh -c 'while :; do :; done' & own=$!
             latlab tune watch --for 3s & watch=$!
             while kill -0 $watch; do cat /proc/sys/vm/stat_refresh; sleep 0.1; done 2> /dev/null
             wait $watch; code=$?; kill $own; exit $code",
        );
        assert_eq!(said.code, 1, "{said:#?}");
        for (_, cpu) in LABS {
            let worker = format!("kernel thread `kworker/{cpu}:");
            assert!(said.out.contains(&worker), "{worker}: {said:#?}");
        }
        assert!(!said.out.contains("process `sh`"), "{said:#?}");
    }
}

fn two_labs(bench: &Bench, name: &str, groups: &'static str, prepare: &str) {
    let machine = Machine::boot(bench, name, "standard", None);
    machine.sh(prepare);
    let two = Two {
        machine: &machine,
        groups,
    };
    two.describe();
    let before = two.settings();
    let [second, third] = LABS;
    if groups == UNIFIED {
        two.deploy(second.0);
        two.crowded();
        two.destroy(second.0);
    }
    // The version of cgroups decides nothing about the order.
    let orders = [(second, third), (third, second)];
    let orders = if groups == UNIFIED {
        &orders[..]
    } else {
        &orders[..1]
    };
    for (first, last) in orders {
        two.deploy(second.0);
        two.in_force(&[second]);
        two.deploy(third.0);
        two.in_force(&[second, third]);
        two.watch();
        two.destroy(first.0);
        two.in_force(&[*last]);
        two.destroy(last.0);
        assert_eq!(two.settings(), before);
    }
    // Both at the same moment: they wait for each other where they must.
    let both = |verb: &str, ending: &str| {
        machine.sh(&format!(
            "latlab {verb} second{ending} & a=$!; latlab {verb} third{ending}; b=$?; wait $a && exit $b"
        ));
    };
    both("deploy", ".yaml");
    two.in_force(&LABS);
    both("destroy", "");
    assert_eq!(two.settings(), before);
    machine.end();
}

#[test]
fn two_isolated_labs_come_and_go_on_cgroup_version_2() {
    const NAME: &str = "two_isolated_labs_come_and_go_on_cgroup_version_2";
    if guests() {
        enter(NAME, |bench| {
            two_labs(bench, "unified", UNIFIED, "");
        });
    }
}

#[test]
fn two_isolated_labs_come_and_go_on_cgroup_version_1() {
    const NAME: &str = "two_isolated_labs_come_and_go_on_cgroup_version_1";
    // A controller that is unused on version 2 can be mounted on version 1.
    const MOUNT: &str = "mkdir /run/cpuset && mount -t cgroup -o cpuset none /run/cpuset";
    if guests() {
        enter(NAME, |bench| {
            two_labs(bench, "legacy", "/run/cpuset", MOUNT);
        });
    }
}

/// The guest's kernel must have netkit, which Debian 12's has not: the path of one, its modules beside it.
const KERNEL: &str = "LATLAB_TEST_KERNEL";

#[test]
fn processes_and_containers_have_netkit_cables() {
    match std::env::var(KERNEL) {
        Ok(kernel) if guests() => {
            enter("processes_and_containers_have_netkit_cables", |bench| {
                netkit_cables(bench, &kernel);
            });
        }
        _ => eprintln!("skipped: LATLAB_TEST_GUEST=1 and {KERNEL}=VMLINUZ ask for it"),
    }
}

fn netkit_cables(bench: &Bench, kernel: &str) {
    let machine = Machine::boot(bench, "netkit", kernel, None);
    machine.sh("for module in tun veth bridge sch_netem; do modprobe $module; done");
    for carrier in ["local", "vxlan", "udp", "direct"] {
        let lab = format!(
            "name: cables\ntopology:\n  nodes: {{a: {{kind: native}}, c: {{kind: container}}}}\n  \
             links: [{{type: overlay, carrier: {carrier}, cable: netkit, delay: 1ms, \
             endpoints: [\"a:eth0\", \"c:eth0\"]}}]\n"
        );
        machine.write("cables.yaml", &lab);
        machine.sh("latlab deploy cables.yaml");
        machine.sh("latlab exec cables a -- ping -c 5 -i 0.1 -W 5 198.18.0.2");
        for node in ["a", "c"] {
            let kind = machine.sh(&format!(
                "latlab exec cables {node} -- ip -details link show eth0"
            ));
            assert!(kind.contains("netkit"), "{kind}");
        }
        let daemon = if carrier == "local" {
            "cables"
        } else {
            "cables/l0.0"
        };
        let counters = machine.sh(&format!("latlab overlay {daemon} counters"));
        // The overlay's own format is written and read by the daemon.
        let in_kernel = counters.contains("in_kernel_frames");
        assert_eq!(in_kernel, carrier != "udp", "{counters}");
        machine.sh("latlab destroy cables");
    }
    machine.end();
}

/// QEMU with two NUMA nodes of 512 MiB and two CPUs each.
const TWO_NODES: &str = r#"#!/bin/sh
case "$*" in *-name\ latlab-machine,*)
    set -- "$@" -smp 4,sockets=2,cores=2,threads=1 \
        -object memory-backend-ram,id=node0,size=512M -object memory-backend-ram,id=node1,size=512M \
        -numa node,nodeid=0,cpus=0-1,memdev=node0 -numa node,nodeid=1,cpus=2-3,memdev=node1 \
        -numa dist,src=0,dst=1,val=21 ;;
esac
exec QEMU "$@"
"#;

/// One that fills a memory node, one beside the host's CPUs, one that asks for nothing.
const NODES: &str = "name: nodes\ntopology:\n  nodes:\n    \
    a: {kind: native, cpus: 2, isolate: true, memory: 128MiB}\n    \
    b: {kind: container, cpus: 1, isolate: true, memory: 128MiB}\n    c: {kind: native}\n";

/// Touches 64 MiB, and prints its CPUs, its memory policy and the nodes of its pages; not of file pages, which are
/// where they were read first.
const TOUCH: &str = "awk 'BEGIN { x = sprintf(\"%67000000s\", \"\")
    while ((getline < \"/proc/self/status\") > 0) if (/_allowed_list/) print
    while ((getline < \"/proc/self/numa_maps\") > 0) if (/ anon=/ && !/ file=/) print }'";

/// The output of that program.
#[derive(Debug)]
struct Touched {
    cpus: CpuList,
    nodes: CpuList,
    /// By memory node.
    pages: BTreeMap<u32, u64>,
}

impl Touched {
    fn of(told: &str) -> Touched {
        let list = |name: &str| {
            let line = told.lines().find_map(|l| l.strip_prefix(name)).unwrap();
            CpuList::parse(line.trim()).unwrap()
        };
        let mut pages = BTreeMap::new();
        // 7f0c5c400000 default anon=16385 dirty=16385 N1=16385 kernelpagesize_kB=4
        for word in told.split_whitespace() {
            let found = word.strip_prefix('N').and_then(|w| w.split_once('='));
            if let Some((Ok(node), Ok(count))) = found.map(|(n, c)| (n.parse(), c.parse::<u64>())) {
                *pages.entry(node).or_default() += count;
            }
        }
        Touched {
            cpus: list("Cpus_allowed_list:"),
            nodes: list("Mems_allowed_list:"),
            pages,
        }
    }
}

#[test]
fn cpus_and_memory_are_of_one_numa_node() {
    const NAME: &str = "cpus_and_memory_are_of_one_numa_node";
    if guests() {
        enter(NAME, two_memory_nodes);
    }
}

fn two_memory_nodes(bench: &Bench) {
    let machine = Machine::boot(bench, "numa", "standard", Some(&path_with_two_nodes(bench)));
    let of_node = |node: u32| {
        let file = format!("/sys/devices/system/node/node{node}/cpulist");
        CpuList::parse(machine.sh(&format!("cat {file}")).trim()).unwrap()
    };
    let homes = [of_node(0), of_node(1)];
    assert_eq!(homes.each_ref().map(ToString::to_string), ["0-1", "2-3"]);
    machine.write("nodes.yaml", NODES);
    let placed = machine.sh("latlab place nodes.yaml --format json");
    let blueprint: Blueprint = serde_json::from_str(&placed).unwrap();
    assert_eq!(blueprint.housekeeping.cpus.to_string(), "0");
    let shown = machine.sh("latlab place nodes.yaml && latlab deploy nodes.yaml >&2");
    println!("{shown}");
    for (name, cpus, node) in [("a", "2-3", 1), ("b", "1", 0)] {
        let place = blueprint.node(name).expect("its place");
        assert_eq!(place.cores.cpus.to_string(), cpus, "{place:?}");
        let reason = format!("all on memory node {node}");
        assert!(place.cores.why.contains(&reason), "{place:?}");
        lives_on(&machine, place, node);
        assert!(
            place
                .cores
                .cpus
                .iter()
                .all(|cpu| homes[node as usize].contains(cpu))
        );
    }
    // The memory of a node without dedicated CPUs is not bound.
    let free = Touched::of(&machine.sh(&format!("latlab exec nodes c -- {TOUCH}")));
    assert_eq!(free.nodes.to_string(), "0-1", "{free:?}");
    machine.sh("latlab destroy nodes");
    machine.end();
}

/// The kernel says that a node's programs run and have their memory there, and where their pages are.
fn lives_on(machine: &Machine<'_>, place: &NodePlace, node: u32) {
    let memory = place.memory.as_ref().expect("its memory");
    assert_eq!(memory.nodes.to_string(), node.to_string());
    assert!(!memory.why.is_empty());
    let told = machine.sh(&format!("latlab exec nodes {} -- {TOUCH}", place.name));
    let touched = Touched::of(&told);
    assert_eq!(touched.cpus, place.cores.cpus, "{touched:?}");
    assert_eq!(touched.nodes, memory.nodes, "{touched:?}");
    let all: u64 = touched.pages.values().sum();
    assert!(all >= 64 << 8, "{touched:?}");
    assert_eq!(
        touched.pages.keys().collect::<Vec<_>>(),
        [&node],
        "{touched:?}"
    );
    println!("{}: {touched:?}", place.name);
}

/// A search path on which QEMU has two memory nodes for this guest.
fn path_with_two_nodes(bench: &Bench) -> String {
    let directory = bench.root().join("qemu");
    fs::create_dir(&directory).unwrap();
    let name = "qemu-system-x86_64";
    let real = tool(&["sh", "-c", &format!("command -v {name}")]);
    let wrapper = directory.join(name);
    fs::write(&wrapper, TWO_NODES.replace("QEMU", real.trim())).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}", directory.display())
}

/// Debian's kernel in the guest has vhost-net, which serves the cards of a guest inside it.
#[test]
fn queues_of_a_vm_are_served_by_vhost() {
    const NAME: &str = "queues_of_a_vm_are_served_by_vhost";
    if !guests() {
        return;
    }
    enter(NAME, served_by_vhost);
}

fn the_backend_is_a_factor(machine: &Machine<'_>, latlab: &str) {
    machine.write(
        "backends.yaml",
        "name: backends\nlab:\n  name: backends\n  topology:\n    nodes:\n      a: {kind: native}\n      \
         v: {kind: vm, memory: 256MiB, net: {backend: qemu}}\n    \
         links: [{endpoints: [\"a:eth0\", \"v:eth0\"]}]\n\
         factors: {backend: {path: topology.nodes.v.net.backend, levels: [qemu, vhost]}}\n\
         measurements: [{name: rr, probe: rr, protocol: udp, from: a, to: v, duration: 1s}]\nreplicates: 1\n",
    );
    machine.long_sh(&format!(
        "{latlab} run backends.yaml --runs runs --format json"
    ));
    let samples = machine.sh("find runs/*/trials -name '*.parquet' -size +0 | wc -l");
    assert_eq!(samples.trim(), "2");
    let manifest = machine.sh("cat runs/*/manifest.json");
    for backend in ["taps by qemu", "taps by vhost"] {
        assert!(manifest.contains(backend), "{backend}: {manifest}");
    }
}

fn served_by_vhost(bench: &Bench) {
    let machine = Machine::boot(bench, "vhost", "standard", None);
    machine.sh("for module in tun veth macvtap vhost_net; do modprobe $module; done");
    // The kernels of the host's cache, so that nothing is downloaded; the guest has no network.
    machine.sh(
        "modprobe overlay; mkdir -p /run/above/new /run/above/work /run/kernels
         mount -t overlay -o lowerdir=/run/cache,upperdir=/run/above/new,workdir=/run/above/work none /run/kernels",
    );
    // An emulated guest in an emulated guest takes its time.
    let latlab = "LATLAB_CACHE_DIR=/run/kernels LATLAB_BOOT_TIMEOUT=900 latlab";
    machine.write(
        "cards.yaml",
        "name: cards\ntopology:\n  kinds: {vm: {cpus: 2, memory: 256MiB, net: {queues: 2}}}\n  \
         nodes: {a: {kind: native}, v: {kind: vm}}\n  links:\n    \
         - endpoints: [\"a:eth0\", \"v:eth0\"]\n    \
         - {type: macvlan, endpoints: [\"a:eth1\", \"v:eth1\"]}\n",
    );
    machine.long_sh(&format!("{latlab} deploy cards.yaml"));
    machine.sh("latlab exec cards a -- ping -c 3 -i 0.2 -W 20 198.18.0.2");
    machine.sh("latlab exec cards a -- ping -c 3 -i 0.2 -W 20 198.18.1.2");
    // The kernel names its threads after the process that they serve.
    let qemu = machine.sh("pgrep -f '^qemu-system-x86_64.*latlab-v'");
    let threads = machine.sh("ps -eLo comm");
    let name = format!("vhost-{}", qemu.trim());
    let serving = threads.lines().filter(|line| *line == name).count();
    assert_eq!(serving, 4, "one for each queue: {threads}");
    machine.sh("latlab destroy cards");
    // Minutes: guests are booted inside of an emulated one for every trial.
    if std::env::var_os("LATLAB_TEST_NESTED").is_some() {
        the_backend_is_a_factor(&machine, latlab);
    }
    machine.end();
}
