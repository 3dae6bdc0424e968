//! DPDK in nodes, VMs too: testpmd of the distribution forwards between two other nodes and is measured as a device under test. Its
//! huge pages are its own, nothing else is visible, and the machine's pool is as before, also after a latlab that was
//! killed.

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use common::machine::Machine;
use common::{Bench, Said, enter, guests, kill_after, study, whole};
use latlab_model::kinds::Runtime;
use rustix::fs::FlockOperation;

const TESTPMD: &str = "/usr/bin/dpdk-testpmd";

/// A forwarder of layer 2 from one port to the other, until it is ended.
const FORWARD: &str = "exec dpdk-testpmd $LATLAB_DPDK_EAL -- --auto-start --nb-cores=1 --forward-mode=io \
    --total-num-mbufs=8192 --stats-period=1";

/// The pool of huge pages is the machine's: one test at a time, which finds what it had before at its end.
fn enter_alone(name: &str, body: impl FnOnce(&Bench)) {
    enter(name, |bench| {
        let own = File::open(std::env::current_exe().unwrap()).unwrap();
        rustix::fs::flock(&own, FlockOperation::LockExclusive).unwrap();
        let before = pool();
        body(bench);
        bench.latlab(&["destroy", "--all", "-y"]).good();
        assert_eq!(pool(), before, "the machine's pool of huge pages");
        assert!(!bench.root().join("state/huge-pages.json").exists());
    });
}

/// All pages of the machine of 2 MiB.
fn pool() -> u64 {
    let pages = fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
    pages.unwrap().trim().parse().unwrap()
}

#[track_caller]
fn find_testpmd() {
    let hint = "scripts/setup test installs it";
    assert!(Path::new(TESTPMD).exists(), "no {TESTPMD}: {hint}");
}

/// A device between two nodes, on links of which each has its own subnet. Both ends reach each other through it, because it
/// forwards layer 2.
fn chain(device: &str, link: &str) -> String {
    format!(
        "name: NAME
topology:
  nodes:
    client: {{kind: native, exec: ip route add 10.88.0.2 dev eth0}}
    device: {{{device}}}
    server: {{kind: native, exec: ip route add 10.77.0.1 dev eth0}}
  links:
    - {{{link}endpoints: [{{node: client, interface: eth0, addresses: [10.77.0.1/24]}}, 'device:in']}}
    - {{{link}endpoints: ['device:out', {{node: server, interface: eth0, addresses: [10.88.0.2/24]}}]}}
"
    )
}

fn sh(bench: &Bench, lab: &str, node: &str, line: &str) -> Said {
    bench.exec(lab, node, &["sh", "-c", line])
}

/// Starts the forwarder, and waits until a ping passes it.
#[track_caller]
fn forward(bench: &Bench, lab: &str) {
    let detached = ["exec", "--detach", lab, "device", "--", "sh", "-c", FORWARD];
    bench.latlab(&detached).good();
    let ping = ["ping", "-c", "3", "-i", "0.2", "-W", "1", "10.88.0.2"];
    common::until("testpmd forwards", || {
        bench.exec(lab, "client", &ping).code == 0
    });
}

/// TCP of many segments: their checksums are whole, and none is larger than the link takes.
#[track_caller]
fn passes_tcp(bench: &Bench, lab: &str) {
    let serve = ["exec", "--detach", lab, "server", "--", "iperf3", "-s"];
    bench.latlab(&serve).good();
    let send = ["iperf3", "-c", "10.88.0.2", "-n", "4M", "-J"];
    common::until("TCP passes testpmd", || {
        let said = bench.exec(lab, "client", &send);
        let received = || -> Option<u64> {
            let json: serde_json::Value = serde_json::from_str(&said.out).ok()?;
            json["end"]["sum_received"]["bytes"].as_u64()
        };
        said.code == 0 && received().is_some_and(|bytes| bytes > 1 << 20)
    });
}

