//! `bpf(2)`: programs that are loaded and attached without libbpf.
//!
//! The layouts are the kernel's (`union bpf_attr`), up to the last field that is not zero; it takes the rest as zero.

use std::ffi::{CString, c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::error::checked;
use super::feature::descriptor;

const PROG_LOAD: c_int = 5;
const PROG_ATTACH: c_int = 8;
const RAW_TRACEPOINT_OPEN: c_int = 17;

/// A classifier of traffic control (`enum bpf_prog_type`).
pub const SCHED_CLS: u32 = 3;
pub const CGROUP_DEVICE: u32 = 15;
/// At a tracepoint of the kernel, with its arguments as they are.
pub const RAW_TRACEPOINT: u32 = 17;

/// The attach type of a [`CGROUP_DEVICE`] program (`enum bpf_attach_type`).
const ATTACH_CGROUP_DEVICE: u32 = 6;
/// Programs of groups above are asked too, and groups below may have their own.
const ALLOW_MULTI: u32 = 2;

/// `r0 = 0; exit`.
pub const RETURN_0: [[u8; 8]; 2] = [instruction(0xb7, 0, 0, 0), instruction(0x95, 0, 0, 0)];

/// One eBPF instruction: opcode, registers (destination in the lower half), offset, immediate (RFC 9669).
pub const fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> [u8; 8] {
    let (offset, immediate) = (offset.to_ne_bytes(), immediate.to_ne_bytes());
    [
        code,
        registers,
        offset[0],
        offset[1],
        immediate[0],
        immediate[1],
        immediate[2],
        immediate[3],
    ]
}

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
}

#[repr(C)]
struct ProgAttach {
    target_fd: u32,
    attach_bpf_fd: u32,
    attach_type: u32,
    attach_flags: u32,
}

#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    prog_fd: u32,
    padding: u32,
}

pub fn load(prog_type: u32, instructions: &[[u8; 8]]) -> io::Result<OwnedFd> {
    let attribute = ProgLoad {
        prog_type,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
    };
    descriptor(call(PROG_LOAD, &attribute))
}

/// Attaches a [`CGROUP_DEVICE`] program to a group, as long as that exists.
pub fn attach_to_cgroup(group: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let attribute = ProgAttach {
        target_fd: group.as_raw_fd() as u32,
        attach_bpf_fd: program.as_raw_fd() as u32,
        attach_type: ATTACH_CGROUP_DEVICE,
        attach_flags: ALLOW_MULTI,
    };
    checked(call(PROG_ATTACH, &attribute))
}

/// Attaches a [`RAW_TRACEPOINT`] program to the tracepoint `name` until the result is dropped.
pub fn attach_raw_tracepoint(name: &str, program: &OwnedFd) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    let attribute = RawTracepointOpen {
        name: name.as_ptr() as u64,
        prog_fd: program.as_raw_fd() as u32,
        padding: 0,
    };
    descriptor(call(RAW_TRACEPOINT_OPEN, &attribute))
}

fn call<T>(command: c_int, attribute: &T) -> c_long {
    let pointer: *const T = attribute;
    // SAFETY: the kernel reads `size_of::<T>()` bytes at `pointer`, which is a live reference, and
    // what the addresses in it point to, which the callers keep alive over the call. It writes
    // nothing: no log was asked for.
    unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<T>()) }
}
