//! A child in this process's own memory until it executes a program, as vfork(2) and posix_spawn(3) have one.
//!
//! To copy the address space of a large program, and to drop the copy a moment later, takes longer than all that the child
//! does. The calling thread stands still until the child has executed its program or has ended; other threads go on.
//! What of the child's differs from a copy: what it writes stays written, so it only writes to its own stack and
//! to [`Child`]; and the thread's `errno` is its own, which nothing of the caller reads afterwards.

use std::arch::asm;
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;

use super::child::Child;

/// The child's calls are few and shallow; the largest thing on its stack is a message with a descriptor.
const STACK_BYTES: usize = 64 << 10;

/// `linux/sched.h`; too wide for the `c_int` that libc's flags are.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Starts the child, in this group of the unified tree if one is given. Returns when it has executed its program or has
/// ended: its pid and its pidfd.
pub(super) fn start(child: &mut Child<'_>, cgroup: Option<RawFd>) -> io::Result<(u32, OwnedFd)> {
    let mut pidfd: RawFd = -1;
    // Blocks of 16 bytes: both architectures want the stack's end aligned so.
    let mut stack = Vec::<u128>::with_capacity(STACK_BYTES / size_of::<u128>());
    // SAFETY: clone_args is a plain C struct for which all zeroes mean "nothing asked for".
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = (libc::CLONE_PIDFD | libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    arguments.pidfd = (&raw mut pidfd) as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    arguments.stack = stack.as_mut_ptr() as u64;
    arguments.stack_size = STACK_BYTES as u64;
    if let Some(directory) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = directory as u64;
    }
    let all_blocked = Blocked::all();
    // SAFETY: `arguments`, the stack and `child` outlive the call, which does not return before the child has left this
    // memory. The calling thread stands still meanwhile, so the child alone uses `child`. `run_child` never returns.
    // With all signals blocked no handler of this process runs in the child.
    let pid = unsafe { clone3(&raw const arguments, (&raw mut *child).cast()) };
    drop(all_blocked);
    match u32::try_from(pid) {
        // SAFETY: the kernel stored a new descriptor there, which has no other owner.
        Ok(pid) => Ok((pid, unsafe { OwnedFd::from_raw_fd(pidfd) })),
        Err(_) => Err(io::Error::from_raw_os_error(-pid as i32)),
    }
}

/// All signals of the calling thread are blocked. They are as before when this is dropped.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn all() -> Self {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::zeroed());
        // SAFETY: sigfillset initialises its set, and both outlive the calls; a set of zeros is an empty one.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: reads a set that the kernel wrote.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

extern "C" fn run_child(child: *mut c_void) -> ! {
    // SAFETY: `start` gave a child of its own, which nothing else uses meanwhile.
    let child = unsafe { &mut *child.cast::<Child<'_>>() };
    child.run()
}

/// clone3(2) with a stack of the child's own, on which it calls [`run_child`]. libc has no function for it: the child of
/// its `syscall` would return into a frame that is not on its stack. The child's pid, or an error below zero.
///
/// # Safety
///
/// `arguments` names a stack; it, the stack and `child` live until the child has executed a program or has ended.
#[cfg(target_arch = "x86_64")]
unsafe fn clone3(arguments: *const libc::clone_args, child: *mut c_void) -> isize {
    let pid: isize;
    // SAFETY: as the caller promises. In the parent only the registers named here change. The child begins with an empty
    // stack, ends the chain of frames and never comes back from its call.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, {child}",
            "call {run}",
            "ud2",
            "2:",
            child = in(reg) child,
            run = in(reg) run_child as extern "C" fn(*mut c_void) -> !,
            inlateout("rax") libc::SYS_clone3 as isize => pid,
            in("rdi") arguments,
            in("rsi") size_of::<libc::clone_args>(),
            // The instruction overwrites them before the child reads the two above.
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    pid
}

/// As for x86-64.
///
/// # Safety
///
/// As for x86-64.
#[cfg(target_arch = "aarch64")]
unsafe fn clone3(arguments: *const libc::clone_args, child: *mut c_void) -> isize {
    let pid: isize;
    // SAFETY: as for x86-64; the system call changes `x0` alone.
    unsafe {
        asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, {child}",
            "blr {run}",
            "brk #1",
            "2:",
            child = in(reg) child,
            run = in(reg) run_child as extern "C" fn(*mut c_void) -> !,
            in("x8") libc::SYS_clone3,
            inlateout("x0") arguments => pid,
            in("x1") size_of::<libc::clone_args>(),
            options(nostack),
        );
    }
    pid
}
