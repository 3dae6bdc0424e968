//! Control groups: limits, accounting and a sure way to stop everything a node started.
//!
//! There is one mechanism for native, container and VM nodes. latlab makes the group itself, at
//! `latlab/<lab>/<node>` below the root of each hierarchy it can see, and puts the first process
//! of the node into it before that process runs any foreign code; everything the process starts
//! inherits the membership. Container runtimes and QEMU are not asked to manage groups, so a limit
//! means the same in every environment.
//!
//! On version 1 a group is made only in the hierarchies that have something to do: the ones that
//! carry a limit that was asked for, one that lists the processes, one that counts processor time.
//! Where systemd has mounted the unified tree beside version 1, that tree does the listing, the
//! counting and the killing.
//!
//! The paths are data ([`Cgroups::dirs`]) before they are directories, because the journal must
//! hold them before the machine changes; [`NodeCgroup::from_dirs`] takes them back to undo.
//!
//! Controllers that were enabled for children of a root stay enabled after the last lab is gone.
//! Somebody else may have come to rely on them meanwhile, and without children they do nothing.

mod discover;
mod entry;
mod node;
mod settings;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use latlab_model::units::CpuList;
use serde::{Deserialize, Serialize};

pub use discover::Version;
pub use entry::Entry;
pub use node::{CpuUsage, NodeCgroup};

use settings::{allowed_devices, settings};

use crate::sys;
use crate::sys::devices::{self, Device};

/// First component of every group latlab makes.
pub(crate) const TOP: &str = "latlab";

/// The group of processors that a tuning keeps quiet: the scheduler gives them to nobody else.
pub const PARTITION: &str = "latlab.isolated";

/// Period over which a processor quota is counted, in microseconds; the kernel's own default.
const CPU_PERIOD_US: u64 = 100_000;

/// The smallest quota the kernel accepts, in microseconds for a period.
const CPU_QUOTA_MIN_US: u64 = 1_000;

/// What [`Limits::pids`] limits, in words.
pub(crate) const PROCESSES: &str = "the number of processes";
/// What [`Limits::devices`] limits, in words.
pub(crate) const DEVICES: &str = "access to devices";

/// Something the control groups refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A limit needs a controller this machine does not offer.
    #[error("cannot limit {what} with control groups: {reason}")]
    Unavailable {
        /// What was to be limited or counted.
        what: &'static str,
        /// Why this machine cannot.
        reason: String,
    },
    /// A limit is outside of what the kernel accepts.
    #[error("limit {what}={value} is out of range: {reason}")]
    Range {
        /// The limit.
        what: &'static str,
        /// As asked for.
        value: String,
        /// What would be accepted.
        reason: String,
    },
    /// A system call failed.
    #[error(transparent)]
    Sys(#[from] sys::Error),
    /// A name cannot be a directory, or a journaled path is not one of ours.
    #[error("`{0}` does not name a control group of a node")]
    Name(String),
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was being done, in the infinitive.
        action: String,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// On version 2 a group with processes of its own hands nothing on to groups below it.
    #[error("processes {pids:?} run in {} itself, so no group below it can have limits", path.display())]
    Occupied {
        /// The group.
        path: PathBuf,
        /// Who is in it.
        pids: Vec<u32>,
    },
    /// Processes did not leave in time.
    #[error("{} still holds processes {pids:?} after {waited_ms} ms", path.display())]
    Populated {
        /// The group.
        path: PathBuf,
        /// Who is left.
        pids: Vec<u32>,
        /// How long was waited, in milliseconds.
        waited_ms: u128,
    },
}

impl Error {
    fn io(action: impl Into<String>, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let (action, path) = (action.into(), path.to_owned());
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

/// The controllers latlab uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Controller {
    /// Which processors and memory nodes.
    Cpuset,
    /// Processor quota.
    Cpu,
    /// Processor time used (version 1 only; part of the core on version 2).
    Cpuacct,
    /// Memory limit.
    Memory,
    /// Number of processes.
    Pids,
    /// Stops all processes of a group (version 1 only; part of the core on version 2).
    Freezer,
    /// Which devices (version 1 only; a BPF program on version 2).
    Devices,
}

impl Controller {
    const ALL: [Self; 7] = [
        Self::Cpuset,
        Self::Cpu,
        Self::Cpuacct,
        Self::Memory,
        Self::Pids,
        Self::Freezer,
        Self::Devices,
    ];

