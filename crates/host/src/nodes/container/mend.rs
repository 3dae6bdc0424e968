//! A container whose move, save or restore was cut off.
//!
//! CRIU outlives a latlab that is killed, so what it does is done whole or not at all. A copy that is whole has run, and
//! goes on; without one the source does, which stands still since its dump. What is here cannot be told from a note: the
//! copy begins to run by itself.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use latlab_netlink::Handle;
use rustix::process::Signal;

use super::drain;
use super::error::Error;
use super::handle::Container;
use super::standstill::{self, DUMP_LOG, LIMITS, PID_FILE, RESTORE_LOG};
use crate::borrowed::criu;
use crate::nodes::mend::{Act, Found};
use crate::sys::netns::NetNs;
use crate::sys::process::{self, Process};
use crate::sys::spawn::Spawn;

/// A CRIU that was left alone is waited for; one that hangs is ended.
const CRIU_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const NFT_TIMEOUT: Duration = Duration::from_secs(20);

/// The place where a container goes on; none if it has ended at both.
pub(super) fn find(container: &Container) -> Result<Option<Found>, Error> {
    await_criu(container)?;
    let members = container.cgroup.pids()?;
    if let Some(copy) = copy(container, &members)? {
        return Ok(Some(Found::After(copy.id())));
    }
    let source = Process::open(container.process)?;
    let lives = |source: Process| Ok::<_, Error>(!source.has_ended()?);
    let lives = source.map(lives).transpose()?;
    Ok((lives == Some(true)).then_some(Found::Before))
}

/// The first process of a copy that is whole.
fn copy(container: &Container, members: &[u32]) -> Result<Option<Process>, Error> {
    let text = fs::read_to_string(container.dir.join(PID_FILE)).unwrap_or_default();
    let pid = text.trim().parse().ok().filter(|pid| members.contains(pid));
    let process = pid.map(Process::of_pid).transpose()?.flatten();
    let is_other = |process: &Process| process.id() != container.process;
    match process.filter(is_other) {
        Some(process) if !process.has_ended()? => {
            let is_whole = criu::has_restored(&container.dir.join(RESTORE_LOG));
            Ok(is_whole.then_some(process))
        }
        _ => Ok(None),
    }
}

/// Ends what is left at the other place and lets the container go on.
pub(super) fn settle(
    container: &Container,
    netns: &NetNs,
    act: Act,
    found: Found,
) -> Result<(), Error> {
    match (found, act) {
        (Found::After(_), _) => {
            if let Some(source) = Process::open(container.process)? {
                standstill::end(&source)?;
            }
        }
        // Nothing of it has ended or was dumped.
        (Found::Before, Act::Restore) => {}
        (Found::Before, _) => {
            if act == Act::Move {
                let members = container.cgroup.pids()?;
                let sources = standstill::below(&members, container.process.pid);
                standstill::end_others(&container.cgroup, &sources);
            } else {
                unlock(&container.lab_id, netns)?;
            }
            let stopped = standstill::stopped_before(&container.dir);
            standstill::go_on(&container.cgroup, &stopped);
        }
    }
    // A copy has the filters that its listening sockets had in the dump.
    drain::release(&container.cgroup);
    container.cgroup.undouble(&container.dir.join(LIMITS));
    standstill::forget_stopped(&container.dir);
    Ok(())
}

/// Removes the rules that keep packets away from a container that was dumped: tables of CRIU's name.
fn unlock(lab: &str, netns: &NetNs) -> Result<(), Error> {
    let tables = netns.run(Handle::nftables)?;
    // Without nftables in the kernel there are none.
    if tables.unwrap_or(0) == 0 {
        return Ok(());
    }
    let nft = |words: &[&str]| {
        let nft = Spawn::new("nft", lab).netns(std::os::fd::AsFd::as_fd(netns));
        nft.args(words).run(b"", NFT_TIMEOUT)
    };
    let listed = nft(&["list", "tables"])?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for line in listed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["table", family, name] = words[..] {
            if name.starts_with("CRIU-") {
                nft(&["delete", "table", family, name])?;
            }
        }
    }
    Ok(())
}

/// Waits for the end of a CRIU that works on this container.
fn await_criu(container: &Container) -> Result<(), Error> {
    let deadline = Instant::now() + CRIU_TIMEOUT;
    let own = pid_namespace("self");
    let logs = [DUMP_LOG, RESTORE_LOG].map(|log| container.dir.join(log));
    let mut guarded = None;
    let works_on_it = |process: &Process| {
        let pid = process.id().pid.to_string();
        // A process that it restores has its command line for a moment, and namespaces of its own.
        pid_namespace(&pid) == own && names_one(&pid, &logs)
    };
    loop {
        let mut all = process::labelled(&container.lab_id)?;
        all.retain(works_on_it);
        if all.is_empty() {
            return Ok(());
        }
        for criu in &all {
            let is_dump = names_one(&criu.id().pid.to_string(), &logs[..1]);
            if is_dump && guarded != Some(criu.id()) {
                criu::guard(criu, &container.cgroup);
                guarded = Some(criu.id());
            }
            if Instant::now() >= deadline {
                criu.signal(Signal::KILL)?;
            }
            criu.wait(POLL_INTERVAL)?;
        }
    }
}

fn pid_namespace(pid: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

fn names_one(pid: &str, paths: &[PathBuf]) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    words.any(|word| paths.iter().any(|path| path.as_os_str().as_bytes() == word))
}
