//! Making a container's root and having the runtime start its first process.
//!
//! ```text
//! <dir>/bundle/config.json   what the runtime is told, and what later commands read
//! <dir>/bundle/root.json     of what the root is mounted, for a restore
//! <dir>/layer/N/{upper,work} the writable layer of the root (0) and of each file system in it
//! <dir>/rootfs               mount point of the root               \
//! <dir>/cgroup               mount point of the groups' view        } in the container's namespace only
//! <dir>/storage/N            mount point of a storage               |
//! <dir>/host                 mount point of a root that is pivoted /
//!                            instead of the machine's
//! <dir>/runtime              the runtime's own state
//! <dir>/runtime.log          what it wrote
//! <dir>/output               outputs of commands that the first process started
//! ```

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use latlab_model::kinds::Bind;
use latlab_model::plan::HUGE_PAGES_AT;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::config::{CGROUP_ROOT, Config, Input};
use super::error::Error;
use super::handle::{ContainerConfig, Running};
use super::runtimes::world::World;
use super::runtimes::{launch, launchers, members, world};
use super::{hosts, rights};
use crate::cgroup::NodeCgroup;
use crate::nodes::storage::{Held, Ready};
use crate::sys::cgroup_entry::CgroupEntry;
use crate::sys::file::make_private;
use crate::sys::process::{Exit, LAB_VARIABLE, Process};
use crate::sys::seccomp::Filter;
use crate::sys::spawn::{Executable, Spawn};
use crate::sys::{self, inside, mount, sealed};

/// A runtime takes some ten milliseconds; on a machine that thrashes, seconds.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The descriptor at which the first process says that it runs; the first one that runtimes can
/// pass through.
const READY_FD: i32 = 3;

/// The descriptor from which the first process reads its seccomp filter.
const FILTER_FD: i32 = 4;

/// The node's directory that is seen inside as [`OUTPUT_INSIDE`](super::config::OUTPUT_INSIDE).
pub(super) const OUTPUT: &str = "output";

/// The node's directory of mounted storage.
const STORAGE: &str = "storage";

/// The node's directory of layers.
const LAYER: &str = "layer";

/// Directories of a layer: for what the node changes, and for the kernel's use (kernel: filesystems/overlayfs).
const UPPER: &str = "upper";
const WORK: &str = "work";

/// Starts a container in `cgroup`. Returns when its first process runs. Fails when anything is missing; what was made
/// by then is removed by the undo of the lab.
pub fn start(config: &ContainerConfig, cgroup: &NodeCgroup) -> Result<Running, Error> {
    // Daemons and conmon have another environment than latlab gives: without a label, only their group finds them.
    if config.runtime.cgroup().is_some() && cgroup.dirs().is_empty() {
        return Err(Error::Runtime {
            runtime: config.runtime.to_string(),
            message: "it needs a cgroup, without which not all of it could be ended".into(),
        });
    }
    let dir = &config.dir;
    // Set-user-id programs of its layer, and its environment, are for root's eyes only.
    let private = |path: &Path| {
        make_private(path)
            .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o700)))
            .map_err(Error::io("make", path))
    };
    private(dir)?;
    for name in ["bundle", "layer", "rootfs", "runtime", "cgroup", OUTPUT] {
        private(&dir.join(name))?;
    }
    // Opened here, because the runtime's view of the groups is covered.
    let entry = cgroup.entry()?;
    let storage = config.storage.iter().map(Held::open);
    let storage: Vec<_> = storage.collect::<Result<_, _>>()?;
    let begun = inside::with_own_mounts(&dir.join("host"), || {
        let bound = mount_root(config)?;
        let layer_in_memory = inside::is_in_memory(&dir.join("layer"))?;
        let storage = mount_storage(config, &storage)?;
        let document = write_config(config, cgroup, &bound, &storage)?;
        mount_cgroup_view(cgroup, &dir.join("cgroup"))?;
        let world = match config.runtime.leaves() {
            true => None,
            false => Some(world::prepare(config, &document)?),
        };
        launchers::of(config.runtime).narrow(config, cgroup)?;
        let told = run_runtime(config, &document, &entry)?;
        Ok::<_, Error>(Begun {
            told,
            document,
            layer_in_memory,
            world,
        })
    })?;
    // The groups can be seen again here.
    let process = first_process(config, cgroup, &begun)?;
    Ok(Running {
        process: process.id(),
        layer_in_memory: begun.layer_in_memory,
    })
}

