//! The hierarchies of this machine, and the groups of nodes made in them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use latlab_model::units::CpuList;

use super::cpuset::fill_cpuset;
use super::discover;
use super::error::Error;
use super::files::{PARTITION, TOP, is_component, is_unified, levels, write};
use super::limits::{Controller, Limits};
use super::node::{self, NodeCgroup};
use super::settings::{allowed_devices, settings};
use crate::sys::devices::Programs;
use crate::sys::proc;

#[derive(Debug, Clone)]
pub struct Cgroups {
    found: discover::Found,
    /// For the device lists of nodes.
    programs: Programs,
}

impl Cgroups {
    /// Looks at this machine. Nothing is changed.
    pub fn discover() -> Result<Self, Error> {
        Ok(Self {
            found: discover::discover(&proc::own_mounts()?),
            programs: Programs::default(),
        })
    }

    /// Time for which tasks ran on each CPU so far, in nanoseconds by the CPU's number, as `cpuacct` counts it
    /// (kernel: cgroup-v1/cpuacct). `None` on version 2, whose root counts in timer ticks.
    #[must_use]
    pub fn cpu_times(&self) -> Option<Vec<u64>> {
        let root = self.found.on_own.get(&Controller::Cpuacct)?;
        let text = fs::read_to_string(root.join("cpuacct.usage_percpu")).ok()?;
        text.split_whitespace().map(|n| n.parse().ok()).collect()
    }

    /// Says whether `limits` can be put in force here; to be asked before the first change.
    pub fn check(&self, limits: &Limits) -> Result<(), Error> {
        for (controller, what) in limits.needs() {
            if let Some(reason) = self.found.missing.get(&controller) {
                return Err(Error::Unavailable {
                    what,
                    reason: reason.clone(),
                });
            }
        }
        let range = |what, value: String, reason: &str| {
            Err(Error::Range {
                what,
                value,
                reason: reason.to_owned(),
            })
        };
        let allowed = 0.01..=65_536.0;
        if let Some(cpus) = limits.cpus.filter(|cpus| !allowed.contains(cpus)) {
            return range("cpus", cpus.to_string(), "from 0.01 to 65536 CPUs");
        }
        if limits.cpuset.as_ref().is_some_and(CpuList::is_empty) {
            return range("cpuset", String::new(), "at least one CPU");
        }
        if let Some(bytes) = limits.memory_bytes.filter(|bytes| *bytes < 1 << 20) {
            let reason = "at least 1 MiB, or the first process cannot start";
            return range("memory", bytes.to_string(), reason);
        }
        if limits.pids == Some(0) {
            return range("pids", "0".to_owned(), "at least 1");
        }
        Ok(())
    }

    /// The directories [`Cgroups::create`] would make for a node, for the journal.
    ///
    /// The two levels above them (`latlab` and the lab's) are shared; they are made as needed and
    /// go away with their last node.
    pub fn dirs(&self, lab: &str, node: &str, limits: &Limits) -> Result<Vec<PathBuf>, Error> {
        for name in [lab, node] {
            if !is_component(name) {
                return Err(Error::Name(name.to_owned()));
            }
        }
        let mut roots = Vec::new();
        match &self.found.unified {
            Some(root) => roots.push(root),
            // Without the unified tree, listing and counting fall to controllers.
            None => {
                for controller in [Controller::Freezer, Controller::Cpuacct] {
                    roots.extend(self.found.on_own.get(&controller));
                }
            }
        }
        for (controller, _) in limits.needs() {
            roots.extend(self.found.on_own.get(&controller));
        }
        let mut dirs: Vec<PathBuf> = Vec::new();
        for root in roots {
            let dir = self.place(root, lab, node, limits);
            if !dirs.contains(&dir) {
                dirs.push(dir);
            }
        }
        Ok(dirs)
    }

    fn place(&self, root: &Path, lab: &str, node: &str, limits: &Limits) -> PathBuf {
        let cpuset = self.found.on_own.get(&Controller::Cpuset);
        let partitioned = limits.partition
            && cpuset
                .or(self.found.unified.as_ref())
                .is_some_and(|r| r == root);
        let top = if partitioned {
            root.join(PARTITION)
        } else {
            root.to_path_buf()
        };
        top.join(TOP).join(lab).join(node)
    }

