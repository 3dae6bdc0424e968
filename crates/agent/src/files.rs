//! File moves: the host runs `put` and `get` as ordinary sessions, so that the channel needs no
//! messages for files and their data is under the same flow control as everything else.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes standard input to a new file beside `path` and renames it there, so that a reader never sees
/// half of it, and a move that breaks off leaves what was there before.
pub fn put(path: &str, mode: &str) -> Result<(), String> {
    let mode = u32::from_str_radix(mode, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| {
            format!("put {path}: mode '{mode}' is not an octal file mode such as 644")
        })?;
    let target = Path::new(path);
    let (Some(name), Some(parent)) = (target.file_name(), target.parent()) else {
        return Err(format!("put {path}: not the path of a file"));
    };
    if !parent.as_os_str().is_empty() {
        fs::create_dir_all(parent).map_err(|e| format!("put {path}: make its directory: {e}"))?;
    }
    let mut partial = std::ffi::OsString::from(".");
    partial.push(name);
    partial.push(format!(".{}", std::process::id()));
    let partial = parent.join(partial);
    let result = write_and_rename(&partial, target, mode);
    if result.is_err() {
        // The partial file is worthless and the error is already on its way.
        let _ = fs::remove_file(&partial);
    }
    result.map_err(|e| format!("put {path}: {e}"))
}

fn write_and_rename(partial: &Path, target: &Path, mode: u32) -> io::Result<()> {
    let mut file = fs::File::create(partial)?;
    io::copy(&mut io::stdin().lock(), &mut file)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    fs::rename(partial, target)
}

/// Writes the file at `path` to standard output.
pub fn get(path: &str) -> Result<(), String> {
    let mut file = fs::File::open(path).map_err(|e| format!("get {path}: {e}"))?;
    let mut out = io::stdout().lock();
    io::copy(&mut file, &mut out)
        .and_then(|_| out.flush())
        .map_err(|e| format!("get {path}: {e}"))
}
