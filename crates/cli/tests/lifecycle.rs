//! The life of a lab, through the real binary: deploy, inspect, exec, graph, destroy.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Bench, enter, finish, finished, kinds, labelled, signal, tool, until};
use serde_json::Value;

/// Two nodes of one kind on a veth.
fn pair(kind: &str) -> String {
    format!(
        "name: NAME\ntopology:\n  kinds: {{vm: {{memory: 256MiB}}}}\n  defaults: {{kind: {kind}}}\n  \
         nodes: {{a: {{env: {{COLOUR: blue}}}}, b: {{kind: native}}}}\n  \
         links: [{{endpoints: [\"a:eth0\", \"b:eth0\"]}}]\n"
    )
}

#[test]
fn a_lab_of_each_kind_works_and_leaves_nothing() {
    enter("a_lab_of_each_kind_works_and_leaves_nothing", |bench| {
        for kind in kinds() {
            println!("{kind}");
            let lab = bench.deploy(kind, &pair(kind));
            inspected(bench, &lab, kind);
            let ping = [
                "import socket; s = socket.create_server(('', 5000)); print('up', flush=True); s.accept()",
                "import socket; socket.create_connection(('198.18.0.1', 5000), 20); print('met')",
            ];
            // Ready means ready: the first packet after the deployment arrives.
            let mut listen = bench.command(&["exec", &lab, "a", "--", "python3", "-c", ping[0]]);
            let mut server = listen.stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            let mut out = BufReader::new(server.stdout.take().unwrap());
            out.read_line(&mut line).unwrap();
            assert_eq!(line, "up\n");
            let met = bench.exec(&lab, "b", &["python3", "-c", ping[1]]).good();
            assert_eq!(met.out, "met\n");
            assert!(server.wait().unwrap().success());

            let gone = bench.latlab(&["destroy", &lab]).good();
            assert_eq!(gone.out, format!("removed lab `{lab}`\n"));
            bench.assert_clean();
            let again = bench.latlab(&["destroy", &lab]).good();
            assert_eq!(again.out, format!("no lab `{lab}` is deployed\n"));
        }
    });
}

/// The same facts in all three forms.
fn inspected(bench: &Bench, lab: &str, kind: &str) {
    let json: Value =
        serde_json::from_str(&bench.latlab(&["inspect", lab, "-f", "json"]).good().out).unwrap();
    let nodes = json[lab].as_array().unwrap();
    assert_eq!(nodes.len(), 2);
    assert_eq!(
        (&nodes[0]["name"], &nodes[0]["kind"]),
        (&"a".into(), &kind.into())
    );
    assert!(nodes.iter().all(|n| n["state"] == "running"), "{json:#}");
    assert_eq!(nodes[0]["ipv4_address"], "198.18.0.1/24");
    let csv = bench.latlab(&["inspect", "-f", "csv"]).good().out;
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(
        csv.lines()
            .nth(1)
            .unwrap()
            .starts_with(&format!("{lab},a,{kind}")),
        "{csv}"
    );
    let table = bench.latlab(&["inspect", lab]).good().out;
    assert!(
        table.starts_with("LAB ") && table.contains("198.18.0.1/24"),
        "{table}"
    );
    assert!(table.contains("eth0@l0"), "{table}");
}

#[test]
fn commands_have_streams_status_signals_and_environment_in_every_kind() {
    enter(
        "commands_have_streams_status_signals_and_environment_in_every_kind",
        |bench| {
            for kind in kinds() {
                println!("{kind}");
                let lab = bench.deploy(kind, &pair(kind));
                streams(bench, &lab);
                surroundings(bench, &lab);
                signals(bench, &lab);
                let exec = |command: &[&str]| bench.exec(&lab, "a", command);
                exec(&["no-such-program"]).refused(
                    127,
                    "no-such-program",
                    "install it in the image",
                );
                exec(&["/etc/passwd"]).refused(126, "/etc/passwd", "must be an executable file");
                bench
                    .latlab(&["exec", &lab, "a", "-C", "/no/such", "--", "true"])
                    .refused(126, "/no/such", "name a directory");
                bench.latlab(&["destroy", &lab]).good();
            }
            bench
                .exec("absent", "a", &["true"])
                .refused(2, "no lab `absent`", "latlab inspect");
            let lab = bench.deploy("known", &pair("native"));
            bench
                .exec(&lab, "c", &["true"])
                .refused(2, "no node `c`", "its nodes: a, b");
            bench
                .latlab(&["exec", &lab, "a", "--env", "oops", "--", "true"])
                .refused(2, "`oops` is not NAME=VALUE", "--env LANG=C");
        },
    );
}