/// `bound` are parts of the image that have no layers.
fn write_config(
    config: &ContainerConfig,
    cgroup: &NodeCgroup,
    bound: &[PathBuf],
    storage: &[Bind],
) -> Result<Config, Error> {
    let view = config.dir.join("cgroup");
    let document = Config::new(&Input {
        hostname: &config.name,
        rootfs: &config.dir.join("rootfs"),
        root: &config.root,
        layered: config.covers.is_some(),
        bound,
        netns: &config.netns,
        agent: &config.agent,
        output: &config.dir.join(OUTPUT),
        cgroup_view: (!cgroup.dirs().is_empty()).then_some(view.as_path()),
        binds: &config.binds,
        storage,
        env: &config.env,
        label: (LAB_VARIABLE, &config.lab_id),
        security: &config.security,
    });
    let path = config.dir.join("bundle/config.json");
    let json = serde_json::to_vec(&document).expect("a document of texts and numbers");
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600);
    file.open(&path)
        .and_then(|mut file| file.write_all(&json))
        .map_err(Error::io("write", &path))?;
    Ok(document)
}

fn filter(config: &Config) -> Result<Option<File>, Error> {
    if !config.is_filtered() {
        return Ok(None);
    }
    let filter = Filter::new(&config.capabilities());
    Ok(Some(sealed::bytes(&filter.bytes())?))
}

/// Mounts the image with a writable layer, in which the hosts file is. Returns what is below it without layers.
fn mount_root(config: &ContainerConfig) -> Result<Vec<PathBuf>, Error> {
    let rootfs = config.dir.join("rootfs");
    let layers = config.dir.join(LAYER);
    let lowers_of = |relative: &Path| -> Vec<PathBuf> {
        let covers = config.covers.as_ref().map(|covers| covers.join(relative));
        let covers = covers.filter(|covers| covers.is_dir());
        let image = config.root.dir.join(relative);
        covers.into_iter().chain([image]).collect()
    };
    let mount_layer = |inside: &Path, layer: &Path| -> Result<(), Error> {
        let relative = inside.strip_prefix("/").unwrap_or(inside);
        let lowers = lowers_of(relative);
        mount_overlay(&lowers, layer, &rootfs.join(relative))
    };
    let mount_top = || -> Result<bool, Error> {
        let layer = layers.join("0");
        make_layer(&layer)?;
        let mut submounts = config.root.submounts.iter();
        let etc_is_mounted = submounts.any(|at| at == Path::new("/etc"));
        let has_hosts = !etc_is_mounted
            && hosts::write_in_upper(&config.root.dir, &layer.join(UPPER), &config.hosts)?;
        mount_layer(Path::new(""), &layer)?;
        Ok(has_hosts)
    };
    let mut is_lasting = true;
    let has_hosts = mount_top().or_else(|_| {
        // Not every file system can carry a layer: an overlay cannot, which is what a container's
        // own root is, and network file systems cannot. Memory always can.
        is_lasting = false;
        mount::tmpfs(&layers, inside::half_of_memory())?;
        mount_top()
    })?;
    RootMount {
        lowers: lowers_of(Path::new("")),
        is_lasting,
    }
    .write(&config.dir)?;
    let mut bound = Vec::new();
    for (number, submount) in config.root.submounts.iter().enumerate() {
        let relative = submount.strip_prefix("/").unwrap_or(submount);
        let (source, target) = (config.root.dir.join(relative), rootfs.join(relative));
        let layer = layers.join((number + 1).to_string());
        let layered = source.is_dir()
            && make_layer(&layer)
                .and_then(|()| mount_layer(submount, &layer))
                .is_ok();
        if !layered {
            // A single file, or a file system that cannot be under an overlay (FAT, some FUSE).
            mount::bind(&source, &target, false)?;
            mount::make_read_only(&target)?;
            bound.push(submount.clone());
        }
    }
    if !has_hosts {
        hosts::write(&rootfs, &config.hosts)?;
    }
    Ok(bound)
}

fn mount_overlay(lowers: &[PathBuf], layer: &Path, target: &Path) -> Result<(), Error> {
    let lowers: Vec<&Path> = lowers.iter().map(PathBuf::as_path).collect();
    let (upper, work) = (layer.join(UPPER), layer.join(WORK));
    Ok(mount::overlay(&lowers, &upper, &work, target)?)
}

/// The parts that a container's root is mounted of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RootMount {
    /// The image, and over it what covers parts of it, uppermost first.
    lowers: Vec<PathBuf>,
    /// Whether the writable layer is still there when the container has ended.
    pub(super) is_lasting: bool,
}

impl RootMount {
    fn path(dir: &Path) -> PathBuf {
        dir.join("bundle/root.json")
    }

    fn write(&self, dir: &Path) -> Result<(), Error> {
        let path = Self::path(dir);
        let json = serde_json::to_vec(self).expect("a document of texts");
        fs::write(&path, json).map_err(Error::io("write", &path))
    }

    pub(super) fn read(dir: &Path) -> Result<Self, Error> {
        let path = Self::path(dir);
        let json = fs::read(&path).map_err(Error::io("read", &path))?;
        serde_json::from_slice(&json).map_err(Error::io("understand", &path))
    }

