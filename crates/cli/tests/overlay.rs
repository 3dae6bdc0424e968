//! Links of `type: overlay` in labs, and `latlab overlay`, through the real binaries.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Bench, enter, enter_with_vms, labelled, tool, whole};

/// A process, a container and, where all of it is asked for, a virtual machine on one overlay.
fn lab(carrier: &str, cable: &str) -> String {
    lab_with(whole(), carrier, cable)
}

fn lab_with(guest: bool, carrier: &str, cable: &str) -> String {
    let (guest, end) = match guest {
        true => (
            ", v: {kind: vm, memory: 256MiB, start: clone}",
            ", \"v:eth0\"",
        ),
        false => ("", ""),
    };
    format!(
        "name: NAME\ntopology:\n  nodes: {{a: {{kind: native}}, c: {{kind: container}}{guest}}}\n  \
         links: [{{type: overlay, carrier: {carrier}, cable: {cable}, \
         endpoints: [\"a:eth0\", \"c:eth0\"{end}]}}]\n"
    )
}

/// Linux 6.7 and later, where it was asked for.
fn has_netkit() -> bool {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
    symbols.lines().any(|line| line.ends_with(" netkit_xmit"))
}

fn reach(bench: &Bench, lab: &str) {
    reach_up_to(if whole() { 3 } else { 2 }, bench, lab);
}

fn reach_up_to(last: u32, bench: &Bench, lab: &str) {
    for node in 2..=last {
        let address = format!("198.18.0.{node}");
        bench
            .exec(
                lab,
                "a",
                &["ping", "-c", "5", "-i", "0.05", "-W", "5", &address],
            )
            .good();
    }
}

#[test]
fn every_carrier_joins_the_nodes_of_a_lab() {
    enter("every_carrier_joins_the_nodes_of_a_lab", |bench| {
        let carriers = ["local", "vxlan", "udp", "direct"];
        let mut cables = vec!["veth"];
        cables.extend(has_netkit().then_some("netkit"));
        for (cable, carrier) in cables
            .iter()
            .flat_map(|cable| carriers.map(|c| (*cable, c)))
        {
            println!("{carrier}, {cable}");
            let name = bench.deploy(carrier, &lab(carrier, cable));
            reach(bench, &name);
            let shown = bench.exec(&name, "a", &["ip", "-details", "link", "show", "eth0"]);
            assert!(shown.good().out.contains(cable), "{cable}");
            let daemon = match carrier {
                "local" => name.clone(),
                _ => format!("{name}/l0.0"),
            };
            let ports = bench
                .latlab(&["overlay", &daemon, "list", "interfaces"])
                .good()
                .out;
            assert!(
                ports.starts_with("p0 network lan veth p0 mac 02:"),
                "{ports}"
            );
            let counters = bench.latlab(&["overlay", &daemon, "counters"]).good().out;
            // The overlay's own format is written and read by the daemon.
            let in_kernel = carrier != "udp";
            assert_eq!(
                counters.contains("in_kernel_frames"),
                in_kernel,
                "{counters}"
            );
            bench.latlab(&["destroy", &name]).good();
            bench.assert_clean();
        }
    });
}

#[test]
fn a_chosen_carrier_is_told_with_its_reason() {
    enter("a_chosen_carrier_is_told_with_its_reason", |bench| {
        let open = lab_with(false, "local", "veth").replace("carrier: local, ", "");
        assert!(!open.contains("carrier"), "{open}");
        let name = bench.deploy("open", &open);
        let note = "note: link `l0` has carrier `local`: the lab names no carrier";
        let said = bench.latlab(&["inspect", &name]).good().err;
        assert!(said.starts_with(note), "{said}");
        let graph = bench.latlab(&["graph", &name]).good().out;
        assert!(graph.contains("carrier local"), "{graph}");
        reach_up_to(2, bench, &name);
        let counters = bench.latlab(&["overlay", &name, "counters"]).good().out;
        assert!(counters.contains("in_kernel_frames"), "{counters}");
        bench.latlab(&["destroy", &name]).good();

        let named = bench.deploy("named", &lab_with(false, "direct", "veth"));
        let said = bench.latlab(&["inspect", &named]).good().err;
        assert!(!said.contains("carrier"), "{said}");
        bench.latlab(&["destroy", &named]).good();
        bench.assert_clean();
    });
}