#[test]
fn testpmd_forwards_frames_of_other_nodes() {
    find_testpmd();
    enter_alone("testpmd_forwards_frames_of_other_nodes", |bench| {
        for kind in ["container", "native"] {
            let device = format!("kind: {kind}, dpdk: {{hugepages: 64MiB}}");
            let lab = bench.deploy(kind, &chain(&device, ""));
            let ping =
                |node: &str, to: &str| bench.exec(&lab, node, &["ping", "-c", "1", "-W", "1", to]);
            assert_ne!(ping("client", "10.88.0.2").code, 0, "nobody forwards yet");
            forward(bench, &lab);
            ping("server", "10.77.0.1").good();
            passes_tcp(bench, &lab);
            bench.latlab(&["destroy", &lab]).good();
        }
    });
}

/// A VM between two nodes, with a card behind a tap and one that the overlay's daemon serves.
fn chain_of_vm(driver: &str) -> String {
    let device =
        format!("kind: vm, cpus: 2, memory: 384MiB, dpdk: {{hugepages: 64MiB, driver: {driver}}}");
    let link = match driver {
        "vfio" => "type: overlay, ",
        _ => "",
    };
    chain(&device, link)
}

/// Guests are to be booted by this run of the tests.
fn has_vms() -> bool {
    let has = whole() || guests();
    if !has {
        println!("skipped: needs LATLAB_TEST_WHOLE=1 or LATLAB_TEST_GUEST=1");
    }
    has
}

#[test]
fn a_vm_has_its_pages_or_does_not_come_up() {
    if !has_vms() {
        return;
    }
    enter_alone("a_vm_has_its_pages_or_does_not_come_up", |bench| {
        let node = |more: &str| {
            format!(
                "name: NAME\ntopology: {{nodes: {{v: {{kind: vm, memory: 2176MiB, {more}\
                 dpdk: {{hugepages: 1GiB, page: 1GiB}}}}}}}}\n"
            )
        };
        let lab = bench.deploy("whole", &node(""));
        let seen = sh(
            bench,
            &lab,
            "v",
            "stat -f -c '%b %S' /dev/hugepages; cat /sys/kernel/mm/hugepages/hugepages-1048576kB/resv_hugepages; \
             ls $LATLAB_DPDK_EAL_FILE",
        );
        assert_eq!(seen.good().out, "1 1073741824\n1\n/run/latlab/dpdk/eal\n");
        let saved = bench.latlab(&["snapshot", &lab, "v", "--to", "saved"]);
        saved.refused(2, "which cards are their ports", "without `dpdk`");
        bench.latlab(&["destroy", &lab]).good();
        let small = node("hardware: {features: [-pdpe1gb]}, ");
        let said = bench.latlab(&["deploy", &bench.file("small", &small)]);
        let reason = "huge pages inside: the guest's CPU or kernel has none of 1024 MiB";
        said.ended_badly(2, reason, "lower `hugepages`");
    });
}

/// The kernel seldom finds such a page later.
#[test]
fn a_page_of_a_gigabyte_that_was_reserved_is_a_nodes_own() {
    if !has_vms() {
        return;
    }
    const NAME: &str = "a_page_of_a_gigabyte_that_was_reserved_is_a_nodes_own";
    enter_alone(NAME, |bench| {
        let machine = Machine::with_large_page(bench, "gigabyte");
        let pool = "/sys/kernel/mm/hugepages/hugepages-1048576kB";
        for kind in ["native", "container"] {
            let text = format!(
                "name: one\ntopology: {{nodes: {{n: {{kind: {kind}, dpdk: {{hugepages: 1GiB, page: 1GiB}}}}}}}}\n"
            );
            machine.write("one.yaml", &text);
            machine.sh("latlab deploy one.yaml");
            let place = "at=${LATLAB_DPDK_EAL#*--huge-dir=}; stat -f -c \"%b %S\" ${at%% *}";
            let seen = machine.sh(&format!(
                "latlab exec one n -- sh -c '{place}'; cat {pool}/resv_hugepages"
            ));
            assert_eq!(seen, "1 1073741824\n1\n", "{kind}");
            machine.sh("latlab destroy one");
            let left = machine.sh(&format!("cat {pool}/nr_hugepages {pool}/resv_hugepages"));
            assert_eq!(left, "1\n0\n", "{kind}");
        }
        machine.end();
    });
}

