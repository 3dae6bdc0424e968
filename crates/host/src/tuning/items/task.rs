//! Properties of single threads: their processors, their policy, the memory that they may lock, the
//! control group that decides on their processors, and whether their process runs at all.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use latlab_model::units::CpuList;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::sys::process::{Process, ProcessId};
use crate::sys::sched;
use crate::tuning::root::Root;

/// A thread, told apart from every other since boot by its number and its start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// Its number.
    pub tid: u32,
    /// When it started, in clock ticks since boot.
    pub start: u64,
    /// Its name when it was seen; a worker of the kernel has that of its work.
    pub name: String,
    /// Of the kernel.
    kernel: bool,
    /// The kernel keeps it where it is.
    bound: bool,
}

impl PartialEq for Task {
    fn eq(&self, other: &Task) -> bool {
        (self.tid, self.start) == (other.tid, other.start)
    }
}

impl Eq for Task {}

/// Flags of a task (include/linux/sched.h).
const PF_KTHREAD: u32 = 0x0020_0000;
const PF_NO_SETAFFINITY: u32 = 0x0400_0000;

impl Task {
    /// The thread with this number now; none when there is none, or it has ended.
    pub fn of(root: &Root, tid: u32) -> Option<Task> {
        let stat = root.read(format!("/proc/{tid}/stat")).ok()?;
        // 17 (a name) with) brackets) S 2 0 0 0 -1 69238880 …
        let (name, rest) = (stat.find('(')?, stat.rfind(')')?);
        let fields: Vec<&str> = stat[rest + 1..].split_whitespace().collect();
        let ended = matches!(fields.first(), Some(&("Z" | "X")));
        let flags: u32 = fields.get(6)?.parse().ok()?;
        (!ended).then_some(Task {
            tid,
            start: fields.get(19)?.parse().ok()?,
            name: stat[name + 1..rest].to_string(),
            kernel: flags & PF_KTHREAD != 0,
            bound: flags & PF_NO_SETAFFINITY != 0,
        })
    }

    /// Every thread of the machine, as far as this process sees them.
    pub fn all(root: &Root) -> Vec<Task> {
        let processes = numbers(root, "/proc").into_iter();
        let threads = processes.flat_map(|pid| numbers(root, &format!("/proc/{pid}/task")));
        threads.filter_map(|tid| Task::of(root, tid)).collect()
    }

    /// Every process, as its first thread.
    pub fn processes(root: &Root) -> impl Iterator<Item = Task> {
        let processes = numbers(root, "/proc").into_iter();
        processes.filter_map(|pid| Task::of(root, pid))
    }

    /// Runs in the kernel only.
    pub fn is_kernel(&self) -> bool {
        self.kernel
    }

    /// The kernel keeps it where it is.
    pub fn is_bound(&self) -> bool {
        self.bound
    }

    /// A process of this name that started later.
    pub fn successor(&self, root: &Root) -> Option<Task> {
        let later = |task: &Task| task.name == self.name && task.start > self.start;
        Task::processes(root).find(|task| later(task) && task.is_trusted(root))
    }

    fn is_there(&self, root: &Root) -> bool {
        Task::of(root, self.tid).is_some_and(|now| now.start == self.start)
    }
}

fn numbers(root: &Root, directory: &str) -> Vec<u32> {
    let names = root.names(directory);
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} ({})", self.tid, self.name)
    }
}

/// What is turned of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attribute {
    /// The processors that it may run on.
    Affinity,
    /// The processors that it was pinned to, which the kernel forgets when its group's change (before
    /// Linux 6.2). Nothing is wanted of it (`within LIST` says where the kernel may put it), but it is
    /// given back.
    Pinning,
    /// Its scheduling policy.
    Policy,
    /// The memory that its process may lock.
    MemoryLock,
    /// Whether its process runs or is stopped ([`RUNNING`], [`STOPPED`]).
    Activity,
    /// Its group in the hierarchy of `cpuset` that is mounted here, version 1. A value that is
    /// restored carries the affinity too, which the kernel sets anew on every move.
    Cpuset {
        /// Where it is mounted.
        mount: PathBuf,
    },
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Attribute::Affinity | Attribute::Pinning => "processors",
            Attribute::Policy => "policy",
            Attribute::MemoryLock => "lockable memory",
            Attribute::Activity => "activity",
            Attribute::Cpuset { .. } => "cpuset",
        })
    }
}

