//! The standard output of a probe: a stream of length-prefixed messages.
//!
//! A probe says [`Ready`], then, once its measured window is over, any number of [`Samples`], then
//! one [`Report`]. [`Progress`] marks the phases between; nothing is written *during* the measured
//! window, because writing wakes the reader and costs the probe time. A failure is an
//! [`Message::Error`], after which what was measured may still follow.
//!
//! ```text
//! message   'l' 'p' | kind u8 | version u8 | length u32 | payload of `length` bytes
//! samples   kind u8 | 7 zero bytes | records of 24 bytes
//! record    sequence u32 | flow u16 | flags u16 | start_ns u64 | end_ns u64
//! ```
//!
//! Everything is **little endian**: the stream stays between machines of one host, a run has
//! millions of records, and the reader turns them into columns as they are. The parts that are
//! small and grow with time (ready, progress, report) are JSON.
//!
//! The reader trusts nothing: [`Decoder`] answers any bytes with a message or an error, never
//! panics, and never holds more than one message of at most [`MAX_PAYLOAD_BYTES`].
//!
//! All times are `CLOCK_MONOTONIC` of the machine the probe runs on, the clock that BPF's
//! `bpf_ktime_get_ns` reads. A container shares the host's; the guest of a virtual machine has its
//! own, and who compares across the two maps one onto the other.

use serde::{Deserialize, Serialize};
use thiserror::Error;

mod report;

pub use report::{
    Arrival, ClockCounters, Conditions, Counters, ForwardCounters, Health, Phase, Probe, Progress,
    Protocol, Quantiles, Ready, Report, RrClientCounters, RrServerCounters, SinkCounters,
    SourceCounters, Stamp, StoppedBy, Via,
};

#[derive(Debug, Error)]
pub enum Error {
    #[error("probe output: expected a message, found the bytes {0:02x?}")]
    Magic([u8; 2]),
    #[error("probe output: version {0} of the format, this reader knows {VERSION}")]
    Version(u8),
    #[error("probe output: message kind {0} does not exist")]
    Kind(u8),
    #[error("probe output: a message of {0} bytes, the limit is {MAX_PAYLOAD_BYTES}")]
    Length(u32),
    #[error("probe output: {message} message")]
    Json {
        message: &'static str,
        #[source]
        source: serde_json::Error,
    },
    /// A block of samples whose size or kind is impossible.
    #[error("probe output: a block of samples of kind {kind} in {bytes} bytes is impossible")]
    Samples { kind: u8, bytes: usize },
    #[error("probe output ends after {have} bytes of an unfinished message")]
    Truncated {
        /// Bytes of the unfinished message that arrived.
        have: usize,
    },
    #[error("probe output: nothing can be read after an error")]
    AfterError,
}

/// Version of the format; reader and writer come from the same build.
pub const VERSION: u8 = 1;
pub const MESSAGE_HEADER_BYTES: usize = 8;
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;
pub const RECORD_BYTES: usize = 24;
/// Records in one message at most, so that a reader can hand on data while more arrives.
pub const RECORDS_PER_MESSAGE: usize = 16 * 1024;

const MAGIC: [u8; 2] = *b"lp";
const SAMPLES_HEADER_BYTES: usize = 8;

/// The origin of a block's records, which decides what start and end mean. In every kind `end_ns − start_ns`
/// is the quantity of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampleKind {
    /// One transaction: request sent, response received (0 when lost).
    Rr = 1,
    /// One packet at its sender: intended and actual send time; the difference is its lateness.
    Source = 2,
    /// One packet at its receiver: intended send time on the sender's clock, receive time on this one's.
    Sink = 3,
    /// Clock reads: `sequence` pairs of consecutive reads lay `end_ns` apart; `start_ns` is 0.
    ClockStep = 4,
    /// One packet at a card that stamps it: `end_ns` is the card's time on its own clock, `start_ns` the probe's,
    /// just before sending or just after receiving.
    Card = 5,
}

