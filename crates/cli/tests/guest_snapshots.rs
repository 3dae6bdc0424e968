//! VMs that are saved with all their state, and go on from there. Only with `LATLAB_TEST_GUEST=1`.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use common::{Bench, enter, guests, signal, tool};
use latlab_host::sys::mount;

/// A guest that can be saved, with a card of each server; one that cannot; and a node that has nothing to save.
const LAB: &str = "name: NAME\ntopology:\n  kinds: {vm: {memory: 256MiB, start: clone}}\n  \
    nodes: {n: {kind: native}, v: {kind: vm, root: disk, image: ROOT}, w: {kind: vm}}\n  links:\n    \
    - {type: bridge, endpoints: [\"n:eth0\", \"v:eth0\", \"w:eth0\"]}\n    \
    - {type: overlay, carrier: local, endpoints: [\"n:eth1\", \"v:eth1\"]}\n";

fn said(bench: &Bench, lab: &str, line: &str) -> String {
    let said = bench.exec(lab, "v", &["sh", "-c", line]).good();
    said.out.trim().to_owned()
}

fn restore(bench: &Bench, lab: &str, from: &Path) {
    let from = from.to_str().unwrap();
    bench.latlab(&["restore", lab, "v", "--from", from]).good();
}

#[test]
fn a_guest_goes_on_where_it_was_saved() {
    if !guests() {
        return;
    }
    enter("a_guest_goes_on_where_it_was_saved", |bench| {
        let root = bench.small_root();
        let lab = bench.deploy("saved", &LAB.replace("ROOT", root.to_str().unwrap()));
        let boot = said(bench, &lab, "cat /proc/sys/kernel/random/boot_id");
        said(bench, &lab, "echo one > /tmp/x");
        let dir = bench.root().join("snapshot");
        let to = dir.to_str().unwrap();
        let told = bench.latlab(&["snapshot", &lab, "v", "--to", to]).good();
        assert!(told.out.contains("it stood still for"), "{}", told.out);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        for file in ["snapshot.json", "state"] {
            assert_eq!(mode(&dir.join(file)), 0o600, "{file}");
        }
        // The guest went on, and so it does after each refusal.
        said(bench, &lab, "echo two > /tmp/x");
        refusals(bench, &lab, &dir);
        assert_eq!(said(bench, &lab, "cat /tmp/x"), "two");

        let mut random = Vec::new();
        for _ in 0..2 {
            restore(bench, &lab, &dir);
            random.push(said(bench, &lab, "od -An -tx8 -N16 /dev/urandom"));
            assert_eq!(said(bench, &lab, "cat /tmp/x"), "one");
            said(bench, &lab, "echo three > /tmp/x");
        }
        assert_ne!(random[0], random[1]);
        let booted = said(bench, &lab, "cat /proc/sys/kernel/random/boot_id");
        assert_eq!(booted, boot);
        let theirs: i64 = said(bench, &lab, "date +%s").parse().unwrap();
        let ours = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let ours = ours.unwrap().as_secs() as i64;
        assert!((theirs - ours).abs() < 30, "the guest is at {theirs}");
        for address in ["198.18.0.1", "198.18.1.1"] {
            said(bench, &lab, &format!("ping -c1 -W20 {address} > /dev/null"));
        }
        lives_on(bench, &lab);
        bench.latlab(&["destroy", &lab]).good();
        bench.assert_clean();
    });
}

