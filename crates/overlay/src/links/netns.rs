//! Work in another network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Does `work` in the namespace of a file, on a thread that ends with it; without a file, here. Errors: a file that is
/// no network namespace, or one that the caller may not enter.
pub fn inside<T: Send>(netns: Option<&Path>, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let Some(file) = netns else {
        return Ok(work());
    };
    let file = File::open(file)?;
    let enter = || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(work())
    };
    std::thread::scope(|scope| match scope.spawn(enter).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
