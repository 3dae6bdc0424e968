//! File moves: the host runs `put` and `get` as ordinary sessions, so that the channel needs no
//! messages for files and their data is under the same flow control as everything else.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// Writes standard input to a new file that takes `path` when it is whole: a reader never sees half of
/// it, and a move that breaks off leaves what was there before.
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
    let parent = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    fs::create_dir_all(parent).map_err(|e| format!("put {path}: make its directory: {e}"))?;
    let mut partial = OsString::from(".");
    partial.push(name);
    partial.push(format!(".{}", std::process::id()));
    let partial = parent.join(partial);
    let result = write_and_rename(parent, &partial, target, mode);
    if result.is_err() {
        // The partial file is worthless and the error is already on its way.
        let _ = fs::remove_file(&partial);
    }
    result.map_err(|e| format!("put {path}: {e}"))
}

/// The file has no name until it is whole, so that not even a kill leaves a part of it behind. Where the
/// file system cannot do that, it has the partial name from the start.
fn write_and_rename(parent: &Path, partial: &Path, target: &Path, mode: u32) -> io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let nameless = rustix::fs::open(parent, flags, Mode::RUSR | Mode::WUSR);
    let named = nameless.is_err();
    let mut file = match nameless {
        Ok(fd) => fs::File::from(fd),
        Err(_) => fs::File::create(partial)?,
    };
    io::copy(&mut io::stdin().lock(), &mut file)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    if !named {
        let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(CWD, itself, CWD, partial, AtFlags::SYMLINK_FOLLOW)?;
    }
    fs::rename(partial, target)
}

pub fn get(path: &str) -> Result<(), String> {
    let mut file = fs::File::open(path).map_err(|e| format!("get {path}: {e}"))?;
    let mut out = io::stdout().lock();
    io::copy(&mut file, &mut out)
        .and_then(|_| out.flush())
        .map_err(|e| format!("get {path}: {e}"))
}
