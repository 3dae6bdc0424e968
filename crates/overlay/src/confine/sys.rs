//! The system calls that confine, which neither std nor rustix has.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::sock_filter;

const LANDLOCK_RULE_PATH_BENEATH: libc::c_int = 1;

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneath {
    rights: u64,
    place: i32,
}

fn checked(result: libc::c_long) -> io::Result<i32> {
    match i32::try_from(result) {
        Ok(result @ 0..) => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has the kernel ask a program before each system call of this process from now on. Speculation stays as it is: before
/// Linux 5.16 a filter would otherwise slow down all code (Documentation/userspace-api/spec_ctrl.rst), and no foreign code
/// runs here.
pub fn filter(program: &[sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog {
        len,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies `len` instructions from where the program lives; it writes nothing there.
    checked(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
            &raw const program,
        )
    })
    .map(drop)
}

/// Landlock rules that handle these rights, and allow none yet.
pub fn ruleset(handled: u64) -> io::Result<OwnedFd> {
    let size = size_of_val(&handled);
    // SAFETY: the attributes of the first version are this one number, of the size that is said.
    let rules = checked(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const handled,
            size,
            0,
        )
    })?;
    // SAFETY: a descriptor that the kernel just made and no other object owns.
    Ok(unsafe { OwnedFd::from_raw_fd(rules) })
}

/// Allows rights at a file, or below a directory.
pub fn allow(rules: &OwnedFd, place: BorrowedFd<'_>, rights: u64) -> io::Result<()> {
    let rule = PathBeneath {
        rights,
        place: place.as_raw_fd(),
    };
    // SAFETY: the structure is the kernel's for this kind of rule, and lives through the call.
    checked(unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            rules.as_raw_fd(),
            LANDLOCK_RULE_PATH_BENEATH,
            &raw const rule,
            0,
        )
    })
    .map(drop)
}

pub fn restrict(rules: &OwnedFd) -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) })
        .map(drop)
}
