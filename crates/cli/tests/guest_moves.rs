//! VMs that move between the hosts of a lab while they run. Only with `LATLAB_TEST_GUEST=1`.

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{Bench, enter, guests, until};

/// Three hosts, and a VM that belongs to one of them.
const LAB: &str = "name: NAME\ntopology:\n  nodes: {n: {kind: native}, c: {kind: container}, \
    v: {kind: vm, acceleration: tcg, memory: 256MiB, root: disk, image: ROOT, exec: [\"sh /check > /tmp/log 2>&1 &\"]}, w: {kind: vm, memory: 256MiB, start: clone}}\n  links:\n    \
    - {name: lan, type: overlay, carrier: vxlan, endpoints: [\"n:eth0\", \"c:eth0\", \"v:eth0\"]}\n    \
    - {name: up, type: bridge, endpoints: [\"n:eth1\", \"v:eth1\", \"w:eth1\"]}\n";

/// Writes a few megabytes of memory again and again, and compares two copies: a page that was lost shows.
const CHECKER: &str = "i=0\nwhile :; do\n  i=$((i+1))\n  head -c 4000000 /dev/urandom > /tmp/one\n  cp /tmp/one /tmp/two\n  \
    sleep 0.1\n  cmp /tmp/one /tmp/two || echo lost at $i\n  echo $i\ndone\n";

/// Whether the QEMU here keeps track of what an emulated guest writes.
fn can_move() -> bool {
    let said = Command::new("qemu-system-x86_64").arg("--version").output();
    let said = String::from_utf8(said.unwrap().stdout).unwrap();
    let version = said.split_whitespace().nth(3).unwrap();
    let major: u32 = version.split('.').next().unwrap().parse().unwrap();
    major >= 9
}

#[test]
fn a_guest_moves_while_it_runs() {
    if !guests() {
        return;
    }
    enter("a_guest_moves_while_it_runs", |bench| {
        let root = bench.small_root();
        fs::write(root.join("check"), CHECKER).unwrap();
        let lab = bench.deploy("moves", &LAB.replace("ROOT", root.to_str().unwrap()));
        refusals(bench, &lab);
        if !can_move() {
            let refused = bench.latlab(&["migrate", &lab, "v", "--to", "n"]);
            refused.refused(2, "by a QEMU before version 9", "newer QEMU");
            bench.exec(&lab, "n", &["ping", "-c1", "-W20", "v"]).good();
            bench.latlab(&["destroy", &lab]).good();
            return;
        }
        let checked = || {
            let said = bench.exec(&lab, "v", &["tail", "-n1", "/tmp/log"]).good();
            said.out.trim().parse::<u64>().unwrap_or_default()
        };
        until("the checker runs", || checked() > 1);
        // None may come twice. A few are lost: those that come between the stop of the guest and the hold.
        let mut ping = bench.command(&["exec", &lab, "n", "--", "ping", "-i0.02", "-c700", "v"]);
        let ping = ping.stdout(Stdio::piped()).spawn().unwrap();
        for to in ["n", "c", "v", "c"] {
            let told = bench.latlab(&["migrate", &lab, "v", "--to", to]).good();
            assert!(told.out.contains("moved node `v`"), "{}", told.out);
            println!("{}", told.out);
            bench.exec(&lab, "c", &["ping", "-c1", "-W20", "v"]).good();
            // The bridge's tap moved with it, too.
            let over_tap = ["ping", "-c1", "-W20", "-I", "eth1", "198.18.2.2"];
            bench.exec(&lab, "n", &over_tap).good();
        }
        let said = ping.wait_with_output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        println!(
            "{}",
            said.lines().rev().take(4).collect::<Vec<_>>().join("\n")
        );
        let received = said.split(" received").next().unwrap().rsplit(' ').next();
        let received: u32 = received.unwrap().parse().unwrap();
        assert!(received >= 680 && !said.contains("duplicates"), "{said}");
        let again = bench.latlab(&["migrate", &lab, "v", "--to", "c"]);
        again.refused(2, "it is on the hosts of that node already", "");
        let before = checked();
        until("the checker goes on", || checked() > before + 1);
        let log = bench.exec(&lab, "v", &["cat", "/tmp/log"]).good().out;
        assert!(!log.contains("lost"), "{log}");
        cut_off(bench, &lab);
        // The guest can be saved where it is now, and goes on there.
        let dir = bench.root().join("snapshot");
        let dir = dir.to_str().unwrap();
        bench.latlab(&["snapshot", &lab, "v", "--to", dir]).good();
        bench.latlab(&["restore", &lab, "v", "--from", dir]).good();
        bench.exec(&lab, "n", &["ping", "-c1", "-W20", "v"]).good();
        bench.latlab(&["destroy", &lab]).good();
        bench.assert_clean();
    });
}

fn refusals(bench: &Bench, lab: &str) {
    let migrate = |node: &str, to: &str| bench.latlab(&["migrate", lab, node, "--to", to]);
    migrate("v", "nowhere").refused(2, "has no node `nowhere`", "its nodes");
    migrate("n", "c").refused(2, "only a VM moves", "");
    migrate("w", "w").refused(2, "it has shares of the host", "root: disk");
    migrate("v", "w").refused(2, "is not on link `lan`", "");
    bench.latlab(&["pause", lab, "v"]).good();
    migrate("v", "n").refused(2, "is paused", "resume");
    bench.latlab(&["resume", lab, "v"]).good();
}

/// A latlab that is killed while it moves a guest leaves a node that is refused until the lab is destroyed; here the
/// file that says so is put there and taken away.
fn cut_off(bench: &Bench, lab: &str) {
    let note = bench.run_dir().join(lab).join("paused/.move-v");
    fs::write(&note, "").unwrap();
    for words in [
        &["exec", lab, "v", "--", "true"][..],
        &["resume", lab, "v"],
        &["migrate", lab, "v", "--to", "n"],
    ] {
        bench
            .latlab(words)
            .refused(2, "was cut off", "latlab destroy");
    }
    fs::remove_file(&note).unwrap();
}
