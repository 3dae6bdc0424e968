//! One node's cgroup: who is in it, what they used, how they are stopped.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use latlab_model::units::CpuList;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::files::{PARTITION, TOP, is_component, is_unified, write};
use crate::sys::cgroup_entry::CgroupEntry;
use crate::sys::file::if_there;
use crate::sys::proc::Status;
use crate::sys::process;

/// How long processes that were sent SIGKILL may take to leave. They leave at once unless they
/// sit in an uninterruptible wait, or an overloaded machine (load 46 on two CPUs) gives them no CPU time.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a group that lists no process may stay busy. The main thread of a process leaves the list when it has
/// ended. The group is released by the last thread, which gives back the memory of the process: tenths of a second of
/// CPU time for a guest. That took 7 s beside processes of raised priority on both CPUs, and once more than a minute.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(120);

/// How long the processes of a group may take to stop. One that waits for a disk stops after that.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two looks where the kernel offers nothing to wait on.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// CPU time used by a group since it was made, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuUsage {
    pub user_ns: u64,
    pub system_ns: u64,
    /// Counted apart by the kernel, so the sum of the parts may differ a little.
    pub total_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCgroup {
    dirs: Vec<PathBuf>,
}

/// Limits that are doubled for a while.
#[derive(Debug)]
pub struct Doubled {
    limits: Vec<(PathBuf, u64)>,
    note: PathBuf,
}

impl Drop for Doubled {
    fn drop(&mut self) {
        set_back(&self.limits);
        let _ = fs::remove_file(&self.note);
    }
}

/// Sets limits as they were.
fn set_back(limits: &[(PathBuf, u64)]) {
    // The last one first. One that cannot be set back is wider than asked for, which no node notices.
    for (file, limit) in limits.iter().rev() {
        let _ = write(file, &limit.to_string());
    }
}

impl NodeCgroup {
    /// Takes over the directories of a group, from [`Cgroups::dirs`](super::Cgroups::dirs) or from
    /// the journal. They need not exist. A path that is not `.../latlab/<lab>/<node>` is refused,
    /// so that a damaged journal cannot point at a group of others.
    pub fn from_dirs(dirs: Vec<PathBuf>) -> Result<Self, Error> {
        for dir in &dirs {
            let mut names = dir
                .iter()
                .rev()
                .map(|name| name.to_str().unwrap_or_default());
            let ours = names.next().is_some_and(is_component)
                && names.next().is_some_and(is_component)
                && names.next() == Some(TOP)
                && dir.is_absolute();
            if !ours {
                return Err(Error::Name(dir.display().to_string()));
            }
        }
        Ok(Self { dirs })
    }

    #[must_use]
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    #[must_use]
    pub fn unified(&self) -> Option<&Path> {
        self.dirs
            .iter()
            .find(|dir| is_unified(dir))
            .map(PathBuf::as_path)
    }

    /// Opens the way in for a process about to be started.
    pub fn entry(&self) -> Result<CgroupEntry, Error> {
        let mut entry = CgroupEntry::default();
        for dir in &self.dirs {
            entry.add(dir, is_unified(dir))?;
        }
        Ok(entry)
    }

    pub fn cpu_usage(&self) -> Result<CpuUsage, Error> {
        for dir in &self.dirs {
            if is_unified(dir) {
                let file = dir.join("cpu.stat");
                let text = fs::read_to_string(&file).map_err(Error::io("read", &file))?;
                return Ok(parse_cpu_stat(&text));
            }
            if dir.join("cpuacct.usage").exists() {
                return Ok(CpuUsage {
                    user_ns: read_number(&dir.join("cpuacct.usage_user"))?,
                    system_ns: read_number(&dir.join("cpuacct.usage_sys"))?,
                    total_ns: read_number(&dir.join("cpuacct.usage"))?,
                });
            }
        }
        Err(Error::Unavailable {
            what: "CPU time",
            reason: "the node has no group that counts it".to_owned(),
        })
    }

