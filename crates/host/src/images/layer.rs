//! One layer: a tar of what changed, applied to a root directory.
//!
//! A layer is read twice. The first reading verifies its digests and collects what it takes away
//! from the layers below (whiteouts); the second writes what it adds. So nothing unverified is
//! ever written, and a whiteout acts on lower layers only, wherever in the layer it stands.
//!
//! Every path is resolved by the kernel inside the root (`openat2` with `RESOLVE_IN_ROOT`): a
//! symbolic link to `/etc` made by one layer leads the next one to the image's `/etc`, as it does
//! inside the container, and `..` cannot leave. Links and devices are made by name below a
//! directory so found, never through the last component.
//! Source: OCI Image Format Specification 1.1, "Image Layer Filesystem Changeset".

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use tar::EntryType;

use super::budget::{Budget, Meter, Metered, check_name};
use crate::sys::tree;

/// Prefix of a member that removes the lower one of the rest of its name.
const WHITEOUT: &[u8] = b".wh.";

/// Member that hides everything lower layers hold in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Prefix of members that only old union file systems understood.
const LEGACY: &[u8] = b".wh..wh.";

/// Something lower layers hold that a layer takes away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Whiteout {
    /// The path and all below it.
    Path(PathBuf),
    /// All in the directory, but not the directory.
    Contents(PathBuf),
}

/// First reading: the whiteouts. Whether there is room for the layer is found here, too.
pub(super) fn scan(source: impl Read, budget: &mut Budget) -> Result<Vec<Whiteout>, String> {
    let mut whiteouts = Vec::new();
    members(source, budget, |path, _| {
        whiteouts.extend(whiteout(path)?);
        Ok(())
    })?;
    Ok(whiteouts)
}

/// Calls `each` with every member that has a name, in their order, as long as the budget lasts.
fn members<R: Read>(
    source: R,
    budget: &mut Budget,
    mut each: impl FnMut(&Path, &mut tar::Entry<'_, Metered<R>>) -> Result<(), String>,
) -> Result<(), String> {
    let meter = Meter::default();
    meter.allow_description();
    let mut tar = tar::Archive::new(meter.of(source));
    for entry in tar.entries().map_err(|e| e.to_string())? {
        let mut entry = entry.map_err(|e| e.to_string())?;
        budget.take(&entry.path_bytes(), entry.size())?;
        check_name(&entry.link_name_bytes().unwrap_or_default())?;
        meter.allow(entry.size());
        if let Some(path) = clean(&entry.path_bytes())? {
            each(&path, &mut entry)?;
        }
        // The reader would skip the rest together with reading the next description.
        io::copy(&mut entry, &mut io::sink()).map_err(|e| e.to_string())?;
        meter.allow_description();
    }
    Ok(())
}

fn whiteout(path: &Path) -> Result<Option<Whiteout>, String> {
    let Some(name) = path.file_name().map(OsStr::as_bytes) else {
        return Ok(None);
    };
    let parent = path.parent().unwrap_or(Path::new(""));
    if name == OPAQUE {
        return Ok(Some(Whiteout::Contents(parent.to_owned())));
    }
    let Some(hidden) = name.strip_prefix(WHITEOUT) else {
        return Ok(None);
    };
    if name.starts_with(LEGACY) {
        return Ok(None);
    }
    // `.wh...` would name the directory itself or the one above.
    if matches!(hidden, b"" | b"." | b"..") {
        let path = path.display();
        return Err(format!("`{path}` removes nothing that has a name"));
    }
    let hidden = parent.join(OsStr::from_bytes(hidden));
    Ok(Some(Whiteout::Path(hidden)))
}

pub(super) fn remove(root: BorrowedFd<'_>, whiteouts: &[Whiteout]) -> Result<(), String> {
    for whiteout in whiteouts {
        let (path, result) = match whiteout {
            Whiteout::Path(path) => (path, remove_path(root, path)),
            Whiteout::Contents(path) => (path, remove_contents(root, path)),
        };
        match result {
            // Also a file in the place of a directory holds nothing of that name.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            result => result.map_err(|e| format!("cannot remove `{}`: {e}", path.display()))?,
        }
    }
    Ok(())
}

fn remove_path(root: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let parent = open_dir(root, path.parent().unwrap_or(Path::new("")))?;
    remove_entry(&parent, name)
}

/// A link or a file below is not touched: the directory that hides it takes its place in the second reading. The contents
/// of a directory that such a link leads to have names of their own.
fn remove_contents(root: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let parent = open_dir(root, path.parent().unwrap_or(Path::new("")))?;
    let name = path.file_name().unwrap_or(OsStr::new("."));
    let stat = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if !FileType::from_raw_mode(stat.st_mode).is_dir() {
        return Ok(());
    }
    let dir = open_dir(parent.as_fd(), Path::new(name))?;
    let names: Vec<OsString> = fs::read_dir(through_fd(&dir))?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<io::Result<_>>()?;
    names.iter().try_for_each(|name| remove_entry(&dir, name))
}

/// Removes `name` in `dir`, with all below it if it is a directory; links are not followed.
fn remove_entry(dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode).is_dir() {
        tree::remove(&through_fd(dir).join(name))
    } else {
        Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?)
    }
}

