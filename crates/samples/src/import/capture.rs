//! Packets of a capture, in pcapng or pcap (draft-ietf-opsawg-pcapng, draft-ietf-opsawg-pcap).

use std::fs::File;
use std::path::Path;

use pcap_parser::{
    Block, InterfaceDescriptionBlock, LegacyPcapBlock, Linktype, PcapBlockOwned, PcapError,
    create_reader,
};

use pcap_parser::traits::PcapReaderIterator;

use super::error::ImportError;
use super::source::Source;

/// The reader's memory at first, and at most: a block is never longer than 16 MiB in the tools that write them.
const BUFFER_BYTES: usize = 1 << 18;
const MAX_BLOCK_BYTES: usize = 1 << 24;
const NANOSECONDS: u128 = 1_000_000_000;

/// A packet as it was captured.
pub struct Packet<'a> {
    /// Time since the epoch of the file's clock, ns.
    pub time_ns: i64,
    pub link: Linktype,
    /// The bytes that were kept.
    pub data: &'a [u8],
    /// The length on the wire.
    pub bytes: u32,
}

impl Packet<'_> {
    pub fn is_cut(&self) -> bool {
        self.data.len() < self.bytes as usize
    }
}

/// The clock and the name of an interface in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    link: Linktype,
    /// Units of its timestamps in a second.
    per_second: u128,
    offset_s: i64,
}

impl Interface {
    /// The step of its timestamps, ns; 1 for finer ones.
    pub fn step_ns(&self) -> u64 {
        u64::try_from(NANOSECONDS.div_ceil(self.per_second))
            .unwrap_or(1)
            .max(1)
    }

    fn of_block(block: &InterfaceDescriptionBlock<'_>, number: usize) -> Option<Interface> {
        let name = block.if_name().and_then(Result::ok);
        Some(Interface {
            name: name.map_or_else(|| format!("interface {number}"), str::to_owned),
            link: block.linktype,
            per_second: per_second(block.if_tsresol)?,
            offset_s: block.if_tsoffset,
        })
    }

    fn time_ns(&self, units: u64) -> Option<i64> {
        let ns = u128::from(units) * NANOSECONDS / self.per_second;
        let offset = i128::from(self.offset_s) * NANOSECONDS as i128;
        i64::try_from(ns as i128 + offset).ok()
    }
}

/// `if_tsresol`: a negative power of 10, or of 2 where the highest bit is set.
fn per_second(resolution: u8) -> Option<u128> {
    let power = u32::from(resolution & 0x7f);
    match resolution & 0x80 {
        0 => 10_u128.checked_pow(power),
        _ => 2_u128.checked_pow(power),
    }
}

/// The type of the block with which each section of pcapng begins (draft-ietf-opsawg-pcapng, 4.1).
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// A block's type and its length, twice (4.).
const MIN_BLOCK_BYTES: u32 = 12;

/// Calls `each` with every packet of a source, in the file's order. Returns the interface that they were on.
pub fn read(
    source: &Source,
    each: &mut dyn FnMut(&Packet<'_>) -> Result<(), ImportError>,
) -> Result<Interface, ImportError> {
    let path = source.path.as_path();
    let file = File::open(path).map_err(|cause| ImportError::Open {
        path: path.to_owned(),
        cause,
    })?;
    let reader = create_reader(BUFFER_BYTES, file);
    let mut reader = reader.map_err(|error| match error {
        PcapError::ReadError => damaged(path, "it cannot be read"),
        _ => ImportError::NotACapture {
            path: path.to_owned(),
        },
    })?;
    let mut file = CaptureFile {
        source,
        has_blocks: reader.data().starts_with(&SECTION_HEADER),
        interfaces: Vec::new(),
        chosen: None,
        each,
    };
    while file.next_block(reader.as_mut())? {}
    file.chosen()
}

struct CaptureFile<'s, 'e> {
    source: &'s Source,
    /// Whether it is pcapng.
    has_blocks: bool,
    /// Interfaces of the section that is read (pcapng), or the file's only one.
    interfaces: Vec<Interface>,
    chosen: Option<Interface>,
    each: &'e mut dyn FnMut(&Packet<'_>) -> Result<(), ImportError>,
}