    /// Memory that the group is charged for; `None` where nothing counts it.
    pub fn memory_bytes(&self) -> Option<u64> {
        let files = ["memory.current", "memory.usage_in_bytes"];
        let mut all = self
            .dirs
            .iter()
            .flat_map(|dir| files.map(|file| dir.join(file)));
        all.find_map(|file| read_number(&file).ok())
    }

    /// Doubles the group's limits of memory and processes, until the value is dropped: for a node that is copied within
    /// its group. A kernel that does not take a limit keeps the one that it has. The file `note` holds the limits
    /// meanwhile, for [`undouble`](Self::undouble).
    pub fn doubled(&self, note: &Path) -> Result<Doubled, Error> {
        let mut limits = Vec::new();
        // The limit with swap is never below that without.
        let files = [
            "memory.memsw.limit_in_bytes",
            "memory.limit_in_bytes",
            "memory.max",
            "pids.max",
        ];
        for name in files {
            let all = self.dirs.iter().map(|dir| dir.join(name));
            for file in all.filter(|file| file.exists()) {
                let text = fs::read_to_string(&file).map_err(Error::io("read", &file))?;
                // On version 1, no limit is a number too large to be doubled.
                let limit = text.trim().parse::<u64>().ok();
                let limit = limit.filter(|limit| limit.saturating_mul(2) < 1 << 60);
                limits.extend(limit.map(|limit| (file, limit)));
            }
        }
        let text = serde_json::to_vec(&limits).expect("paths and numbers");
        fs::write(note, text).map_err(Error::io("write", note))?;
        limits.retain(|(file, limit)| write(file, &(limit * 2).to_string()).is_ok());
        Ok(Doubled {
            limits,
            note: note.to_owned(),
        })
    }

    /// Sets limits back that a latlab doubled which was killed. Without the note it left, nothing is done.
    pub fn undouble(&self, note: &Path) {
        let text = fs::read(note).unwrap_or_default();
        let limits = serde_json::from_slice::<Vec<(PathBuf, u64)>>(&text);
        let mut limits = limits.unwrap_or_default();
        limits.retain(|(file, _)| self.dirs.iter().any(|dir| file.parent() == Some(dir)));
        set_back(&limits);
        let _ = fs::remove_file(note);
    }

    /// The processes in the group and in groups the node made below it.
    pub fn pids(&self) -> Result<Vec<u32>, Error> {
        match self.tracker() {
            Some(dir) => list(dir),
            None => Ok(Vec::new()),
        }
    }

