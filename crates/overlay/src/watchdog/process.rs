//! The end of a process of which a part does not work any more.

use std::sync::atomic::{AtomicBool, Ordering};

use super::sys;

/// The code with which the process ends: an internal error (`EX_SOFTWARE`, sysexits.h).
pub const EXIT_CODE: i32 = 70;

static GUARDED: AtomicBool = AtomicBool::new(false);

/// From now on a panic in any thread, and a dispatcher that hangs, end the process with [`EXIT_CODE`]: half a switch
/// would look like a whole one, and started again it is whole.
pub fn guard_process() {
    GUARDED.store(true, Ordering::Release);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        end("a thread has panicked");
    }));
}

/// Says why and ends the process, if it is guarded. Nothing is waited for: other threads may hold any lock.
pub(super) fn end(reason: &str) {
    eprintln!(
        "error: {reason}\n  hint: start the daemon again with its configuration; what the kernel carries goes on"
    );
    if GUARDED.load(Ordering::Acquire) {
        sys::exit_now(EXIT_CODE);
    }
}
