//! Takes a kernel out of its wrapper. A distribution's `vmlinuz` (a bzImage) is a small program with the
//! compressed kernel inside; in a guest under software emulation that program takes longer than the whole
//! rest of the boot (measured: 2.9 of 4.8 s). Decompressed here, once, the kernel itself (an ELF file
//! with a PVH entry point) is what QEMU loads.
//!
//! Offsets are those of the Linux boot protocol (`Documentation/arch/x86/boot.rst`).

use std::io::{self, Read};

use sha2::{Digest, Sha256};

use crate::hex;

/// The ELF note by which a kernel says that it can be entered directly (`XEN_ELFNOTE_PHYS32_ENTRY`).
const PVH_NOTE: (&[u8], u32) = (b"Xen\0", 18);
/// No kernel is larger than this decompressed.
const KERNEL_LIMIT_BYTES: u64 = 512 * 1024 * 1024;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("it is not a Linux bzImage for x86 (no boot header 2.08 or later)")]
    NotBzImage,
    #[error("its kernel is compressed in a way this latlab does not know (first bytes {0:02x?})")]
    Compression(Vec<u8>),
    #[error("its compressed kernel is damaged: {0}")]
    Damaged(String),
    #[error("its kernel has no PVH entry point (CONFIG_PVH)")]
    NoPvh,
}

struct Header<'a> {
    bytes: &'a [u8],
}

impl<'a> Header<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let header = Self { bytes };
        let magic = bytes.get(0x202..0x206) == Some(b"HdrS");
        if magic && header.u16(0x206) >= Some(0x208) {
            Ok(header)
        } else {
            Err(Error::NotBzImage)
        }
    }

    fn u16(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(
            self.bytes.get(at..at + 2)?.try_into().ok()?,
        ))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(
            self.bytes.get(at..at + 4)?.try_into().ok()?,
        ))
    }

    /// The compressed kernel, with the four bytes of its length that the build appends.
    fn payload(&self) -> Option<&'a [u8]> {
        let setup_sectors = match self.bytes.get(0x1f1)? {
            0 => 4,
            count => usize::from(*count),
        };
        let start = (setup_sectors + 1) * 512 + self.u32(0x248)? as usize;
        self.bytes.get(start..)?.get(..self.u32(0x24c)? as usize)
    }
}

/// The kernel's release, as `uname -r` will show it and its modules' directory is named.
pub fn release(vmlinuz: &[u8]) -> Result<String, Error> {
    let header = Header::parse(vmlinuz)?;
    let text = header
        .u16(0x20e)
        .filter(|offset| *offset > 0)
        .and_then(|offset| vmlinuz.get(usize::from(offset) + 0x200..))
        .ok_or(Error::NotBzImage)?;
    let end = text
        .iter()
        .position(|b| *b == 0 || *b == b' ')
        .ok_or(Error::NotBzImage)?;
    let release = String::from_utf8_lossy(&text[..end]).into_owned();
    // The release becomes part of paths.
    if release.is_empty() || release.contains('/') {
        Err(Error::NotBzImage)
    } else {
        Ok(release)
    }
}

pub fn extract(vmlinuz: &[u8]) -> Result<Vec<u8>, Error> {
    let payload = Header::parse(vmlinuz)?.payload().ok_or(Error::NotBzImage)?;
    let kernel = decompress(payload)?;
    if has_pvh_note(&kernel) {
        Ok(kernel)
    } else {
        Err(Error::NoPvh)
    }
}

pub fn digest(bytes: &[u8]) -> String {
    hex::digits(&Sha256::digest(bytes))
}

fn decompress(payload: &[u8]) -> Result<Vec<u8>, Error> {
    let damaged = |error: io::Error| Error::Damaged(error.to_string());
    let body = payload.len().saturating_sub(4);
    let mut kernel = Vec::new();
    match payload {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            xz(&payload[..body], &mut kernel).map_err(damaged)?;
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => zstd(&payload[..body], &mut kernel).map_err(damaged)?,
        [0x1f, 0x8b, ..] => {
            let mut decoder = flate2::read::GzDecoder::new(payload).take(KERNEL_LIMIT_BYTES);
            decoder.read_to_end(&mut kernel).map_err(damaged)?;
        }
        [0x02, 0x21, 0x4c, 0x18, ..] => kernel = lz4_legacy(&payload[4..body])?,
        [0x7f, b'E', b'L', b'F', ..] => kernel = payload.to_vec(),
        _ => {
            return Err(Error::Compression(
                payload.iter().take(6).copied().collect(),
            ));
        }
    }
    Ok(kernel)
}

pub fn xz(bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let reader = lzma_rust2::XzReader::new(bytes, false);
    reader.take(KERNEL_LIMIT_BYTES).read_to_end(out).map(|_| ())
}

pub fn zstd(bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let reader = ruzstd::decoding::StreamingDecoder::new(bytes).map_err(io::Error::other)?;
    reader.take(KERNEL_LIMIT_BYTES).read_to_end(out).map(|_| ())
}

