//! A guest's first process: from the kernel's hand-over to a served command channel.
//!
//! Every step delays every VM's start, five times longer under software emulation, so only necessary ones are done.
//! In this order: the modules packed by the host (in the packed order), the host's file tree read-only with a
//! writable layer in memory on top, the usual kernel file systems, the channel's ports. A failure does not end the
//! boot if the channel can still be served: the host then gets the reason instead of a timeout.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount, mount_move};
use rustix::system::{RebootCommand, reboot};

use crate::kernel_line::{Parameters, Share, Transport};
use crate::serve;

/// How long the channel's ports may take to appear after their driver was loaded.
const PORTS_APPEAR: Duration = Duration::from_secs(10);
/// The modules packed by the host, named in load order.
const MODULES: &str = "/modules";

#[derive(Debug, thiserror::Error)]
#[error("{action}: {source}")]
struct StepError {
    action: String,
    source: io::Error,
}

fn step<T, E: Into<io::Error>>(
    result: Result<T, E>,
    action: impl FnOnce() -> String,
) -> Result<T, StepError> {
    result.map_err(|source| StepError {
        action: action(),
        source: source.into(),
    })
}

/// Runs the guest. Returns only when the machine could not even be turned off.
pub fn run() -> ExitCode {
    let (parameters, mut failure) = match prepare() {
        Ok(parameters) => (parameters, None),
        Err(message) => (fallback(), Some(message)),
    };
    if parameters.probe {
        println!("latlab-agent: user space runs");
        return power_off();
    }
    if failure.is_none() {
        failure = enter_image(&parameters)
            .err()
            .map(|error| error.to_string());
    }
    if let Some(message) = &failure {
        eprintln!("latlab-agent: {message}");
    }
    let served = open_ports(parameters.ports)
        .map_err(|error| error.to_string())
        .and_then(|ports| serve::on_ports(ports, failure).map_err(|error| error.to_string()));
    if let Err(message) = served {
        eprintln!("latlab-agent: serve the channel: {message}");
    }
    power_off()
}

fn prepare() -> Result<Parameters, String> {
    let none = MountFlags::empty();
    let make = || -> Result<String, StepError> {
        for (kind, target) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")] {
            mount_kernel(kind, target, none)?;
        }
        load_modules()?;
        step(fs::read_to_string("/proc/cmdline"), || {
            "read /proc/cmdline".into()
        })
    };
    Parameters::parse(&make().map_err(|error| error.to_string())?)
}

/// When the parameters are unreadable the channel is still worth trying, on its first port.
fn fallback() -> Parameters {
    Parameters {
        name: None,
        transport: Transport::NineP,
        ports: 1,
        shares: Vec::new(),
        probe: false,
    }
}

fn mount_kernel(kind: &str, target: &str, flags: MountFlags) -> Result<(), StepError> {
    step(mount(kind, target, kind, flags, None), || {
        format!("mount {kind} on {target}")
    })
}

fn load_modules() -> Result<(), StepError> {
    let entries = step(fs::read_dir(MODULES), || format!("list {MODULES}"))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let load = || -> io::Result<()> {
            match rustix::system::finit_module(&File::open(&path)?, c"", 0) {
                // Built in, or named twice.
                Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
                Err(error) => Err(error.into()),
            }
        };
        step(load(), || format!("load module {}", path.display()))?;
    }
    Ok(())
}

/// Mounts the image with its writable layer and makes it the root.
fn enter_image(parameters: &Parameters) -> Result<(), StepError> {
    let none = MountFlags::empty();
    for directory in ["/lower", "/layer", "/root"] {
        step(fs::create_dir_all(directory), || {
            format!("make {directory}")
        })?;
    }
    let root = Share {
        tag: "root".into(),
        path: "/".into(),
        writable: false,
    };
    mount_share(&parameters.transport, &root, "/lower")?;
    step(
        mount("tmpfs", "/layer", "tmpfs", none, Some(c"mode=755")),
        || "mount a tmpfs for the writable layer".into(),
    )?;
    for directory in ["/layer/upper", "/layer/work"] {
        step(fs::create_dir(directory), || format!("make {directory}"))?;
    }
    let options = c"lowerdir=/lower,upperdir=/layer/upper,workdir=/layer/work";
    step(
        mount("latlab", "/root", "overlay", none, Some(options)),
        || "mount the writable layer over the image".into(),
    )?;
    for directory in ["dev", "proc", "sys"] {
        let (from, to) = (format!("/{directory}"), format!("/root/{directory}"));
        step(fs::create_dir_all(&to), || {
            format!("make {directory} in the image")
        })?;
        step(mount_move(&from, &to), || {
            format!("move {from} into the image")
        })?;
    }
    step(std::env::set_current_dir("/root"), || {
        "enter the image".into()
    })?;
    step(mount_move(".", "/"), || "make the image the root".into())?;
    step(rustix::process::chroot("."), || {
        "change root into the image".into()
    })?;
    step(std::env::set_current_dir("/"), || {
        "enter the new root".into()
    })?;
    mount_rest();
    if let Some(name) = &parameters.name {
        step(rustix::system::sethostname(name.as_bytes()), || {
            format!("set host name {name}")
        })?;
    }
    for share in &parameters.shares {
        step(fs::create_dir_all(&share.path), || {
            format!("make {}", share.path)
        })?;
        mount_share(&parameters.transport, share, &share.path)?;
    }
    Ok(())
}

