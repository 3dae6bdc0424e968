//! Files of a run directory, opened relative to the directory's descriptor. A user who may write the
//! directory, or one above it, can plant symbolic links, pipes and other directories against a latlab that
//! runs as root (CWE-59). Therefore files are created anew in a directory that no link led to, and only
//! regular files are read, which no link leads out of (openat2(2), RESOLVE_BENEATH).

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Attempts to create a file under a name that is taken again and again.
const MAX_ATTEMPTS: usize = 100;

#[derive(Debug, Clone)]
pub struct Place {
    /// The run directory, with the name relative to it; `None` for a path from the user.
    below: Option<(Arc<OwnedFd>, PathBuf)>,
    path: PathBuf,
}

impl Place {
    pub(crate) fn new(directory: &Arc<OwnedFd>, root: &Path, name: &str) -> Self {
        Self {
            below: Some((Arc::clone(directory), name.into())),
            path: root.join(name),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn open(&self) -> io::Result<File> {
        let Some((directory, name)) = &self.below else {
            return File::open(&self.path);
        };
        // Not blocking: a pipe without a writer would block for ever.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = rustix::fs::openat2(directory, name, flags, Mode::empty(), beneath)?;
        match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(file.into()),
            FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
            _ => Err(io::Error::other("it is no regular file")),
        }
    }

    pub(crate) fn create(&self) -> io::Result<File> {
        match self.parent()? {
            Some((parent, name)) => create(&parent, &name),
            None => File::create(&self.path),
        }
    }

    /// Replaces the file atomically: readers see the old contents or the new, also after a power failure.
    pub(crate) fn replace(&self, contents: &[u8]) -> io::Result<()> {
        let (parent, name) = match self.parent()? {
            Some(found) => found,
            None => {
                let parent = File::open(above(&self.path))?;
                (parent.into(), file_name(&self.path)?)
            }
        };
        let beside = PathBuf::from(format!(".{}.new", name.display()));
        let write = || {
            let mut file = create(&parent, &beside)?;
            file.write_all(contents)?;
            file.sync_all()?;
            rustix::fs::renameat(&parent, &beside, &parent, &name)?;
            // The rename itself is durable only once the directory is.
            rustix::fs::fsync(&parent).map_err(io::Error::from)
        };
        let written = write();
        if written.is_err() {
            // Best effort: the write has failed, and its remains are of no use.
            let _ = rustix::fs::unlinkat(&parent, &beside, AtFlags::empty());
        }
        written
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        match self.parent()? {
            Some((parent, name)) => {
                rustix::fs::unlinkat(&parent, name, AtFlags::empty()).map_err(io::Error::from)
            }
            None => std::fs::remove_file(&self.path),
        }
    }

    /// The file's directory, opened, and its name there.
    fn parent(&self) -> io::Result<Option<(OwnedFd, PathBuf)>> {
        let Some((directory, name)) = &self.below else {
            return Ok(None);
        };
        let opened = directory_below(directory, above(name))?;
        Ok(Some((opened, file_name(name)?)))
    }
}

impl<P: AsRef<Path>> From<P> for Place {
    fn from(path: P) -> Self {
        Self {
            below: None,
            path: path.as_ref().to_path_buf(),
        }
    }
}

impl From<&Place> for Place {
    fn from(place: &Place) -> Self {
        place.clone()
    }
}

/// Opens a directory of a run directory, to which no link leads.
pub(crate) fn directory_below(directory: &OwnedFd, name: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let plain = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(rustix::fs::openat2(
        directory,
        name,
        flags,
        Mode::empty(),
        plain,
    )?)
}

/// The directory of a file.
pub(crate) fn above(path: &Path) -> &Path {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

fn file_name(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().map(PathBuf::from);
    name.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Never through an existing name: a link would lead elsewhere, and a hard link change another file.
fn create(parent: &OwnedFd, name: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..MAX_ATTEMPTS {
        match rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => return Ok(file.into()),
            Err(Errno::EXIST) => match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            },
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(Errno::EXIST.into())
}
