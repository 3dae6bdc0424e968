//! Attaches a tap to an interface, and detaches it.
//!
//! From Linux 6.6 on a program is attached to an interface directly (tcx), which costs each packet less than
//! a classifier of traffic control; older kernels use the classifier. That one has a priority and handle of its own: it
//! takes no other program's place, and is removed only if it still is this tap.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use latlab_wire::trace::TAP_RECORD_BYTES;
use libbpf_rs::{ErrorKind, TC_EGRESS, TC_INGRESS, TcHook, TcHookBuilder};

use super::follow::Live;
use super::records::{Records, Seen};
use crate::error::Error;
use crate::object::{self, MAX_CPUS};
use crate::steal;
use crate::sys::{Shared, number_and_name};
use latlab_bpf::{listen, said};

const WHAT: &str = "a tap";
/// Records of one tap at most: 3 GiB of them.
const MAX_RECORDS: u64 = 100_000_000;
/// Offsets of the counters in `struct tap_counters`: for all CPUs, and in a cache line of each.
const CHUNKS: usize = 0;
const FOREIGN: usize = 8;
const HEADS: usize = 64;
const HEAD_BYTES: usize = 64;
const NO_ROOM: usize = 0;
/// As in `latlab.h`.
const CHUNK: u64 = 64;
/// Place of the classifier: early, because a filter before it may take packets away, but not the first, which many use.
const PRIORITY: u32 = 3;
const HANDLE: u32 = 0x7461_7000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    Ingress,
    Egress,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Point {
    pub interface: String,
    pub side: Side,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Ingress => "ingress",
            Side::Egress => "egress",
        };
        write!(f, "{} {side}", self.interface)
    }
}

pub struct Tap {
    point: Point,
    index: i32,
    program: OwnedFd,
    records: Arc<Shared>,
    counters: Arc<Shared>,
    room: u32,
    place: Place,
}

/// How it stands at its interface.
enum Place {
    Nowhere,
    /// By itself, until this is closed.
    Alone(OwnedFd),
    /// As a classifier of traffic control.
    Classifier,
}

impl Tap {
    /// Attaches a tap in the calling thread's network namespace, with room for a number of packets. Fails when the
    /// kernel takes no such program, or the interface is not there.
    pub fn attach(point: &Point, room: u64) -> Result<Tap, Error> {
        let mut tap = Tap::load(point, room)?;
        tap.resume()?;
        Ok(tap)
    }

