//! The command channel between the host and the agent inside a guest: frames on a byte stream.
//!
//! The stream is a virtio-serial port (or, in tests, a socket pair): ordered and reliable while both
//! ends live. Either end may vanish in the middle of a frame and be replaced by a successor that
//! knows nothing of what was half said. So every frame carries a magic number and a CRC-32C over header
//! and payload, and a reader that finds anything else skips byte by byte to the next frame that checks.
//! A client begins with [`PREAMBLE_BYTES`] zero bytes, which complete (and thereby spoil) any frame its
//! predecessor left unfinished, then a [`Message::Hello`] with a nonce; it ignores everything until the
//! [`Message::HelloAck`] with that nonce. A `Hello` ends all sessions of that port.
//!
//! One stream carries many sessions (processes in the guest). Data flows against credit: the receiver of a stream
//! (stdin in the agent, stdout and stderr in the host) holds at most [`WINDOW_BYTES`] of it, and the sender may have
//! no more outstanding than that until a [`Message::Credit`] returns some. A session whose reader sleeps thus fills
//! only its own window, and the memory each end needs is bounded by the number of sessions.
//!
//! Header, little endian, 16 bytes: magic `LLC1` | kind u8 | 0 u8 | payload length u16 | session u32 |
//! CRC-32C u32 (over the 12 bytes before it, then the payload).
//!
//! [`decode`] accepts any bytes and never panics; a message is accepted only when its payload is used up
//! exactly, so that encoding what was decoded gives the same bytes.

use crc::frame_crc;
use payload::{Reader, put_payload, take_payload};

mod crc;
mod message;
mod payload;

pub use message::{
    Exec, ExitStatus, Identity, Interface, Message, NetworkConfig, Renewal, Route, Stream,
};

/// The version of this protocol. The agent travels with the host's binary in the initramfs, so both ends
/// are normally one build; a running guest may be older than the `latlab` that talks to it.
pub const VERSION: u16 = 1;
/// The largest payload of one frame. Small enough that a frame of one session delays another's by
/// microseconds, large enough that framing costs nothing beside the copy.
pub const MAX_PAYLOAD: usize = 32 * 1024;
pub const HEADER_BYTES: usize = 16;
/// Zero bytes a client sends first; see the module's prose.
pub const PREAMBLE_BYTES: usize = MAX_PAYLOAD + HEADER_BYTES;
/// How much of one stream may be under way and unread.
pub const WINDOW_BYTES: u32 = 128 * 1024;
/// A [`Message::Credit`] of this lifts the limit of a stream for good: its receiver throws everything
/// away, so nothing can pile up. (The receiver's reader must never have to write, or two ends with full
/// pipes could wait for each other; so it cannot return credit bit by bit.)
pub const UNLIMITED_CREDIT: u32 = u32::MAX;
/// The name of virtio-serial port `index` as the guest sees it in `/sys/class/virtio-ports/*/name`.
#[must_use]
pub fn port_name(index: usize) -> String {
    format!("latlab.{index}")
}

/// Where a guest that is tuned from outside finds what for; no other guest has this directory.
pub const TUNED_DIRECTORY: &str = "/run/latlab/inside";

/// The page of memory a guest shares with its host to compare clocks: 64-bit words, native order (both
/// run on one machine), each on a cache line of its own. The host writes a new number to `QUESTION` and
/// spins; the guest writes its clock to `GUEST_NS`, then the number to `ANSWER`.
pub mod clock_page {
    /// Size of the shared memory in bytes; the least QEMU's ivshmem device takes.
    pub const PAGE_BYTES: usize = 4096;
    /// Word the host writes: the number of its question, growing by one.
    pub const QUESTION: usize = 0;
    /// Word the guest writes last: the number of the question it answered.
    pub const ANSWER: usize = 8;
    /// Word the guest writes first: its monotonic clock in nanoseconds.
    pub const GUEST_NS: usize = 16;
    /// Word the guest sets to [`READY_VALUE`] once it spins.
    pub const READY: usize = 24;
    /// See [`READY`].
    pub const READY_VALUE: u64 = 0x4c4c_4331;
    /// The question that ends the exchange.
    pub const STOP: u64 = u64::MAX;
}

