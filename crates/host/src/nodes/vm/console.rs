//! Keeping and reading what a guest's kernel, its QEMU and its file servers said last. The serial console goes to a
//! file, which outlives the guest and is the only witness when nothing else answers. No such file may grow for as
//! long as a guest prints, or has QEMU or virtiofsd warn: they lie in memory (`/run`), and none of these programs
//! knows a bound for one. So they write into pipes, and the agent's binary, run on the host beside them, keeps the
//! newest. Were it gone, QEMU would drop what the guest prints; the guest goes on.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::pipe::PipeFlags;

use super::error::Error;
use super::paths::console_path;
use super::qemu::VmConfig;
use crate::sys;
use crate::sys::cgroup_entry::CgroupEntry;
use crate::sys::process::Process;
use crate::sys::spawn::Spawn;

const PANIC: &str = "Kernel panic - not syncing";
/// How many bytes of the newest are kept at least; at most twice as many, and what is read at once.
const KEPT_BYTES: u64 = 8 << 20;
/// The same of what QEMU or a file server says, which is a few lines unless something is wrong.
const SAID_BYTES: u64 = 256 << 10;
/// The number under which the keeper inherits the first pipe.
const FIRST_FD: RawFd = 3;
/// How much of the log's end is looked at.
const TAIL_BYTES: u64 = 64 * 1024;
/// How many lines an error shows.
const LINES: usize = 12;

/// Where the part of a log goes that is older than the file's own.
pub(super) fn former(path: &Path) -> PathBuf {
    path.with_extension("log.old")
}

/// A log that is to be kept: its file, and how many bytes.
pub(super) struct Log {
    path: PathBuf,
    kept_bytes: u64,
}

impl Log {
    pub(super) fn of_console(dir: &Path) -> Self {
        let (path, kept_bytes) = (console_path(dir), KEPT_BYTES);
        Self { path, kept_bytes }
    }

    pub(super) fn of_program(path: PathBuf) -> Self {
        let kept_bytes = SAID_BYTES;
        Self { path, kept_bytes }
    }
}

/// Starts what keeps a guest's logs, and returns a pipe for each. It ends with the last holder of a pipe.
pub(super) fn keep(
    config: &VmConfig<'_>,
    cgroup: Option<&CgroupEntry>,
    logs: &[Log],
) -> Result<(Process, Vec<OwnedFd>), Error> {
    let mut spawn = Spawn::new(&config.agent, &config.lab)
        .args(["log"])
        .session();
    let (mut outputs, mut inputs) = (Vec::new(), Vec::new());
    for _ in logs {
        let (output, input) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
            .map_err(sys::Error::of("make", "the pipe of a log"))?;
        outputs.push(output);
        inputs.push(input);
    }
    for ((log, output), number) in logs.iter().zip(&outputs).zip(FIRST_FD..) {
        let (number_text, most) = (number.to_string(), log.kept_bytes.to_string());
        spawn = spawn
            .descriptor(output.as_fd(), number)
            .args([OsStr::new(&number_text), log.path.as_os_str()])
            .args([former(&log.path).as_os_str(), OsStr::new(&most)]);
    }
    if let Some(cgroup) = cgroup {
        spawn = spawn.cgroup(cgroup);
    }
    Ok((spawn.start()?, inputs))
}

/// The last lines of the log, without control characters; empty if there is no log.
pub fn last_lines(path: &Path) -> Vec<String> {
    let lines = lines(&tail(path));
    lines[lines.len().saturating_sub(LINES)..].to_vec()
}

/// The lines of a kernel panic, from its first on; `None` if there was none.
pub fn panic_lines(path: &Path) -> Option<Vec<String>> {
    panic_in(&tail(path))
}

fn panic_in(text: &str) -> Option<Vec<String>> {
    let lines = lines(text);
    let first = lines.iter().position(|line| line.contains(PANIC))?;
    Some(lines[first..].iter().take(LINES).cloned().collect())
}

fn tail(path: &Path) -> String {
    let end = |path: &Path, most: u64| -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    // No log, no witness: the caller's error then stands alone.
    let newest = end(path, TAIL_BYTES).unwrap_or_default();
    let missing = TAIL_BYTES - newest.len() as u64;
    let mut bytes = end(&former(path), missing).unwrap_or_default();
    bytes.extend(newest);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn lines(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>())
        .filter(|line| !line.trim().is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_found_with_the_lines_after_it() {
        let log = "[ 1.0] fine\r\n[ 1.1] Kernel panic - not syncing: No working init\r\n\r\n\
                   [ 1.2] CPU: 0\u{1b}[m\r\n";
        let expected = [
            "[ 1.1] Kernel panic - not syncing: No working init",
            "[ 1.2] CPU: 0[m",
        ];
        assert_eq!(panic_in(log).unwrap(), expected);
        assert_eq!(panic_in("[ 1.0] fine\n"), None);
    }

    #[test]
    fn a_panic_is_found_where_a_new_file_began_in_it() {
        let dir = std::env::temp_dir().join(format!("latlab-console-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("console.log");
        let before = "fine\n".repeat(20_000) + "[1] Kernel pan";
        std::fs::write(former(&path), before).unwrap();
        std::fs::write(&path, "ic - not syncing: x\n[2] CPU: 0\n").unwrap();
        let expected = ["[1] Kernel panic - not syncing: x", "[2] CPU: 0"];
        assert_eq!(panic_lines(&path).unwrap(), expected);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn an_absent_log_has_no_lines() {
        assert!(last_lines(Path::new("/nonexistent/console.log")).is_empty());
        assert_eq!(panic_lines(Path::new("/nonexistent/console.log")), None);
    }
}
