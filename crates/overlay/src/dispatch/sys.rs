//! Scheduling policy of the calling thread.

use std::io;

/// Lowest real-time priority: above every SCHED_OTHER thread, below all priorities that an administrator assigns.
const MIN_PRIORITY: libc::c_int = 1;

/// Switches the calling thread to SCHED_FIFO, or back to SCHED_OTHER. Errors: it takes `CAP_SYS_NICE`,
/// and a cgroup with real-time runtime.
pub fn set_realtime(on: bool) -> io::Result<()> {
    let (policy, sched_priority) = if on {
        (libc::SCHED_FIFO, MIN_PRIORITY)
    } else {
        (libc::SCHED_OTHER, 0)
    };
    let parameter = libc::sched_param { sched_priority };
    // SAFETY: the kernel reads the structure, which lives until the call is over.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