    /// Makes the node's group and puts the limits in force. Fails, leaving nothing behind, if the group exists.
    pub fn create(&self, lab: &str, node: &str, limits: &Limits) -> Result<NodeCgroup, Error> {
        self.check(limits)?;
        let dirs = self.dirs(lab, node, limits)?;
        let mut made = Vec::new();
        let result = dirs.iter().try_for_each(|dir| {
            make_dirs(dir)?;
            made.push(dir.clone());
            self.prepare(dir, limits)
        });
        let result = result.and_then(|()| self.apply(lab, node, limits));
        if let Err(error) = result {
            // The first error is the one to report; what is left over is in the journal.
            let _ = NodeCgroup::from_dirs(made).and_then(|group| group.remove());
            return Err(error);
        }
        NodeCgroup::from_dirs(dirs)
    }

    /// Makes a new directory ready to hold processes.
    fn prepare(&self, dir: &Path, limits: &Limits) -> Result<(), Error> {
        if is_unified(dir) {
            let wanted: Vec<_> = limits
                .needs()
                .into_iter()
                .map(|(controller, _)| controller)
                .filter(|c| self.found.on_unified.contains(c))
                .collect();
            let root = self.found.unified.as_deref().unwrap_or(dir);
            return enable_controllers(root, dir, &wanted);
        }
        let cpuset = self.found.on_own.get(&Controller::Cpuset);
        match cpuset.filter(|root| dir.starts_with(root)) {
            Some(root) => fill_cpuset(root, dir, limits.cpuset.as_ref()),
            None => Ok(()),
        }
    }

    fn apply(&self, lab: &str, node: &str, limits: &Limits) -> Result<(), Error> {
        for (controller, _) in limits.needs() {
            let own = self.found.on_own.get(&controller);
            let unified = own.is_none();
            let Some(root) = own.or(self.found.unified.as_ref()) else {
                continue;
            };
            let dir = self.place(root, lab, node, limits);
            if let (Controller::Devices, true) = (controller, unified) {
                self.programs.restrict(&dir, &allowed_devices(limits))?;
            }
            for setting in settings(controller, unified, limits) {
                let file = dir.join(setting.file);
                if setting.optional && !file.exists() {
                    continue;
                }
                write(&file, &setting.value)?;
            }
        }
        Ok(())
    }
}

/// Attempts at a group whose parents others take away again and again.
const MAX_ATTEMPTS: usize = 100;

/// Makes `<root>/latlab/<lab>/<node>`; the last level must be new.
fn make_dirs(dir: &Path) -> Result<(), Error> {
    let parent = dir.parent().unwrap_or(dir);
    // Another lab's last node may take a shared level away between any two steps.
    for _ in 0..MAX_ATTEMPTS {
        match fs::create_dir_all(parent).and_then(|()| fs::create_dir(dir)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            result => return result.map_err(Error::io("make cgroup", dir)),
        }
    }
    Err(Error::io("make cgroup", dir)(
        io::ErrorKind::NotFound.into(),
    ))
}

/// Hands `controllers` down from the root of the unified tree to the group `dir`. A service manager may take one from
/// the root again before a group below hands it on: the kernel then knows no such controller there (ENOENT).
fn enable_controllers(root: &Path, dir: &Path, controllers: &[Controller]) -> Result<(), Error> {
    for _ in 0..8 {
        match enable_once(root, dir, controllers) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            result => return result,
        }
    }
    enable_once(root, dir, controllers)
}

fn enable_once(root: &Path, dir: &Path, controllers: &[Controller]) -> Result<(), Error> {
    // From the top: a group can hand on only what its parent handed to it.
    for group in levels(root, dir).into_iter().filter(|group| *group != dir) {
        let file = group.join("cgroup.subtree_control");
        let enabled = fs::read_to_string(&file).map_err(Error::io("read", &file))?;
        let enabled: Vec<&str> = enabled.split_whitespace().collect();
        // The kernel tells a controller as handed on before its files are in the groups below. A write waits for that.
        let is_parent = dir.parent() == Some(group);
        for controller in controllers {
            if is_parent || !enabled.contains(&controller.name()) {
                let written = write(&file, &format!("+{}", controller.name()));
                written.map_err(|error| occupied(root, group).unwrap_or(error))?;
            }
        }
    }
    Ok(())
}

