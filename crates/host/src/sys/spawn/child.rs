//! The child between `clone3` and `execve`: system calls only, no allocation, no lock, because it is in the memory of its
//! parent, whose other threads may hold any.

use std::ffi::CString;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::{Signal, getppid};

use super::super::cgroup_entry::CgroupEntry;
use super::super::seccomp::Filter;
use super::options::{Confinement, Root};

/// The child's steps, in their order; a failed one is reported to the parent by its index.
pub(super) const STEPS: [&str; 9] = [
    "tie to its parent",
    "join cgroup for",
    "enter network namespace for",
    "enter root directory for",
    "start a session for",
    "arrange descriptors for",
    CHANGE_DIRECTORY,
    "confine",
    "execute",
];

/// The step that an [`Executable::Launcher`](super::options::Executable::Launcher) takes over.
pub(super) const EXECUTE: usize = STEPS.len() - 1;

/// The one step whose failure is not about the program.
pub(super) const CHANGE_DIRECTORY: &str = "enter directory";

/// C strings and the zero-terminated array of pointers to them that `execve` takes.
pub(super) struct Pointers {
    _strings: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl Pointers {
    pub(super) fn new(strings: Vec<CString>) -> Self {
        let pointers = strings.iter().map(|string| string.as_ptr());
        let pointers = pointers.chain([std::ptr::null()]).collect();
        Self {
            _strings: strings,
            pointers,
        }
    }
}

pub(super) struct Child<'a> {
    pub(super) parent: rustix::process::Pid,
    pub(super) program: CString,
    pub(super) arguments: Pointers,
    pub(super) environment: Pointers,
    pub(super) directory: Option<CString>,
    pub(super) netns: Option<BorrowedFd<'a>>,
    pub(super) root: Option<Root<'a>>,
    pub(super) cgroup: Option<&'a CgroupEntry>,
    pub(super) cgroup_namespace: bool,
    pub(super) moves: Vec<(RawFd, RawFd)>,
    /// The first descriptor number above all targets.
    pub(super) floor: RawFd,
    pub(super) report: RawFd,
    /// The socket for the listener of held calls, if there are any.
    pub(super) listener: RawFd,
    /// The number at which a launcher finds it.
    pub(super) report_at: RawFd,
    /// A file executed in place of the program's path.
    pub(super) file: Option<RawFd>,
    pub(super) launches: bool,
    pub(super) confinement: Confinement<'a>,
    pub(super) session: bool,
    pub(super) tied: bool,
}

