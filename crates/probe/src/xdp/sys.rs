//! The memory that AF_XDP shares with the kernel, and bpf(2).
//!
//! All `unsafe` of this folder is here. A ring is one producer and one consumer, one of them the kernel,
//! each of which writes one counter only (Documentation/networking/af_xdp.rst). The counters are read
//! and written as atomics, and a descriptor is only touched while it is ours by their word.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::c_int;
use rustix::net::sockopt;
use rustix::net::xdp::{XdpUmemReg, XdpUmemRegFlags};

use crate::sys::check;

struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: plain memory that nothing else in this process knows of.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(length: usize, flags: c_int, of: Option<(BorrowedFd<'_>, i64)>) -> io::Result<Mapping> {
        let (fd, offset) = of.map_or((-1, 0), |(fd, offset)| (fd.as_raw_fd(), offset));
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address the kernel chooses; nothing else refers to it.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                flags | libc::MAP_POPULATE,
                fd,
                offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Mapping { start, length })
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset % 4 == 0 && offset + 4 <= self.length);
        // SAFETY: in bounds and aligned, since a mapping begins at a page; all users use atomics.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// The packets' memory, shared with the kernel ("UMEM").
pub struct Memory(Mapping);

impl Memory {
    pub fn new(length: usize) -> io::Result<Memory> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Ok(Memory(Mapping::new(length, flags, None)?))
    }

    /// Some of it. It must be ours by the rings, or what is read is torn; it is never more than that,
    /// because these are plain bytes.
    pub fn bytes(&mut self, from: usize, length: usize) -> &mut [u8] {
        assert!(from <= self.0.length && length <= self.0.length - from);
        // SAFETY: in bounds; borrowed from the only value that hands it out.
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr().add(from), length) }
    }
}

/// Entries of rings: integers without padding.
pub trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for Descriptor {}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Descriptor {
    pub address: u64,
    pub length: u32,
    /// None are used.
    pub options: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Empty frames, for the kernel to receive into.
    Fill,
    /// Frames that the kernel has sent.
    Completion,
    Receive,
    Send,
}

/// One ring, of which this process is producer (fill, send) or consumer (receive, completion).
pub struct Ring<T> {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    mask: u32,
    /// Our own counter; the kernel may not know its value yet.
    own: u32,
    /// The kernel's counter, when it was last read.
    seen: u32,
    holds: PhantomData<T>,
}

impl<T: Entry> Ring<T> {
    pub fn new(socket: BorrowedFd<'_>, kind: Kind, size: u32) -> io::Result<Ring<T>> {
        assert!(size.is_power_of_two());
        match kind {
            Kind::Fill => sockopt::set_xdp_umem_fill_ring_size(socket, size),
            Kind::Completion => sockopt::set_xdp_umem_completion_ring_size(socket, size),
            Kind::Receive => sockopt::set_xdp_rx_ring_size(socket, size),
            Kind::Send => sockopt::set_xdp_tx_ring_size(socket, size),
        }?;
        let all = sockopt::xdp_mmap_offsets(socket)?;
        let (at, page) = match kind {
            Kind::Fill => (all.fr, libc::XDP_UMEM_PGOFF_FILL_RING as i64),
            Kind::Completion => (all.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64),
            Kind::Receive => (all.rx, libc::XDP_PGOFF_RX_RING),
            Kind::Send => (all.tx, libc::XDP_PGOFF_TX_RING),
        };
        let length = at.desc as usize + size as usize * size_of::<T>();
        let mapping = Mapping::new(length, libc::MAP_SHARED, Some((socket, page)))?;
        Ok(Ring {
            mapping,
            producer: at.producer as usize,
            consumer: at.consumer as usize,
            // Kernels without flags refuse to bind a socket that is to be woken.
            flags: at.flags.unwrap_or_default() as usize,
            entries: at.desc as usize,
            mask: size - 1,
            own: 0,
            seen: 0,
            holds: PhantomData,
        })
    }

    fn entry(&self, number: u32) -> *mut T {
        let at = self.entries + (number & self.mask) as usize * size_of::<T>();
        assert!(at + size_of::<T>() <= self.mapping.length);
        // SAFETY: in bounds.
        unsafe { self.mapping.start.as_ptr().add(at).cast() }
    }

    /// As producer: entries that can be put now.
    pub fn room(&mut self) -> u32 {
        self.seen = self.mapping.word(self.consumer).load(Ordering::Acquire);
        self.mask + 1 - self.own.wrapping_sub(self.seen)
    }

