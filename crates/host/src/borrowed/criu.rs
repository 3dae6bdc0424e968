//! Running CRIU: a checkpoint of a process with its descendants, and their restore.
//!
//! CRIU runs in the network namespace of what it dumps or restores, so that nothing of the namespace is dumped: neither
//! interfaces, nor addresses, nor rules. Connections of TCP are kept. From the dump to the restore rules in that
//! namespace drop their packets, or the caller keeps them away; otherwise the kernel would answer them with resets.

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::program::Borrowed;
use crate::cgroup::NodeCgroup;
use crate::sys::cgroup_entry::CgroupEntry;
use crate::sys::inside::is_in_memory;
use crate::sys::process::{Exit, Process};
use crate::sys::spawn::Spawn;
use crate::sys::{self, last_act, tcp_repair};

/// A gigabyte is dumped in seconds; a machine that swaps needs longer.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A leftover of CRIU where `/run` is no tmpfs: it keeps what it found out of the kernel in such a file only.
const LEFTOVER: &str = "/run/criu.kdat.tmp";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Sys(#[from] sys::Error),
    /// CRIU's own reason.
    #[error("{reason}")]
    Refused { reason: String },
}

/// CRIU, as it is run for one lab.
#[derive(Debug, Clone, Copy)]
pub struct Criu<'a> {
    pub tool: &'a Borrowed,
    /// The label of its process.
    pub lab: &'a str,
    /// The network namespace of the processes.
    pub netns: BorrowedFd<'a>,
    /// The directory of the images.
    pub images: &'a Path,
    /// Its log.
    pub log: &'a Path,
    pub cut: Cut,
    /// Mounts of the processes whose content is not dumped: their mount points, and where the same file systems are to
    /// be found by a restore.
    pub taken: &'a [(PathBuf, PathBuf)],
    /// The directory of a group that is frozen, and is again after a dump. Its processes are those that are dumped.
    pub frozen: Option<&'a Path>,
    /// After this time it is ended.
    pub timeout: Duration,
    /// The end of CRIU that latlab's own end brings.
    pub end: End<'a>,
}

/// The end of a CRIU whose latlab is killed.
#[derive(Debug, Clone, Copy)]
pub enum End<'a> {
    WithLatlab,
    /// Its own: a dump or a restore that is cut off would leave processes half-way. The group has all of them.
    Own(&'a NodeCgroup),
}

/// The way to keep packets of the connections away from the dump to the restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Rules in the network namespace, which CRIU makes and removes.
    ByCriu,
    /// The caller has cut the network off.
    ByCaller,
}

/// The fate of processes that were dumped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dumped {
    GoOn,
    End,
    /// Standing still, as after SIGSTOP.
    Stand,
}

/// Where processes are restored, if not where this one is.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The mount that becomes their root.
    pub root: &'a Path,
    pub cgroup: &'a CgroupEntry,
}

impl<'a> Criu<'a> {
    /// For processes on their own, whose packets CRIU keeps away. It ends with latlab.
    pub fn new(
        tool: &'a Borrowed,
        lab: &'a str,
        netns: BorrowedFd<'a>,
        images: &'a Path,
        log: &'a Path,
    ) -> Self {
        Self {
            tool,
            lab,
            netns,
            images,
            log,
            cut: Cut::ByCriu,
            taken: &[],
            frozen: None,
            timeout: TIMEOUT,
            end: End::WithLatlab,
        }
    }

    /// Writes the images of a process and its descendants.
    pub fn dump(&self, first: &Process, dumped: Dumped) -> Result<(), Error> {
        let pid = first.id().pid.to_string();
        let mut spawn = self.command("dump").args(["--tree", &pid]);
        for (number, (point, _)) in self.taken.iter().enumerate() {
            let external = format!("mnt[{}]:taken{number}", point.display());
            spawn = spawn.args(["--external", &external]);
        }
        if let Some(group) = self.frozen {
            spawn = spawn.args(["--freeze-cgroup".as_ref(), group.as_os_str()]);
        }
        match dumped {
            Dumped::GoOn => spawn = spawn.args(["--leave-running"]),
            Dumped::Stand => spawn = spawn.args(["--leave-stopped"]),
            Dumped::End => {}
        }
        self.run(spawn, |criu| {
            if let End::Own(group) = self.end {
                guard(criu, group);
            }
        })
    }

    /// Restores what the images hold; the first process.
    pub fn restore(&self, place: Option<Place<'_>>, pid_file: &Path) -> Result<Process, Error> {
        // CRIU makes it anew, and refuses one that is there.
        let _ = fs::remove_file(pid_file);
        let mut spawn = self.command("restore").args(["--restore-detached"]);
        spawn = spawn.args(["--pidfile".as_ref(), pid_file.as_os_str()]);
        for (number, (_, place)) in self.taken.iter().enumerate() {
            let external = format!("mnt[taken{number}]:{}", place.display());
            spawn = spawn.args(["--external", &external]);
        }
        if let Some(place) = place {
            spawn = spawn.args(["--root".as_ref(), place.root.as_os_str()]);
            spawn = spawn.cgroup(place.cgroup).cgroup_namespace();
        }
        self.run(spawn, |_| ())?;
        let text = fs::read_to_string(pid_file);
        let text = text.map_err(sys::Error::of("read", pid_file.display()))?;
        let gone = || Error::Refused {
            reason: format!("no process has the number `{}`", text.trim()),
        };
        let pid = text.trim().parse().map_err(|_| gone())?;
        Process::of_pid(pid)?.ok_or_else(gone)
    }

