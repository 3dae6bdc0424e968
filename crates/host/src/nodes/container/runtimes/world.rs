//! The file systems of a container whose runtime does not read the OCI configuration.
//!
//! Before the start, the runtime's world is narrowed: what it would keep in directories of the machine (`/run/lxc`, the
//! locks of `/dev/shm`) is its mount namespace's own, so users' containers of the same runtime never meet it. The agent is
//! bound into the root, where the runtime finds it. After the start only that agent runs. Then what the
//! configuration says is mounted over all that the runtime did: kernel file systems, devices, binds, masks. So
//! runtimes differ in how they start, and not in what a node may see.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::nodes::container::config::{AGENT_INSIDE, Config, Mount};
use crate::nodes::container::error::Error;
use crate::nodes::container::handle::ContainerConfig;
use crate::sys::mount::{self, TreeOptions};
use crate::sys::process::Process;
use crate::sys::{inside, proc};

const RUN: &str = "/run";

/// Directories of the runtimes in [`RUN`].
const STATES: [&str; 7] = [
    "systemd",
    "lxc",
    "lock",
    "containers",
    "libpod",
    "docker",
    "containerd",
];

/// Directories of the machine in which some make files: Podman a lock of its networks, Docker its keys, containerd a place
/// for programs.
const LAYERED: [&str; 2] = ["/etc", "/opt"];

/// File systems that every runtime mounts in its own way. Its `/proc` stays: only a process of the container could mount
/// another that shows the container's processes.
const KERNELS: [&str; 2] = ["/dev", "/sys"];

const PROC: &str = "/proc";

/// Devices of every container, as the OCI runtimes make them: name, major and minor number.
const DEVICES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

const LINKS: [(&str, &str); 6] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("core", "/proc/kcore"),
    ("ptmx", "pts/ptmx"),
];

/// The binds of a configuration, opened where their sources can be seen: for each mount, in its order, none of one that
/// is no bind.
pub(in crate::nodes::container) struct World(Vec<Option<Bind>>);

struct Bind {
    tree: OwnedFd,
    is_file: bool,
}

/// To be called in the runtime's mount namespace, once the root is mounted.
pub(in crate::nodes::container) fn prepare(
    config: &ContainerConfig,
    document: &Config,
) -> Result<World, Error> {
    if let Err(error) = fs::metadata(&config.agent) {
        return Err(Error::Runtime {
            runtime: config.runtime.to_string(),
            message: format!("cannot look at {}: {error}", config.agent.display()),
        });
    }
    let mounts = document.mounts.iter();
    let binds = mounts.map(|wanted| wanted.is_bind().then(|| open(wanted)).transpose());
    let binds = binds.collect::<Result<_, Error>>()?;
    bind_agent(config)?;
    Ok(World(binds))
}

fn open(wanted: &Mount) -> Result<Bind, Error> {
    let has = |option: &str| wanted.options.iter().any(|o| o == option);
    let recursive = has("rro") || has("rnodev");
    let options = TreeOptions {
        read_only: has("ro") || has("rro"),
        no_devices: has("nodev") || has("rnodev"),
        no_programs: has("noexec"),
        no_set_user_id: has("nosuid"),
    };
    let tree = mount::clone_tree(&wanted.source, has("rbind"))?;
    mount::set_options(tree.as_fd(), options, recursive)?;
    let is_file = !wanted.source.is_dir();
    Ok(Bind { tree, is_file })
}

