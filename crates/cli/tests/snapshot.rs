//! Nodes kept and started again, by the real binary and a real CRIU, and commands that outlive the latlab that started
//! them.
//!
//! CRIU is fetched as latlab fetches it. Where that is impossible, or CRIU does not work on this kernel, the tests say
//! so; with `CI` in the environment a CRIU that cannot be fetched is a failure.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use common::criu::{MoodyCriu, Traffic, enter, fill, start_echo, state_of};
use common::{Bench, Said, finish, tool, until};
use latlab_host::borrowed;
use latlab_host::dirs::Dirs;
use latlab_host::lab::Lab;
use latlab_host::sys::mount;

/// Two containers with a cable. The server's address is the first of the lab's subnet.
const PAIR: &str = "name: NAME
topology:
  nodes:
    server: {kind: container, runtime: RUNTIME}
    client: {kind: native}
  links:
    - endpoints: [\"server:eth0\", \"client:eth0\"]
";

fn pair(bench: &Bench, runtime: &str) -> String {
    bench.deploy("pair", &PAIR.replace("RUNTIME", runtime))
}

fn keep(bench: &Bench, lab: &str, node: &str, to: &Path, stop: bool) -> Said {
    let mut words = vec!["snapshot", lab, node, "--to", to.to_str().unwrap()];
    words.extend(stop.then_some("--stop"));
    bench.latlab(&words)
}

fn restore(bench: &Bench, lab: &str, node: &str, from: &Path) -> Said {
    bench.latlab(&["restore", lab, node, "--from", from.to_str().unwrap()])
}

#[test]
fn a_connection_outlives_stop_and_restore() {
    enter("a_connection_outlives_stop_and_restore", |bench| {
        for runtime in ["crun", "runc"] {
            let lab = pair(bench, runtime);
            start_echo(bench, &lab);
            let inside = "echo kept >/etc/kept; echo kept >/tmp/kept; mkdir /dev/shm/kept";
            bench.exec(&lab, "server", &["sh", "-c", inside]).good();
            let rights = ["grep", "-E", "^(Seccomp|NoNewPrivs|Cap)", "/proc/1/status"];
            let rights_before = bench.exec(&lab, "server", &rights).good().out;
            let groups = ["cat", "/proc/1/cgroup"];
            let groups_before = bench.exec(&lab, "server", &groups).good().out;
            let traffic = Traffic::start(bench, &lab);
            traffic.goes_on(50);
            // A node is stopped and started more than once, also after it only went on.
            for (round, stop) in [true, false, true].into_iter().enumerate() {
                let at = bench.root().join(format!("kept-{round}"));
                let said = keep(bench, &lab, "server", &at, stop).good();
                assert_eq!(said.out.contains("it stood still for"), !stop, "{said:?}");
                for file in fs::read_dir(&at).unwrap().flatten() {
                    let mode = file.metadata().unwrap().permissions().mode();
                    assert_eq!(mode & 0o177, 0, "{}", file.path().display());
                }
                let (state, before) = state_of(bench, &lab, "server");
                if stop {
                    assert_eq!(state, "exited");
                    restore(bench, &lab, "server", &at).good();
                    let (state, after) = state_of(bench, &lab, "server");
                    assert_eq!(state, "running");
                    assert_ne!(before, after, "the state names the new process");
                } else {
                    assert_eq!(state, "running");
                }
                traffic.goes_on(50);
                fs::remove_dir_all(&at).unwrap();
            }
            let said = bench.exec(&lab, "server", &["cat", "/etc/kept", "/tmp/kept"]);
            assert_eq!(said.good().out, "kept\nkept\n");
            bench
                .exec(&lab, "server", &["test", "-d", "/dev/shm/kept"])
                .good();
            assert_eq!(
                bench.exec(&lab, "server", &rights).good().out,
                rights_before
            );
            assert_eq!(
                bench.exec(&lab, "server", &groups).good().out,
                groups_before
            );
            assert_eq!(
                bench.exec(&lab, "server", &["hostname"]).good().out,
                "server\n"
            );
            bench.latlab(&["pause", &lab, "server"]).good();
            assert_eq!(state_of(bench, &lab, "server").0, "paused");
            bench.latlab(&["resume", &lab, "server"]).good();
            traffic.goes_on(50);
            let words = ["exec", "--detach", &lab, "server", "--", "sleep", "600"];
            bench.latlab(&words).good();
            traffic.end();
            bench.latlab(&["destroy", &lab, "-y"]).good();
            bench.assert_clean();
            fs::remove_file(bench.root().join("files/pair.yaml")).unwrap();
        }
    });
}

#[test]
fn what_cannot_be_kept_or_started_is_refused_and_nothing_changes() {
    enter(
        "what_cannot_be_kept_or_started_is_refused_and_nothing_changes",
        |bench| {
            let lab = pair(bench, "crun");
            let (_, first) = state_of(bench, &lab, "server");
            let at = |name: &str| bench.root().join(name);
            keep(bench, &lab, "client", &at("a"), false).refused(
                2,
                "can be neither saved nor moved",
                "",
            );
            keep(bench, &lab, "nobody", &at("a"), false).refused(2, "has no node", "its nodes");
            fs::create_dir(at("full")).unwrap();
            fs::set_permissions(at("full"), fs::Permissions::from_mode(0o700)).unwrap();
            fs::write(at("full/file"), "").unwrap();
            keep(bench, &lab, "server", &at("full"), false).refused(2, "it is not empty", "empty");
            fs::create_dir(at("open")).unwrap();
            fs::set_permissions(at("open"), fs::Permissions::from_mode(0o755)).unwrap();
            keep(bench, &lab, "server", &at("open"), false).refused(2, "0700", "empty");

            let mut command = bench.command(&["exec", &lab, "server", "--", "sleep", "600"]);
            let mut running = command.stdout(Stdio::piped()).spawn().unwrap();
            until("the command runs", || {
                let said = bench.exec(&lab, "server", &["ps", "-eo", "args"]).good();
                said.out.contains("sleep 600")
            });
            let said = keep(bench, &lab, "server", &at("b"), true);
            said.refused(2, "did not start process", "--detach");
            bench.exec(&lab, "server", &["pkill", "-x", "sleep"]).good();
            running.wait().unwrap();

            let good = at("good");
            until("only the first process is left", || {
                let _ = fs::remove_dir_all(&good);
                keep(bench, &lab, "server", &good, false).code == 0
            });
            let refused = |what: &str| {
                let said = restore(bench, &lab, "server", &good);
                said.refused(2, what, "latlab snapshot");
            };
            restore(bench, &lab, "server", &at("none")).refused(
                2,
                "No such file",
                "latlab snapshot",
            );
            restore(bench, &lab, "client", &good).refused(2, "it holds node `server`", "");
            fs::set_permissions(&good, fs::Permissions::from_mode(0o755)).unwrap();
            refused("0700");
            fs::set_permissions(&good, fs::Permissions::from_mode(0o700)).unwrap();
            let description = good.join("snapshot.json");
            let text = fs::read_to_string(&description).unwrap();
            for (old, new, what) in [
                ("latlab.snapshot/3", "latlab.snapshot/9", "its format is"),
                ("\"server\"", "\"other\"", "it holds node `other`"),
                ("{", "[", "is damaged"),
            ] {
                assert!(text.contains(old), "{old}: {text}");
                fs::write(&description, text.replacen(old, new, 1)).unwrap();
                refused(what);
            }
            for old in ["deployment ", "image ", "kernel ", "CRIU "] {
                assert!(text.contains(old), "{old}: {text}");
                let other = text.replacen(old, &format!("{old}0"), 1);
                fs::write(&description, other).unwrap();
                restore(bench, &lab, "server", &good).refused(2, "it was saved in", "");
            }
            fs::remove_file(&description).unwrap();
            refused("it holds no saved node");
            fs::write(&description, &text).unwrap();
            let pages = good.join("pages-1.img");
            let bytes = fs::read(&pages).unwrap();
            fs::write(&pages, &bytes[..bytes.len() / 2]).unwrap();
            refused("`pages-1.img` is not what was saved");
            fs::remove_file(&pages).unwrap();
            refused("`pages-1.img` is missing");

            assert_eq!(
                state_of(bench, &lab, "server"),
                ("running".to_owned(), first)
            );
            bench.exec(&lab, "server", &["true"]).good();
        },
    );
}

#[test]
fn a_disk_that_fills_up_ends_the_snapshot_and_not_the_container() {
    enter(
        "a_disk_that_fills_up_ends_the_snapshot_and_not_the_container",
        |bench| {
            let lab = pair(bench, "crun");
            start_echo(bench, &lab);
            let traffic = Traffic::start(bench, &lab);
            fill(bench, &lab);
            let (_, first) = state_of(bench, &lab, "server");
            let small = bench.root().join("small");
            fs::create_dir(&small).unwrap();
            mount::tmpfs(&small, 20 << 20).unwrap();
            for stop in [false, true] {
                let said = keep(bench, &lab, "server", &small.join("kept"), stop);
                said.refused(2, "No space left on device", "criu-dump.log");
                assert!(!small.join("kept").exists(), "a part of a snapshot is left");
                let state = state_of(bench, &lab, "server");
                assert_eq!(state, ("running".to_owned(), first));
                traffic.goes_on(50);
            }
            tool(&["umount", small.to_str().unwrap()]);
            let enough = bench.root().join("enough");
            keep(bench, &lab, "server", &enough, false).good();
            traffic.end();
        },
    );
}

#[test]
fn a_restore_whose_state_is_not_written_is_finished() {
    let name = "a_restore_whose_state_is_not_written_is_finished";
    enter(name, |bench| {
        let lab = pair(bench, "crun");
        start_echo(bench, &lab);
        let traffic = Traffic::start(bench, &lab);
        let at = bench.root().join("kept");
        keep(bench, &lab, "server", &at, true).good();
        let new = bench.labs().join(&lab).join("state.new");
        fs::create_dir(&new).unwrap();
        restore(bench, &lab, "server", &at).refused(2, "cannot write", "");
        let said = bench.exec(&lab, "server", &["true"]);
        said.refused(2, "a restore of node `server`", "latlab resume");
        fs::remove_dir(&new).unwrap();
        let told = bench.latlab(&["resume", &lab, "server"]).good();
        assert!(told.out.contains("goes on where it was saved"), "{told:?}");
        traffic.goes_on(50);
        traffic.end();
    });
}

#[test]
fn a_restore_over_a_snapshot_that_was_cut_off_removes_it() {
    let name = "a_restore_over_a_snapshot_that_was_cut_off_removes_it";
    enter(name, |bench| {
        let lab = pair(bench, "crun");
        let at = bench.root().join("kept");
        keep(bench, &lab, "server", &at, false).good();
        // As a latlab that is killed leaves it.
        let cut_off = bench.root().join("cut-off");
        fs::create_dir(&cut_off).unwrap();
        fs::write(cut_off.join("pages-1.img"), "memory").unwrap();
        let notes = bench.run_dir().join(&lab).join("paused");
        fs::create_dir_all(&notes).unwrap();
        let begun = serde_json::json!({"act": "save", "directory": cut_off});
        fs::write(notes.join(".begun-server"), begun.to_string()).unwrap();
        restore(bench, &lab, "server", &at).good();
        assert!(!cut_off.exists(), "a part of a snapshot is left");
        bench.exec(&lab, "server", &["true"]).good();
    });
}

#[test]
fn a_pause_waits_for_a_restore() {
    enter("a_pause_waits_for_a_restore", |bench| {
        let criu = MoodyCriu::new(bench);
        let lab = pair(bench, "crun");
        let at = bench.root().join("saved");
        let at = at.to_str().unwrap();
        // The proof is made while it is in a good mood.
        let words = ["snapshot", &lab, "server", "--to", at];
        finish(&mut criu.command(&words)).good();
        criu.set("wait-restore");
        let mut restore = criu.command(&["restore", &lab, "server", "--from", at]);
        let mut restore = restore.stdout(Stdio::null()).spawn().unwrap();
        let note = bench.run_dir().join(&lab).join("paused/.begun-server");
        until("the restore is under way", || note.exists());
        let mut pause = bench.command(&["pause", &lab, "server"]);
        let pause = pause.stdout(Stdio::piped()).stderr(Stdio::piped());
        let pause = pause.spawn().unwrap();
        // For it to read the state before the restore writes it.
        std::thread::sleep(Duration::from_millis(500));
        criu.set("good");
        assert!(restore.wait().unwrap().success());
        common::finished(pause).good();
        assert_eq!(state_of(bench, &lab, "server").0, "paused");
        bench.latlab(&["resume", &lab, "server"]).good();
        bench.exec(&lab, "server", &["true"]).good();
    });
}

#[test]
fn programs_of_actions_are_proven_before() {
    enter("programs_of_actions_are_proven_before", |bench| {
        let name = pair(bench, "crun");
        let dirs = Dirs::below(bench.root());
        let here = Dirs::from_env();
        fs::create_dir(dirs.cache()).unwrap();
        let link = dirs.cache().join("borrowed");
        std::os::unix::fs::symlink(here.cache().join("borrowed"), link).unwrap();
        let lab = Lab::open(&dirs, &name).unwrap();
        for (node, is_proven) in [("client", false), ("server", true)] {
            lab.prepare_tools(node).unwrap();
            let verdict = dirs.cache().join(borrowed::VERDICT_FILE);
            assert_eq!(verdict.exists(), is_proven, "{node}");
        }
    });
}

#[test]
fn a_kill_on_the_way_leaves_a_lab_that_destroy_removes() {
    enter(
        "a_kill_on_the_way_leaves_a_lab_that_destroy_removes",
        |bench| {
            for (round, after_ms) in [5, 40, 80, 120, 200, 320].into_iter().enumerate() {
                for verb in ["snapshot", "restore"] {
                    let lab = pair(bench, "crun");
                    start_echo(bench, &lab);
                    let at = bench.root().join(format!("{verb}-{round}"));
                    let place = at.to_str().unwrap();
                    let words: Vec<&str> = match verb {
                        "snapshot" => vec!["snapshot", &lab, "server", "--stop", "--to", place],
                        _ => {
                            keep(bench, &lab, "server", &at, true).good();
                            vec!["restore", &lab, "server", "--from", place]
                        }
                    };
                    let mut child = bench.command(&words).stdout(Stdio::null()).spawn().unwrap();
                    std::thread::sleep(Duration::from_millis(after_ms));
                    let _ = child.kill();
                    child.wait().unwrap();
                    bench.latlab(&["destroy", &lab, "-y"]).good();
                    bench.assert_clean();
                }
            }
        },
    );
}

#[test]
fn a_detached_command_ends_with_its_node_and_its_output_stays_until_then() {
    let name = "a_detached_command_ends_with_its_node_and_its_output_stays_until_then";
    common::enter(name, |bench| {
        let lab = pair(bench, "crun");
        for node in ["server", "client"] {
            let mut outputs = BTreeSet::new();
            for _ in 0..2 {
                let script = "echo out; echo err >&2; echo $A $LATLAB_LAB $PWD; exec sleep 600";
                let words = [
                    "exec",
                    "--detach",
                    "--env",
                    "A=b",
                    "--env",
                    "LATLAB_LAB=forged",
                    "-C",
                    "/usr",
                    &lab,
                    node,
                    "--",
                    "sh",
                    "-c",
                    script,
                ];
                let said = finish(&mut bench.command(&words)).good();
                let output = said
                    .out
                    .lines()
                    .find_map(|line| line.strip_prefix("output "));
                let output = PathBuf::from(output.unwrap());
                until("its last line", || {
                    fs::read_to_string(&output).unwrap().lines().count() == 3
                });
                let text = fs::read_to_string(&output).unwrap();
                assert!(text.starts_with("out\nerr\nb "), "{text}");
                assert!(
                    text.ends_with(" /usr\n") && !text.contains("forged"),
                    "{text}"
                );
                outputs.insert(output);
            }
            assert_eq!(outputs.len(), 2, "each has a file of its own");
            let words = ["exec", "--detach", &lab, node, "--", "no-such-program"];
            let code = bench.latlab(&words).code;
            assert_eq!(code, 127);
            let words = [
                "exec", "--detach", "-C", "/no/such", &lab, node, "--", "true",
            ];
            assert_eq!(bench.latlab(&words).code, 126);
            let directory = outputs.first().unwrap().parent().unwrap();
            assert_eq!(
                fs::read_dir(directory).unwrap().count(),
                2,
                "none is left of failures"
            );
        }
        let parents = bench
            .exec(&lab, "server", &["ps", "-eo", "ppid,args"])
            .good()
            .out;
        let ours = parents.lines().filter(|line| line.contains("sleep 600"));
        assert!(
            ours.clone().count() == 2 && ours.clone().all(|l| l.trim().starts_with("1 ")),
            "{parents}"
        );
    });
}
