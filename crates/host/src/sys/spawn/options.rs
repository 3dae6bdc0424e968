//! Options of a process to be started.

use std::os::fd::BorrowedFd;

use super::super::notify::NotifyFilter;
use super::super::seccomp::Filter;

#[derive(Debug, Clone, Copy, Default)]
pub enum Executable<'a> {
    #[default]
    Path,
    /// This file in the place of the program.
    File(BorrowedFd<'a>),
    /// The agent in this file, which executes the program by its path.
    ///
    /// Until it has executed something, a child's `/proc/self/exe` is latlab's own binary. A program
    /// of a hostile root whose first line is `#!/proc/self/exe` would be given that, together
    /// with libraries from its own root (CVE-2019-5736). The agent in a sealed memory file gives
    /// nothing away: it is linked statically, and cannot be written.
    Launcher(BorrowedFd<'a>),
}

/// Rights that a program gives up for good before it is executed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Confinement<'a> {
    /// Rights that set-user-id programs and file capabilities would grant (kernel: no_new_privs).
    pub no_new_privileges: bool,
    /// System calls; only together with `no_new_privileges`.
    pub filter: Option<&'a Filter>,
    /// Calls that another process is to answer, and the connected socket over which it gets their listener.
    pub held: Option<(&'a NotifyFilter, BorrowedFd<'a>)>,
    /// Real-time and raised priorities, which a resource limit could grant without a capability.
    pub no_priority: bool,
}

/// A root directory in another process's mount namespace.
#[derive(Debug, Clone, Copy)]
pub struct Root<'a> {
    /// A pidfd of a process in the mount namespace.
    pub process: BorrowedFd<'a>,
    /// The directory. The namespace alone does not say it, if that process is in a chroot.
    pub directory: BorrowedFd<'a>,
}
