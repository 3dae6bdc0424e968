//! A guest's root: the file tree of its image, read-only, with a writable layer in memory on top.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount, mount_move};

use crate::kernel_line::{Access, Parameters, Share, Transport};
use crate::step::{StepError, step};

/// A disk appears as soon as its driver runs.
const DISK_TIMEOUT: Duration = Duration::from_secs(10);

/// Stored files are no way to a device or to another user, in any kind of node.
const STORAGE: MountFlags = MountFlags::NODEV.union(MountFlags::NOSUID);

const MACHINE_ID: &str = "/etc/machine-id";

/// Mounts what does not depend on the image: the writable layer, and the file systems that programs expect.
pub fn prepare() -> Result<(), StepError> {
    let none = MountFlags::empty();
    for directory in ["/lower", "/layer", "/image", "/run", "/tmp"] {
        step(fs::create_dir_all(directory), || {
            format!("make {directory}")
        })?;
    }
    for (target, data) in [
        ("/layer", c"mode=755"),
        ("/run", c"mode=755"),
        ("/tmp", c"mode=1777"),
    ] {
        step(mount("tmpfs", target, "tmpfs", none, Some(data)), || {
            format!("mount a tmpfs on {target}")
        })?;
    }
    for directory in ["/layer/upper", "/layer/work"] {
        step(fs::create_dir(directory), || format!("make {directory}"))?;
    }
    mount_rest();
    Ok(())
}

/// Mounts the image below the writable layer, makes it the root, and mounts the rest of what the guest was given.
pub fn enter(parameters: &Parameters) -> Result<(), StepError> {
    let root = Share {
        tag: "root".into(),
        path: "/".into(),
        access: match parameters.root_on_disk {
            true => Access::Disk,
            false => Access::ReadOnly,
        },
    };
    mount_share(&parameters.transport, &root, "/lower")?;
    become_root()?;
    name(parameters)?;
    for share in &parameters.shares {
        step(fs::create_dir_all(&share.path), || {
            format!("make {}", share.path)
        })?;
        mount_share(&parameters.transport, share, &share.path)?;
    }
    for (bytes, path) in &parameters.memory {
        step(fs::create_dir_all(path), || format!("make {path}"))?;
        let data = CString::new(format!("size={bytes},mode=755")).expect("digits only");
        step(mount("tmpfs", path, "tmpfs", STORAGE, Some(&*data)), || {
            format!("mount a tmpfs on {path}")
        })?;
    }
    Ok(())
}

/// Makes what is mounted on `/lower`, below the writable layer, the root.
pub fn become_root() -> Result<(), StepError> {
    let none = MountFlags::empty();
    let options = c"lowerdir=/lower,upperdir=/layer/upper,workdir=/layer/work";
    step(
        mount("latlab", "/image", "overlay", none, Some(options)),
        || "mount the writable layer over the image".into(),
    )?;
    for directory in ["dev", "proc", "sys", "run", "tmp"] {
        let (from, to) = (format!("/{directory}"), format!("/image/{directory}"));
        step(fs::create_dir_all(&to), || {
            format!("make {directory} in the image")
        })?;
        step(mount_move(&from, &to), || {
            format!("move {from} into the image")
        })?;
    }
    step(std::env::set_current_dir("/image"), || {
        "enter the image".into()
    })?;
    step(mount_move(".", "/"), || "make the image the root".into())?;
    step(rustix::process::chroot("."), || {
        "change root into the image".into()
    })?;
    step(std::env::set_current_dir("/"), || {
        "enter the new root".into()
    })
}

/// Gives the guest its name and a machine id of its own.
pub fn name(parameters: &Parameters) -> Result<(), StepError> {
    step(name_machine(), || format!("write {MACHINE_ID}"))?;
    let Some(name) = &parameters.name else {
        return Ok(());
    };
    step(rustix::system::sethostname(name.as_bytes()), || {
        format!("set host name {name}")
    })
}

fn mount_share(transport: &Transport, share: &Share, target: &str) -> Result<(), StepError> {
    match share.access {
        Access::Disk => return mount_disk(&share.tag, target, "squashfs", MountFlags::RDONLY),
        Access::WritableDisk => return mount_disk(&share.tag, target, "ext4", STORAGE),
        Access::ReadOnly | Access::Writable => {}
    }
    let is_writable = share.access == Access::Writable;
    let flags = if is_writable {
        MountFlags::empty()
    } else {
        MountFlags::RDONLY
    };
    // Read-only trees are cached without asking the host again: every program start would otherwise be
    // a dozen round trips. A writable one is shared with the host, so it is not cached.
    let (kind, data) = match (transport, is_writable) {
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

/// Mounts the file system image on the disk with this serial number.
fn mount_disk(serial: &str, target: &str, kind: &str, flags: MountFlags) -> Result<(), StepError> {
    let device = step(disk(serial), || format!("find the disk '{serial}'"))?;
    step(mount(&*device, target, kind, flags, None), || {
        format!("mount {device} on {target}")
    })
}

/// The device of a disk. Its driver is loaded, but may still be asking the disk what it is.
fn disk(serial: &str) -> io::Result<String> {
    let deadline = Instant::now() + DISK_TIMEOUT;
    loop {
        for entry in fs::read_dir("/sys/block")?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let device = format!("/dev/{name}");
            if serial_of(&entry.path()) == serial.as_bytes() && Path::new(&device).exists() {
                return Ok(device);
            }
        }
        if Instant::now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A disk's serial number: of virtio-blk as text, of SCSI as the page of vital product data that has it (SPC-4, 0x80).
fn serial_of(disk: &Path) -> Vec<u8> {
    const HEADER: usize = 4;
    if let Ok(text) = fs::read(disk.join("serial")) {
        return text.trim_ascii().to_vec();
    }
    let page = fs::read(disk.join("device/vpd_pg80")).unwrap_or_default();
    page.get(HEADER..).unwrap_or_default().trim_ascii().to_vec()
}

/// A machine's own number (machine-id(5)), which the image has of another one.
fn name_machine() -> io::Result<()> {
    if !Path::new(MACHINE_ID).exists() {
        return Ok(());
    }
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // The image may have a link there, to a place that is not.
    fs::remove_file(MACHINE_ID)?;
    fs::write(MACHINE_ID, digits + "\n")
}

/// A kernel without one of these still boots. The BPF
/// file system is left out: its first mount makes the kernel run the image's `modprobe`, a tenth of the whole
/// boot. Programs that pin BPF objects mount it.
fn mount_rest() {
    let none = MountFlags::empty();
    let mounts = [
        ("devpts", "/dev/pts", Some(c"mode=620,ptmxmode=666")),
        ("tmpfs", "/dev/shm", Some(c"mode=1777")),
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