/// LZ4's legacy frame: blocks of at most 8 MiB, each with its compressed length before it.
fn lz4_legacy(mut bytes: &[u8]) -> Result<Vec<u8>, Error> {
    const BLOCK_BYTES: usize = 8 << 20;
    let damaged = |reason: &str| Error::Damaged(format!("lz4: {reason}"));
    let mut kernel = Vec::new();
    let mut block = vec![0; BLOCK_BYTES];
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let compressed = rest
            .get(..length)
            .ok_or_else(|| damaged("a block is cut off"))?;
        let count = lz4_flex::block::decompress_into(compressed, &mut block)
            .map_err(|error| damaged(&error.to_string()))?;
        kernel.extend_from_slice(&block[..count]);
        bytes = &rest[length..];
    }
    Ok(kernel)
}

/// Whether a 64-bit ELF file has the note that QEMU enters a kernel by.
fn has_pvh_note(elf: &[u8]) -> bool {
    const PT_NOTE: u64 = 4;
    let number = |at: usize, size: usize| -> Option<u64> {
        let bytes = elf.get(at..at.checked_add(size)?)?.iter().rev();
        Some(bytes.fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    let find = || -> Option<bool> {
        if !elf.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let (table, size, count) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
        for index in 0..count {
            let at = usize::try_from(table.checked_add(index * size)?).ok()?;
            if number(at, 4)? != PT_NOTE {
                continue;
            }
            let start = usize::try_from(number(at + 8, 8)?).ok()?;
            let length = usize::try_from(number(at + 32, 8)?).ok()?;
            let mut notes = elf.get(start..)?.get(..length)?;
            while let Some(header) = notes.first_chunk::<12>() {
                let word = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|b| header[i * 4 + b]));
                let name_bytes = (word(0) as usize).next_multiple_of(4);
                let whole = 12 + name_bytes + (word(1) as usize).next_multiple_of(4);
                let name = notes.get(12..12 + word(0) as usize)?;
                if (name, word(2)) == PVH_NOTE {
                    return Some(true);
                }
                notes = notes.get(whole..)?;
            }
        }
        None
    };
    find().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bzImage of this release with this payload, and nothing else in it.
    fn bzimage(release: &str, payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 512 * 2];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
        image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        image[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image[0x300..0x300 + release.len()].copy_from_slice(release.as_bytes());
        image.extend_from_slice(&[0; 16]);
        image.extend_from_slice(payload);
        image
    }

    /// An ELF file whose only content is one note.
    fn elf(note: u32) -> Vec<u8> {
        let mut elf = b"\x7fELF\x02\x01".to_vec();
        elf.resize(0x40, 0);
        elf[0x20] = 0x40;
        elf[0x36] = 56;
        elf[0x38] = 1;
        let mut header = vec![0; 56];
        header[0] = 4;
        header[8] = 0x78;
        header[32] = 20;
        elf.extend_from_slice(&header);
        elf.extend_from_slice(&[4, 0, 0, 0, 4, 0, 0, 0]);
        elf.extend_from_slice(&note.to_le_bytes());
        elf.extend_from_slice(b"Xen\0\0\0\0\x01");
        elf
    }

    #[test]
    fn the_release_ends_at_the_first_space() {
        let image = bzimage("6.1.0-56-amd64 (debian-kernel@lists.debian.org) #1", b"");
        assert_eq!(release(&image).unwrap(), "6.1.0-56-amd64");
        assert_eq!(release(&bzimage("../x y", b"")), Err(Error::NotBzImage));
        assert_eq!(release(b"MZ"), Err(Error::NotBzImage));
    }

    #[test]
    fn an_uncompressed_kernel_is_taken_out_if_it_has_the_entry() {
        assert_eq!(extract(&bzimage("r ", &elf(18))).unwrap(), elf(18));
        assert_eq!(extract(&bzimage("r ", &elf(17))), Err(Error::NoPvh));
    }

    #[test]
    fn lz4_blocks_are_joined() {
        // Two blocks of literals only: token 0x30 is three literals and no match.
        let payload = b"\x02\x21\x4c\x18\x04\0\0\0\x30abc\x04\0\0\0\x30def\x06\0\0\0";
        assert_eq!(decompress(payload).unwrap(), b"abcdef");
        let cut = b"\x02\x21\x4c\x18\x09\0\0\0\x30abc\x06\0\0\0";
        assert!(matches!(decompress(cut), Err(Error::Damaged(_))));
    }

    #[test]
    fn every_cut_of_an_image_is_an_error_or_the_kernel() {
        let image = bzimage("6.1 ", &elf(18));
        for cut in 0..image.len() {
            assert!(extract(&image[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn unknown_compression_is_named() {
        assert_eq!(
            decompress(b"BZh9......"),
            Err(Error::Compression(b"BZh9..".to_vec()))
        );
    }
}
