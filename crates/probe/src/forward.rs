//! The probe `forward`: holds every packet for a known time, then sends it on.
//!
//! The forwarder exists to test the ruler: a path with this in it has a one-way delay whose truth is known,
//! since the forwarder records when each packet came and left. Packets keep their order, many are
//! in flight at once, and what the far end sends back returns at once and undelayed.
//!
//! The forwarder spins, because a hold of 0 is compared with others. Were it asleep when a packet comes, the
//! wake-up (tens of microseconds to an idle CPU of a virtual machine) would be part of the path for
//! the one hold, and not for another that keeps it awake. Where the CPU cannot be spared, it can
//! sleep while nothing is due soon. In the last moment it does nothing but read the clock, so that
//! it is not inside a system call when the time comes; a packet that arrives in that moment is
//! stamped that much late.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use latlab_wire::probe::{Packet, PacketRepr};
use latlab_wire::samples::{
    Counters, ForwardCounters, Phase, Probe, Quantiles, Record, Report, SampleKind, flags,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, recvfrom, sendto};

use crate::args::Options;
use crate::error::{Error, Result};
use crate::health::{self, Watch};
use crate::net::{self, Sent, Socket};
use crate::output::Output;
use crate::packets::{DEFAULT_MAX_PACKETS, DEFAULT_RECEIVE_BUFFER_BYTES};
use crate::setup::{Common, Poll, touched_records};
use crate::stop::Stop;
use crate::sys::Who;
use crate::time;

/// Default maximum of packets in flight.
const DEFAULT_QUEUE: u64 = 8192;
/// Longest packet it can hold: more than an Ethernet frame, and short enough for many.
const SLOT_BYTES: usize = 2048;
/// Longest time to hold a packet, which also bounds how long stopping takes.
const MAX_HOLD_NS: u64 = 10_000_000_000;
/// The forwarder no longer sleeps when a packet is due within this time: more than a usual wake-up.
const AWAKE_NS: u64 = 200_000;
/// The forwarder only reads the clock when a packet is due within this time: more than what the
/// two system calls take that look for packets.
const ALERT_NS: u64 = 3_000;

/// A record, and its error of the hold afterwards.
const BYTES_PER_PACKET: u64 = (size_of::<Record>() + size_of::<u64>()) as u64;

struct Settings {
    listen: SocketAddr,
    to: SocketAddr,
    hold_ns: u64,
    max_packets: u64,
    capacity: u64,
    poll: Poll,
}

impl Settings {
    fn take(options: &mut Options) -> Result<Settings> {
        let hold_ns = options.number("hold-ns", 0, MAX_HOLD_NS)?;
        Ok(Settings {
            listen: options.address("listen")?,
            to: options.address("to")?,
            hold_ns: hold_ns.ok_or_else(|| {
                Error::Usage("--hold-ns is missing: how long to hold a packet".into())
            })?,
            max_packets: options
                .number("max-packets", 1, u64::from(u32::MAX))?
                .unwrap_or(DEFAULT_MAX_PACKETS),
            capacity: options
                .number("queue", 1, 1 << 20)?
                .unwrap_or(DEFAULT_QUEUE),
            poll: Poll::take(options, Poll::Busy)?,
        })
    }
}

struct Held {
    slot: usize,
    length: usize,
    arrived_ns: u64,
    /// The header's sequence number, if there is a header, for the record.
    sequence: u32,
    flow: u16,
}

struct Forwarder {
    inward: Socket,
    outward: Socket,
    hold_ns: u64,
    max_packets: usize,
    queue: VecDeque<Held>,
    capacity: usize,
    slots: Vec<u8>,
    next_slot: usize,
    reply: Vec<u8>,
    /// The last sender, which gets the replies.
    client: Option<SocketAddrAny>,
    records: Vec<Record>,
    counters: ForwardCounters,
}

pub fn run(mut options: Options, output: &mut Output) -> Result<()> {
    let common = Common::take(&mut options, output)?;
    let settings = Settings::take(&mut options)?;
    options.finish("forward")?;
    common.check_memory(settings.max_packets, BYTES_PER_PACKET)?;
    common.check_memory(settings.capacity, SLOT_BYTES as u64)?;
    common.apply()?;
    let inward = net::udp_at(settings.listen)?;
    let granted = net::set_receive_buffer(&inward, DEFAULT_RECEIVE_BUFFER_BYTES as usize)?;
    let outward = net::udp_to(settings.to, None)?;
    let records = touched_records(settings.max_packets)?;
    let mut forwarder = Forwarder::new(inward, outward, &settings, records);
    let stop = Stop::at_end_of_input(common.fifo_priority)?;
    stop.wake(&forwarder.inward);
    let local = net::local_address(&forwarder.inward)?;
    common.ready(output, Probe::Forward, Some(local), Some(granted))?;

    let watch = Watch::start(Who::Thread);
    let started_ns = time::now_ns();
    let result = forwarder.forward(settings.poll, &stop);
    let ended_ns = time::now_ns();
    let mut health = watch.end(&[forwarder.inward.as_fd(), forwarder.outward.as_fd()]);

    output.progress(Phase::Emitting, None)?;
    health.lateness = Some(forwarder.hold_error());
    output.samples(SampleKind::Forward, &forwarder.records)?;
    let counters = Counters::Forward(forwarder.counters);
    output.report(Report {
        started_ns,
        ended_ns,
        counters,
        health,
    })?;
    result
}

