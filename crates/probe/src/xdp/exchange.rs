//! Two interfaces, each of which sends what the other received, out of one memory.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{RecvFlags, recv, sockopt};

use super::port::{CHUNK_BYTES, Port};
use super::program;
use super::sys::Memory;
use crate::sys::{interface_name, receive_queues};

pub struct Exchange {
    ports: [Port; 2],
    _memory: Memory,
    /// Frames that are in no ring.
    free: Vec<u64>,
    _programs: [program::Attached; 2],
    pub mode: program::Mode,
}

impl Exchange {
    const RING: u32 = 2048;
    const FRAMES: u32 = 4 * Self::RING;
    const BURST: usize = 64;

    /// Opens both interfaces and has all their frames come here. Fails when one of them has several queues to receive by.
    pub fn open(interfaces: [u32; 2]) -> io::Result<Exchange> {
        for interface in interfaces {
            require_one_queue(interface)?;
        }
        let memory = Memory::new(Self::FRAMES as usize * CHUNK_BYTES)?;
        let first = Port::open(interfaces[0], &memory, None, Self::RING, true)?;
        let second = Port::open(interfaces[1], &memory, Some(&first), Self::RING, true)?;
        let ports = [first, second];
        let attach = |generic| -> io::Result<[program::Attached; 2]> {
            Ok([
                program::to_socket(interfaces[0], ports[0].socket.as_fd(), generic)?,
                program::to_socket(interfaces[1], ports[1].socket.as_fd(), generic)?,
            ])
        };
        let programs = attach(false).or_else(|_| attach(true))?;
        let mode = programs[0].mode;
        let free = (0..u64::from(Self::FRAMES))
            .map(|frame| frame * CHUNK_BYTES as u64)
            .collect();
        let mut exchange = Exchange {
            ports,
            _memory: memory,
            free,
            _programs: programs,
            mode,
        };
        exchange.refill(0);
        exchange.refill(1);
        Ok(exchange)
    }

    pub fn sockets(&self) -> [BorrowedFd<'_>; 2] {
        self.ports.each_ref().map(|port| port.socket.as_fd())
    }

    /// Frames that came in and found no place.
    pub fn lost(&self) -> u64 {
        // Too long for a place, no room in the ring; the latter also where no place was left.
        let each = self.ports.iter().filter_map(|port| {
            let all = sockopt::xdp_statistics(&port.socket).ok()?;
            Some(all.rx_dropped + all.rx_ring_full.unwrap_or(0))
        });
        each.sum()
    }

    /// Carries what has come in on one side out through the other: frames carried, and not taken.
    pub fn carry(&mut self, from: usize) -> io::Result<(u64, u64)> {
        let [first, second] = &mut self.ports;
        let (inward, outward) = match from {
            0 => (first, second),
            _ => (second, first),
        };
        let Some(receive) = &mut inward.receive else {
            return Ok((0, 0));
        };
        let room = (outward.send.room() as usize).min(Self::BURST);
        let mut carried = 0;
        let mut dropped = 0;
        while carried + dropped < Self::BURST as u64 {
            let Some(frame) = receive.take() else {
                break;
            };
            if carried < room as u64 {
                outward.send.put(frame);
                carried += 1;
            } else {
                self.free.push(chunk(frame.address));
                dropped += 1;
            }
        }
        if carried + dropped == 0 {
            return Ok((0, 0));
        }
        receive.release();
        outward.send.submit();
        outward.flush()?;
        while let Some(address) = outward.completion.take() {
            self.free.push(chunk(address));
        }
        outward.completion.release();
        self.refill(from);
        Ok((carried, dropped))
    }

    fn refill(&mut self, side: usize) {
        let port = &mut self.ports[side];
        let room = port.fill.room() as usize;
        for _ in 0..room.min(self.free.len()) {
            if let Some(address) = self.free.pop() {
                port.fill.put(address);
            }
        }
        port.fill.submit();
        if port.fill.wants_wakeup() {
            // Nothing to be told by it: a driver that is awake already has nothing to do.
            recv(&port.socket, &mut [0_u8; 0], RecvFlags::DONTWAIT).ok();
        }
    }
}

/// Frames of any other queue than the first would vanish uncounted. An interface that tells no number has one.
fn require_one_queue(interface: u32) -> io::Result<()> {
    let (receiving, combined) = receive_queues(interface).unwrap_or_default();
    let queues = receiving + combined;
    if queues <= 1 {
        return Ok(());
    }
    let kind = if combined > 0 { "combined" } else { "rx" };
    let name = interface_name(interface)?;
    Err(io::Error::other(format!(
        "{name} receives by {queues} queues, and AF_XDP takes frames of one here: `ethtool -L {name} {kind} 1`"
    )))
}

/// The place that a frame's address lies in.
fn chunk(address: u64) -> u64 {
    address & !(CHUNK_BYTES as u64 - 1)
}