impl SampleKind {
    const ALL: [SampleKind; 5] = [
        SampleKind::Rr,
        SampleKind::Source,
        SampleKind::Sink,
        SampleKind::ClockStep,
        SampleKind::Card,
    ];

    fn from_code(code: u8) -> Option<SampleKind> {
        SampleKind::ALL.into_iter().find(|kind| *kind as u8 == code)
    }
}

pub mod flags {
    /// Belongs to the warm-up; not to be counted.
    pub const WARM_UP: u16 = 1 << 0;
    /// No answer came in time; `end_ns` is 0.
    pub const LOST: u16 = 1 << 1;
    /// The kernel did not take the packet: it never left.
    pub const NOT_SENT: u16 = 1 << 2;
    /// A packet of the same flow and sequence was received before.
    pub const DUPLICATE: u16 = 1 << 3;
    /// A later packet of the flow was received before (RFC 4737, type-P-reordered).
    pub const REORDERED: u16 = 1 << 4;
    /// `end_ns` was taken by the kernel on reception, not by the probe afterwards.
    pub const KERNEL_STAMP: u16 = 1 << 5;
    /// The kernel gave no stamp of its own where one was asked for; `end_ns` is the probe's.
    pub const STAMP_MISSING: u16 = 1 << 6;
}

/// One sample. What the times mean depends on the [`SampleKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Record {
    /// Number in its flow, or of the transaction.
    pub sequence: u32,
    /// Flow; 0 where there is only one.
    pub flow: u16,
    pub flags: u16,
    /// The earlier time, in ns of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// The later time, in ns of `CLOCK_MONOTONIC`.
    pub end_ns: u64,
}

impl Record {
    pub const fn has(&self, bits: u16) -> bool {
        self.flags & bits != 0
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.flow.to_le_bytes());
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.extend_from_slice(&self.start_ns.to_le_bytes());
        out.extend_from_slice(&self.end_ns.to_le_bytes());
    }

    fn get(bytes: &[u8; RECORD_BYTES]) -> Record {
        let [s0, s1, s2, s3, f0, f1, g0, g1, times @ ..] = *bytes;
        let times = u128::from_le_bytes(times);
        Record {
            sequence: u32::from_le_bytes([s0, s1, s2, s3]),
            flow: u16::from_le_bytes([f0, f1]),
            flags: u16::from_le_bytes([g0, g1]),
            start_ns: times as u64,
            end_ns: (times >> 64) as u64,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Samples {
    pub kind: SampleKind,
    pub records: Vec<Record>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Set up; peers may start.
    Ready(Ready),
    Progress(Progress),
    Samples(Samples),
    Report(Box<Report>),
    /// The error, as one line.
    Error(String),
}

const READY: u8 = 1;
const PROGRESS: u8 = 2;
const SAMPLES: u8 = 3;
const REPORT: u8 = 4;
const ERROR: u8 = 5;

impl Message {
    /// Appends the message to `out`.
    ///
    /// Samples beyond [`RECORDS_PER_MESSAGE`] become further messages, and an error text that is
    /// too long is cut, so that whatever is written can be read.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Message::Ready(ready) => put_json(READY, ready, out),
            Message::Progress(progress) => put_json(PROGRESS, progress, out),
            Message::Report(report) => put_json(REPORT, report, out),
            Message::Error(text) => {
                let mut end = text.len().min(MAX_PAYLOAD_BYTES);
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                put_header(ERROR, end, out);
                out.extend_from_slice(&text.as_bytes()[..end]);
            }
            Message::Samples(samples) => {
                for block in samples.records.chunks(RECORDS_PER_MESSAGE) {
                    encode_samples(samples.kind, block, out);
                }
            }
        }
    }

    fn decode(kind: u8, payload: &[u8]) -> Result<Message, Error> {
        match kind {
            READY => get_json("ready", payload).map(Message::Ready),
            PROGRESS => get_json("progress", payload).map(Message::Progress),
            REPORT => get_json("report", payload).map(Message::Report),
            SAMPLES => get_samples(payload).map(Message::Samples),
            ERROR => Ok(Message::Error(
                String::from_utf8_lossy(payload).into_owned(),
            )),
            other => Err(Error::Kind(other)),
        }
    }
}