impl Attribute {
    pub(super) fn read(&self, root: &Root, task: &Task) -> io::Result<Option<String>> {
        let value = match self {
            Attribute::Affinity | Attribute::Pinning => affinity(root, task.tid),
            Attribute::Policy => policy(root, task.tid),
            Attribute::MemoryLock => sched::memory_lock(task.tid),
            Attribute::Activity => activity(root, task.tid),
            Attribute::Cpuset { .. } => membership(root, task.tid),
        }?;
        // Looked at last, so that the value is this thread's.
        Ok(task.is_there(root).then_some(value))
    }

    pub(super) fn write(&self, root: &Root, task: &Task, value: &str) -> io::Result<()> {
        if !task.is_there(root) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        match self {
            Attribute::Affinity | Attribute::Pinning => set_affinity(task.tid, value),
            Attribute::Policy => set_policy(root, task.tid, value),
            Attribute::MemoryLock => sched::set_memory_lock(task.tid, value),
            Attribute::Activity => set_activity(root, task, value),
            Attribute::Cpuset { mount } => {
                let (group, processors) = parts(value);
                let tasks = below(mount, group).join("tasks");
                fs::write(root.path(tasks), task.tid.to_string())?;
                match processors {
                    Some(list) if affinity(root, task.tid)? != list => set_affinity(task.tid, list),
                    _ => Ok(()),
                }
            }
        }
    }

    pub(super) fn same(&self, a: &str, b: &str) -> bool {
        match self {
            Attribute::Cpuset { .. } => parts(a).0 == parts(b).0,
            Attribute::Policy => nice_of(a).0 == nice_of(b).0,
            Attribute::Pinning => a == b || [a, b].iter().any(|v| v.starts_with(WITHIN)),
            _ => a == b,
        }
    }
}

/// Begins the wanted value of [`Attribute::Pinning`].
pub const WITHIN: &str = "within ";

/// Whether the kernel's own rearrangement explains where a pinned thread is now: within the processors
/// that its group was left, or on more than it had.
pub(super) fn was_rearranged(original: &str, wanted: &str, now: &str) -> bool {
    let list = |text: &str| CpuList::parse(text.strip_prefix(WITHIN).unwrap_or(text));
    let inside = |a: &CpuList, b: &CpuList| a.iter().all(|cpu| b.contains(cpu));
    match (list(original), list(wanted), list(now)) {
        (Some(original), Some(left), Some(now)) => inside(&now, &left) || inside(&original, &now),
        _ => false,
    }
}

/// Values of [`Attribute::Activity`].
pub const RUNNING: &str = "running";
/// By SIGSTOP or SIGTSTP; SIGCONT lets it go on.
pub const STOPPED: &str = "stopped";

/// A process enters this state some time after the signal, when it leaves the kernel.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

fn activity(root: &Root, tid: u32) -> io::Result<String> {
    let stat = root.read(format!("/proc/{tid}/stat"))?;
    let state = stat.rsplit(')').next().unwrap_or_default();
    let stopped = state.split_whitespace().next() == Some("T");
    Ok(if stopped { STOPPED } else { RUNNING }.into())
}

