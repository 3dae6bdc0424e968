//! Storage of native nodes and containers: each type holds files in its own way, only its node sees it, and nothing of it
//! is left, also after a latlab that was killed. VMs' are in `guest_storage.rs`.

mod common;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use common::storage::Place;
use common::{Bench, Said, enter, kill_after, programs, tool};
use latlab_model::kinds::Runtime;

/// All types, at directories that hosts have.
const ALL: &str = "storage: [{at: /mnt}, {at: /srv, type: overlay}, \
    {at: /media, type: tmpfs, size: 16MiB}, {at: /opt, type: disk, size: 32MiB}]";

fn all(runtime: &str) -> String {
    let kind = match runtime {
        "native" => "kind: native".to_owned(),
        runtime => format!("kind: container, runtime: {runtime}"),
    };
    format!("name: NAME\ntopology:\n  nodes:\n    a: {{{kind}, {ALL}}}\n    b: {{kind: native}}\n")
}

/// The file system, the options and the bytes of a place in node `a`.
fn mounted(bench: &Bench, place: &Place, lab: &str, at: &str) -> (String, String, u64) {
    let line = format!("grep ' {at} ' /proc/self/mounts | tail -n 1; stat -f -c '%b %S' {at}");
    let said = place.exec(bench, lab, "a", &line).good();
    let lines: Vec<&str> = said.out.lines().collect();
    let words: Vec<&str> = lines[0].split(' ').collect();
    let sizes: Vec<u64> = lines[1].split(' ').map(|n| n.parse().unwrap()).collect();
    (words[2].into(), words[3].into(), sizes[0] * sizes[1])
}

#[test]
fn every_type_holds_files_in_its_own_way() {
    const NAME: &str = "every_type_holds_files_in_its_own_way";
    enter(NAME, |bench| {
        let place = Place::new();
        let host = |at: &str| fs::read_dir(at).map_or(0, Iterator::count);
        let before: Vec<usize> = ["/mnt", "/srv", "/media", "/opt"].map(host).into();
        let runtimes = Runtime::ALL.iter().map(|runtime| runtime.word());
        for runtime in std::iter::once("native").chain(runtimes) {
            println!("  {runtime}");
            let lab = place.deploy(bench, runtime, &all(runtime));
            for (at, kind, most) in [
                ("/srv", "overlay", u64::MAX),
                ("/media", "tmpfs", 16 << 20),
                ("/opt", "ext4", 32 << 20),
            ] {
                let (found, options, bytes) = mounted(bench, &place, &lab, at);
                assert_eq!(found, kind, "{at}");
                assert!(bytes <= most, "{at}: {bytes}");
                let inert = options.contains("nodev") && options.contains("nosuid");
                assert!(inert, "{at}: {options}");
            }
            let (kind, options, _) = mounted(bench, &place, &lab, "/mnt");
            assert_ne!(
                kind, "tmpfs",
                "a volume is on the disk of the state directory"
            );
            assert!(
                options.contains("nodev") && options.contains("nosuid"),
                "{options}"
            );
            // Each command of a native node has mounts of its own.
            for at in ["/mnt", "/srv", "/media", "/opt"] {
                let write = format!("echo {at} > {at}/file");
                place.exec(bench, &lab, "a", &write).good();
                let read = place
                    .exec(bench, &lab, "a", &format!("cat {at}/file"))
                    .good();
                assert_eq!(read.out.trim(), at);
                let other = place.exec(bench, &lab, "b", &format!("test -e {at}/file"));
                assert_eq!(other.code, 1, "another node sees {at}");
            }
            let volume = place.storage(&lab, "a").join("0/files/file");
            assert_eq!(fs::read_to_string(volume).unwrap(), "/mnt\n");
            assert_eq!(place.loops().len(), 1, "the disk of {runtime}");
            let after: Vec<usize> = ["/mnt", "/srv", "/media", "/opt"].map(host).into();
            assert_eq!(after, before, "the host's own files");
            let saved = place.latlab(bench, &["snapshot", &lab, "a", "--to", "saved"]);
            saved.refused(2, "stays on the host", "without `storage`");
            place.destroy(bench, &lab);
        }
        place.assert_empty();
    });
}

/// Told of the document, with its place.
#[track_caller]
fn mistake(said: &Said, what: &str, hint: &str) {
    assert_eq!(said.code, 2, "{said:#?}");
    assert!(
        said.err.contains(what) && said.err.contains(hint),
        "{said:#?}"
    );
    assert!(said.err.ends_with("nothing was changed\n"), "{said:#?}");
}

#[test]
fn what_a_node_or_the_machine_cannot_have_is_refused_before_anything_is_made() {
    const NAME: &str = "what_a_node_or_the_machine_cannot_have_is_refused_before_anything_is_made";
    enter(NAME, |bench| {
        let place = Place::new();
        let lab = |storage: &str| {
            let node = format!("a: {{kind: native, storage: [{storage}]}}");
            bench.file(
                "refused",
                &format!("name: NAME\ntopology: {{nodes: {{{node}}}}}\n"),
            )
        };
        // This bench's own state is in memory.
        let memory = bench.latlab(&["deploy", &lab("{at: /mnt}")]);
        mistake(&memory, "is in memory", "LATLAB_STATE_DIR");
        let deploy = |storage: &str| place.latlab(bench, &["deploy", &lab(storage)]);
        let absent = deploy("{at: /no/such/place}");
        absent.refused(2, "no such directory", "/mnt");
        let own = bench.root().canonicalize().unwrap();
        let own = format!("{{at: {}}}", own.display());
        deploy(&own).refused(2, "would cover latlab's own", "another directory");
        let large = deploy("{at: /mnt, type: disk, size: 1000000GiB}");
        mistake(&large, "are free in", "lower `size`");
        place.assert_empty();
    });
}

