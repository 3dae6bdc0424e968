//! Attaching programs to interfaces without a BPF link (tcx, Linux 6.6; netkit, 6.7). libbpf's safe bindings only have
//! links, which end with their process.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_sys::{BPF_F_REPLACE, BPF_NETKIT_PEER, BPF_TCX_INGRESS};
use rustix::io::Errno;

const MAX_IDS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    /// Ingress of this interface.
    Ingress(u32),
    /// Egress of this netkit's peer, which has no control over it.
    NetkitPeer(u32),
}

impl Hook {
    /// Index of the interface that the kernel attaches to.
    pub fn device(self) -> u32 {
        match self {
            Hook::Ingress(device) | Hook::NetkitPeer(device) => device,
        }
    }

    fn kind(self) -> libbpf_sys::bpf_attach_type {
        match self {
            Hook::Ingress(_) => BPF_TCX_INGRESS,
            Hook::NetkitPeer(_) => BPF_NETKIT_PEER,
        }
    }

    fn index(self) -> i32 {
        i32::try_from(self.device()).unwrap_or(i32::MAX)
    }
}

#[derive(Debug, Default)]
pub(super) struct Info {
    pub id: u32,
    pub maps: Vec<u32>,
}

fn checked(result: i32) -> Result<i32, Errno> {
    match result {
        0.. => Ok(result),
        _ => Err(Errno::from_raw_os_error(-result)),
    }
}

/// Ids of the programs attached at a hook. Errors: `INVAL` from a kernel without this kind of hook, `NODEV` for an
/// interface that is gone.
pub(super) fn attached(hook: Hook) -> Result<Vec<u32>, Errno> {
    let mut ids = [0_u32; MAX_IDS];
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        prog_ids: ids.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = MAX_IDS as u32;
    // SAFETY: the options name their own size and an array of `count` numbers; both live through the call.
    checked(unsafe {
        libbpf_sys::bpf_prog_query_opts(hook.index(), hook.kind(), &raw mut options)
    })?;
    // SAFETY: both members of the union are the same number.
    let count = unsafe { options.__bindgen_anon_1.count } as usize;
    Ok(ids[..count.min(MAX_IDS)].to_vec())
}

pub(super) fn program(id: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: no pointers.
    let fd = checked(unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) })?;
    // SAFETY: a descriptor that the kernel just made and no other object owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn info(program: BorrowedFd<'_>) -> Result<Info, Errno> {
    let mut maps = [0_u32; MAX_IDS];
    let mut info = libbpf_sys::bpf_prog_info {
        map_ids: maps.as_mut_ptr() as u64,
        nr_map_ids: MAX_IDS as u32,
        ..Default::default()
    };
    let mut length = size_of_val(&info) as u32;
    // SAFETY: the structure is the kernel's, `length` its size, and `map_ids` leads to as many numbers as
    // it says; all live through the call.
    checked(unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length)
    })?;
    let count = (info.nr_map_ids as usize).min(MAX_IDS);
    Ok(Info {
        id: info.id,
        maps: maps[..count].to_vec(),
    })
}

/// Attaches a program until it is detached or the interface is deleted; atomically replaces another if one is given.
pub(super) fn attach(
    program: BorrowedFd<'_>,
    hook: Hook,
    replaces: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let mut options = libbpf_sys::bpf_prog_attach_opts {
        sz: size_of::<libbpf_sys::bpf_prog_attach_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    if let Some(old) = replaces {
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

pub(super) fn detach(program: BorrowedFd<'_>, hook: Hook) -> Result<(), Errno> {
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