    /// Loads a tap for an interface of the calling thread's network namespace. It is attached by
    /// [`Tap::resume`].
    pub fn load(point: &Point, room: u64) -> Result<Tap, Error> {
        if room > MAX_RECORDS {
            return Err(Error::TooMany {
                what: "packets of one tap",
                asked: room,
                most: MAX_RECORDS,
            });
        }
        // Every CPU may leave a part of its last chunk unused.
        let cpus = libbpf_rs::num_possible_cpus().map_err(|error| refused(said(&error)))?;
        let room = (room + cpus as u64 * CHUNK) as u32;
        let index = crate::sys::interface_index(&point.interface)
            .ok_or_else(|| Error::NoInterface(point.interface.clone()))?;
        let object = load(room, point.side)?;
        let map = |suffix: &str, length| object::map(WHAT, &object, suffix, length);
        let records = map("records", room as usize * TAP_RECORD_BYTES)?;
        let counters = map(".bss", HEADS + MAX_CPUS * HEAD_BYTES)?;
        let program = object
            .progs()
            .next()
            .ok_or_else(|| refused("it has no program".into()))?;
        let program = program
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| refused(error.to_string()))?;
        Ok(Tap {
            point: point.clone(),
            index,
            program,
            records: Arc::new(records),
            counters: Arc::new(counters),
            room,
            place: Place::Nowhere,
        })
    }

    /// Attaches the tap. Must be called in its namespace.
    pub fn resume(&mut self) -> Result<(), Error> {
        let egress = self.point.side == Side::Egress;
        self.place = match crate::sys::attach_tcx(&self.program, self.index, egress) {
            Ok(link) => Place::Alone(link),
            Err(_) => {
                self.attach_classifier()?;
                Place::Classifier
            }
        };
        Ok(())
    }

    fn attach_classifier(&self) -> Result<(), Error> {
        listen();
        let there = self.hook().query();
        // That of before: there being none was a warning.
        listen();
        let mut hook = self
            .hook()
            .create()
            .map_err(|error| self.refused(said(&error)))?;
        let others = || {
            self.refused(format!(
                "another program's filter is there (priority {PRIORITY}, handle {HANDLE:#x})"
            ))
        };
        if let Ok(number) = there {
            // A tap that a latlab left when it was killed is replaced.
            if !self.is_a_tap(number) {
                return Err(others());
            }
            hook.replace(true);
        }
        match hook.attach() {
            Ok(_) => Ok(()),
            // A filter without a number, as classic BPF is.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(others()),
            Err(error) => Err(self.refused(said(&error))),
        }
    }

    fn detach_classifier(&self) -> Result<(), Error> {
        let own = number_and_name(&self.program).map(|(number, _)| number);
        // No filter, or another program's: this one is gone already.
        if self.hook().query().ok() != own {
            return Ok(());
        }
        listen();
        let detached = self.hook().detach();
        detached.map_err(|error| self.refused(said(&error)))
    }

    /// Whether the program of a number is one of ours, perhaps of another run.
    fn is_a_tap(&self, number: u32) -> bool {
        let name = |program: &OwnedFd| number_and_name(program).map(|(_, name)| name);
        let other = crate::sys::program(number).ok();
        let other = other.as_ref().and_then(name);
        other.is_some() && other == name(&self.program)
    }

    /// Detaches the tap and leaves it loaded, with its records. Must be called in its namespace.
    pub fn suspend(&mut self) -> Result<(), Error> {
        match std::mem::replace(&mut self.place, Place::Nowhere) {
            Place::Nowhere => Ok(()),
            Place::Alone(link) => {
                drop(link);
                Ok(())
            }
            Place::Classifier => self.detach_classifier(),
        }
    }

    /// The attachment in traffic control. It is made anew each time: libbpf's own cannot go to another
    /// thread.
    fn hook(&self) -> TcHook {
        TcHookBuilder::new(self.program.as_fd())
            .ifindex(self.index)
            .handle(HANDLE)
            .priority(PRIORITY)
            .hook(match self.point.side {
                Side::Ingress => TC_INGRESS,
                Side::Egress => TC_EGRESS,
            })
    }

    fn refused(&self, reason: String) -> Error {
        Error::Attach {
            what: WHAT,
            to: self.point.to_string(),
            reason,
        }
    }

    #[must_use]
    pub fn live(&self) -> Live {
        Live::new(
            Arc::clone(&self.records),
            (Arc::clone(&self.counters), CHUNKS),
            (CHUNK, u64::from(self.room)),
        )
    }

    /// Detaches the tap and hands over its records. Must be called in its namespace.
    pub fn detach(mut self) -> Result<Seen, Error> {
        self.suspend()?;
        let taken = self.counters.load(CHUNKS).saturating_mul(CHUNK);
        let heads = (0..MAX_CPUS).map(|cpu| HEADS + cpu * HEAD_BYTES);
        Ok(Seen {
            no_room: heads.map(|head| self.counters.load(head + NO_ROOM)).sum(),
            foreign: self.counters.load(FOREIGN),
            records: Records::mapped(self.records, taken.min(u64::from(self.room)) as usize),
        })
    }
}

fn refused(reason: String) -> Error {
    object::refused(WHAT, reason)
}

fn load(room: u32, side: Side) -> Result<libbpf_rs::Object, Error> {
    const WITH_TYPES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tap.bpf.o"));
    const WITHOUT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tap-without-types.bpf.o"));
    // Such a kernel reports no steal; packets can be timed all the same.
    let bytes = if crate::has_types() {
        WITH_TYPES
    } else {
        WITHOUT
    };
    let constants = |value: &mut [u8]| {
        value[..8].copy_from_slice(&steal::from_run_queue().to_ne_bytes());
        value[8..12].copy_from_slice(&room.to_ne_bytes());
        let stamp_last = u32::from(side == Side::Egress);
        value[12..16].copy_from_slice(&stamp_last.to_ne_bytes());
    };
    object::load(WHAT, bytes, ("records", room), constants)
}
