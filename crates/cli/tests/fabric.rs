//! Overlay daemons of three hosts that share their state in a real etcd of three members.

mod cluster;
mod common;
mod etcd;

use std::collections::BTreeSet;
use std::process::Stdio;

use common::{Bench, enter, tool, until};
use etcd::Hosts;

/// As `enter`, where there is an etcd to test with.
fn with_etcd(name: &str, test: impl Fn(&Bench)) {
    enter(name, |bench| {
        if etcd::is_new_enough() {
            test(bench);
        }
    });
}

const SENDER: &str = "02:00:00:00:00:01";

fn guests(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("02:00:00:01:{:02x}:{:02x}", number >> 8, number & 255))
        .collect()
}

#[test]
fn addresses_move_under_traffic_and_every_frame_arrives_once() {
    with_etcd(
        "addresses_move_under_traffic_and_every_frame_arrives_once",
        |bench| {
            const FRAMES: usize = 12_000;
            let mut hosts = Hosts::new(bench);
            for number in 1..=3 {
                hosts.join(number, "sealed");
            }
            let guests = guests(100);
            let everywhere = |hosts: &Hosts<'_>, revision| {
                let last = &guests[guests.len() - 1];
                hosts.until_at(1, last, "link host-n3", revision);
                hosts.until_at(2, last, "link host-n3", revision);
                hosts.until_at(3, last, "interface vm", revision);
            };
            let revision = hosts.relocate(&guests, "n3:vm");
            everywhere(&hosts, revision);
            // The first frames of a sealed link wait for its keys.
            hosts.receive(3);
            hosts.send(1, SENDER, 10, &guests);
            assert_eq!(hosts.received(3).len(), 10);

            hosts.receive(2);
            hosts.receive(3);
            let mut sender = hosts.sender(1, SENDER, FRAMES, &guests);
            let mut sender = sender.stderr(Stdio::inherit()).spawn().unwrap();
            let mut revision = 0;
            for round in 0..10 {
                for to in ["n2:vm", "n3:vm"] {
                    revision = hosts.relocate(&guests, to);
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
                if round == 4 {
                    hosts.kill("etcd", hosts.leader());
                }
            }
            everywhere(&hosts, revision);
            assert!(sender.wait().unwrap().success());
            let before = hosts.received(2);
            let mut all = hosts.received(3);
            all.extend(&before);
            let different: BTreeSet<&u32> = all.iter().collect();
            assert_eq!((all.len(), different.len()), (FRAMES, FRAMES));

            // No frame goes to the host that the addresses have left.
            hosts.receive(2);
            hosts.receive(3);
            hosts.send(1, SENDER, 1000, &guests);
            assert_eq!(hosts.received(3).len(), 1000);
            assert_eq!(hosts.received(2).len(), 0);
        },
    );
}

