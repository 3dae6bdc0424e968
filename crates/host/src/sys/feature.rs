//! System calls that exist only to find out whether the kernel has a feature.
//!
//! Each makes the smallest object that needs the feature and lets it go again: the descriptor
//! returned is closed by its owner, and nothing else remains. The layouts are the kernel's, written
//! down here because `libc` has none of them.

use std::ffi::{c_int, c_long, c_ulong};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::error::checked;
use super::sockets::set_option;

pub(super) fn descriptor(result: c_long) -> io::Result<OwnedFd> {
    match c_int::try_from(result) {
        // SAFETY: the kernel just made this descriptor for us, so it has no other owner.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Memory shared with an AF_XDP socket, aligned to every page size.
#[repr(C, align(65536))]
struct Frames([u8; 64 << 10]);

const XDP_FRAME_BYTES: u32 = 2048;
const XDP_RING_ENTRIES: u32 = 16;

/// Binds an AF_XDP socket, with memory and all four rings, to the first queue of an interface in
/// the calling thread's network namespace, and closes it. Copying, which every driver can.
pub fn bind_xdp_socket(interface_index: u32) -> io::Result<()> {
    // Declared before the socket, so that it outlives it.
    let mut frames = Box::new(Frames([0; 64 << 10]));
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    let socket = descriptor(fd.into())?;
    // SAFETY: a plain C structure of numbers, for which zero is a value.
    let mut memory: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
    memory.addr = frames.0.as_mut_ptr() as u64;
    memory.len = frames.0.len() as u64;
    memory.chunk_size = XDP_FRAME_BYTES;
    // The kernel pins the memory until the socket is closed.
    set_option(&socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &memory)?;
    for ring in [
        libc::XDP_UMEM_FILL_RING,
        libc::XDP_UMEM_COMPLETION_RING,
        libc::XDP_RX_RING,
        libc::XDP_TX_RING,
    ] {
        set_option(&socket, libc::SOL_XDP, ring, &XDP_RING_ENTRIES)?;
    }
    // SAFETY: as above.
    let mut address: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
    address.sxdp_family = libc::AF_XDP as u16;
    address.sxdp_flags = libc::XDP_COPY;
    address.sxdp_ifindex = interface_index;
    let pointer: *const libc::sockaddr_xdp = &address;
    let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes at the address of a live structure of that size.
    checked(unsafe { libc::bind(socket.as_raw_fd(), pointer.cast(), length) })
}

/// Starts a process in new namespaces, given as `CLONE_NEW*` flags, that ends at once. User
/// namespaces cannot be tried in any other way: a thread among others may not enter a new one.
pub fn try_namespaces(flags: c_int) -> io::Result<()> {
    // SAFETY: without CLONE_VM and with a null stack this is `fork`: the child gets a copy of
    // everything and goes on here, on its copy of the stack.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags | libc::SIGCHLD, 0, 0, 0, 0) };
    match pid {
        0 => {
            // SAFETY: `_exit` is async-signal-safe, which in a child of a process with threads is
            // all that may be called; nothing was touched since the fork.
            unsafe { libc::_exit(0) }
        }
        pid if pid > 0 => {
            let pid = rustix::process::Pid::from_raw(pid as i32);
            let options = rustix::process::WaitOptions::empty();
            rustix::io::retry_on_intr(|| rustix::process::waitpid(pid, options))?;
            Ok(())
        }
        _ => Err(io::Error::last_os_error()),
    }
}

const VHOST_GET_FEATURES: c_ulong = 0x8008_af00;

pub fn vhost_features(device: impl AsFd) -> io::Result<u64> {
    let mut features = 0u64;
    // SAFETY: VHOST_GET_FEATURES writes eight bytes at the address, which is a live u64; on any
    // other device the request is unknown and refused.
    let result = unsafe {
        libc::ioctl(
            device.as_fd().as_raw_fd(),
            VHOST_GET_FEATURES as _,
            &raw mut features,
        )
    };
    checked(result).map(|()| features)
}

/// The twelve letters with which a hypervisor names itself to an x86 CPU's CPUID; `None` on
/// other architectures and where the CPU says that there is none.
pub fn hypervisor_signature() -> Option<[u8; 12]> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        const HYPERVISOR_PRESENT: u32 = 1 << 31;
        // SAFETY: every x86_64 CPU has the instruction, and leaf 1; the second leaf is
        // reserved for hypervisors, one of which was just found. (Newer compilers call it safe.)
        #[allow(unused_unsafe)]
        let leaf = unsafe {
            if __cpuid(1).ecx & HYPERVISOR_PRESENT == 0 {
                return None;
            }
            __cpuid(0x4000_0000)
        };
        let mut letters = [0; 12];
        for (letters, register) in letters
            .chunks_exact_mut(4)
            .zip([leaf.ebx, leaf.ecx, leaf.edx])
        {
            letters.copy_from_slice(&register.to_le_bytes());
        }
        Some(letters)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Makes a ring of io_uring with one entry, and closes it.
pub fn try_io_uring() -> io::Result<()> {
    /// `struct io_uring_params` has 120 bytes, all of which may be zero.
    #[repr(C, align(8))]
    struct Parameters([u8; 120]);
    let mut parameters = Parameters([0; 120]);
    // SAFETY: the kernel reads and writes the structure, which has its size and lives for the call.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, &raw mut parameters) };
    descriptor(fd).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_vhost_devices_have_its_features() {
        let null = std::fs::File::open("/dev/null").unwrap();
        let error = vhost_features(&null).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }

    #[test]
    fn a_child_in_no_new_namespace_always_works() {
        try_namespaces(0).unwrap();
    }

    #[test]
    fn a_wrong_flag_is_refused() {
        // A thread's flag without its companions.
        assert!(try_namespaces(libc::CLONE_THREAD).is_err());
    }
}
