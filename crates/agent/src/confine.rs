//! Starts a server of a guest (QEMU, virtiofsd) in a place of its own, on the host: whatever makes such a program
//! do a guest's will, it finds no file, process, network or privilege there that it was not given.
//!
//! The place is a mount namespace whose root is a read-only tmpfs with the machine's programs and the listed files.
//! Exports are read-only there by their mounts (`mount_setattr(2)`), whatever the server was told and whatever
//! version it has. The user is one that nothing else has: [`FIRST_USER`] and the process number. The network, IPC and
//! host name namespaces are empty. Only the kept capabilities remain, in the bounding set too, and `no_new_privs`
//! (`prctl(2)`) keeps set-user-ID programs from giving back any.
//!
//! Two steps are in this order for a reason: device files are made before the user changes, and the network
//! namespace is left behind although taps are handed over, since a tap belongs to its own namespace.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use rustix::thread::{Gid, Uid};

use crate::os::{self, MountAttributes, UnshareFlags};

/// The first of the users: above containers' ranges and what directories of users map (SSSD: below 2,000,200,000),
/// below what systemd sets aside (UIDS-GIDS: unused up to 2,147,352,575). Process numbers stay below 2^22.
const FIRST_USER: u32 = 2_100_000_000;
/// Mounts, a network, IPC and a host name of its own.
const OWN: UnshareFlags = UnshareFlags::NEWNS
    .union(UnshareFlags::NEWNET)
    .union(UnshareFlags::NEWIPC)
    .union(UnshareFlags::NEWUTS);
/// Where programs and what they load are, on one distribution or another.
const PROGRAMS: [&str; 10] = [
    "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "nix", "gnu",
];
const LIBRARIES: &str = "/etc/ld.so.cache";
/// Devices without state that a process could share.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/urandom"];
/// Where the empty directories and files are that cover others, in the place.
const EMPTY: &str = "empty";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("confine: {0}")]
    Usage(String),
    #[error("confine: cannot {action} {object}: {source}")]
    Step {
        action: &'static str,
        object: String,
        source: io::Error,
    },
}

fn step<T, E: Into<io::Error>>(
    result: Result<T, E>,
    action: &'static str,
    object: impl AsRef<Path>,
) -> Result<T, Error> {
    result.map_err(|source| Error::Step {
        action,
        object: object.as_ref().display().to_string(),
        source: source.into(),
    })
}

/// A path that appears in the confined root. Paths inside begin at that root.
enum Item {
    /// A file or socket, read-only. One that its user could not read is copied.
    File(PathBuf, PathBuf),
    /// A directory without the mounts below it, read-only.
    Tree(PathBuf, PathBuf),
    /// A directory with them, read-only.
    Trees(PathBuf, PathBuf),
    /// A directory with them, writable.
    Writable(PathBuf, PathBuf),
    /// Something inside that is covered by nothing. It may be absent.
    Empty(PathBuf),
    /// A device for the user alone.
    Device(PathBuf),
}

struct Place {
    root: PathBuf,
    items: Vec<Item>,
    unprivileged: bool,
    kept: CapabilitySet,
    /// Bytes of memory that it may lock, where a device does that for it.
    locked: Option<u64>,
    command: Vec<OsString>,
}