#[test]
fn a_partition_stops_no_frame_and_a_stale_host_is_fenced() {
    with_etcd(
        "a_partition_stops_no_frame_and_a_stale_host_is_fenced",
        |bench| {
            let mut hosts = Hosts::new(bench);
            for number in 1..=3 {
                hosts.join(number, "udp");
            }
            let [moved, stays] = guests(2).try_into().unwrap();
            let (moved, stays) = ([moved], [stays]);
            hosts.relocate(&moved, "n3:vm");
            let revision = hosts.relocate(&stays, "n3:vm");
            for (number, port) in [
                (1, "link host-n3"),
                (2, "link host-n3"),
                (3, "interface vm"),
            ] {
                hosts.until_at(number, &stays[0], port, revision);
            }
            hosts.cut(3);
            until("the others see that n3 is away", || {
                hosts.told(1).contains("host `n3` is away")
                    && hosts.told(2).contains("host `n3` is away")
            });
            until("n3 sees that etcd is away", || {
                hosts.told(3).contains("does not answer")
            });
            let shown = hosts.fabric(&["show", "f"]).good().out;
            let row = shown.lines().find(|line| line.starts_with("n3")).unwrap();
            assert!(row.contains("away") && row.ends_with(" 2"), "{shown}");

            // Its frames do not depend on the store.
            hosts.receive(3);
            hosts.send(1, SENDER, 500, &stays);
            assert_eq!(hosts.received(3).len(), 500);

            // A guest of n3 is started again at n2, and goes on at n3, which could not be told.
            let revision = hosts.relocate(&moved, "n2:vm");
            hosts.until_at(1, &moved[0], "link host-n2", revision);
            hosts.until_at(2, &moved[0], "interface vm", revision);
            hosts.receive(2);
            hosts.receive(3);
            hosts.send(2, &moved[0], 1, &[SENDER.to_owned()]);
            for _ in 0..5 {
                hosts.send(3, &moved[0], 20, &[SENDER.to_owned()]);
                hosts.send(1, SENDER, 100, &moved);
            }
            assert_eq!(hosts.received(2).len(), 500);
            assert_eq!(hosts.received(3).len(), 0);
            hosts
                .fabric(&["move", "f", &moved[0], "--to", "n3:vm"])
                .refused(2, "host `n3` is away", "nothing was moved");

            // Changes that were missed may be forgotten: all is listed again then.
            let missed = guests(20);
            for address in &missed[2..] {
                hosts.relocate(std::slice::from_ref(address), "n2:vm");
            }
            let last = hosts.relocate(&missed[19..], "n1:vm");
            hosts.etcdctl(&["compaction", &last.to_string()]);
            hosts.heal(3);
            until("n3 catches up", || {
                hosts.place(3, &moved[0]).contains("link host-n2")
            });
            hosts.until_at(3, &missed[19], "link host-n1", last);
            until("n3 is back", || {
                hosts
                    .told(1)
                    .contains("host `n3` is connected to the store")
                    && hosts.told(3).contains("etcd answers again")
            });
            hosts.relocate(&moved, "n3:vm");
            hosts.receive(3);
            until("n1 knows", || hosts.place(1, &moved[0]).contains("host-n3"));
            until("n3 knows", || {
                hosts.place(3, &moved[0]).contains("interface vm")
            });
            hosts.send(1, SENDER, 100, &moved);
            assert_eq!(hosts.received(3).len(), 100);
        },
    );
}

#[test]
fn daemons_and_agents_that_were_killed_are_as_before() {
    with_etcd(
        "daemons_and_agents_that_were_killed_are_as_before",
        |bench| {
            let mut hosts = Hosts::new(bench);
            for number in 1..=3 {
                hosts.join(number, "vxlan");
            }
            // More than one line of the control language takes.
            let guests = guests(150);
            let revision = hosts.relocate(&guests, "n2:vm");
            hosts.until_at(1, &guests[149], "link host-n2", revision);
            let listed = |hosts: &Hosts<'_>| hosts.say(1, "list moves").good().out;
            let places = |moves: &str| -> BTreeSet<String> {
                let lines = moves.lines();
                lines
                    .map(|line| line.split(" revision").next().unwrap().to_owned())
                    .collect()
            };
            let own = ["02:00:00:02:00:00".to_owned()];
            let revision = hosts.relocate(&own, "n1:vm");
            hosts.until_at(1, &own[0], "interface vm", revision);
            let before = listed(&hosts);
            assert_eq!(before.lines().count(), 151);

            hosts.kill("daemon", 1);
            until("the agent sees it", || {
                hosts.told(1).contains("the daemon is gone")
            });
            hosts
                .fabric(&["move", "f", &guests[0], "--to", "n1:vm"])
                .refused(
                    2,
                    "the daemon of host `n1` does not take them: it is gone",
                    "nothing was moved",
                );
            hosts.boot_daemon(1);
            until("the agent has told it all", || {
                hosts.told(1).contains("the daemon is back")
            });
            // One place is an interface that the daemon is to have again: it is told until it has it.
            assert!(hosts.told(1).contains("there is no interface `vm`"));
            hosts.say(1, "add interface vm network lan tap vm0").good();
            until("it is told again", || {
                hosts.place(1, &own[0]).contains("interface vm")
            });
            assert_eq!(places(&listed(&hosts)), places(&before));
            let links = hosts.say(1, "list links").good().out;
            assert!(
                links.contains("host-n2 vxlan") && links.contains("host-n3 vxlan"),
                "{links}"
            );

            // An agent that was killed has a lease that is still to end; its daemon misses a host and a move meanwhile.
            hosts.kill("agent", 1);
            hosts.kill("agent", 3);
            let revision = hosts.relocate(&guests[..1], "n2:vm");
            until("n3 is away", || {
                hosts.fabric(&["remove", "f", "n3"]).code == 0
            });
            assert!(hosts.place(1, &guests[0]).contains("host-n2"));
            hosts.start_agent(1, "vxlan");
            until("n1 is back", || {
                hosts.told(1).matches("joined: ").count() == 2
            });
            hosts.until_at(1, &guests[0], "link host-n2", revision);
            let links = hosts.say(1, "list links").good().out;
            assert!(
                links.contains("host-n2") && !links.contains("host-n3"),
                "{links}"
            );
            assert!(hosts.told(2).contains("host `n3` was removed"));
        },
    );
}