    /// Sends SIGKILL to everything in the group and waits until it is empty. A group that does not exist is empty.
    pub fn kill_all(&self) -> Result<(), Error> {
        let Some(dir) = self.tracker() else {
            return Ok(());
        };
        if !dir.exists() || list(dir)?.is_empty() {
            return Ok(());
        }
        let kill = dir.join("cgroup.kill");
        if kill.exists() {
            match write(&kill, "1") {
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    return Ok(());
                }
                result => result?,
            }
            return wait_empty(dir);
        }
        kill_listed(dir)
    }

    /// Ends what is left in a group that is about to be removed. The directory that lists its processes is removed first,
    /// which the kernel refuses while there is one.
    pub fn end_members(&self) -> Result<(), Error> {
        match self.tracker().map(fs::remove_dir) {
            Some(Err(_)) => self.kill_all(),
            None | Some(Ok(())) => Ok(()),
        }
    }

    /// Ends all processes of a group that goes on to be used. Once a group was killed in one step (`cgroup.kill`), the
    /// kernel kills also what is born in it later: seen on Linux 6.18, with `CLONE_INTO_CGROUP` from outside.
    pub fn end_all(&self) -> Result<(), Error> {
        match self.tracker() {
            Some(dir) if dir.exists() => kill_listed(dir),
            _ => Ok(()),
        }
    }

    /// Stops all processes of the group where they are, until [`NodeCgroup::thaw`]; those that enter it later, too.
    /// Returns when none runs any more. Fails where the kernel cannot freeze the group, or not in time.
    pub fn freeze(&self) -> Result<(), Error> {
        let freezer = self.freezer().ok_or(Error::NoFreezer)?;
        freezer.set(true)?;
        let started = Instant::now();
        while !freezer.is_frozen()? {
            if started.elapsed() > FREEZE_TIMEOUT {
                // Half of a node that stands still serves no one.
                let _ = freezer.set(false);
                return Err(Error::Running {
                    waited_ms: started.elapsed().as_millis(),
                });
            }
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Lets a frozen group go on. A group that does not exist has nothing to go on with.
    pub fn thaw(&self) -> Result<(), Error> {
        match self.freezer() {
            // A read takes no lock of the kernel's, and most groups are not frozen.
            Some(freezer) if !freezer.is_thawed() => freezer.set(false),
            _ => Ok(()),
        }
    }

    /// The directory in which it can be frozen.
    pub fn frozen_in(&self) -> Option<&Path> {
        let freezer = self.freezer()?.file;
        let mut dirs = self.dirs.iter().map(PathBuf::as_path);
        dirs.find(|dir| freezer.parent() == Some(dir))
    }

    fn freezer(&self) -> Option<Freezer> {
        self.dirs.iter().find_map(|dir| {
            let unified = dir.join("cgroup.freeze");
            if unified.exists() {
                let events = Some(dir.join("cgroup.events"));
                return Some(Freezer {
                    file: unified,
                    events,
                });
            }
            let file = dir.join("freezer.state");
            file.exists().then_some(Freezer { file, events: None })
        })
    }

    /// Removes the group. Not an error if it is gone, in part or whole; an error if processes
    /// remain in it. The lab's directory goes with its last node, the top one with the last lab.
    pub fn remove(&self) -> Result<(), Error> {
        self.remove_own()?;
        NodeCgroup::remove_shared(std::slice::from_ref(self));
        Ok(())
    }

    /// Removes the group without the directories that it shares with others.
    pub fn remove_own(&self) -> Result<(), Error> {
        self.dirs.iter().try_for_each(|dir| remove_tree(dir))
    }

    /// Removes directories that groups shared, and that nothing else is in: of their labs, and the top ones.
    pub fn remove_shared(groups: &[NodeCgroup]) {
        /// The lab's, and the one of all labs.
        const LEVELS: usize = 2;
        let dirs = groups.iter().flat_map(|group| &group.dirs);
        let shared: BTreeSet<&Path> = dirs
            .flat_map(|dir| dir.ancestors().skip(1).take(LEVELS))
            .collect();
        // Those below come after what they are in.
        for dir in shared.into_iter().rev() {
            let is_busy = |error: io::Error| error.kind() == io::ErrorKind::ResourceBusy;
            if has_directories(dir) || fs::remove_dir(dir).is_err_and(is_busy) {
                give_back_cpus(dir);
            }
        }
    }

    /// The directory whose process list is complete: all directories hold the same processes, but
    /// the unified tree and the freezer know better ways to stop them.
    fn tracker(&self) -> Option<&Path> {
        // A node without limits has no group.
        if !self.dirs.iter().any(|dir| dir.exists()) {
            return None;
        }
        let first = |wanted: fn(&Path) -> bool| {
            let mut dirs = self.dirs.iter().map(PathBuf::as_path);
            dirs.find(|dir| wanted(dir))
        };
        self.unified()
            .or_else(|| first(|dir| dir.join("freezer.state").exists()))
            .or_else(|| first(Path::exists))
    }
}

/// The file that stops a group (kernel: admin-guide/cgroup-v2, cgroup-v1/freezer-subsystem).
struct Freezer {
    file: PathBuf,
    /// Where version 2 says that all have stopped; version 1 says it in the file itself.
    events: Option<PathBuf>,
}

impl Freezer {
    fn set(&self, frozen: bool) -> Result<(), Error> {
        let word = match (&self.events, frozen) {
            (Some(_), true) => "1",
            (Some(_), false) => "0",
            (None, true) => "FROZEN",
            (None, false) => "THAWED",
        };
        write(&self.file, word)
    }

    /// Not frozen, and not about to be.
    fn is_thawed(&self) -> bool {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        matches!(text.trim(), "0" | "THAWED")
    }

    fn is_frozen(&self) -> Result<bool, Error> {
        let file = self.events.as_ref().unwrap_or(&self.file);
        let text = fs::read_to_string(file).map_err(Error::io("read", file))?;
        let mut lines = text.lines();
        Ok(lines.any(|line| matches!(line, "frozen 1" | "FROZEN")))
    }
}

/// `cpu.stat` of the unified tree, which counts in microseconds.
fn parse_cpu_stat(text: &str) -> CpuUsage {
    let mut usage = CpuUsage::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(' ') else {
            continue;
        };
        let field = match key {
            "usage_usec" => &mut usage.total_ns,
            "user_usec" => &mut usage.user_ns,
            "system_usec" => &mut usage.system_ns,
            _ => continue,
        };
        *field = value
            .trim()
            .parse::<u64>()
            .unwrap_or(0)
            .saturating_mul(1_000);
    }
    usage
}

