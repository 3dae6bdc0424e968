//! Descriptors of a cgroup, opened before a fork and joined through after it.
//!
//! Moving a running process costs about 10 ms for each hierarchy: the kernel waits until no thread of the machine is
//! inside a fork, exec or exit. Two ways in avoid that wait, and this type carries the descriptors of both. On the
//! unified tree a process is *born* in the group (`clone3` with `CLONE_INTO_CGROUP`). On version 1 a single thread
//! moves itself (`0` written to `tasks`), as a child between fork and exec can.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::Error;

/// Open files through which a new process joins a node's group.
#[derive(Debug, Default)]
pub struct CgroupEntry {
    unified: Option<OwnedFd>,
    tasks: Vec<File>,
}

impl CgroupEntry {
    /// Adds the group at `dir`, on the unified tree or in a version 1 hierarchy.
    pub fn add(&mut self, dir: &Path, unified: bool) -> Result<(), Error> {
        if unified {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::open(dir, flags, Mode::empty());
            let opened = opened.map_err(Error::of("open cgroup", dir.display()))?;
            self.unified = Some(opened);
        } else {
            let file = dir.join("tasks");
            let opened = OpenOptions::new().write(true).open(&file);
            let opened = opened.map_err(Error::of("open", file.display()))?;
            self.tasks.push(opened);
        }
        Ok(())
    }

    /// The directory of the group on the unified tree, for `CLONE_INTO_CGROUP`.
    #[must_use]
    pub fn unified(&self) -> Option<BorrowedFd<'_>> {
        self.unified.as_ref().map(AsFd::as_fd)
    }

    /// The files to which the child itself writes `0`.
    pub fn tasks(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.tasks.iter().map(AsFd::as_fd)
    }

    /// Puts the calling process into the version 1 groups, and into the unified one too unless it was born there.
    ///
    /// For a process with one thread, between fork and exec: makes system calls only, allocates
    /// nothing, takes no lock.
    pub fn join(&self, born_in_unified: bool) -> io::Result<()> {
        for tasks in &self.tasks {
            rustix::io::write(tasks, b"0")?;
        }
        if let (Some(dir), false) = (&self.unified, born_in_unified) {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            let procs = rustix::fs::openat(dir, c"cgroup.procs", flags, Mode::empty())?;
            rustix::io::write(&procs, b"0")?;
        }
        Ok(())
    }
}
