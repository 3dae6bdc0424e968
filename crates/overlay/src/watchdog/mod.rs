//! A thread that sees whether the others get on: dispatchers ten times a second, interrupts of guests forty times, and
//! only by what they say anyway.
//!
//! A dispatcher writes down at which port it is (one relaxed store a look, to a cache line of its own), and so does a
//! thread that is about to interrupt a guest. Neither asks a clock, and nobody waits for anybody.
//!
//! **Dispatchers.** One that is at the same look as before gets on or does not, and wall time does not say which: the
//! process may have been stopped, its CPU taken by the hypervisor, or the thread put behind others. So an endless loop
//! is judged by the CPU time of the thread itself (`pthread_getcpuclockid`), and one that waits inside the kernel by
//! its state in `/proc` at every tick of the watchdog, which stands still when the process does. A thread that
//! could run and may not, or that a debugger holds, is never judged. A look that takes long is told and counted at
//! its port; one without an end ends the process, and so does a panic: with code 70 (`EX_SOFTWARE`, sysexits.h) and the
//! reason, for whoever started the daemon to start it again. Its configuration says all of it, and the kernel's path
//! goes on meanwhile.
//!
//! **Interrupts.** The eventfd with which a guest is interrupted is its monitor's, who may take O_NONBLOCK from it and
//! fill it: that flag belongs to the open file, not to our descriptor. Linux has no write to an eventfd that never
//! waits whatever the flag (RWF_NOWAIT needs `write_iter`, which eventfds have not), and to ask first leaves a gap. A
//! write that is still the same at the next tick gets a signal, returns EINTR and ends the guest's connection.
//!
//! - `beat`: what a dispatcher says; `interrupt`: what a thread says that interrupts guests
//! - `judge`: what is made of it (pure); `thread`: the watchdog
//! - `process`: the end

mod beat;
mod interrupt;
mod judge;
mod process;
mod sys;
mod thread;

pub use beat::Beat;
pub use interrupt::{Blocked, notify};
pub use process::{EXIT_CODE, guard_process};