fn streams(bench: &Bench, lab: &str) {
    // More than any pipe holds, both ways, and the end of the input is passed on.
    let mut wc = bench.command(&[
        "exec",
        lab,
        "a",
        "--",
        "sh",
        "-c",
        "cat; echo end >&2; exit 7",
    ]);
    let mut child = wc
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        for number in 0..40_000 {
            writeln!(stdin, "{number}").unwrap();
        }
    });
    let said = finished(child);
    writer.join().unwrap();
    assert_eq!(said.code, 7);
    assert_eq!(said.err, "end\n");
    assert!(
        said.out
            .lines()
            .map(|l| l.parse::<u32>().unwrap())
            .eq(0..40_000)
    );
    assert_eq!(bench.exec(lab, "a", &["sh", "-c", "kill -9 $$"]).code, 137);
    assert_eq!(bench.exec(lab, "a", &["false"]).code, 1);
}

fn surroundings(bench: &Bench, lab: &str) {
    let script = "echo $COLOUR; echo $EXTRA; pwd";
    let args = [
        "exec",
        lab,
        "a",
        "-e",
        "EXTRA=a b=c",
        "-C",
        "/usr",
        "--",
        "sh",
        "-c",
        script,
    ];
    assert_eq!(bench.latlab(&args).good().out, "blue\na b=c\n/usr\n");
    let args = [
        "exec",
        lab,
        "a",
        "-e",
        "COLOUR=red",
        "--",
        "sh",
        "-c",
        "echo $COLOUR",
    ];
    assert_eq!(
        bench.latlab(&args).good().out,
        "red\n",
        "the command's own counts more"
    );
}

/// The command gets latlab's signals, even if latlab's parent ignores them: as a script does with SIGINT for its
/// background jobs.
fn signals(bench: &Bench, lab: &str) {
    for (name, number) in [("TERM", 15), ("INT", 2), ("USR1", 10)] {
        let script =
            format!("trap 'echo got; exit 5' {name}; echo ready; while :; do sleep 0.05; done");
        let exec = bench.command(&["exec", lab, "a", "--", "sh", "-c", &script]);
        let mut ignoring = Command::new("sh");
        ignoring.args(["-c", "trap '' TERM INT USR1; exec \"$@\"", "sh"]);
        ignoring.arg(exec.get_program()).args(exec.get_args());
        ignoring.envs(
            exec.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let mut child = ignoring.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        signal(child.id(), name);
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "got\n", "signal {number}");
        assert_eq!(child.wait().unwrap().code(), Some(5));
    }
}

#[test]
fn several_labs_live_beside_each_other() {
    enter("several_labs_live_beside_each_other", |bench| {
        let one = bench.deploy("one", &pair("native"));
        let two = bench.deploy("two", &pair("container"));
        let taken = bench.latlab(&["deploy", &bench.file("one", &pair("container"))]);
        taken.refused(2, &format!("`{one}` is already deployed"), "destroy");
        let study = "name: s\nlab: one.yaml\nmeasurements: [{probe: rr, from: a, to: b}]\n";
        let study = bench.file("study", study);
        let taken = bench.latlab(&["run", &study, "--runs", "runs"]);
        taken.refused(2, &format!("`{one}` is already deployed"), "destroy");
        let runs = Path::new(&study).with_file_name("runs");
        assert!(!runs.exists(), "a run without a trial");
        let both = bench.latlab(&["inspect", "-f", "csv"]).good().out;
        assert_eq!(both.lines().count(), 5, "{both}");
        // Each its own network: both have the same addresses.
        for lab in [&one, &two] {
            let out = bench
                .exec(lab, "a", &["ip", "-4", "-o", "address"])
                .good()
                .out;
            assert!(out.contains("198.18.0.1/24"), "{out}");
        }
        let ask = bench.latlab(&["destroy", "--all"]);
        ask.refused(2, "no terminal for confirmation", "add -y");
        bench.latlab(&["destroy", &one]).good();
        bench.exec(&two, "a", &["true"]).good();
        let all = bench.latlab(&["destroy", "--all", "-y"]).good();
        assert_eq!(all.out, format!("removed lab `{two}`\n"));
        bench.assert_clean();
        assert_eq!(
            bench.latlab(&["destroy", "--all", "-y"]).good().out,
            "no labs are deployed\n"
        );
        assert_eq!(
            bench.latlab(&["inspect"]).good().out,
            "no labs are deployed\n"
        );
        assert_eq!(
            bench.latlab(&["inspect", "-f", "json"]).good().out.trim(),
            "{}"
        );
    });
}