impl Forwarder {
    fn new(
        inward: Socket,
        outward: Socket,
        settings: &Settings,
        records: Vec<Record>,
    ) -> Forwarder {
        let capacity = settings.capacity as usize;
        let hold_ns = settings.hold_ns;
        Forwarder {
            inward,
            outward,
            hold_ns,
            max_packets: settings.max_packets as usize,
            queue: VecDeque::with_capacity(capacity),
            capacity,
            // Not zero, so that the pages are touched.
            slots: vec![0xff; capacity * SLOT_BYTES],
            next_slot: 0,
            reply: vec![0xff; 1 << 16],
            client: None,
            records,
            counters: ForwardCounters {
                hold_ns,
                ..ForwardCounters::default()
            },
        }
    }

    fn forward(&mut self, polling: Poll, stop: &Stop) -> Result<()> {
        loop {
            // Asked before looking for packets, so that none that came before is left behind.
            let stopping = stop.requested();
            let sent = self.send_what_is_due()?;
            let taken = self.take_in()?;
            let returned = self.send_back()?;
            if stopping && !taken && self.queue.is_empty() {
                return Ok(());
            }
            if !(sent || taken || returned) && polling == Poll::Block {
                self.sleep(stop)?;
            }
        }
    }

    /// Sends the first packet if it is due, or almost: then it waits for the moment.
    fn send_what_is_due(&mut self) -> Result<bool> {
        let Some(held) = self.queue.front() else {
            return Ok(false);
        };
        let due_ns = held.arrived_ns + self.hold_ns;
        let mut now_ns = time::now_ns();
        if now_ns + ALERT_NS < due_ns {
            return Ok(false);
        }
        while now_ns < due_ns {
            std::hint::spin_loop();
            now_ns = time::now_ns();
        }
        let from = held.slot * SLOT_BYTES;
        let bytes = &self.slots[from..from + held.length];
        let sent = net::send_datagram(
            &self.outward,
            bytes,
            None,
            &mut self.counters.network_errors,
        )
        .map_err(|error| Error::Peer(format!("forward a packet: {error}")))?;
        let record = Record {
            sequence: held.sequence,
            flow: held.flow,
            flags: if sent == Sent::Yes {
                0
            } else {
                flags::NOT_SENT
            },
            start_ns: held.arrived_ns,
            end_ns: now_ns,
        };
        self.queue.pop_front();
        match sent {
            Sent::Yes => self.counters.forwarded += 1,
            Sent::No => self.counters.not_sent += 1,
        }
        if self.records.len() < self.max_packets {
            self.records.push(record);
        } else {
            self.counters.no_room += 1;
        }
        Ok(true)
    }

    /// Takes in one packet, if one is there.
    fn take_in(&mut self) -> Result<bool> {
        let from = self.next_slot * SLOT_BYTES;
        let slot = &mut self.slots[from..from + SLOT_BYTES];
        // TRUNC gives the packet's whole length even if that is more than the slot's. A full queue
        // has no free slot, but the first packet's bytes must not be overwritten.
        let full = self.queue.len() == self.capacity;
        let buffer = if full { &mut self.reply[..] } else { slot };
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        let (length, client) = match recvfrom(&self.inward, &mut *buffer, flags) {
            Ok((_, length, Some(client))) => (length, client),
            Ok((_, _, None)) | Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(error) => return Err(Error::Peer(format!("receive packets: {error}"))),
        };
        let arrived_ns = time::now_ns();
        self.client = Some(client);
        if length > SLOT_BYTES {
            self.counters.too_long += 1;
            return Ok(true);
        }
        if full {
            self.counters.dropped += 1;
            return Ok(true);
        }
        let packet = PacketRepr::parse(&Packet::new_unchecked(&buffer[..length])).ok();
        let (sequence, flow) = packet.map_or((0, 0), |packet| (packet.sequence, packet.flow));
        let slot = self.next_slot;
        self.queue.push_back(Held {
            slot,
            length,
            arrived_ns,
            sequence,
            flow,
        });
        self.next_slot = (slot + 1) % self.capacity;
        self.counters.most_queued = self.counters.most_queued.max(self.queue.len() as u64);
        Ok(true)
    }

    fn send_back(&mut self) -> Result<bool> {
        let length = match net::receive(&self.outward, &mut self.reply, Poll::Busy) {
            Ok(Some(length)) => length,
            Ok(None) => return Ok(false),
            // The far end is not there (yet): a fact about it, not about the forwarder.
            Err(error) if Errno::from_io_error(&error).is_some_and(net::is_network_error) => {
                self.counters.network_errors += 1;
                return Ok(true);
            }
            Err(error) => return Err(Error::Peer(format!("receive replies: {error}"))),
        };
        let Some(client) = &self.client else {
            return Ok(true);
        };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match sendto(&self.inward, &self.reply[..length], flags, client) {
            Ok(_) => self.counters.returned += 1,
            Err(_) => self.counters.not_sent += 1,
        }
        Ok(true)
    }