    fn command(&self, verb: &str) -> Spawn<'_> {
        let mut spawn = Spawn::new(&self.tool.program, self.lab).netns(self.netns);
        spawn = spawn.args(&self.tool.arguments).args([verb]);
        spawn = spawn.args(["--images-dir".as_ref(), self.images.as_os_str()]);
        spawn = spawn.args(["--log-file".as_ref(), self.log.as_os_str()]);
        let lock = match self.cut {
            Cut::ByCriu => "nftables",
            Cut::ByCaller => "skip",
        };
        // Binds from the host are found again by their paths; cgroups are those that CRIU is in.
        spawn.args([
            "-v4",
            "--tcp-established",
            "--network-lock",
            lock,
            "--manage-cgroups=ignore",
            "--external",
            "mnt[]:",
        ])
    }

    fn run(&self, spawn: Spawn<'_>, begun: impl FnOnce(&Process)) -> Result<(), Error> {
        // One of an earlier run would tell the reason of that.
        let _ = fs::remove_file(self.log);
        let output = match self.end {
            End::WithLatlab => spawn.run(b"", self.timeout),
            // Ctrl-C in a terminal is not for it either.
            End::Own(_) => spawn.session().run_apart(b"", self.timeout, begun),
        };
        remove_leftover();
        let output = output?;
        if output.exit == Exit::Code(0) {
            return Ok(());
        }
        let log = fs::read(self.log).unwrap_or_default();
        let said = String::from_utf8_lossy(&output.stderr);
        let reason = last_error(&String::from_utf8_lossy(&log))
            .or_else(|| said.lines().last().map(str::to_owned))
            .unwrap_or_else(|| match output.exit {
                Exit::Code(code) => format!("it ended with status {code} and no reason"),
                Exit::Signal(signal) => format!("signal {signal} ended it"),
            });
        Err(Error::Refused { reason })
    }
}

/// Has a CRIU that dumps a group and is killed leave the group's connections usable. While it lives the processes stand
/// still, and from its end on they run: so this comes between.
pub fn guard(criu: &Process, group: &NodeCgroup) {
    let group = group.clone();
    last_act::before_failure(criu, move || {
        for pid in group.pids().unwrap_or_default() {
            if let Ok(Some(process)) = Process::of_pid(pid) {
                tcp_repair::leave(&process);
            }
        }
    });
}

fn remove_leftover() {
    let path = Path::new(LEFTOVER);
    let is_empty = fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0);
    if is_empty && is_in_memory(Path::new("/run")).is_ok_and(|is| !is) {
        // Another CRIU may remove it first.
        let _ = fs::remove_file(path);
    }
}

/// CRIU's last words of a restore. Its file with the first process is there before.
const RESTORED: &str = "Restore finished successfully";

/// Whether the log of a CRIU that has ended says that what it restored runs.
#[must_use]
pub fn has_restored(log: &Path) -> bool {
    let text = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text).contains(RESTORED)
}

/// Words of errors that only say that there was one before, or that do no harm.
const CONSEQUENCES: [&str; 4] = [
    "Can't setup RLIMIT_NOFILE",
    "FAILED.",
    "failed with -1",
    "Could not initialize kernel features detection",
];

/// The last error of a log that says more than that all failed: `(00.1) Error (criu/sk-unix.c:351): unix: REASON`.
fn last_error(log: &str) -> Option<String> {
    let reasons = log.lines().rev().filter_map(|line| {
        let (_, rest) = line.split_once(" Error (")?;
        let (_, reason) = rest.split_once("): ")?;
        Some(reason.trim())
    });
    let says_more = |reason: &&str| {
        !reason.is_empty() && !CONSEQUENCES.iter().any(|words| reason.contains(words))
    };
    let mut reasons = reasons.filter(says_more);
    reasons.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_with_a_reason_is_found() {
        let log = "(00.06) Error (criu/util.c:1534): rlimit: Can't setup\n\
                   (00.07) Error (criu/sk-unix.c:351): unix: Unix socket 3 not found\n\
                   (00.07) Error (criu/cr-dump.c:1545): Dump files (pid: 2) failed with -1\n\
                   (00.09) Error (criu/cr-dump.c:1975): Dumping FAILED.\n";
        assert_eq!(
            last_error(log).as_deref(),
            Some("unix: Unix socket 3 not found")
        );
        assert_eq!(last_error("(00.1) all is well\n"), None);
    }
}