fn read_number(file: &Path) -> Result<u64, Error> {
    let text = fs::read_to_string(file).map_err(Error::io("read", file))?;
    text.trim()
        .parse()
        .map_err(|_| Error::io("read a number from", file)(io::ErrorKind::InvalidData.into()))
}

/// The groups the node made inside its own, innermost first, then `dir`.
fn tree(dir: &Path) -> Vec<PathBuf> {
    let mut all = vec![dir.to_owned()];
    let mut next = 0;
    while next < all.len() {
        let entries = fs::read_dir(&all[next]).into_iter().flatten().flatten();
        let below = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
        let below: Vec<_> = below.map(|e| e.path()).collect();
        all.extend(below);
        next += 1;
    }
    all.reverse();
    all
}

/// The processes in `dir` and below; none if it is gone.
pub(super) fn list(dir: &Path) -> Result<Vec<u32>, Error> {
    let mut pids = Vec::new();
    for group in tree(dir) {
        let file = group.join("cgroup.procs");
        match fs::read_to_string(&file) {
            Ok(text) => pids.extend(text.lines().filter_map(|l| l.parse::<u32>().ok())),
            // Gone, or going: version 2 answers ENODEV for a group removed while open.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => {}
            Err(e) => return Err(Error::io("read", &file)(e)),
        }
    }
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

/// Waits until the kernel reports the unified group `dir` as not populated.
fn wait_empty(dir: &Path) -> Result<(), Error> {
    let started = Instant::now();
    let path = dir.join("cgroup.events");
    loop {
        // A fresh reading each time: the poll below reports a change since the last one.
        let file = if_there(fs::File::open(&path)).map_err(Error::io("open", &path))?;
        let Some(file) = file else { return Ok(()) };
        let events = io::read_to_string(&file).map_err(Error::io("read", &path))?;
        if events.lines().any(|l| l == "populated 0") {
            return Ok(());
        }
        let Some(left) = KILL_TIMEOUT.checked_sub(started.elapsed()) else {
            return Err(populated(dir, started));
        };
        let timeout = Timespec::try_from(left).ok();
        let _ = poll(&mut [PollFd::new(&file, PollFlags::PRI)], timeout.as_ref());
    }
}

fn populated(dir: &Path, started: Instant) -> Error {
    Error::Populated {
        path: dir.to_owned(),
        pids: list(dir).unwrap_or_default(),
        waited_ms: started.elapsed().as_millis(),
    }
}

/// The threads of a group whose processes have all ended, with what each waits for in the kernel.
fn ending(dir: &Path) -> Vec<String> {
    // Version 1 calls the list otherwise.
    let lists = ["cgroup.threads", "tasks"].map(|name| fs::read_to_string(dir.join(name)));
    let list = lists.into_iter().flatten().next().unwrap_or_default();
    let threads = list.lines().filter_map(|line| line.parse::<u32>().ok());
    let described = threads.filter_map(|thread| {
        let status = Status::of(thread).ok()?;
        let [name, process, state] = ["Name", "Tgid", "State"].map(|name| status.field(name));
        let function = fs::read_to_string(format!("/proc/{thread}/wchan")).unwrap_or_default();
        let function = match function.as_str() {
            "" | "0" => String::new(),
            function => format!(" in {function}"),
        };
        Some(format!(
            "thread {thread} ({name}) of process {process}, {state}{function}"
        ))
    });
    described.collect()
}

/// Leaves a shared level below the partition with the CPUs of those who are still below it, as
/// [`Cgroups::create`](super::Cgroups::create) gave them. Best effort: a partition that cannot lose a
/// CPU for it says so itself.
fn give_back_cpus(shared: &Path) {
    const FILE: &str = "cpuset.cpus";
    let is_partition = |dir: &Path| dir.file_name().is_some_and(|name| name == PARTITION);
    if !shared.ancestors().any(is_partition) || is_unified(shared) {
        return;
    }
    let entries = fs::read_dir(shared).into_iter().flatten().flatten();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path().join(FILE)).ok());
    let lists = texts.filter_map(|text| CpuList::parse(text.trim()));
    let cpus = lists.flat_map(|list| list.iter().collect::<Vec<_>>());
    let left = CpuList::new(cpus.collect());
    if !left.is_empty() {
        let _ = write(&shared.join(FILE), &left.to_string());
    }
}