    /// Sleeps until something arrives, the first packet is due soon, or it is time to stop.
    fn sleep(&self, stop: &Stop) -> Result<()> {
        let timeout = match self.queue.front() {
            None => None,
            Some(held) => {
                let wake_ns = held.arrived_ns + self.hold_ns;
                match wake_ns.checked_sub(time::now_ns() + AWAKE_NS) {
                    Some(ns) if ns > 0 => Some(time::from_ns(ns)),
                    _ => return Ok(()),
                }
            }
        };
        let mut sockets = [
            PollFd::new(&self.outward, PollFlags::IN),
            PollFd::new(&self.inward, PollFlags::IN),
        ];
        // Once shut down, the inward socket would end every sleep at once.
        let watched = if stop.requested() {
            &mut sockets[..1]
        } else {
            &mut sockets[..]
        };
        match poll(watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Error::machine("wait for packets", error)),
        }
    }

    /// How much longer than asked each packet was held.
    fn hold_error(&self) -> Quantiles {
        let due = |record: &Record| record.start_ns + self.hold_ns;
        health::lateness(
            self.records
                .iter()
                .map(|record| (due(record), record.end_ns)),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::*;

    /// A forwarder between two sockets, and those.
    fn between(capacity: u64, hold_ns: u64) -> (UdpSocket, Forwarder, UdpSocket) {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        far.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let inward = net::udp_at("127.0.0.1:0".parse().unwrap()).unwrap();
        let outward = net::udp_to(far.local_addr().unwrap(), None).unwrap();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        near.connect(net::local_address(&inward).unwrap()).unwrap();
        let settings = Settings {
            listen: "127.0.0.1:0".parse().unwrap(),
            to: far.local_addr().unwrap(),
            hold_ns,
            max_packets: 100,
            capacity,
            poll: Poll::Busy,
        };
        let forwarder = Forwarder::new(inward, outward, &settings, Vec::new());
        (near, forwarder, far)
    }

    fn received(socket: &UdpSocket) -> Vec<u8> {
        let mut buffer = [0; 100];
        let length = socket.recv(&mut buffer).unwrap();
        buffer[..length].to_vec()
    }

    #[test]
    fn packets_keep_order_and_content_and_are_held_long_enough() {
        let (near, mut forwarder, far) = between(2, 1_000);
        for round in 0..3u8 {
            for packet in [[round, 1], [round, 2]] {
                near.send(&packet).unwrap();
                assert!(forwarder.take_in().unwrap());
            }
            while forwarder.send_what_is_due().unwrap() {}
            assert_eq!(received(&far), [round, 1]);
            assert_eq!(received(&far), [round, 2]);
        }
        assert_eq!(
            (forwarder.counters.forwarded, forwarder.counters.most_queued),
            (6, 2)
        );
        assert_eq!(forwarder.records.len(), 6);
        assert!(
            forwarder
                .records
                .iter()
                .all(|record| record.end_ns >= record.start_ns + 1_000)
        );
    }

    #[test]
    fn a_full_queue_drops_the_new_and_keeps_the_old() {
        let (near, mut forwarder, far) = between(1, 0);
        near.send(b"first").unwrap();
        assert!(forwarder.take_in().unwrap());
        near.send(b"second").unwrap();
        assert!(forwarder.take_in().unwrap());
        assert!(forwarder.send_what_is_due().unwrap());
        assert_eq!(received(&far), b"first");
        assert!(!forwarder.send_what_is_due().unwrap());
        assert_eq!(
            (forwarder.counters.forwarded, forwarder.counters.dropped),
            (1, 1)
        );
    }

    #[test]
    fn a_packet_longer_than_a_slot_is_dropped_and_counted() {
        let (near, mut forwarder, _far) = between(4, 0);
        near.send(&[0; SLOT_BYTES + 1]).unwrap();
        assert!(forwarder.take_in().unwrap());
        near.send(&[0; SLOT_BYTES]).unwrap();
        assert!(forwarder.take_in().unwrap());
        assert_eq!((forwarder.counters.too_long, forwarder.queue.len()), (1, 1));
    }

    #[test]
    fn replies_return_to_the_sender() {
        let (near, mut forwarder, far) = between(4, 0);
        near.send(b"ping").unwrap();
        assert!(forwarder.take_in().unwrap());
        assert!(forwarder.send_what_is_due().unwrap());
        let mut buffer = [0; 100];
        let (_, forwarder_address) = far.recv_from(&mut buffer).unwrap();
        far.send_to(b"pong", forwarder_address).unwrap();
        assert!(forwarder.send_back().unwrap());
        assert_eq!(received(&near), b"pong");
        assert_eq!(forwarder.counters.returned, 1);
    }

    #[test]
    fn nothing_to_do_is_nothing_done() {
        let (_near, mut forwarder, _far) = between(4, 0);
        assert!(!forwarder.take_in().unwrap());
        assert!(!forwarder.send_what_is_due().unwrap());
        assert!(!forwarder.send_back().unwrap());
    }
}