#[test]
fn testpmd_forwards_frames_in_a_vm() {
    find_testpmd();
    if !has_vms() {
        return;
    }
    enter_alone("testpmd_forwards_frames_in_a_vm", |bench| {
        for (driver, interfaces) in [("af-packet", 3), ("vfio", 1)] {
            let before = pool();
            let lab = bench.deploy(driver, &chain_of_vm(driver));
            let device = |line: &str| sh(bench, &lab, "device", line).good().out;
            assert_eq!(pool(), before, "the pages are the guest's own");
            let pages = device(
                "cat /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages; stat -f -c '%b %S' /dev/hugepages; \
                 grep -o 'nosuid,nodev,noexec' /proc/mounts | head -1; ls /sys/class/net | wc -l",
            );
            let expected = format!("32\n32 2097152\nnosuid,nodev,noexec\n{interfaces}\n");
            assert_eq!(pages, expected);
            let arguments = device("cat $LATLAB_DPDK_EAL_FILE; echo $LATLAB_DPDK_EAL");
            let (file, variable) = arguments.split_once('\n').unwrap();
            assert_eq!(file, variable.trim_end());
            let ports = match driver {
                "vfio" => ["--iova-mode=pa", "--allow=0000:00:"],
                _ => ["--no-pci", "--vdev=net_af_packet1,iface=out"],
            };
            assert!(ports.iter().all(|port| file.contains(port)), "{file}");
            let ping = ["ping", "-c", "3", "-i", "0.2", "-W", "1", "10.88.0.2"];
            assert_ne!(bench.exec(&lab, "client", &ping).code, 0, "nobody forwards");
            device(&format!(
                "setsid sh -c '{FORWARD}' < /dev/null > /tmp/testpmd 2>&1 &"
            ));
            common::until("testpmd forwards", || {
                bench.exec(&lab, "client", &ping).code == 0
            });
            passes_tcp(bench, &lab);
            // Its figures are a second old.
            common::until("both ports count frames", || {
                let counted = device("grep -o 'RX-packets: [0-9]*' /tmp/testpmd | tail -2");
                let counted = counted.lines().map(|line| line[12..].trim().parse::<u64>());
                counted.clone().count() == 2 && counted.flatten().all(|frames| frames > 100)
            });
            bench.latlab(&["destroy", &lab]).good();
        }
    });
}

/// The lab of a study, indented as its part.
fn as_part(lab: &str) -> String {
    lab.replace('\n', "\n  ").trim_end().to_owned() + "\n"
}

#[test]
fn testpmd_is_measured_as_a_device_under_test() {
    find_testpmd();
    enter_alone("testpmd_is_measured_as_a_device_under_test", |bench| {
        let forward = "from: client, to: server, through: device, rate: 2000, duration: 500ms";
        for kind in ["container", "native"] {
            let dpdk = format!("kind: {kind}, dpdk: {{hugepages: 64MiB}}");
            let lab = as_part(&chain(&dpdk, ""));
            let measurements =
                format!("  - {{name: own, probe: forward, device: testpmd, {forward}}}\n");
            let (said, run) = study::run(bench, &format!("own-{kind}"), &lab, &measurements);
            said.good();
            forwarded(&run, "own");
            // A program of the lab's own, started with each measurement.
            let run_by_lab = format!("{dpdk}, run: '{FORWARD}'");
            let lab = as_part(&chain(&run_by_lab, ""));
            let measurements =
                format!("  - {{name: taps, probe: forward, {forward}, warmup: 3s}}\n");
            let (said, run) = study::run(bench, &format!("lab-{kind}"), &lab, &measurements);
            said.good();
            forwarded(&run, "taps");
            let plan = study::read(&run, "manifest.json");
            assert!(
                plan.contains("in out by af-packet, through the kernel"),
                "{plan}"
            );
        }
    });
}

