//! Hostile guests on their rings, and a device that must survive them.
//!
//! The input is a list of steps of sixteen bytes: an action of a guest, or a poll of the device. [`run`] is
//! one ring, where every buffer of the device must lie in the guest's memory. [`guests`] are two ports, where
//! a received batch must not change, whatever the guests write meanwhile.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use latlab_overlay::endpoints::{Receive, Transmit};
use latlab_overlay::frames::{Batch, Offload};
use latlab_overlay::ports::vhost_user::{Receiver, Sender, fuzz};
use latlab_overlay::rings::driver::{Buffer, Driver, Guest};
use latlab_overlay::rings::{Buffers, Chain, Direction, Fault, Outgoing, Queue};

/// Bytes of a step.
const STEP: usize = 16;
const SIZE: u16 = 8;
const MEMORY: u64 = 64 << 10;

struct Machine {
    guest: Guest,
    driver: Driver,
    queue: Queue,
    chain: Chain,
    buffers: Buffers,
}

/// Runs the steps; the device's results, in order, are the answer.
pub fn run(data: &[u8]) -> u64 {
    let Ok(guest) = Guest::new(MEMORY) else {
        return 0;
    };
    let driver = Driver::new(Guest::START, SIZE);
    let Ok(queue) = Queue::new(driver.setup(), guest.memory(), None) else {
        return 0;
    };
    let mut machine = Machine {
        guest,
        driver,
        queue,
        chain: Chain::default(),
        buffers: Buffers::default(),
    };
    let mut found = DefaultHasher::new();
    for step in data.chunks_exact(STEP).take(256) {
        match machine.step(step) {
            Ok(Some(result)) => result.hash(&mut found),
            Ok(None) => {}
            // A faulty ring is not polled again.
            Err(fault) => {
                fault.to_string().hash(&mut found);
                break;
            }
        }
    }
    found.finish()
}

/// A step of sixteen bytes: a number, an address and a descriptor.
struct Step {
    what: u8,
    index: u16,
    address: u64,
    buffer: Buffer,
    /// Applies to the sending guest, of two.
    by_sender: bool,
}

impl Step {
    fn parse(bytes: &[u8]) -> Step {
        let index = u16::from_le_bytes([bytes[2], bytes[3]]);
        let len = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let mut address = [0; 8];
        address.copy_from_slice(&bytes[8..]);
        let mut address = u64::from_le_bytes(address);
        // Chance would hardly ever hit the guest's memory.
        if bytes[1] & 1 == 0 {
            address = Guest::START + address % MEMORY;
        }
        let len = if bytes[1] & 2 == 0 { len % 5000 } else { len };
        Step {
            what: bytes[0],
            by_sender: bytes[1] & 4 == 0,
            index,
            address,
            buffer: Buffer {
                address,
                len,
                flags: u16::from(bytes[1] >> 4),
                next: index,
            },
        }
    }

    /// Index of the step's descriptor.
    fn at(&self) -> u16 {
        u16::from(self.what >> 3) % SIZE
    }

    /// Changes the guest's memory; false if the step is another action.
    fn by_guest(&self, guest: &Guest, driver: &mut Driver) -> bool {
        match self.what % 8 {
            0 => driver.describe(guest, self.at(), self.buffer),
            1 => driver.offer(guest, self.index),
            2 => driver.jump(guest, self.index),
            3 => guest.write(self.address, &self.buffer.bytes()),
            _ => return false,
        }
        true
    }
}

impl Machine {
    fn step(&mut self, bytes: &[u8]) -> Result<Option<u8>, Fault> {
        let step = Step::parse(bytes);
        if step.by_guest(&self.guest, &mut self.driver) {
            return Ok(None);
        }
        match step.what % 8 {
            4 | 5 => self.send(),
            6 => self.receive(step.index),
            _ => self.queue.arm().map(|ready| Some(ready.into())),
        }
    }

    /// The device takes a chain, reads all of it and returns it.
    fn send(&mut self) -> Result<Option<u8>, Fault> {
        if self.queue.ready()? == 0 {
            return Ok(None);
        }
        self.queue.warm(Direction::FromGuest, SIZE);
        self.chain.clear();
        let head = self.queue.pop(Direction::FromGuest, &mut self.chain)?;
        let mut bytes = 0;
        for piece in self.chain.pieces() {
            let inside = piece.guest - Guest::START;
            assert!(inside + piece.place.bytes() as u64 <= MEMORY);
            bytes += piece.place.read(&mut vec![0; piece.place.bytes()]);
        }
        assert_eq!(bytes as u64, self.chain.bytes());
        self.queue.push(head, 0);
        self.queue.publish();
        self.queue.wants_interrupt();
        Ok(Some(self.chain.pieces().len().min(20) as u8))
    }

    /// The device writes a frame.
    fn receive(&mut self, bytes: u16) -> Result<Option<u8>, Fault> {
        let frame = vec![0xa5; usize::from(bytes % 9000)];
        let outgoing = Outgoing {
            header: [0; 12],
            header_bytes: 12,
            head: &frame,
            rest: &[],
            bytes: u32::from(bytes % 9000),
        };
        let delivery = self
            .buffers
            .deliver(&mut self.queue, bytes % 2 == 0, outgoing, None)?;
        self.queue.publish();
        Ok(Some(delivery as u8 + 100))
    }
}

/// Two guests and the ports between them.
struct Two {
    sender: (Guest, Driver),
    receiver: (Guest, Driver),
    receive: Receiver,
    transmit: Sender,
    batch: Batch,
}

