//! System calls of the recorders: shared memory with BPF programs, attachment, perf's software events.

use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

pub struct Shared {
    start: *mut u8,
    length: usize,
}

// SAFETY: the memory is plain bytes that live until the value is dropped; all access goes through
// methods that copy, and those that race with the kernel use volatile accesses of whole words.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps the first `length` bytes of the map.
    pub fn map(map: impl AsFd, length: usize) -> Result<Shared, Errno> {
        let page = rustix::param::page_size();
        let length = length.next_multiple_of(page);
        // SAFETY: a new mapping at an address the kernel chooses; nothing else refers to it.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                map,
                0,
            )?
        };
        Ok(Shared {
            start: start.cast(),
            length,
        })
    }

    /// Private memory, which a test fills in the kernel's place.
    #[cfg(test)]
    pub fn private(length: usize) -> Shared {
        let length = length.next_multiple_of(rustix::param::page_size());
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address the kernel chooses; nothing else refers to it.
        let start = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE)
        };
        Shared {
            start: start.unwrap().cast(),
            length,
        }
    }

    /// Sets the bytes from `offset` on.
    #[cfg(test)]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset <= self.length && bytes.len() <= self.length - offset);
        // SAFETY: in bounds, and a test writes and reads in turns.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset), bytes.len());
        }
    }

    /// Copies `length` bytes from `offset`.
    ///
    /// # Panics
    /// When they are not inside.
    #[must_use]
    pub fn copy(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset <= self.length && length <= self.length - offset);
        let mut bytes = vec![0; length];
        // SAFETY: in bounds, and a record that the kernel writes at this moment is at worst torn.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.add(offset), bytes.as_mut_ptr(), length);
        }
        bytes
    }

    /// Copies `N` bytes from `offset`.
    ///
    /// # Panics
    /// When they are not inside.
    #[must_use]
    pub fn read<const N: usize>(&self, offset: usize) -> [u8; N] {
        assert!(offset <= self.length && N <= self.length - offset);
        let mut bytes = [0; N];
        // SAFETY: as in `copy`.
        unsafe { std::ptr::copy_nonoverlapping(self.start.add(offset), bytes.as_mut_ptr(), N) };
        bytes
    }

    /// The word at `offset`, as it is now.
    ///
    /// # Panics
    /// When it is not inside or not aligned.
    #[must_use]
    pub fn load(&self, offset: usize) -> u64 {
        assert!(offset % 8 == 0 && offset + 8 <= self.length);
        // SAFETY: in bounds, and aligned because the mapping begins at a page.
        unsafe { self.start.add(offset).cast::<u64>().read_volatile() }
    }

    /// Sets the half word at `offset`.
    ///
    /// # Panics
    /// When it is not inside or not aligned.
    pub fn store(&self, offset: usize, value: u32) {
        assert!(offset % 4 == 0 && offset + 4 <= self.length);
        // SAFETY: as in `load`.
        unsafe { self.start.add(offset).cast::<u32>().write_volatile(value) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and nothing refers to it any more.
        unsafe { munmap(self.start.cast(), self.length).ok() };
    }
}

#[derive(Debug, Clone, Copy)]
pub enum SoftwareEvent {
    /// A page fault that needed no disk has been dealt with.
    MinorFault = 5,
    MajorFault = 6,
}

/// Opens a software event of every task on one CPU; each occurrence is a sample. Fails when the kernel has no perf
/// events or does not allow them.
pub fn software_event(event: SoftwareEvent, cpu: u16) -> Result<OwnedFd, Errno> {
    let attributes = Attributes {
        config: event as u64,
        sample_period: 1,
        ..Attributes::default()
    };
    open_event(attributes, -1, libc::c_int::from(cpu as i16))
}

/// Opens a clock of one thread and of those that it starts, which advances while they run: a sample a period.
pub fn cpu_clock(thread: u32, period_ns: u64) -> Result<OwnedFd, Errno> {
    const CPU_CLOCK: u64 = 0;
    const INHERIT: u64 = 2;
    let attributes = Attributes {
        config: CPU_CLOCK,
        sample_period: period_ns,
        flags: INHERIT,
        ..Attributes::default()
    };
    let thread = libc::pid_t::try_from(thread).map_err(|_| Errno::SRCH)?;
    open_event(attributes, thread, -1)
}

/// The beginning of `struct perf_event_attr`; `size` tells the kernel that it is no more.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

fn open_event(
    attributes: Attributes,
    thread: libc::pid_t,
    cpu: libc::c_int,
) -> Result<OwnedFd, Errno> {
    const TYPE_SOFTWARE: u32 = 1;
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let attributes = Attributes {
        kind: TYPE_SOFTWARE,
        size: size_of::<Attributes>() as u32,
        ..attributes
    };
    // SAFETY: the structure is as the kernel's first version has it and lives through the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread,
            cpu,
            -1,
            CLOSE_ON_EXEC,
        )
    };
    match libc::c_int::try_from(fd) {
        // SAFETY: a descriptor that the kernel just made and nothing else owns.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

#[must_use]
pub fn interface_index(name: &str) -> Option<i32> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: a string that ends with a zero and lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => i32::try_from(index).ok(),
    }
}

/// Attaches a program to an interface of the calling thread's network namespace, until the descriptor is closed. Fails
/// when the kernel cannot (before Linux 6.6), or will not.
pub fn attach_tcx(program: impl AsFd, interface: i32, egress: bool) -> Result<OwnedFd, Errno> {
    use std::os::fd::AsRawFd;
    let side = if egress {
        libbpf_sys::BPF_TCX_EGRESS
    } else {
        libbpf_sys::BPF_TCX_INGRESS
    };
    // SAFETY: without options there is no pointer that the kernel would follow.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_fd().as_raw_fd(),
            interface,
            side,
            std::ptr::null(),
        )
    };
    match fd {
        // SAFETY: a descriptor that the kernel just made and nothing else owns.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Errno::from_raw_os_error(-fd)),
    }
}

/// Number of runs of a BPF program that were skipped because it was already running on that CPU; 0 if the
/// kernel does not count them.
#[must_use]
pub fn recursion_misses(program: impl AsFd) -> u64 {
    info(program).map_or(0, |info| info.recursion_misses)
}

/// A BPF program's number in the kernel, and its name with zeros behind it.
#[must_use]
pub fn number_and_name(program: impl AsFd) -> Option<(u32, [u8; 16])> {
    info(program).map(|info| (info.id, info.name.map(|letter| letter.to_ne_bytes()[0])))
}

/// The BPF program of a number.
pub fn program(number: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: no pointers.
    match unsafe { libbpf_sys::bpf_prog_get_fd_by_id(number) } {
        // SAFETY: a descriptor that the kernel just made and nothing else owns.
        fd @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        error => Err(Errno::from_raw_os_error(-error)),
    }
}

fn info(program: impl AsFd) -> Option<libbpf_sys::bpf_prog_info> {
    use std::os::fd::AsRawFd;
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = size_of_val(&info) as u32;
    // SAFETY: the structure is the kernel's and `length` its size; both live through the call.
    let failed = unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(
            program.as_fd().as_raw_fd(),
            &raw mut info,
            &raw mut length,
        )
    };
    (failed == 0).then_some(info)
}
