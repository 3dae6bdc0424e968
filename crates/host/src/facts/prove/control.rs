//! Control groups: a group is made as for a node, a limit that binds nobody is written, the group is
//! removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use latlab_model::facts::Facts;
use latlab_model::units::CpuList;

use super::{Report, outcome};
use crate::cgroup::{Cgroups, Error, Limits, NodeCgroup};
use crate::facts::machine;

pub(super) const COVERS: &[&str] = &[
    Facts::CGROUP_CPU,
    Facts::CGROUP_MEMORY,
    Facts::CGROUP_CPUSET,
    Facts::CGROUP_PIDS,
];

/// Begins with a character that no lab's name has, so that it never meets one. The process and a
/// number follow, so that proofs going on at the same time do not meet either.
const PREFIX: &str = "_proof-";

static NUMBER: AtomicU32 = AtomicU32::new(0);

pub(super) fn run(report: &Report) {
    let groups = match Cgroups::discover() {
        Ok(groups) => groups,
        Err(error) => return report.refuse_all(COVERS, &error),
    };
    sweep(&groups);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let lab = format!("{PREFIX}{}-{number}", std::process::id());
    for name in COVERS {
        if report.wants(name) {
            let limits = harmless(name);
            let tried = try_limits(&groups, &lab, name, &limits);
            report.note(name, outcome(&tried, "limit set on a group made for it"));
        }
    }
}

/// The limit that `capability` is about, at a value that every machine takes.
fn harmless(capability: &str) -> Limits {
    let mut limits = Limits::default();
    match capability {
        Facts::CGROUP_CPU => limits.cpus = Some(1.0),
        Facts::CGROUP_MEMORY => limits.memory_bytes = Some(64 << 20),
        Facts::CGROUP_PIDS => limits.pids = Some(64),
        _ => {
            let allowed = machine::allowed_cpus();
            limits.cpuset = Some(CpuList::new(allowed.iter().take(1).collect()));
        }
    }
    limits
}

fn try_limits(groups: &Cgroups, lab: &str, name: &str, limits: &Limits) -> Result<(), Error> {
    let dirs = groups.dirs(lab, name, limits)?;
    let made = groups.create(lab, name, limits);
    // By path, so that what a failed attempt left is removed too.
    NodeCgroup::from_dirs(dirs)?.remove()?;
    made.map(drop)
}

/// Removes groups of proofs whose process was killed before it could.
fn sweep(groups: &Cgroups) {
    let mut everything = Limits::default();
    for name in COVERS {
        let limits = harmless(name);
        everything.cpus = everything.cpus.or(limits.cpus);
        everything.memory_bytes = everything.memory_bytes.or(limits.memory_bytes);
        everything.pids = everything.pids.or(limits.pids);
        everything.cpuset = everything.cpuset.or(limits.cpuset);
    }
    let dirs = groups.dirs(PREFIX, PREFIX, &everything).unwrap_or_default();
    for top in dirs.iter().filter_map(|dir| dir.parent()?.parent()) {
        for proof in entries(top).into_iter().filter(|dir| is_orphan(dir)) {
            // What cannot be removed now is tried again the next time.
            let _ = NodeCgroup::from_dirs(entries(&proof)).and_then(|group| group.remove());
        }
    }
}

/// The directories in a directory.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.is_dir()).collect()
}

/// Whether this is a proof's group whose process is gone.
fn is_orphan(group: &Path) -> bool {
    let owner = || {
        let name = group.file_name()?.to_str()?.strip_prefix(PREFIX)?;
        name.split_once('-')?.0.parse::<u32>().ok()
    };
    owner().is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_proofs_of_the_dead_are_swept() {
        let own = std::process::id();
        // Above the kernel's highest process number.
        let dead = u32::MAX;
        for (name, orphan) in [
            (format!("{PREFIX}{dead}-0"), true),
            (format!("{PREFIX}{own}-0"), false),
            (format!("proof-{dead}-0"), false),
            (format!("{PREFIX}x-0"), false),
            (format!("{PREFIX}{dead}"), false),
        ] {
            assert_eq!(is_orphan(&Path::new("/g").join(&name)), orphan, "{name}");
        }
    }

    #[test]
    fn an_orphan_is_removed_with_its_groups() {
        let groups = Cgroups::discover().unwrap();
        let lab = format!("{PREFIX}{}-0", u32::MAX);
        let limits = harmless(Facts::CGROUP_PIDS);
        if !super::super::is_root() || groups.create(&lab, "x", &limits).is_err() {
            eprintln!("skipped: needs root and control groups");
            return;
        }
        let dirs = groups.dirs(&lab, "x", &limits).unwrap();
        assert!(dirs.iter().all(|dir| dir.exists()));
        sweep(&groups);
        assert!(dirs.iter().all(|dir| !dir.exists()), "{dirs:?}");
    }
}
