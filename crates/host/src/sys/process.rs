//! Processes that are surely ours: identified so that no reused pid is taken for them, found by a
//! label in their environment, and stopped within a bounded time.
//!
//! A pid says little after a crash or a reboot. So a process is remembered as pid *and* start time
//! ([`ProcessId`]), and it is acted on only through a pidfd, which refers to one process for ever.
//! What was started but not yet remembered when latlab died is found by the variable
//! [`LAB_VARIABLE`], which every process of a lab inherits. Nothing is ever found by name.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use serde::{Deserialize, Serialize};

use super::Error;
use super::proc::{self, Stat};

/// The environment variable that marks a process of a lab; its value is the lab's unique id.
pub const LAB_VARIABLE: &str = "LATLAB_LAB";

/// After SIGKILL a process ends unless it is stuck in the kernel; it is not waited for longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// No environment that a process was started with is larger (execve(2): three quarters of 8 MiB).
pub(crate) const MAX_ENVIRON_BYTES: u64 = 8 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_time: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    Signal(i32),
}

/// A reference to one process that stays valid, and harmless, after its end.
#[derive(Debug)]
pub struct Process {
    id: ProcessId,
    pidfd: OwnedFd,
}

impl Process {
    /// The process remembered as `id`; `None` if it has ended, even if its pid lives on.
    pub fn open(id: ProcessId) -> Result<Option<Self>, Error> {
        Ok(Self::of_pid(id.pid)?.filter(|process| process.id == id))
    }

    /// The process that has this number now; `None` if there is none.
    pub fn of_pid(pid: u32) -> Result<Option<Self>, Error> {
        let action = "open process";
        let number = number(pid).ok_or_else(|| {
            let kind = io::ErrorKind::InvalidInput;
            Error::because(action, pid, kind, "not a process number")
        })?;
        match rustix::process::pidfd_open(number, PidfdFlags::empty()) {
            Ok(pidfd) => Self::with_pidfd(pid, pidfd),
            // EINVAL: the number belongs to a thread that leads no process.
            Err(Errno::SRCH | Errno::INVAL) => Ok(None),
            Err(errno) => Err(Error::of(action, pid)(errno)),
        }
    }

    /// Reads the start time *after* the pidfd is open: as long as the pidfd's process has not been
    /// reaped its number cannot be reused, so what is read is about it.
    pub(super) fn with_pidfd(pid: u32, pidfd: OwnedFd) -> Result<Option<Self>, Error> {
        let path = format!("/proc/{pid}/stat");
        let stat = match proc::read(&path, u64::MAX) {
            Ok(stat) => stat,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(Error::of("read", path)(error)),
        };
        let start_time =
            Stat::parse(&String::from_utf8_lossy(&stat)).and_then(|stat| stat.start_time());
        let start_time = start_time.ok_or_else(|| {
            let kind = io::ErrorKind::InvalidData;
            Error::because("read", &path, kind, "no start time in it")
        })?;
        Ok(Some(Self {
            id: ProcessId { pid, start_time },
            pidfd,
        }))
    }

    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Sends a signal; false if the process has ended.
    pub fn signal(&self, signal: Signal) -> Result<bool, Error> {
        match rustix::process::pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(errno) => Err(Error::of("signal process", self.id.pid)(errno)),
        }
    }

    /// Sends a signal to all processes of the group that it leads; false if there are none. Only for a child of this
    /// process that has not been collected: its number may be another group's after that.
    pub fn signal_group(&self, signal: Signal) -> Result<bool, Error> {
        let Some(group) = number(self.id.pid) else {
            return Ok(false);
        };
        match rustix::process::kill_process_group(group, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(errno) => Err(Error::of("signal the group of process", self.id.pid)(errno)),
        }
    }

    /// True once the process has ended, whether or not its parent has collected it.
    pub fn has_ended(&self) -> Result<bool, Error> {
        self.wait(Duration::ZERO)
    }

    /// Waits at most `timeout` for its end; false if it is still there.
    pub fn wait(&self, timeout: Duration) -> Result<bool, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).ok();
            let mut poll_fd = [PollFd::new(&self.pidfd, PollFlags::IN)];
            match poll(&mut poll_fd, timeout.as_ref()) {
                Ok(0) if left.is_zero() => return Ok(false),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(errno) => return Err(Error::of("wait for process", self.id.pid)(errno)),
            }
        }
    }

    /// Collects a child of this process that has ended; `None` if it runs on or is not our child.
    pub fn collect(&self) -> Result<Option<Exit>, Error> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        match rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), options) {
            Ok(status) => Ok(status.and_then(|status| {
                let code = status.exit_status().map(Exit::Code);
                code.or_else(|| status.terminating_signal().map(Exit::Signal))
            })),
            Err(Errno::CHILD) => Ok(None),
            Err(errno) => Err(Error::of("collect process", self.id.pid)(errno)),
        }
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// A process's number as the kernel takes it.
pub(crate) fn number(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Every process, except this one, whose environment carries the label of lab `id`.
pub fn labelled(id: &str) -> Result<Vec<Process>, Error> {
    Search::new(id).find()
}

/// A search for the processes of a lab, which may be repeated.
///
/// The environment read is the one the process started its program with. A program that was started without the label
/// (`env -i`), or has overwritten its own memory, is found by the node's cgroup only.
pub struct Search<'a> {
    id: &'a str,
    /// Kernel threads and processes that have ended: most of a machine's, and none of them can become a lab's.
    without_memory: HashSet<u32>,
    /// The number that the kernel gave last.
    last_pid: u32,
}

