//! Labs on several hosts: machines with ssh daemons, each in namespaces of its own, and the one that the test is in.

mod cluster;
mod common;

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cluster::labs::{hosts, labs_on, nothing_is_left, on};
use cluster::{Cluster, address};
use common::{Bench, enter, finish, until};

/// A node on each of two machines, joined over `carrier`.
fn pair(carrier: &str) -> String {
    format!(
        "name: NAME\n{}topology:\n  nodes:\n    a: {{kind: native, host: n1}}\n    b: {{kind: native, host: n2}}\n  \
         links: [{{type: overlay, carrier: {carrier}, endpoints: ['a:eth0', 'b:eth0']}}]\n",
        hosts(2, false)
    )
}

#[test]
fn a_lab_lies_on_three_hosts() {
    enter("a_lab_lies_on_three_hosts", |bench| {
        let mut cluster = Cluster::new(bench, 2);
        cluster.start_ssh(bench);
        // A cable between two of the machines.
        let other = cluster.network("n1").display().to_string();
        let cable = [
            "ip", "link", "add", "cable0", "type", "veth", "peer", "name", "cable1",
        ];
        common::tool(&[&cable[..], &["netns", &other]].concat());
        let lab = format!(
            "name: NAME\n{}topology:\n  nodes:\n    a: {{kind: container, host: here}}\n    b: {{kind: native, host: n1}}\n    \
             c: {{kind: native, host: n2}}\n    d: {{kind: native, host: n2}}\n  links:\n    \
             - {{type: overlay, carrier: udp, endpoints: ['a:eth0', 'b:eth0', 'c:eth0', 'd:eth0']}}\n    \
             - {{type: overlay, carrier: sealed, endpoints: ['b:eth1', 'c:eth1']}}\n    \
             - {{type: veth, endpoints: ['c:eth2', 'd:eth2']}}\n    \
             - {{type: phys, endpoints: ['a:wire', 'b:wire'], interfaces: [cable0, cable1], subnets: [10.99.0.0/24]}}\n",
            hosts(2, true)
        );
        let file = bench.file("wide", &lab);
        let name = bench.name("wide");
        let deployed = bench.latlab(&["deploy", &file]).good();
        let header = deployed.out.lines().next().unwrap_or_default();
        assert!(header.contains("HOST"), "{}", deployed.out);
        let inspected = bench.latlab(&["inspect", &name, "--format", "csv"]).good();
        for row in ["here,a,", "n1,b,", "n2,c,", "n2,d,"] {
            assert!(
                inspected.out.contains(&format!("{name},{row}")),
                "{row}: {}",
                inspected.out
            );
        }
        // By name, over every link, in packets of every size.
        for (from, to) in [
            ("a", "b"),
            ("a", "c"),
            ("b", "c"),
            ("c", "a"),
            ("d", "b"),
            ("c", "d"),
        ] {
            for size in ["56", "1300", "9000"] {
                let ping = ["ping", "-c", "3", "-i", "0.02", "-W", "10", "-s", size, to];
                bench.exec(&name, from, &ping).good();
            }
        }
        let ping = ["ping", "-c", "3", "-i", "0.02", "-W", "10", "10.99.0.2"];
        bench.exec(&name, "a", &ping).good();
        // The sealed link, whose daemon on each host has its own key and the other's public one.
        let ping = ["ping", "-c", "3", "-i", "0.02", "-W", "10", "-I", "eth1"];
        let ping = [&ping[..], &["198.18.2.2"]].concat();
        bench.exec(&name, "b", &ping).good();
        let config = bench.run_dir().join(&name).join("overlay/l1/config");
        let mut ssh = Command::new("ssh");
        let config = finish(ssh.args(["n1", "cat"]).arg(config)).good();
        let key = on(2, &["host-key"]).good().out;
        let sealed = format!("sealed {}", address(2));
        assert!(
            config.out.contains(&sealed) && config.out.contains(key.trim()),
            "{config:#?}"
        );
        // Arguments, output and exit code pass the shells on the way.
        let said = bench.exec(
            &name,
            "c",
            &["sh", "-c", "echo 'a  b' >&2; hostname; exit 7"],
        );
        assert_eq!(
            (said.code, said.out.trim(), said.err.trim()),
            (7, "c", "a  b")
        );
        let mut shell = bench.command(&["shell", &name, "d"]);
        let mut shell = shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let typed = b"hostname\nexit 3\n";
        shell.stdin.take().unwrap().write_all(typed).unwrap();
        let said = common::finished(shell);
        assert_eq!((said.code, said.out.trim()), (3, "d"), "{said:#?}");
        bench
            .latlab(&["exec", &name, "nobody", "--", "true"])
            .refused(2, "has no node `nobody`", "it has a, b, c, d");
        // Verbs about nodes are done by the hosts that have them; these machines have no cgroups.
        bench.latlab(&["pause", &name, "a", "b"]).refused(
            2,
            "host `n1`: node `b`: it has no cgroup",
            "latlab inspect",
        );
        let states = || {
            bench
                .latlab(&["inspect", &name, "--format", "csv"])
                .good()
                .out
        };
        bench.latlab(&["pause", &name, "a"]).good();
        assert!(states().contains("paused"));
        bench.latlab(&["resume", &name, "a"]).good();
        assert!(!states().contains("paused"));
        for (words, what, hint) in [
            (
                &["pause", &name, "a", "nobody"][..],
                "has no node `nobody`",
                "it has a, b, c, d",
            ),
            (
                &["snapshot", &name, "b", "--to", "here"],
                "here is no absolute path",
                "on host `n1`",
            ),
            (
                &["migrate", &name, "b", "--to", "c"],
                "is on host `n1`, and `c` on host `n2`",
                "within a host",
            ),
            (
                &["clone", &name, "b", "c"],
                "node `c` is on host `n2`",
                "on its host, `n1`",
            ),
        ] {
            bench.latlab(words).refused(2, what, hint);
        }
        let said = bench.latlab(&["migrate", &name, "b"]);
        assert!(said.code == 2 && said.err.contains("`b`"), "{said:#?}");
        // Twice, and beside it.
        bench
            .latlab(&["deploy", &file])
            .refused(2, "is deployed already", "latlab destroy");
        bench.latlab(&["destroy", &name]).good();
        nothing_is_left(bench, 1..=2);
        common::tool(&["ip", "link", "show", "cable0"]);
        let mut ssh = Command::new("ssh");
        finish(ssh.args(["n1", "ip", "link", "show", "cable1"])).good();
        let again = bench.latlab(&["destroy", &name]).good();
        assert!(again.out.contains("no lab"), "{again:#?}");
    });
}