/// Directories and nodes that are refused, each for its reason.
fn refusals(bench: &Bench, lab: &str, dir: &Path) {
    let to = dir.to_str().unwrap();
    let hint = "that `latlab snapshot` filled";
    let again = bench.latlab(&["snapshot", lab, "v", "--to", to]);
    again.refused(2, "it is not empty", "a directory that is empty");
    let new = bench.root().join("new");
    let into = new.to_str().unwrap();
    let native = bench.latlab(&["snapshot", lab, "n", "--to", into]);
    native.refused(2, "can be neither saved nor moved", "");
    let shares = bench.latlab(&["snapshot", lab, "w", "--to", into]);
    shares.refused(2, "it has shares or cards of the host", "root: disk");
    assert!(!new.exists(), "a part of a snapshot is left");
    let small = bench.root().join("small");
    fs::create_dir(&small).unwrap();
    let at = small.to_str().unwrap();
    mount::tmpfs(&small, 16 << 20).unwrap();
    let narrow = bench.latlab(&["snapshot", lab, "v", "--to", &format!("{at}/new")]);
    narrow.refused(2, "its memory may need 256MiB", "");
    assert!(!small.join("new").exists(), "a part of a snapshot is left");
    tool(&["umount", at]);
    let stop = bench.latlab(&["snapshot", lab, "v", "--to", into, "--stop"]);
    stop.refused(2, "network cards would end with it", "");
    let open = bench.latlab(&["restore", lab, "v", "--from", "/usr"]);
    open.refused(2, "it is not root's alone", hint);
    let other = bench.latlab(&["restore", lab, "w", "--from", to]);
    other.refused(2, "then, `", "the same QEMU");
    let native = bench.latlab(&["restore", lab, "n", "--from", to]);
    native.refused(2, "it holds node `v`", hint);

    let copy = bench.root().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o700)).unwrap();
    let empty = bench.latlab(&["restore", lab, "v", "--from", copy.to_str().unwrap()]);
    empty.refused(2, "it holds no saved node", hint);
    let restore = || bench.latlab(&["restore", lab, "v", "--from", copy.to_str().unwrap()]);
    for file in ["snapshot.json", "state"] {
        fs::copy(dir.join(file), copy.join(file)).unwrap();
    }
    let text = fs::read_to_string(dir.join("snapshot.json")).unwrap();
    fs::write(
        copy.join("snapshot.json"),
        text.replace("-m 256M", "-m 512M"),
    )
    .unwrap();
    restore().refused(2, "`512M` then, `256M` now", "the same QEMU");
    for (then, now) in [
        ("\"mtu\": 1500", "\"mtu\": 1400"),
        ("198.18.0.2/24", "198.18.0.9/24"),
    ] {
        assert!(text.contains(then), "{text}");
        fs::write(copy.join("snapshot.json"), text.replacen(then, now, 1)).unwrap();
        restore().refused(2, "then, `eth0 mtu 1500 198.18.0.2/24", "fields of the lab");
    }
    fs::write(
        copy.join("snapshot.json"),
        text.replace("\"hosts\": \"", "\"hosts\": \"0"),
    )
    .unwrap();
    restore().refused(
        2,
        "the lab's nodes have other names or addresses",
        "fields of the lab",
    );
    fs::write(copy.join("snapshot.json"), &text).unwrap();
    let state = fs::File::options().write(true).open(copy.join("state"));
    let state = state.unwrap();
    state.set_len(state.metadata().unwrap().len() - 1).unwrap();
    restore().refused(2, "its file `state` is not what was saved", hint);
}

/// A restored guest is a guest as any: paused, saved again, and restored only while its cards are there.
fn lives_on(bench: &Bench, lab: &str) {
    let second = bench.root().join("second");
    let to = second.to_str().unwrap();
    said(bench, lab, "echo four > /tmp/x");
    bench.latlab(&["pause", lab, "v"]).good();
    let before = bench.root().join("before");
    for to in [before.to_str().unwrap(), to] {
        bench.latlab(&["snapshot", lab, "v", "--to", to]).good();
    }
    let rows = bench.latlab(&["inspect", lab]).good().out;
    assert!(rows.contains("paused"), "{rows}");
    restore(bench, lab, &second);
    assert_eq!(said(bench, lab, "cat /tmp/x"), "four");
    let rows = bench.latlab(&["inspect", lab, "-f", "json"]).good().out;
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    let row = rows[lab].as_array().unwrap().iter();
    let row = row.clone().find(|row| row["name"] == "v").unwrap();
    assert_eq!(row["state"], "running");
    signal(row["pid"].as_u64().unwrap() as u32, "KILL");
    let gone = bench.latlab(&["restore", lab, "v", "--from", to]);
    gone.refused(2, "its network cards are gone", "deploy the lab again");
}

