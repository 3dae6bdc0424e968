//! The sending half of a link over UDP.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use latlab_wire::overlay::{MAX_SLICES, PrivateHeader, Sealed, Vxlan};

use super::endpoint::{Endpoint, Form, UdpLink};
use super::path::Path;
use super::sealed::send_handshake;
use super::socket::socket;
use crate::endpoints::{DropReason, PortId, Transmit};
use crate::frames::{Arena, Batch, Frame, Gso, Headers};
use crate::links::sys::{Address, MAX_DATAGRAM, Outbox, Report};
use crate::sync::lock;

pub const SOURCE_PORTS: usize = 4;

#[derive(Debug)]
struct Lane {
    socket: Arc<OwnedFd>,
    arena: Arena,
    outbox: Outbox,
}

#[derive(Debug)]
pub struct Transmitter {
    endpoint: Arc<Endpoint>,
    link: Arc<UdpLink>,
    to: Address,
    path: Path,
    lanes: Vec<Lane>,
    cipher: Arena,
}

impl Endpoint {
    /// A dispatcher's sending half of a link. Errors: an unknown link; in the sealed form, an endpoint without a
    /// receiver.
    pub fn transmitter(self: &Arc<Endpoint>, id: PortId) -> io::Result<Transmitter> {
        let link = self.newest_link(id);
        let missing = |what| io::Error::new(io::ErrorKind::NotFound, what);
        let link = link.ok_or_else(|| missing("no such link"))?;
        let sockets = if link.sealing.is_some() {
            let sockets = lock(&self.sockets);
            vec![
                sockets
                    .first()
                    .ok_or_else(|| missing("no receiver"))?
                    .clone(),
            ]
        } else {
            let mut from = self.local;
            from.set_port(0);
            let sockets = (0..SOURCE_PORTS).map(|_| socket(from).map(Arc::new));
            sockets.collect::<io::Result<_>>()?
        };
        Transmitter::new(self.clone(), link, sockets)
    }
}

impl Transmitter {
    fn new(
        endpoint: Arc<Endpoint>,
        link: Arc<UdpLink>,
        sockets: Vec<Arc<OwnedFd>>,
    ) -> io::Result<Transmitter> {
        let mut from = endpoint.local;
        from.set_port(0);
        let remote = link.config.remote;
        let lane = |socket| Lane {
            socket,
            arena: Arena::default(),
            outbox: Outbox::default(),
        };
        Ok(Transmitter {
            path: Path::new(socket(from)?, remote),
            to: remote.into(),
            lanes: sockets.into_iter().map(lane).collect(),
            cipher: Arena::default(),
            endpoint,
            link,
        })
    }

    /// Maximum datagram, without what the form adds to it.
    fn room(&self) -> usize {
        let sealed = match self.endpoint.form {
            Form::Sealed(_) => Sealed::BYTES + Sealed::TAG_BYTES,
            _ => 0,
        };
        self.path.payload().saturating_sub(sealed)
    }

    fn add(&mut self, batch: &Batch, frame: &Frame) -> Result<(), DropReason> {
        let lane = usize::try_from(frame.flow()).unwrap_or(0) % self.lanes.len();
        let room = self.room();
        let arena = &mut self.lanes[lane].arena;
        match self.endpoint.form {
            Form::Vxlan => vxlan(arena, batch, frame, room),
            Form::Private | Form::Sealed(_) => {
                let number = self.link.number.fetch_add(1, Relaxed);
                let header = private_header(frame, self.endpoint.origin, number)?;
                slices(arena, batch, frame, header, room)
            }
        }
    }

    fn count(&mut self, report: Report) {
        let overhead = match self.endpoint.form {
            Form::Vxlan => Vxlan::BYTES,
            Form::Private => PrivateHeader::BYTES,
            Form::Sealed(_) => PrivateHeader::BYTES + Sealed::BYTES + Sealed::TAG_BYTES,
        };
        report.count(&self.link.config.counters, overhead);
        if report.stale {
            self.path.ask();
        }
    }
}

