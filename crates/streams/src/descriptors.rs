//! References to a socket that is about to be exchanged: other descriptors, and epoll sets.
//!
//! Only the one descriptor of the call is exchanged. Another one of the same file would keep the connection without its
//! bytes, so such a socket stays plain. Registrations in epoll sets belong to the file and are moved to the new one.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, Mode, OFlags, openat, readlinkat};

use crate::sys::task::process_of;

/// A task with more descriptors has its connections plain: each of them is looked at.
const MAX_DESCRIPTORS: usize = 1024;
/// A node with more processes likewise.
const MAX_PROCESSES: usize = 1024;

/// Where version 1 of cgroups has the freezer.
const FREEZER: &str = "/sys/fs/cgroup/freezer";

/// `FD_CLOEXEC` as /proc shows it among the flags of the open file.
const CLOSE_ON_EXEC: u32 = libc::O_CLOEXEC as u32;

/// References of a task to one socket.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct References {
    pub close_on_exec: bool,
    /// Another descriptor leads to the socket.
    pub is_shared: bool,
    pub registrations: Vec<Registration>,
}

/// A socket in an epoll set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// The set's descriptor in the task.
    pub set: RawFd,
    pub events: u32,
    pub data: u64,
}

/// Looks for references to the socket with this inode, which is at `number`: in the task, and in the processes that a
/// cgroup's file lists.
pub fn references(
    task: u32,
    group: Option<&Path>,
    number: RawFd,
    inode: u64,
) -> io::Result<References> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, format!("/proc/{task}/fd"), flags, Mode::empty())?;
    let socket = format!("socket:[{inode}]");
    let mut found = References {
        close_on_exec: field(&info(task, number)?, "flags:", 8)
            .is_some_and(|flags| flags as u32 & CLOSE_ON_EXEC != 0),
        ..References::default()
    };
    let mut target = Vec::new();
    for (count, entry) in Dir::read_from(&directory)?.enumerate() {
        if count == MAX_DESCRIPTORS {
            found.is_shared = true;
            return Ok(found);
        }
        let entry = entry?;
        let name = entry.file_name();
        let Some(other) = name.to_str().ok().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Another thread may close it meanwhile.
        let Ok(link) = readlinkat(&directory, name, target) else {
            target = Vec::new();
            continue;
        };
        if other != number && link.to_bytes() == socket.as_bytes() {
            found.is_shared = true;
        }
        if link.to_bytes() == b"anon_inode:[eventpoll]" {
            let text = info(task, other).unwrap_or_default();
            let lines = text.lines();
            let registrations = lines.filter_map(|line| registration(line, other, number));
            found.registrations.extend(registrations);
        }
        target = link.into_bytes();
    }
    found.is_shared |= group.is_some_and(|group| is_inherited(task, group, number, &socket));
    Ok(found)
}

fn info(task: u32, number: RawFd) -> io::Result<String> {
    fs::read_to_string(format!("/proc/{task}/fdinfo/{number}"))
}

/// A field of /proc/PID/fdinfo.
fn field(text: &str, name: &str, radix: u32) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(line.trim(), radix).ok()
}

/// A line of an epoll set's fdinfo (`fs/eventpoll.c`: ep_show_fdinfo), if it is of descriptor `number`.
fn registration(line: &str, set: RawFd, number: RawFd) -> Option<Registration> {
    let mut words = line.strip_prefix("tfd:")?.split_whitespace();
    if words.next()?.parse::<RawFd>().ok()? != number {
        return None;
    }
    let mut hexadecimal = |name| {
        let word = words.next()?;
        // The kernel pads numbers: `events:       19`, `data:  17`.
        let digits = match word.strip_prefix(name)? {
            "" => words.next()?,
            digits => digits,
        };
        u64::from_str_radix(digits, 16).ok()
    };
    Some(Registration {
        set,
        events: hexadecimal("events:")? as u32,
        data: hexadecimal("data:")?,
    })
}

/// Whether another process of the cgroup has the socket at the same number, as after a fork.
fn is_inherited(task: u32, group: &Path, number: RawFd, socket: &str) -> bool {
    let Some(mut processes) = processes_in(group) else {
        return false;
    };
    if processes.len() > MAX_PROCESSES {
        return true;
    }
    // A thread that is not its process's first one is not in the list.
    let own = match processes.contains(&task) {
        true => Some(task),
        false => process_of(task).ok(),
    };
    processes.retain(|process| Some(*process) != own);
    processes.iter().any(|process| {
        fs::read_link(format!("/proc/{process}/fd/{number}"))
            .is_ok_and(|target| target.as_os_str() == socket)
    })
}

/// Whether a task may have one more descriptor: the kernel gives the lowest free number below the limit (getrlimit(2),
/// RLIMIT_NOFILE). So a table without a free one has the last one, which is looked for first.
pub fn has_room(task: u32) -> bool {
    let directory = format!("/proc/{task}/fd");
    let Some(limit) = max_open_files(task) else {
        return true;
    };
    let Some(last) = limit.checked_sub(1) else {
        return false;
    };
    if fs::symlink_metadata(format!("{directory}/{last}")).is_err() {
        return true;
    }
    let open = match fs::metadata(&directory).map_or(0, |directory| directory.len()) {
        // Before Linux 6.2 they are counted. A table with many that has the last one is taken for full.
        0 => fs::read_dir(&directory).map_or(0, |entries| entries.take(MAX_DESCRIPTORS).count()),
        open => return open < limit,
    };
    open < MAX_DESCRIPTORS && (open as u64) < limit
}