#[test]
fn a_program_in_a_vm_is_measured_and_its_driver_is_a_factor() {
    find_testpmd();
    if !has_vms() {
        return;
    }
    const NAME: &str = "a_program_in_a_vm_is_measured_and_its_driver_is_a_factor";
    enter_alone(NAME, |bench| {
        let lab = as_part(&chain_of_vm("vfio"));
        let measurements = "  - {name: own, probe: forward, device: testpmd, from: client, to: server, \
            through: device, rate: 500, duration: 500ms}\n";
        let factor = "factors:\n  driver: {path: topology.nodes.device.dpdk.driver, levels: [af-packet, vfio]}\n";
        let on_taps = lab.replace("type: overlay, ", "");
        let text = format!(
            "name: NAME\nlab:\n  {on_taps}measurements:\n{measurements}{factor}replicates: 1\n"
        );
        let order = bench.latlab(&["run", &bench.file("drivers", &text), "--dry-run"]);
        let order = order.good().out;
        assert!(
            order.contains("driver=af-packet") && order.contains("driver=vfio"),
            "{order}"
        );
        let (said, run) = study::run(bench, "measured", &lab, measurements);
        said.good();
        forwarded(&run, "own");
        let plan = study::read(&run, "manifest.json");
        let path = "in out by vfio, past the guest's kernel";
        assert!(plan.contains(path), "{plan}");
    });
}

