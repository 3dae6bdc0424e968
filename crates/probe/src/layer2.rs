//! The probe `layer2`: a device under test, a layer-2 forwarder in user space.
//!
//! It carries every frame from one interface to the other and back through packet sockets, one system
//! call to take it and one to send it, as the simplest forwarder one would write; polling, or sleeping
//! until something comes. Frames keep their virtio header on the way, so that a checksum that the
//! sender left to its card (veth has none) is still left to the next, and so are large segments.

use std::os::fd::{AsFd, OwnedFd};

use latlab_wire::samples::{Counters, ForwardCounters, Phase, Probe, Report};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::args::Options;
use crate::error::{Error, Result};
use crate::health::Watch;
use crate::output::Output;
use crate::setup::{Common, Poll};
use crate::stop::Stop;
use crate::sys::{self, Who};
use crate::time;

/// The largest segment that a sender leaves to its card, with its headers.
const FRAME_BYTES: usize = 65_536 + 256;
/// Frames taken from one side before the other is looked at.
const BURST: usize = 32;
/// How often a forwarder that sleeps looks whether it is to stop.
const LOOK: rustix::event::Timespec = rustix::event::Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Carries frames between two interfaces of the calling thread's network namespace.
pub struct Layer2 {
    sides: [OwnedFd; 2],
    buffer: Vec<u8>,
    counters: ForwardCounters,
}

impl Layer2 {
    /// Opens both interfaces.
    ///
    /// # Errors
    /// When one of them is not there, or packet sockets are not allowed.
    pub fn open(first: &str, second: &str) -> std::io::Result<Layer2> {
        Ok(Layer2 {
            sides: [sys::packet_socket(first)?, sys::packet_socket(second)?],
            buffer: vec![0xff; FRAME_BYTES],
            counters: ForwardCounters::default(),
        })
    }

    /// Carries what is there, and says whether there was anything.
    ///
    /// # Errors
    /// When an interface has gone.
    pub fn turn(&mut self) -> std::io::Result<bool> {
        let forward = self.carry(0)?;
        Ok(self.carry(1)? || forward)
    }

    /// Sleeps until there is something to carry, or for a moment.
    ///
    /// # Errors
    /// When the kernel cannot wait.
    pub fn sleep(&self) -> std::io::Result<()> {
        let mut sides = self
            .sides
            .each_ref()
            .map(|side| PollFd::new(side, PollFlags::IN));
        match poll(&mut sides, Some(&LOOK)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn carry(&mut self, from: usize) -> std::io::Result<bool> {
        for taken in 0..BURST {
            let frame = match recv(&self.sides[from], &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => &self.buffer[..length],
                Err(Errno::AGAIN | Errno::INTR) => return Ok(taken > 0),
                // The other end is not up (yet), or went.
                Err(Errno::NETDOWN) => return Ok(taken > 0),
                Err(error) => return Err(error.into()),
            };
            match send(&self.sides[1 - from], frame, SendFlags::DONTWAIT) {
                Ok(_) if from == 0 => self.counters.forwarded += 1,
                Ok(_) => self.counters.returned += 1,
                Err(_) => self.counters.not_sent += 1,
            }
        }
        Ok(true)
    }
}

/// The probe `layer2`.
pub fn run(mut options: Options, output: &mut Output) -> Result<()> {
    let common = Common::take(&mut options, output)?;
    let name = |options: &mut Options, key| {
        let name = options.value::<String>(key, "the name of an interface")?;
        name.ok_or_else(|| Error::Usage(format!("--{key} is missing: the name of an interface")))
    };
    let (first, second) = (name(&mut options, "in")?, name(&mut options, "out")?);
    let polling = Poll::take(&mut options, Poll::Busy)?;
    options.finish("layer2")?;
    common.apply()?;
    let mut device = Layer2::open(&first, &second)
        .map_err(|error| Error::machine(format!("forward between {first} and {second}"), error))?;
    let stop = Stop::at_end_of_input(common.fifo_priority)?;
    common.ready(output, Probe::Forward, None, None)?;

    let watch = Watch::start(Who::Thread);
    let started_ns = time::now_ns();
    let mut result = Ok(());
    while !stop.requested() && result.is_ok() {
        result = match (device.turn(), polling) {
            (Ok(false), Poll::Block) => device.sleep(),
            (Ok(_), _) => Ok(()),
            (Err(error), _) => Err(error),
        };
    }
    let ended_ns = time::now_ns();
    let sockets = device.sides.each_ref().map(AsFd::as_fd);
    let health = watch.end(&sockets);
    output.progress(Phase::Emitting, None)?;
    output.report(Report {
        started_ns,
        ended_ns,
        counters: Counters::Forward(device.counters),
        health,
    })?;
    result.map_err(|error| Error::Peer(format!("forward frames: {error}")))
}
