//! Properties of threads: affinity, scheduling policy, lockable memory, cpuset of version 1, and whether the
//! process is stopped.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use latlab_model::units::CpuList;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::value::Value;
use crate::sys::proc::Stat;
use crate::sys::process::{Process, ProcessId};
use crate::sys::sched;
use crate::tuning::root::Root;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    pub tid: u32,
    /// Clock ticks since boot.
    pub start: u64,
    /// The name when it was read; a kernel worker has that of its work.
    pub name: String,
    kernel: bool,
    /// The kernel refuses to change its affinity.
    bound: bool,
}

impl PartialEq for Task {
    fn eq(&self, other: &Task) -> bool {
        (self.tid, self.start) == (other.tid, other.start)
    }
}

impl Eq for Task {}

/// Flags of a task (include/linux/sched.h).
const PF_KTHREAD: u64 = 0x0020_0000;
const PF_NO_SETAFFINITY: u64 = 0x0400_0000;

/// Fields of `stat` (proc_pid_stat(5)).
const STATE: usize = 3;
const NICE: usize = 19;

impl Task {
    pub fn of(root: &Root, tid: u32) -> Option<Task> {
        let stat = root.read(format!("/proc/{tid}/stat")).ok()?;
        let stat = Stat::parse(&stat)?;
        let ended = matches!(stat.text(STATE), Some("Z" | "X"));
        let flags = stat.number(9)?;
        (!ended).then_some(Task {
            tid,
            start: stat.start_time()?,
            name: stat.name.to_string(),
            kernel: flags & PF_KTHREAD != 0,
            bound: flags & PF_NO_SETAFFINITY != 0,
        })
    }

    /// Every thread that this process can see.
    pub fn all(root: &Root) -> Vec<Task> {
        let processes = numbers(root, "/proc").into_iter();
        let threads = processes.flat_map(|pid| numbers(root, &format!("/proc/{pid}/task")));
        threads.filter_map(|tid| Task::of(root, tid)).collect()
    }

    pub fn processes(root: &Root) -> impl Iterator<Item = Task> {
        let processes = numbers(root, "/proc").into_iter();
        processes.filter_map(|pid| Task::of(root, pid))
    }

    pub fn is_kernel(&self) -> bool {
        self.kernel
    }

    pub fn is_bound(&self) -> bool {
        self.bound
    }

    /// A process of the same name that started later.
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attribute {
    Affinity,
    /// The affinity that a program chose, which the kernel forgets when the cgroup's CPUs change (before
    /// Linux 6.2). Nothing is written to it ([`Value::Within`]), but it is restored.
    Pinning,
    Policy,
    MemoryLock,
    /// Whether the process runs or is stopped.
    Activity,
    /// The cgroup in the cpuset hierarchy of version 1 that is mounted here.
    Cpuset {
        mount: PathBuf,
    },
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Attribute::Affinity | Attribute::Pinning => "CPUs",
            Attribute::Policy => "policy",
            Attribute::MemoryLock => "lockable memory",
            Attribute::Activity => "activity",
            Attribute::Cpuset { .. } => "cpuset",
        })
    }
}

impl Attribute {
    pub(super) fn read(&self, root: &Root, task: &Task) -> io::Result<Option<Value>> {
        let value = match self {
            Attribute::Affinity | Attribute::Pinning => Value::Text(affinity(root, task.tid)?),
            Attribute::Policy => policy(root, task.tid)?,
            Attribute::MemoryLock => Value::Text(sched::memory_lock(task.tid)?),
            Attribute::Activity => activity(root, task.tid)?,
            Attribute::Cpuset { .. } => membership(root, task.tid)?,
        };
        // Checked last, so that the value is this thread's.
        Ok(task.is_there(root).then_some(value))
    }

