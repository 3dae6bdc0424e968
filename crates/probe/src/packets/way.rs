//! How a source's packets leave: three ways, from the most ordinary to the fastest.
//!
//! - `socket`: one UDP datagram a system call, as an application would. Works everywhere, also to local
//!   addresses and over IPv6.
//! - `packet`: frames built here through a packet socket, as many in one call as are due. They pass the
//!   interface's filters (tc egress), so a tap there sees them, and need nothing of the interface, so a
//!   device that takes frames before the kernel's network may carry them.
//! - `xdp`: frames in memory shared with the kernel (AF_XDP), the fastest. They pass no filter of the
//!   interface, so that a tap can only stand behind it.
//!
//! A batch leaves while the kernel works on one call. When each of its packets did is not told; the time
//! from the call's begin to its end is divided evenly between them, which is wrong by less than the call.

use std::net::SocketAddr;

use latlab_wire::probe::PacketRepr;
use latlab_wire::samples::{Record, Via, flags};

use super::frame::Template;
use super::route;
use crate::error::{Error, Result};
use crate::net::{self, Sent, Socket};
use crate::{sys, time, xdp};

pub struct Way {
    /// One a flow. They send, or keep the ports that frames are sent from.
    sockets: Vec<Socket>,
    ports: Vec<u16>,
    first_flow: u16,
    by: By,
    pub network_errors: u64,
}

enum By {
    Socket { payload: Vec<u8> },
    Packet(Box<(sys::Batch, Template)>),
    Xdp(Box<(xdp::Sender, Template)>),
}

/// Packets that one call may take. More would make little faster, and what is noted of each less exact.
const PACKET_BATCH: usize = 64;
const XDP_BATCH: usize = 256;

impl Way {
    /// Gets ready to send frames of `frame_bytes`, frame check sequence included, over `sockets`: one a
    /// flow, connected.
    pub fn open(
        via: Via,
        sockets: Vec<Socket>,
        to: SocketAddr,
        frame_bytes: u64,
        payload_bytes: u64,
        first_flow: u16,
    ) -> Result<Way> {
        let mut locals = Vec::new();
        for socket in &sockets {
            locals.push(net::local_address(socket)?);
        }
        let by = match via {
            Via::Socket => By::Socket {
                payload: vec![0; payload_bytes as usize],
            },
            Via::Packet | Via::Xdp => By::frames(via, locals[0], to, frame_bytes as usize - 4)?,
        };
        Ok(Way {
            sockets,
            ports: locals.iter().map(SocketAddr::port).collect(),
            first_flow,
            by,
            network_errors: 0,
        })
    }

    pub fn batch(&self) -> usize {
        match self.by {
            By::Socket { .. } => 1,
            By::Packet(_) => PACKET_BATCH,
            By::Xdp(_) => XDP_BATCH,
        }
    }

    /// Sends these packets, whose times are absolute by now, and writes down when each left.
    pub fn send(&mut self, records: &mut [Record]) -> std::io::Result<()> {
        let (ports, first_flow) = (&self.ports, self.first_flow);
        let port = |record: &Record| ports[usize::from(record.flow - first_flow)];
        match &mut self.by {
            By::Socket { payload } => {
                for record in records {
                    let socket = &self.sockets[usize::from(record.flow - first_flow)];
                    packet(record).emit(payload);
                    record.end_ns = time::now_ns();
                    let sent = net::send_datagram(socket, payload, None, &mut self.network_errors)?;
                    if sent == Sent::No {
                        record.flags |= flags::NOT_SENT;
                    }
                }
                Ok(())
            }
            By::Packet(both) => {
                let (batch, template) = &mut **both;
                for (frame, record) in batch.frames().zip(records.iter()) {
                    template.stamp(frame, port(record), packet(record));
                }
                send_batch(batch, records)
            }
            By::Xdp(both) => {
                let (sender, template) = &mut **both;
                for record in records.iter_mut() {
                    match sender.stage(template.bytes.len()) {
                        Some(frame) => template.stamp(frame, port(record), packet(record)),
                        None => record.flags |= flags::NOT_SENT,
                    }
                }
                let begin = time::now_ns();
                sender.send()?;
                spread(records, begin);
                Ok(())
            }
        }
    }
}

impl By {
    fn frames(via: Via, from: SocketAddr, to: SocketAddr, length: usize) -> Result<By> {
        let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else {
            return Err(Error::Usage(format!(
                "--to {to}: frames are built for IPv4 only; `--via socket` sends over IPv6"
            )));
        };
        let way = route::find(*to.ip())?;
        let template = Template::new((way.from, way.to), from, to, length);
        let failed = |error| Error::machine("open a socket for frames", error);
        match via {
            Via::Xdp if length > xdp::CHUNK_BYTES => Err(Error::Usage(format!(
                "--bytes {}: AF_XDP sends frames of up to {} bytes; `--via packet` sends larger ones",
                length + 4,
                xdp::CHUNK_BYTES + 4
            ))),
            Via::Xdp => {
                let sender = xdp::Sender::open(way.interface, &template.bytes).map_err(failed)?;
                Ok(By::Xdp(Box::new((sender, template))))
            }
            _ => {
                let socket = sys::sending_packet_socket(way.interface).map_err(failed)?;
                let batch = sys::Batch::new(socket, &template.bytes, PACKET_BATCH);
                Ok(By::Packet(Box::new((batch, template))))
            }
        }
    }
}

fn send_batch(batch: &mut sys::Batch, records: &mut [Record]) -> std::io::Result<()> {
    let mut from = 0;
    while from < records.len() {
        let begin = time::now_ns();
        let sent = match batch.send(from..records.len()) {
            Ok(sent) => sent,
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM | libc::ENETDOWN) => 0,
                Some(libc::EINTR) => continue,
                _ => return Err(error),
            },
        };
        spread(&mut records[from..from + sent], begin);
        from += sent;
        if from < records.len() {
            // The one that was not taken is the path's loss; those behind it have their turn.
            records[from].flags |= flags::NOT_SENT;
            records[from].end_ns = time::now_ns();
            from += 1;
        }
    }
    Ok(())
}

pub(super) fn packet(record: &Record) -> PacketRepr {
    PacketRepr {
        flow: record.flow,
        sequence: record.sequence,
        intended_ns: record.start_ns,
    }
}

/// Divides the time of a call, which ends now, between its packets. The first left when it began.
fn spread(records: &mut [Record], begin: u64) {
    let count = records.len() as u64;
    if let [only] = records {
        only.end_ns = begin;
    }
    if count < 2 {
        return;
    }
    // In 1/65,536 ns, so that the loop need not divide.
    let step = ((time::now_ns() - begin) << 16) / count;
    let mut at = 0;
    for record in records {
        record.end_ns = begin + (at >> 16);
        at += step;
    }
}