impl Transmit for Transmitter {
    fn transmit(&mut self, batch: &Batch, which: &[u16]) {
        self.path.refresh();
        self.link.payload.store(self.path.payload(), Relaxed);
        for &number in which {
            let frame = &batch.frames()[usize::from(number)];
            if let Err(reason) = self.add(batch, frame) {
                self.link.config.counters.drop_frames(reason, 1);
            }
        }
        let link = self.link.clone();
        for lane in 0..self.lanes.len() {
            let (path, to) = (self.path.payload(), &self.to);
            let Lane {
                socket,
                arena,
                outbox,
            } = &mut self.lanes[lane];
            if arena.is_empty() {
                continue;
            }
            let sent = match &link.sealing {
                Some(sealing) => {
                    self.cipher.clear();
                    let sealed = sealing.seal(arena, &mut self.cipher, |handshake| {
                        send_handshake(socket.as_fd(), handshake, link.config.remote);
                    });
                    if !sealed {
                        let lost = arena.len() as u64;
                        link.config.counters.drop_frames(DropReason::Down, lost);
                    }
                    &self.cipher
                }
                None => &*arena,
            };
            let report = outbox.send(socket.as_fd(), Some(to), sent, path);
            arena.clear();
            self.count(report);
        }
    }
}

/// VXLAN: large frames are segmented and checksums computed.
fn vxlan(arena: &mut Arena, batch: &Batch, frame: &Frame, room: usize) -> Result<(), DropReason> {
    let prefix = Vxlan {
        network: frame.network,
    }
    .encode();
    let refused = |_| DropReason::Malformed;
    if frame.offload.gso == Gso::None {
        if frame.len as usize + Vxlan::BYTES > MAX_DATAGRAM {
            return Err(DropReason::TooLong);
        }
        return arena.complete(&prefix, batch, frame).map_err(refused);
    }
    let asked = usize::from(frame.offload.gso_size);
    let headers = Headers::parse(frame.head()).map_or(frame.head().len(), |read| read.payload);
    // TCP accepts smaller segments than requested, and they are better than fragments.
    let max = room.saturating_sub(Vxlan::BYTES + headers);
    let size = if max >= 256 { asked.min(max) } else { asked };
    if size + headers + Vxlan::BYTES > MAX_DATAGRAM {
        return Err(DropReason::TooLong);
    }
    let size = u16::try_from(size).unwrap_or(u16::MAX);
    arena.cut(&prefix, batch, frame, size).map_err(refused)?;
    Ok(())
}

pub(in crate::links) fn private_header(
    frame: &Frame,
    origin: u64,
    number: u32,
) -> Result<PrivateHeader, DropReason> {
    if frame.hops == 0 {
        return Err(DropReason::Loop);
    }
    if frame.len as usize > latlab_wire::overlay::MAX_FRAME_BYTES {
        return Err(DropReason::TooLong);
    }
    Ok(PrivateHeader {
        hops: frame.hops - 1,
        network: frame.network,
        origin: if frame.origin == 0 {
            origin
        } else {
            frame.origin
        },
        number,
        whole: frame.len,
        offset: 0,
        offload: frame.encoded_offload(),
    })
}

/// The private form: the frame unchanged, in as few slices as the path allows.
fn slices(
    arena: &mut Arena,
    batch: &Batch,
    frame: &Frame,
    mut header: PrivateHeader,
    room: usize,
) -> Result<(), DropReason> {
    let whole = frame.len as usize;
    let max = room.saturating_sub(PrivateHeader::BYTES) & !7;
    let each = max.max(whole.div_ceil(MAX_SLICES)).max(64);
    let mut from = 0;
    while from < whole {
        let to = (from + each).min(whole);
        header.offset = u32::try_from(from).unwrap_or(u32::MAX);
        arena.slice(&header.encode(), batch, frame, from..to);
        from = to;
    }
    Ok(())
}
