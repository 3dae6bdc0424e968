//! Programs that latlab drives: whether they are there, and their versions.
//!
//! A program tells its version in a few milliseconds, some in a hundred. So versions are kept in a file, under the
//! program's path, size and time of change, and asked again when one of them differs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::texts;
use crate::programs::Directories;
use crate::sys::command::output;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    pub name: &'static str,
    /// Debian's package.
    pub package: &'static str,
    pub costs: &'static str,
    /// Whether another tool of the list does as well, or few need it.
    pub optional: bool,
    /// How it is asked for its version.
    ask: &'static str,
}

const fn tool(name: &'static str, package: &'static str, costs: &'static str) -> Tool {
    Tool {
        name,
        package,
        costs,
        optional: false,
        ask: "--version",
    }
}

const fn optional(tool: Tool) -> Tool {
    Tool {
        optional: true,
        ..tool
    }
}

const fn asked_with(ask: &'static str, tool: Tool) -> Tool {
    Tool { ask, ..tool }
}

/// QEMU for this machine's own architecture.
const QEMU: Tool = if cfg!(target_arch = "aarch64") {
    tool("qemu-system-aarch64", "qemu-system-arm", "no vm nodes")
} else {
    tool("qemu-system-x86_64", "qemu-system-x86", "no vm nodes")
};

/// A program that does not tell its version.
const UNASKED: &str = "";

#[rustfmt::skip] // A table: one line a tool.
pub const TOOLS: &[Tool] = &[
    tool("crun", "crun", "no container nodes (unless another runtime is there)"),
    optional(tool("runc", "runc", "no `runtime: runc`")),
    optional(tool("podman", "podman", "no `runtime: podman`")),
    optional(tool("dockerd", "docker.io", "no `runtime: docker`")),
    optional(tool("containerd", "containerd", "no `runtime: docker`")),
    optional(tool("systemd-nspawn", "systemd-container", "no `runtime: nspawn`")),
    optional(tool("lxc-start", "lxc", "no `runtime: lxc`")),
    QEMU,
    optional(tool("mksquashfs", "squashfs-tools", "no VMs with `root: disk`")),
    optional(tool("mkfs.ext4", "e2fsprogs", "no `storage` of type disk")),
    optional(tool("qemu-img", "qemu-utils", "no disks of VMs with `format: qcow2`")),
    tool("nft", "nftables", "no links of type nat"),
    tool("iperf3", "iperf3", "no stream measurements"),
    tool("dpkg-deb", "dpkg", "guest kernels cannot be unpacked; `kernel: PATH` still works"),
    tool("apt-get", "apt", "guest kernels cannot be fetched; `kernel: PATH` still works"),
    optional(tool("sockperf", "sockperf", "rr cannot be checked against sockperf")),
    optional(tool("stress-ng", "stress-ng", "no background load in studies")),
    optional(tool("sysbench", "sysbench", "no `program: sysbench-cpu`, `sysbench-fileio` and `oltp`")),
    optional(tool("xz", "xz-utils", "no `program: xz`")),
    optional(tool("redis-server", "redis-server", "no `program: redis`")),
    optional(tool("redis-benchmark", "redis-tools", "no `program: redis`")),
    optional(tool("fio", "fio", "no `program: fio`")),
    optional(tool("mariadbd", "mariadb-server-core", "no `program: oltp`")),
    optional(tool("mariadb", "mariadb-client-core", "no `program: oltp`")),
    optional(tool("mpirun", "openmpi-bin", "no `program: hpcc`, `mpi-hpcc`, `mpi-micro`, `netpipe` or `npb`")),
    optional(asked_with(UNASKED, tool("mpi.h", "libopenmpi-dev", "no `program: mpi-micro` or `npb`"))),
    optional(tool("gcc", "gcc", "no `program: mpi-micro` or `npb`")),
    // Without a question it would begin to measure.
    optional(asked_with(UNASKED, tool("hpcc", "hpcc", "no `program: hpcc` or `mpi-hpcc`"))),
    optional(asked_with(UNASKED, tool("NPopenmpi", "netpipe-openmpi", "no `program: netpipe`"))),
    optional(asked_with("-V", tool("ip", "iproute2", "no look inside by hand"))),
    optional(asked_with("-V", tool("tc", "iproute2", "no look inside by hand"))),
    optional(tool("skopeo", "skopeo", "no image archives from a registry (`skopeo copy docker://… oci-archive:FILE`)")),
];

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct VersionCache(BTreeMap<PathBuf, Version>);

/// The version of a program, with the file's size and time then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Version {
    size_bytes: u64,
    /// Seconds and nanoseconds.
    changed: (i64, i64),
    version: String,
}

/// Whether programs may be started to learn their versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// None: a version that is not known is `?`.
    Nobody,
    Unknown,
    Everybody,
}

