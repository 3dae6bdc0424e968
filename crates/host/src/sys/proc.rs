//! Texts of `/proc`, read in one place.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::Error;

/// Room for most files of /proc.
const USUAL_BYTES: usize = 4096;

/// A line of a mountinfo text (proc_pid_mountinfo(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub id: u64,
    /// The directory of the file system that is mounted, `/` for all of it.
    pub root: PathBuf,
    pub point: PathBuf,
    pub options: String,
    pub kind: String,
    pub super_options: String,
}

impl Mount {
    fn parse(line: &[u8]) -> Option<Mount> {
        let mut fields = line.split(|&byte| byte == b' ');
        let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let root = unescape(fields.nth(2)?);
        let point = unescape(fields.next()?);
        let mut text = fields.map(|field| String::from_utf8_lossy(field).into_owned());
        let options = text.next()?;
        // Optional fields end with a dash.
        text.find(|field| field == "-")?;
        let kind = text.next()?;
        let super_options = text.nth(1).unwrap_or_default();
        Some(Mount {
            id,
            root,
            point,
            options,
            kind,
            super_options,
        })
    }
}

/// The mounts of a mountinfo text, in the order of mounting; lines of another shape are passed over.
pub fn mounts(mountinfo: &[u8]) -> Vec<Mount> {
    let lines = mountinfo.split(|&byte| byte == b'\n');
    lines.filter_map(Mount::parse).collect()
}

pub fn own_mounts() -> Result<Vec<Mount>, Error> {
    mounts_in("/proc/self/mountinfo")
}

/// The mounts that a process sees below its root.
pub fn mounts_of(pid: u32) -> Result<Vec<Mount>, Error> {
    mounts_in(&format!("/proc/{pid}/mountinfo"))
}

/// The mounts that the calling thread sees, which may have a namespace of its own.
pub fn thread_mounts() -> Result<Vec<Mount>, Error> {
    mounts_in("/proc/thread-self/mountinfo")
}

fn mounts_in(file: &str) -> Result<Vec<Mount>, Error> {
    let text = fs::read(file).map_err(Error::of("read", file))?;
    Ok(mounts(&text))
}

/// Reads a file of /proc. A buffer that grows from nothing would be filled 32 bytes at a time at first, and the kernel
/// puts a file together, or looks up a process's memory, for each read.
pub(crate) fn read(path: impl AsRef<Path>, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::with_capacity(USUAL_BYTES);
    let file = fs::File::open(path)?;
    file.take(max_bytes).read_to_end(&mut content)?;
    Ok(content)
}

/// A process as the kernel tells of it, line by line (proc_pid_status(5)).
pub struct Status(String);

impl Status {
    pub fn of(pid: u32) -> Result<Self, Error> {
        let path = format!("/proc/{pid}/status");
        let text = read(&path, u64::MAX).map_err(Error::of("read", &path))?;
        Ok(Self(String::from_utf8_lossy(&text).into_owned()))
    }

    /// The text after the field's name and a colon; empty where the kernel does not tell it.
    pub fn field(&self, name: &str) -> &str {
        let mut fields = self.0.lines().filter_map(|line| line.split_once(':'));
        let field = fields.find(|(field, _)| *field == name);
        field.map_or("", |(_, value)| value.trim())
    }
}

/// Undoes the kernel's octal escapes (`\040` is a space).
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| {
                let digits = std::str::from_utf8(digits).ok()?;
                u8::from_str_radix(digits, 8).ok()
            });
        let (byte, used) = octal.map_or((first, 1), |byte| (byte, 4));
        bytes.push(byte);
        rest = &rest[used..];
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Processes in the network namespace of this inode, without those that end meanwhile.
pub fn in_network(inode: u64) -> Vec<u32> {
    use std::os::unix::fs::MetadataExt;
    let is_there = |process: &u32| {
        let netns = fs::metadata(format!("/proc/{process}/ns/net"));
        netns.is_ok_and(|netns| netns.ino() == inode)
    };
    numbers("/proc").into_iter().filter(is_there).collect()
}

/// Unit of times in `stat` files: USER_HZ is 100 on every architecture that Linux supports.
pub const TICK_NS: u64 = 10_000_000;

/// The text of a `stat` file (proc_pid_stat(5)); the name in it may hold spaces and parentheses.
#[derive(Debug)]
pub struct Stat<'a> {
    pub name: &'a str,
    fields: Vec<&'a str>,
}

impl<'a> Stat<'a> {
    pub fn parse(text: &'a str) -> Option<Self> {
        let (head, rest) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let fields = rest.split_ascii_whitespace().collect();
        Some(Self { name, fields })
    }

    /// A field by its number in the manual, from 3 on.
    pub fn text(&self, field: usize) -> Option<&'a str> {
        self.fields.get(field - 3).copied()
    }

    pub fn number(&self, field: usize) -> Option<u64> {
        self.text(field)?.parse().ok()
    }

    /// Start of the process, in clock ticks since the boot.
    pub fn start_time(&self) -> Option<u64> {
        self.number(22)
    }

    /// CPU time so far, of the program and of the kernel for it, in whole ticks.
    pub fn cpu_ns(&self) -> Option<u64> {
        Some((self.number(14)? + self.number(15)?) * TICK_NS)
    }
}

/// The numbers that are names in a directory: processes in `/proc`, threads in `/proc/PID/task`.
pub fn numbers(directory: impl AsRef<Path>) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.collect()
}

pub fn threads(pid: u32) -> Vec<u32> {
    numbers(format!("/proc/{pid}/task"))
}

/// The number that the kernel gave to a process last, as `/proc/loadavg` tells it (proc_loadavg(5)).
pub(super) fn last_pid() -> Option<u32> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().nth(4)?.parse().ok()
}

pub fn boot_id() -> Result<String, Error> {
    const FILE: &str = "/proc/sys/kernel/random/boot_id";
    let text = fs::read_to_string(FILE).map_err(Error::of("read", FILE))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_their_escapes() {
        let text = b"25 1 0:23 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            30 25 0:26 / /run/a\\040b ro - tmpfs none rw,size=1\n\
            31 25 0:27 net:[4026532] /run/c\\134d rw shared:1 master:2 - nsfs nsfs rw\n\n1 2 3\n";
        let found = mounts(text);
        let points: Vec<_> = found.iter().map(|mount| mount.point.clone()).collect();
        assert_eq!(points, ["/", "/run/a b", "/run/c\\d"].map(PathBuf::from));
        let kinds: Vec<_> = found.iter().map(|mount| mount.kind.as_str()).collect();
        assert_eq!(kinds, ["ext4", "tmpfs", "nsfs"]);
        assert_eq!(found[1].options, "ro");
        assert_eq!(found[1].super_options, "rw,size=1");
    }

    #[test]
    fn odd_escapes_are_kept_as_they_are() {
        assert_eq!(unescape(b"a\\9z"), PathBuf::from("a\\9z"));
        assert_eq!(unescape(b"a\\04"), PathBuf::from("a\\04"));
    }

    #[test]
    fn start_times_are_found_behind_odd_names() {
        let tail = "S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 22 1";
        for name in ["sh", "a) S 1 (b", "(", ""] {
            let text = format!("77 ({name}) {tail}");
            let stat = Stat::parse(&text).unwrap();
            assert_eq!((stat.name, stat.start_time()), (name, Some(987_654)));
            // Fields 14 and 15.
            assert_eq!(stat.cpu_ns(), Some((5 + 6) * TICK_NS));
        }
        assert_eq!(Stat::parse("77 (sh) S 1 1").unwrap().start_time(), None);
        assert!(Stat::parse("").is_none());
    }
}
