//! Cgroups: a group is made as for a node, a limit that binds no process is written, the group is removed.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use latlab_model::facts::Facts;
use latlab_model::units::CpuList;

use super::report::{Report, outcome};
use crate::cgroup::{Cgroups, Error, Limits, NodeCgroup};
use crate::facts::machine::{self, Source};

pub(super) const COVERS: &[&str] = &[
    Facts::CGROUP_CPU,
    Facts::CGROUP_MEMORY,
    Facts::CGROUP_CPUSET,
    Facts::CGROUP_PIDS,
];

/// Begins with a character that no lab's name has, so that it never meets one. What follows is drawn, so that
/// proofs going on at the same time do not meet either: process numbers are those of a namespace, and groups are seen
/// from all of them.
const PREFIX: &str = "_proof-";

/// A proof takes milliseconds. A group of one that is as old as this was left by a process that was killed.
const LEFT: Duration = Duration::from_secs(60);

pub(super) fn run(report: &Report) {
    let groups = match Cgroups::discover() {
        Ok(groups) => groups,
        Err(error) => return report.refuse_all(COVERS, &error),
    };
    sweep(&groups);
    let lab = format!("{PREFIX}{:016x}", RandomState::new().hash_one(0));
    let note = |name, tried: &Result<(), Error>| {
        report.note(name, outcome(tried, "limit set on a group made for it"));
    };
    let wanted: Vec<&str> = COVERS
        .iter()
        .copied()
        .filter(|name| report.wants(name))
        .collect();
    // One group with all limits takes a fraction of the time of one for each. Which limit is refused, and why, is found
    // out by groups of their own.
    if wanted.len() > 1 {
        let tried = try_limits(&groups, &lab, PREFIX, &harmless(&wanted));
        if tried.is_ok() {
            return wanted.into_iter().for_each(|name| note(name, &tried));
        }
    }
    for name in wanted {
        note(name, &try_limits(&groups, &lab, name, &harmless(&[name])));
    }
}

/// The limits that the capabilities are about, at values that every machine takes.
fn harmless(capabilities: &[&str]) -> Limits {
    let mut limits = Limits::default();
    for capability in capabilities {
        match *capability {
            Facts::CGROUP_CPU => limits.cpus = Some(1.0),
            Facts::CGROUP_MEMORY => limits.memory_bytes = Some(64 << 20),
            Facts::CGROUP_PIDS => limits.pids = Some(64),
            _ => {
                let allowed = machine::allowed(&Source::here());
                limits.cpuset = Some(CpuList::new(allowed.iter().take(1).collect()));
            }
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
    let everything = harmless(COVERS);
    let dirs = groups.dirs(PREFIX, PREFIX, &everything).unwrap_or_default();
    for top in dirs.iter().filter_map(|dir| dir.parent()?.parent()) {
        for proof in entries(top).into_iter().filter(|dir| is_orphan(dir)) {
            // The next proof tries again to remove the rest.
            let _ = NodeCgroup::from_dirs(entries(&proof)).and_then(|group| group.remove());
        }
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.is_dir()).collect()
}

/// Whether this is a proof's group whose owner is gone.
fn is_orphan(group: &Path) -> bool {
    let name = group.file_name().and_then(|name| name.to_str());
    let changed = || fs::metadata(group).and_then(|about| about.modified()).ok();
    let age = || SystemTime::now().duration_since(changed()?).ok();
    name.is_some_and(|name| name.starts_with(PREFIX)) && age().is_some_and(|age| age >= LEFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As if nothing had changed in it for so long.
    fn age(directory: &Path, age: Duration) {
        let directory = fs::File::open(directory).unwrap();
        directory.set_modified(SystemTime::now() - age).unwrap();
    }

    #[test]
    fn only_proofs_that_were_left_are_swept() {
        let place = std::env::temp_dir().join(format!("latlab-proofs-{}", std::process::id()));
        for (name, seconds, orphan) in [
            ("_proof-1", 61, true),
            ("_proof-2", 5, false),
            ("proof-3", 61, false),
        ] {
            let group = place.join(name);
            fs::create_dir_all(&group).unwrap();
            age(&group, Duration::from_secs(seconds));
            assert_eq!(is_orphan(&group), orphan, "{name}");
        }
        fs::remove_dir_all(place).unwrap();
        assert!(!is_orphan(Path::new("/nowhere/_proof-4")));
    }

    #[test]
    fn an_orphan_is_removed_with_its_groups() {
        let groups = Cgroups::discover().unwrap();
        let lab = format!("{PREFIX}left-{}", std::process::id());
        let limits = harmless(&[Facts::CGROUP_PIDS]);
        if !super::super::report::is_root() || groups.create(&lab, "x", &limits).is_err() {
            eprintln!("skipped: needs root and cgroups");
            return;
        }
        let dirs = groups.dirs(&lab, "x", &limits).unwrap();
        sweep(&groups);
        assert!(dirs.iter().all(|dir| dir.exists()), "they may be at work");
        for dir in &dirs {
            age(dir.parent().unwrap(), LEFT);
        }
        sweep(&groups);
        assert!(dirs.iter().all(|dir| !dir.exists()), "{dirs:?}");
    }
}