    pub(super) fn write(&self, root: &Root, task: &Task, value: &Value) -> io::Result<()> {
        if !task.is_there(root) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        match (self, value) {
            (Attribute::Affinity | Attribute::Pinning, Value::Text(list)) => {
                set_affinity(task.tid, list)
            }
            (Attribute::Policy, Value::Policy { policy, nice }) => {
                set_policy(root, task.tid, policy, nice.as_deref())
            }
            (Attribute::MemoryLock, Value::Text(bytes)) => sched::set_memory_lock(task.tid, bytes),
            (Attribute::Activity, value) => set_activity(root, task, value),
            (
                Attribute::Cpuset { mount },
                Value::Cpuset {
                    group,
                    affinity: list,
                },
            ) => {
                let tasks = mount.join(group.trim_start_matches('/')).join("tasks");
                fs::write(root.path(tasks), task.tid.to_string())?;
                match list {
                    Some(list) if affinity(root, task.tid)? != *list => {
                        set_affinity(task.tid, list)
                    }
                    _ => Ok(()),
                }
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    pub(super) fn parse(&self, text: &str) -> Value {
        match self {
            Attribute::Pinning => Value::parse_pinning(text),
            Attribute::Policy => Value::parse_policy(text),
            Attribute::Activity => Value::parse_activity(text),
            Attribute::Cpuset { .. } => Value::parse_cpuset(text),
            Attribute::Affinity | Attribute::MemoryLock => text.into(),
        }
    }
}

/// Whether the kernel itself moved a pinned thread to its present CPUs: within those that its cgroup was left, or to
/// more than it had.
pub(super) fn was_rearranged(original: &Value, wanted: &Value, now: &Value) -> bool {
    let inside = |a: &CpuList, b: &CpuList| a.iter().all(|cpu| b.contains(cpu));
    match (original.cpus(), wanted.cpus(), now.cpus()) {
        (Some(original), Some(left), Some(now)) => inside(&now, &left) || inside(&original, &now),
        _ => false,
    }
}

/// For the state to follow the signal: the process must leave the kernel first.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

fn activity(root: &Root, tid: u32) -> io::Result<Value> {
    let stat = root.read(format!("/proc/{tid}/stat"))?;
    let state = Stat::parse(&stat).and_then(|stat| stat.text(STATE));
    Ok(match state {
        Some("T") => Value::Stopped,
        _ => Value::Running,
    })
}

fn set_activity(root: &Root, task: &Task, value: &Value) -> io::Result<()> {
    let signal = match value {
        Value::Running => Signal::CONT,
        Value::Stopped => Signal::STOP,
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let id = ProcessId {
        pid: task.tid,
        start_time: task.start,
    };
    let process = Process::open(id).map_err(io::Error::other)?;
    let process = process.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    process.signal(signal).map_err(io::Error::other)?;
    let end = Instant::now() + STOP_TIMEOUT;
    while activity(root, task.tid)? != *value && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn policy(root: &Root, tid: u32) -> io::Result<Value> {
    let policy = sched::policy(tid)?;
    let nice = nice(root, tid)?.filter(|_| !policy.starts_with("other:"));
    Ok(Value::Policy { policy, nice })
}

/// The thread's nice value, where it is not 0.
fn nice(root: &Root, tid: u32) -> io::Result<Option<String>> {
    let stat = root.read(format!("/proc/{tid}/stat"))?;
    let nice = Stat::parse(&stat).and_then(|stat| stat.text(NICE));
    Ok(nice.filter(|nice| *nice != "0").map(str::to_string))
}

/// A real-time policy keeps the earlier nice value, so that is set first; the default is 0.
fn set_policy(root: &Root, tid: u32, policy: &str, wanted: Option<&str>) -> io::Result<()> {
    if !policy.starts_with("other:") && nice(root, tid)?.as_deref() != wanted {
        sched::set_policy(tid, &format!("other:{}", wanted.unwrap_or("0")))?;
    }
    sched::set_policy(tid, policy)
}

fn affinity(root: &Root, tid: u32) -> io::Result<String> {
    let status = root.read(format!("/proc/{tid}/status"))?;
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    line.map(|l| l.trim().to_string())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn membership(root: &Root, tid: u32) -> io::Result<Value> {
    let group = root.read(format!("/proc/{tid}/cpuset"))?;
    Ok(Value::Cpuset {
        group: group.trim().to_string(),
        affinity: Some(affinity(root, tid)?),
    })
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
    fn a_thread_is_identified_by_tid_and_start_time() {
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
    fn a_process_is_stopped_and_continued() {
        let root = Root::default();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let task = Task::of(&root, child.id()).unwrap();
        let now = || Attribute::Activity.read(&root, &task).unwrap().unwrap();
        assert_eq!(now(), Value::Running);
        for value in [
            Value::Stopped,
            Value::Stopped,
            Value::Running,
            Value::Running,
        ] {
            Attribute::Activity.write(&root, &task, &value).unwrap();
            assert_eq!(now(), value);
        }
        assert!(
            Attribute::Activity
                .write(&root, &task, &"x".into())
                .is_err()
        );
        child.kill().unwrap();
        child.wait().unwrap();
        let gone = Attribute::Activity.write(&root, &task, &Value::Stopped);
        assert_eq!(gone.unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