/// All negotiable features of frames and rings.
const EVERYTHING: u64 =
    0b11 | 0b11 << 7 | 0b111 << 11 | 1 << 15 | 0b11 << 28 | 1 << 30 | 1 << 32 | 0b111 << 54;

impl Two {
    /// The first byte is the features of each guest.
    fn new(about: u8) -> Option<Two> {
        let guest = || {
            let guest = Guest::new(MEMORY).ok()?;
            let driver = Driver::new(Guest::START, SIZE);
            let queue = Queue::new(driver.setup(), guest.memory(), None).ok()?;
            Some(((guest, driver), queue))
        };
        let (sender, from) = guest()?;
        let (receiver, to) = guest()?;
        let (plain, old) = (1 << 15 | 1 << 30 | 1 << 32, 1 << 30);
        let choose = |which: u8| [EVERYTHING, plain, old, EVERYTHING][usize::from(which % 4)];
        let ends = fuzz::joined(
            (from, choose(about)),
            (to, choose(about >> 2)),
            about & 16 == 0,
        );
        let (receive, transmit) = ends.ok()??;
        Some(Two {
            sender,
            receiver,
            receive,
            transmit,
            batch: Batch::new(32),
        })
    }

    /// A step changes the memory of its own guest.
    fn by_guest(&mut self, step: &Step) -> bool {
        let (guest, driver) = if step.by_sender {
            &mut self.sender
        } else {
            &mut self.receiver
        };
        step.by_guest(guest, driver)
    }

    /// A pass; the guests' actions of `meanwhile` happen between receiving and sending.
    fn pass(&mut self, meanwhile: &[Step]) -> usize {
        self.batch.clear();
        let received = self.receive.receive(&mut self.batch);
        assert_eq!(received, self.batch.frames().len());
        let before = self.batch.frames().to_vec();
        for step in meanwhile {
            self.by_guest(step);
        }
        for (frame, before) in self.batch.frames().iter().zip(&before) {
            let rest: usize = self.batch.rest(frame).iter().map(|s| s.len()).sum();
            assert_eq!(frame.head().len() + rest, frame.len as usize);
            assert_eq!(frame.head(), before.head());
            let header = frame.offload.encode(0);
            assert_eq!(
                Offload::parse(&header, frame.len as usize),
                Ok(frame.offload)
            );
        }
        let all: Vec<u16> = (0..received as u16).collect();
        self.transmit.transmit(&self.batch, &all);
        self.transmit.flush();
        self.receive.complete();
        received
    }
}

/// Runs two ports: the first byte is their configuration, then follow steps.
pub fn guests(data: &[u8]) -> u64 {
    let Some((&about, steps)) = data.split_first() else {
        return 0;
    };
    let Some(mut two) = Two::new(about) else {
        return 0;
    };
    let mut found = DefaultHasher::new();
    let steps: Vec<Step> = steps
        .chunks_exact(STEP)
        .take(256)
        .map(Step::parse)
        .collect();
    for (nth, step) in steps.iter().enumerate() {
        if two.by_guest(step) {
            continue;
        }
        match step.what % 8 {
            4 | 5 => two.pass(&[]).hash(&mut found),
            // The next steps happen during the pass, and once more after it.
            6 => two
                .pass(&steps[nth + 1..steps.len().min(nth + 3)])
                .hash(&mut found),
            _ => {
                two.receive.arm().hash(&mut found);
                two.receive.disarm();
            }
        }
    }
    found.finish()
}

/// Encodes a step, for seeds.
fn step(what: u8, flags: u8, index: u16, len: u32, address: u64) -> Vec<u8> {
    let mut step = vec![what, flags];
    step.extend(index.to_le_bytes());
    step.extend(len.to_le_bytes());
    step.extend(address.to_le_bytes());
    step
}

/// A frame that passes, and one whose header is rewritten on the way.
pub fn guests_seeds() -> Vec<Vec<u8>> {
    let (other, write) = (4, 2 << 4);
    let through = |pass: u8| {
        [
            vec![0],
            // Addresses of a frame, behind its header.
            step(3, 0, 2, 2, 0x200c),
            step(0, 0, 0, 100, 0x2000),
            step(1, 0, 0, 0, 0),
            step(0, other | write, 0, 2000, 0x4000),
            step(1, other, 0, 0, 0),
            step(pass, 0, 0, 0, 0),
            step(3, 0, 0xffff, 0xffff, 0x2000),
        ]
        .concat()
    };
    let mut large = through(4);
    // The header of a TCP segment to be cut: needs its checksum, TCP over IPv4.
    large.splice(1..1, step(3, 0, 0x0010, 0x0000_0022, 0x2000));
    vec![through(4), through(6), large]
}

/// Correct guests of each kind, as seeds.
pub fn seeds() -> Vec<Vec<u8>> {
    let (next, write, indirect) = (1 << 4, 2 << 4, 4 << 4);
    vec![
        [
            step(0, 0, 0, 100, 0x2000),
            step(1, 0, 0, 0, 0),
            step(4, 0, 0, 0, 0),
        ]
        .concat(),
        [
            step(0, next, 1, 12, 0x2000),
            step(1 << 3, 0, 0, 60, 0x3000),
            step(1, 0, 0, 0, 0),
            step(4, 0, 0, 0, 0),
        ]
        .concat(),
        [
            step(0, write, 0, 2000, 0x4000),
            step(1, 0, 0, 0, 0),
            step(6, 0, 60, 0, 0),
        ]
        .concat(),
        [
            step(3, 0, 0, 60, 0x5000),
            step(0, indirect, 0, 16, 0x5000),
            step(1, 0, 0, 0, 0),
            step(4, 0, 0, 0, 0),
        ]
        .concat(),
    ]
}
