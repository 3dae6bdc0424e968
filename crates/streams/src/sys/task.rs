//! A task that waits for the answer to a call: its descriptors and its memory.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::listener::last_error;

/// A thread's own pidfd (`linux/pidfd.h`, Linux 6.9).
const PIDFD_THREAD: u32 = libc::O_EXCL as u32;

#[derive(Debug)]
pub struct Task {
    number: u32,
    pidfd: OwnedFd,
}

impl Task {
    /// Opens the task of a number. It is the caller's if the call is valid afterwards.
    pub fn open(number: u32) -> io::Result<Self> {
        let pid = |number: u32| Pid::from_raw(number as i32).ok_or(Errno::SRCH);
        let thread = PidfdFlags::from_bits_retain(PIDFD_THREAD);
        let pidfd = match pidfd_open(pid(number)?, thread) {
            // Before Linux 6.9 only a process has one: its descriptors are those of its first thread.
            Err(Errno::INVAL) => pidfd_open(pid(process_of(number)?)?, PidfdFlags::empty())?,
            opened => opened?,
        };
        Ok(Self { number, pidfd })
    }

    /// The file at a descriptor, under a number of our own.
    pub fn file(&self, descriptor: i32) -> Result<OwnedFd, Errno> {
        // SAFETY: pidfd_getfd looks the number up in the other process; it is no descriptor of ours.
        let target = unsafe { BorrowedFd::borrow_raw(descriptor.max(0)) };
        if descriptor < 0 {
            return Err(Errno::BADF);
        }
        use std::os::fd::AsRawFd;
        pidfd_getfd(&self.pidfd, target.as_raw_fd(), PidfdGetfdFlags::empty())
    }

    /// Reads as many bytes of its memory as are wanted, or fails.
    pub fn read(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        let local = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: length,
        };
        let remote = Self::area(address, length);
        // SAFETY: the kernel writes at most `length` bytes into `bytes`; the other address is checked there.
        let count = unsafe {
            libc::process_vm_readv(self.pid(), &raw const local, 1, &raw const remote, 1, 0)
        };
        Self::complete(count, length).map(|()| bytes)
    }

    /// Writes to its memory, where that may be written.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        let local = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let remote = Self::area(address, bytes.len());
        // SAFETY: the kernel only reads `bytes`; the other address is checked there.
        let count = unsafe {
            libc::process_vm_writev(self.pid(), &raw const local, 1, &raw const remote, 1, 0)
        };
        Self::complete(count, bytes.len())
    }

    fn pid(&self) -> i32 {
        self.number as i32
    }

    fn area(address: u64, length: usize) -> libc::iovec {
        libc::iovec {
            iov_base: std::ptr::without_provenance_mut(address as usize),
            iov_len: length,
        }
    }

    fn complete(count: isize, length: usize) -> Result<(), Errno> {
        match usize::try_from(count) {
            Ok(count) if count == length => Ok(()),
            Ok(_) => Err(Errno::FAULT),
            Err(_) => Err(last_error()),
        }
    }
}

/// The process of a thread.
fn process_of(number: u32) -> io::Result<u32> {
    let status = fs::read_to_string(format!("/proc/{number}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|value| value.trim().parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}
