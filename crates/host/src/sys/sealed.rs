//! Files in memory: sealed programs, and the memory of guests.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{MemfdFlags, SealFlags, SeekFrom};
use rustix::io::Errno;

use super::Error;
use crate::sync;

/// How much one system call copies.
const COPY_BYTES: usize = 16 << 20;

/// A copy of the program `path` in memory, sealed, and made once for all processes that this latlab starts: a process
/// that opens it, by way of `/proc/PID/exe` for example, can neither write nor replace what others execute.
pub fn program(path: &Path) -> Result<Arc<File>, Error> {
    static COPIES: Mutex<BTreeMap<PathBuf, Arc<File>>> = Mutex::new(BTreeMap::new());
    let mut copies = sync::lock(&COPIES);
    if let Some(copy) = copies.get(path) {
        return Ok(Arc::clone(copy));
    }
    let copy = Arc::new(copy_of_program(path)?);
    copies.insert(path.to_owned(), Arc::clone(&copy));
    Ok(copy)
}

fn copy_of_program(path: &Path) -> Result<File, Error> {
    let failed = |source: io::Error| Error::of("copy into memory", path.display())(source);
    let mut original = File::open(path).map_err(failed)?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Without the flag, Linux 6.3 and later may be set to make files that cannot be executed; older
    // ones do not know it (kernel: userspace-api/mfd_noexec).
    let name = path.file_name().unwrap_or_default();
    let made = match rustix::fs::memfd_create(name, flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        made => made,
    };
    let mut copy = File::from(made.map_err(|errno| failed(errno.into()))?);
    io::copy(&mut original, &mut copy).map_err(failed)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&copy, seals).map_err(|errno| failed(errno.into()))?;
    Ok(copy)
}

/// A file in memory with this content, to be read from its begin.
pub fn bytes(content: &[u8]) -> Result<File, Error> {
    let made = rustix::fs::memfd_create("latlab", MemfdFlags::CLOEXEC);
    let mut file = File::from(made.map_err(Error::of("make", "a memory file"))?);
    file.write_all(content)
        .and_then(|()| file.rewind())
        .map_err(Error::of("write", "a memory file"))?;
    Ok(file)
}

/// Copies a file with holes into memory; holes stay holes. A sealed copy can be mapped writable by one process for
/// itself, and changed by none.
pub fn memory(path: &Path, is_sealed: bool) -> Result<File, Error> {
    let failed = |source: io::Error| Error::of("copy into memory", path.display())(source);
    let original = File::open(path).map_err(failed)?;
    let bytes = original.metadata().map_err(failed)?.len();
    let copy = empty_memory(bytes)?;
    copy_sparse(&original, &copy, bytes).map_err(failed)?;
    if is_sealed {
        let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        rustix::fs::fcntl_add_seals(&copy, seals).map_err(|errno| failed(errno.into()))?;
    }
    Ok(copy)
}

/// A file of zeros in memory that several processes write. Its length is sealed: a process that maps it must not fear
/// that another one shortens it (SIGBUS).
pub fn shared_memory(bytes: u64) -> Result<File, Error> {
    let file = empty_memory(bytes)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW;
    rustix::fs::fcntl_add_seals(&file, seals)
        .map_err(Error::of("seal the length of a file in memory of", bytes))?;
    Ok(file)
}

/// A file of zeros in memory.
pub fn empty_memory(bytes: u64) -> Result<File, Error> {
    let failed = |source: io::Error| Error::of("make a file in memory of", bytes)(source);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let made = rustix::fs::memfd_create("latlab-guest", flags);
    let file = File::from(made.map_err(|errno| failed(errno.into()))?);
    file.set_len(bytes).map_err(failed)?;
    Ok(file)
}

/// Copies what is not a hole of the first `bytes` to the same place.
pub fn copy_sparse(from: &File, to: &File, bytes: u64) -> io::Result<()> {
    let mut at = 0;
    while at < bytes {
        let start = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(start) if start < bytes => start,
            // No data behind this place.
            Ok(_) | Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(start))?.min(bytes);
        rustix::fs::seek(to, SeekFrom::Start(start))?;
        let mut source = start;
        while source < end {
            let most = usize::try_from(end - source)
                .unwrap_or(usize::MAX)
                .min(COPY_BYTES);
            match rustix::fs::sendfile(to, from, Some(&mut source), most) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_sealed_program_runs_and_cannot_be_changed_by_any_way_to_it() {
        let mut program = copy_of_program(Path::new("/bin/true")).unwrap();
        let path = format!("/proc/self/fd/{}", program.as_raw_fd());
        assert!(program.write_all(b"x").is_err());
        assert!(program.set_len(0).is_err());
        let again = File::options().write(true).open(&path);
        assert!(again.and_then(|mut file| file.write_all(b"x")).is_err());
        let original = std::fs::read("/bin/true").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), original);
    }

    #[test]
    fn memory_keeps_content_and_holes_and_what_maps_it_changes_its_own_only() {
        let path = std::env::temp_dir().join(format!("latlab-sealed-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        file.write_all(&[7; 5000]).unwrap();
        file.set_len(64 << 20).unwrap();
        rustix::fs::seek(&file, SeekFrom::Start(40 << 20)).unwrap();
        file.write_all(b"far").unwrap();
        let sealed = memory(&path, true).unwrap();
        let blocks =
            |file: &File| std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap());
        assert!(blocks(&sealed) < 100, "{}", blocks(&sealed));
        let inside = format!("/proc/self/fd/{}", sealed.as_raw_fd());
        assert_eq!(
            std::fs::read(&inside).unwrap(),
            std::fs::read(&path).unwrap()
        );
        // As QEMU opens it for a private mapping.
        let opened = File::options().read(true).write(true).open(&inside);
        assert!(opened.unwrap().write_all(b"x").is_err());
        let mut own = memory(&path, false).unwrap();
        own.write_all(b"x").unwrap();
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn shared_memory_is_written_and_keeps_its_length() {
        let mut file = shared_memory(4096).unwrap();
        file.write_all(b"x").unwrap();
        let inside = format!("/proc/self/fd/{}", file.as_raw_fd());
        let again = File::options().read(true).write(true).open(inside).unwrap();
        assert!(again.set_len(0).is_err() && again.set_len(8192).is_err());
    }
}
