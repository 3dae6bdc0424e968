//! Random messages: fields of the right kind with values that mean something, and bytes that mean nothing.
//!
//! The seed is the order's, so that what was found is found again.

use super::messages::{FIELDS, Message, WSTAT};
use super::ways::NAMES;
use super::{Client, LINUX};

/// For each dialect of each share.
const BATCHES: usize = 250;
const AT_ONCE: u64 = 12;
/// Batches between two beginnings.
const ROUND: usize = 10;

const GOOD: [&[u8]; 8] = [
    b"public",
    b"inner",
    b"out",
    b"absolute",
    b"pipe",
    b"null",
    b"user.x",
    b"new",
];

/// xorshift64*.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn name(&mut self) -> &'static [u8] {
        if self.below(3) > 0 {
            self.of(&GOOD)
        } else {
            self.of(&NAMES)
        }
    }

    fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(16),
            1 => self.of(&[0, u64::MAX, 1 << 31, 1 << 62, 0o4777, 0o1102]),
            2 => 1 << self.below(64),
            _ => self.next(),
        }
    }

    fn field(&mut self, message: Message, kind: char) -> Message {
        let number = self.number();
        match kind {
            'f' => {
                let far = self.below(12) == 0;
                let near = self.below(8) as u32;
                message.w(if far { number as u32 } else { near })
            }
            'b' => message.b(number as u8),
            'h' => message.h(number as u16),
            'w' => message.w(number as u32),
            'q' => message.q(number),
            'n' => message.n(self.name()),
            '*' => {
                let names: Vec<&[u8]> = (0..self.below(4)).map(|_| self.name()).collect();
                message.names(&names)
            }
            'd' => {
                let data = vec![b'x'; self.below(600) as usize];
                message.w(data.len() as u32).bytes(&data)
            }
            _ => {
                let name = self.name();
                message.stat(self.next() as u32, number, name)
            }
        }
    }

    fn message(&mut self) -> Vec<u8> {
        let (kind, fields) = self.of(&FIELDS);
        let mut message = Message::new(kind).tagged(self.below(4) as u16);
        for field in fields.chars() {
            message = self.field(message, field);
        }
        match self.below(10) {
            // Cut off, changed in places, or without any sense.
            0 => {
                let length = self.below(message.body.len() as u64 + 1);
                message.body.truncate(length as usize);
            }
            1 | 2 => {
                for _ in 0..3 {
                    let length = message.body.len() as u64;
                    let at = self.below(length) as usize;
                    message.body[at] = self.next() as u8;
                }
            }
            3 => {
                let length = self.below(200);
                message.body = (0..length).map(|_| self.next() as u8).collect();
            }
            _ => {}
        }
        if message.kind == WSTAT {
            // A rename with a slash is a test of its own.
            let slashes = message.body.iter_mut().filter(|byte| **byte == b'/');
            slashes.for_each(|byte| *byte = b'_');
        }
        message.encoded()
    }
}

pub fn send(client: &mut Client) {
    let dialect = u64::from(client.dialect == LINUX);
    let mut random = Random::new(client.order.seed * 2 + dialect);
    for batch in 0..BATCHES {
        if batch % ROUND == 0 {
            client.begin();
        }
        let count = 1 + random.below(AT_ONCE);
        let messages: Vec<Vec<u8>> = (0..count).map(|_| random.message()).collect();
        let case = format!("garbage {} {batch}", client.dialect);
        client.ask_at_once(&case, &messages, 8192);
    }
}