#[test]
fn etcd_under_mutual_tls_is_asked_with_certificates() {
    with_etcd(
        "etcd_under_mutual_tls_is_asked_with_certificates",
        |bench| {
            let files = bench.root().join("tls");
            std::fs::create_dir(&files).unwrap();
            let file = |name: &str| files.join(name).display().to_string();
            let curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
            tool(&[
            "sh",
            "-ec",
            &format!(
                "cd {}; ip link set lo up
                openssl req -x509 {curve} -days 2 -subj /CN=authority -keyout ca.key -out ca.pem 2>&1
                openssl req {curve} -subj /CN=etcd -keyout own.key -out own.csr 2>&1
                printf 'subjectAltName=IP:127.0.0.1' > own.ext
                openssl x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile own.ext -out own.pem 2>&1",
                files.display()
            ),
        ]);
            let url = "https://127.0.0.1:2379";
            let mut etcd = std::process::Command::new("etcd");
            etcd.args(["--data-dir", &file("data"), "--client-cert-auth"])
                .args(["--listen-client-urls", url, "--advertise-client-urls", url])
                .args(["--listen-peer-urls", "http://127.0.0.1:2380"])
                .args([
                    "--cert-file",
                    &file("own.pem"),
                    "--key-file",
                    &file("own.key"),
                ])
                .args(["--trusted-ca-file", &file("ca.pem")])
                .stderr(Stdio::null());
            let mut etcd = etcd.spawn().unwrap();
            let show = |more: &[&str]| {
                let words = ["fabric", "show", "f", "--etcd", url];
                bench.latlab(&[&words[..], more].concat())
            };
            let (authority, own, key) = (file("ca.pem"), file("own.pem"), file("own.key"));
            let all = [
                "--authority",
                &authority,
                "--certificate",
                &own,
                "--key",
                &key,
            ];
            until("etcd answers", || show(&all).err.contains("has no fabric"));
            for wrong in [&[][..], &all[..2], &all[2..]] {
                show(wrong).refused(2, "does not answer", "");
            }
            etcd.kill().unwrap();
            etcd.wait().unwrap();
            tool(&["ip", "link", "set", "lo", "down"]);
        },
    );
}

