//! The probe `layer2`: a device under test, a layer-2 forwarder.
//!
//! The probe carries every frame from one interface to the other and back, in one of three ways:
//!
//! - `af-packet`: packet sockets, one system call to take a frame and one to send it, as the simplest
//!   forwarder one would write. Frames keep their virtio header on the way, so that a checksum that the
//!   sender left to its card (veth has none) is still left to the next, and so are large segments. A VLAN
//!   tag, which the kernel hands over beside its frame, is put back.
//! - `af-xdp`: frames in memory shared with the kernel, taken before the kernel's own network sees them.
//!   What a sender left to its card is lost with them: its checksum must be in the frame.
//! - `xdp`: a program in the kernel sends each frame on where it comes in; this process only holds it.
//!
//! The first two poll, or sleep until something comes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use latlab_wire::samples::{Counters, ForwardCounters, Phase, Probe, Record, Report, SampleKind};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, send};

use crate::args::Options;
use crate::arrivals::Arrivals;
use crate::error::{Error, Result};
use crate::health::Watch;
use crate::output::Output;
use crate::setup::{Common, Poll};
use crate::stop::Stop;
use crate::sys::{self, Who};
use crate::time::{self, OffsetLine};
use crate::xdp::{Exchange, program};

/// The largest segment that a sender leaves to its card, with its headers.
const FRAME_BYTES: usize = 65_536 + 256;
/// Bytes of the virtio header in front of a frame, in the machine's byte order (include/uapi/linux/virtio_net.h).
const VIRTIO_BYTES: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
/// Bytes of both addresses of a frame, and of a VLAN tag behind them.
const ADDRESSES_BYTES: usize = 12;
const TAG_BYTES: usize = 4;
/// Frames taken from one side before the other is looked at.
const BURST: usize = 32;
/// Turns without a frame after which a forwarder that spins looks whether its interfaces are there: a moment.
const IDLE_TURNS: u32 = 1 << 22;
/// How often a forwarder that sleeps looks whether it is to stop.
const LOOK: rustix::event::Timespec = rustix::event::Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum By {
    #[default]
    AfPacket,
    AfXdp,
    Xdp,
}

/// The ways to carry frames, as they are written.
const WAYS: [(&str, By); 3] = [
    ("af-packet", By::AfPacket),
    ("af-xdp", By::AfXdp),
    ("xdp", By::Xdp),
];

/// Carries frames between two interfaces of the calling thread's network namespace.
pub struct Layer2 {
    carrier: Carrier,
    interfaces: [(u32, String); 2],
    /// Sides that the kernel reported as down, which it does once, and that are not up again.
    down: [bool; 2],
    // Cards filter frames for others before a program sees them.
    _promiscuous: [OwnedFd; 2],
    counters: ForwardCounters,
    arrivals: Option<Arrivals>,
}

enum Carrier {
    Packet {
        sides: [OwnedFd; 2],
        buffer: Vec<u8>,
    },
    Exchange(Box<Exchange>),
    Programs([program::Attached; 2]),
}

impl Layer2 {
    /// Opens both interfaces. Fails when one of them is not there, or the kernel does not allow this way.
    pub fn open_by(by: By, first: &str, second: &str) -> std::io::Result<Layer2> {
        let indices = [sys::interface_index(first)?, sys::interface_index(second)?];
        let carrier = match by {
            By::AfPacket => Carrier::Packet {
                sides: [sys::packet_socket(first)?, sys::packet_socket(second)?],
                buffer: vec![0xff; TAG_BYTES + FRAME_BYTES],
            },
            By::AfXdp => Carrier::Exchange(Box::new(Exchange::open(indices)?)),
            By::Xdp => Carrier::Programs(programs(indices)?),
        };
        Ok(Layer2 {
            carrier,
            interfaces: [(indices[0], first.into()), (indices[1], second.into())],
            down: [false; 2],
            _promiscuous: [sys::promiscuous(indices[0])?, sys::promiscuous(indices[1])?],
            counters: ForwardCounters::default(),
            arrivals: None,
        })
    }

    /// Notes when the kernel took the first `count` packets of ours from the first interface.
    fn note_arrivals(&mut self, count: u64) -> Result<()> {
        let Carrier::Packet { sides, .. } = &self.carrier else {
            let text = "--record needs --by af-packet: other frames have no time";
            return Err(Error::Usage(text.into()));
        };
        sys::enable_kernel_stamps(sides[0].as_fd())
            .map_err(|error| Error::machine("ask for kernel timestamps", error))?;
        self.arrivals = Some(Arrivals::with_room(count)?);
        Ok(())
    }