/// Two guests of one shape, one of another, and a node that is their neighbour.
const COPIES: &str = "name: NAME\ntopology:\n  kinds: {vm: {memory: 128MiB, root: disk, start: clone, image: ROOT}}\n  \
    nodes: {n: {kind: native}, a: {kind: vm}, b: {kind: vm}, c: {kind: vm, memory: 160MiB}}\n  links:\n    \
    - {type: bridge, endpoints: [\"n:eth0\", \"a:eth0\", \"b:up0\", \"c:eth0\"]}\n    \
    - {type: overlay, carrier: local, endpoints: [\"n:eth1\", \"a:eth1\", \"b:up1\"]}\n";

/// The guest's name, hardware addresses, addresses, routes and hosts.
const IDENTITY: &str = "cat /proc/sys/kernel/hostname /sys/class/net/*/address /etc/hosts; busybox ip -o addr; \
    busybox ip route";

fn copies(bench: &Bench) -> String {
    let root = bench.small_root();
    fs::write(root.join("etc/machine-id"), "0".repeat(32)).unwrap();
    COPIES.replace("ROOT", root.to_str().unwrap())
}

fn at(bench: &Bench, lab: &str, node: &str, line: &str) -> String {
    let said = bench.exec(lab, node, &["sh", "-c", line]).good();
    said.out.trim().to_owned()
}

/// The kernel adds link-local addresses some time after a link has carrier.
fn await_identities(bench: &Bench, lab: &str, of_a: &str, of_b: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    for (node, expected) in [("a", of_a), ("b", of_b)] {
        while at(bench, lab, node, IDENTITY) != expected && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(at(bench, lab, node, IDENTITY), expected);
    }
}

/// Every node reaches every other one on both links.
fn all_reach_all(bench: &Bench, lab: &str) {
    for (node, others) in [
        (
            "n",
            ["198.18.0.2", "198.18.0.3", "198.18.1.2", "198.18.1.3"],
        ),
        (
            "a",
            ["198.18.0.1", "198.18.0.3", "198.18.1.1", "198.18.1.3"],
        ),
        (
            "b",
            ["198.18.0.1", "198.18.0.2", "198.18.1.1", "198.18.1.2"],
        ),
    ] {
        for other in others {
            at(
                bench,
                lab,
                node,
                &format!("ping -c1 -W20 {other} > /dev/null"),
            );
        }
    }
}

#[test]
fn a_guest_becomes_a_copy_of_another_one() {
    if !guests() {
        return;
    }
    enter("a_guest_becomes_a_copy_of_another_one", |bench| {
        let lab = bench.deploy("copied", &copies(bench));
        all_reach_all(bench, &lab);
        let own = |node: &str| at(bench, &lab, node, IDENTITY);
        let (of_a, of_b) = (own("a"), own("b"));
        at(
            bench,
            &lab,
            "a",
            "echo one > /tmp/x; sleep 3600 & echo $! > /tmp/pid",
        );
        at(bench, &lab, "b", "echo other > /tmp/x");
        refused_copies(bench, &lab);
        assert_eq!(
            at(bench, &lab, "b", "cat /tmp/x"),
            "other",
            "a refused copy changed it"
        );

        let told = bench.latlab(&["clone", &lab, "a", "b"]).good();
        assert!(
            told.out.contains("node `b` is a copy of `a`"),
            "{}",
            told.out
        );
        assert!(told.out.contains("`a` stood still for"), "{}", told.out);
        let line = "cat /tmp/x; kill -0 $(cat /tmp/pid) && echo lives";
        assert_eq!(at(bench, &lab, "b", line), "one\nlives");
        await_identities(bench, &lab, &of_a, &of_b);
        all_reach_all(bench, &lab);
        for unlike in ["cat /etc/machine-id", "od -An -tx8 -N16 /dev/urandom"] {
            let of = |node: &str| at(bench, &lab, node, unlike);
            assert_ne!(of("a"), of("b"), "{unlike}");
        }

        // A copy is a guest as any: it is saved, and another one goes on from there.
        at(bench, &lab, "b", "echo two > /tmp/x");
        let dir = bench.root().join("snapshot");
        let dir = dir.to_str().unwrap();
        bench.latlab(&["snapshot", &lab, "b", "--to", dir]).good();
        bench.latlab(&["pause", &lab, "a"]).good();
        bench.latlab(&["restore", &lab, "a", "--from", dir]).good();
        assert_eq!(at(bench, &lab, "a", "cat /tmp/x"), "two");
        await_identities(bench, &lab, &of_a, &of_b);
        all_reach_all(bench, &lab);
        bench.latlab(&["destroy", &lab]).good();
        starts_from(bench, dir);
        bench.assert_clean();
    });
}