#[test]
fn drawings_and_dry_runs_change_nothing() {
    enter("drawings_and_dry_runs_change_nothing", |bench| {
        let file = bench.file("drawn", &pair("container"));
        let plan: Value =
            serde_json::from_str(&bench.latlab(&["deploy", "--dry-run", &file]).good().out)
                .unwrap();
        assert_eq!(plan["nodes"][0]["name"], "a");
        for (format, sign) in [("terminal", "a"), ("mermaid", "graph"), ("svg", "<svg")] {
            let drawn = bench
                .latlab(&["graph", &file, "--format", format])
                .good()
                .out;
            assert!(drawn.contains(sign), "{drawn}");
        }
        bench.assert_clean();
        let lab = bench.deploy("drawn", &pair("container"));
        let of_file = bench.latlab(&["graph", &file]).good().out;
        assert_eq!(bench.latlab(&["graph", &lab]).good().out, of_file);
        bench.latlab(&["graph", "absent"]).refused(
            2,
            "neither a file nor a deployed lab",
            "pair.yaml",
        );
    });
}

#[test]
fn files_and_variables_reach_containers_and_guests() {
    enter("files_and_variables_reach_containers_and_guests", |bench| {
        fs::create_dir(bench.root().join("files/data")).unwrap();
        fs::write(bench.root().join("files/data/hello"), "here\n").unwrap();
        for kind in kinds().iter().filter(|k| **k != "native") {
            println!("{kind}");
            let lab = bench.deploy(
                kind,
                &format!(
                    "name: NAME\ntopology:\n  nodes:\n    a: {{kind: {kind}, memory: 256MiB, \
                     binds: [\"./data:/mnt/ro:ro\", \"./data:/mnt/rw\"]}}\n"
                ),
            );
            let exec = |script: &str| bench.exec(&lab, "a", &["sh", "-c", script]);
            assert_eq!(exec("cat /mnt/ro/hello").good().out, "here\n");
            assert_ne!(
                exec("echo x > /mnt/ro/new").code,
                0,
                "read-only is read-only"
            );
            exec(&format!("echo {kind} > /mnt/rw/from")).good();
            let from = fs::read_to_string(bench.root().join("files/data/from")).unwrap();
            assert_eq!(from.trim(), *kind);
            // Other files of a node stay in the node.
            exec("echo x > /etc/written-by-a-node").good();
            assert!(!Path::new("/etc/written-by-a-node").exists());
            bench.latlab(&["destroy", &lab]).good();
            assert!(
                bench.root().join("files/data/hello").exists(),
                "what is bound is not ours"
            );
        }
    });
}

#[test]
fn the_labs_commands_run_and_their_failures_are_reported() {
    enter(
        "the_labs_commands_run_and_their_failures_are_reported",
        |bench| {
            for kind in kinds() {
                println!("{kind}");
                let with = |extra: &str| {
                    format!("name: NAME\ntopology:\n  nodes:\n    a:\n      kind: {kind}\n{extra}")
                };
                let log = bench.root().join("files/log");
                let _ = fs::remove_file(&log);
                let bind = match *kind {
                    "native" => String::new(),
                    _ => format!(
                        "      binds: [\"{0}:{0}\"]\n",
                        bench.root().join("files").display()
                    ),
                };
                let say = |word: &str| format!("echo {word} >> {}", log.display());
                // A process that a script leaves behind keeps its output, and is not waited for.
                let set = format!("sleep 300 & {}", say("set"));
                let scripts = format!(
                    "{bind}      exec: ['{}', '{}']\n      setup: |\n        {}\n      teardown: |\n        \
                 {}\n        echo sorry >&2\n        exit 3\n",
                    say("one"),
                    say("two"),
                    set,
                    say("torn"),
                );
                let lab = bench.deploy("scripts", &with(&scripts));
                assert_eq!(fs::read_to_string(&log).unwrap(), "one\ntwo\nset\n");
                let gone = bench.latlab(&["destroy", &lab]).good();
                assert!(
                    gone.err.contains("node `a`: teardown `echo torn"),
                    "{gone:#?}"
                );
                assert!(
                    gone.err.contains("failed (exit status 3): sorry"),
                    "{gone:#?}"
                );
                assert_eq!(fs::read_to_string(&log).unwrap(), "one\ntwo\nset\ntorn\n");
                fs::remove_file(&log).unwrap();
                bench.assert_clean();

                let failing = with(&format!(
                    "{bind}      exec: [\"echo why >&2; exit 4\"]\n      teardown: {}\n",
                    say("torn")
                ));
                let file = bench.file("failing", &failing);
                let failed = bench.latlab(&["deploy", &file]);
                failed.refused(2, "failed (exit status 4): why", "--keep");
                assert_eq!(fs::read_to_string(&log).unwrap(), "torn\n");
                bench.assert_clean();

                let kept = bench.latlab(&["deploy", "--keep", &file]);
                kept.refused(2, "failed (exit status 4): why", "latlab destroy");
                let lab = bench.name("failing");
                bench.exec(&lab, "a", &["true"]).good();
                let state = bench.latlab(&["inspect", &lab, "-f", "csv"]).good().out;
                assert!(state.contains("running"), "{state}");
                bench.latlab(&["destroy", &lab]).good();
                bench.assert_clean();
            }
        },
    );
}