impl Place {
    fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Self, Error> {
        let mut place = Self {
            root: PathBuf::new(),
            items: Vec::new(),
            unprivileged: false,
            kept: CapabilitySet::empty(),
            locked: None,
            command: Vec::new(),
        };
        while let Some(word) = words.next() {
            let mut path = || {
                let found = words.next().map(PathBuf::from);
                let short = || Error::Usage(format!("{} takes a path", word.to_string_lossy()));
                found.ok_or_else(short)
            };
            let item = match word.to_str() {
                Some("--") => {
                    place.command = words.collect();
                    break;
                }
                Some("--root") => {
                    place.root = path()?;
                    continue;
                }
                Some("--unprivileged") => {
                    place.unprivileged = true;
                    continue;
                }
                Some("--keep") => {
                    let number = path()?.to_str().and_then(|text| text.parse::<u32>().ok());
                    let bits = number.and_then(|number| 1_u64.checked_shl(number));
                    let bits = bits.ok_or_else(|| Error::Usage("--keep takes a number".into()))?;
                    place.kept |= CapabilitySet::from_bits_retain(bits);
                    continue;
                }
                Some("--lock") => {
                    let bytes = path()?.to_str().and_then(|text| text.parse().ok());
                    let none = || Error::Usage("--lock takes a number of bytes".into());
                    place.locked = Some(bytes.ok_or_else(none)?);
                    continue;
                }
                Some("--file") => Item::File(path()?, path()?),
                Some("--tree") => Item::Tree(path()?, path()?),
                Some("--trees") => Item::Trees(path()?, path()?),
                Some("--writable") => Item::Writable(path()?, path()?),
                Some("--empty") => Item::Empty(path()?),
                Some("--device") => Item::Device(path()?),
                _ => return Err(Error::Usage(format!("unknown: {}", word.to_string_lossy()))),
            };
            place.items.push(item);
        }
        if place.root.as_os_str().is_empty() || place.command.is_empty() {
            return Err(Error::Usage("takes --root DIRECTORY and -- PROGRAM".into()));
        }
        Ok(place)
    }

    /// The location of a path inside, while the root is being built.
    fn at(&self, inside: &Path) -> PathBuf {
        self.root.join(inside.strip_prefix("/").unwrap_or(inside))
    }

    fn user(&self) -> Option<u32> {
        self.unprivileged.then(|| FIRST_USER + std::process::id())
    }

    fn build(&self, program: &Path) -> Result<(), Error> {
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        let mounted = mount("latlab", &self.root, "tmpfs", flags, Some(c"mode=755"));
        step(mounted, "mount tmpfs at", &self.root)?;
        for directory in ["dev", "proc", "etc", EMPTY] {
            let directory = self.root.join(directory);
            step(fs::create_dir_all(&directory), "make", &directory)?;
        }
        self.programs(program)?;
        for device in DEVICES {
            self.device(Path::new(device), 0o666)?;
        }
        // Servers reach extended attributes through /proc/self/fd. Other users' processes do not show.
        let proc = self.root.join("proc");
        let options = Some(c"hidepid=2");
        let flags = flags | MountFlags::NODEV;
        step(
            mount("proc", &proc, "proc", flags, options),
            "mount proc at",
            &proc,
        )?;
        self.items.iter().try_for_each(|item| self.item(item))?;
        let read_only = MountAttributes::MOUNT_ATTR_RDONLY | MountAttributes::MOUNT_ATTR_NOSUID;
        let root = step(File::open(&self.root), "open", &self.root)?;
        step(
            os::restrict_mount(root.as_fd(), read_only, false),
            "protect",
            &self.root,
        )
    }

    fn programs(&self, program: &Path) -> Result<(), Error> {
        let mut seen = vec![PathBuf::from("/usr")];
        for name in PROGRAMS {
            let path = Path::new("/").join(name);
            let Ok(found) = fs::symlink_metadata(&path) else {
                continue;
            };
            if found.is_symlink() {
                let target = step(fs::read_link(&path), "read", &path)?;
                step(symlink(target, self.at(&path)), "make link", &path)?;
            } else if found.is_dir() {
                self.bind(&path, &path, Some(true), false)?;
                seen.push(path);
            }
        }
        if Path::new(LIBRARIES).exists() {
            self.item(&Item::File(LIBRARIES.into(), LIBRARIES.into()))?;
        }
        match program.parent() {
            Some(own) if !seen.iter().any(|path| program.starts_with(path)) => {
                self.bind(own, own, Some(false), false)
            }
            _ => Ok(()),
        }
    }

