//! Storage of VMs: disks by every device, a volume and memory, through a real guest; what the guest writes is in its image
//! and nowhere else.

mod common;

use std::fs;

use common::storage::Place;
use common::{enter, guests, programs};

const STORAGE: &str = "storage: [{at: /blk, type: disk, size: 64MiB, aio: io_uring}, \
    {at: /scsi, type: disk, size: 32MiB, device: virtio-scsi, cache: writeback, format: qcow2}, \
    {at: /native, type: disk, size: 32MiB, cache: directsync, aio: native}, \
    {at: /shared}, {at: /memory, type: tmpfs, size: 16MiB}]";

#[test]
fn a_vm_has_disks_a_volume_and_memory() {
    if !guests() {
        eprintln!("skipped: LATLAB_TEST_GUEST=1 runs it");
        return;
    }
    enter("a_vm_has_disks_a_volume_and_memory", |bench| {
        let place = Place::new();
        let text = format!(
            "name: NAME\ntopology:\n  nodes: {{v: {{kind: vm, memory: 256MiB, {STORAGE}}}, n: {{kind: native}}}}\n"
        );
        let lab = place.deploy(bench, "guest", &text);
        let run = |line: &str| place.exec(bench, &lab, "v", line);
        for (at, kind, device) in [
            ("/blk", "ext4", "/dev/vd"),
            ("/scsi", "ext4", "/dev/sd"),
            ("/native", "ext4", "/dev/vd"),
            ("/memory", "tmpfs", "tmpfs"),
        ] {
            let said = run(&format!("grep ' {at} ' /proc/mounts")).good();
            let words: Vec<&str> = said.out.split(' ').collect();
            assert!(
                words[0].starts_with(device) && words[2] == kind,
                "{said:#?}"
            );
            assert!(
                words[3].contains("nosuid") && words[3].contains("nodev"),
                "{said:#?}"
            );
            run(&format!("echo {at} > {at}/file && sync && cat {at}/file")).good();
        }
        let cache = run("cat /sys/block/vda/queue/write_cache /sys/block/sda/queue/write_cache");
        assert_eq!(cache.good().out, "write back\nwrite back\n");
        let through = run("cat /sys/block/vdb/queue/write_cache").good();
        assert_eq!(through.out, "write through\n");
        run("echo shared > /shared/file").good();
        let storage = place.storage(&lab, "v");
        let shared = fs::read_to_string(storage.join("3/files/file")).unwrap();
        assert_eq!(shared, "shared\n");
        for (number, at) in [(0, "/blk"), (1, "/scsi"), (2, "/native")] {
            let image = fs::read(storage.join(format!("{number}/image"))).unwrap();
            // QEMU's own format: docs/interop/qcow2.
            assert_eq!(image.starts_with(b"QFI\xfb"), at == "/scsi");
            let text = format!("{at}\n");
            let written = image.windows(text.len()).any(|w| w == text.as_bytes());
            assert!(written, "{at} is not in its image");
        }
        assert!(
            place.loops().is_empty(),
            "the host has no part in a guest's disk"
        );
        // A guest that fills its disk fails in its own writes.
        let full = run("dd if=/dev/zero of=/scsi/full bs=1M");
        assert!(full.err.contains("No space left"), "{full:#?}");
        let saved = place.latlab(bench, &["snapshot", &lab, "v", "--to", "saved"]);
        saved.refused(2, "stays on the host", "without `storage`");
        place.destroy(bench, &lab);
        place.assert_empty();
    });
}

#[test]
fn fio_measures_a_vms_disk_past_all_caches() {
    if !guests() {
        eprintln!("skipped: LATLAB_TEST_GUEST=1 runs it");
        return;
    }
    enter("fio_measures_a_vms_disk_past_all_caches", |bench| {
        let place = Place::new();
        let fio = |name: &str, at: &str, engine: &str, direct: bool| {
            format!(
                "  - {{name: {name}, probe: workload, on: v, duration: 1s, warmup: 0s, timeout: 120s, program: {{name: \
                 fio, rw: randrw, size: 1MiB, depth: 4, engine: {engine}, direct: {direct}, directory: {at}}}}}\n"
            )
        };
        let text = format!(
            "name: stored\nlab:\n  name: NAME\n  topology:\n    nodes: {{v: {{kind: vm, memory: 256MiB, {STORAGE}}}, \
             n: {{kind: native}}}}\n    links: [{{endpoints: [\"v:eth0\", \"n:eth0\"]}}]\nmeasurements:\n{}{}{}{}\
             replicates: 1\n",
            fio("blk", "/blk", "libaio", true),
            fio("scsi", "/scsi", "io_uring", true),
            fio("shared", "/shared", "psync", false),
            fio("memory", "/memory", "psync", false),
        );
        let run = place.run(bench, "stored", &text);
        for (measurement, on) in [
            ("blk", "ext4"),
            ("scsi", "ext4"),
            ("memory", "tmpfs, in memory"),
        ] {
            let result = programs::result_of(&run, measurement);
            assert_eq!(
                result.nodes[0].files_on.as_deref(),
                Some(on),
                "{measurement}"
            );
        }
        let manifest = fs::read_to_string(run.root().join("manifest.json")).unwrap();
        let way = "disk of 64MiB at /blk (virtio-blk, raw, cache none, aio io_uring)";
        assert!(manifest.contains(way), "{manifest}");
        place.assert_empty();
    });
}
