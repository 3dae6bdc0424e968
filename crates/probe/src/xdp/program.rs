//! Two XDP programs of a handful of instructions, written by hand.
//!
//! The probes live in a static binary that has no loader for object files, and what they need is one call
//! of a helper. A program is attached through a link, which goes with the process that holds it: nothing
//! is left behind, however it ends.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::sys::{self, MapKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel makes its own structure of a frame.
    Driver,
    /// After that, for drivers that cannot.
    Generic,
}

/// A program at an interface, as long as this lives.
#[derive(Debug)]
pub struct Attached {
    pub mode: Mode,
    _held: [OwnedFd; 3],
}

/// Hands every frame of `interface` to the socket, or lets it pass where the socket has no room.
pub fn to_socket(interface: u32, socket: BorrowedFd<'_>, generic: bool) -> io::Result<Attached> {
    let map = sys::map(MapKind::Sockets, 1)?;
    sys::set_entry(map.as_fd(), 0, socket.as_raw_fd() as u32)?;
    attach(interface, map, generic)
}

/// Sends every frame of `interface` out through another.
pub fn to_interface(interface: u32, out: u32, generic: bool) -> io::Result<Attached> {
    let map = sys::map(MapKind::Devices, 1)?;
    sys::set_entry(map.as_fd(), 0, out)?;
    attach(interface, map, generic)
}

fn attach(interface: u32, map: OwnedFd, generic: bool) -> io::Result<Attached> {
    let program = sys::load(&redirect(map.as_fd()))?;
    let link = sys::attach(program.as_fd(), interface, generic)?;
    Ok(Attached {
        mode: if generic { Mode::Generic } else { Mode::Driver },
        _held: [link, program, map],
    })
}

/// `return bpf_redirect_map(&map, 0, XDP_DROP)`. Everything goes to entry 0: one queue is served.
fn redirect(map: BorrowedFd<'_>) -> [u64; 6] {
    /// A frame that cannot be handed on is lost, as in any forwarder, and does not enter the kernel's
    /// own network by a side door.
    const XDP_DROP: i32 = 1;
    const REDIRECT_MAP: i32 = 51;
    let [low, high] = load_map(map.as_raw_fd());
    [
        low,
        high,
        instruction(MOVE, 2, 0, 0),
        instruction(MOVE, 3, 0, XDP_DROP),
        instruction(CALL, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0),
    ]
}

const LOAD_64: u8 = 0x18;
const MOVE: u8 = 0xb7;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// One instruction as the kernel reads it: operation, registers, no offset, a constant
/// (Documentation/bpf/standardization/instruction-set.rst).
fn instruction(operation: u8, to: u8, from: u8, constant: i32) -> u64 {
    let [c0, c1, c2, c3] = constant.to_ne_bytes();
    u64::from_ne_bytes([operation, registers(to, from), 0, 0, c0, c1, c2, c3])
}

/// Two halves of a byte, whose order follows that of the machine's bytes.
fn registers(to: u8, from: u8) -> u8 {
    if cfg!(target_endian = "little") {
        from << 4 | to
    } else {
        to << 4 | from
    }
}

/// Puts the map behind a descriptor into register 1: two instructions.
fn load_map(fd: i32) -> [u64; 2] {
    const MAP_BY_DESCRIPTOR: u8 = 1;
    [
        instruction(LOAD_64, 1, MAP_BY_DESCRIPTOR, fd),
        instruction(0, 0, 0, 0),
    ]
}