    /// The image's root directory.
    pub(super) fn image(&self) -> &Path {
        self.lowers.last().map_or(Path::new("/"), PathBuf::as_path)
    }

    /// Mounts it once more, with the layer that it had; where it is.
    pub(super) fn mount(&self, dir: &Path) -> Result<PathBuf, Error> {
        let rootfs = dir.join("rootfs");
        mount_overlay(&self.lowers, &dir.join(LAYER).join("0"), &rootfs)?;
        Ok(rootfs)
    }
}

/// Mounts its storage and its huge pages beside its root, from where it is bound to its places inside.
fn mount_storage(config: &ContainerConfig, all: &[Ready<'_>]) -> Result<Vec<Bind>, Error> {
    let mount = |(number, ready): (usize, &Ready<'_>)| {
        let at = config.dir.join(STORAGE).join(number.to_string());
        fs::create_dir_all(&at).map_err(Error::io("make", &at))?;
        ready.mount(&at)?;
        Ok::<_, Error>(Bind {
            source: at.display().to_string(),
            target: ready.at().to_owned(),
            read_only: false,
        })
    };
    let binds = all.iter().enumerate().map(mount);
    let mut binds: Vec<Bind> = binds.collect::<Result<_, _>>()?;
    if let Some(huge_pages) = &config.huge_pages {
        let at = config.dir.join(STORAGE).join("pages");
        fs::create_dir_all(&at).map_err(Error::io("make", &at))?;
        mount::attach(huge_pages.as_fd(), &at)?;
        binds.push(Bind {
            source: at.display().to_string(),
            target: HUGE_PAGES_AT.to_owned(),
            read_only: false,
        });
    }
    Ok(binds)
}

fn make_layer(layer: &Path) -> Result<(), Error> {
    for dir in [layer.join(UPPER), layer.join(WORK)] {
        fs::create_dir_all(&dir).map_err(Error::io("make", &dir))?;
    }
    Ok(())
}

/// Shows the node its own cgroups, read-only: programs size themselves by their limits.
/// On version 2 that is one directory, on version 1 one for each hierarchy, named as on the
/// machine.
fn mount_cgroup_view(cgroup: &NodeCgroup, view: &Path) -> Result<(), Error> {
    let show = |dir: &Path, target: &Path| -> Result<(), Error> {
        mount::bind(dir, target, false)?;
        Ok(mount::make_read_only(target)?)
    };
    match cgroup.dirs() {
        [] => Ok(()),
        [only] if only.starts_with(CGROUP_ROOT) && hierarchy(only) == Path::new(CGROUP_ROOT) => {
            show(only, view)
        }
        several => {
            mount::tmpfs(view, 4096)?;
            for dir in several {
                let name = hierarchy(dir).file_name().unwrap_or_default();
                let target = view.join(name);
                fs::create_dir(&target).map_err(Error::io("make", &target))?;
                show(dir, &target)?;
            }
            Ok(())
        }
    }
}

/// The mount point of the hierarchy in which `<hierarchy>/latlab/<lab>/<node>` lies.
fn hierarchy(dir: &Path) -> &Path {
    dir.ancestors().nth(3).unwrap_or(dir)
}

/// A container whose runtime has done its part.
struct Begun {
    told: Told,
    document: Config,
    layer_in_memory: bool,
    world: Option<World>,
}

/// The first process's byte is to come out of it.
struct Told {
    ready: OwnedFd,
    deadline: Instant,
}

fn log_path(config: &ContainerConfig) -> PathBuf {
    config.dir.join("runtime.log")
}

/// Runs the runtime to its end, or until it stays in the background.
fn run_runtime(
    config: &ContainerConfig,
    document: &Config,
    entry: &CgroupEntry,
) -> Result<Told, Error> {
    let log_path = log_path(config);
    let log = File::create(&log_path).map_err(Error::io("make", &log_path))?;
    let (ready, ready_inside) =
        pipe_with(PipeFlags::CLOEXEC).map_err(sys::Error::of("make", "a pipe"))?;
    let filter = filter(document)?;
    let launcher = launchers::of(config.runtime);
    let launch = launcher.launch(&launch::Input {
        config,
        document,
        descriptors: 1 + u32::from(filter.is_some()),
    })?;
    let mut runtime = Spawn::new(&launch.program, &config.lab_id)
        .args(&launch.arguments)
        .cgroup(entry)
        .session()
        .tied()
        .descriptor(log.as_fd(), 1)
        .descriptor(log.as_fd(), 2)
        .descriptor(ready_inside.as_fd(), READY_FD);
    for (name, value) in &launch.environment {
        runtime = runtime.env(name, value);
    }
    if let Some(file) = &launch.file {
        runtime = runtime.executable(Executable::File(file.as_fd()));
    }
    if launcher.has_cgroup_namespace() {
        runtime = runtime.cgroup_namespace();
    }
    if let Some(filter) = &filter {
        runtime = runtime.descriptor(filter.as_fd(), FILTER_FD);
    }
    let runtime = runtime.start()?;
    // From here on the only copies are the runtime's and the first process's.
    drop(ready_inside);
    let deadline = Instant::now() + TIMEOUT;
    let failed = |message| Error::Runtime {
        runtime: config.runtime.to_string(),
        message,
    };
    if !runtime.wait(TIMEOUT)? {
        runtime.signal(Signal::KILL)?;
        return Err(failed(format!("no answer after {} s", TIMEOUT.as_secs())));
    }
    if runtime.collect()? != Some(Exit::Code(0)) {
        return Err(failed(last_words(&log_path)));
    }
    Ok(Told { ready, deadline })
}

/// Waits until the container's first process says that it runs, and looks whether all is as it was to be.
fn first_process(
    config: &ContainerConfig,
    cgroup: &NodeCgroup,
    begun: &Begun,
) -> Result<Process, Error> {
    let (document, told) = (&begun.document, &begun.told);
    if !is_told(told.ready.as_fd(), told.deadline)? {
        return Err(Error::Init(last_words(&log_path(config))));
    }
    let launcher = launchers::of(config.runtime);
    let pid = launcher.first_process(config, cgroup)?;
    let process = Process::of_pid(pid)?.ok_or(Error::Ended)?;
    if document.is_filtered() && !rights::is_filtered(&process) {
        process.signal(Signal::KILL)?;
        return Err(Error::Unfiltered);
    }
    if let Some(world) = &begun.world {
        let unasked = launcher.unasked();
        rights::check(&process, document)
            .and_then(|()| world::complete(world, document, unasked, &process))
            .inspect_err(|_| drop(process.signal(Signal::KILL)))?;
    }
    // When the node runs out of memory, a process that took it shall be killed, and not those that
    // hold the node together. A machine whose root may not say so leaves it to the sizes.
    for pid in members::all(config, cgroup)?.into_iter().chain([pid]) {
        let _ = fs::write(format!("/proc/{pid}/oom_score_adj"), "-1000");
    }
    Ok(process)
}

/// Waits for the first process's byte; false if it ended, or kept silent, instead.
fn is_told(ready: std::os::fd::BorrowedFd<'_>, deadline: Instant) -> Result<bool, Error> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec::try_from(left).ok();
    let mut readable = [PollFd::new(&ready, PollFlags::IN)];
    let readable = poll(&mut readable, timeout.as_ref())
        .map_err(sys::Error::of("wait for", "the first process"))?;
    if readable == 0 {
        return Ok(false);
    }
    let mut byte = [0];
    let read = rustix::io::read(ready, &mut byte)
        .map_err(sys::Error::of("hear from", "the first process"))?;
    Ok(read == 1)
}

/// The end of the runtime's log, as one line.
fn last_words(log: &Path) -> String {
    let mut text = String::new();
    let read = File::open(log).and_then(|file| file.take(1 << 16).read_to_string(&mut text));
    // Docker's daemons tell more than reasons.
    let is_reason = |line: &&str| {
        let notes = ["level=info", "level=warning"];
        !line.is_empty() && !notes.iter().any(|note| line.contains(note))
    };
    let words = text.lines().map(str::trim).filter(is_reason);
    let words = words.collect::<Vec<_>>().join("; ");
    match read {
        Ok(_) if !words.is_empty() => words,
        _ => "it wrote no reason".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_are_three_levels_up() {
        let dir = Path::new("/sys/fs/cgroup/memory/latlab/lab/node");
        assert_eq!(hierarchy(dir), Path::new("/sys/fs/cgroup/memory"));
        let dir = Path::new("/sys/fs/cgroup/latlab/lab/node");
        assert_eq!(hierarchy(dir), Path::new(CGROUP_ROOT));
    }

    #[test]
    fn the_runtimes_words_become_one_line() {
        let path = std::env::temp_dir().join(format!("latlab-words-{}", std::process::id()));
        fs::write(&path, "one\n\n  two  \n").unwrap();
        assert_eq!(last_words(&path), "one; two");
        let notes = "time=\"1\" level=info msg=\"up\"\ntime=\"2\" level=warning msg=\"old\"\nend";
        fs::write(&path, notes).unwrap();
        assert_eq!(last_words(&path), "end");
        fs::write(&path, "\n").unwrap();
        assert_eq!(last_words(&path), "it wrote no reason");
        fs::remove_file(&path).unwrap();
        assert_eq!(last_words(&path), "it wrote no reason");
    }
}