#[test]
fn hosts_and_addresses_that_do_not_fit_are_refused() {
    with_etcd("hosts_and_addresses_that_do_not_fit_are_refused", |bench| {
        let mut hosts = Hosts::new(bench);
        hosts.join(1, "udp");
        let before = hosts.fabric(&["show", "f", "--format", "json"]).good().out;
        let join = |hosts: &Hosts<'_>, changes: &[(&str, &str)], more: &[&str]| {
            let mut words = hosts.join_words(2, "udp");
            for (flag, value) in changes {
                let at = words.iter().position(|word| word == flag).unwrap();
                words[at + 1] = (*value).into();
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            hosts.fabric(&[&words[..], more].concat())
        };
        let first = cluster::address(1);
        for (changes, more, what, hint) in [
            (
                &[("--host", "n1")][..],
                &[][..],
                "host `n1` has joined this fabric already",
                "another name",
            ),
            (
                &[("--address", first.as_str())],
                &[],
                "host `n1` has the address 10.77.0.11:51789",
                "remove",
            ),
            (
                &[("--address", "fd00::2")],
                &[],
                "of another family",
                "all IPv6",
            ),
            (
                &[("--carrier", "vxlan")],
                &[],
                "host `n1` carries frames over udp",
                "--carrier udp",
            ),
            (
                &[],
                &["--network", "lan=8"],
                "network `lan` has number 7",
                "fabric show",
            ),
            (
                &[],
                &["--network", "wan=7"],
                "another network of this fabric has number 7",
                "fabric show",
            ),
            (
                &[("--control", "/nowhere")],
                &[],
                "cannot speak with /nowhere",
                "latlab-overlay --control",
            ),
            (
                &[],
                &["--authority", "/dev/null"],
                "/dev/null: no certificate is in it",
                "PEM",
            ),
        ] {
            join(&hosts, changes, more).refused(2, what, hint);
        }
        let relocate = |words: &[&str]| hosts.fabric(&[&["move", "f"][..], words].concat());
        let guest = "02:00:00:01:00:00";
        for (words, what, hint) in [
            (
                &[guest, "--to", "n9:vm"][..],
                "the fabric has no host `n9`",
                "nothing was moved",
            ),
            (
                &[guest, "--to", "n1:vm", "--network", "wan"],
                "no network `wan`",
                "nothing was moved",
            ),
            (
                &[guest, "--to", "n1:vm", "--from", "n2:vm"],
                "02:00:00:01:00:00 is at no place",
                "moved meanwhile",
            ),
            (
                &["02:00", "--to", "n1:vm"],
                "`02:00` is no MAC address",
                "nothing was moved",
            ),
            (
                &[guest, guest, "--to", "n1:vm"],
                "is given twice",
                "nothing was moved",
            ),
            (
                &["ff:ff:ff:ff:ff:ff", "--to", "n1:vm"],
                "is the address of a group",
                "nothing was moved",
            ),
            (
                &[guest, "--to", "n1:later"],
                "the daemon of host `n1` does not take them: there is no interface `later`",
                "nothing was moved",
            ),
            (
                &["-", "--to", "n1:vm"],
                "no address is given",
                "nothing was moved",
            ),
        ] {
            relocate(words).refused(2, what, hint);
        }
        hosts
            .fabric(&["show", "g"])
            .refused(2, "etcd has no fabric `g`", "join");
        hosts
            .fabric(&["remove", "f", "n1"])
            .refused(2, "host `n1` is in use", "stop");
        for (etcd, what, hint) in [
            (
                "http://10.77.0.99:2379",
                "etcd at http://10.77.0.99:2379 does not answer",
                "is it running",
            ),
            (
                "10.77.0.11:2379",
                "`10.77.0.11:2379` is no URL of etcd",
                "--etcd http://",
            ),
            ("http://10.77.0.11:2380", "", "etcd"),
        ] {
            hosts
                .fabric(&["show", "f", "--etcd", etcd])
                .refused(2, what, hint);
        }
        let state = |text: &str| {
            let mut value: serde_json::Value = serde_json::from_str(text).unwrap();
            value["revision"] = 0.into();
            value
        };
        let after = hosts.fabric(&["show", "f", "--format", "json"]).good().out;
        assert_eq!(state(&after), state(&before));

        // A key that others write into the store is told, and changes nothing.
        hosts.etcdctl(&["put", "/latlab/1/f/hosts/x\nadd network y vni 9", "{}"]);
        until("the agent tells it", || {
            hosts.told(1).contains("is not as this latlab writes it")
        });
        let networks = hosts.say(1, "list networks").good().out;
        assert!(!networks.contains('y'), "{networks}");
    });
}
