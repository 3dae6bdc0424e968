//! The calling thread's place among the others of its processor.

use std::io;

/// The least of the real-time priorities: before every ordinary thread, behind everything that somebody
/// has given a place by hand.
const LEAST: libc::c_int = 1;

/// Makes the calling thread a real-time one, or one like others.
///
/// # Errors
///
/// Not allowed: it takes `CAP_SYS_NICE`, and a control group that has real-time to give.
pub fn set_realtime(on: bool) -> io::Result<()> {
    let (policy, sched_priority) = match on {
        true => (libc::SCHED_FIFO, LEAST),
        false => (libc::SCHED_OTHER, 0),
    };
    let parameter = libc::sched_param { sched_priority };
    // SAFETY: the kernel reads the structure, which lives until the call is over.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
