//! AF_XDP: packets between an interface and this process through shared memory, without the kernel's
//! network in between (Documentation/networking/af_xdp.rst).
//!
//! Two users: the generator, which only sends, and the layer-2 forwarder, which takes from one interface
//! what it sends through the other, both sockets sharing one memory so that a frame is not copied on the
//! way. Queue 0 only: what latlab makes has one, and the forwarder refuses an interface that receives by more.
//! Own code over raw sockets, because all it takes is four rings; the crates for it bind a C library that the
//! static agent would have to carry.

pub mod program;
mod sys;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem};
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
    sockopt,
};
use sys::{Descriptor, Kind, Memory, Ring};

use crate::sys::{interface_name, receive_queues, set_option};

/// Bytes of a frame's place: a page, the most that the kernel allows.
pub const CHUNK_BYTES: usize = 4096;
/// Bytes that CPUs move between memory and cache at once.
const CACHE_LINE: usize = 64;
/// Frames sent with one call, where the kernel can be asked (Linux 6.17); it sends 32 otherwise.
const SEND_BUDGET: u32 = 1024;
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
/// How long a queue may stay taken by a socket that has gone.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Calls for one batch: one that the kernel does not take at all ends the trying.
const MAX_KICKS: u32 = 1024;

struct Port {
    socket: OwnedFd,
    fill: Ring<u64>,
    completion: Ring<u64>,
    receive: Option<Ring<Descriptor>>,
    send: Ring<Descriptor>,
}

impl Port {
    fn open(
        interface: u32,
        memory: &Memory,
        sharing: Option<&Port>,
        ring: u32,
        receives: bool,
    ) -> io::Result<Port> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)?;
        if sharing.is_none() {
            sys::register(socket.as_fd(), memory, CHUNK_BYTES as u32)?;
        }
        let fill = Ring::new(socket.as_fd(), Kind::Fill, ring)?;
        let completion = Ring::new(socket.as_fd(), Kind::Completion, ring)?;
        let receive = receives.then(|| Ring::new(socket.as_fd(), Kind::Receive, ring));
        let receive = receive.transpose()?;
        let send = Ring::new(socket.as_fd(), Kind::Send, ring)?;
        // Older kernels have no such option; then a batch takes more calls.
        let (name, budget) = (XDP_MAX_TX_SKB_BUDGET, SEND_BUDGET.min(ring));
        set_option(socket.as_fd(), libc::SOL_XDP, name, &budget).ok();
        bind(&socket, interface, sharing)?;
        Ok(Port {
            socket,
            fill,
            completion,
            receive,
            send,
        })
    }

    /// Has the kernel send what was submitted; says how much it did not take.
    fn flush(&mut self) -> io::Result<u32> {
        let mut left = self.send.waiting();
        for _ in 0..MAX_KICKS {
            if left == 0 {
                break;
            }
            match send(&self.socket, &[], SendFlags::DONTWAIT) {
                // Its budget or its memory is used up for now, or the link is down.
                Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => {}
                Err(Errno::NETDOWN) => return Ok(left),
                Err(error) => return Err(error.into()),
            }
            left = self.send.waiting();
        }
        Ok(left)
    }
}

/// Binds the socket, until a timeout: a queue has one user, and the kernel lets go of the last one's
/// memory in the background.
fn bind(socket: &OwnedFd, interface: u32, sharing: Option<&Port>) -> io::Result<()> {
    let queue = |flags| SocketAddrXdp::new(flags, interface, 0);
    let end = Instant::now() + TIMEOUT;
    loop {
        let bound = match sharing {
            None => net::bind(socket, &queue(SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP)),
            // A second socket shares memory and how it was bound; it may not say so again.
            Some(port) => {
                let shared = SocketAddrXdpWithSharedUmem {
                    addr: queue(SocketAddrXdpFlags::XDP_SHARED_UMEM),
                    shared_umem_fd: port.socket.as_fd(),
                };
                net::bind(socket, &shared)
            }
        };
        match bound {
            Err(Errno::BUSY) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return Ok(result?),
        }
    }
}

pub struct Sender {
    port: Port,
    memory: Memory,
    /// Frames that are not under way.
    free: Vec<u64>,
}

impl Sender {
    /// Frames that can be under way at once.
    const FRAMES: u32 = 2048;

    /// Opens the interface; every frame begins as `template`.
    pub fn open(interface: u32, template: &[u8]) -> io::Result<Sender> {
        assert!(template.len() <= CHUNK_BYTES);
        let mut memory = Memory::new(Self::FRAMES as usize * CHUNK_BYTES)?;
        // Were they all at the beginning of their page, they would share a few lines of the cache.
        let steps = ((CHUNK_BYTES - template.len()) / CACHE_LINE + 1) as u64;
        let place = |frame: u64| frame * CHUNK_BYTES as u64 + frame % steps * CACHE_LINE as u64;
        let free: Vec<u64> = (0..u64::from(Self::FRAMES)).map(place).collect();
        for &address in &free {
            memory
                .bytes(address as usize, template.len())
                .copy_from_slice(template);
        }
        let port = Port::open(interface, &memory, None, Self::FRAMES, false)?;
        Ok(Sender { port, memory, free })
    }

    /// Room for one more frame of `length` bytes in the batch; its bytes are those it was sent with
    /// before. `None` when all are under way.
    pub fn stage(&mut self, length: usize) -> Option<&mut [u8]> {
        if self.free.is_empty() {
            self.reap();
        }
        let address = self.free.pop()?;
        self.port.send.put(Descriptor {
            address,
            length: length as u32,
            options: 0,
        });
        Some(self.memory.bytes(address as usize, length))
    }

    /// Sends the batch; says how many of its frames the kernel has not taken. Those leave with the next.
    pub fn send(&mut self) -> io::Result<u32> {
        self.port.send.submit();
        let left = self.port.flush()?;
        self.reap();
        Ok(left)
    }

    fn reap(&mut self) {
        while let Some(address) = self.port.completion.take() {
            self.free.push(address);
        }
        self.port.completion.release();
    }
}

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
