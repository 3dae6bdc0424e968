//! The end of a link that belongs to a virtual machine: a tap or macvtap, handed to QEMU as a descriptor.
//!
//! A tap is made straight in the namespace where its network side is to live, under its final
//! name. It is not persistent: it vanishes with its last descriptor, so a virtual machine that is
//! killed leaves nothing behind without any cleanup.
//!
//! A macvtap is made over netlink; its character device must then be opened by number, and only
//! the sysfs of its namespace knows the number. Both a sysfs of that namespace and a directory for
//! the device node are mounted detached from any path (`fsmount`), so nothing appears on the host.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::ioctl::{self, Opcode, Updater, ioctl};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::{Error, netns};

/// Longest interface name in bytes.
pub const NAME_MAX_BYTES: usize = 15;

const TUN_DEVICE: &str = "/dev/net/tun";
/// `_IOW('T', 202, int)`.
const TUNSETIFF: Opcode = ioctl::opcode::write::<libc::c_int>(b'T', 202);

/// Makes a tap called `name` in the namespace and returns a descriptor for each queue, of which there is at least one.
///
/// Which offloads are used is not decided here: QEMU sets them on the descriptor as the guest negotiates them. Every packet
/// carries a virtio-net header, with which they pass between guest and host.
pub fn create_tap(netns: BorrowedFd<'_>, name: &str, queues: u16) -> Result<Vec<OwnedFd>, Error> {
    netns::on_thread(|| {
        // The device belongs to the namespace of the thread that opens the file.
        netns::enter(netns)?;
        (0..queues.max(1))
            .map(|_| open_queue(name, queues))
            .collect()
    })
}

fn open_queue(name: &str, queues: u16) -> Result<OwnedFd, Error> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(TUN_DEVICE, flags, Mode::empty())
        .map_err(Error::of("open", TUN_DEVICE))?;
    set_interface(&file, name, queues)?;
    Ok(file)
}

/// `TUNSETIFF`: attaches a descriptor to an interface, making it if it is a tap and new.
fn set_interface(file: &OwnedFd, name: &str, queues: u16) -> Result<(), Error> {
    if name.len() > NAME_MAX_BYTES || name.contains('\0') {
        let reason = format!("the name is longer than {NAME_MAX_BYTES} bytes or holds a zero");
        return Err(Error::because(
            "make tap",
            name,
            io::ErrorKind::InvalidInput,
            reason,
        ));
    }
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    if queues > 1 {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    // SAFETY: ifreq is a plain C struct for which all zeroes are a valid, empty value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which is what the updater points to.
    unsafe { ioctl(file, Updater::<TUNSETIFF, _>::new(&mut request)) }
        .map_err(Error::of("make tap", name))
}

/// Opens the character device of the macvtap `name`, which lives in the namespace, once for each queue.
pub fn open_macvtap(netns: BorrowedFd<'_>, name: &str, queues: u16) -> Result<Vec<OwnedFd>, Error> {
    netns::on_thread(|| {
        netns::enter(netns)?;
        let index = {
            let sysfs = detached("sysfs", MountAttrFlags::MOUNT_ATTR_RDONLY)?;
            let index = read_at(&sysfs, &format!("class/net/{name}/ifindex"))?;
            let index = index.trim().to_owned();
            let number = read_at(&sysfs, &format!("class/net/{name}/macvtap/tap{index}/dev"))?;
            parse_device_number(&number).ok_or_else(|| {
                let reason = format!("`{}` is not a device number", number.trim());
                Error::because("open macvtap", name, io::ErrorKind::InvalidData, reason)
            })?
        };
        let directory = detached("tmpfs", MountAttrFlags::empty())?;
        let device = rustix::fs::makedev(index.0, index.1);
        rustix::fs::mknodat(
            &directory,
            "tap",
            FileType::CharacterDevice,
            Mode::RUSR,
            device,
        )
        .map_err(Error::of("make the device node of macvtap", name))?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let open = |_| {
            let file = rustix::fs::openat(&directory, "tap", flags, Mode::empty())
                .map_err(Error::of("open macvtap", name))?;
            set_interface(&file, name, queues)?;
            Ok(file)
        };
        (0..queues.max(1)).map(open).collect()
    })
}

/// A file system of this type, mounted nowhere; gone with its descriptor. A sysfs shows the network
/// devices of the calling thread's namespace.
fn detached(kind: &str, attributes: MountAttrFlags) -> Result<OwnedFd, Error> {
    let mount = || {
        let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_create(context.as_fd())?;
        rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    mount().map_err(Error::of("mount", kind))
}

fn read_at(directory: &OwnedFd, path: &str) -> Result<String, Error> {
    let read = || -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut text = String::new();
        File::from(rustix::fs::openat(directory, path, flags, Mode::empty())?)
            .read_to_string(&mut text)?;
        Ok(text)
    };
    read().map_err(Error::of("read sysfs", path))
}

fn parse_device_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers() {
        assert_eq!(parse_device_number("241:3\n"), Some((241, 3)));
        assert_eq!(parse_device_number("241"), None);
        assert_eq!(parse_device_number("a:b"), None);
    }

    #[test]
    fn a_name_that_does_not_fit_is_refused_before_the_kernel_sees_it() {
        let file = OwnedFd::from(File::open("/dev/null").unwrap());
        let error = set_interface(&file, "sixteen-byte-nam", 1).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::InvalidInput);
    }
}
