//! A program in a sealed memory file.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use super::Error;

/// Copies the program `path` into memory and seals the copy: a process that opens it, by way of
/// `/proc/PID/exe` for example, can neither write nor replace what others execute.
pub fn program(path: &Path) -> Result<File, Error> {
    let failed = |source: io::Error| Error::of("copy into memory", path.display())(source);
    let mut original = File::open(path).map_err(failed)?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Without the flag, Linux 6.3 and later may be set to make files that cannot be executed; older
    // ones do not know it (kernel: userspace-api/mfd_noexec).
    let made = match rustix::fs::memfd_create("latlab-agent", flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => rustix::fs::memfd_create("latlab-agent", flags),
        made => made,
    };
    let mut copy = File::from(made.map_err(|errno| failed(errno.into()))?);
    io::copy(&mut original, &mut copy).map_err(failed)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&copy, seals).map_err(|errno| failed(errno.into()))?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_sealed_program_runs_and_cannot_be_changed_by_any_way_to_it() {
        let mut program = program(Path::new("/bin/true")).unwrap();
        let path = format!("/proc/self/fd/{}", program.as_raw_fd());
        assert!(program.write_all(b"x").is_err());
        assert!(program.set_len(0).is_err());
        let again = File::options().write(true).open(&path);
        assert!(again.and_then(|mut file| file.write_all(b"x")).is_err());
        let original = std::fs::read("/bin/true").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), original);
    }
}