/// Removing a lab ends all its processes, also those that outlive their shell or hide their label in a cgroup.
#[test]
fn processes_of_a_lab_end_with_it() {
    enter("processes_of_a_lab_end_with_it", |bench| {
        let host = "name: NAME\ntopology: {nodes: {h: {kind: host}, n: {kind: native}, c: {kind: container}}}\n";
        let lab = bench.deploy("busy", host);
        let daemons = "trap '' TERM HUP; setsid sleep 1000 & env -i /usr/bin/setsid /bin/sleep 1001 & \
                       (while :; do sleep 0.01; done) & echo started";
        for node in ["h", "n", "c"] {
            let mut exec = bench.command(&["exec", &lab, node, "--", "sh", "-c", daemons]);
            let mut child = exec.stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap())
                .read_line(&mut line)
                .unwrap();
            assert_eq!(line, "started\n");
            signal(child.id(), "KILL");
            child.wait().unwrap();
        }
        until("all started", || labelled().len() >= 9);
        bench.latlab(&["destroy", &lab]).good();
        bench.assert_clean();
    });
}

#[test]
fn foreign_names_and_interfaces_are_left_alone() {
    enter("foreign_names_and_interfaces_are_left_alone", |bench| {
        tool(&[
            "ip", "link", "add", "theirs", "type", "veth", "peer", "name", "theirs1",
        ]);
        let host = |interface: &str| {
            format!(
                "name: NAME\ntopology:\n  nodes: {{h: {{kind: host}}, n: {{kind: native}}}}\n  links: \
                 [{{endpoints: [\"h:{interface}\", \"n:eth0\"]}}]\n"
            )
        };
        // Known when planning: a mistake of the document, with its place.
        let taken = bench.latlab(&["deploy", &bench.file("host", &host("theirs"))]);
        assert_eq!(taken.code, 2, "{taken:#?}");
        assert!(
            taken.err.contains("already has an interface `theirs`"),
            "{taken:#?}"
        );
        let lab = bench.deploy("host", &host("ours"));
        bench.exec(&lab, "n", &["ping", "-c1", "-W5", "198.18.0.1"]);
        assert!(tool(&["ip", "-o", "link"]).contains(" ours"));
        // Another program reuses the name while the lab is up: its interface stays.
        tool(&["ip", "link", "del", "ours"]);
        tool(&[
            "ip", "link", "add", "ours", "type", "veth", "peer", "name", "ours1",
        ]);
        bench.latlab(&["destroy", &lab]).good();
        assert!(tool(&["ip", "-o", "link"]).contains(" ours"));
        for name in ["ours", "theirs"] {
            tool(&["ip", "link", "del", name]);
        }
        // A directory where the lab's would be, and names that lead out of latlab's directories.
        let lab = bench.name("pair");
        let theirs = bench.run_dir().join(&lab);
        fs::create_dir_all(theirs.join("keep")).unwrap();
        let file = bench.file("pair", &pair("native"));
        bench
            .latlab(&["deploy", &file])
            .refused(2, "exists already", "move");
        bench.latlab(&["destroy", &lab]).good();
        assert!(theirs.join("keep").exists());
        fs::remove_dir_all(theirs).unwrap();
        let precious = bench.root().join("files/precious");
        fs::write(&precious, "").unwrap();
        for name in [
            "",
            "..",
            "../../files",
            bench.root().join("files").to_str().unwrap(),
        ] {
            bench
                .latlab(&["destroy", name])
                .refused(2, "cannot be the name of a lab", "inspect");
        }
        assert!(precious.exists());
    });
}

