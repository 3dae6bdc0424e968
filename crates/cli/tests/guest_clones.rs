//! VMs that start as clones: of one saved guest, and each a guest of its own. Only with `LATLAB_TEST_GUEST=1`.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

use common::{Bench, enter, guests};

/// Two guests of one template; a third has a card that the overlay's daemon serves.
const LAB: &str = "name: NAME\ntopology:\n  kinds: {vm: {memory: 256MiB, start: clone}}\n  \
    nodes: {n: {kind: native}, u: {kind: vm}, v: {kind: vm}, w: {kind: vm, exec: [\"touch /tmp/ran\"]}}\n  links:\n    \
    - {type: bridge, endpoints: [\"n:eth0\", \"u:eth0\", \"v:eth0\", \"w:eth0\"]}\n    \
    - {type: overlay, carrier: local, endpoints: [\"n:eth1\", \"w:eth1\"]}\n";
const CLONES: [&str; 3] = ["u", "v", "w"];

fn said(bench: &Bench, lab: &str, node: &str, line: &str) -> String {
    let said = bench.exec(lab, node, &["sh", "-c", line]).good();
    said.out.trim().to_owned()
}

/// Things that no two guests may share, and how a guest is asked for them.
const OWN: [(&str, &str); 6] = [
    ("name", "uname -n"),
    ("hardware address", "cat /sys/class/net/eth0/address"),
    ("machine id", "cat /etc/machine-id"),
    ("boot id", "cat /proc/sys/kernel/random/boot_id"),
    ("random numbers", "od -An -tx8 -N16 /dev/urandom"),
    ("UUID of the kernel's", "cat /proc/sys/kernel/random/uuid"),
];

#[test]
fn clones_are_guests_of_their_own() {
    if !guests() {
        return;
    }
    enter("clones_are_guests_of_their_own", |bench| {
        let lab = bench.deploy("clones", LAB);
        let host = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        for (what, line) in OWN {
            let answers = CLONES.map(|node| said(bench, &lab, node, line));
            println!("{what}: {answers:?}");
            let different: BTreeSet<&String> = answers.iter().collect();
            assert_eq!(different.len(), CLONES.len(), "{what}: {answers:?}");
            assert!(!answers.iter().any(|answer| *answer == host.trim()));
        }
        for node in CLONES {
            let words = said(bench, &lab, node, "cat /proc/cmdline");
            assert!(words.contains("latlab.template"), "{node} booted: {words}");
            let theirs: i64 = said(bench, &lab, node, "date +%s").parse().unwrap();
            let ours = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let ours = ours.unwrap().as_secs() as i64;
            assert!((theirs - ours).abs() < 30, "{node} is at {theirs}");
            said(bench, &lab, node, "ping -c1 -W20 n > /dev/null");
            said(
                bench,
                &lab,
                "n",
                &format!("ping -c1 -W20 {node} > /dev/null"),
            );
        }
        said(bench, &lab, "u", "ping -c1 -W20 v > /dev/null");
        said(bench, &lab, "w", "test -f /tmp/ran");
        // Memory that one writes is its own.
        said(
            bench,
            &lab,
            "u",
            "dd if=/dev/urandom of=/dev/shm/x bs=1M count=64 2> /dev/null",
        );
        said(bench, &lab, "v", "! test -e /dev/shm/x");
        let planned = bench.latlab(&["inspect", &lab]).good().out;
        assert!(planned.contains("running"), "{planned}");
        bench.latlab(&["destroy", &lab]).good();
        bench.assert_clean();
        only_root_reads_templates();
    });
}

fn only_root_reads_templates() {
    let cache = std::env::var("LATLAB_CACHE_DIR").unwrap_or("/var/cache/latlab".into());
    let templates = Path::new(&cache).join("templates");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&templates), 0o700);
    let mut found = 0;
    for entry in fs::read_dir(templates).unwrap() {
        let path = entry.unwrap().path();
        if path.join("memory").exists() {
            found += 1;
            assert_eq!((mode(&path), mode(&path.join("memory"))), (0o700, 0o600));
        }
    }
    assert!(found > 1, "{found} templates");
}

#[test]
fn a_clone_that_cannot_be_is_refused() {
    enter("a_clone_that_cannot_be_is_refused", |bench| {
        for (fields, reason) in [
            (
                "hardware: {huge_pages: true}",
                "memory of a particular kind",
            ),
            (
                "hardware: {preallocate: true}",
                "memory of a particular kind",
            ),
            ("tuning: isolated", "follows profile `isolated`"),
        ] {
            let content = format!(
                "name: NAME\ntopology: {{nodes: {{a: {{kind: vm, start: clone, {fields}}}}}}}\n"
            );
            let refused = bench.latlab(&["validate", &bench.file("refused", &content)]);
            assert_ne!(refused.code, 0);
            let all = refused.out + &refused.err;
            assert!(all.contains(reason) && all.contains("start: boot"), "{all}");
        }
        let native = "name: NAME\ntopology: {nodes: {a: {kind: native, start: clone}}}\n";
        let refused = bench.latlab(&["validate", &bench.file("native", native)]);
        let all = refused.out + &refused.err;
        assert!(all.contains("`start` of node `a` has no meaning"), "{all}");
    });
}

/// A template that is damaged makes an error that says so, and a lab that is gone.
#[test]
fn a_damaged_template_is_told() {
    if !guests() {
        return;
    }
    enter("a_damaged_template_is_told", |bench| {
        let lab = "name: NAME\ntopology: {nodes: {a: {kind: vm, memory: 256MiB, start: clone}}}\n";
        let cache = bench.root().join("cache");
        fs::create_dir(&cache).unwrap();
        let kernels = Path::new("/var/cache/latlab/kernels");
        std::os::unix::fs::symlink(kernels, cache.join("kernels")).unwrap();
        let file = bench.file("damaged", lab);
        let deploy = || {
            let mut command = bench.command(&["deploy", &file]);
            common::finish(command.env("LATLAB_CACHE_DIR", &cache))
        };
        deploy().good();
        bench.latlab(&["destroy", &bench.name("damaged")]).good();
        let templates = fs::read_dir(cache.join("templates")).unwrap().flatten();
        let template = templates
            .map(|entry| entry.path())
            .find(|path| path.is_dir());
        let state = template.unwrap().join("state");
        let whole = fs::read(&state).unwrap();
        fs::write(&state, &whole[..whole.len() / 2]).unwrap();
        let refused = deploy();
        assert_eq!(refused.code, 2, "{refused:#?}");
        assert!(refused.err.contains("guest a ended"), "{refused:#?}");
        bench.assert_clean();
    });
}
