//! The calling thread, confined step by step; the filter of system calls comes last.

use std::io;

use super::{capabilities, files, sys, syscalls};

/// Confines the calling thread and those that it starts from now on. Landlock is skipped on kernels without it.
/// Errors: a kernel without seccomp filters; a filter that it refuses.
pub fn confine() -> io::Result<()> {
    files::confine()?;
    capabilities::drop_others()?;
    rustix::thread::set_no_new_privs(true)?;
    sys::filter(&syscalls::program())
}
