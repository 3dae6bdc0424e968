//! Files that must be whole or absent, and locks that vanish with their holder.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::de::DeserializeOwned;

use super::Error;

/// Between two attempts at a lock that another process holds.
const LOCK_RETRY: Duration = Duration::from_millis(10);

/// Numbers temporary files, so that two threads may write the same path.
static WRITES: AtomicU32 = AtomicU32::new(0);

/// Attempts to make a temporary file whose name others take again and again.
const MAX_ATTEMPTS: usize = 100;

/// The outcome of an action; nothing where the file was not there.
pub(crate) fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Writes `bytes` to `path` so that after a crash or power cut the file has either its old content
/// or all of the new: a temporary file beside it, synced, renamed over it, and the directory synced.
pub fn write_atomically(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    replace(path, |temporary| {
        let mut file = create_new(temporary, mode)?;
        file.write_all(bytes)?;
        Ok(file)
    })
}

/// As [`write_atomically`], with the content and the mode of another file.
pub fn copy_atomically(from: &Path, to: &Path) -> Result<(), Error> {
    let mut content = File::open(from).map_err(Error::of("open", from.display()))?;
    replace(to, |temporary| {
        let mode = content.metadata()?.mode() & 0o777;
        let mut file = create_new(temporary, mode)?;
        io::copy(&mut content, &mut file)?;
        Ok(file)
    })
}

/// Whether a file may be put in the place of what has this name. The name of a device, a pipe or a socket would stand for
/// something else afterwards, and the device would be as it was.
pub fn is_replaceable(path: &Path) -> io::Result<bool> {
    Ok(if_there(fs::metadata(path))?.is_none_or(|there| there.is_file()))
}

/// The directory that has a file: the working directory for a name alone.
pub fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Puts the file that `write` makes in the place of another one, which stays as it is if that fails.
fn replace(path: &Path, write: impl FnOnce(&Path) -> io::Result<File>) -> Result<(), Error> {
    let failed = |error: io::Error| Error::of("write", path.display())(error);
    let directory = directory_of(path);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    let number = WRITES.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}.{number}.tmp", std::process::id()));
    let temporary = directory.join(name);
    let written = write(&temporary)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| sync_directory(directory));
    if written.is_err() {
        // Absent if the rename was done; otherwise the name is only ours.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(failed)
}

/// Gives a directory that was filled under another name its own. Its contents are written out first: after a crash or power
/// cut the name must not stand for half-written files.
pub fn rename_synced(from: &Path, to: &Path) -> io::Result<()> {
    rustix::fs::syncfs(File::open(from)?)?;
    fs::rename(from, to)
}

/// Never through a name that is there: in a directory that others may write, a link would lead elsewhere
/// (open(2), O_EXCL). One that a latlab with this pid left when it was killed is not in use.
fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    for _ in 0..MAX_ATTEMPTS {
        match options.open(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                if_there(fs::remove_file(path))?;
            }
            opened => return opened,
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Makes a directory that only its owner enters, with those above it. One that is there stays as it is.
pub fn make_private(path: &Path) -> io::Result<()> {
    let mut private = DirBuilder::new();
    private.recursive(true).mode(0o700).create(path)
}

/// Removes a file. Not an error if it is gone.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The JSON document in a file; `None` if there is no file.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => Ok(Some(serde_json::from_slice(&read?)?)),
    }
}

/// Makes the names in `directory` durable.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

const ALONE: FlockOperation = FlockOperation::NonBlockingLockExclusive;

fn lock_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    options
}