/// Kills a group where the kernel does not do it in one step: frozen, so that nothing forks out of
/// the list while it is worked off.
fn kill_listed(dir: &Path) -> Result<(), Error> {
    let started = Instant::now();
    let state = dir.join("freezer.state");
    loop {
        let freezes = state.exists();
        if freezes {
            write(&state, "FROZEN")?;
        }
        let pids = list(dir)?;
        for pid in &pids {
            kill_member(dir, *pid);
        }
        if freezes {
            // The signal is acted on only after this.
            write(&state, "THAWED")?;
        }
        if pids.is_empty() {
            return Ok(());
        }
        if started.elapsed() > KILL_TIMEOUT {
            return Err(populated(dir, started));
        }
        sleep(POLL_INTERVAL);
    }
}

/// Kills `pid` if it is still a member: the number may have been given to a stranger meanwhile, so
/// membership is looked up again after the process is held by a descriptor.
fn kill_member(dir: &Path, pid: u32) {
    let Some(raw) = process::number(pid) else {
        return;
    };
    let Ok(held) = pidfd_open(raw, PidfdFlags::empty()) else {
        return;
    };
    if list(dir).is_ok_and(|pids| pids.contains(&pid)) {
        // A process that is gone needs no signal.
        let _ = pidfd_send_signal(&held, Signal::KILL);
    }
}

/// Whether a directory is seen to hold others: it has a link from each (`..`). An attempt to remove it would wait for a
/// lock of the kernel's that the release of groups just removed holds.
fn has_directories(dir: &Path) -> bool {
    const OF_AN_EMPTY_ONE: u64 = 2;
    fs::metadata(dir).is_ok_and(|about| about.nlink() > OF_AN_EMPTY_ONE)
}