fn mount_share(transport: &Transport, share: &Share, target: &str) -> Result<(), StepError> {
    let flags = if share.writable {
        MountFlags::empty()
    } else {
        MountFlags::RDONLY
    };
    // Read-only trees are cached without asking the host again: every program start would otherwise be
    // a dozen round trips. A writable one is shared with the host, so it is not cached.
    let (kind, data) = match (transport, share.writable) {
        (Transport::NineP, false) => (
            "9p",
            Some(c"trans=virtio,version=9p2000.L,msize=512000,cache=loose"),
        ),
        (Transport::NineP, true) => (
            "9p",
            Some(c"trans=virtio,version=9p2000.L,msize=512000,cache=mmap"),
        ),
        (Transport::VirtioFs, _) => ("virtiofs", None),
    };
    step(mount(share.tag.as_str(), target, kind, flags, data), || {
        format!(
            "mount the host's tree '{}' on {target} over {kind}",
            share.tag
        )
    })
}

/// Mounts the file systems that programs expect. An image or a kernel without one of these still boots. The BPF
/// file system is left out: its first mount makes the kernel run the image's `modprobe`, a tenth of the whole
/// boot. Programs that pin BPF objects mount it.
fn mount_rest() {
    let none = MountFlags::empty();
    let mounts = [
        ("devpts", "/dev/pts", Some(c"mode=620,ptmxmode=666")),
        ("tmpfs", "/dev/shm", Some(c"mode=1777")),
        ("tmpfs", "/run", Some(c"mode=755")),
        ("tmpfs", "/tmp", Some(c"mode=1777")),
        ("cgroup2", "/sys/fs/cgroup", None),
        ("tracefs", "/sys/kernel/tracing", None),
    ];
    for (kind, target, data) in mounts {
        let _ = fs::create_dir_all(target);
        if let Err(error) = mount(kind, target, kind, none, data) {
            eprintln!("latlab-agent: mount {kind} on {target}: {error}");
        }
    }
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        if let Err(error) = std::os::unix::fs::symlink(target, link) {
            eprintln!("latlab-agent: link {link}: {error}");
        }
    }
}

/// Opens the channel's ports, which appear some time after their driver was loaded.
fn open_ports(count: usize) -> io::Result<Vec<OwnedFd>> {
    let deadline = Instant::now() + PORTS_APPEAR;
    loop {
        let devices = find_ports().unwrap_or_default();
        if devices.len() >= count {
            return devices
                .iter()
                .map(|device| {
                    let file = File::options().read(true).write(true).open(device)?;
                    Ok(file.into())
                })
                .collect();
        }
        if Instant::now() > deadline {
            return Err(io::Error::other(format!(
                "{} of {count} virtio-serial ports appeared within {} s",
                devices.len(),
                PORTS_APPEAR.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn find_ports() -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/class/virtio-ports")? {
        let entry = entry?;
        let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        let device = format!("/dev/{}", entry.file_name().to_string_lossy());
        if name.starts_with("latlab.") && Path::new(&device).exists() {
            found.push(device);
        }
    }
    Ok(found)
}

/// Turns the machine off. A machine that cannot be restarts, which its QEMU takes as the end too.
fn power_off() -> ExitCode {
    rustix::fs::sync();
    for command in [RebootCommand::PowerOff, RebootCommand::Restart] {
        if let Err(error) = reboot(command) {
            eprintln!("latlab-agent: {command:?}: {error}");
        }
    }
    ExitCode::FAILURE
}