/// An exclusive lock on a file; released when dropped or when the process dies, however it dies.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, waiting at most `timeout`; `None` if another process still holds it then.
    /// The file is made if need be and never removed: removing it would let two holders in.
    pub fn take(path: &Path, timeout: Duration) -> Result<Option<Self>, Error> {
        Self::wait(&lock_file(), path, ALONE, timeout)
    }

    /// Takes the lock together with others who share it.
    pub fn share(path: &Path, timeout: Duration) -> Result<Option<Self>, Error> {
        let shared = FlockOperation::NonBlockingLockShared;
        Self::wait(&lock_file(), path, shared, timeout)
    }

    /// Takes the lock of a directory that is there.
    pub fn take_directory(path: &Path, timeout: Duration) -> Result<Option<Self>, Error> {
        Self::wait(OpenOptions::new().read(true), path, ALONE, timeout)
    }

    fn wait(
        options: &OpenOptions,
        path: &Path,
        operation: FlockOperation,
        timeout: Duration,
    ) -> Result<Option<Self>, Error> {
        let file = options
            .open(path)
            .map_err(Error::of("open", path.display()))?;
        let deadline = Instant::now() + timeout;
        loop {
            match rustix::fs::flock(&file, operation) {
                Ok(()) => return Ok(Some(Self { _file: file })),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    std::thread::sleep(LOCK_RETRY);
                }
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(errno) => return Err(Error::of("lock", path.display())(errno)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn directory(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("latlab-file-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_write_replaces_the_whole_file_and_leaves_nothing_else() {
        let directory = directory("write");
        let path = directory.join("state.json");
        write_atomically(&path, b"a longer first content", 0o600).unwrap();
        write_atomically(&path, b"second", 0o640).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_link_in_the_place_of_the_temporary_file_is_not_followed() {
        let directory = directory("planted");
        let (path, victim) = (directory.join("state.json"), directory.join("victim"));
        fs::write(&victim, "kept").unwrap();
        // Tests beside this one take numbers too.
        let next = WRITES.load(Ordering::Relaxed);
        for number in next..next + 100 {
            let name = format!("state.json.{}.{number}.tmp", std::process::id());
            std::os::unix::fs::symlink(&victim, directory.join(name)).unwrap();
        }
        write_atomically(&path, b"new", 0o600).unwrap();
        let left = fs::read_dir(&directory).unwrap().count();
        assert_eq!(left, 99 + 2, "one of the links was in the place");
        assert_eq!(fs::read(&victim).unwrap(), b"kept");
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_temporary_one() {
        let directory = directory("fail");
        let path = directory.join("taken");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "kept").unwrap();
        let error = write_atomically(&path, b"new", 0o600).unwrap_err();
        assert!(error.to_string().starts_with("cannot write "), "{error}");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        assert_eq!(fs::read(path.join("inside")).unwrap(), b"kept");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_directory_gets_its_name_with_its_contents_unless_another_has_it() {
        let directory = directory("rename");
        let (from, to) = (directory.join(".work"), directory.join("whole"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("file"), "x").unwrap();
        rename_synced(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("file")).unwrap(), b"x");
        let error = rename_synced(&from, &to).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        fs::create_dir(&from).unwrap();
        let error = rename_synced(&from, &to).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_copy_replaces_a_file_only_when_it_is_whole() {
        let directory = directory("copy");
        let (from, to) = (directory.join("from"), directory.join("to"));
        fs::write(&to, "kept").unwrap();
        // The first page of a process is never mapped: a read of it fails.
        let error = copy_atomically(Path::new("/proc/self/mem"), &to).unwrap_err();
        assert!(error.to_string().starts_with("cannot write "), "{error}");
        assert_eq!(fs::read(&to).unwrap(), b"kept");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::write(&from, "new").unwrap();
        fs::set_permissions(&from, fs::Permissions::from_mode(0o600)).unwrap();
        copy_atomically(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"new");
        let mode = fs::metadata(&to).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn only_a_file_or_nothing_is_replaceable() {
        let directory = directory("replaceable");
        let [file, pipe, link, absent] =
            ["file", "pipe", "link", "absent"].map(|name| directory.join(name));
        fs::write(&file, "").unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        let all = [&file, &absent, &pipe, &link, &directory];
        let all = all.map(|path| is_replaceable(path).unwrap());
        assert_eq!(all, [true, true, false, false, false]);
        assert!(is_replaceable(&file.join("below")).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_lock_keeps_others_out_until_it_is_dropped() {
        let directory = directory("lock");
        let path = directory.join("lock");
        let held = Lock::take(&path, Duration::ZERO).unwrap();
        assert!(held.is_some());
        assert!(Lock::take(&path, Duration::ZERO).unwrap().is_none());
        drop(held);
        // A process that another test starts has the descriptor too, until it begins its program.
        let timeout = Duration::from_secs(10);
        assert!(Lock::take(&path, timeout).unwrap().is_some());
        fs::remove_dir_all(&directory).unwrap();
    }
}
