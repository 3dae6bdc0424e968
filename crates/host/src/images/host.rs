//! The machine's own root as an image.
//!
//! An overlay does not cross mounts: of a `/usr` or `/home` on a disk of its own it would show the
//! empty directory below. So the mount table is read, and what belongs to the machine's programs
//! and data is named for binding. What describes this boot (`/proc`, `/run`, ...) or starts the machine (`/boot`), other
//! people's containers and removable media stays out.
//!
//! A node gets what every user of the machine may read, and no more: root in a node is not root of the machine. For a
//! virtual machine the kernel decides that file by file, since its servers run as a user that owns nothing. A
//! container's root is uid 0 to the kernel, so what is not for everyone is looked for where secrets are kept
//! ([`SECRETS`]) and covered.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};

use super::config::ImageConfig;
use super::error::Error;
use super::view::RootView;
use crate::dirs::Dirs;
use crate::sys::proc::{self, Mount};

/// Below these no mount is taken over: made anew for each container, or not part of the system.
const NOT_OURS: [&str; 9] = [
    "/proc", "/sys", "/dev", "/run", "/tmp", "/mnt", "/media", "/boot", "/snap",
];

/// Those of [`NOT_OURS`] in whose place a node gets nothing else. What the machine's own disk has there is covered whole.
const NOT_NODES: [&str; 4] = ["/mnt", "/media", "/boot", "/snap"];

const PSEUDO: [&str; 22] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fuse.gvfsd-fuse",
    "fuse.portal",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "sysfs",
    "tracefs",
];

/// Where container engines keep the roots of running containers.
const ENGINES: [&str; 4] = [
    "/var/lib/docker",
    "/var/lib/containers",
    "/var/lib/containerd",
    "/var/lib/kubelet",
];

/// Directories of the machine's present boot and of its users. Root's own directory is a node's own to write in.
const FRESH: [&str; 3] = ["/run", "/tmp", "/root"];

/// Where files that are not for everyone are looked for, and how many directories deep. What packages brought
/// (`/usr`) is the same on every machine.
const SECRETS: [(&str, usize); 7] = [
    ("/", 1),
    ("/etc", 16),
    ("/home", 3),
    ("/opt", 3),
    ("/srv", 4),
    ("/usr/local", 3),
    ("/var", 5),
];

/// Lists of packages, large and the same everywhere.
const DULL: [&str; 3] = ["/var/lib/dpkg", "/var/lib/apt", "/usr"];
/// Limit on the entries of one place. Entries beyond it are covered unseen: a mail server has more, in closed directories.
const MAX_ENTRIES: usize = 100_000;

/// Opens directories, and no links to them.
const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Bytes for names of entries that are read at once.
const NAMES: usize = 1 << 15;

/// latlab's own directories, which a node has no business in.
const HIDDEN: [&str; 2] = ["/var/lib/latlab", "/var/cache/latlab"];

/// The machine's root as it is mounted now. What a [`Search`] finds is still to be hidden.
pub(super) fn view() -> Result<RootView, Error> {
    let mounts = proc::own_mounts()?;
    Ok(RootView {
        dir: PathBuf::from("/"),
        submounts: submounts(mounts)
            .into_iter()
            .filter(|m| m.exists())
            .collect(),
        fresh: FRESH.iter().map(PathBuf::from).collect(),
        hidden: Vec::new(),
        of_host: true,
        config: ImageConfig::default(),
        kernel: None,
    })
}

/// A search for what is not for every user of the machine, beside other work.
pub struct Search(JoinHandle<Vec<PathBuf>>);

impl Search {
    pub fn begin() -> Self {
        Self(std::thread::spawn(hidden))
    }

