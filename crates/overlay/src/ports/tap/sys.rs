//! System calls of a tap, and the memory that they read and write.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use libc::{c_int, c_short, c_ulong, c_void, ifreq, iovec};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::frames::{Offload, Segment};

/// `TUNSETOFFLOAD`'s flags (linux/if_tun.h).
const TUN_F_CSUM: c_ulong = 0x01;
const TUN_F_TSO4: c_ulong = 0x02;
const TUN_F_TSO6: c_ulong = 0x04;
const TUN_F_TSO_ECN: c_ulong = 0x08;
const TUN_F_USO4: c_ulong = 0x20;
const TUN_F_USO6: c_ulong = 0x40;
const TUNSETIFF: c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: c_ulong = 0x4004_54d0;
const TUNSETVNETHDRSZ: c_ulong = 0x4004_54d8;

pub(super) fn open(
    device: &str,
    netns: Option<&Path>,
    queues: u16,
    mtu: u16,
) -> io::Result<Vec<OwnedFd>> {
    let Some(path) = netns else {
        return open_here(device, queues, mtu);
    };
    let namespace = File::open(path).map_err(|error| {
        with(
            &error,
            &format!("cannot open the namespace {}", path.display()),
        )
    })?;
    // Only a thread's own namespace can be changed, so this thread ends afterwards.
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind)
                .map_err(|error| with(&error.into(), "cannot enter the namespace"))?;
            open_here(device, queues, mtu)
        });
        let ended = inside.join();
        ended.map_err(|_| io::Error::other("the thread that opened the tap died"))?
    })
}

fn with(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn open_here(device: &str, queues: u16, mtu: u16) -> io::Result<Vec<OwnedFd>> {
    let mut tun = File::options();
    tun.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    if queues > 1 {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    let mut request = request(device)?;
    request.ifr_ifru.ifru_flags = flags as c_short;
    let mut opened = Vec::new();
    for _ in 0..queues {
        let queue = tun.open("/dev/net/tun");
        let failed = "cannot open /dev/net/tun, which the module `tun` makes";
        let queue = OwnedFd::from(queue.map_err(|error| with(&error, failed))?);
        let attached = ioctl(&queue, TUNSETIFF, (&raw mut request).cast());
        attached.map_err(|error| with(&error, &format!("cannot make the tap {device}")))?;
        let mut header = c_int::try_from(Offload::BYTES).unwrap_or(0);
        ioctl(&queue, TUNSETVNETHDRSZ, (&raw mut header).cast())?;
        let usual = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
        // UDP's segmentation came with Linux 6.2.
        let all = usual | TUN_F_USO4 | TUN_F_USO6;
        ioctl(&queue, TUNSETOFFLOAD, all as *mut c_void)
            .or_else(|_| ioctl(&queue, TUNSETOFFLOAD, usual as *mut c_void))?;
        opened.push(queue);
    }
    set_up(device, mtu).map_err(|error| with(&error, &format!("cannot set {device} up")))?;
    Ok(opened)
}

fn set_up(device: &str, mtu: u16) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    let mut change = request(device)?;
    change.ifr_ifru.ifru_mtu = c_int::from(mtu);
    ioctl(&socket, libc::SIOCSIFMTU, (&raw mut change).cast())?;
    ioctl(&socket, libc::SIOCGIFFLAGS, (&raw mut change).cast())?;
    // SAFETY: the call before filled in the flags.
    let flags = unsafe { change.ifr_ifru.ifru_flags };
    change.ifr_ifru.ifru_flags = flags | libc::IFF_UP as c_short;
    ioctl(&socket, libc::SIOCSIFFLAGS, (&raw mut change).cast())
}

fn request(device: &str) -> io::Result<ifreq> {
    // SAFETY: all zeros is an `ifreq`.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    if device.len() >= request.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn ioctl(fd: &OwnedFd, call: c_ulong, argument: *mut c_void) -> io::Result<()> {
    // SAFETY: every call above is given what it reads or writes, or a number.
    match unsafe { libc::ioctl(fd.as_raw_fd(), call, argument) } {
        done if done >= 0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A frame, with its virtio-net header.
pub(super) type Frame = ([u8; Offload::BYTES], Segment);

/// The interface of a queue was deleted.
pub(super) struct Deleted;

/// Buffers of frames, which stay until their slot is read again.
pub(super) struct Slots {
    memory: Box<[u8]>,
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} slots", Self::COUNT)
    }
}

impl Slots {
    /// As many slots as a batch has frames.
    pub const COUNT: usize = 32;

    /// The longest IP packet, an Ethernet header with two tags, and the virtio-net header.
    const SIZE: usize = 65_535 + 22 + Offload::BYTES;

    pub fn new() -> Slots {
        Slots {
            memory: vec![0; Self::COUNT * Self::SIZE].into(),
        }
    }

    /// Reads the next frame into a slot, if there is one. Errors: the interface was deleted: reads fail with `EBADFD`
    /// from then on.
    pub fn read(&mut self, slot: usize, fd: &OwnedFd) -> Result<Option<Frame>, Deleted> {
        let memory = &mut self.memory[slot * Self::SIZE..][..Self::SIZE];
        let read = match rustix::io::read(fd, &mut *memory) {
            Ok(read) => read,
            Err(rustix::io::Errno::BADFD) => return Err(Deleted),
            Err(_) => return Ok(None),
        };
        let Some((header, frame)) = memory[..read].split_first_chunk::<{ Offload::BYTES }>() else {
            return Ok(None);
        };
        // SAFETY: the memory lives as long as the receiver, and the slot is written again only by
        // the next receive, which is after the batch has been completed.
        let segment = unsafe { Segment::new(frame.as_ptr(), frame.len()) };
        Ok(Some((*header, segment)))
    }
}

pub(super) struct Gather {
    pieces: Vec<iovec>,
}

// SAFETY: the pointers are filled in and used within one call of `write`.
unsafe impl Send for Gather {}

impl std::fmt::Debug for Gather {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} pieces", self.pieces.len())
    }
}

impl Gather {
    pub const fn new() -> Gather {
        Gather { pieces: Vec::new() }
    }

    pub fn write(&mut self, fd: &OwnedFd, heads: [&[u8]; 2], rest: &[Segment]) -> io::Result<()> {
        let heads = heads.map(|head| (head.as_ptr(), head.len()));
        let rest = rest.iter().map(|segment| (segment.as_ptr(), segment.len()));
        let pieces = heads.into_iter().chain(rest).map(|(start, len)| iovec {
            iov_base: start.cast_mut().cast(),
            iov_len: len,
        });
        self.pieces.clear();
        self.pieces.extend(pieces);
        let count = c_int::try_from(self.pieces.len()).unwrap_or(c_int::MAX);
        // SAFETY: the heads are borrowed, and the makers of the segments promised that they stay
        // until the batch is complete. The kernel only reads them.
        let written = unsafe { libc::writev(fd.as_raw_fd(), self.pieces.as_ptr(), count) };
        match written {
            written if written >= 0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