#[test]
fn a_lab_that_cannot_work_is_refused_before_anything_changes() {
    enter(
        "a_lab_that_cannot_work_is_refused_before_anything_changes",
        |bench| {
            let node = |node: &str| format!("name: NAME\ntopology: {{nodes: {{a: {{{node}}}}}}}\n");
            let refused = |lab: &str, content: &str, what: &str, hint: &str| {
                bench
                    .latlab(&["deploy", &bench.file(lab, content)])
                    .refused(2, what, hint);
                bench.assert_clean();
            };
            refused(
                "image",
                &node("kind: container, image: ./absent"),
                "./absent",
                "an image is",
            );
            fs::write(bench.root().join("files/junk.tar"), "junk").unwrap();
            refused(
                "junk",
                &node("kind: container, image: ./junk.tar"),
                "junk.tar",
                "an image is",
            );
            let bind = node("kind: container, binds: [\"/no/such:/mnt\"]");
            let said = bench.latlab(&["deploy", &bench.file("bind", &bind)]);
            assert_eq!(said.code, 2, "{said:#?}");
            assert!(
                said.err.contains("/no/such") && said.err.contains("hint: "),
                "{said:#?}"
            );
            bench.assert_clean();
            bench
                .latlab(&["deploy", "absent.yaml"])
                .refused(2, "absent.yaml", "check the path");
            bench
                .latlab(&["deploy", "."])
                .refused(2, "cannot read .", "name a file in it");
            let study = bench.file("study", "name: s\nlab: l.yaml\nmeasurements: []\n");
            bench
                .latlab(&["deploy", &study])
                .refused(2, "is a study", "latlab run");
            let lab = bench.file("lab", &pair("native"));
            bench
                .latlab(&["run", &lab])
                .refused(2, "is a lab", "latlab deploy");
            // Missing tools, hidden in this mount namespace alone.
            for name in ["crun", "runc"] {
                for dir in ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"] {
                    let tool_path = format!("{dir}/{name}");
                    if fs::exists(&tool_path).unwrap() {
                        tool(&["mount", "--bind", "/dev/null", &tool_path]);
                    }
                }
            }
            let said = bench.latlab(&["deploy", &bench.file("tool", &node("kind: container"))]);
            assert_eq!(said.code, 2, "{said:#?}");
            assert!(
                said.err.contains("crun") && said.err.contains("hint: "),
                "{said:#?}"
            );
            print!("{}", said.err);
        },
    );
}

#[test]
fn without_root_only_changes_to_the_machine_are_refused() {
    enter(
        "without_root_only_changes_to_the_machine_are_refused",
        |bench| {
            let lab = bench.deploy("seen", &pair("native"));
            let file = bench.file("seen", &pair("native"));
            let binary = bench.root().join("latlab");
            fs::copy(env!("CARGO_BIN_EXE_latlab"), &binary).unwrap();
            let nobody = |args: &[&str]| {
                let like = bench.command(args);
                let mut command = Command::new("setpriv");
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
                command.arg(&binary).args(args).current_dir("/");
                for (name, value) in like.get_envs() {
                    command.env(name, value.unwrap_or_default());
                }
                finish(&mut command)
            };
            let needs = "needs root: it";
            nobody(&["deploy", &file]).refused(
                2,
                &format!("`latlab deploy` {needs}"),
                "sudo latlab deploy",
            );
            nobody(&["exec", &lab, "a", "--", "true"]).refused(2, needs, "sudo latlab exec");
            nobody(&["destroy", &lab]).refused(2, needs, "sudo latlab destroy");
            nobody(&["run", "first-light"]).refused(2, needs, "sudo latlab run");
            nobody(&["inspect", &lab]).refused(
                2,
                "`latlab inspect` needs root: the state",
                "sudo latlab inspect",
            );
            nobody(&["graph", &lab]).refused(
                2,
                "`latlab graph` needs root: there is no such file",
                "sudo latlab graph",
            );
            assert!(nobody(&["graph", &file]).good().out.contains('a'));
            nobody(&["validate", &file]).good();
            nobody(&["studies"]).good();
            nobody(&["schema", "lab"]).good();
            let doctor = nobody(&["doctor"]);
            assert!(doctor.out.contains("root"), "{doctor:#?}");
        },
    );
}
