//! The built-in programs, of sizes for tests, and what any of them must leave.

use std::fs;
use std::path::{Path, PathBuf};

use latlab_model::results::{NodeWorkload, WorkloadResult};
use latlab_samples::RunDir;

use super::namespaces;
use super::study::{read, trial_of};

/// A directory on a disk, which is removed in the end: those of tests are in memory.
pub struct Disk(pub PathBuf);

impl Disk {
    pub fn new() -> Disk {
        let path = PathBuf::from(format!("/var/tmp/latlab-programs-{}", namespaces::id()));
        fs::create_dir_all(&path).unwrap();
        Disk(path)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// The smallest of each: what is asked is whether they run, and whether what they say is read.
pub fn measurements(on: &str, disk: &Path) -> String {
    // The first round of redis warms up: it takes no `warmup`.
    let programs = [
        (
            "xz",
            "{name: xz, size: 256KiB, threads: all}",
            "duration: 300ms, warmup: 0s",
        ),
        (
            "redis",
            "{name: redis, connections: 5, keys: 100}",
            "duration: 300ms",
        ),
        (
            "oltp",
            "{name: oltp, threads: 2, table_size: 100}",
            "duration: 1s, warmup: 0s",
        ),
    ];
    let mut all = String::new();
    for (name, program, times) in programs {
        all += &format!(
            "  - {{name: {name}, probe: workload, on: {on}, program: {program}, {times}}}\n"
        );
    }
    let disk = disk.display();
    for (name, program) in [
        ("fio", "rw: randrw, depth: 4, engine: psync"),
        ("sysbench-fileio", "files: 2"),
    ] {
        all += &format!(
            "  - {{name: {name}, probe: workload, on: {on}, duration: 1s, warmup: 0s, program: \
             {{name: {name}, {program}, size: 1MiB, direct: false, directory: {disk}}}}}\n"
        );
    }
    all + &format!(
        "  - {{name: hpcc, probe: workload, on: {on}, program: {{name: hpcc, n: 100, processes: 2}}}}\n"
    )
}

/// Names of all of [`measurements`].
pub const PROGRAMS: [&str; 6] = ["xz", "redis", "oltp", "fio", "sysbench-fileio", "hpcc"];

/// The result of a program: as many figures as it has, all of them numbers, with its version and outputs.
#[track_caller]
pub fn result_of(run: &RunDir, measurement: &str) -> WorkloadResult {
    let trial = trial_of(run, measurement);
    let result = trial
        .workload
        .unwrap_or_else(|| panic!("{measurement}: {:?}", trial.outcome));
    assert!(result.version.is_some(), "{measurement}: {result:#?}");
    for node in &result.nodes {
        assert_eq!(
            node.values.len(),
            result.figures.len(),
            "{measurement}: {node:#?}"
        );
        assert!(node.values[0] > 0.0, "{measurement}: {node:#?}");
        assert!(
            !read(run, &node.output).is_empty(),
            "{measurement}: {node:#?}"
        );
        assert!(node.files_on.is_some(), "{measurement}: {node:#?}");
    }
    result
}

/// The output of a node's server.
pub fn server_of(run: &RunDir, node: &NodeWorkload) -> String {
    let [output, errors] = node.server.as_ref().unwrap();
    read(run, output) + &read(run, errors)
}