impl<'a> Search<'a> {
    pub fn new(id: &'a str) -> Self {
        Self {
            id,
            without_memory: HashSet::new(),
            last_pid: 0,
        }
    }

    pub fn find(&mut self) -> Result<Vec<Process>, Error> {
        let last_pid = proc::last_pid().unwrap_or_default();
        if last_pid < self.last_pid {
            // The numbers began anew, and some of them may be others' now.
            self.without_memory.clear();
        }
        self.last_pid = last_pid;
        let entries = fs::read_dir("/proc").map_err(Error::of("list", "/proc"))?;
        let (mut found, own) = (Vec::new(), std::process::id());
        for entry in entries.flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.parse::<u32>().ok());
            let is_new = |pid: &u32| *pid != own && !self.without_memory.contains(pid);
            let Some(pid) = pid.filter(is_new) else {
                continue;
            };
            found.extend(self.examine(pid)?);
        }
        Ok(found)
    }

    fn examine(&mut self, pid: u32) -> Result<Option<Process>, Error> {
        // First look without a pidfd, because almost every process is a stranger.
        match environ(pid) {
            Ok(environ) if self.is_in(&environ) => {}
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                self.without_memory.insert(pid);
                return Ok(None);
            }
            _ => return Ok(None),
        }
        let Some(process) = Process::of_pid(pid)? else {
            return Ok(None);
        };
        let is_ours = environ(pid).is_ok_and(|environ| self.is_in(&environ));
        Ok((is_ours && !process.has_ended()?).then_some(process))
    }

    fn is_in(&self, environ: &[u8]) -> bool {
        find_label(environ).as_deref() == Some(self.id)
    }
}

/// Ends all `processes`: SIGTERM, at most `grace` for all of them together, then SIGKILL. Returns
/// those that even that did not end (stuck in the kernel). Children of this process are collected.
pub fn stop(processes: &[Process], grace: Duration) -> Result<Vec<ProcessId>, Error> {
    for process in processes {
        // A stopped process would not see SIGTERM.
        let _ = process.signal(Signal::TERM)? && process.signal(Signal::CONT)?;
    }
    let left = wait_all(processes.iter().collect(), grace)?;
    for process in &left {
        process.signal(Signal::KILL)?;
    }
    let left = wait_killed(left)?;
    for process in processes {
        process.collect()?;
    }
    Ok(left.iter().map(|process| process.id).collect())
}

/// Waits for the end of all; returns those still there after `timeout`.
fn wait_all(processes: Vec<&Process>, timeout: Duration) -> Result<Vec<&Process>, Error> {
    let deadline = Instant::now() + timeout;
    let mut left = Vec::new();
    for process in processes {
        if !process.wait(deadline.saturating_duration_since(Instant::now()))? {
            left.push(process);
        }
    }
    Ok(left)
}

/// Waits for the end of a process that was sent SIGKILL; false if it is stuck in the kernel.
pub fn await_kill(process: &Process) -> Result<bool, Error> {
    Ok(wait_killed(vec![process])?.is_empty())
}