pub(super) fn read(cache: &Path, ask: Ask) -> BTreeMap<String, String> {
    let directories = Directories::distinct();
    let found = TOOLS
        .iter()
        .filter_map(|tool| Some((tool, place(tool.name, &directories)?)));
    let found: Vec<(&Tool, PathBuf)> = found.collect();
    let file = cache.join("tools.json");
    let known: VersionCache = match ask {
        Ask::Everybody => VersionCache::default(),
        _ => fs::read(&file)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default(),
    };
    let mut now = VersionCache::default();
    for (_, path) in &found {
        if let Some(version) = known.0.get(path).filter(|v| v.is_unchanged(path)) {
            now.0.insert(path.clone(), version.clone());
        }
    }
    let old = now.0.len();
    std::thread::scope(|scope| {
        let asked: Vec<_> = found
            .iter()
            .filter(|(_, path)| ask != Ask::Nobody && !now.0.contains_key(path))
            .map(|(tool, path)| (path, scope.spawn(|| Version::ask(path, tool.ask))))
            .collect();
        for (path, answer) in asked {
            // A thread that panicked has no answer.
            if let Ok(Some(version)) = answer.join() {
                now.0.insert(path.clone(), version);
            }
        }
    });
    if now.0.len() > old {
        // Only time is lost if it cannot be kept, by an ordinary user for example.
        let _ = keep(cache, &file, &now);
    }
    let version = |path: &Path| now.0.get(path).map_or("?", |v| &v.version).to_owned();
    let listed = found
        .iter()
        .map(|(tool, path)| (tool.name.to_owned(), version(path)));
    listed.collect()
}

/// A program in the path, or a header where distributions have it, by its ending.
fn place(name: &str, directories: &Directories) -> Option<PathBuf> {
    if !name.ends_with(".h") {
        return directories.find(name);
    }
    let machine = std::env::consts::ARCH;
    let headers = [
        format!("/usr/lib/{machine}-linux-gnu/openmpi/include"),
        "/usr/include".to_owned(),
    ];
    let mut files = headers.iter().map(|at| Path::new(at).join(name));
    files.find(|file| file.is_file())
}

fn keep(cache: &Path, file: &Path, known: &VersionCache) -> Result<(), crate::sys::Error> {
    fs::create_dir_all(cache).map_err(crate::sys::Error::of("make", cache.display()))?;
    let bytes = serde_json::to_vec_pretty(known).unwrap_or_default();
    crate::sys::file::write_atomically(file, &bytes, 0o644)
}

impl Version {
    fn ask(path: &Path, argument: &str) -> Option<Version> {
        let metadata = fs::metadata(path).ok()?;
        // A program that is there but does not speak is there; one that took too long may speak
        // the next time, so that is not kept.
        let said = match argument {
            UNASKED => Default::default(),
            argument => match output(OsStr::new(path), &[argument], "", TIMEOUT) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return None,
                said => said.unwrap_or_default(),
            },
        };
        Some(Version {
            size_bytes: metadata.len(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
            version: texts::tool_version(&said).unwrap_or_else(|| "?".into()),
        })
    }

    fn is_unchanged(&self, path: &Path) -> bool {
        let metadata = fs::metadata(path);
        metadata.is_ok_and(|m| {
            (m.len(), (m.mtime(), m.mtime_nsec())) == (self.size_bytes, self.changed)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("latlab-tools-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn program(path: &Path, script: &str, mode: u32) {
        fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_version_holds_until_the_program_changes() {
        let at = directory("version");
        let path = at.join("tool");
        program(&path, "echo tool 1.2.3", 0o755);
        let version = Version::ask(&path, "--version").unwrap();
        assert_eq!(version.version, "1.2.3");
        assert!(version.is_unchanged(&path));
        program(&path, "echo longer 1.2.4", 0o755);
        assert!(!version.is_unchanged(&path));
        program(&path, "exit 1", 0o755);
        assert_eq!(Version::ask(&path, "--version").unwrap().version, "?");
        fs::remove_dir_all(&at).unwrap();
    }

    #[test]
    fn versions_are_kept_and_a_damaged_file_is_replaced() {
        let cache = directory("cache");
        fs::write(cache.join("tools.json"), "{spoilt").unwrap();
        let first = read(&cache, Ask::Unknown);
        let text = fs::read_to_string(cache.join("tools.json")).unwrap();
        let known: VersionCache = serde_json::from_str(&text).unwrap();
        // A tool that does not answer in time, on a busy machine, has no version to keep.
        let versions = |all: &BTreeMap<String, String>| {
            let answered = all.iter().filter(|(_, version)| *version != "?");
            answered
                .map(|(tool, version)| (tool.clone(), version.clone()))
                .collect::<Vec<_>>()
        };
        assert!(!known.0.is_empty() && known.0.len() <= first.len());
        assert_eq!(versions(&read(&cache, Ask::Nobody)), versions(&first));
        fs::remove_dir_all(&cache).unwrap();
    }
}
