//! A thread that watches the others: dispatchers ten times a second, interrupts of guests forty times.
//!
//! A dispatcher notes the port that it polls (one relaxed store a poll, to a private cache line), and so does a thread
//! that is about to interrupt a guest. Neither reads a clock or takes a lock.
//!
//! **Dispatchers.** Wall time does not tell a hung dispatcher from a stopped process, a CPU taken by the hypervisor, or a
//! thread behind others. So an endless loop is judged by the thread's CPU time (`pthread_getcpuclockid`), and a wait
//! inside the kernel by its state in `/proc` at each tick; the watchdog stands still when the process does. A thread
//! that is ready to run, or held by a debugger, is never judged. A long poll is reported and counted at its port. An
//! endless one ends the process with code 70 (`EX_SOFTWARE`, sysexits.h) and the reason, and so does a panic. The lab
//! starts the daemon again from its configuration; the kernel path goes on meanwhile.
//!
//! **Interrupts.** The eventfd with which a guest is interrupted belongs to its monitor. The monitor may clear O_NONBLOCK
//! and fill it: that flag is a property of the open file, not of our descriptor. Linux has no write to an eventfd that
//! never waits (RWF_NOWAIT needs `write_iter`, which eventfds lack), and polling first leaves a race. A write that is in
//! progress at two ticks gets a signal, returns EINTR and ends the guest's connection.
//!
//! - `beat`: a dispatcher's sign of life and its check; `interrupt`: the same of threads that interrupt guests
//! - `judge`: the judgement of a dispatcher (pure); `thread`: the watchdog's thread
//! - `process`: the end of the process

mod beat;
mod interrupt;
mod judge;
mod process;
mod sys;
mod thread;

pub use beat::Beat;
pub use interrupt::{Blocked, notify};
pub use process::{EXIT_CODE, guard_process};