#[test]
fn deploying_onto_hosts_is_all_or_nothing() {
    enter("deploying_onto_hosts_is_all_or_nothing", |bench| {
        let mut cluster = Cluster::new(bench, 2);
        cluster.start_ssh(bench);
        let name = bench.name("pair");
        // One that fails on one host, after both were asked.
        let failing = pair("udp").replace("host: n2}", "host: n2, exec: 'exit 3'}");
        let said = bench.latlab(&["deploy", &bench.file("pair", &failing)]);
        said.ended_badly(2, "host `n2`: ", "nothing is left of the lab");
        nothing_is_left(bench, 1..=2);
        // One that a host refuses before anything.
        let lacking = pair("udp").replace("host: n2}", "host: n2, cpuset: 4000}");
        let said = bench.latlab(&["deploy", &bench.file("pair", &lacking)]);
        said.ended_badly(2, "host `n2`: standard input:", "nothing is left");
        nothing_is_left(bench, 1..=2);
        // A host that is not there: nothing was begun.
        let absent = pair("udp").replace("ssh: n2", "ssh: 10.77.0.99");
        let said = bench.latlab(&["deploy", &bench.file("pair", &absent)]);
        said.ended_badly(2, "host `n2`: no connection", "nothing was changed");
        nothing_is_left(bench, 1..=1);
        // No latlab there, and another one.
        let program = format!("latlab: {}}}\ntopology", env!("CARGO_BIN_EXE_latlab"));
        for (other, told) in [
            ("/nowhere/latlab", "not found"),
            ("echo latlab 0.0", "it has latlab 0.0"),
        ] {
            let strange = pair("udp").replace(&program, &format!("latlab: {other}}}\ntopology"));
            let said = bench.latlab(&["deploy", &bench.file("pair", &strange)]);
            said.ended_badly(2, told, "nothing was changed");
        }
        nothing_is_left(bench, 1..=2);
        // Another's lab of that name stays as it is.
        let other = format!("name: {name}\ntopology: {{nodes: {{x: {{kind: native}}}}}}\n");
        let file = bench.root().join("other.yaml");
        fs::write(&file, other).unwrap();
        on(1, &["deploy", file.to_str().unwrap()]).good();
        let file = bench.file("pair", &pair("vxlan"));
        bench
            .latlab(&["deploy", &file])
            .ended_badly(2, "host `n1`: lab", "nothing was changed");
        on(1, &["exec", &name, "x", "--", "true"]).good();
        on(1, &["destroy", &name]).good();
        bench.latlab(&["deploy", &file]).good();
        bench
            .exec(&name, "a", &["ping", "-c", "1", "-W", "10", "b"])
            .good();
        bench.latlab(&["destroy", &name]).good();
        nothing_is_left(bench, 1..=2);
    });
}