const MAGIC: [u8; 4] = *b"LLC1";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// A whole message, and how many bytes it took.
    Message(Message, usize),
    Incomplete,
    /// This many bytes (at least one) are no frame: drop them and decode again.
    Garbage(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a message of {payload_bytes} bytes does not fit a frame of {MAX_PAYLOAD}; shorten the arguments or \
     the environment"
)]
pub struct TooLong {
    pub payload_bytes: usize,
}

/// Appends the frame of `message` to `out`. On error `out` is as it was. Errors: [`TooLong`] when the payload exceeds
/// [`MAX_PAYLOAD`], or text in it exceeds 65,535 bytes.
pub fn encode(message: &Message, out: &mut Vec<u8>) -> Result<(), TooLong> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let (kind, session) = put_payload(message, out);
    let payload_bytes = out.len() - start - HEADER_BYTES;
    if payload_bytes > MAX_PAYLOAD {
        out.truncate(start);
        return Err(TooLong { payload_bytes });
    }
    let header = &mut out[start..start + HEADER_BYTES];
    header[..4].copy_from_slice(&MAGIC);
    header[4] = kind;
    header[6..8].copy_from_slice(&(payload_bytes as u16).to_le_bytes());
    header[8..12].copy_from_slice(&session.to_le_bytes());
    let crc = frame_crc(&out[start..start + 12], &out[start + HEADER_BYTES..]);
    out[start + 12..start + HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// Looks at the start of `bytes`. Never panics, whatever they are.
#[must_use]
pub fn decode(bytes: &[u8]) -> Decoded {
    let matching = bytes
        .iter()
        .zip(MAGIC)
        .take_while(|(b, m)| **b == *m)
        .count();
    if matching < MAGIC.len() {
        if matching == bytes.len() {
            return Decoded::Incomplete;
        }
        let skip = bytes.iter().skip(1).position(|b| *b == MAGIC[0]);
        return Decoded::Garbage(skip.map_or(bytes.len(), |at| at + 1));
    }
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Decoded::Incomplete;
    };
    let length = usize::from(u16::from_le_bytes([header[6], header[7]]));
    if length > MAX_PAYLOAD || header[5] != 0 {
        return Decoded::Garbage(1);
    }
    let Some(payload) = bytes.get(HEADER_BYTES..HEADER_BYTES + length) else {
        return Decoded::Incomplete;
    };
    let crc = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
    if frame_crc(&header[..12], payload) != crc {
        return Decoded::Garbage(1);
    }
    let session = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    let mut reader = Reader(payload);
    match take_payload(header[4], session, &mut reader) {
        Some(message) if reader.0.is_empty() => Decoded::Message(message, HEADER_BYTES + length),
        // The frame checks but says nothing we know: a newer peer. Dropped whole.
        _ => Decoded::Garbage(HEADER_BYTES + length),
    }
}

#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
    garbage_bytes: u64,
}