/// Packets passed the taps on both sides of the device.
#[track_caller]
fn forwarded(run: &latlab_samples::RunDir, cell: &str) {
    let trial = study::trial_of(run, cell);
    let text = serde_json::to_string(&trial).unwrap();
    let number = |key: &str| -> u64 {
        let at = text
            .find(&format!("\"{key}\":"))
            .unwrap_or_else(|| panic!("{key}: {text}"));
        let rest = &text[at + key.len() + 3..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
        rest[..end].parse().unwrap()
    };
    let (sent, received) = (number("sent"), number("received"));
    assert!(
        sent > 100 && received * 10 >= sent * 9,
        "{sent} sent, {received} received"
    );
}

#[test]
fn virtio_ports_of_the_overlay_pass_frames_past_the_kernel() {
    find_testpmd();
    const NAME: &str = "virtio_ports_of_the_overlay_pass_frames_past_the_kernel";
    enter_alone(NAME, |bench| {
        let kinds = ["container", "native"];
        for kind in &kinds[..if whole() { 2 } else { 1 }] {
            let device = format!("kind: {kind}, dpdk: {{hugepages: 64MiB, driver: virtio-user}}");
            let chain = chain(&device, "type: overlay, ");
            let lab = bench.deploy(kind, &chain);
            let seen = sh(bench, &lab, "device", "ip -o link").good();
            assert_eq!(seen.out.lines().count(), 1, "only `lo`: {seen:?}");
            forward(bench, &lab);
            passes_tcp(bench, &lab);
            bench.latlab(&["destroy", &lab]).good();
            let measurements = "  - {name: ports, probe: forward, device: testpmd, from: client, to: server, \
                through: device, rate: 2000, duration: 500ms}\n";
            let name = format!("ports-{kind}");
            let (said, run) = study::run(bench, &name, &as_part(&chain), measurements);
            said.good();
            forwarded(&run, "ports");
            let plan = study::read(&run, "manifest.json");
            let path = "in out by virtio-user, past the kernel and its taps";
            assert!(plan.contains(path), "{plan}");
        }
    });
}

#[test]
fn only_its_own_huge_pages_are_visible_in_a_container() {
    enter_alone(
        "only_its_own_huge_pages_are_visible_in_a_container",
        |bench| {
            for runtime in Runtime::ALL.iter().map(|runtime| runtime.word()) {
                println!("  {runtime}");
                let node = |size: &str| {
                    format!(
                        "{{kind: container, runtime: {runtime}, dpdk: {{hugepages: {size}, devices: []}}}}"
                    )
                };
                let text = format!(
                    "name: NAME\ntopology: {{nodes: {{a: {}, b: {}, c: {{kind: native, dpdk: {{hugepages: 4MiB}}}}}}}}\n",
                    node("16MiB"),
                    node("8MiB")
                );
                let before = pool();
                let lab = bench.deploy(runtime, &text);
                let mounts = sh(bench, &lab, "a", "grep hugetlbfs /proc/self/mounts").good();
                assert_eq!(mounts.out.lines().count(), 1, "{mounts:?}");
                for part in [
                    " /dev/hugepages ",
                    "nosuid",
                    "nodev",
                    "size=16777216",
                    "pagesize=2M",
                ] {
                    assert!(mounts.out.contains(part), "{part}: {mounts:?}");
                }
                let said = sh(
                    bench,
                    &lab,
                    "a",
                    "echo $LATLAB_DPDK_EAL | cmp - $LATLAB_DPDK_EAL_FILE && ls /run/latlab/dpdk",
                )
                .good();
                assert_eq!(said.out, "eal\n");
                for (way, what) in [
                    ("ls /dev/vfio", "VFIO"),
                    (
                        "echo 1 > $LATLAB_DPDK_EAL_FILE",
                        "another file of arguments",
                    ),
                    ("mount -t hugetlbfs none /mnt", "a mount of more"),
                    ("echo 100 > /proc/sys/vm/nr_hugepages", "the pool"),
                    (
                        "echo 100 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
                        "the pool, by the other file",
                    ),
                    ("fallocate -l 18M /dev/hugepages/more", "more than its own"),
                ] {
                    assert_ne!(sh(bench, &lab, "a", way).code, 0, "{what}");
                }
                sh(
                    bench,
                    &lab,
                    "a",
                    "rm -f /dev/hugepages/more && fallocate -l 16M /dev/hugepages/all",
                )
                .good();
                let other = sh(
                    bench,
                    &lab,
                    "b",
                    "ls /dev/hugepages && stat -f -c '%b %f' /dev/hugepages",
                )
                .good();
                assert_eq!(other.out, "4 4\n", "{runtime}");
                sh(bench, &lab, "b", "fallocate -l 8M /dev/hugepages/all").good();
                // A native node's are at the place that its arguments name, and each of its commands finds the same.
                let own = "at=${LATLAB_DPDK_EAL#*--huge-dir=}; at=${at%% *}";
                sh(
                    bench,
                    &lab,
                    "c",
                    &format!("{own}; fallocate -l 4M $at/file"),
                )
                .good();
                let again = sh(
                    bench,
                    &lab,
                    "c",
                    &format!("{own}; ls $at; stat -f -c %f $at"),
                )
                .good();
                assert_eq!(again.out, "file\n0\n");
                let host = fs::read_to_string("/proc/self/mounts").unwrap();
                assert!(!host.contains("size=16777216,min_size"), "{host}");
                assert!(pool() <= before + 14);
                bench.latlab(&["destroy", &lab]).good();
                assert_eq!(pool(), before);
            }
        },
    );
}

#[test]
fn pages_of_several_labs_go_in_any_order() {
    enter_alone("pages_of_several_labs_go_in_any_order", |bench| {
        let lab = |name: &str, size: &str| {
            let text = format!(
                "name: NAME\ntopology: {{nodes: {{a: {{kind: native, dpdk: {{hugepages: {size}}}}}}}}}\n"
            );
            bench.deploy(name, &text)
        };
        let free = |name: &str| {
            let file = format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{name}_hugepages");
            fs::read_to_string(file)
                .unwrap()
                .trim()
                .parse::<u64>()
                .unwrap()
        };
        let before = (pool(), free("free") - free("resv"));
        let one = lab("one", "16MiB");
        let grown = 8u64.saturating_sub(before.1);
        assert_eq!(pool(), before.0 + grown);
        let two = lab("two", "32MiB");
        bench.latlab(&["destroy", &one]).good();
        let three = lab("three", "8MiB");
        bench.latlab(&["destroy", &two]).good();
        bench.latlab(&["destroy", &three]).good();
        assert_eq!((pool(), free("free") - free("resv")), before);
    });
}

#[test]
fn a_killed_deployment_gives_its_huge_pages_back() {
    enter_alone("a_killed_deployment_gives_its_huge_pages_back", |bench| {
        let before = pool();
        let text = "name: NAME\ntopology: {nodes: {a: {kind: native, dpdk: {hugepages: 32MiB}}, \
            b: {kind: container, dpdk: {hugepages: 64MiB}}}}\n";
        let file = bench.file("killed", text);
        for moment in [10, 20, 40, 60, 80, 100, 150, 200, 300, 500] {
            let mut command = bench.command(&["deploy", &file]);
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            kill_after(child.unwrap(), Duration::from_millis(moment));
            bench.latlab(&["destroy", "--all", "-y"]).good();
            assert_eq!(pool(), before, "killed after {moment} ms");
        }
        // One that ends in the middle of its removal, too.
        for moment in [5, 10, 20, 40, 80] {
            let lab = bench.deploy("killed", text);
            let mut command = bench.command(&["destroy", &lab]);
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            kill_after(child.unwrap(), Duration::from_millis(moment));
            bench.latlab(&["destroy", "--all", "-y"]).good();
            assert_eq!(
                pool(),
                before,
                "a removal that was killed after {moment} ms"
            );
        }
    });
}

#[test]
fn what_the_machine_cannot_have_is_refused_before_anything_is_made() {
    const NAME: &str = "what_the_machine_cannot_have_is_refused_before_anything_is_made";
    enter_alone(NAME, |bench| {
        let deploy = |node: &str| {
            let text = format!("name: NAME\ntopology: {{nodes: {{a: {{{node}}}}}}}\n");
            bench.latlab(&["deploy", &bench.file("refused", &text)])
        };
        for (node, what, hint) in [
            (
                "kind: container, dpdk: {hugepages: 3MiB}",
                "is 3MiB",
                "a multiple of 2MiB",
            ),
            (
                "kind: container, dpdk: {hugepages: 4MiB, cores: 8000}",
                "has CPU 8000",
                "name CPUs",
            ),
            (
                "kind: container, dpdk: {hugepages: 4MiB, devices: eth0}",
                "no link has such an end",
                "add a link",
            ),
            (
                "kind: vm, memory: 256MiB, dpdk: {hugepages: 192MiB}",
                "of its 256MiB of memory 128MiB can be pages of 2MiB",
                "raise `memory` to 384MiB",
            ),
        ] {
            let said = deploy(node);
            assert_eq!(said.code, 2, "{said:#?}");
            assert!(
                said.err.contains(what) && said.err.contains(hint),
                "{said:#?}"
            );
            assert!(said.err.ends_with("nothing was changed\n"), "{said:#?}");
        }
        let large = deploy("kind: native, dpdk: {hugepages: 100000GiB}");
        large.refused(2, "of memory are available", "lower `hugepages`");
        let text =
            "name: NAME\ntopology: {nodes: {a: {kind: container, dpdk: {hugepages: 4MiB}}}}\n";
        let lab = bench.deploy("saved", text);
        let saved = bench.latlab(&["snapshot", &lab, "a", "--to", "saved"]);
        saved.refused(2, "its huge pages are this machine's", "without `dpdk`");
    });
}
