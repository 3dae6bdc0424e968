//! Messages that the `vhost` crate does not support, taken from the socket before it reads.
//!
//! And one that it rejects wrongly: on reconnection QEMU 7.2 enables rings before it has set the features, which the
//! protocol permits as soon as protocol features are *offered*.
//!
//! All of them carry one number or nothing (vhost-user protocol, "front-end message types"), and no file descriptor that
//! we need.

use std::io;
use std::os::unix::net::UnixStream;

use rustix::net::{RecvFlags, SendFlags, recv, send};

use vhost::vhost_user::VhostUserBackendReqHandlerMut;

use super::device::Device;

const SET_LOG_FD: u32 = 7;
const SET_VRING_ENABLE: u32 = 18;
const SEND_RARP: u32 = 19;
const NET_SET_MTU: u32 = 20;
const SET_STATUS: u32 = 39;
const GET_STATUS: u32 = 40;

/// Request, flags, size.
const HEADER: usize = 12;
const VERSION: u32 = 1;
const REPLY: u32 = 4;
const NEED_REPLY: u32 = 8;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Waits for the next message and handles it if it is one of these; false leaves it to the crate.
pub fn handle(stream: &UnixStream, device: &mut Device) -> io::Result<bool> {
    let mut header = [0; HEADER];
    let (peeked, _) = recv(stream, &mut header, RecvFlags::PEEK)?;
    let request = word(&header, 0);
    let known = [
        SET_LOG_FD,
        SET_VRING_ENABLE,
        SEND_RARP,
        NET_SET_MTU,
        SET_STATUS,
        GET_STATUS,
    ];
    if peeked < HEADER || !known.contains(&request) {
        return Ok(false);
    }
    let expected = usize::from(request != GET_STATUS) * 8;
    let size = word(&header, 8) as usize;
    // A log's descriptor comes with an empty or an unused number.
    if size != expected && !(request == SET_LOG_FD && size == 0) {
        return Err(io::Error::other(format!(
            "message {request} of {size} bytes"
        )));
    }
    let mut message = [0; HEADER + 8];
    let message = &mut message[..HEADER + size];
    read_exactly(stream, message)?;
    let number = message.get(HEADER..HEADER + 8).map_or(0, |bytes| {
        u64::from(word(bytes, 0)) | u64::from(word(bytes, 4)) << 32
    });
    let wants_reply = word(&header, 4) & NEED_REPLY != 0 && device.acknowledges();
    let mut good = true;
    match request {
        SEND_RARP => {
            let b = number.to_le_bytes();
            device.announce([b[0], b[1], b[2], b[3], b[4], b[5]]);
        }
        SET_VRING_ENABLE => {
            let (index, enable) = (number as u32, (number >> 32) as u32);
            good = enable <= 1 && device.set_vring_enable(index, enable == 1).is_ok();
        }
        NET_SET_MTU => good = device.takes_mtu(number),
        SET_STATUS => device.set_status(number as u8),
        GET_STATUS => {
            answer(stream, request, device.status().into())?;
            return Ok(true);
        }
        // Changes of the log are not signalled: the VMM polls its bits.
        _ => {}
    }
    if wants_reply {
        answer(stream, request, (!good).into())?;
    }
    Ok(true)
}

fn read_exactly(stream: &UnixStream, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        let (read, _) = recv(stream, &mut *buffer, RecvFlags::empty())?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[read..];
    }
    Ok(())
}

fn answer(stream: &UnixStream, request: u32, number: u64) -> io::Result<()> {
    let mut reply = [0; HEADER + 8];
    reply[..4].copy_from_slice(&request.to_le_bytes());
    reply[4..8].copy_from_slice(&(VERSION | REPLY).to_le_bytes());
    reply[8..12].copy_from_slice(&8u32.to_le_bytes());
    reply[12..].copy_from_slice(&number.to_le_bytes());
    send(stream, &reply, SendFlags::NOSIGNAL)?;
    Ok(())
}