    /// Paths to be hidden, once the search has ended.
    pub fn end(self) -> Vec<PathBuf> {
        let found = self.0.join();
        found.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Paths that are not for nodes: latlab's own, those that are no part of the system, and files and directories that other
/// users of the machine may not read. Paths below a hidden directory are not named again.
fn hidden() -> Vec<PathBuf> {
    let own = HIDDEN.iter().map(PathBuf::from).filter(|d| d.exists());
    let not_nodes = NOT_NODES.iter().map(PathBuf::from);
    // A symbolic link leads to what is judged itself.
    let not_nodes = not_nodes.filter(|d| fs::symlink_metadata(d).is_ok_and(|at| at.is_dir()));
    let mut all: Vec<PathBuf> = own.chain(not_nodes).chain([labs()]).collect();
    let left_out = NOT_OURS.iter().chain(&FRESH).chain(&HIDDEN).chain(&DULL);
    let left_out: Vec<Entry<'_>> = left_out
        .filter_map(|path| Entry::of(Path::new(path)))
        .collect();
    // Some machines have links in their places. A path through one would cover nothing at its other name.
    let tops = SECRETS.map(|(top, depth)| {
        let real = fs::canonicalize(top);
        (real.unwrap_or_else(|_| PathBuf::from(top)), depth)
    });
    // A few thousand entries take longer than the start of a container, so each place has a thread.
    std::thread::scope(|scope| {
        let walks = tops.each_ref().map(|(top, depth)| {
            let walk = Walk {
                top,
                left_out: &left_out,
                budget: MAX_ENTRIES,
                closed: Vec::new(),
            };
            scope.spawn(move || walk.below(*depth))
        });
        for walk in walks {
            all.extend(walk.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
    all.sort();
    all.dedup_by(|inner, outer| inner.starts_with(outer));
    all
}

/// The directory of labs' states, where the disks of other nodes are. It may be made only after this, and where nothing is
/// looked for. Links on its way are followed.
fn labs() -> PathBuf {
    let labs = Dirs::from_env().labs();
    let labs = std::path::absolute(&labs).unwrap_or(labs);
    let real = labs.ancestors().find_map(|there| {
        let below = labs.strip_prefix(there).ok()?;
        Some(fs::canonicalize(there).ok()?.join(below))
    });
    // Without the slash that joining nothing leaves.
    real.unwrap_or(labs).components().collect()
}

/// A name in a directory. Both are compared as bytes: paths compared by their components took longer than the kernel's
/// part of the search.
#[derive(Clone, Copy)]
struct Entry<'a> {
    directory: &'a OsStr,
    name: &'a OsStr,
}

impl<'a> Entry<'a> {
    fn of(path: &'a Path) -> Option<Self> {
        let (directory, name) = (path.parent()?.as_os_str(), path.file_name()?);
        Some(Self { directory, name })
    }
}

struct Walk<'a> {
    top: &'a Path,
    /// Entries without which the search goes on.
    left_out: &'a [Entry<'a>],
    /// Entries that may still be examined.
    budget: usize,
    closed: Vec<PathBuf>,
}

impl Walk<'_> {
    /// Searches some levels below the top.
    fn below(mut self, depth: usize) -> Vec<PathBuf> {
        if let Ok(top) = rustix::fs::open(self.top, DIRECTORY, Mode::empty()) {
            self.directory(&top, self.top, depth, &mut Vec::with_capacity(NAMES));
        }
        self.closed
    }

    /// By names in an open directory: a path takes the kernel a look-up for each part, and thousands of them are read.
    fn directory(&mut self, open: &OwnedFd, directory: &Path, depth: usize, names: &mut Vec<u8>) {
        let mut inner = Vec::new();
        let in_here = |entry: &&Entry<'_>| entry.directory == directory.as_os_str();
        let left_out: Vec<&Entry<'_>> = self.left_out.iter().filter(in_here).collect();
        let mut entries = RawDir::new(open, names.spare_capacity_mut());
        // A directory that is gone meanwhile hides nothing.
        while let Some(Ok(entry)) = entries.next() {
            let (name, kind) = (entry.file_name(), entry.file_type());
            // The kind comes with the name. A symbolic link leads to what is judged itself; most of /etc are links.
            if kind == FileType::Symlink || matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let path = || directory.join(OsStr::from_bytes(name.to_bytes()));
            if left_out
                .iter()
                .any(|entry| entry.name.as_bytes() == name.to_bytes())
            {
                continue;
            }
            if self.budget == 0 {
                if directory == self.top {
                    self.closed.push(path());
                    continue;
                }
                self.closed.push(directory.to_owned());
                return;
            }
            self.budget -= 1;
            let Ok(at) = rustix::fs::statat(open, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let is_directory = FileType::from_raw_mode(at.st_mode) == FileType::Directory;
            let needed = match FileType::from_raw_mode(at.st_mode) {
                FileType::Directory => 0o005,
                FileType::RegularFile => 0o004,
                _ => continue,
            };
            if at.st_mode & needed != needed {
                self.closed.push(path());
            } else if is_directory && depth > 1 {
                inner.push((name.to_owned(), path()));
            }
        }
        for (name, path) in inner {
            if let Ok(open) = rustix::fs::openat(open, &name, DIRECTORY, Mode::empty()) {
                self.directory(&open, &path, depth - 1, names);
            }
        }
    }
}

/// A file that each node has of its own. An engine that runs latlab in a container mounts one too.
const NODES_OWN: &str = "/etc/hosts";

/// The mount points that belong to the image, outer before inner.
fn submounts(mounts: Vec<Mount>) -> BTreeSet<PathBuf> {
    let of_image = |mount: &Mount| {
        let mut left_out = NOT_OURS.iter().chain(&ENGINES).chain(&HIDDEN);
        mount.point != Path::new("/")
            && mount.point != Path::new(NODES_OWN)
            && !PSEUDO.contains(&mount.kind.as_str())
            && !left_out.any(|dir| mount.point.starts_with(dir))
    };
    let mounts = mounts.into_iter().filter(of_image);
    mounts.map(|mount| mount.point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_of_the_system_are_named_and_nothing_else() {
        let mountinfo = "\
1 0 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
2 1 254:1 / /var rw - ext4 /dev/vdb rw
3 1 254:2 / /usr ro - squashfs /dev/vdc ro
4 1 254:3 / /home/my\\040self rw - btrfs /dev/vdd rw
5 1 0:21 / /proc rw - proc proc rw
6 5 0:22 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw
7 1 0:23 / /run rw - tmpfs tmpfs rw
8 2 0:50 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw
9 2 0:51 / /var/lib/nfs/rpc_pipefs rw - rpc_pipefs sunrpc rw
10 1 7:1 / /snap/core/1 ro - squashfs /dev/loop1 ro
11 1 0:60 / /mnt/backup rw - nfs4 server:/ rw
12 2 0:61 / /var/lib/latlab/labs rw - tmpfs tmpfs rw
13 1 0:62 / /opt rw
";
        let expected = ["/home/my self", "/usr", "/var"].map(PathBuf::from);
        assert_eq!(
            submounts(proc::mounts(mountinfo.as_bytes()))
                .into_iter()
                .collect::<Vec<_>>(),
            expected
        );
    }

    #[test]
    fn files_closed_to_others_are_found_with_their_directory() {
        use std::os::unix::fs::PermissionsExt;
        let root = std::env::temp_dir().join(format!("latlab-hidden-{}", std::process::id()));
        let make = |name: &str, mode| {
            let path = root.join(name);
            if name.ends_with('/') {
                fs::create_dir_all(&path).unwrap();
            } else {
                fs::write(&path, "x").unwrap();
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        make("open/", 0o755);
        make("open/shadow", 0o640);
        make("open/passwd", 0o644);
        make("closed/", 0o750);
        make("closed/inner", 0o600);
        make("listed-only/", 0o754);
        make("left-out/", 0o755);
        make("left-out/secret", 0o600);
        std::os::unix::fs::symlink("/etc/shadow", root.join("link")).unwrap();
        let left_out = root.join("left-out");
        let search = |budget| {
            let walk = Walk {
                top: &root,
                left_out: &[Entry::of(&left_out).unwrap()],
                budget,
                closed: Vec::new(),
            };
            let mut found = walk.below(4);
            found.sort();
            found
        };
        let found = search(100);
        let expected = ["closed", "listed-only", "open/shadow"].map(|name| root.join(name));
        assert_eq!(found, expected);
        // Without a budget all of it is covered.
        let top = ["closed", "listed-only", "open"].map(|name| root.join(name));
        assert_eq!(search(0), top);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_machines_passwords_are_hidden() {
        let hidden = hidden();
        for secret in ["/etc/shadow", "/etc/gshadow"] {
            let covered = hidden
                .iter()
                .any(|path| Path::new(secret).starts_with(path));
            assert!(
                covered || !Path::new(secret).exists(),
                "{secret}: {hidden:?}"
            );
        }
    }

    #[test]
    fn places_that_are_no_part_of_the_system_are_hidden_whole() {
        let hidden = hidden();
        for place in NOT_NODES.map(Path::new) {
            let is_there = fs::symlink_metadata(place).is_ok_and(|at| at.is_dir());
            assert_eq!(
                hidden.iter().any(|path| path == place),
                is_there,
                "{place:?}"
            );
        }
    }

    #[test]
    fn this_machine_has_a_root() {
        let view = view().unwrap();
        assert_eq!(view.dir, Path::new("/"));
        assert!(view.submounts.iter().all(|m| m.is_absolute()));
    }
}
