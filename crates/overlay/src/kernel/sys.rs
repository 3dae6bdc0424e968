//! Programs at an interface by themselves (tcx, Linux 6.6; netkit, 6.7), which libbpf's safe bindings leave
//! out: they know links, and a link goes with the process that made it.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_sys::{BPF_F_REPLACE, BPF_NETKIT_PEER, BPF_TCX_INGRESS};
use rustix::io::Errno;

/// Most programs of one interface that are looked at.
const MOST: usize = 64;

/// Where a program stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    /// What comes in at this interface.
    Entrance(u32),
    /// What the other end of this netkit pair sends. The other end has no say in it.
    FarExit(u32),
}

impl Hook {
    /// The interface under which the kernel keeps it.
    pub fn device(self) -> u32 {
        match self {
            Hook::Entrance(device) | Hook::FarExit(device) => device,
        }
    }

    fn kind(self) -> libbpf_sys::bpf_attach_type {
        match self {
            Hook::Entrance(_) => BPF_TCX_INGRESS,
            Hook::FarExit(_) => BPF_NETKIT_PEER,
        }
    }

    fn index(self) -> i32 {
        i32::try_from(self.device()).unwrap_or(i32::MAX)
    }
}

/// What the kernel says of a program.
#[derive(Debug, Default)]
pub(super) struct Info {
    pub id: u32,
    /// The maps that it uses.
    pub maps: Vec<u32>,
}

fn checked(result: i32) -> Result<i32, Errno> {
    match result {
        0.. => Ok(result),
        _ => Err(Errno::from_raw_os_error(-result)),
    }
}

/// The programs that stand there by themselves, as their numbers.
///
/// # Errors
///
/// `INVAL` from a kernel that has no such thing, `NODEV` for an interface that is gone.
pub(super) fn standing(hook: Hook) -> Result<Vec<u32>, Errno> {
    let mut ids = [0_u32; MOST];
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        prog_ids: ids.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = MOST as u32;
    // SAFETY: the options name their own size and an array of `count` numbers; both live through the call.
    checked(unsafe {
        libbpf_sys::bpf_prog_query_opts(hook.index(), hook.kind(), &raw mut options)
    })?;
    // SAFETY: both members of the union are the same number.
    let count = unsafe { options.__bindgen_anon_1.count } as usize;
    Ok(ids[..count.min(MOST)].to_vec())
}

/// A program by its number.
///
/// # Errors
///
/// None of that number, any more.
pub(super) fn program(id: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: no pointers.
    let fd = checked(unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) })?;
    // SAFETY: a descriptor that the kernel just made and nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What the kernel says of a program.
///
/// # Errors
///
/// No program.
pub(super) fn info(program: BorrowedFd<'_>) -> Result<Info, Errno> {
    let mut maps = [0_u32; MOST];
    let mut info = libbpf_sys::bpf_prog_info {
        map_ids: maps.as_mut_ptr() as u64,
        nr_map_ids: MOST as u32,
        ..Default::default()
    };
    let mut length = size_of_val(&info) as u32;
    // SAFETY: the structure is the kernel's, `length` its size, and `map_ids` leads to as many numbers as
    // it says; all live through the call.
    checked(unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length)
    })?;
    let count = (info.nr_map_ids as usize).min(MOST);
    Ok(Info {
        id: info.id,
        maps: maps[..count].to_vec(),
    })
}

/// Puts a program there, where it stays until it is taken away or the interface
/// goes; in the place of another, without a frame in between, when one is named.
///
/// # Errors
///
/// The kernel's refusal.
pub(super) fn put(
    program: BorrowedFd<'_>,
    hook: Hook,
    instead_of: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let mut options = libbpf_sys::bpf_prog_attach_opts {
        sz: size_of::<libbpf_sys::bpf_prog_attach_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    if let Some(old) = instead_of {
        options.flags = BPF_F_REPLACE;
        options.__bindgen_anon_1.replace_prog_fd = old.as_raw_fd();
    }
    // SAFETY: the options name their own size and hold no pointers.
    checked(unsafe {
        libbpf_sys::bpf_prog_attach_opts(
            program.as_raw_fd(),
            hook.index(),
            hook.kind(),
            &raw const options,
        )
    })
    .map(drop)
}

/// Takes a program away from there.
///
/// # Errors
///
/// The kernel's refusal.
pub(super) fn take(program: BorrowedFd<'_>, hook: Hook) -> Result<(), Errno> {
    // SAFETY: without options there is no pointer that the kernel would follow.
    checked(unsafe {
        libbpf_sys::bpf_prog_detach_opts(
            program.as_raw_fd(),
            hook.index(),
            hook.kind(),
            std::ptr::null(),
        )
    })
    .map(drop)
}