#[test]
fn what_is_on_a_host_that_is_away_is_removed_when_it_is_back() {
    enter(
        "what_is_on_a_host_that_is_away_is_removed_when_it_is_back",
        |bench| {
            let mut cluster = Cluster::new(bench, 2);
            cluster.start_ssh(bench);
            let name = bench.deploy("pair", &pair("udp"));
            cluster.cut(2);
            let inspected = bench.latlab(&["inspect", &name]);
            assert_eq!(inspected.code, 2, "{inspected:#?}");
            assert!(
                inspected.err.contains("host `n2`: no connection"),
                "{inspected:#?}"
            );
            assert!(inspected.out.contains("n1"), "{inspected:#?}");
            bench.exec(&name, "a", &["true"]).good();
            let said = bench.latlab(&["destroy", &name]);
            said.refused(
                2,
                "may still be on host `n2`: no connection",
                "latlab destroy",
            );
            assert_eq!(labs_on(1), "{}");
            let gone = bench.latlab(&["exec", &name, "a", "--", "true"]);
            gone.refused(2, "has no node `a`", "it has b");
            cluster.boot_sshd(bench, 2);
            bench.latlab(&["destroy", &name]).good();
            nothing_is_left(bench, 1..=2);
        },
    );
}

/// A deployment of a pair whose second host has its part, and waits for the node's command.
fn half_deployed(bench: &Bench) -> (String, Child) {
    let slow = pair("udp").replace("host: n2}", "host: n2, exec: 'sleep 60'}");
    let file = bench.file("pair", &slow);
    let name = bench.name("pair");
    let mut deploy = bench.command(&["deploy", &file]);
    let pipes = deploy.stdout(Stdio::piped()).stderr(Stdio::piped());
    let deploying = pipes.spawn().unwrap();
    until("the second host deploys", || labs_on(2).contains(&name));
    (name, deploying)
}

#[test]
fn a_host_that_dies_while_it_deploys_takes_the_lab_with_it() {
    enter(
        "a_host_that_dies_while_it_deploys_takes_the_lab_with_it",
        |bench| {
            let mut cluster = Cluster::new(bench, 2);
            cluster.start_ssh(bench);
            let (name, deploying) = half_deployed(bench);
            cluster.cut(2);
            let said = common::finished(deploying);
            said.ended_badly(3, "host `n2`: no connection", "removes what is still on n2");
            assert_eq!(labs_on(1), "{}");
            cluster.boot_sshd(bench, 2);
            bench.latlab(&["destroy", &name]).good();
            nothing_is_left(bench, 1..=2);
        },
    );
}