/// The group at or above `dir`, below the root, that processes keep from handing controllers on.
fn occupied(root: &Path, dir: &Path) -> Option<Error> {
    let groups = levels(root, dir).into_iter().filter(|group| *group != root);
    groups
        .filter_map(|group| Some((group, node::list(group).ok()?)))
        .find(|(_, pids)| !pids.is_empty())
        .map(|(group, pids)| Error::Occupied {
            path: group.to_owned(),
            pids,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cgroups(mountinfo: &str) -> Cgroups {
        Cgroups {
            found: discover::discover(&proc::mounts(mountinfo.as_bytes())),
            programs: Programs::default(),
        }
    }

    const V1: &str = "\
1 0 0:1 / /c/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
2 0 0:2 / /c/cpuset rw - cgroup cgroup rw,cpuset
3 0 0:3 / /c/memory rw - cgroup cgroup rw,memory
4 0 0:4 / /c/freezer rw - cgroup cgroup rw,freezer
";

    #[test]
    fn only_hierarchies_with_work_are_used() {
        let groups = cgroups(V1);
        let dirs = groups.dirs("lab", "n1", &Limits::default()).unwrap();
        let expected = ["/c/freezer/latlab/lab/n1", "/c/cpu,cpuacct/latlab/lab/n1"];
        assert_eq!(dirs, expected.map(PathBuf::from));

        let limits = Limits {
            cpus: Some(1.0),
            memory_bytes: Some(1 << 26),
            ..Limits::default()
        };
        let dirs = groups.dirs("lab", "n1", &limits).unwrap();
        assert_eq!(dirs.len(), 3, "cpu and cpuacct share a hierarchy: {dirs:?}");
        assert!(dirs.contains(&PathBuf::from("/c/memory/latlab/lab/n1")));
    }

    #[test]
    fn impossible_limits_are_refused_with_the_reason() {
        let groups = cgroups(V1);
        let error = groups
            .check(&Limits {
                pids: Some(10),
                ..Limits::default()
            })
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot limit the number of processes with cgroups: no mounted hierarchy \
             carries the `pids` controller"
        );
        assert!(groups.check(&Limits::default()).is_ok());
        for cpus in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            let limits = Limits {
                cpus: Some(cpus),
                ..Limits::default()
            };
            assert!(
                matches!(groups.check(&limits), Err(Error::Range { .. })),
                "{cpus}"
            );
        }
        let limits = Limits {
            cpuset: Some(CpuList::new(Vec::new())),
            ..Limits::default()
        };
        assert!(matches!(groups.check(&limits), Err(Error::Range { .. })));
    }

    #[test]
    fn a_node_in_the_partition_is_below_it_in_the_cpuset_hierarchy() {
        let limits = Limits {
            cpus: Some(1.0),
            cpuset: Some(CpuList::new(vec![1])),
            partition: true,
            ..Limits::default()
        };
        let dirs = cgroups(V1).dirs("lab", "n1", &limits).unwrap();
        assert!(
            dirs.contains(&"/c/cpuset/latlab.isolated/latlab/lab/n1".into()),
            "{dirs:?}"
        );
        assert!(
            dirs.contains(&"/c/cpu,cpuacct/latlab/lab/n1".into()),
            "{dirs:?}"
        );
        NodeCgroup::from_dirs(dirs).unwrap();
    }

    #[test]
    fn without_hierarchies_there_is_nothing_to_make() {
        let groups = cgroups("");
        assert!(
            groups
                .dirs("lab", "n1", &Limits::default())
                .unwrap()
                .is_empty()
        );
        assert!(groups.create("lab", "n1", &Limits::default()).is_ok());
        let limits = Limits {
            cpus: Some(1.0),
            ..Limits::default()
        };
        assert!(matches!(
            groups.create("lab", "n1", &limits),
            Err(Error::Unavailable { .. })
        ));
    }

    #[test]
    fn names_that_leave_the_tree_are_refused() {
        for name in ["", "..", "a/b", ".hidden", "a\nb"] {
            let error = cgroups(V1).dirs("lab", name, &Limits::default());
            assert!(matches!(error, Err(Error::Name(_))), "{name:?}");
        }
    }
}
