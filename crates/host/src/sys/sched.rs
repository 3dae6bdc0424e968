//! How a thread is scheduled: its CPUs, its policy, how much memory it may lock.
//!
//! `libc` has `sched_setattr` as a number only; the layout is the kernel's first version
//! (sched_setattr(2)), which every kernel takes.

use std::io;
use std::mem::size_of;

use latlab_model::profile::Policy;
use latlab_model::units::{CpuList, Nanos};
use rustix::process::{Pid, Resource, Rlimit};
use rustix::thread::CpuSet;

use super::error::checked;
use super::process;

/// `struct sched_attr`, SCHED_ATTR_SIZE_VER0.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = size_of::<SchedAttr>() as u32;

const OTHER: u32 = 0;
const FIFO: u32 = 1;
const RR: u32 = 2;
const DEADLINE: u32 = 6;

/// A policy as text, `policy:VALUE`, and the flags where there are any: `fifo:50 flags:1`.
pub fn policy(tid: u32) -> io::Result<String> {
    let mut attr = SchedAttr::default();
    // SAFETY: the kernel writes at most SIZE bytes to the structure, which is that long and is ours.
    checked(unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, SIZE, 0) })?;
    let text = match attr.policy {
        OTHER => Policy::Other(attr.nice as i8).to_string(),
        FIFO => Policy::Fifo(attr.priority as u8).to_string(),
        RR => Policy::RoundRobin(attr.priority as u8).to_string(),
        DEADLINE => Policy::Deadline {
            runtime: Nanos(attr.runtime),
            deadline: Nanos(attr.deadline),
            period: Nanos(attr.period),
        }
        .to_string(),
        number => format!("policy-{number}:{}", attr.nice),
    };
    Ok(match attr.flags {
        0 => text,
        flags => format!("{text} flags:{flags}"),
    })
}

/// Sets a policy from the text of [`policy`].
pub fn set_policy(tid: u32, text: &str) -> io::Result<()> {
    let attr = parse(text).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: the kernel reads SIZE bytes of the structure, which is that long and alive.
    checked(unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attr, 0) })
}

fn parse(text: &str) -> Option<SchedAttr> {
    let (text, flags) = text.split_once(" flags:").unwrap_or((text, "0"));
    let mut attr = SchedAttr {
        size: SIZE,
        flags: flags.parse().ok()?,
        ..SchedAttr::default()
    };
    if let Some((number, nice)) = text.strip_prefix("policy-").and_then(|t| t.split_once(':')) {
        attr.policy = number.parse().ok()?;
        attr.nice = nice.parse().ok()?;
        return Some(attr);
    }
    // The kernel's own threads have 99, which a profile may not give.
    if let Some(priority) = text.strip_prefix("fifo:") {
        (attr.policy, attr.priority) = (FIFO, priority.parse().ok()?);
        return Some(attr);
    }
    match Policy::parse(text).ok()? {
        Policy::Other(nice) => (attr.policy, attr.nice) = (OTHER, nice.into()),
        Policy::Fifo(priority) => (attr.policy, attr.priority) = (FIFO, priority.into()),
        Policy::RoundRobin(priority) => (attr.policy, attr.priority) = (RR, priority.into()),
        Policy::Deadline {
            runtime,
            deadline,
            period,
        } => {
            attr.policy = DEADLINE;
            (attr.runtime, attr.deadline, attr.period) = (runtime.0, deadline.0, period.0);
        }
    }
    Some(attr)
}

pub fn set_affinity(tid: u32, cpus: &CpuList) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        if cpu as usize >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu as usize);
    }
    Ok(rustix::thread::sched_setaffinity(Some(pid(tid)?), &set)?)
}

/// Bytes of memory that a process may lock, `unlimited` for all: the limit and its upper bound.
pub fn memory_lock(process: u32) -> io::Result<String> {
    // prlimit(2) can read too, but rustix only through setting.
    let text = std::fs::read_to_string(format!("/proc/{process}/limits"))?;
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("Max locked memory"));
    let mut words = line.unwrap_or_default().split_whitespace();
    match (words.next(), words.next()) {
        (Some(current), Some(maximum)) => Ok(format!("{current}/{maximum}")),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Sets the limit from the text of [`memory_lock`].
pub fn set_memory_lock(process: u32, text: &str) -> io::Result<()> {
    let bytes = |text: &str| match text {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    };
    let limit = text.split_once('/').and_then(|(current, maximum)| {
        Some(Rlimit {
            current: bytes(current)?,
            maximum: bytes(maximum)?,
        })
    });
    let limit = limit.ok_or(io::ErrorKind::InvalidInput)?;
    rustix::process::prlimit(Some(pid(process)?), Resource::Memlock, limit)?;
    Ok(())
}

fn pid(number: u32) -> io::Result<Pid> {
    process::number(number).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_thread_is_read_and_set_to_the_same() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let now = policy(tid).unwrap();
        assert!(now.starts_with("other:"), "{now}");
        set_policy(tid, &now).unwrap();
        assert_eq!(policy(tid).unwrap(), now);
        let limit = memory_lock(std::process::id()).unwrap();
        set_memory_lock(std::process::id(), &limit).unwrap();
        assert_eq!(memory_lock(std::process::id()).unwrap(), limit);
    }

    #[test]
    fn every_text_of_a_policy_is_read_back() {
        for text in [
            "other:-5",
            "fifo:99",
            "rr:3",
            "deadline:200000ns/1000000ns/1000000ns",
            "policy-3:4",
            "fifo:1 flags:1",
        ] {
            assert!(parse(text).is_some(), "{text}");
        }
        assert!(parse("best:1").is_none());
    }
}