    /// As producer: puts an entry, which the kernel sees after [`Ring::submit`]. There must be room.
    pub fn put(&mut self, entry: T) {
        let slot = self.entry(self.own);
        // SAFETY: in bounds, and ours until it is submitted.
        unsafe { slot.write_volatile(entry) };
        self.own = self.own.wrapping_add(1);
    }

    /// As producer: lets the kernel see what was put.
    pub fn submit(&self) {
        let producer = self.mapping.word(self.producer);
        producer.store(self.own, Ordering::Release);
    }

    /// As producer: entries that the kernel has not taken yet.
    pub fn waiting(&self) -> u32 {
        let taken = self.mapping.word(self.consumer).load(Ordering::Acquire);
        self.own.wrapping_sub(taken)
    }

    /// As consumer: takes the next entry, if there is one. The kernel may use its place again after [`Ring::release`].
    pub fn take(&mut self) -> Option<T> {
        if self.own == self.seen {
            self.seen = self.mapping.word(self.producer).load(Ordering::Acquire);
            if self.own == self.seen {
                return None;
            }
        }
        let slot = self.entry(self.own);
        // SAFETY: in bounds, and ours until it is released.
        let entry = unsafe { slot.read_volatile() };
        self.own = self.own.wrapping_add(1);
        Some(entry)
    }

    /// As consumer: gives the places of what was taken back to the kernel.
    pub fn release(&self) {
        let consumer = self.mapping.word(self.consumer);
        consumer.store(self.own, Ordering::Release);
    }

    /// As producer: whether the kernel wants to be told that there is something.
    pub fn wants_wakeup(&self) -> bool {
        self.mapping.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// Makes the memory that of the socket's packets, in chunks of `chunk` bytes.
pub fn register(socket: BorrowedFd<'_>, memory: &Memory, chunk: u32) -> io::Result<()> {
    let registration = XdpUmemReg {
        addr: memory.0.start.as_ptr() as u64,
        len: memory.0.length as u64,
        chunk_size: chunk,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    Ok(sockopt::set_xdp_umem_reg(socket, registration)?)
}

/// One call of bpf(2); gives the descriptor or number that the kernel answers with.
fn bpf<T>(command: c_int, attributes: &T) -> io::Result<c_int> {
    // SAFETY: the pointer is to a live value of the size passed, and pointers in it are to memory that
    // the caller keeps alive over the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    };
    let result = result as c_int;
    check(result)?;
    Ok(result)
}

fn owned(fd: c_int) -> OwnedFd {
    // SAFETY: a descriptor that the kernel just made and nothing else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    Devices = 14,
    Sockets = 17,
}

/// A map from small numbers to interfaces or sockets.
pub fn map(kind: MapKind, entries: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        kind: u32,
        key_bytes: u32,
        value_bytes: u32,
        entries: u32,
        flags: u32,
    }
    let attributes = Attributes {
        kind: kind as u32,
        key_bytes: 4,
        value_bytes: 4,
        entries,
        flags: 0,
    };
    bpf(0, &attributes).map(owned)
}

pub fn set_entry(map: BorrowedFd<'_>, key: u32, value: u32) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        map: u32,
        padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let attributes = Attributes {
        map: map.as_raw_fd() as u32,
        padding: 0,
        key: &raw const key as u64,
        value: &raw const value as u64,
        flags: 0,
    };
    bpf(2, &attributes).map(|_| ())
}

pub fn load(instructions: &[u64]) -> io::Result<OwnedFd> {
    const XDP: u32 = 6;
    #[repr(C)]
    struct Attributes {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
    }
    let attributes = Attributes {
        kind: XDP,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"Dual BSD/GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    bpf(5, &attributes).map(owned)
}

/// Attaches a program to an interface until the descriptor is closed; `generic` behind the driver.
pub fn attach(program: BorrowedFd<'_>, interface: u32, generic: bool) -> io::Result<OwnedFd> {
    const BPF_XDP: u32 = 37;
    const GENERIC: u32 = 1 << 1;
    const DRIVER: u32 = 1 << 2;
    #[repr(C)]
    struct Attributes {
        program: u32,
        interface: u32,
        kind: u32,
        flags: u32,
    }
    let attributes = Attributes {
        program: program.as_raw_fd() as u32,
        interface,
        kind: BPF_XDP,
        flags: if generic { GENERIC } else { DRIVER },
    };
    bpf(28, &attributes).map(owned)
}