/// A path for functions that take no directory descriptor.
fn through_fd(dir: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()))
}

/// Second reading: writes what the layer adds below `root`.
pub(super) fn extract(
    root: BorrowedFd<'_>,
    source: impl Read,
    budget: &mut Budget,
) -> Result<(), String> {
    let mut directories = Vec::new();
    members(source, budget, |path, entry| {
        let name = path.file_name().map(OsStr::as_bytes);
        if name.is_some_and(|name| name.starts_with(WHITEOUT)) {
            return Ok(());
        }
        add(root, path, entry).map_err(|e| format!("cannot unpack `{}`: {e}", path.display()))?;
        if entry.header().entry_type().is_dir() {
            directories.push((path.to_owned(), entry.header().mtime().unwrap_or(0)));
        }
        Ok(())
    })?;
    // Adding to a directory touched its time, so those are set last.
    for (path, mtime) in directories {
        let set = open_dir(root, &path).and_then(|dir| set_time(&dir, OsStr::new("."), mtime));
        set.map_err(|e| format!("cannot set the time of `{}`: {e}", path.display()))?;
    }
    Ok(())
}

fn add<R: Read>(
    root: BorrowedFd<'_>,
    path: &Path,
    entry: &mut tar::Entry<'_, R>,
) -> io::Result<()> {
    let kind = entry.header().entry_type();
    if kind.is_pax_global_extensions() {
        return Ok(());
    }
    let Some(name) = path.file_name() else {
        // The root itself: only its mode and owner can change.
        return if kind.is_dir() {
            let root = open_dir(root, Path::new(""))?;
            set_metadata(&root, OsStr::new("."), entry)
        } else {
            Err(invalid("the root of an image must be a directory"))
        };
    };
    let parent = make_dir(root, path.parent().unwrap_or(Path::new("")))?;
    let existing = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let keep = kind.is_dir()
        && existing.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
    if existing.is_some() && !keep {
        remove_entry(&parent, name)?;
    }
    match kind {
        EntryType::Directory if keep => {}
        EntryType::Directory => rustix::fs::mkdirat(&parent, name, Mode::RWXU)?,
        kind if has_bytes(kind) => write_file(&parent, name, entry)?,
        EntryType::Symlink => {
            let target = link_target(entry)?;
            rustix::fs::symlinkat(target, &parent, name)?;
        }
        EntryType::Link => {
            hard_link(root, &parent, name, &link_target(entry)?)?;
            // Mode and owner are those of the file linked to.
            return Ok(());
        }
        EntryType::Char | EntryType::Block | EntryType::Fifo => make_node(&parent, name, entry)?,
        other => {
            return Err(invalid(&format!(
                "members of type {other:?} are not understood"
            )));
        }
    }
    set_metadata(&parent, name, entry)
}

/// Whether a member of this type is a regular file.
fn has_bytes(kind: EntryType) -> bool {
    matches!(
        kind,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse
    )
}

/// Links `name` in `parent` to the file that the image has at `target`.
fn hard_link(
    root: BorrowedFd<'_>,
    parent: &OwnedFd,
    name: &OsStr,
    target: &OsStr,
) -> io::Result<()> {
    let target = clean(target.as_bytes()).map_err(io::Error::other)?;
    let target = target.ok_or_else(|| invalid("a hard link to nothing"))?;
    let target_name = target
        .file_name()
        .ok_or_else(|| invalid("a hard link to `/`"))?;
    let target_dir = open_dir(root, target.parent().unwrap_or(Path::new("")))?;
    Ok(rustix::fs::linkat(
        &target_dir,
        target_name,
        parent,
        name,
        AtFlags::empty(),
    )?)
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason.to_owned())
}

fn link_target<R: Read>(entry: &tar::Entry<'_, R>) -> io::Result<OsString> {
    let target = entry
        .link_name_bytes()
        .ok_or_else(|| invalid("a link without a target"))?;
    Ok(OsString::from_vec(target.into_owned()))
}

