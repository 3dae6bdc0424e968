//! Links over TCP: whole frames, each behind its length and the private header, plain or under TLS.
//!
//! For paths where UDP does not pass. One connection a link; it is opened, kept and opened again by a
//! thread of its own (the `keeper`), so that no dispatcher ever waits: while there is no connection,
//! frames are dropped and counted, and so are those for which the socket has no room. The rest of a
//! frame of which the socket took a part is kept and sent first, by whoever comes first: the next
//! frame's dispatcher, or the keeper when there is room again.

mod keeper;
mod stream;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use latlab_model::overlay::Peer;
use latlab_wire::overlay::{Carried, MAX_FRAME_BYTES, record_bytes};
use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::endpoints::{Counters, DropReason, PortId, Receive, Transmit};
use crate::frames::{Arena, Batch, Offload};
use crate::links::sys::Buffer;
use crate::links::udp::carried;
use crate::tls::Credentials;
use keeper::Keeper;
use stream::Stream;

/// What is read at once: several large frames.
const INBOX_BYTES: usize = 8 * (MAX_FRAME_BYTES + 64);
/// In front of every record: its length.
const LENGTH_BYTES: usize = 4;

/// Which side opens the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// This one, to there.
    Connect(SocketAddr),
    /// The other one, to here. Without TLS a peer is known by its source address, under TLS the credentials say who
    /// may ([`Credentials::accepting`]). Where that is `any` and there is no TLS, only the host of a connection that lives
    /// can replace it.
    Listen(SocketAddr, Peer),
}

/// A TCP link as it is configured.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Its number.
    pub id: PortId,
    /// Which side this is.
    pub role: Role,
    /// Mutual TLS.
    pub tls: Option<Credentials>,
    /// The daemon's number, not zero.
    pub origin: u64,
    /// What is counted about it.
    pub counters: Arc<Counters>,
}

/// Opens a link: what receives, and what sends. The connection follows when the other side is there;
/// it ends when both halves are dropped.
///
/// # Errors
///
/// An address that cannot be listened at.
pub fn open(spec: Spec) -> io::Result<(Receiver, Transmitter)> {
    let listener = match &spec.role {
        Role::Connect(_) => None,
        Role::Listen(at, _) => {
            let listener = TcpListener::bind(at)?;
            listener.set_nonblocking(true)?;
            Some(listener)
        }
    };
    let shared = Arc::new(Shared {
        spec,
        stream: Mutex::default(),
        epoch: AtomicU64::new(0),
        number: AtomicU32::new(0),
        readable: epoll::create(epoll::CreateFlags::CLOEXEC)?,
        wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
    });
    let keeper = Arc::new(Keeper::start(shared.clone(), listener)?);
    let receiver = Receiver {
        shared: shared.clone(),
        _keeper: keeper.clone(),
        inbox: Buffer::new(INBOX_BYTES),
        read: 0,
        taken: 0,
        epoch: 0,
        borrowed: false,
        more: false,
    };
    let transmitter = Transmitter {
        shared,
        _keeper: keeper,
        arena: Arena::new(),
    };
    Ok((receiver, transmitter))
}

/// What both halves and the keeper have in common.
#[derive(Debug)]
struct Shared {
    spec: Spec,
    /// The connection, while there is one.
    stream: Mutex<Option<Stream>>,
    /// Counts connections: what is half read of one is nothing to the next.
    epoch: AtomicU64,
    number: AtomicU32,
    /// Readable when the connection is.
    readable: OwnedFd,
    /// Tells the keeper that the connection has ended, or that something is left to send.
    wake: OwnedFd,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Stream>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection into use, instead of one that may still be there.
    fn install(&self, mut stream: Stream) -> io::Result<()> {
        let mut current = self.lock();
        stream.epoch = self.epoch.fetch_add(1, Relaxed) + 1;
        // What is closed leaves the set by itself.
        let data = epoll::EventData::new_u64(stream.epoch);
        epoll::add(&self.readable, stream.socket(), data, epoll::EventFlags::IN)?;
        *current = Some(stream);
        Ok(())
    }

    fn wake(&self) {
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok();
    }

    /// Ends the connection; the keeper makes another.
    fn end(&self, stream: &mut Option<Stream>) {
        *stream = None;
        self.wake();
    }
}

/// The receiving half.
#[derive(Debug)]
pub struct Receiver {
    shared: Arc<Shared>,
    _keeper: Arc<Keeper>,
    inbox: Buffer,
    /// How much of the inbox was read, and how much of that was delivered.
    read: usize,
    taken: usize,
    epoch: u64,
    borrowed: bool,
    /// The connection may have more than fitted.
    more: bool,
}

impl Receiver {
    /// Reads what has arrived behind what is not yet whole.
    fn fill(&mut self) {
        let shared = self.shared.clone();
        let mut current = shared.lock();
        let Some(stream) = current.as_mut() else {
            return;
        };
        let left = if stream.epoch == self.epoch {
            let left = self.read - self.taken;
            let (from, to) = (self.taken, self.read);
            self.inbox.part_mut(0..to).copy_within(from..to, 0);
            left
        } else {
            self.epoch = stream.epoch;
            0
        };
        (self.taken, self.read, self.more) = (0, left, false);
        loop {
            let room = self.read..self.inbox.len();
            if room.is_empty() {
                self.more = true;
                return;
            }
            match stream.read(self.inbox.part_mut(room)) {
                Ok(0) => return shared.end(&mut current),
                Ok(len) => self.read += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return shared.end(&mut current),
            }
        }
    }