#[test]
fn a_latlab_that_is_killed_on_a_host_leaves_nothing_there() {
    enter(
        "a_latlab_that_is_killed_on_a_host_leaves_nothing_there",
        |bench| {
            let mut cluster = Cluster::new(bench, 2);
            cluster.start_ssh(bench);
            let (_, deploying) = half_deployed(bench);
            // Only the processes of that host are seen there.
            let kill = "kill -KILL $(pgrep --full 'deploy [-] --format json')";
            finish(Command::new("ssh").args(["n2", kill])).good();
            let said = common::finished(deploying);
            said.ended_badly(2, "host `n2`: ", "nothing is left of the lab");
            nothing_is_left(bench, 1..=2);
        },
    );
}

#[test]
fn a_pause_without_names_leaves_the_hosts_themselves_out() {
    enter(
        "a_pause_without_names_leaves_the_hosts_themselves_out",
        |bench| {
            let mut cluster = Cluster::new(bench, 1);
            cluster.start_ssh(bench);
            let lab = format!(
                "name: NAME\n{}topology:\n  nodes:\n    a: {{kind: container, host: here}}\n    \
                 b: {{kind: host, host: here}}\n    c: {{kind: host, host: n1}}\n",
                hosts(1, true)
            );
            let name = bench.deploy("wide", &lab);
            let states = || {
                bench
                    .latlab(&["inspect", &name, "--format", "csv"])
                    .good()
                    .out
            };
            bench.latlab(&["pause", &name]).good();
            assert!(states().contains("paused"), "{}", states());
            bench.latlab(&["resume", &name]).good();
            assert!(!states().contains("paused"), "{}", states());
            let said = bench.latlab(&["pause", &name, "c"]);
            said.refused(2, "host `n1`: node `c`", "pause the nodes");
            bench.latlab(&["destroy", &name]).good();
            nothing_is_left(bench, 1..=1);
        },
    );
}

#[test]
fn a_record_that_cannot_be_read_hides_and_keeps_no_other_lab() {
    enter(
        "a_record_that_cannot_be_read_hides_and_keeps_no_other_lab",
        |bench| {
            let records = bench.root().join("state/hosts");
            fs::create_dir_all(&records).unwrap();
            let record = records.join("aa.json");
            fs::write(&record, "").unwrap();
            let lab = "name: NAME\ntopology: {nodes: {x: {kind: native}}}\n";
            let name = bench.deploy("zz", lab);
            let (what, path) = (
                "cannot read the hosts of lab `aa`",
                record.to_str().unwrap(),
            );
            let inspected = bench.latlab(&["inspect"]);
            inspected.refused(2, what, path);
            assert!(inspected.out.contains(&name), "{inspected:#?}");
            let destroyed = bench.latlab(&["destroy", "--all", "-y"]);
            destroyed.refused(2, what, path);
            let removed = format!("removed lab `{name}`");
            assert!(destroyed.out.contains(&removed), "{destroyed:#?}");
            fs::remove_file(&record).unwrap();
        },
    );
}

#[test]
fn a_deployment_that_is_killed_leaves_nothing_that_destroy_does_not_find() {
    enter(
        "a_deployment_that_is_killed_leaves_nothing_that_destroy_does_not_find",
        |bench| {
            let mut cluster = Cluster::new(bench, 2);
            cluster.start_ssh(bench);
            let file = bench.file("pair", &pair("udp"));
            let name = bench.name("pair");
            for (signal, milliseconds) in [
                ("KILL", 100),
                ("KILL", 400),
                ("KILL", 700),
                ("KILL", 1200),
                ("INT", 600),
            ] {
                let mut deploy = bench.command(&["deploy", &file]);
                let mut child = deploy
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                std::thread::sleep(Duration::from_millis(milliseconds));
                common::tool(&["kill", &format!("-{signal}"), &child.id().to_string()]);
                let status = child.wait().unwrap();
                if signal == "INT" && !status.success() {
                    nothing_is_left(bench, 1..=2);
                }
                // Hosts end by themselves what they began when the connection ends; destroy may come before that.
                until("nothing is left", || {
                    bench.latlab(&["destroy", &name]).good();
                    (1..=2).all(|number| labs_on(number) == "{}")
                });
            }
            nothing_is_left(bench, 1..=2);
        },
    );
}

