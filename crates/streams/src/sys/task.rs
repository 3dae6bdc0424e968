//! A task that waits for the answer to a call: its descriptors and its memory.
//!
//! A number is a task's only as long as that lives. So both are opened first, and belong to the caller of a call that is
//! still valid then.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// A thread's own pidfd (`linux/pidfd.h`, Linux 6.9).
const PIDFD_THREAD: u32 = libc::O_EXCL as u32;

#[derive(Debug)]
pub struct Task(OwnedFd);

impl Task {
    pub fn open(number: u32) -> io::Result<Self> {
        let pid = |number: u32| Pid::from_raw(number as i32).ok_or(Errno::SRCH);
        let thread = PidfdFlags::from_bits_retain(PIDFD_THREAD);
        Ok(Self(match pidfd_open(pid(number)?, thread) {
            // Before Linux 6.9 only a process has one: its descriptors are those of its first thread.
            Err(Errno::INVAL) => pidfd_open(pid(process_of(number)?)?, PidfdFlags::empty())?,
            opened => opened?,
        }))
    }

    /// The file at a descriptor, under a number of our own.
    pub fn file(&self, descriptor: i32) -> Result<OwnedFd, Errno> {
        pidfd_getfd(&self.0, descriptor, PidfdGetfdFlags::empty())
    }
}

#[derive(Debug)]
pub struct Memory(File);

impl Memory {
    pub fn open(number: u32) -> io::Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{number}/mem"))?;
        Ok(Self(file))
    }

    /// Reads as many bytes as are wanted, or fails.
    pub fn read(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        let read = self.0.read_exact_at(&mut bytes, address);
        read.map(|()| bytes).map_err(|_| Errno::FAULT)
    }

    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        let written = self.0.write_all_at(bytes, address);
        written.map_err(|_| Errno::FAULT)
    }
}

/// The process of a thread.
pub fn process_of(number: u32) -> io::Result<u32> {
    let status = fs::read_to_string(format!("/proc/{number}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|value| value.trim().parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}