/// Binds the agent to its place in the root, whose own links are not followed.
fn bind_agent(config: &ContainerConfig) -> Result<(), Error> {
    let rootfs = config.dir.join("rootfs");
    let root = open_in(CWD, &rootfs, ResolveFlags::empty())?;
    let make = |at: &Path| match rustix::fs::mkdirat(&root, at, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(Error::io("make", &rootfs.join(at))(errno)),
    };
    let mut at = PathBuf::new();
    let place = Path::new(AGENT_INSIDE);
    for name in place.parent().unwrap_or(place).iter().skip(1) {
        at.push(name);
        make(&at)?;
        // The next name is made in a directory of the root.
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        open_in(root.as_fd(), &at, beneath)?;
        if Path::new("/").join(&at) == Path::new(RUN) {
            // Over a mount no runtime mounts an empty one of its own.
            mount::bind(&rootfs.join(&at), &rootfs.join(&at), true)?;
        }
    }
    // systemd-nspawn takes a root without it for none.
    make(Path::new("usr"))?;
    let target = rootfs.join(place.strip_prefix("/").unwrap_or(place));
    let flags = OFlags::CREATE | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(&target, flags, Mode::from_raw_mode(0o755))
        .map_err(Error::io("make", &target))?;
    mount::bind(&config.agent, &target, false)?;
    Ok(mount::make_read_only(&target)?)
}

fn open_in(
    directory: BorrowedFd<'_>,
    path: &Path,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Error> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve)
        .map_err(Error::io("open", path))
}

/// Gives the runtime directories of its own in the places where it keeps what it knows of all its containers.
pub(super) fn keep_apart(dir: &Path) -> Result<(), Error> {
    const SIZE: u64 = 16 << 20;
    let locks = Path::new("/dev/shm");
    if locks.is_dir() {
        mount::tmpfs(locks, SIZE)?;
    }
    let run = Path::new(RUN);
    if !run.is_dir() {
        return Ok(());
    }
    let apart = dir.join("run");
    fs::create_dir_all(&apart).map_err(Error::io("make", &apart))?;
    mount::tmpfs(&apart, SIZE)?;
    let entries = fs::read_dir(run).map_err(Error::io("list", run))?;
    for entry in entries.flatten() {
        let (name, source) = (entry.file_name(), entry.path());
        // The machine's sockets and files are nothing to it.
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_directory || STATES.iter().any(|state| name == *state) {
            continue;
        }
        let target = apart.join(&name);
        fs::create_dir(&target).map_err(Error::io("make", &target))?;
        mount::bind(&source, &target, true)?;
    }
    rustix::mount::mount_move(&apart, run).map_err(Error::io("mount at", run))?;
    let layers = dir.join("layers");
    fs::create_dir_all(&layers).map_err(Error::io("make", &layers))?;
    mount::tmpfs(&layers, SIZE)?;
    // The node's own directory is to be the machine's, wherever it is.
    let layered = LAYERED.into_iter().map(Path::new);
    let mut layered = layered.filter(|path| path.is_dir() && !dir.starts_with(path));
    layered.try_for_each(|directory| add_layer(directory, &layers))
}

/// Has changes in a directory go to memory of the runtime's own. What is mounted below stays there.
fn add_layer(directory: &Path, layers: &Path) -> Result<(), Error> {
    let points = mount::mount_points()?.into_iter();
    let below = points.filter(|point| point.starts_with(directory) && point != directory);
    // One that others cover cannot be cloned, nor was it seen.
    let clone = |point: PathBuf| Some((mount::clone_tree(&point, false).ok()?, point));
    let mounts: Vec<_> = below.filter_map(clone).collect();
    let layer = layers.join(directory.file_name().unwrap_or_default());
    let (upper, work) = (layer.join("upper"), layer.join("work"));
    for made in [&upper, &work] {
        fs::create_dir_all(made).map_err(Error::io("make", made))?;
    }
    mount::overlay(&[directory], &upper, &work, directory)?;
    let mut mounts = mounts.iter();
    Ok(mounts.try_for_each(|(tree, point)| mount::attach(tree, point))?)
}

