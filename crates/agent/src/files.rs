//! A file that the host writes in a guest: an ordinary session, so that the channel needs no messages for files and
//! their data is under the same flow control as everything else.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

pub fn put(path: &str) -> Result<(), String> {
    write(path, &mut io::stdin().lock()).map_err(|error| format!("put {path}: {error}"))
}

/// Writes a new file that takes `path` when it is whole: a reader never sees half of it, and a move that breaks off
/// leaves what was there before.
pub fn write(path: &str, content: &mut impl Read) -> io::Result<()> {
    let target = Path::new(path);
    let (Some(name), Some(parent)) = (target.file_name(), target.parent()) else {
        return Err(io::Error::other("not the path of a file"));
    };
    let mut partial = OsString::from(".");
    partial.push(name);
    partial.push(format!(".{}", std::process::id()));
    let partial = parent.join(partial);
    let mut write = || {
        fs::create_dir_all(parent)?;
        io::copy(content, &mut fs::File::create(&partial)?)?;
        fs::rename(&partial, target)
    };
    let result: io::Result<()> = write();
    if result.is_err() {
        // The partial file is worthless and the error is already on its way.
        let _ = fs::remove_file(&partial);
    }
    result
}
