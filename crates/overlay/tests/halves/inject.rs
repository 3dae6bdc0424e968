//! Lets one system call of a thread fail (ptrace(2)).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// Offsets in `struct user` of x86-64: the result, the first argument, and the number of the system call.
const RAX: usize = 10 * 8;
const RDI: usize = 14 * 8;
const ORIG_RAX: usize = 15 * 8;

/// The mark of a stop at a system call (`PTRACE_O_TRACESYSGOOD`).
const AT_SYSTEM_CALL: i32 = libc::SIGTRAP | 0x80;

/// A thread whose `nth` call of bpf(2) with a command fails. Only the tracing thread may speak to it.
pub struct Injector {
    ends: Arc<AtomicBool>,
    tracer: JoinHandle<u64>,
}

impl Injector {
    pub fn begin(thread: u32, command: i64, error: i32, nth: u64) -> Injector {
        let ends = Arc::<AtomicBool>::default();
        let (ready, begun) = channel();
        let stop = Arc::clone(&ends);
        let tracer = std::thread::spawn(move || {
            let thread = libc::pid_t::try_from(thread).unwrap();
            ptrace(
                libc::PTRACE_SEIZE,
                thread,
                0,
                libc::PTRACE_O_TRACESYSGOOD as usize,
            );
            ptrace(libc::PTRACE_INTERRUPT, thread, 0, 0);
            while stopped(thread).is_none() {}
            ptrace(libc::PTRACE_SYSCALL, thread, 0, 0);
            ready.send(()).unwrap();
            trace(thread, command, error, nth, &stop)
        });
        begun.recv().unwrap();
        Injector { ends, tracer }
    }

    /// Lets the thread go; returns the number of its calls of that kind.
    pub fn end(self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        self.tracer.join().unwrap()
    }
}

fn trace(thread: libc::pid_t, command: i64, error: i32, nth: u64, ends: &AtomicBool) -> u64 {
    let (mut calls, mut enters, mut fails) = (0, true, false);
    let mut interrupted = false;
    loop {
        let Some(signal) = stopped(thread) else {
            if ends.load(Ordering::Relaxed) && !interrupted {
                ptrace(libc::PTRACE_INTERRUPT, thread, 0, 0);
                interrupted = true;
            }
            std::thread::sleep(Duration::from_micros(50));
            continue;
        };
        // The answer is there, so no call that fails is under way. Any stop takes the place of the one that was asked for.
        if interrupted {
            ptrace(libc::PTRACE_DETACH, thread, 0, 0);
            return calls;
        }
        if signal != AT_SYSTEM_CALL {
            // A signal's, which is none of ours.
        } else if enters {
            enters = false;
            let read = |register| ptrace(libc::PTRACE_PEEKUSER, thread, register, 0);
            if read(ORIG_RAX) == libc::SYS_bpf && read(RDI) == command {
                calls += 1;
                fails = calls == nth;
            }
            if fails {
                // Another call in its place, which changes nothing and which the daemon's seccomp filter lets pass.
                ptrace(
                    libc::PTRACE_POKEUSER,
                    thread,
                    ORIG_RAX,
                    libc::SYS_getpid as usize,
                );
            }
        } else {
            enters = true;
            if std::mem::take(&mut fails) {
                let result = (-i64::from(error)) as usize;
                ptrace(libc::PTRACE_POKEUSER, thread, RAX, result);
            }
        }
        ptrace(libc::PTRACE_SYSCALL, thread, 0, 0);
    }
}

/// The signal at which the thread has stopped, if it has.
fn stopped(thread: libc::pid_t) -> Option<i32> {
    let mut status = 0;
    let flags = libc::__WALL | libc::WNOHANG;
    // SAFETY: the kernel writes the status to a variable of ours.
    let result = unsafe { libc::waitpid(thread, &raw mut status, flags) };
    assert!(result >= 0, "{}", std::io::Error::last_os_error());
    (result == thread).then(|| {
        assert!(libc::WIFSTOPPED(status), "the thread ended: {status:#x}");
        libc::WSTOPSIG(status)
    })
}

/// Must succeed, which a value of -1 of `PTRACE_PEEKUSER` cannot be told from: no call that is entered has that number.
fn ptrace(request: libc::c_uint, thread: libc::pid_t, address: usize, data: usize) -> i64 {
    // SAFETY: these requests read and write registers of another process, and no memory of ours.
    let result = unsafe { libc::ptrace(request, thread, address, data) };
    assert!(
        result != -1,
        "request {request:#x}: {}",
        std::io::Error::last_os_error()
    );
    result
}