/// Mounts what the configuration says over what the runtime did; `unasked` are files that it mounted.
pub(in crate::nodes::container) fn complete(
    world: &World,
    document: &Config,
    unasked: &[&str],
    first: &Process,
) -> Result<(), Error> {
    let path = PathBuf::from(format!("/proc/{}/root", first.id().pid));
    let root = open_in(CWD, &path, ResolveFlags::empty())?;
    let points = proc::mounts_of(first.id().pid)?.into_iter();
    let in_proc = points.map(|mount| mount.point);
    let in_proc = in_proc.filter(|point| point.starts_with(PROC) && point != Path::new(PROC));
    let in_proc: Vec<PathBuf> = in_proc.collect();
    inside::in_mounts_of(first.as_fd(), root.as_fd(), || {
        for path in KERNELS {
            while take_away(Path::new(path)) {}
        }
        for path in in_proc.iter().rev() {
            take_away(path);
        }
        // The agent's place and, below it, what the runtime mounted there unasked.
        take_away(Path::new(RUN));
        for path in unasked {
            take_away(Path::new(path));
        }
        for (wanted, bind) in document.mounts.iter().zip(&world.0) {
            if wanted.destination == Path::new(PROC) {
                continue;
            }
            let is_file = bind.as_ref().is_some_and(|bind| bind.is_file);
            make_target(&wanted.destination, is_file)?;
            match bind {
                Some(bind) => mount::attach(&bind.tree, &wanted.destination)?,
                None => mount_kind(wanted)?,
            }
            if wanted.destination == Path::new("/dev") {
                make_devices(document)?;
            }
        }
        for path in &document.linux.masked_paths {
            mask(path)?;
        }
        for path in &document.linux.readonly_paths {
            if path.exists() {
                mount::bind(path, path, true)?;
                mount::make_read_only(path)?;
            }
        }
        Ok(())
    })
}

/// Whether something was mounted at a path: it goes, with all that is below.
fn take_away(path: &Path) -> bool {
    let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    rustix::mount::unmount(path, flags).is_ok()
}

fn make_target(path: &Path, is_file: bool) -> Result<(), Error> {
    if path.exists() {
        return Ok(());
    }
    let failed = |source: io::Error| Error::io("make", path)(source);
    if !is_file {
        return fs::create_dir_all(path).map_err(failed);
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(failed)?;
    fs::write(path, "").map_err(failed)
}

/// Mounts a file system of the kernel's: options that are flags of a mount, and the rest.
fn mount_kind(wanted: &Mount) -> Result<(), Error> {
    let mut flags = MountFlags::empty();
    let mut data = Vec::new();
    for option in &wanted.options {
        match option.as_str() {
            "nosuid" => flags |= MountFlags::NOSUID,
            "nodev" => flags |= MountFlags::NODEV,
            "noexec" => flags |= MountFlags::NOEXEC,
            "ro" => flags |= MountFlags::RDONLY,
            "strictatime" => flags |= MountFlags::STRICTATIME,
            other => data.push(other),
        }
    }
    let (at, kind) = (&wanted.destination, wanted.r#type.as_str());
    mount::file_system(&wanted.source, at, kind, flags, &data.join(","))?;
    Ok(())
}

fn make_devices(document: &Config) -> Result<(), Error> {
    let own = document.linux.devices.iter();
    let own = own.map(|d| (d.path.clone(), d.major, d.minor));
    let common = DEVICES.iter();
    let common = common.map(|(name, major, minor)| (Path::new("/dev").join(name), *major, *minor));
    for (path, major, minor) in common.chain(own) {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::io("make", parent))?;
        }
        let everybodys = Mode::from_raw_mode(0o666);
        let device = rustix::fs::makedev(major, minor);
        let made = rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, everybodys, device);
        // The mask of new files' modes does not count for changes.
        made.and_then(|()| rustix::fs::chmod(&path, everybodys))
            .map_err(Error::io("make", &path))?;
    }
    for (name, target) in LINKS {
        let path = Path::new("/dev").join(name);
        std::os::unix::fs::symlink(target, &path).map_err(Error::io("make", &path))?;
    }
    Ok(())
}

/// Covers a file by the null device and a directory by an empty one.
fn mask(path: &Path) -> Result<(), Error> {
    let Ok(metadata) = fs::metadata(path) else {
        return Ok(());
    };
    if metadata.is_dir() {
        mount::tmpfs(path, 4096)?;
    } else {
        mount::bind(Path::new("/dev/null"), path, false)?;
    }
    Ok(mount::make_read_only(path)?)
}