impl Decoder {
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && (self.start == self.buffer.len() || self.start >= MAX_PAYLOAD) {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    #[must_use]
    pub fn garbage_bytes(&self) -> u64 {
        self.garbage_bytes
    }
}

/// The messages that are complete. Garbage between them is skipped and counted.
impl Iterator for Decoder {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        loop {
            let rest = self.buffer.get(self.start..).unwrap_or_default();
            match decode(rest) {
                Decoded::Message(message, used) => {
                    self.start += used;
                    return Some(message);
                }
                Decoded::Incomplete => return None,
                Decoded::Garbage(count) => {
                    self.start += count;
                    self.garbage_bytes += count as u64;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Message> {
        let exec = Exec {
            argv: vec!["sh".into(), "-c".into(), "echo ü".into()],
            env: vec![("A".into(), "b=c".into()), ("EMPTY".into(), String::new())],
            cwd: Some("/tmp".into()),
            uid: Some(65534),
            detach: true,
        };
        let config = NetworkConfig {
            interfaces: vec![Interface {
                mac: [2, 0, 0, 0, 0, 1],
                own_mac: Some([2, 0, 0, 0, 0, 9]),
                name: "eth0".into(),
                mtu: Some(9000),
                addresses: vec![
                    ("10.0.0.1".parse().unwrap(), 24),
                    ("fd00::1".parse().unwrap(), 64),
                ],
            }],
            routes: vec![
                Route {
                    destination: ("0.0.0.0".parse().unwrap(), 0),
                    gateway: Some("10.0.0.254".parse().unwrap()),
                    interface: None,
                },
                Route {
                    destination: ("fd01::".parse().unwrap(), 48),
                    gateway: None,
                    interface: Some("eth0".into()),
                },
            ],
            hosts: Some("127.0.0.1 localhost\n".into()),
        };
        let mut all = vec![
            Message::Hello {
                version: VERSION,
                nonce: u64::MAX,
            },
            Message::HelloAck {
                version: VERSION,
                nonce: 7,
                guest_monotonic_ns: 1,
                failure: Some("mount: no".into()),
            },
            Message::Exec { session: 1, exec },
            Message::Exec {
                session: 2,
                exec: Exec::default(),
            },
            Message::Signal {
                session: 9,
                signal: 15,
            },
            Message::Exit {
                session: 9,
                status: ExitStatus::Code(255),
            },
            Message::Exit {
                session: 9,
                status: ExitStatus::Signal(9),
            },
            Message::Network { session: 3, config },
            Message::Identify {
                session: 5,
                identity: Identity {
                    parameters: "latlab.name=third latlab.fs=9p".into(),
                    macs: vec![([2, 0, 0, 0, 0, 1], [2, 9, 8, 7, 6, 5])],
                    renewal: Renewal {
                        entropy: vec![0, 255, 7],
                        realtime_ns: u64::MAX,
                    },
                },
            },
            Message::Renew {
                session: 6,
                renewal: Renewal {
                    entropy: vec![9],
                    realtime_ns: 1,
                },
            },
            Message::Done { session: 3 },
            Message::Failed {
                session: 3,
                errno: 2,
                message: "open /x: absent".into(),
            },
            Message::PowerOff,
        ];
        for stream in [Stream::Stdin, Stream::Stdout, Stream::Stderr] {
            all.push(Message::Data {
                session: 4,
                stream,
                data: vec![0, 1, 2, 255],
            });
            all.push(Message::End { session: 4, stream });
            all.push(Message::Credit {
                session: 4,
                stream,
                bytes: WINDOW_BYTES,
            });
        }
        all
    }

    fn encoded(message: &Message) -> Vec<u8> {
        let mut out = Vec::new();
        encode(message, &mut out).unwrap();
        out
    }

    #[test]
    fn a_signal_has_these_bytes() {
        let bytes = encoded(&Message::Signal {
            session: 0x0102_0304,
            signal: 9,
        });
        assert_eq!(&bytes[..12], b"LLC1\x0d\0\x01\0\x04\x03\x02\x01");
        assert_eq!(&bytes[16..], [9]);
    }

    #[test]
    fn every_message_survives_the_wire() {
        for message in samples() {
            let bytes = encoded(&message);
            assert_eq!(
                decode(&bytes),
                Decoded::Message(message.clone(), bytes.len())
            );
            for cut in 0..bytes.len() {
                assert_eq!(
                    decode(&bytes[..cut]),
                    Decoded::Incomplete,
                    "{message:?} cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn one_flipped_bit_is_never_accepted() {
        for message in samples() {
            let bytes = encoded(&message);
            for bit in 0..bytes.len() * 8 {
                let mut spoiled = bytes.clone();
                spoiled[bit / 8] ^= 1 << (bit % 8);
                assert!(
                    !matches!(decode(&spoiled), Decoded::Message(..)),
                    "{message:?} with bit {bit} flipped"
                );
            }
        }
    }

    #[test]
    fn the_preamble_clears_a_frame_left_unfinished() {
        let long = Message::Data {
            session: 1,
            stream: Stream::Stdin,
            data: vec![7; MAX_PAYLOAD],
        };
        let hello = Message::Hello {
            version: VERSION,
            nonce: 99,
        };
        let whole = encoded(&long);
        for cut in [1, 3, 4, 15, 16, 17, 5000, whole.len() - 1] {
            let mut decoder = Decoder::default();
            decoder.push(&whole[..cut]);
            assert_eq!(decoder.next(), None);
            decoder.push(&[0; PREAMBLE_BYTES]);
            decoder.push(&encoded(&hello));
            assert_eq!(decoder.next(), Some(hello.clone()), "cut at {cut}");
            assert_eq!(decoder.next(), None);
            assert_eq!(decoder.garbage_bytes() as usize, cut + PREAMBLE_BYTES);
        }
    }

    #[test]
    fn the_decoder_finds_messages_fed_byte_by_byte_between_garbage() {
        let mut stream = b"LLLC1 noise LL".to_vec();
        for message in samples() {
            encode(&message, &mut stream).unwrap();
            stream.extend_from_slice(b"L");
        }
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        for byte in stream {
            decoder.push(&[byte]);
            found.extend(decoder.by_ref());
        }
        assert_eq!(found, samples());
    }

    #[test]
    fn messages_that_do_not_fit_are_refused_and_leave_the_buffer() {
        let mut out = b"before".to_vec();
        for argument in [MAX_PAYLOAD, 70_000] {
            let exec = Exec {
                argv: vec!["x".repeat(argument)],
                ..Exec::default()
            };
            let error = encode(&Message::Exec { session: 1, exec }, &mut out).unwrap_err();
            assert!(error.payload_bytes > MAX_PAYLOAD);
            assert_eq!(out, b"before");
        }
        let data = vec![0; MAX_PAYLOAD + 1];
        assert!(
            encode(
                &Message::Data {
                    session: 1,
                    stream: Stream::Stdin,
                    data
                },
                &mut out
            )
            .is_err()
        );
    }

    #[test]
    fn a_checked_frame_of_unknown_meaning_is_dropped_whole() {
        let mut bytes = encoded(&Message::PowerOff);
        bytes[4] = 200;
        let crc = frame_crc(&bytes[..12], &[]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(decode(&bytes), Decoded::Garbage(HEADER_BYTES));
    }

    /// A small generator, so that this crate needs no dependency for its tests.
    fn noise(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    #[test]
    fn random_payloads_under_a_right_crc_never_panic_and_round_trip() {
        let mut seed = 0x9E37_79B9_7F4A_7C15;
        let mut accepted = 0;
        for _ in 0..20_000 {
            let length = (noise(&mut seed) % 40) as usize;
            let mut bytes = MAGIC.to_vec();
            bytes.extend_from_slice(&[(noise(&mut seed) % 24) as u8, 0, length as u8, 0]);
            bytes.extend_from_slice(&((noise(&mut seed) % 2) as u32).to_le_bytes());
            let payload: Vec<u8> = (0..length).map(|_| (noise(&mut seed) % 7) as u8).collect();
            let crc = frame_crc(&bytes, &payload);
            bytes.extend_from_slice(&crc.to_le_bytes());
            bytes.extend_from_slice(&payload);
            match decode(&bytes) {
                Decoded::Message(message, used) => {
                    accepted += 1;
                    assert_eq!(used, bytes.len());
                    assert_eq!(encoded(&message), bytes);
                }
                Decoded::Garbage(count) => assert_eq!(count, bytes.len()),
                Decoded::Incomplete => panic!("a whole frame was called incomplete"),
            }
        }
        assert!(
            accepted > 1000,
            "the generator reaches the parsers: {accepted}"
        );
    }
}
