//! A file that the host writes in a guest: an ordinary session, so that the channel needs no messages for files and
//! their data is under the same flow control as everything else.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

/// Writes standard input to a new file that takes `path` when it is whole: a reader never sees half of it, and a move
/// that breaks off leaves what was there before.
pub fn put(path: &str) -> Result<(), String> {
    let target = Path::new(path);
    let (Some(name), Some(parent)) = (target.file_name(), target.parent()) else {
        return Err(format!("put {path}: not the path of a file"));
    };
    let mut partial = OsString::from(".");
    partial.push(name);
    partial.push(format!(".{}", std::process::id()));
    let partial = parent.join(partial);
    let write = || {
        fs::create_dir_all(parent)?;
        io::copy(&mut io::stdin().lock(), &mut fs::File::create(&partial)?)?;
        fs::rename(&partial, target)
    };
    let result: io::Result<()> = write();
    if result.is_err() {
        // The partial file is worthless and the error is already on its way.
        let _ = fs::remove_file(&partial);
    }
    result.map_err(|error| format!("put {path}: {error}"))
}