/// Each of six nodes sends to the next.
#[test]
fn traffic_shows_the_topology_that_nodes_communicate_in() {
    const NODES: usize = 6;
    enter(
        "traffic_shows_the_topology_that_nodes_communicate_in",
        |bench| {
            for carrier in ["local", "vxlan", "udp"] {
                let nodes: String = (0..NODES)
                    .map(|n| format!("n{n}: {{kind: native}}, "))
                    .collect();
                let ends: String = (0..NODES).map(|n| format!("\"n{n}:eth0\", ")).collect();
                let lab = format!(
                    "name: NAME\ntopology:\n  nodes: {{{nodes}}}\n  links: [{{type: overlay, name: lan, \
                 carrier: {carrier}, endpoints: [{ends}]}}]\n"
                );
                let name = bench.deploy(carrier, &lab);
                let idle = bench.latlab(&["traffic", &name, "--for", "100ms", "--format", "json"]);
                assert!(idle.good().out.contains("\"topologies\": []"));
                for n in 0..NODES {
                    let next = (n + 1) % NODES + 1;
                    let line =
                        format!("ping -i 0.01 -s 1000 -w 120 198.18.0.{next} > /dev/null 2>&1 &");
                    bench
                        .exec(&name, &format!("n{n}"), &["sh", "-c", &line])
                        .good();
                }
                let seen = bench.latlab(&["traffic", &name]).good().out;
                let last = seen.lines().last().unwrap();
                assert_eq!(last, "a ring of 6: n0, n1, n2, n3, n4, n5", "{seen}");
                let json = bench.latlab(&["traffic", &name, "--for", "500ms", "--format", "json"]);
                let json: serde_json::Value = serde_json::from_str(&json.good().out).unwrap();
                let pairs = json["pairs"].as_array().unwrap();
                let bytes = |from: &str, to: &str| {
                    let pair = pairs
                        .iter()
                        .find(|pair| pair["from"] == from && pair["to"] == to);
                    pair.map_or(0.0, |pair| pair["bytes_per_second"].as_f64().unwrap())
                };
                for n in 0..NODES {
                    let (this, next) = (format!("n{n}"), format!("n{}", (n + 1) % NODES));
                    // An echo request has as many bytes as its reply.
                    let both = [bytes(&this, &next), bytes(&next, &this)];
                    assert!(both.iter().all(|bytes| *bytes > 1000.0), "{json:#}");
                    assert!((0.5..2.0).contains(&(both[0] / both[1])), "{json:#}");
                }
                bench.latlab(&["destroy", &name]).good();
                bench.assert_clean();
            }
            let other = bench.deploy(
                "other",
                "name: NAME\ntopology:\n  nodes: {a: {kind: native}, b: {kind: native}}\n  \
             links: [{endpoints: [\"a:eth0\", \"b:eth0\"]}]\n",
            );
            let refused = bench.latlab(&["traffic", &other]);
            refused.refused(
                2,
                "has no link of type overlay",
                "give a link `type: overlay`",
            );
            let short = bench.latlab(&["traffic", &other, "--for", "1ms"]);
            assert!(
                short.code == 2 && short.err.contains("a time from 100ms to 3600s"),
                "{short:#?}"
            );
            bench.latlab(&["destroy", &other]).good();
        },
    );
}

#[test]
fn netkit_cables_are_refused_where_there_is_no_netkit() {
    enter(
        "netkit_cables_are_refused_where_there_is_no_netkit",
        |bench| {
            if has_netkit() {
                println!("skipped: this kernel has netkit");
                return;
            }
            let file = bench.file("netkit", &lab("local", "netkit"));
            let said = bench.latlab(&["deploy", &file]);
            assert_eq!(said.code, 2, "{said:#?}");
            assert!(
                said.err.contains("link `l0` has netkit cables: "),
                "{said:#?}"
            );
            assert!(said.err.contains("CONFIG_NETKIT"), "{said:#?}");
            bench.assert_clean();
        },
    );
}

#[test]
fn unknown_commands_get_a_hint() {
    enter("unknown_commands_get_a_hint", |bench| {
        let name = bench.deploy("hint", &lab("vxlan", "veth"));
        let several = bench.latlab(&["overlay", &name, "show"]);
        assert_eq!(several.code, 2);
        let expected = format!(
            "latlab: lab `{name}` has several overlay daemons\n  hint: name it, as {name}/LINK: one of l0.0, l0.1"
        );
        assert!(several.err.starts_with(&expected), "{}", several.err);
        let daemon = format!("{name}/l0.0");
        let wrong = bench.latlab(&["overlay", &daemon, "list", "everything"]);
        assert_eq!(wrong.code, 2);
        assert_eq!(
            wrong.err,
            "error: unknown list `everything`\n  list everything\n       ^\n  \
             hint: one of networks, interfaces, links, routes, holds, moves\n"
        );
        let nobody = bench.latlab(&["overlay", "nobody", "show"]);
        assert_eq!(nobody.code, 2);
        assert!(
            nobody
                .err
                .starts_with("latlab: no lab `nobody` is deployed\n")
        );
        bench.latlab(&["destroy", &name]).good();
    });
}