fn remove_tree(dir: &Path) -> Result<(), Error> {
    // Most groups have none below them, and nodes without limits have no group: one step then.
    if if_there(fs::remove_dir(dir)).is_ok() {
        return Ok(());
    }
    let started = Instant::now();
    for group in tree(dir) {
        loop {
            match if_there(fs::remove_dir(&group)) {
                Ok(_) => break,
                Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {
                    if !list(&group)?.is_empty() {
                        return Err(populated(&group, started));
                    }
                    if started.elapsed() > RELEASE_TIMEOUT {
                        return Err(Error::Ending {
                            threads: ending(&group),
                            path: group,
                            waited_ms: started.elapsed().as_millis(),
                        });
                    }
                    sleep(POLL_INTERVAL);
                }
                Err(e) => return Err(Error::io("remove cgroup", &group)(e)),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_doubled_for_a_while() {
        let top = std::env::temp_dir().join(format!("latlab-doubled-{}", std::process::id()));
        let dir = top.join("latlab/lab/node");
        fs::create_dir_all(&dir).unwrap();
        let none_of_version_1 = "9223372036854771712\n";
        let files = [
            ("memory.max", "100\n", "200\n"),
            ("pids.max", "max\n", "max\n"),
            (
                "memory.limit_in_bytes",
                none_of_version_1,
                none_of_version_1,
            ),
        ];
        for (name, text, _) in files {
            fs::write(dir.join(name), text).unwrap();
        }
        let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        let group = NodeCgroup::from_dirs(vec![dir.clone()]).unwrap();
        let note = top.join("limits");
        for killed in [false, true] {
            let doubled = group.doubled(&note).unwrap();
            for (name, _, meanwhile) in files {
                assert_eq!(read(name).trim(), meanwhile.trim());
            }
            if killed {
                std::mem::forget(doubled);
                group.undouble(&note);
            } else {
                drop(doubled);
            }
            for (name, text, _) in files {
                assert_eq!(read(name).trim(), text.trim());
            }
            assert!(!note.exists());
        }
        fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn a_thread_that_holds_a_group_is_named_with_its_process() {
        let dir = std::env::temp_dir().join(format!("latlab-ending-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        assert!(ending(&dir).is_empty(), "no list");
        let thread = rustix::thread::gettid().as_raw_nonzero();
        for list in ["cgroup.threads", "tasks"] {
            fs::write(dir.join(list), format!("{thread}\n")).unwrap();
            let [named] = &ending(&dir)[..] else {
                panic!("{list}")
            };
            let start = format!("thread {thread} (");
            let process = format!(") of process {}, R (running)", std::process::id());
            assert!(named.starts_with(&start), "{named}");
            assert!(named.contains(&process), "{named}");
            fs::remove_file(dir.join(list)).unwrap();
        }
        fs::remove_dir(dir).unwrap();
    }

    #[test]
    fn only_paths_of_nodes_are_taken_over() {
        for good in ["/sys/fs/cgroup/latlab/l/n", "/c/memory/latlab/a-b/c.d"] {
            assert!(NodeCgroup::from_dirs(vec![good.into()]).is_ok(), "{good}");
        }
        for bad in [
            "/sys/fs/cgroup",
            "/",
            "",
            "latlab/a/b",
            "/c/latlab/a",
            "/c/latlab/a/..",
            "/x/y/z",
        ] {
            assert!(NodeCgroup::from_dirs(vec![bad.into()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn cpu_time_is_in_nanoseconds() {
        let usage = parse_cpu_stat("usage_usec 1500\nuser_usec 1000\nsystem_usec 500\nnr_x 7\n");
        assert_eq!(
            usage,
            CpuUsage {
                user_ns: 1_000_000,
                system_ns: 500_000,
                total_ns: 1_500_000
            }
        );
        assert_eq!(
            parse_cpu_stat("usage_usec\nuser_usec x\n"),
            CpuUsage::default()
        );
    }

    #[test]
    fn a_missing_group_is_killed_and_removed_already() {
        let group = NodeCgroup::from_dirs(vec!["/nonexistent/latlab/l/n".into()]).unwrap();
        assert!(group.pids().unwrap().is_empty());
        group.kill_all().unwrap();
        group.remove().unwrap();
        assert!(group.cpu_usage().is_err());
    }

    #[test]
    fn trees_are_removed_from_the_inside() {
        let top = std::env::temp_dir().join(format!("latlab-tree-{}", std::process::id()));
        let node = top.join("latlab/lab/node");
        fs::create_dir_all(node.join("made/by/guest")).unwrap();
        fs::create_dir_all(top.join("latlab/lab/other")).unwrap();
        let group = NodeCgroup::from_dirs(vec![node.clone()]).unwrap();
        group.remove().unwrap();
        assert!(!node.exists());
        assert!(
            top.join("latlab/lab/other").exists(),
            "another node's group stays"
        );
        let other = NodeCgroup::from_dirs(vec![top.join("latlab/lab/other")]).unwrap();
        other.remove().unwrap();
        assert!(
            !top.join("latlab").exists(),
            "the last node takes the shared levels along"
        );
        fs::remove_dir(&top).unwrap();
    }
}