fn max_open_files(task: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{task}/limits")).ok()?;
    let mut lines = limits.lines();
    let limit = lines.find_map(|line| line.strip_prefix("Max open files"))?;
    limit.split_whitespace().next()?.parse().ok()
}

/// The file that lists the processes of the task's cgroup.
pub fn group_of(task: u32) -> Option<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{task}/cgroup")).ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let group = group.trim_start_matches('/');
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let mut files = mounts
        .iter()
        .map(|mount| Path::new(mount).join(group).join("cgroup.procs"));
    files.find(|file| file.exists())
}

/// Whether a process stands still, as all of a node that is paused do: by a cgroup of version 2, or by version 1's freezer.
pub fn is_frozen(process: u32) -> bool {
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
    let freezer = groups.lines().find_map(|line| line.split_once(":freezer:"));
    let freezer = freezer.map(|(_, group)| Path::new(FREEZER).join(group.trim_start_matches('/')));
    let unified = group_of(process).map(|file| file.with_file_name("cgroup.events"));
    let files = [unified, freezer.map(|group| group.join("freezer.state"))];
    files.into_iter().flatten().any(|file| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let mut lines = text.lines();
        lines.any(|line| matches!(line, "frozen 1" | "FROZEN" | "FREEZING"))
    })
}

fn processes_in(group: &Path) -> Option<Vec<u32>> {
    let text = fs::read_to_string(group).ok()?;
    Some(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// A descriptor of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub process: u32,
    pub number: RawFd,
}

/// A descriptor of the socket with this inode, in any process of a cgroup.
pub fn holder(group: &Path, inode: u64) -> Option<Place> {
    let processes = processes_in(group)?.into_iter().take(MAX_PROCESSES);
    processes.into_iter().find_map(|process| {
        let mut sockets = sockets_of(process).take(MAX_DESCRIPTORS);
        let (_, number) = sockets.find(|(other, _)| *other == inode)?;
        Some(Place { process, number })
    })
}

/// All descriptors of sockets among `inodes` in the processes of a cgroup.
pub fn places(group: &Path, inodes: &HashSet<u64>) -> Vec<(u64, Place)> {
    let mut places = Vec::new();
    for process in processes_in(group).unwrap_or_default() {
        let wanted = sockets_of(process).filter(|(inode, _)| inodes.contains(inode));
        places.extend(wanted.map(|(inode, number)| (inode, Place { process, number })));
    }
    places
}

/// The sockets of a process, by their inodes, and its descriptors of them.
fn sockets_of(process: u32) -> impl Iterator<Item = (u64, RawFd)> {
    let entries = fs::read_dir(format!("/proc/{process}/fd"));
    let entries = entries.into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?;
        let inode = inode.strip_suffix(']')?.parse().ok()?;
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((inode, number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    fn inode(socket: &TcpListener) -> u64 {
        let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
        fs::metadata(path).unwrap().ino()
    }

    fn own() -> u32 {
        rustix::thread::gettid().as_raw_nonzero().get() as u32
    }

    #[test]
    fn a_second_descriptor_of_the_same_socket_is_found() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let inode = inode(&socket);
        let number = socket.as_raw_fd();
        let found = references(own(), None, number, inode).unwrap();
        assert!(found.close_on_exec && !found.is_shared);
        let _second = socket.try_clone().unwrap();
        assert!(references(own(), None, number, inode).unwrap().is_shared);
    }

    #[test]
    fn a_table_has_room_until_each_number_below_its_limit_is_taken() {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        use std::io::{Read, Write};
        use std::process::{Command, Stdio};
        let mut cat = Command::new("cat");
        let mut cat = cat
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // By its answer it has opened what it needs.
        cat.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let is_free =
            |number: &u64| fs::symlink_metadata(format!("/proc/{}/fd/{number}", cat.id())).is_err();
        let free = (0..).find(is_free).unwrap();
        let has_room_below = |limit| {
            let limit = Rlimit {
                current: Some(limit),
                maximum: Some(limit),
            };
            prlimit(Pid::from_raw(cat.id() as i32), Resource::Nofile, limit).unwrap();
            has_room(cat.id())
        };
        let found = [free + 1, free, 0].map(has_room_below);
        cat.kill().unwrap();
        cat.wait().unwrap();
        assert_eq!(found, [true, false, false]);
    }

    #[test]
    fn registrations_in_epoll_sets_are_found_with_events_and_data() {
        use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create};
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let set = create(CreateFlags::empty()).unwrap();
        let data = EventData::new_u64(0xfeed_beef_0000_0001);
        add(&set, &socket, data, EventFlags::IN | EventFlags::ET).unwrap();
        let found = references(own(), None, socket.as_raw_fd(), inode(&socket)).unwrap();
        // The kernel adds errors and hang-ups, which it tells unasked.
        let told = (EventFlags::ERR | EventFlags::HUP).bits();
        let registration = Registration {
            set: set.as_raw_fd(),
            events: (EventFlags::IN | EventFlags::ET).bits() | told,
            data: 0xfeed_beef_0000_0001,
        };
        assert_eq!(found.registrations, [registration]);
    }
}