/// A daemon on "another host": this one's loopback, under mutual TLS.
#[test]
fn a_remote_daemon_is_controlled_over_tls() {
    enter("a_remote_daemon_is_controlled_over_tls", |bench| {
        tool(&["ip", "link", "set", "lo", "up"]);
        bench.take_as_given();
        let file = |name: &str| bench.root().join(name).display().to_string();
        let certificates = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
             -subj /CN=ca -keyout ca.key -out ca.pem && openssl req -newkey ec -pkeyopt \
             ec_paramgen_curve:P-256 -nodes -subj /CN=me -keyout me.key -out me.csr && \
             echo subjectAltName=IP:127.0.0.1 > ext && openssl x509 -req -in me.csr -CA ca.pem \
             -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out me.pem";
        tool(&[
            "sh",
            "-c",
            &format!("cd {} && {certificates} 2>&1", bench.root().display()),
        ]);
        let (certificate, key, authority) = (file("me.pem"), file("me.key"), file("ca.pem"));
        let files = [
            "--certificate",
            &certificate,
            "--key",
            &key,
            "--authority",
            &authority,
        ];

        let program = Path::new(env!("CARGO_BIN_EXE_latlab")).with_file_name("latlab-overlay");
        let mut daemon = Command::new(program)
            .args(["--control", &file("control"), "--listen", "127.0.0.1:0"])
            .args(["--allow", "127.0.0.1"])
            .args(files)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let said = daemon.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut ready).unwrap();
        let address = ready
            .trim_end()
            .strip_prefix("ready at ")
            .unwrap()
            .to_owned();
        let say = |words: &[&str]| {
            let mut line = vec!["overlay", "--connect", &address];
            line.extend(files);
            line.extend(words);
            bench.latlab(&line)
        };

        say(&["add", "network", "lan", "vni", "7"]).good();
        let networks = say(&["list", "networks"]).good().out;
        assert!(networks.starts_with("lan vni 7 "), "{networks}");
        assert_eq!(say(&["delete", "network", "lam"]).code, 2);
        let missing = bench.latlab(&["overlay", "--connect", &address, "show"]);
        assert!(
            missing.err.contains("--certificate <FILE>"),
            "{}",
            missing.err
        );

        daemon.kill().unwrap();
        daemon.wait().unwrap();
        let gone = say(&["show"]);
        gone.refused(
            2,
            &format!("cannot speak with {address}: Connection refused"),
            "is the daemon running?",
        );
    });
}

/// The process of a lab that is this program, among its labelled ones.
fn process(program: &str, mark: &str) -> u32 {
    let is_it = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = common::text(&words);
        let name = words.split('\0').next().unwrap_or_default();
        name.ends_with(program) && words.contains(mark)
    };
    let found: Vec<u32> = labelled().into_iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{program} with {mark}: {found:?}");
    found[0]
}

/// Kills a process of the lab, and waits until it is gone.
fn kill_and_wait(pid: u32) {
    common::signal(pid, "KILL");
    // Its first thread may end before the others, which hold its sockets.
    common::until("it is gone", || {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        threads == 0 || (threads == 1 && state.contains(") Z "))
    });
}

/// Kills the lab's only daemon; the one that was started in its place.
fn restarted(bench: &Bench, lab: &str) -> u32 {
    let before = process("latlab-overlay", "control");
    kill_and_wait(before);
    common::until("a new daemon answers", || {
        bench.latlab(&["overlay", lab, "show"]).code == 0
    });
    let after = process("latlab-overlay", "control");
    assert_ne!(before, after);
    after
}

#[test]
fn a_dead_daemon_is_restarted_and_reported() {
    enter("a_dead_daemon_is_restarted_and_reported", |bench| {
        let name = bench.deploy("again", &lab_with(false, "local", "veth"));
        assert!(
            !bench
                .latlab(&["inspect", &name])
                .good()
                .err
                .contains("note")
        );
        for _ in 0..5 {
            restarted(bench, &name);
        }
        reach_up_to(2, bench, &name);
        let said = bench.latlab(&["inspect", &name]).good().err;
        let expected =
            format!("note: the overlay daemon of {name}/l0 was started again 5 times; last, ");
        assert!(said.starts_with(&expected), "{said}");
        // Once more within the minute: it stays down, says so, and what the kernel knows goes on.
        kill_and_wait(process("latlab-overlay", "control"));
        common::until("it stays down", || {
            bench
                .latlab(&["inspect", &name])
                .good()
                .err
                .contains("stays down")
        });
        reach_up_to(2, bench, &name);
        bench.latlab(&["destroy", &name]).good();
        bench.assert_clean();
    });
}

