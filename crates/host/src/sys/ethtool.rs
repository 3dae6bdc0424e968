//! The settings of a network card that only `ethtool`'s ioctl knows (include/uapi/linux/ethtool.h):
//! its queues, how it gathers interrupts, the work that it takes over from the CPU, and its clock.

use std::ffi::{c_char, c_ulong, c_void};
use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use serde::{Deserialize, Serialize};

use super::error::checked;

const SIOCETHTOOL: c_ulong = 0x8946;
const SIOCSHWTSTAMP: c_ulong = 0x89b0;
const SIOCGHWTSTAMP: c_ulong = 0x89b1;

/// `struct ifreq` as SIOCETHTOOL reads it: the name, then an address in a union of 24 bytes.
#[repr(C)]
struct Request {
    name: [c_char; libc::IFNAMSIZ],
    data: *mut c_void,
    rest: [u8; 16],
}

/// Asks about `interface` with a structure of 32-bit words, of which the first is the command; the
/// kernel fills in the rest, or takes them.
fn ask<const WORDS: usize>(interface: &str, words: &mut [u32; WORDS]) -> io::Result<()> {
    // SAFETY: each command below is only used with its own structure's number of words.
    unsafe { call(SIOCETHTOOL, interface, words) }
}

/// A call about `interface` with a structure of 32-bit words.
///
/// # Safety
/// The words are as many as the structure of this call has.
unsafe fn call<const WORDS: usize>(
    number: c_ulong,
    interface: &str,
    words: &mut [u32; WORDS],
) -> io::Result<()> {
    let mut request = Request {
        name: [0; libc::IFNAMSIZ],
        data: words.as_mut_ptr().cast(),
        rest: [0; 16],
    };
    if interface.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.name.iter_mut().zip(interface.bytes()) {
        *to = from as c_char;
    }
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: the request and the words that it points to live over the call, and the words are as
    // many as the caller answers for.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), number as _, &raw mut request) })
}

/// The words that the kernel fills in.
fn get<const WORDS: usize>(interface: &str, command: u32) -> io::Result<[u32; WORDS]> {
    let mut words = [0; WORDS];
    words[0] = command;
    ask(interface, &mut words)?;
    Ok(words)
}

/// `struct ethtool_channels`: command, four maxima (received, sent, other, combined), four counts.
const CHANNELS: usize = 9;
const GET_CHANNELS: u32 = 0x3c;
const SET_CHANNELS: u32 = 0x3d;
const COMBINED: usize = 8;
const MAX_COMBINED: usize = 4;

/// Queues that both receive and send, and the most there can be.
pub fn queues(interface: &str) -> io::Result<(u32, u32)> {
    let words = get::<CHANNELS>(interface, GET_CHANNELS)?;
    Ok((words[COMBINED], words[MAX_COMBINED]))
}

pub fn set_queues(interface: &str, count: u32) -> io::Result<()> {
    let mut words = get::<CHANNELS>(interface, GET_CHANNELS)?;
    words[0] = SET_CHANNELS;
    words[COMBINED] = count;
    ask(interface, &mut words)
}

/// `struct ethtool_coalesce`.
const COALESCE: usize = 23;
const GET_COALESCE: u32 = 0x0e;
const SET_COALESCE: u32 = 0x0f;
/// Microseconds until an interrupt for received packets, and for sent ones; whether the card adapts them by itself.
const COALESCE_FIELDS: [usize; 4] = [1, 5, 10, 11];

/// How long the card gathers before it interrupts: received and sent in microseconds, then whether it
/// adapts each by itself, 0 or 1.
pub fn coalescing(interface: &str) -> io::Result<[u32; 4]> {
    let words = get::<COALESCE>(interface, GET_COALESCE)?;
    Ok(COALESCE_FIELDS.map(|field| words[field]))
}

pub fn set_coalescing(interface: &str, values: [u32; 4]) -> io::Result<()> {
    let mut words = get::<COALESCE>(interface, GET_COALESCE)?;
    words[0] = SET_COALESCE;
    for (field, value) in COALESCE_FIELDS.into_iter().zip(values) {
        words[field] = value;
    }
    ask(interface, &mut words)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Generic receive offload: packets of a stream are joined.
    Gro,
    /// Generic segmentation offload: packets are divided as late as possible.
    Gso,
    /// TCP segmentation offload: by the card.
    Tso,
    /// Checksums of what is sent: by the card, or by the receiving kernel on this machine.
    TxChecksum,
}

impl Offload {
    /// The commands to get and to set it.
    fn commands(self) -> (u32, u32) {
        match self {
            Offload::Gro => (0x2b, 0x2c),
            Offload::Gso => (0x23, 0x24),
            Offload::Tso => (0x1e, 0x1f),
            Offload::TxChecksum => (0x16, 0x17),
        }
    }
}

pub fn offload(interface: &str, offload: Offload) -> io::Result<bool> {
    let [_, is_on] = get(interface, offload.commands().0)?;
    Ok(is_on != 0)
}

pub fn set_offload(interface: &str, offload: Offload, on: bool) -> io::Result<()> {
    ask(interface, &mut [offload.commands().1, u32::from(on)])
}

/// `struct ethtool_ts_info`: command, kinds of timestamps, the clock's number, eight words of filters.
const TIMESTAMPS: usize = 11;
const GET_TIMESTAMPS: u32 = 0x41;
const SOF_TIMESTAMPING_RX_HARDWARE: u32 = 1 << 2;
const SOF_TIMESTAMPING_RAW_HARDWARE: u32 = 1 << 6;

/// Whether the interface stamps what it receives with a clock of its own.
pub fn stamps_received_packets(interface: &str) -> io::Result<bool> {
    let kinds = get::<TIMESTAMPS>(interface, GET_TIMESTAMPS)?[1];
    let wanted = SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
    Ok(kinds & wanted == wanted)
}

/// Which packets a card stamps: `tx_type` and `rx_filter` of `struct hwtstamp_config` (include/uapi/linux/net_tstamp.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timestamping {
    pub tx_type: u32,
    pub rx_filter: u32,
}

const HWTSTAMP_TX_ON: u32 = 1;
/// Event messages of PTP, over any network and over Ethernet alone; else every packet.
const FILTERS: [u32; 3] = [12, 9, 1];

pub fn timestamping(interface: &str) -> io::Result<Timestamping> {
    let mut words = [0; 3];
    // SAFETY: `struct hwtstamp_config` has three words: flags, then the two.
    unsafe { call(SIOCGHWTSTAMP, interface, &mut words)? };
    Ok(Timestamping {
        tx_type: words[1],
        rx_filter: words[2],
    })
}

pub fn set_timestamping(interface: &str, wanted: Timestamping) -> io::Result<()> {
    let mut words = [0, wanted.tx_type, wanted.rx_filter];
    // SAFETY: as above.
    unsafe { call(SIOCSHWTSTAMP, interface, &mut words) }
}

/// Has a card stamp what is sent, where that is asked for, and messages of PTP that it receives.
pub fn stamp_packets(interface: &str) -> io::Result<()> {
    let mut result = Ok(());
    for rx_filter in FILTERS {
        let wanted = Timestamping {
            tx_type: HWTSTAMP_TX_ON,
            rx_filter,
        };
        result = set_timestamping(interface, wanted);
        if result.is_ok() {
            break;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let error = stamps_received_packets("no-such-nic").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        let error = stamps_received_packets("a-name-of-more-than-fifteen").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn the_loopback_has_no_clock() {
        assert!(!stamps_received_packets("lo").unwrap_or(false));
    }
}
