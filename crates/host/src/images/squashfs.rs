//! Writing a directory as a file system image (squashfs). The same directory makes the same bytes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sys::command;
use crate::sys::file::if_there;

/// The program that writes images; of the package squashfs-tools.
pub(crate) const PROGRAM: &str = "mksquashfs";
/// Time for an image of a few gigabytes on a slow disk.
const TIMEOUT: Duration = Duration::from_secs(1800);
const OPTIONS: [&str; 5] = ["-no-progress", "-quiet", "-noappend", "-mkfs-time", "0"];

/// Neither inodes, data blocks, fragments nor extended attributes are compressed.
pub(crate) const PLAIN: &[&str] = &["-noI", "-noD", "-noF", "-noX"];
/// Compressed, and with no times of files, which differ between two copies of one directory.
pub(crate) const COMPRESSED: &[&str] = &["-comp", "zstd", "-all-time", "0"];

/// Writes the image in a new file, or in the place of an old one, without these absolute paths.
pub(crate) fn write(
    directory: &Path,
    to: &Path,
    left_out: &[PathBuf],
    options: &[&str],
) -> io::Result<()> {
    if_there(fs::remove_file(to))?;
    let excluded = to.with_extension("excluded");
    let mut list = File::create(&excluded)?;
    for path in left_out {
        list.write_all(path.as_os_str().as_bytes())?;
        list.write_all(b"\n")?;
    }
    drop(list);
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let words = [text(directory), text(to), "-ef".into(), text(&excluded)];
    let words = words.iter().map(String::as_str);
    let words: Vec<&str> = words
        .chain(OPTIONS)
        .chain(options.iter().copied())
        .collect();
    let made = command::output(OsStr::new(PROGRAM), &words, "", TIMEOUT);
    let removed = fs::remove_file(&excluded);
    made?;
    removed
}