/// Real guests under QEMU: the daemon dies without a word and comes back, then a guest does.
#[test]
fn guests_survive_their_daemon_and_their_neighbours() {
    enter_with_vms(
        "guests_survive_their_daemon_and_their_neighbours",
        |bench| {
            let lab = "name: NAME\ntopology:\n  kinds: {vm: {memory: 256MiB, start: clone}}\n  nodes: {a: {kind: native}, \
                   v: {kind: vm}, w: {kind: vm}}\n  links: [{type: overlay, carrier: local, endpoints: \
                   [\"a:eth0\", \"v:eth0\", \"w:eth0\"]}]\n";
            let lab = bench.deploy("survive", lab);
            let boot = |node: &str| {
                let id = ["cat", "/proc/sys/kernel/random/boot_id"];
                bench.exec(&lab, node, &id).good().out
            };
            let reach = |from: &str, to: &str| {
                let ping = ["ping", "-c", "1", "-W", "5", to];
                common::until("they reach each other", || {
                    bench.exec(&lab, from, &ping).code == 0
                });
            };
            let before = [boot("v"), boot("w")];
            reach("v", "198.18.0.3");
            // QEMU calls again by itself, and its guests go on with the rings that they have.
            for _ in 0..2 {
                restarted(bench, &lab);
                reach("v", "198.18.0.3");
                reach("w", "198.18.0.2");
                reach("a", "198.18.0.2");
                assert_eq!([boot("v"), boot("w")], before, "nobody was started anew");
            }
            // A guest is killed while two others speak: no echo is missing between the first and the last.
            let ping = ["exec", &lab, "a", "--", "ping", "-c", "100", "-i", "0.05"];
            let mut ping = bench.command(&[&ping[..], &["-W", "20", "198.18.0.2"]].concat());
            let mut ping = ping.stdout(Stdio::piped()).spawn().unwrap();
            let mut echoes = BufReader::new(ping.stdout.take().unwrap()).lines();
            let mut number = || {
                let mut line = echoes.by_ref().map_while(Result::ok);
                let line =
                    line.find(|line| line.contains("icmp_seq=") || line.contains("transmitted"));
                let number = line?.split("icmp_seq=").nth(1)?.split(' ').next()?.parse();
                Some(number.unwrap_or(0_u32))
            };
            assert_eq!(number(), Some(1));
            let nodes = bench.latlab(&["inspect", &lab, "-f", "json"]).good().out;
            let nodes: serde_json::Value = serde_json::from_str(&nodes).unwrap();
            let w = nodes[&lab]
                .as_array()
                .unwrap()
                .iter()
                .find(|n| n["name"] == "w");
            kill_and_wait(u32::try_from(w.unwrap()["pid"].as_u64().unwrap()).unwrap());
            let mut last = 1;
            while let Some(next) = number() {
                assert_eq!(next, last + 1, "an echo is missing");
                last = next;
            }
            assert!(last > 90, "the echoes end at {last}");
            ping.wait().unwrap();
            assert_eq!(bench.latlab(&["destroy", &lab]).code, 0);
        },
    );
}

/// As in a container image, whose /run is a disk's: the overlay maps none of QEMU's memory that lies in files of a disk.
#[test]
fn a_guest_is_on_the_overlay_also_where_run_is_on_a_disk() {
    const NAME: &str = "a_guest_is_on_the_overlay_also_where_run_is_on_a_disk";
    enter_with_vms(NAME, |bench| {
        let lab = "name: NAME\ntopology:\n  nodes: {a: {kind: native}, v: {kind: vm, memory: 256MiB, start: clone}}\n  \
            links: [{type: overlay, carrier: local, endpoints: [\"a:eth0\", \"v:eth0\"]}]\n";
        // Sockets' paths are short.
        let run = Path::new("/var/tmp").join(bench.name("run"));
        let latlab = |words: &[&str]| {
            let mut command = bench.command(words);
            common::finish(command.env("LATLAB_RUN_DIR", &run))
        };
        let name = bench.name("disk");
        latlab(&["deploy", &bench.file("disk", lab)]).good();
        let ping = ["exec", &name, "a", "--", "ping", "-c1", "-W20", "v"];
        latlab(&ping).good();
        latlab(&["destroy", &name]).good();
        fs::remove_dir_all(run).unwrap();
    });
}