    /// The controllers that carry a limit a node can ask for.
    pub const LIMITING: [Self; 4] = [Self::Cpuset, Self::Cpu, Self::Memory, Self::Pids];

    /// The kernel's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpuset => "cpuset",
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Freezer => "freezer",
            Self::Devices => "devices",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}

/// What a node may use; `None` means no limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Processor time, in processors (1.5 is one and a half).
    ///
    /// On version 1 of a kernel with real-time group scheduling, a group of its own for this keeps
    /// real-time programs out (`SCHED_FIFO`, `SCHED_RR`): the kernel gives a new group no real-time
    /// share, and shares cannot be given to an unknown number of groups.
    pub cpus: Option<f64>,
    /// The processors the node may run on, by number.
    pub cpuset: Option<CpuList>,
    /// Its processors are those of the partition that the tuning made ([`PARTITION`]), so its group
    /// belongs below that one; with `cpuset` only.
    #[serde(default)]
    pub partition: bool,
    /// The memory nodes that its memory may come from, by number; with `cpuset` only.
    #[serde(default)]
    pub memory_nodes: Option<CpuList>,
    /// Memory, in bytes. The node gets no swap beyond it.
    pub memory_bytes: Option<u64>,
    /// Number of processes and threads.
    pub pids: Option<u64>,
    /// Only the devices that every program expects ([`devices::COMMON`]), and these.
    #[serde(default)]
    pub devices: Option<Vec<Device>>,
}

impl Limits {
    /// The controllers these limits need, each with the words for it.
    fn needs(&self) -> Vec<(Controller, &'static str)> {
        let mut needs = Vec::new();
        if self.cpuset.is_some() {
            needs.push((Controller::Cpuset, "the set of processors"));
        }
        if self.cpus.is_some() {
            needs.push((Controller::Cpu, "processor time"));
        }
        if self.memory_bytes.is_some() {
            needs.push((Controller::Memory, "memory"));
        }
        if self.pids.is_some() {
            needs.push((Controller::Pids, PROCESSES));
        }
        if self.devices.is_some() {
            needs.push((Controller::Devices, DEVICES));
        }
        needs
    }
}

/// The control groups of this machine.
#[derive(Debug, Clone)]
pub struct Cgroups {
    found: discover::Found,
}

impl Cgroups {
    /// Looks at this machine. Nothing is changed.
    pub fn discover() -> Result<Self, Error> {
        let path = Path::new("/proc/self/mountinfo");
        let mountinfo = fs::read_to_string(path).map_err(Error::io("read", path))?;
        Ok(Self {
            found: discover::discover(&mountinfo),
        })
    }

    /// Which version the controllers sit on.
    #[must_use]
    pub fn version(&self) -> Version {
        self.found.version
    }

    /// Time for which tasks ran on each processor so far, in nanoseconds by the processor's number,
    /// as `cpuacct` counts it (kernel: cgroup-v1/cpuacct). `None` on version 2, whose root counts
    /// in timer ticks.
    #[must_use]
    pub fn processor_times(&self) -> Option<Vec<u64>> {
        let root = self.found.on_own.get(&Controller::Cpuacct)?;
        let text = fs::read_to_string(root.join("cpuacct.usage_percpu")).ok()?;
        text.split_whitespace().map(|n| n.parse().ok()).collect()
    }

    /// The limiting controllers that can be used.
    #[must_use]
    pub fn controllers(&self) -> Vec<Controller> {
        Controller::LIMITING
            .into_iter()
            .filter(|c| !self.found.missing.contains_key(c))
            .collect()
    }