    fn item(&self, item: &Item) -> Result<(), Error> {
        match item {
            Item::Tree(from, to) => self.bind(from, to, Some(false), false),
            Item::Trees(from, to) => self.bind(from, to, Some(true), false),
            Item::Writable(from, to) => self.bind(from, to, Some(true), true),
            Item::File(from, to) => {
                let found = step(fs::metadata(from), "look at", from)?;
                if found.is_file() && found.mode() & 0o004 == 0 {
                    let to = self.at(to);
                    self.make_parent(&to)?;
                    step(fs::copy(from, &to), "copy", from)?;
                    return step(
                        fs::set_permissions(&to, fs::Permissions::from_mode(0o444)),
                        "open",
                        &to,
                    );
                }
                self.bind(from, to, None, false)
            }
            Item::Empty(inside) => self.cover(inside),
            Item::Device(path) => self.device(path, 0o600),
        }
    }

    fn make_parent(&self, path: &Path) -> Result<(), Error> {
        match path.parent() {
            Some(parent) => step(fs::create_dir_all(parent), "make", parent),
            None => Ok(()),
        }
    }

    /// Makes `from` appear inside: a directory with or without the mounts below it, or a file (`None`).
    fn bind(
        &self,
        from: &Path,
        to: &Path,
        with_mounts: Option<bool>,
        writable: bool,
    ) -> Result<(), Error> {
        let target = self.at(to);
        self.make_parent(&target)?;
        if with_mounts.is_some() {
            step(fs::create_dir_all(&target), "make", &target)?;
        } else {
            step(File::create(&target), "make", &target)?;
        }
        let recursive = with_mounts == Some(true);
        let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        flags.set(OpenTreeFlags::AT_RECURSIVE, recursive);
        let tree = step(open_tree(CWD, from, flags), "clone the mount of", from)?;
        let mut attributes = MountAttributes::MOUNT_ATTR_NOSUID | MountAttributes::MOUNT_ATTR_NODEV;
        attributes.set(MountAttributes::MOUNT_ATTR_RDONLY, !writable);
        let restricted = os::restrict_mount(tree.as_fd(), attributes, recursive);
        step(restricted, "restrict the mount of", from)?;
        attach(&tree, &target)
    }

    /// Covers what is there. Paths come from the host's own list; a link in one leads to nothing inside. Each cover is
    /// an inode of its own: two directories of one inode are one to a 9p client, mounts on them included.
    fn cover(&self, inside: &Path) -> Result<(), Error> {
        let target = self.at(inside);
        let Ok(found) = fs::symlink_metadata(&target) else {
            return Ok(());
        };
        if found.is_symlink() {
            return Ok(());
        }
        let covers = self.root.join(EMPTY);
        let empty = covers.join(inside.strip_prefix("/").unwrap_or(inside));
        if found.is_dir() {
            step(fs::create_dir_all(&empty), "make", &empty)?;
        } else {
            self.make_parent(&empty)?;
            step(File::create(&empty), "make", &empty)?;
        }
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = step(open_tree(CWD, &empty, flags), "clone", &empty)?;
        let attributes = MountAttributes::MOUNT_ATTR_RDONLY
            | MountAttributes::MOUNT_ATTR_NOSUID
            | MountAttributes::MOUNT_ATTR_NODEV;
        step(
            os::restrict_mount(tree.as_fd(), attributes, false),
            "restrict",
            &empty,
        )?;
        attach(&tree, &target)
    }

    fn device(&self, path: &Path, mode: u32) -> Result<(), Error> {
        let found = step(fs::metadata(path), "look at", path)?;
        let target = self.at(path);
        self.make_parent(&target)?;
        let made = mknodat(
            CWD,
            &target,
            FileType::CharacterDevice,
            Mode::empty(),
            found.rdev(),
        );
        step(made, "make device", path)?;
        if let Some(user) = self.user() {
            step(chown(&target, Some(user), Some(user)), "give away", path)?;
        }
        step(
            fs::set_permissions(&target, fs::Permissions::from_mode(mode)),
            "open",
            path,
        )
    }

