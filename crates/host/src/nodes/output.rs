//! Files for the outputs of commands that no latlab waits for.

use std::fs::File;
use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::sys;

/// More are not made in one directory.
const MAX_FILES: u32 = 100_000;

/// Makes the first of `1.log`, `2.log`, ... that is not there yet, to be appended to. A name that is a link is taken: a
/// node may write in its directory.
pub(super) fn new_file(directory: BorrowedFd<'_>) -> Result<(String, File), sys::Error> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    for number in 1..MAX_FILES {
        let name = format!("{number}.log");
        match rustix::fs::openat(directory, &name, flags, Mode::RUSR | Mode::WUSR) {
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(sys::Error::of("make", name)(errno)),
            Ok(file) => return Ok((name, File::from(file))),
        }
    }
    Err(sys::Error::of("make", "a file for its output")(
        Errno::EXIST,
    ))
}