/// Guests of another lab start from a snapshot, whatever their names.
fn starts_from(bench: &Bench, dir: &str) {
    let text = COPIES.replace("ROOT", bench.root().join("rootfs").to_str().unwrap());
    let text = text.replace("start: clone", &format!("start: {dir}"));
    let text = text.replace(", c: {kind: vm, memory: 160MiB}", "");
    let text = text.replace(", \"c:eth0\"", "");
    let lab = bench.deploy("warm", &text);
    all_reach_all(bench, &lab);
    for node in ["a", "b"] {
        let line = "cat /tmp/x /proc/sys/kernel/hostname";
        assert_eq!(at(bench, &lab, node, line), format!("two\n{node}"));
    }
    bench.latlab(&["destroy", &lab]).good();
    let file = bench.file("other", &text.replace("128MiB", "160MiB"));
    let refused = bench.latlab(&["deploy", &file]);
    refused.ended_badly(2, "`128M` then, `160M` now", "deploy it as it was then");
    let file = bench.file("gone", &text.replace(dir, "./gone"));
    let refused = bench.latlab(&["deploy", &file]);
    refused.refused(2, "gone", "");
}

/// Nodes that cannot be copied, or that cannot become copies.
fn refused_copies(bench: &Bench, lab: &str) {
    let clone = |nodes: &[&str]| bench.latlab(&[&["clone", lab], nodes].concat());
    let hint = "with the same fields and `root: disk`";
    clone(&["a", "a"]).refused(2, "named twice", hint);
    clone(&["a", "b", "b"]).refused(2, "named twice", hint);
    clone(&["n", "b"]).refused(2, "node `n` to `b`: only VMs can be copied", hint);
    clone(&["a", "n"]).refused(2, "node `a` to `n`: only VMs can be copied", hint);
    clone(&["a", "x"]).refused(2, "`x`", "");
    clone(&["a", "c"]).ended_badly(2, "`128M` then, `160M` now", "");
}

/// Whenever the latlab that copies is killed: the node goes on as it was, or as a copy with its own name and addresses,
/// or it has ended and says so.
#[test]
fn a_copy_that_is_cut_off_is_finished_or_ended() {
    if !guests() {
        return;
    }
    enter("a_copy_that_is_cut_off_is_finished_or_ended", |bench| {
        let text = copies(bench);
        for delay_ms in [0, 40, 120, 250, 400, 450, 500] {
            let lab = bench.deploy(&format!("cut{delay_ms}"), &text);
            let own = |node: &str| at(bench, &lab, node, IDENTITY);
            let (of_a, of_b) = (own("a"), own("b"));
            let mut copying = bench.command(&["clone", &lab, "a", "b"]).spawn().unwrap();
            let note = bench.run_dir().join(&lab).join("paused/.begun-b");
            while !note.exists() && copying.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(delay_ms));
            let _ = copying.kill();
            copying.wait().unwrap();
            let is_left = || {
                let kept = fs::read_dir(bench.run_dir().join(&lab).join("kept")).unwrap();
                let mut names = kept.flatten().map(|entry| entry.file_name());
                names.any(|name| name.to_string_lossy().starts_with(".copied-"))
            };
            if note.exists() {
                bench.exec(&lab, "b", &["true"]).refused(2, "`b`", "resume");
                let resumed = bench.latlab(&["resume", &lab, "b"]);
                println!("after {delay_ms} ms: {}{}", resumed.out, resumed.err);
                assert!(!is_left(), "the memory of `a` is left");
                if resumed.code != 0 {
                    resumed.refused(2, "node `b` of lab", "deploy it again");
                    bench.latlab(&["destroy", &lab]).good();
                    continue;
                }
            }
            await_identities(bench, &lab, &of_a, &of_b);
            all_reach_all(bench, &lab);
            bench.latlab(&["clone", &lab, "a", "b"]).good();
            assert!(!is_left(), "the memory of `a` is left");
            bench.latlab(&["destroy", &lab]).good();
        }
        bench.assert_clean();
    });
}
