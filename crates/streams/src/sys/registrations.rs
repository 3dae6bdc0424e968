//! Registrations in epoll sets, moved from an anchor to its shadow.
//!
//! A registration's name is the file *and* the number at which it was when it was added. So both steps are made where the
//! file is at the program's number: in a thread with a table of descriptors of its own.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::thread;

use rustix::event::epoll::{EventData, EventFlags, add, delete};
use rustix::io::{Errno, dup2, fcntl_dupfd_cloexec};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::task::Task;
use crate::descriptors::Registration;

/// Moves those that can be moved. One that cannot is lost, as for a file that is closed.
pub fn move_all(
    task: &Task,
    number: RawFd,
    anchor: BorrowedFd<'_>,
    shadow: BorrowedFd<'_>,
    registrations: &[Registration],
) {
    for registration in registrations {
        let Ok(set) = task.file(registration.set) else {
            continue;
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: this thread alone has the new table, in which the numbers are the same; no other thread's
                // descriptor is closed by what follows.
                unsafe { unshare_unsafe(UnshareFlags::FILES) }?;
                move_one(&set, number, anchor, shadow, registration)
            });
        });
    }
}

fn move_one(
    set: &OwnedFd,
    number: RawFd,
    anchor: BorrowedFd<'_>,
    shadow: BorrowedFd<'_>,
    registration: &Registration,
) -> Result<(), Errno> {
    // Away from the number that is about to be taken.
    let above = number.saturating_add(1);
    let set = fcntl_dupfd_cloexec(set, above)?;
    let anchor = fcntl_dupfd_cloexec(anchor, above)?;
    let shadow = fcntl_dupfd_cloexec(shadow, above)?;
    // SAFETY: whatever is at that number in this thread's own table is replaced on purpose, and the table ends with
    // the thread; forgotten below, it is closed once.
    let mut at_number = unsafe { OwnedFd::from_raw_fd(number) };
    let moved = dup2(&anchor, &mut at_number).and_then(|()| {
        delete(&set, &at_number)?;
        dup2(&shadow, &mut at_number)?;
        let events = EventFlags::from_bits_retain(registration.events);
        let data = EventData::new_u64(registration.data);
        add(&set, &at_number, data, events)
    });
    debug_assert_eq!(at_number.as_raw_fd(), number);
    std::mem::forget(at_number);
    moved
}