/// Appends one block of records as one message, without an owner for them.
///
/// # Panics
/// With more than [`RECORDS_PER_MESSAGE`] records.
pub fn encode_samples(kind: SampleKind, records: &[Record], out: &mut Vec<u8>) {
    assert!(
        records.len() <= RECORDS_PER_MESSAGE,
        "a block of {} records",
        records.len()
    );
    put_header(
        SAMPLES,
        SAMPLES_HEADER_BYTES + records.len() * RECORD_BYTES,
        out,
    );
    out.extend_from_slice(&[kind as u8, 0, 0, 0, 0, 0, 0, 0]);
    for record in records {
        record.put(out);
    }
}

fn put_header(kind: u8, payload_bytes: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[kind, VERSION]);
    // Every caller keeps below MAX_PAYLOAD_BYTES, which fits.
    out.extend_from_slice(&(payload_bytes as u32).to_le_bytes());
}

fn put_json<T: Serialize>(kind: u8, value: &T, out: &mut Vec<u8>) {
    // The types above are plain structs with string keys: serialising them cannot fail.
    let json = serde_json::to_vec(value).expect("plain structs serialise");
    put_header(kind, json.len(), out);
    out.extend_from_slice(&json);
}

fn get_json<'a, T: Deserialize<'a>>(message: &'static str, payload: &'a [u8]) -> Result<T, Error> {
    serde_json::from_slice(payload).map_err(|source| Error::Json { message, source })
}

fn get_samples(payload: &[u8]) -> Result<Samples, Error> {
    let impossible = |kind| Error::Samples {
        kind,
        bytes: payload.len(),
    };
    let Some((header, body)) = payload.split_at_checked(SAMPLES_HEADER_BYTES) else {
        return Err(impossible(payload.first().copied().unwrap_or(0)));
    };
    let code = header[0];
    let kind = SampleKind::from_code(code).ok_or_else(|| impossible(code))?;
    let blocks = body.chunks_exact(RECORD_BYTES);
    if header[1..].iter().any(|&byte| byte != 0) || !blocks.remainder().is_empty() {
        return Err(impossible(code));
    }
    let records = blocks
        .map(|block| Record::get(block.try_into().expect("chunks_exact gives this size")))
        .collect();
    Ok(Samples { kind, records })
}