impl CaptureFile<'_, '_> {
    /// Reads a block; false at the end.
    fn next_block(&mut self, reader: &mut dyn PcapReaderIterator) -> Result<bool, ImportError> {
        if self.has_blocks && is_too_short(reader.data()) {
            return Err(no_block(&self.source.path, reader));
        }
        let read = match reader.next() {
            Ok((length, block)) => {
                self.block(block)?;
                Ok(length)
            }
            Err(error) => Err(error.to_owned_vec()),
        };
        let path = &self.source.path;
        match read {
            Ok(length) => reader.consume(length),
            Err(PcapError::Eof) => return Ok(false),
            Err(PcapError::Incomplete(_)) if !reader.reader_exhausted() => {
                let held = reader.data().len();
                let refilled = reader.refill().is_ok();
                if !refilled || (reader.data().len() == held && !reader.reader_exhausted()) {
                    return Err(damaged(path, "it cannot be read"));
                }
            }
            Err(PcapError::BufferTooSmall) if reader.grow(MAX_BLOCK_BYTES) => {}
            Err(PcapError::Incomplete(_) | PcapError::UnexpectedEof) => {
                return Err(damaged(path, "its last block was cut off"));
            }
            Err(_) => return Err(no_block(path, reader)),
        }
        Ok(true)
    }

    fn block(&mut self, block: PcapBlockOwned<'_>) -> Result<(), ImportError> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let per_second = match header.is_nanosecond_precision() {
                    true => NANOSECONDS,
                    false => 1_000_000,
                };
                self.interfaces.push(Interface {
                    name: "the file's".to_owned(),
                    // The upper bits tell of a check sequence.
                    link: Linktype(header.network.0 & 0xffff),
                    per_second,
                    offset_s: 0,
                });
                Ok(())
            }
            PcapBlockOwned::Legacy(packet) => self.legacy(&packet),
            // Interfaces are numbered anew in each section.
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.interfaces.clear();
                Ok(())
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                let number = self.interfaces.len();
                let interface = Interface::of_block(&interface, number);
                let unknown = "an interface has a resolution of time that cannot be";
                self.interfaces
                    .push(interface.ok_or_else(|| damaged(&self.source.path, unknown))?);
                Ok(())
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let kept = packet.data.get(..packet.caplen as usize);
                let kept = kept.unwrap_or(packet.data);
                self.packet(packet.if_id as usize, units, kept, packet.origlen)
            }
            PcapBlockOwned::NG(Block::SimplePacket(_)) => Err(ImportError::NoTimes {
                path: self.source.path.clone(),
            }),
            PcapBlockOwned::NG(_) => Ok(()),
        }
    }

    fn legacy(&mut self, packet: &LegacyPcapBlock<'_>) -> Result<(), ImportError> {
        let per_second = self.interfaces.first().map_or(1, |one| one.per_second);
        let seconds = u64::from(packet.ts_sec) * per_second as u64;
        let units = seconds + u64::from(packet.ts_usec);
        self.packet(0, units, packet.data, packet.origlen)
    }

    fn packet(
        &mut self,
        number: usize,
        units: u64,
        data: &[u8],
        bytes: u32,
    ) -> Result<(), ImportError> {
        let path = &self.source.path;
        let Some(interface) = self.interfaces.get(number) else {
            return Err(damaged(
                path,
                "a packet is of an interface that is not there",
            ));
        };
        if !self.source.is(number, &interface.name) {
            return Ok(());
        }
        match &self.chosen {
            None => self.chosen = Some(interface.clone()),
            Some(chosen) if chosen == interface => {}
            Some(chosen) => {
                return Err(ImportError::SeveralInterfaces {
                    path: path.clone(),
                    names: [chosen.name.clone(), interface.name.clone()],
                });
            }
        }
        let time = interface.time_ns(units);
        let packet = Packet {
            time_ns: time.ok_or_else(|| damaged(path, "a timestamp is out of range"))?,
            link: interface.link,
            data,
            bytes,
        };
        (self.each)(&packet)
    }

    fn chosen(self) -> Result<Interface, ImportError> {
        self.chosen.ok_or_else(|| match &self.source.interface {
            Some(named) => ImportError::NoInterface {
                path: self.source.path.clone(),
                named: named.clone(),
                names: self.interfaces.into_iter().map(|one| one.name).collect(),
            },
            None => ImportError::Empty {
                path: self.source.path.clone(),
            },
        })
    }
}

/// Whether a block's length is below that of the smallest one. pcap-parser 0.17 subtracts that from the length of
/// some types unchecked. A length that is as small in the other order of bytes is above the limit of a block.
fn is_too_short(block: &[u8]) -> bool {
    let length = block.get(4..8).and_then(|bytes| bytes.try_into().ok());
    let is_short =
        |bytes: [u8; 4]| u32::from_le_bytes(bytes).min(u32::from_be_bytes(bytes)) < MIN_BLOCK_BYTES;
    length.is_some_and(is_short)
}

fn no_block(path: &Path, reader: &dyn PcapReaderIterator) -> ImportError {
    damaged(path, &format!("byte {} begins no block", reader.position()))
}

fn damaged(path: &Path, what: &str) -> ImportError {
    ImportError::Damaged {
        path: path.to_owned(),
        what: what.to_owned(),
    }
}