fn set_activity(root: &Root, task: &Task, value: &str) -> io::Result<()> {
    let signal = match value {
        RUNNING => Signal::CONT,
        STOPPED => Signal::STOP,
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let id = ProcessId {
        pid: task.tid,
        start_time: task.start,
    };
    let process = Process::open(id).map_err(io::Error::other)?;
    let process = process.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    process.signal(signal).map_err(io::Error::other)?;
    let end = Instant::now() + STOP_PATIENCE;
    while activity(root, task.tid)? != value && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The policy, and for one without a nice value of its own the one that the thread will have again
/// when it leaves it.
fn policy(root: &Root, tid: u32) -> io::Result<String> {
    let policy = sched::policy(tid)?;
    match nice(root, tid)? {
        Some(nice) if !policy.starts_with("other:") => Ok(format!("{policy}{NICE}{nice}")),
        _ => Ok(policy),
    }
}

/// The thread's nice value, where it is not 0.
fn nice(root: &Root, tid: u32) -> io::Result<Option<String>> {
    let stat = root.read(format!("/proc/{tid}/stat"))?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let nice = fields.split_whitespace().nth(16);
    Ok(nice.filter(|nice| *nice != "0").map(str::to_string))
}

/// A real-time policy keeps the nice value from before, so that is set first: one without is 0.
fn set_policy(root: &Root, tid: u32, value: &str) -> io::Result<()> {
    let (policy, wanted) = nice_of(value);
    if !policy.starts_with("other:") && nice(root, tid)?.as_deref() != wanted {
        sched::set_policy(tid, &format!("other:{}", wanted.unwrap_or("0")))?;
    }
    sched::set_policy(tid, policy)
}

const NICE: &str = " nice:";

fn nice_of(value: &str) -> (&str, Option<&str>) {
    match value.split_once(NICE) {
        Some((policy, nice)) => (policy, Some(nice)),
        None => (value, None),
    }
}

/// `/a/group 0-3` as the group and the affinity, which need not be there.
fn parts(value: &str) -> (&str, Option<&str>) {
    match value.rsplit_once(' ') {
        Some((group, list)) => (group, Some(list)),
        None => (value, None),
    }
}

/// The directory of a group that is named as in /proc/PID/cpuset.
pub(in crate::tuning) fn below(mount: &Path, group: &str) -> PathBuf {
    mount.join(group.trim_start_matches('/'))
}

fn affinity(root: &Root, tid: u32) -> io::Result<String> {
    let status = root.read(format!("/proc/{tid}/status"))?;
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    line.map(|l| l.trim().to_string())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn membership(root: &Root, tid: u32) -> io::Result<String> {
    let group = root.read(format!("/proc/{tid}/cpuset"))?;
    Ok(format!("{} {}", group.trim(), affinity(root, tid)?))
}

fn set_affinity(tid: u32, list: &str) -> io::Result<()> {
    let cpus = CpuList::parse(list).ok_or(io::ErrorKind::InvalidInput)?;
    sched::set_affinity(tid, &cpus)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn this_thread_is_seen_and_one_with_another_start_is_not() {
        let root = Root::default();
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let task = Task::of(&root, tid).unwrap();
        assert!(!task.is_kernel());
        let now = Attribute::Affinity.read(&root, &task).unwrap().unwrap();
        Attribute::Affinity.write(&root, &task, &now).unwrap();
        assert!(Task::all(&root).contains(&task));
        let other = Task {
            start: task.start + 1,
            ..task
        };
        assert_eq!(Attribute::Affinity.read(&root, &other).unwrap(), None);
        assert!(Attribute::Affinity.write(&root, &other, &now).is_err());
    }

    #[test]
    fn a_process_is_stopped_and_goes_on() {
        let root = Root::default();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let task = Task::of(&root, child.id()).unwrap();
        let now = || Attribute::Activity.read(&root, &task).unwrap().unwrap();
        assert_eq!(now(), RUNNING);
        for value in [STOPPED, STOPPED, RUNNING, RUNNING] {
            Attribute::Activity.write(&root, &task, value).unwrap();
            assert_eq!(now(), value);
        }
        assert!(Attribute::Activity.write(&root, &task, "x").is_err());
        child.kill().unwrap();
        child.wait().unwrap();
        let gone = Attribute::Activity.write(&root, &task, STOPPED);
        assert_eq!(gone.unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