/// Without a terminal, sshd tells a command nothing of the end of its connection.
#[test]
fn a_command_on_another_host_ends_with_its_connection() {
    const NAME: &str = "a_command_on_another_host_ends_with_its_connection";
    enter(NAME, |bench| {
        let mut cluster = Cluster::new(bench, 1);
        cluster.start_ssh(bench);
        let lab = format!(
            "name: NAME\n{}topology: {{nodes: {{c: {{kind: native, host: n1}}}}}}\n",
            hosts(1, false)
        );
        let name = bench.deploy("one", &lab);
        let sleeps = || {
            let mut ssh = Command::new("ssh");
            finish(ssh.args(["n1", "pgrep", "-x", "sleep"])).code == 0
        };
        for words in [
            &["exec", &name, "c", "--", "sleep", "600"][..],
            &["shell", &name, "c"],
        ] {
            let mut command = bench.command(words);
            command.stdin(Stdio::piped());
            let mut child = command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // Its end would end the shell.
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(b"sleep 600\n").unwrap();
            until("it runs there", sleeps);
            // A shell's background jobs ignore SIGINT, as these tests may, and with them ssh.
            common::signal(child.id(), "TERM");
            common::finished(child);
            until("it has ended there", || !sleeps());
            drop(stdin);
        }
        // The end of the input is not that of the connection.
        let said = bench.exec(&name, "c", &["sh", "-c", "cat; exit 7"]);
        assert_eq!(said.code, 7, "{said:#?}");
        bench.latlab(&["destroy", &name]).good();
        nothing_is_left(bench, 1..=1);
    });
}

#[test]
fn nodes_are_placed_on_hosts_by_capacity_and_links() {
    enter("nodes_are_placed_on_hosts_by_capacity_and_links", |bench| {
        let mut cluster = Cluster::new(bench, 2);
        cluster.start_ssh(bench);
        let lab = |memory: &str| {
            format!(
                "name: NAME\n{}topology:\n  defaults: {{kind: native, host: auto}}\n  nodes:\n    \
                 node: {{count: 16{memory}}}\n    here: {{host: n2}}\n    near: {{}}\n  links:\n    \
                 - {{type: overlay, carrier: sealed, endpoints: ['node:eth0', 'here:eth0']}}\n    \
                 - {{type: veth, endpoints: ['near:eth0', 'here:eth1']}}\n",
                hosts(2, false)
            )
        };
        let file = bench.file("chosen", &lab(""));
        let name = bench.name("chosen");
        bench.latlab(&["validate", &file]).good();
        let deployed = bench.latlab(&["deploy", &file, "--format", "csv"]).good();
        let on = |host: &str| {
            let row = format!("{name},{host},");
            deployed
                .out
                .lines()
                .filter(|line| line.starts_with(&row))
                .count()
        };
        assert!(on("n1") >= 6 && on("n2") >= 6, "{}", deployed.out);
        assert!(
            deployed.out.contains(&format!("{name},n2,near,")),
            "{}",
            deployed.out
        );
        for to in ["node-16", "here"] {
            let ping = ["ping", "-c", "2", "-i", "0.02", "-W", "10", to];
            bench.exec(&name, "node-1", &ping).good();
        }
        bench.latlab(&["destroy", &name]).good();
        // More than both hosts have.
        let file = bench.file("large", &lab(", memory: 512GiB"));
        let said = bench.latlab(&["deploy", &file]);
        assert!(
            said.code == 2 && said.err.contains("no host has 512GiB of memory left"),
            "{said:#?}"
        );
        nothing_is_left(bench, 1..=2);
    });
}