/// Waits for the end of processes that were sent SIGKILL; returns those stuck in the kernel.
///
/// The first process of a process namespace has let go of everything long before it ends: it waits
/// until the last process of its namespace is collected. That may be a task of another process, or of
/// none where the machine's first process collects nothing. So one without memory has ended.
fn wait_killed(mut processes: Vec<&Process>) -> Result<Vec<&Process>, Error> {
    const POLL_INTERVAL: Duration = Duration::from_millis(20);
    let deadline = Instant::now() + KILL_TIMEOUT;
    loop {
        processes = wait_all(processes, POLL_INTERVAL)?;
        processes.retain(|process| !has_no_memory(process.id.pid));
        if processes.is_empty() || Instant::now() >= deadline {
            return Ok(processes);
        }
    }
}

fn has_no_memory(pid: u32) -> bool {
    let sizes = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    sizes.split_whitespace().next() == Some("0")
}

/// The environment of a process, its variables separated by zero bytes. Without memory it has none (ESRCH).
///
/// Any process may declare gigabytes of its memory to be its environment (`PR_SET_MM_MAP`,
/// prctl(2)), so the size has a limit, above the 6 MiB that execve(2) accepts.
pub fn environ(pid: u32) -> io::Result<Vec<u8>> {
    proc::read(format!("/proc/{pid}/environ"), MAX_ENVIRON_BYTES)
}

fn find_label(environ: &[u8]) -> Option<String> {
    let prefix = format!("{LAB_VARIABLE}=");
    let mut variables = environ.split(|&byte| byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(prefix.as_bytes()))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeper(label: &str) -> (Child, Process) {
        let mut command = Command::new("sleep");
        let child = command.arg("60").env(LAB_VARIABLE, label).spawn().unwrap();
        let process = Process::of_pid(child.id()).unwrap().unwrap();
        // `spawn` returns inside of `execve`, a moment before the kernel shows the new environment.
        let deadline = Instant::now() + Duration::from_secs(10);
        let shown = || find_label(&environ(child.id()).unwrap_or_default());
        while shown().as_deref() != Some(label) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        (child, process)
    }

    fn unique(name: &str) -> String {
        format!("test-{name}-{}", std::process::id())
    }

    #[test]
    fn labels_are_matched_whole() {
        assert_eq!(
            find_label(b"A=1\0LATLAB_LAB=x-1\0B=2\0").as_deref(),
            Some("x-1")
        );
        assert_eq!(find_label(b"NOT_LATLAB_LAB=x\0LATLAB_LABS=y\0"), None);
        assert_eq!(find_label(b""), None);
    }

    #[test]
    fn another_start_time_is_another_process() {
        let (mut child, process) = sleeper(&unique("identity"));
        let id = process.id();
        assert!(Process::open(id).unwrap().is_some());
        let other = ProcessId {
            start_time: id.start_time + 1,
            ..id
        };
        assert!(Process::open(other).unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Process::open(id).unwrap().is_none());
        assert!(
            !process.signal(Signal::TERM).unwrap(),
            "signalling the dead is harmless"
        );
    }

    #[test]
    fn labelled_processes_are_found_and_stopped_and_strangers_are_not() {
        let (ours, theirs) = (unique("ours"), unique("ours-not"));
        let (_child, process) = sleeper(&ours);
        let (mut stranger, _) = sleeper(&theirs);
        let mut search = Search::new(&ours);
        let found = search.find().unwrap();
        assert_eq!(
            found.iter().map(Process::id).collect::<Vec<_>>(),
            [process.id()]
        );
        assert_eq!(stop(&found, Duration::from_secs(10)).unwrap(), []);
        assert!(process.has_ended().unwrap());
        assert!(search.find().unwrap().is_empty());
        assert!(
            !search.without_memory.is_empty(),
            "what has ended, at least"
        );
        let (_later, process) = sleeper(&ours);
        let found = search.find().unwrap();
        assert_eq!(found.len(), 1, "what began since then is found");
        assert_eq!(found[0].id(), process.id());
        assert_eq!(stop(&found, Duration::from_secs(10)).unwrap(), []);
        assert_eq!(stranger.try_wait().unwrap(), None, "a stranger lives on");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn a_process_that_ignores_sigterm_is_killed_after_the_grace() {
        let mut command = Command::new("sh");
        let script = "trap '' TERM; echo ready; while :; do sleep 1; done";
        command
            .args(["-c", script])
            .env(LAB_VARIABLE, unique("deaf"));
        let mut child = command
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0; 6];
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let process = Process::of_pid(child.id()).unwrap().unwrap();
        assert!(!process.wait(Duration::from_millis(1)).unwrap());
        let survivors = stop(&[process], Duration::from_millis(50)).unwrap();
        assert_eq!(survivors, []);
        // `stop` has collected it, so the standard library finds no child.
        assert!(child.wait().is_err());
    }
}
