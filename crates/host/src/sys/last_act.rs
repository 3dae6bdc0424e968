//! An act at the end of another process, before the kernel lets go of what that process held.
//!
//! A tracer that dies sets its tracees free at once, in whatever state they are, and nothing that waits for its end is
//! fast enough. So the tracer is traced itself: it stops at its exit (`PTRACE_EVENT_EXIT`, ptrace(2)), after SIGKILL,
//! too, and holds its tracees until the act is done. A second SIGKILL ends that stop.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{Sender, channel};

use libc::{c_int, c_long, c_ulong, pid_t};

use super::process::Process;

/// `linux/ptrace.h`; not in libc for every C library.
const EVENT_STOP: c_int = 128;

/// Has `act` run before the process ends by a signal or with a status other than 0. Where this process is killed, the
/// other goes on without it.
pub fn before_failure(process: &Process, act: impl FnOnce() + Send + 'static) {
    let Ok(pidfd) = rustix::io::fcntl_dupfd_cloexec(process, 0) else {
        return;
    };
    let pid = process.id().pid as pid_t;
    let (begun, begins) = channel();
    // Requests must come from the thread that traces.
    std::thread::spawn(move || trace(pid, &pidfd, &begun, act));
    let _ = begins.recv();
}

fn trace(pid: pid_t, pidfd: &OwnedFd, begun: &Sender<()>, act: impl FnOnce()) {
    // Where that fails it has ended, or may not trace others either.
    let is_traced = ptrace(libc::PTRACE_SEIZE as _, pid, libc::PTRACE_O_TRACEEXIT as _) == 0;
    let _ = begun.send(());
    let mut act = Some(act);
    while let Some(mut stop) = is_traced.then(|| next_stop(pidfd, 0)).flatten() {
        // This thread was woken late, and SIGKILL may have taken the process from that stop to its exit: a request for
        // the one would let it pass the other.
        while let Some(newer) = next_stop(pidfd, libc::WNOHANG).filter(|newer| *newer != stop) {
            stop = newer;
        }
        let (request, signal) = match stop {
            (libc::PTRACE_EVENT_EXIT, _) => {
                if let Some(act) = act.take().filter(|_| fails(pid)) {
                    act();
                }
                (libc::PTRACE_CONT, 0)
            }
            // Stopped by a signal like SIGSTOP, until SIGCONT.
            (EVENT_STOP, signal) if signal != libc::SIGTRAP => (libc::PTRACE_LISTEN, 0),
            (0, signal) => (libc::PTRACE_CONT, signal),
            _ => (libc::PTRACE_CONT, 0),
        };
        // Refused where SIGKILL has come meanwhile: its exit is the next stop.
        ptrace(request as _, pid, signal as c_ulong);
    }
}

/// A stop of the process: its event, 0 for a signal that is about to be delivered, and the signal. None when it has
/// ended, which is left to its parent to collect, or with `WNOHANG` does not stand.
fn next_stop(pidfd: &OwnedFd, more: c_int) -> Option<(c_int, c_int)> {
    let flags = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT | libc::__WALL | more;
    loop {
        // SAFETY: a plain C structure, in which all zeroes mean nothing.
        let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let id = pidfd.as_raw_fd() as libc::id_t;
        // SAFETY: an open descriptor, and room for one structure.
        if unsafe { libc::waitid(libc::P_PIDFD, id, &raw mut about, flags) } == 0 {
            // SAFETY: filled in for a child, or zero.
            let status = unsafe { about.si_status() };
            let is_stop = matches!(about.si_code, libc::CLD_TRAPPED | libc::CLD_STOPPED);
            return is_stop.then_some((status >> 8, status & 0xff));
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return None;
        }
    }
}

/// Whether a process that stands at its exit fails.
fn fails(pid: pid_t) -> bool {
    let mut status: c_ulong = 0;
    let data = &raw mut status as c_ulong;
    ptrace(libc::PTRACE_GETEVENTMSG as _, pid, data) == 0 && status != 0
}

fn ptrace(request: c_long, pid: pid_t, data: c_ulong) -> c_long {
    // SAFETY: of these requests only PTRACE_GETEVENTMSG writes to memory, one number, for which `data` is room.
    unsafe { libc::ptrace(request as _, pid, 0 as c_ulong, data) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use rustix::process::Signal;

    use super::super::process::Exit;
    use super::super::spawn::Spawn;
    use super::*;

    /// Ends a process that is watched; whether the act was done while it was there, and its end.
    fn ends(script: &str, signals: &[Signal]) -> (bool, Exit) {
        let spawn = Spawn::new("sh", "test-last-act").args(["-c", script]);
        let process = spawn.start().unwrap();
        let done = Arc::<AtomicBool>::default();
        let (id, is_done) = (process.id(), done.clone());
        before_failure(&process, move || {
            let there = Process::open(id).unwrap().unwrap();
            is_done.store(!there.has_ended().unwrap(), Ordering::Relaxed);
        });
        for signal in signals {
            assert!(process.signal(*signal).unwrap());
        }
        assert!(process.wait(Duration::from_secs(60)).unwrap());
        let exit = process.collect().unwrap().unwrap();
        (done.load(Ordering::Relaxed), exit)
    }

    #[test]
    fn the_act_comes_before_a_bad_end_only() {
        let killed = Exit::Signal(libc::SIGKILL);
        assert_eq!(ends("sleep 60", &[Signal::KILL]), (true, killed));
        assert_eq!(ends("sleep 0.1; exit 3", &[]), (true, Exit::Code(3)));
        assert_eq!(ends("sleep 0.1; exit 0", &[]), (false, Exit::Code(0)));
    }

    #[test]
    fn signals_reach_a_process_that_is_watched() {
        let script = "trap 'exit 7' TERM; sleep 0.1; while :; do sleep 0.01; done";
        let signals = [Signal::STOP, Signal::CONT];
        assert_eq!(ends("sleep 0.1", &signals), (false, Exit::Code(0)));
        assert!(ends(script, &[Signal::STOP, Signal::KILL]).0);
    }
}
