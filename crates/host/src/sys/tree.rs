//! Removal of directories that nodes have written into.
//!
//! The standard library's removal keeps a descriptor open for each level, so that a node could make a tree that nothing
//! removes, by a few thousand directories within each other. Here a directory that lies deeper than `MAX_DEPTH` is
//! moved to the top first.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, renameat, unlinkat,
};
use rustix::io::Errno;

use super::file::if_there;

const MAX_DEPTH: usize = 16;

/// Removes a directory with all below it, follows no symbolic links, and does not enter mounts at it or below it, which
/// belong to others: these are an error. Not an error if it is gone.
pub fn remove(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL.into());
    };
    // The way to it may have links, such as `/proc/self/fd/N`.
    let parent = Path::new(".").join(parent);
    let opened = openat(CWD, &parent, DIRECTORY - OFlags::NOFOLLOW, Mode::empty());
    let opened = opened.map_err(io::Error::from);
    let opened = opened.and_then(|parent| open_within(parent.as_fd(), name));
    let Some(top) = if_there(opened)? else {
        return Ok(());
    };
    let mut moved = 0;
    loop {
        let before = moved;
        // A duplicate would go on reading where the last one ended.
        empty(open(top.as_fd(), ".")?, top.as_fd(), &mut moved, 0)?;
        if moved == before {
            break;
        }
    }
    match rustix::fs::rmdir(path) {
        Err(Errno::NOENT) => Ok(()),
        result => Ok(result?),
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

fn open(at: BorrowedFd<'_>, path: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    openat(at, path, DIRECTORY, Mode::empty())
}

/// A directory in another, and in the same mount (`openat2(2)`, Linux 5.6).
fn open_within(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    match openat2(at, name, DIRECTORY, Mode::empty(), ResolveFlags::NO_XDEV) {
        Err(Errno::XDEV) => {
            let reason = format!("something is mounted at {}", Path::new(name).display());
            Err(io::Error::other(reason))
        }
        opened => Ok(opened?),
    }
}

/// Removes what is in a directory, except what it moves to the top.
fn empty(
    directory: OwnedFd,
    top: BorrowedFd<'_>,
    moved: &mut usize,
    depth: usize,
) -> io::Result<()> {
    let mut entries = Dir::new(directory)?;
    // All are read first: a directory that shrinks meanwhile may hide some.
    let mut names: Vec<(CString, FileType)> = Vec::new();
    for entry in entries.by_ref() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    let directory = entries.fd()?;
    for (name, kind) in names {
        if kind != FileType::Directory {
            match unlinkat(directory, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(Errno::ISDIR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        // Most directories of a lab are empty, and to read one costs six times as much.
        match unlinkat(directory, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY) => {}
            Err(errno) => return Err(errno.into()),
        }
        if depth == MAX_DEPTH {
            move_to_top(directory, &name, top, moved)?;
            continue;
        }
        let inner = open_within(directory, OsStr::from_bytes(name.to_bytes()))?;
        empty(inner, top, moved, depth + 1)?;
        match unlinkat(directory, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Gives it a name that nothing there has.
fn move_to_top(
    directory: BorrowedFd<'_>,
    name: &CString,
    top: BorrowedFd<'_>,
    moved: &mut usize,
) -> io::Result<()> {
    loop {
        *moved += 1;
        match renameat(directory, name, top, format!(".removed-{moved}")) {
            // An entry of a node's own, or one of an earlier removal that was cut off.
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            result => return Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::process::Command;

    use rustix::fs::mkdirat;
    use rustix::process::{Resource, getrlimit};

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("latlab-tree-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        path
    }

    /// Directories within each other, deeper than a process may open at once, and than a path may be long.
    fn dig(from: &Path, levels: usize) {
        let mut at = open(CWD, from).unwrap();
        for _ in 0..levels {
            mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = open(at.as_fd(), "d").unwrap();
        }
    }

    /// In a process that may open few: the time that it takes to move directories grows with the square of their depth.
    #[test]
    fn a_tree_deeper_than_there_are_descriptors_is_removed() {
        const NAME: &str = "sys::tree::tests::a_tree_deeper_than_there_are_descriptors_is_removed";
        const MAX_OPEN: usize = 2000;
        if getrlimit(Resource::Nofile).current != Some(MAX_OPEN as u64) {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("ulimit -n {MAX_OPEN} && exec \"$@\""), "sh"]);
            shell.arg(std::env::current_exe().unwrap());
            let ended = shell.args(["--exact", NAME]).output().unwrap();
            let said = String::from_utf8_lossy(&ended.stdout);
            assert!(said.contains("ok. 1 passed"), "{ended:?}");
            return;
        }
        let at = scratch("deep");
        dig(&at, MAX_OPEN + 1000);
        fs::create_dir_all(at.join("other/.removed-1/x")).unwrap();
        fs::write(at.join(".removed-2"), "").unwrap();
        remove(&at).unwrap();
        assert!(!at.exists());
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let (at, outside) = (scratch("links"), scratch("outside"));
        fs::write(outside.join("kept"), "x").unwrap();
        symlink(&outside, at.join("link")).unwrap();
        fs::create_dir(at.join("sub")).unwrap();
        symlink(&outside, at.join("sub/link")).unwrap();
        remove(&at).unwrap();
        assert!(!at.exists() && outside.join("kept").exists());
        // One itself is no directory to remove.
        symlink(&outside, &at).unwrap();
        assert!(remove(&at).is_err());
        fs::remove_file(&at).unwrap();
        remove(&outside).unwrap();
    }

    #[test]
    fn one_that_is_gone_is_no_error() {
        remove(Path::new("/nonexistent/latlab")).unwrap();
    }
}