    /// The limiting controllers that cannot be used, each with the reason.
    pub fn missing(&self) -> impl Iterator<Item = (Controller, &str)> {
        self.found
            .missing
            .iter()
            .map(|(c, reason)| (*c, reason.as_str()))
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
        if let Some(cpus) = limits.cpus {
            if !(cpus.is_finite() && (0.01..=65_536.0).contains(&cpus)) {
                return range("cpus", cpus.to_string(), "from 0.01 to 65536 processors");
            }
        }
        if limits.cpuset.as_ref().is_some_and(CpuList::is_empty) {
            return range("cpuset", String::new(), "at least one processor");
        }
        if limits.memory_bytes.is_some_and(|b| b < 1 << 20) {
            let value = limits.memory_bytes.unwrap_or_default().to_string();
            return range(
                "memory",
                value,
                "at least 1 MiB, or the first process cannot start",
            );
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

    /// Where a node's group is in the hierarchy at `root`.
    fn place(&self, root: &Path, lab: &str, node: &str, limits: &Limits) -> PathBuf {
        let cpuset = self.found.on_own.get(&Controller::Cpuset);
        let partitioned = limits.partition
            && cpuset
                .or(self.found.unified.as_ref())
                .is_some_and(|r| r == root);
        let top = match partitioned {
            true => root.join(PARTITION),
            false => root.to_path_buf(),
        };
        top.join(TOP).join(lab).join(node)
    }

    /// Makes the node's group and puts the limits in force. Fails, leaving nothing behind, if the
    /// group exists.
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

    /// Writes the limits.
    fn apply(&self, lab: &str, node: &str, limits: &Limits) -> Result<(), Error> {
        for (controller, _) in limits.needs() {
            let own = self.found.on_own.get(&controller);
            let unified = own.is_none();
            let Some(root) = own.or(self.found.unified.as_ref()) else {
                continue;
            };
            let dir = self.place(root, lab, node, limits);
            if let (Controller::Devices, true) = (controller, unified) {
                devices::restrict(&dir, &allowed_devices(limits))?;
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

/// Whether `name` is one ordinary path component that cannot hide or leave a directory.
fn is_component(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0', '\n'])
}

/// The unified tree has this file in every group, a version 1 hierarchy in none.
fn is_unified(dir: &Path) -> bool {
    dir.join("cgroup.controllers").exists()
}

/// Makes `<root>/latlab/<lab>/<node>`; the last level must be new.
fn make_dirs(dir: &Path) -> Result<(), Error> {
    let parent = dir.parent().unwrap_or(dir);
    // Another lab's last node may take the shared levels away between our two steps.
    for _ in 0..8 {
        fs::create_dir_all(parent).map_err(Error::io("make control group", parent))?;
        match fs::create_dir(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            result => return result.map_err(Error::io("make control group", dir)),
        }
    }
    Err(Error::io("make control group", dir)(
        io::ErrorKind::NotFound.into(),
    ))
}

/// The groups from the root of a hierarchy down to `dir`, both included.
fn levels<'d>(root: &Path, dir: &'d Path) -> Vec<&'d Path> {
    let mut levels: Vec<&Path> = dir
        .ancestors()
        .take_while(|d| d.starts_with(root))
        .collect();
    levels.reverse();
    levels
}

/// Hands `controllers` down from the root of the unified tree to the group `dir`.
fn enable_controllers(root: &Path, dir: &Path, controllers: &[Controller]) -> Result<(), Error> {
    // From the top: a group can hand on only what its parent handed to it.
    for group in levels(root, dir).into_iter().filter(|group| *group != dir) {
        let file = group.join("cgroup.subtree_control");
        let enabled = fs::read_to_string(&file).map_err(Error::io("read", &file))?;
        let enabled: Vec<&str> = enabled.split_whitespace().collect();
        for controller in controllers {
            if !enabled.contains(&controller.name()) {
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

/// A new version 1 cpuset is empty and takes no process; fills it and the shared levels above. Those below
/// the partition have the processors of the nodes below them and no others, because the partition may
/// not lose a processor that a group in it has.
fn fill_cpuset(root: &Path, dir: &Path, cpus: Option<&CpuList>) -> Result<(), Error> {
    let partition = root.join(PARTITION);
    for pair in levels(root, dir).windows(2) {
        for name in ["cpuset.cpus", "cpuset.mems"] {
            let file = pair[1].join(name);
            let current = fs::read_to_string(&file).map_err(Error::io("read", &file))?;
            let shared = pair[0].starts_with(&partition) && name == "cpuset.cpus";
            if let Some(cpus) = cpus.filter(|_| shared) {
                let known = CpuList::parse(current.trim()).unwrap_or_default();
                let all = CpuList::new(known.iter().chain(cpus.iter()).collect());
                write(&file, &all.to_string())?;
                continue;
            }
            if current.trim().is_empty() {
                let above = pair[0].join(name);
                let value = fs::read_to_string(&above).map_err(Error::io("read", &above))?;
                write(&file, &beside_partition(pair[1], name, value.trim()))?;
            }
        }
    }
    Ok(())
}

/// What a group beside a partition can have of `value`: the partition has its processors exclusively.
fn beside_partition(group: &Path, name: &str, value: &str) -> String {
    let taken = group.with_file_name(PARTITION).join(name);
    let taken = fs::read_to_string(taken).unwrap_or_default();
    let taken = CpuList::parse(taken.trim()).unwrap_or_default();
    match CpuList::parse(value) {
        Some(all) if name == "cpuset.cpus" => {
            let rest: Vec<u32> = all.iter().filter(|cpu| !taken.contains(*cpu)).collect();
            CpuList::new(rest).to_string()
        }
        _ => value.to_string(),
    }
}

/// Writes a control file in one `write(2)`, as the kernel expects.
fn write(file: &Path, value: &str) -> Result<(), Error> {
    use std::io::Write as _;
    fs::OpenOptions::new()
        .write(true)
        .open(file)
        .and_then(|mut f| f.write_all(value.as_bytes()))
        .map_err(Error::io(format!("write `{value}` to"), file))
}

#[cfg(test)]
mod tests {
    use super::settings::quota_us;
    use super::*;

    fn cgroups(mountinfo: &str) -> Cgroups {
        Cgroups {
            found: discover::discover(mountinfo),
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
    fn what_cannot_be_limited_is_refused_with_the_reason() {
        let groups = cgroups(V1);
        let error = groups
            .check(&Limits {
                pids: Some(10),
                ..Limits::default()
            })
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot limit the number of processes with control groups: no mounted hierarchy \
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
    fn a_node_in_the_partition_is_below_it_where_processors_are_given() {
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
    fn groups_beside_a_partition_leave_it_its_processors() {
        let root = std::env::temp_dir().join(format!("latlab-beside-{}", std::process::id()));
        let group = root.join("latlab");
        let files = [
            ("cpuset.cpus", "0-3\n"),
            ("cpuset.mems", "0\n"),
            ("latlab.isolated/cpuset.cpus", "2-3\n"),
            ("latlab/cpuset.cpus", "\n"),
            ("latlab/cpuset.mems", "\n"),
        ];
        for (file, text) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fill_cpuset(&root, &group, None).unwrap();
        assert_eq!(
            fs::read_to_string(group.join("cpuset.cpus"))
                .unwrap()
                .trim(),
            "0-1"
        );
        assert_eq!(
            fs::read_to_string(group.join("cpuset.mems"))
                .unwrap()
                .trim(),
            "0"
        );
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn without_hierarchies_there_is_nothing_to_make() {
        let groups = cgroups("");
        assert_eq!(groups.version(), Version::None);
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

    #[test]
    fn the_same_limits_in_the_files_of_both_versions() {
        let limits = Limits {
            memory_nodes: None,
            partition: false,
            cpus: Some(0.5),
            cpuset: Some(CpuList::new(vec![1])),
            memory_bytes: Some(64 << 20),
            pids: Some(9),
            devices: Some(Vec::new()),
        };
        let lines = |unified| -> Vec<String> {
            Controller::LIMITING
                .into_iter()
                .flat_map(|c| settings(c, unified, &limits))
                .map(|s| format!("{}={}", s.file, s.value))
                .collect()
        };
        assert_eq!(
            lines(true),
            [
                "cpuset.cpus=1",
                "cpu.max=50000 100000",
                "memory.max=67108864",
                "memory.swap.max=0",
                "pids.max=9"
            ]
        );
        assert_eq!(
            lines(false),
            [
                "cpuset.cpus=1",
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=50000",
                "memory.limit_in_bytes=67108864",
                "memory.memsw.limit_in_bytes=67108864",
                "pids.max=9"
            ]
        );
        let devices = settings(Controller::Devices, false, &limits);
        let rules: Vec<_> = devices
            .iter()
            .map(|s| format!("{}={}", s.file, s.value))
            .collect();
        assert_eq!(rules[..2], ["devices.deny=a", "devices.allow=c 1:3 rwm"]);
        assert!(settings(Controller::Devices, true, &limits).is_empty());
        assert_eq!(quota_us(0.01), 1_000);
        assert_eq!(quota_us(1.5), 150_000);
    }
}