    #[must_use]
    pub fn how(&self) -> &'static str {
        let mode = match &self.carrier {
            Carrier::Packet { .. } => return "packet sockets",
            Carrier::Exchange(exchange) => exchange.mode,
            Carrier::Programs(programs) => programs[0].mode,
        };
        match (&self.carrier, mode) {
            (Carrier::Exchange(_), program::Mode::Driver) => "AF_XDP sockets, at the driver",
            (Carrier::Exchange(_), program::Mode::Generic) => "AF_XDP sockets, behind the driver",
            (_, program::Mode::Driver) => "an XDP program, at the driver",
            (_, program::Mode::Generic) => "an XDP program, behind the driver",
        }
    }

    /// Frames carried from the first interface to the second, and back; `None` where the kernel does it.
    #[must_use]
    pub fn carried(&self) -> Option<(u64, u64)> {
        match self.carrier {
            Carrier::Programs(_) => None,
            _ => Some((self.counters.forwarded, self.counters.returned)),
        }
    }

    #[must_use]
    pub fn dropped(&self) -> u64 {
        let unseen = match &self.carrier {
            Carrier::Packet { sides, .. } => {
                let each = sides.iter().map(|side| sys::socket_drops(side.as_fd()));
                each.flatten().sum()
            }
            Carrier::Exchange(exchange) => exchange.lost(),
            Carrier::Programs(_) => 0,
        };
        self.counters.not_sent + self.counters.dropped + unseen
    }

    /// Carries what is there, and says whether there was anything. Fails when an interface is gone.
    pub fn turn(&mut self) -> std::io::Result<bool> {
        let mut any = false;
        for side in 0..2 {
            let burst = match &mut self.carrier {
                Carrier::Packet { sides, buffer } => {
                    let arrivals = self.arrivals.as_mut().filter(|_| side == 0);
                    carry(sides, buffer, side, arrivals)?
                }
                Carrier::Exchange(exchange) => {
                    let (carried, not_sent) = exchange.carry(side)?;
                    Burst {
                        carried,
                        not_sent,
                        ..Burst::default()
                    }
                }
                Carrier::Programs(_) => return Ok(false),
            };
            match side {
                0 => self.counters.forwarded += burst.carried,
                _ => self.counters.returned += burst.carried,
            }
            self.counters.not_sent += burst.not_sent;
            self.counters.dropped += burst.dropped;
            any |= burst.carried + burst.not_sent + burst.dropped > 0;
            if burst.is_down || self.down[side] {
                // An interface that is deleted is down before it is gone.
                self.down[side] = !sys::is_up(&self.name_of(side)?)?;
            }
        }
        Ok(any)
    }

    fn require_interfaces(&self) -> std::io::Result<()> {
        (0..2).try_for_each(|side| self.name_of(side).map(drop))
    }

    /// The name that an interface has now. Fails when it is gone.
    fn name_of(&self, side: usize) -> std::io::Result<String> {
        let (index, name) = &self.interfaces[side];
        let gone = |_| std::io::Error::other(format!("the interface {name} is gone"));
        sys::interface_name(*index).map_err(gone)
    }

    /// Sleeps until there is something to carry, or for a moment; says whether that is over.
    fn sleep(&self) -> std::io::Result<bool> {
        let mut waiting: Vec<PollFd<'_>> = Vec::with_capacity(2);
        for socket in self.sockets() {
            waiting.push(PollFd::from_borrowed_fd(socket, PollFlags::IN));
        }
        match poll(&mut waiting, Some(&LOOK)) {
            Ok(ready) => Ok(ready == 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Carries frames until told to stop; spins meanwhile, or sleeps while nothing comes. Fails when an interface is gone.
    pub fn run(&mut self, spin: bool, stop: impl Fn() -> bool) -> std::io::Result<()> {
        let spin = spin && !matches!(self.carrier, Carrier::Programs(_));
        let mut idle: u32 = 0;
        while !stop() {
            if self.turn()? {
                continue;
            }
            idle = idle.wrapping_add(1);
            let is_time = match spin {
                true => idle % IDLE_TURNS == 0,
                false => self.sleep()?,
            };
            if is_time {
                self.require_interfaces()?;
            }
        }
        Ok(())
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        match &self.carrier {
            Carrier::Packet { sides, .. } => sides.iter().map(AsFd::as_fd).collect(),
            Carrier::Exchange(exchange) => exchange.sockets().into(),
            Carrier::Programs(_) => Vec::new(),
        }
    }
}

/// Programs that send on where frames come in: at the driver where that works, else behind it. A veth is
/// sent to at the driver only while its peer takes frames there too (an XDP program or GRO); otherwise
/// they vanish. So there it is always behind the driver.
fn programs(interfaces: [u32; 2]) -> std::io::Result<[program::Attached; 2]> {
    let attach = |generic| -> std::io::Result<_> {
        Ok([
            program::to_interface(interfaces[0], interfaces[1], generic)?,
            program::to_interface(interfaces[1], interfaces[0], generic)?,
        ])
    };
    let mut veth = false;
    for interface in interfaces {
        veth |= sys::driver(interface)? == "veth";
    }
    if veth {
        attach(true)
    } else {
        attach(false).or_else(|_| attach(true))
    }
}

/// Fates of the frames that were there on one side.
#[derive(Default)]
struct Burst {
    carried: u64,
    not_sent: u64,
    dropped: u64,
    /// The kernel reported that the interface is down.
    is_down: bool,
}

fn carry(
    sides: &[OwnedFd; 2],
    buffer: &mut [u8],
    from: usize,
    mut arrivals: Option<&mut Arrivals>,
) -> std::io::Result<Burst> {
    let mut burst = Burst::default();
    for _ in 0..BURST {
        let frame = match receive(&sides[from], buffer, arrivals.as_deref_mut()) {
            Ok(frame) => frame,
            Err(Errno::AGAIN | Errno::INTR) => break,
            // The other end is not up (yet), or went.
            Err(Errno::NETDOWN) => {
                burst.is_down = true;
                break;
            }
            // The virtio header has no word for a large segment of this kind, and the kernel has dropped it.
            Err(Errno::INVAL) => {
                burst.dropped += 1;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match send(&sides[1 - from], frame, SendFlags::DONTWAIT) {
            Ok(_) => burst.carried += 1,
            Err(_) => burst.not_sent += 1,
        }
    }
    Ok(burst)
}

/// Takes a frame, with its tag in its place.
fn receive<'a>(
    socket: &OwnedFd,
    buffer: &'a mut [u8],
    arrivals: Option<&mut Arrivals>,
) -> rustix::io::Result<&'a [u8]> {
    let room = &mut buffer[TAG_BYTES..];
    let received = sys::receive_with(socket.as_fd(), room, RecvFlags::DONTWAIT)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let frame = &mut buffer[..TAG_BYTES + received.length];
    if let Some(arrivals) = arrivals {
        arrivals.note(&frame[TAG_BYTES..], received.stamp);
    }
    match received.tag {
        Some(tag) => {
            put_tag(frame, tag);
            Ok(frame)
        }
        None => Ok(&frame[TAG_BYTES..]),
    }
}

/// Puts a tag behind the addresses of a frame that has room for it in front. What the virtio header says of places
/// behind it moves along.
fn put_tag(frame: &mut [u8], (kind, content): (u16, u16)) {
    const LENGTH_OF_HEADERS: usize = 2;
    const START_OF_CHECKSUM: usize = 6;
    let at = VIRTIO_BYTES + ADDRESSES_BYTES;
    frame.copy_within(TAG_BYTES..TAG_BYTES + at, 0);
    frame[at..at + 2].copy_from_slice(&kind.to_be_bytes());
    frame[at + 2..at + 4].copy_from_slice(&content.to_be_bytes());
    let (needs_checksum, is_large) = (frame[0] & NEEDS_CHECKSUM != 0, frame[1] != 0);
    for (place, moves) in [
        (LENGTH_OF_HEADERS, is_large),
        (START_OF_CHECKSUM, needs_checksum),
    ] {
        if moves {
            let value = u16::from_ne_bytes([frame[place], frame[place + 1]]);
            let value = value.saturating_add(TAG_BYTES as u16);
            frame[place..place + 2].copy_from_slice(&value.to_ne_bytes());
        }
    }
}

pub fn run(mut options: Options, output: &mut Output) -> Result<()> {
    let common = Common::take(&mut options, output)?;
    let first: String = options.required("in", "the name of an interface")?;
    let second: String = options.required("out", "the name of an interface")?;
    let by = options.choice("by", &WAYS)?.unwrap_or_default();
    let polling = Poll::take(&mut options, Poll::Busy)?;
    let record = options.number("record", 1, u64::from(u32::MAX))?;
    options.finish("layer2")?;
    common.check_memory(record.unwrap_or(0), size_of::<Record>() as u64)?;
    common.apply()?;
    let mut device = Layer2::open_by(by, &first, &second)
        .map_err(|error| Error::machine(format!("forward between {first} and {second}"), error))?;
    if let Some(count) = record {
        device.note_arrivals(count)?;
    }
    let stop = Stop::at_end_of_input(common.fifo_priority)?;
    common.ready(output, Probe::Forward, None, None)?;

    let watch = Watch::start(Who::Thread);
    let offset_start_ns = time::realtime_offset_ns();
    let started_ns = time::now_ns();
    let result = device.run(polling == Poll::Busy, || stop.requested());
    let ended_ns = time::now_ns();
    let offset_end_ns = time::realtime_offset_ns();
    let health = watch.end(&device.sockets());
    output.progress(Phase::Emitting, None)?;
    if let Some(arrivals) = &mut device.arrivals {
        arrivals.conclude(&OffsetLine {
            started_ns,
            ended_ns,
            offset_start_ns,
            offset_end_ns,
        });
        output.samples(SampleKind::Sink, &arrivals.records)?;
    }
    let mut counters = device.counters;
    counters.dropped = device.dropped() - counters.not_sent;
    output.report(Report {
        started_ns,
        ended_ns,
        counters: Counters::Forward(counters),
        health,
    })?;
    result.map_err(|error| Error::Peer(format!("forward frames: {error}")))
}