    fn enter(&self) -> Result<(), Error> {
        step(std::env::set_current_dir(&self.root), "enter", &self.root)?;
        match rustix::process::pivot_root(".", ".") {
            Ok(()) => step(
                unmount(".", UnmountFlags::DETACH),
                "leave",
                "the host's root",
            )?,
            // The root is no mount of its own (a chroot, an initramfs). Without CAP_SYS_CHROOT none
            // gets out of a changed root either.
            Err(Errno::INVAL) => step(rustix::process::chroot("."), "enter", &self.root)?,
            Err(errno) => return step(Err(errno), "enter", &self.root),
        }
        step(std::env::set_current_dir("/"), "enter", &self.root)
    }

    fn drop_privileges(&self) -> Result<(), Error> {
        let failed = |result: Result<(), Errno>, action| step(result, action, "privileges");
        for one in CapabilitySet::all().iter() {
            if !self.kept.contains(one) {
                match remove_capability_from_bounding_set(one) {
                    // This kernel has no such capability.
                    Ok(()) | Err(Errno::INVAL) => {}
                    Err(errno) => return failed(Err(errno), "limit"),
                }
            }
        }
        if let Some(user) = self.user() {
            failed(set_keep_capabilities(true), "keep")?;
            failed(set_thread_groups(&[]), "drop groups of")?;
            let (group, user) = (Gid::from_raw(user), Uid::from_raw(user));
            failed(set_thread_res_gid(group, group, group), "drop group")?;
            failed(set_thread_res_uid(user, user, user), "drop user")?;
        }
        let sets = CapabilitySets {
            effective: self.kept,
            permitted: self.kept,
            inheritable: self.kept,
        };
        failed(set_capabilities(None, sets), "drop")?;
        for one in self.kept.iter() {
            failed(configure_capability_in_ambient_set(one, true), "hand on")?;
        }
        failed(set_no_new_privs(true), "forbid new")
    }
}

fn attach(tree: &impl AsFd, target: &Path) -> Result<(), Error> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    step(move_mount(tree, "", CWD, target, flags), "mount at", target)
}

/// The file that a name stands for, as a shell would find it, and root's own directories.
fn find(name: &Path) -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from);
    let found = match name.components().count() {
        1 => std::env::split_paths(&path)
            .chain(usual)
            .map(|directory| directory.join(name))
            .find(|file| file.is_file()),
        _ => Some(name.to_owned()),
    };
    let found = found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
    step(found.and_then(fs::canonicalize), "find", name)
}

/// A server has many files open, and leaves no image of its guest's memory when it crashes.
fn limits(locked: Option<u64>) -> Result<(), Error> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: maximum,
        maximum,
    };
    step(
        setrlimit(Resource::Nofile, limit),
        "raise the limit of",
        "open files",
    )?;
    let exactly = |bytes| Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    if let Some(bytes) = locked {
        let set = setrlimit(Resource::Memlock, exactly(bytes));
        step(set, "set the limit of", "locked memory")?;
    }
    step(setrlimit(Resource::Core, exactly(0)), "limit", "core files")
}

/// Becomes the program. Returns only why it could not.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), Error> {
    let place = Place::parse(words)?;
    let name = Path::new(&place.command[0]);
    let program = find(name)?;
    step(
        os::leave_namespaces(OWN),
        "leave the host's namespaces for",
        name,
    )?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    match mount_change("/", private) {
        // A root that was only changed into: what is mounted below the lab's directory goes with the lab.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(errno) => return step(Err(errno), "make private", "/"),
    }
    rustix::process::umask(Mode::from_raw_mode(0o022));
    place.build(&program)?;
    place.enter()?;
    limits(place.locked)?;
    place.drop_privileges()?;
    let failed = Command::new(&program)
        .arg0(name)
        .args(&place.command[1..])
        .exec();
    step(Err(failed), "execute", name)
}