fn write_file<R: Read>(
    parent: &OwnedFd,
    name: &OsStr,
    entry: &mut tar::Entry<'_, R>,
) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let mut file = File::from(rustix::fs::openat(parent, name, flags, mode)?);
    let size = entry.size();
    let written = io::copy(entry, &mut file)?;
    if written < size {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    // File capabilities vanish when the owner changes, so the owner comes first.
    set_owner(parent, name, entry)?;
    let Some(extensions) = entry.pax_extensions()? else {
        return Ok(());
    };
    for extension in extensions {
        let extension = extension?;
        let Some(key) = extension
            .key()
            .ok()
            .and_then(|k| k.strip_prefix("SCHILY.xattr."))
        else {
            continue;
        };
        // `trusted.overlay.*` would steer the overlay the image becomes a part of.
        if key == "security.capability" || key.starts_with("user.") {
            rustix::fs::fsetxattr(&file, key, extension.value_bytes(), XattrFlags::empty())?;
        }
    }
    Ok(())
}

/// Makes a FIFO, or the device 0:0 by which overlays mark what is removed. Images bring no other
/// devices: those of a node come from its runtime.
fn make_node<R: Read>(parent: &OwnedFd, name: &OsStr, entry: &tar::Entry<'_, R>) -> io::Result<()> {
    let header = entry.header();
    let kind = match header.entry_type() {
        EntryType::Fifo => FileType::Fifo,
        kind => {
            let numbers = (header.device_major()?, header.device_minor()?);
            let is_first = numbers.0.unwrap_or(0) == 0 && numbers.1.unwrap_or(0) == 0;
            if kind != EntryType::Char || !is_first {
                return Err(invalid("it is a device, which images may not bring"));
            }
            FileType::CharacterDevice
        }
    };
    let mode = Mode::RUSR | Mode::WUSR;
    Ok(rustix::fs::mknodat(parent, name, kind, mode, 0)?)
}

fn set_owner<R: Read>(parent: &OwnedFd, name: &OsStr, entry: &tar::Entry<'_, R>) -> io::Result<()> {
    // Only root can give files away. Others unpack, in tests, files of their own.
    if rustix::process::geteuid().is_root() {
        let id = |id: io::Result<u64>| {
            u32::try_from(id?)
                .ok()
                .filter(|id| *id != u32::MAX)
                .ok_or_else(|| invalid("an owner"))
        };
        let header = entry.header();
        let uid = Uid::from_raw(id(number(&header.as_old().uid, header.uid()))?);
        let gid = Gid::from_raw(id(number(&header.as_old().gid, header.gid()))?);
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(parent, name, Some(uid), Some(gid), flags)?;
    }
    Ok(())
}

/// A header's number as the crate reads it, except that a blank field is zero, as for other readers.
fn number(raw: &[u8], parsed: io::Result<u64>) -> io::Result<u64> {
    if raw.iter().all(|byte| matches!(byte, 0 | b' ')) {
        return Ok(0);
    }
    parsed
}

fn set_metadata<R: Read>(
    parent: &OwnedFd,
    name: &OsStr,
    entry: &tar::Entry<'_, R>,
) -> io::Result<()> {
    let header = entry.header();
    if !has_bytes(header.entry_type()) {
        set_owner(parent, name, entry)?;
    }
    if !header.entry_type().is_symlink() {
        // Set-user-id bits vanish when the owner changes, so the mode comes after.
        let mode = Mode::from_raw_mode(header.mode()? & 0o7777);
        rustix::fs::chmodat(parent, name, mode, AtFlags::empty())?;
    }
    let mtime = number(&header.as_old().mtime, header.mtime())?;
    set_time(parent, name, mtime)
}

fn set_time(parent: &OwnedFd, name: &OsStr, mtime_s: u64) -> io::Result<()> {
    let time = Timespec {
        tv_sec: i64::try_from(mtime_s).unwrap_or(0),
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    Ok(rustix::fs::utimensat(
        parent,
        name,
        &times,
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

fn open_dir(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(
        root,
        path,
        flags,
        Mode::empty(),
        resolve,
    )?)
}

/// Opens the directory `path` of the image, making what is missing of it.
fn make_dir(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    match open_dir(root, path) {
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        result => return result,
    }
    let mut at = PathBuf::new();
    let mut dir = open_dir(root, &at)?;
    for part in path.components() {
        at.push(part);
        dir = match open_dir(root, &at) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                // A dangling symbolic link is in the way (EEXIST) or nothing is.
                rustix::fs::mkdirat(&dir, part.as_os_str(), Mode::from_raw_mode(0o755))?;
                open_dir(root, &at)?
            }
            result => result?,
        };
    }
    Ok(dir)
}

/// A member's path relative to the root; empty for the root, `None` for a nameless member.
fn clean(bytes: &[u8]) -> Result<Option<PathBuf>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut path = PathBuf::new();
    for component in Path::new(OsStr::from_bytes(bytes)).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                let name = String::from_utf8_lossy(bytes);
                return Err(format!("`{name}` points out of the image"));
            }
        }
    }
    Ok(Some(path))
}

#[cfg(test)]
#[path = "layer_tests.rs"]
mod tests;
