//! The machine that a saved guest depends on, as text: the guest goes on only where all of it is the same.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::accelerator::{Accelerator, PROGRAM};
use super::error::Error;
use super::qemu::VmConfig;
use crate::programs;

/// QEMU's program, the guest's disks, the CPU where it is the host's, and `words` of QEMU's command line; a line each.
pub(super) fn of(config: &VmConfig<'_>, words: &[OsString]) -> Result<String, Error> {
    let qemu = programs::find(PROGRAM).unwrap_or_else(|| PROGRAM.into());
    let mut lines = vec![of_file(&qemu)?];
    let shares = config.all_shares();
    for disk in shares.iter().filter_map(|share| share.disk.as_deref()) {
        lines.push(of_disk(disk));
    }
    if config.accelerator == Accelerator::Kvm {
        // The guest sees this CPU.
        lines.extend(host_cpu()?);
    }
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    lines.push(words.join(" "));
    Ok(lines.join("\n") + "\n")
}

pub(super) fn of_file(path: &Path) -> Result<String, Error> {
    let found = fs::metadata(path).map_err(Error::io("look at", path))?;
    let (bytes, seconds, nanoseconds) = (found.len(), found.mtime(), found.mtime_nsec());
    Ok(format!(
        "{} of {bytes} bytes, {seconds}.{nanoseconds:09}",
        path.display()
    ))
}

/// A disk's name says what it holds; its time, when it was used last.
fn of_disk(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    format!("disk {}", name.to_string_lossy())
}

fn host_cpu() -> Result<Vec<String>, Error> {
    let read = |path: &str| fs::read_to_string(path).map_err(Error::io("read", Path::new(path)));
    let cpu = read("/proc/cpuinfo")?;
    let words = ["model name", "microcode", "flags"];
    let lines = cpu.lines().take_while(|line| !line.is_empty());
    let lines = lines.filter(|line| words.iter().any(|word| line.starts_with(word)));
    let mut found: Vec<_> = lines.map(str::to_owned).collect();
    found.push(read("/proc/sys/kernel/osrelease")?.trim().to_owned());
    Ok(found)
}

/// The file in which a guest's directory names the machine that it runs on.
const MACHINE: &str = "machine";

/// Notes the machine of a guest that can be saved.
pub(super) fn note(config: &VmConfig<'_>) -> Result<(), Error> {
    let path = config.dir.join(MACHINE);
    fs::write(&path, machine(config)?).map_err(Error::io("write", &path))
}

/// The machine of a guest that runs; none for one that cannot be saved.
pub(super) fn noted(dir: &Path) -> Result<Option<String>, Error> {
    let path = dir.join(MACHINE);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", &path)(error)),
    }
}

fn machine(config: &VmConfig<'_>) -> Result<String, Error> {
    of(config, &config.hardware())
}

/// Refuses a machine other than the guest's.
pub(super) fn check(config: &VmConfig<'_>, expected: &str) -> Result<(), Error> {
    let difference = difference(expected, &machine(config)?);
    difference.map_or(Ok(()), |difference| Err(Error::OtherMachine { difference }))
}

/// The first word in which two machines differ.
fn difference(there: &str, here: &str) -> Option<String> {
    let mut words = there.split_whitespace();
    let mut others = here.split_whitespace();
    loop {
        return match (words.next(), others.next()) {
            (None, None) => None,
            (Some(word), Some(other)) if word == other => continue,
            (word, other) => {
                let shown = |word: Option<&str>| word.unwrap_or("nothing").to_owned();
                Some(format!("`{}` then, `{}` now", shown(word), shown(other)))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_differ_in_a_word() {
        assert_eq!(difference("a b\nc\n", "a b\nc\n"), None);
        let found = difference("-m 256M", "-m 512M").unwrap();
        assert_eq!(found, "`256M` then, `512M` now");
        assert_eq!(difference("a", "a b").unwrap(), "`nothing` then, `b` now");
    }
}