impl Child<'_> {
    pub(super) fn run(&mut self) -> ! {
        for step in 0..STEPS.len() {
            if let Err(errno) = self.step(step) {
                let mut report = [step as u8, 0, 0, 0, 0];
                report[1..].copy_from_slice(&errno.raw_os_error().to_ne_bytes());
                // SAFETY: writes from a local array to a descriptor number; if the parent is gone
                // the report is lost.
                unsafe { libc::write(self.report, report.as_ptr().cast(), report.len()) };
                break;
            }
        }
        // SAFETY: ends this process at once, without running the parent's exit handlers.
        unsafe { libc::_exit(127) }
    }

    fn step(&mut self, step: usize) -> Result<(), Errno> {
        match step {
            0 => self.tie(),
            1 => self.join_cgroup(),
            2 => self.netns.map_or(Ok(()), |netns| {
                use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
                move_into_link_name_space(netns, Some(LinkNameSpaceType::Network))
            }),
            3 => self.enter_root(),
            4 if self.session => rustix::process::setsid().map(drop),
            4 => Ok(()),
            5 => self.arrange_descriptors(),
            6 => self.enter_directory(),
            7 => self.prepare_signals().and_then(|()| self.confine()),
            _ => self.execute(),
        }
    }

    fn tie(&self) -> Result<(), Errno> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the request was made. In another process namespace it
        // cannot be seen; but that namespace ends with the node, and we with it.
        if self.root.is_some() || getppid() == Some(self.parent) {
            Ok(())
        } else {
            Err(Errno::SRCH)
        }
    }

    fn join_cgroup(&self) -> Result<(), Errno> {
        if let Some(entry) = self.cgroup {
            let joined = entry.join(entry.unified().is_some());
            joined.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        }
        if self.cgroup_namespace {
            // SAFETY: changes only what this child, which has one thread, sees of cgroups.
            unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWCGROUP) }?;
        }
        Ok(())
    }

    fn enter_root(&self) -> Result<(), Errno> {
        let Some(root) = self.root else {
            return Ok(());
        };
        use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};
        move_into_thread_name_spaces(root.process, ThreadNameSpaceType::MOUNT)?;
        rustix::process::fchdir(root.directory)?;
        rustix::process::chroot(c".")?;
        rustix::process::chdir(c"/")
    }

    /// In another root a name may lead through this process's own descriptors, some of which are
    /// directories of the machine (CVE-2024-21626), so there no such link is followed.
    fn enter_directory(&self) -> Result<(), Errno> {
        let Some(directory) = &self.directory else {
            return Ok(());
        };
        if self.root.is_none() {
            return rustix::process::chdir(directory);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_MAGICLINKS;
        let opened = rustix::fs::openat2(CWD, directory, flags, Mode::empty(), resolve)?;
        rustix::process::fchdir(opened)
    }

    /// Gives every descriptor its target number. First all move above the highest target, so that
    /// no target is overwritten while it is still a source.
    fn arrange_descriptors(&mut self) -> Result<(), Errno> {
        // Descriptors that latlab was started with are not for the nodes: an open file of the caller, a pipe of a shell. A
        // kernel before 5.11 does not know the request.
        // SAFETY: marks descriptors of this child, which has a table of its own, as closed by execve.
        unsafe {
            let first: libc::c_uint = 3;
            let mark = libc::CLOSE_RANGE_CLOEXEC;
            libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, mark);
        }
        for at in 0..self.moves.len() {
            self.moves[at].0 = self.above_targets(self.moves[at].0)?;
        }
        self.report = self.above_targets(self.report)?;
        if self.confinement.held.is_some() {
            self.listener = self.above_targets(self.listener)?;
        }
        self.file = match self.file {
            Some(file) => Some(self.above_targets(file)?),
            None => None,
        };
        if self.launches {
            // SAFETY: a number that is neither a target nor a source. It is kept over execve.
            check(unsafe { libc::dup2(self.report, self.report_at) })?;
        }
        for &(from, to) in &self.moves {
            // SAFETY: plain numbers; whatever `to` was in this child is replaced on purpose.
            check(unsafe { libc::dup2(from, to) })?;
        }
        Ok(())
    }

    fn above_targets(&self, descriptor: RawFd) -> Result<RawFd, Errno> {
        // SAFETY: duplicates a descriptor number to a new one, closed again by execve.
        check(unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, self.floor) })
    }

    fn prepare_signals(&self) -> Result<(), Errno> {
        // SAFETY: the set is initialised by sigemptyset; all calls only change this process, whose handlers are a copy. What
        // is ignored would be inherited (SIGPIPE by every Rust program, SIGINT by whatever a script runs in
        // the background), and a shell cannot even trap it then. Signals that cannot be set
        // are refused, which does no harm. No signal is let in before its handler is gone: it would run in the
        // parent's memory.
        unsafe {
            for signal in 1..=libc::SIGRTMAX() {
                libc::signal(signal, libc::SIG_DFL);
            }
            let mut none = std::mem::MaybeUninit::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
        }
        if !self.tied {
            rustix::process::set_parent_process_death_signal(None)?;
        }
        Ok(())
    }

    fn confine(&self) -> Result<(), Errno> {
        if self.confinement.no_priority {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            for resource in [libc::RLIMIT_RTPRIO, libc::RLIMIT_NICE] {
                // SAFETY: reads a local structure.
                check(unsafe { libc::setrlimit(resource, &raw const none) })?;
            }
        }
        if self.confinement.no_new_privileges {
            rustix::thread::set_no_new_privs(true)?;
        }
        if let Some((filter, _)) = self.confinement.held {
            let held = filter.install(self.listener);
            held.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        }
        let filter = self.confinement.filter.map_or(Ok(()), Filter::install);
        filter.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    fn execute(&self) -> Result<(), Errno> {
        let (arguments, environment) = (&self.arguments.pointers, &self.environment.pointers);
        // SAFETY: both arrays end with a null pointer and point into strings that `self` owns, as is
        // the path; the descriptor is a number that the kernel looks up.
        check(unsafe {
            match self.file {
                Some(file) => libc::execveat(
                    file,
                    c"".as_ptr(),
                    arguments.as_ptr().cast(),
                    environment.as_ptr().cast(),
                    libc::AT_EMPTY_PATH,
                ),
                None => libc::execve(
                    self.program.as_ptr(),
                    arguments.as_ptr(),
                    environment.as_ptr(),
                ),
            }
        })
        .map(drop)
    }
}

/// A C return value below zero is an error in `errno`.
fn check(result: libc::c_int) -> Result<libc::c_int, Errno> {
    if result >= 0 {
        return Ok(result);
    }
    // SAFETY: errno's address is valid for the life of this thread.
    Err(Errno::from_raw_os_error(unsafe {
        *libc::__errno_location()
    }))
}
