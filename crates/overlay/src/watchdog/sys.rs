//! The system calls of the watchdog: clocks of other threads, signals to them, and the end.

use std::sync::Once;

/// Ignored by default, and not used here: urgent data of sockets.
const NUDGE: libc::c_int = libc::SIGURG;

#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadId(libc::pid_t);

impl ThreadId {
    pub fn own() -> ThreadId {
        // SAFETY: takes nothing and always succeeds.
        ThreadId(unsafe { libc::gettid() })
    }

    pub fn nudge(self) {
        // SAFETY: numbers only. A thread that is gone is an error, or has left its number to another one of
        // this process, which does not mind either.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.0, NUDGE) };
    }
}

extern "C" fn nothing(_: libc::c_int) {}

pub(super) fn accept_nudges() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        // SAFETY: all zeroes is a sigaction; without SA_RESTART, so that calls return.
        let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
        action.sa_sigaction = nothing as *const () as usize;
        // SAFETY: the structure lives until the call is over; the handler does nothing.
        unsafe { libc::sigaction(NUDGE, &raw const action, std::ptr::null_mut()) };
    });
    // SAFETY: an empty set, filled by the next calls, which only write to it and read it.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, NUDGE);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

#[derive(Debug)]
pub(super) struct ThreadClock {
    clock: Option<libc::clockid_t>,
    thread: ThreadId,
}

impl ThreadClock {
    pub fn own() -> ThreadClock {
        let mut clock = 0;
        // SAFETY: the calling thread exists, and the pointer is to a number of ours.
        let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        ThreadClock {
            clock: (failed == 0).then_some(clock),
            thread: ThreadId::own(),
        }
    }

    /// Nanoseconds; none when the thread has ended.
    pub fn read(&self) -> Option<u64> {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the pointer is to a structure of ours; the clock of a thread that has ended is an error.
        let failed = unsafe { libc::clock_gettime(self.clock?, &raw mut time) };
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
        (failed == 0).then_some(seconds.ok()? * 1_000_000_000 + nanos.ok()?)
    }

    /// Whether it waits inside the kernel (states S and D of proc(5)).
    pub fn waits(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", self.thread.0));
        let stat = stat.unwrap_or_default();
        let state = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next());
        matches!(state, Some('S' | 'D'))
    }
}

/// Ends the process without running anything of it any more.
pub(super) fn exit_now(code: libc::c_int) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}