/// Reads messages from bytes that arrive in pieces of any size.
///
/// ```
/// use latlab_wire::samples::{Decoder, Message};
/// let mut bytes = Vec::new();
/// Message::Error("no route".into()).encode(&mut bytes);
/// let mut decoder = Decoder::new();
/// decoder.push(&bytes[..5]);
/// assert_eq!(decoder.next_message().unwrap(), None);
/// decoder.push(&bytes[5..]);
/// assert_eq!(decoder.next_message().unwrap(), Some(Message::Error("no route".into())));
/// decoder.finish().unwrap();
/// ```
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Bytes at the front of the buffer that were already read; removed in one go, because
    /// removing them message by message would move the rest each time.
    used: usize,
    failed: bool,
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Adds bytes as they arrive. After an error they are thrown away.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed {
            return;
        }
        self.buffer.drain(..self.used);
        self.used = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message; `None` when more bytes are needed. Call it until then, before the
    /// next [`push`](Self::push), and the buffer stays small.
    pub fn next_message(&mut self) -> Result<Option<Message>, Error> {
        if self.failed {
            return Err(Error::AfterError);
        }
        let result = self.try_next();
        if result.is_err() {
            self.failed = true;
            self.buffer = Vec::new();
            self.used = 0;
        }
        result
    }

    fn try_next(&mut self) -> Result<Option<Message>, Error> {
        let rest = &self.buffer[self.used..];
        let Some((header, rest)) = rest.split_at_checked(MESSAGE_HEADER_BYTES) else {
            return Ok(None);
        };
        if header[..2] != MAGIC {
            return Err(Error::Magic([header[0], header[1]]));
        }
        if header[3] != VERSION {
            return Err(Error::Version(header[3]));
        }
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        if length as usize > MAX_PAYLOAD_BYTES {
            return Err(Error::Length(length));
        }
        let Some(payload) = rest.get(..length as usize) else {
            return Ok(None);
        };
        let message = Message::decode(header[2], payload)?;
        self.used += MESSAGE_HEADER_BYTES + length as usize;
        Ok(Some(message))
    }

    /// To be called at the end of the stream: an error when it ended inside a message.
    pub fn finish(&self) -> Result<(), Error> {
        match self.buffer.len() - self.used {
            0 => Ok(()),
            have => Err(Error::Truncated { have }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sequence: u32) -> Record {
        Record {
            sequence,
            flow: 0x0102,
            flags: flags::LOST | flags::WARM_UP,
            start_ns: 0x1122_3344_5566_7788,
            end_ns: u64::MAX - u64::from(sequence),
        }
    }

    fn ready() -> Ready {
        Ready {
            probe: Probe::Sink,
            local: Some("[::1]:9".parse().unwrap()),
            conditions: Conditions {
                cpus: vec![0, 3],
                fifo_priority: Some(50),
                memory_not_locked: Some("not permitted".into()),
                clock_source: None,
                receive_buffer_bytes: Some(212_992),
            },
        }
    }

    fn report() -> Report {
        let cost = Quantiles::of(&mut (0..5000).collect::<Vec<u64>>());
        Report {
            started_ns: 1,
            ended_ns: u64::MAX,
            counters: Counters::Clock(ClockCounters {
                steps: 5000,
                mean_ns: 22.5,
                cost,
                smallest_step_ns: None,
                claimed_resolution_ns: 1,
                equal: 0,
                backward: 0,
            }),
            health: Health {
                lateness: Some(cost),
                ..Health::default()
            },
        }
    }

    fn messages() -> Vec<Message> {
        vec![
            Message::Ready(ready()),
            Message::Progress(Progress {
                phase: Phase::Running,
                expected_ns: Some(5),
            }),
            Message::Samples(Samples {
                kind: SampleKind::Rr,
                records: (0..100).map(record).collect(),
            }),
            Message::Report(Box::new(report())),
            Message::Error("connection to ‹10.0.0.1:5› reset".into()),
        ]
    }

    fn encoded(messages: &[Message]) -> Vec<u8> {
        let mut bytes = Vec::new();
        messages
            .iter()
            .for_each(|message| message.encode(&mut bytes));
        bytes
    }

    /// Everything a decoder makes of bytes fed in pieces of `step`.
    fn decoded(bytes: &[u8], step: usize) -> Result<Vec<Message>, Error> {
        let mut decoder = Decoder::new();
        let mut out = Vec::new();
        for piece in bytes.chunks(step) {
            decoder.push(piece);
            while let Some(message) = decoder.next_message()? {
                out.push(message);
            }
        }
        decoder.finish()?;
        Ok(out)
    }

    #[test]
    fn a_record_has_the_documented_bytes() {
        let mut bytes = Vec::new();
        encode_samples(SampleKind::Source, &[record(0x0a0b_0c0d)], &mut bytes);
        assert_eq!(bytes[..8], *b"lp\x03\x01\x20\x00\x00\x00");
        assert_eq!(bytes[8..16], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            bytes[16..24],
            [0x0d, 0x0c, 0x0b, 0x0a, 0x02, 0x01, 0x03, 0x00]
        );
        assert_eq!(
            bytes[24..32],
            [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]
        );
        assert_eq!(
            bytes[32..],
            [0xf2, 0xf3, 0xf4, 0xf5, 0xff, 0xff, 0xff, 0xff]
        );
    }

    #[test]
    fn messages_survive_any_division_of_the_stream() {
        let bytes = encoded(&messages());
        for step in [1, 2, 7, 8, 9, 100, bytes.len()] {
            assert_eq!(
                decoded(&bytes, step).unwrap(),
                messages(),
                "in pieces of {step}"
            );
        }
    }

    #[test]
    fn many_records_become_several_messages() {
        let count = RECORDS_PER_MESSAGE as u32 * 2 + 1;
        let records: Vec<Record> = (0..count).map(record).collect();
        let whole = Message::Samples(Samples {
            kind: SampleKind::Sink,
            records: records.clone(),
        });
        let parts = decoded(&encoded(&[whole]), 4096).unwrap();
        assert_eq!(parts.len(), 3);
        let joined: Vec<Record> = parts
            .into_iter()
            .flat_map(|part| match part {
                Message::Samples(Samples {
                    kind: SampleKind::Sink,
                    records,
                }) => records,
                other => panic!("expected samples, got {other:?}"),
            })
            .collect();
        assert_eq!(joined, records);
    }

    #[test]
    fn every_sample_kind_is_read_back() {
        for kind in SampleKind::ALL {
            let message = Message::Samples(Samples {
                kind,
                records: vec![record(1)],
            });
            assert_eq!(
                decoded(&encoded(std::slice::from_ref(&message)), 64).unwrap(),
                [message]
            );
        }
    }

    #[test]
    fn a_cut_stream_is_noticed_at_every_length() {
        let bytes = encoded(&messages()[2..3]);
        for length in 1..bytes.len() {
            assert!(
                matches!(decoded(&bytes[..length], 16), Err(Error::Truncated { have }) if have == length),
                "cut after {length} bytes",
            );
        }
    }

    #[test]
    fn impossible_messages_are_refused() {
        let refuse = |bytes: &[u8]| decoded(bytes, 64).unwrap_err();
        assert!(matches!(
            refuse(b"xp\x01\x01\0\0\0\0"),
            Error::Magic([b'x', b'p'])
        ));
        assert!(matches!(refuse(b"lp\x01\x02\0\0\0\0"), Error::Version(2)));
        assert!(matches!(refuse(b"lp\x09\x01\0\0\0\0"), Error::Kind(9)));
        assert!(matches!(
            refuse(b"lp\x05\x01\xff\xff\xff\xff"),
            Error::Length(u32::MAX)
        ));
        assert!(matches!(
            refuse(b"lp\x04\x01\x02\0\0\0{}"),
            Error::Json {
                message: "report",
                ..
            }
        ));
        assert!(matches!(
            refuse(b"lp\x03\x01\0\0\0\0"),
            Error::Samples { kind: 0, bytes: 0 }
        ));
        let mut odd = encoded(&messages()[2..3]);
        odd[4] -= 1;
        assert!(matches!(refuse(&odd), Error::Samples { kind: 1, .. }));
    }

    #[test]
    fn nothing_is_read_after_an_error() {
        let mut decoder = Decoder::new();
        decoder.push(b"nonsense");
        assert!(matches!(decoder.next_message(), Err(Error::Magic(_))));
        decoder.push(&encoded(&messages()));
        assert!(matches!(decoder.next_message(), Err(Error::AfterError)));
    }

    /// A small version of the fuzz target: every single-byte change of a valid stream.
    #[test]
    fn damaged_streams_never_panic() {
        let bytes = encoded(&messages());
        for at in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                let _ = decoded(&damaged, 257);
            }
        }
    }

    #[test]
    fn an_endless_error_text_is_cut_between_characters() {
        let text = "é".repeat(MAX_PAYLOAD_BYTES);
        match decoded(&encoded(&[Message::Error(text)]), 1 << 16)
            .unwrap()
            .as_slice()
        {
            [Message::Error(text)] => assert_eq!(text.len(), MAX_PAYLOAD_BYTES),
            other => panic!("expected one error, got {} messages", other.len()),
        }
    }
}