/// Root in a container has no more than its own files.
#[test]
fn a_hostile_container_fills_its_own_disk_and_reaches_no_other() {
    const NAME: &str = "a_hostile_container_fills_its_own_disk_and_reaches_no_other";
    enter(NAME, |bench| {
        let place = Place::new();
        let node =
            "{kind: container, storage: [{at: /data, type: disk, size: 32MiB}, {at: /files}]}";
        let text = format!("name: NAME\ntopology: {{nodes: {{a: {node}, b: {node}}}}}\n");
        let lab = place.deploy(bench, "hostile", &text);
        let run = |node: &str, line: &str| place.exec(bench, &lab, node, line);
        run("b", "echo mine > /data/mine").good();
        let full = run("a", "dd if=/dev/zero of=/data/full bs=1M");
        assert!(full.err.contains("No space left"), "{full:#?}");
        run(
            "b",
            "dd if=/dev/zero of=/data/more bs=1M count=4 && cat /data/mine",
        )
        .good();
        let storage = place.storage(&lab, "b");
        let image = storage.join("0/image");
        let device = place.loops()[0].join("dev");
        let device = fs::read_to_string(device).unwrap().trim().replace(':', " ");
        for (name, way) in [
            ("the image", format!("head -c 1 {}", image.display())),
            (
                "a loop device",
                format!("mknod /files/loop b {device} && head -c 1 /files/loop"),
            ),
            ("loop devices", "ls /dev/loop0".to_owned()),
            ("new loop devices", "test -e /dev/loop-control".to_owned()),
            ("a mount", "mount -t tmpfs none /files".to_owned()),
        ] {
            let said = run("a", &way);
            assert_ne!(said.code, 0, "{name}: {said:#?}");
        }
        // Another way to make them would give nothing.
        let planted = place.storage(&lab, "a").join("1/files/null");
        tool(&[
            "mknod",
            "-m",
            "666",
            planted.to_str().unwrap(),
            "c",
            "1",
            "3",
        ]);
        let said = run("a", "cat /files/null");
        assert!(said.err.contains("Permission denied"), "{said:#?}");
        // A tree that leads out of itself is removed as what it is.
        run(
            "a",
            "ln -s /etc /files/link; mkdir -p /files/a/b; ln -s / /files/a/b/root",
        )
        .good();
        let kept = Path::new("/etc/passwd");
        place.destroy(bench, &lab);
        assert!(kept.exists());
        place.assert_empty();
    });
}

#[test]
fn a_killed_deployment_leaves_no_disk() {
    enter("a_killed_deployment_leaves_no_disk", |bench| {
        let place = Place::new();
        let text = format!(
            "name: NAME\ntopology:\n  nodes:\n    a: {{kind: native, {ALL}}}\n    b: {{kind: container, {ALL}}}\n"
        );
        let lab = bench.name("killed");
        let file = bench.file("killed", &text);
        for moment in [20, 60, 100, 150, 200, 300, 500, 800] {
            let mut command = place.command(bench, &["deploy", &file]);
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            kill_after(child.unwrap(), Duration::from_millis(moment));
            place.latlab(bench, &["destroy", "--all", "-y"]).good();
            assert!(place.loops().is_empty(), "after {moment} ms");
            assert!(!place.storage(&lab, "a").exists(), "after {moment} ms");
        }
        place.deploy(bench, "killed", &text);
        place.destroy(bench, &lab);
        place.assert_empty();
    });
}

#[test]
fn fio_goes_past_the_page_cache_of_every_layer() {
    if !Path::new("/usr/bin/fio").exists() {
        eprintln!("skipped: fio is not installed");
        return;
    }
    enter("fio_goes_past_the_page_cache_of_every_layer", |bench| {
        let place = Place::new();
        let fio = |name: &str, at: &str, direct: bool| {
            format!(
                "  - {{name: {name}, probe: workload, on: node, duration: 1s, warmup: 0s, program: \
                 {{name: fio, rw: randrw, size: 2MiB, depth: 4, direct: {direct}, directory: {at}}}}}\n"
            )
        };
        let text = format!(
            "name: stored\nlab:\n  name: NAME\n  topology:\n    nodes: {{o: {{kind: native}}, \
             node: {{kind: native, {ALL}}}}}\n    links: [{{endpoints: [\"o:eth0\", \"node:eth0\"]}}]\n\
             factors: {{kind: {{path: topology.nodes.node.kind, levels: [native, container]}}}}\n\
             measurements:\n{}{}{}{}replicates: 1\n",
            fio("volume", "/mnt", true),
            fio("overlay", "/srv", true),
            fio("memory", "/media", false),
            fio("disk", "/opt/below", true),
        );
        let run = place.run(bench, "stored", &text);
        let on = [
            ("overlay", "overlay"),
            ("memory", "tmpfs, in memory"),
            ("disk", "ext4"),
        ];
        for (measurement, on) in on {
            for kind in ["native", "container"] {
                let cell = format!("{measurement}/kind={kind}");
                let result = programs::result_of(&run, &cell);
                assert_eq!(result.nodes[0].files_on.as_deref(), Some(on), "{cell}");
            }
        }
        place.assert_empty();
    });
}