    /// The next record, when it is there whole; a false one ends the connection, because nothing
    /// behind it can be found.
    fn next(&mut self) -> Option<std::ops::Range<usize>> {
        match record_bytes(self.inbox.part(self.taken..self.read)) {
            Ok(Some(len)) if self.read - self.taken >= LENGTH_BYTES + len => {
                let start = self.taken + LENGTH_BYTES;
                self.taken = start + len;
                Some(start..start + len)
            }
            Ok(_) => None,
            Err(_) => {
                let counters = &self.shared.spec.counters;
                counters.drop_frames(DropReason::Malformed, 1);
                self.taken = self.read;
                let shared = self.shared.clone();
                shared.end(&mut shared.lock());
                None
            }
        }
    }

    fn push(&self, record: std::ops::Range<usize>, batch: &mut Batch) -> Result<usize, DropReason> {
        let malformed = |_| DropReason::Malformed;
        let bytes = self.inbox.part(record.clone());
        let (header, frame) = Carried::parse(bytes).map_err(|_| DropReason::Malformed)?;
        if frame.len() != header.whole as usize {
            return Err(DropReason::Malformed);
        }
        let spec = &self.shared.spec;
        if header.origin == spec.origin {
            return Err(DropReason::Loop);
        }
        let offload =
            Offload::parse(&header.offload, frame.len()).map_err(|_| DropReason::Malformed)?;
        let piece = self
            .inbox
            .segment(record.start + Carried::BYTES..record.end);
        batch
            .push(spec.id, header.network, offload, [piece])
            .map_err(malformed)?;
        if let Some(frame) = batch.last_mut() {
            frame.hops = header.hops;
            frame.origin = header.origin;
        }
        Ok(header.whole as usize)
    }

    /// Delivers what is there; how many frames, and their bytes.
    fn deliver(&mut self, batch: &mut Batch) -> (u64, u64) {
        let (mut frames, mut bytes) = (0, 0);
        while batch.room() > 0 {
            let Some(record) = self.next() else { break };
            match self.push(record, batch) {
                Ok(len) => (frames, bytes) = (frames + 1, bytes + len as u64),
                Err(reason) => self.shared.spec.counters.drop_frames(reason, 1),
            }
        }
        (frames, bytes)
    }
}

impl Receive for Receiver {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let mut got = self.deliver(batch);
        if got.0 == 0 && !self.borrowed {
            self.fill();
            got = self.deliver(batch);
        }
        if got.0 > 0 {
            self.borrowed = true;
            self.shared.spec.counters.received.add(got.0, got.1);
        }
        usize::try_from(got.0).unwrap_or(usize::MAX)
    }

    fn complete(&mut self) {
        self.borrowed = false;
    }

    fn wakeup(&self) -> BorrowedFd<'_> {
        self.shared.readable.as_fd()
    }

    fn arm(&mut self) -> bool {
        let there = record_bytes(self.inbox.part(self.taken..self.read));
        let whole = |len: usize| self.read - self.taken >= LENGTH_BYTES + len;
        self.more || !matches!(there, Ok(len) if !len.is_some_and(whole))
    }

    fn disarm(&mut self) {}
}

/// The sending half.
#[derive(Debug)]
pub struct Transmitter {
    shared: Arc<Shared>,
    _keeper: Arc<Keeper>,
    arena: Arena,
}

impl Transmit for Transmitter {
    fn transmit(&mut self, batch: &Batch, which: &[u16]) {
        let spec = &self.shared.spec;
        for &number in which {
            let frame = &batch.frames()[usize::from(number)];
            let number = self.shared.number.fetch_add(1, Relaxed);
            match carried(frame, spec.origin, number) {
                Ok(header) => {
                    let mut prefix = [0; LENGTH_BYTES + Carried::BYTES];
                    let len = u32::try_from(Carried::BYTES).unwrap_or(0) + frame.len;
                    prefix[..LENGTH_BYTES].copy_from_slice(&len.to_be_bytes());
                    prefix[LENGTH_BYTES..].copy_from_slice(&header.encode());
                    self.arena.add(&prefix, batch, frame);
                }
                Err(reason) => spec.counters.drop_frames(reason, 1),
            }
        }
        if !self.arena.is_empty() {
            self.send();
            self.arena.clear();
        }
    }
}

impl Transmitter {
    fn send(&self) {
        let counters = &self.shared.spec.counters;
        let all = self.arena.len();
        let mut current = self.shared.lock();
        let Some(stream) = current.as_mut() else {
            counters.drop_frames(DropReason::Down, all as u64);
            return;
        };
        let taken = match stream.write(&self.arena) {
            Ok(taken) => taken,
            Err(_) => {
                counters.drop_frames(DropReason::Down, all as u64);
                self.shared.end(&mut current);
                return;
            }
        };
        if stream.has_left() {
            // Nobody may come here again soon.
            self.shared.wake();
        }
        drop(current);
        let overhead = LENGTH_BYTES + Carried::BYTES;
        let bytes: usize = (0..taken).map(|at| self.arena.bytes(at) - overhead).sum();
        counters.sent.add(taken as u64, bytes as u64);
        if taken < all {
            counters.drop_frames(DropReason::NoBuffer, (all - taken) as u64);
        }
    }
}
