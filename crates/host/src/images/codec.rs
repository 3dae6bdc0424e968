//! Decompression and digests, as readers stacked on a reader.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sha2::{Digest, Sha256};

use crate::hex;

/// Decoded bytes asked for at a time.
const CHUNK_BYTES: usize = 128 * 1024;

/// Reads `source` decompressed. The format is told by its first bytes, because media types in
/// manifests are wrong often enough.
pub(super) fn decompress<'a>(source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut source = BufReader::with_capacity(CHUNK_BYTES, source);
    let magic = source.fill_buf()?;
    Ok(if magic.starts_with(&[0x1f, 0x8b]) {
        Box::new(MultiGzDecoder::new(source))
    } else if is_zstd(magic) {
        Box::new(Zstd::new(source))
    } else {
        Box::new(source)
    })
}

/// A frame, or a skippable frame, which some writers put first (RFC 8878, 3.1).
fn is_zstd(magic: &[u8]) -> bool {
    magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
        || (magic.len() >= 4 && magic[0] & 0xf0 == 0x50 && magic[1..4] == [0x2a, 0x4d, 0x18])
}

/// All frames of a zstd stream one after the other. The crate decodes one frame; layers written
/// as `zstd:chunked` hold many, with skippable ones between.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(source: R) -> Self {
        Self {
            source,
            decoder: FrameDecoder::new(),
            inside: false,
        }
    }

    /// Steps to the next frame; false at the end of the stream.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped = io::copy(&mut (&mut self.source).take(length), &mut io::sink())?;
                    if skipped < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(e) => return Err(io::Error::new(io::ErrorKind::InvalidData, e)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.inside && self.decoder.can_collect() > 0 {
                return self.decoder.read(buf);
            }
            if self.inside && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(
                        &mut self.source,
                        BlockDecodingStrategy::UptoBytes(CHUNK_BYTES),
                    )
                    .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
                continue;
            }
            self.inside = self.next_frame()?;
            if !self.inside {
                return Ok(0);
            }
        }
    }
}

/// Computes the SHA-256 of what is read through it.
pub(super) struct Hashing<R> {
    source: R,
    hash: Sha256,
}

impl<R: Read> Hashing<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            hash: Sha256::new(),
        }
    }

    /// Reads what is left, at most `max` bytes, and returns the digest of everything, `sha256:` and 64
    /// digits.
    pub(super) fn finish(mut self, max: u64) -> io::Result<String> {
        let rest = io::copy(&mut (&mut self).take(max), &mut io::sink())?;
        if rest == max && self.read(&mut [0])? > 0 {
            let reason = format!("more than {max} bytes follow its last member");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        Ok(format_digest(&self.hash.finalize()))
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.source.read(buf)?;
        self.hash.update(&buf[..n]);
        Ok(n)
    }
}

/// The digest of `bytes`, `sha256:` and 64 digits.
pub(super) fn digest(bytes: &[u8]) -> String {
    format_digest(&Sha256::digest(bytes))
}

fn format_digest(hash: &[u8]) -> String {
    format!("sha256:{}", hex::digits(hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn read_all(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        decompress(bytes)?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn the_three_encodings_are_told_apart() {
        let text = b"some text that is the same in every encoding".repeat(1000);
        assert_eq!(read_all(&text).unwrap(), text);

        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(read_all(&gzip).unwrap(), text);
        assert_eq!(
            read_all(&[&*gzip, &*gzip].concat()).unwrap(),
            text.repeat(2)
        );

        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zstd = ruzstd::encoding::compress_to_vec(&*text, level);
        assert!(zstd.len() < text.len());
        assert_eq!(read_all(&zstd).unwrap(), text);

        let skippable = [0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        let chunked = [&skippable, &*zstd, &skippable, &*zstd].concat();
        assert_eq!(read_all(&chunked).unwrap(), text.repeat(2));
        assert!(
            read_all(&chunked[..chunked.len() - 5]).is_err(),
            "a cut frame is an error"
        );
        assert!(
            read_all(&skippable[..9]).is_err(),
            "a cut skippable frame is an error"
        );
    }

    #[test]
    fn digests_are_those_of_sha256sum() {
        let expected = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(b"abc"), expected);
        let mut hashing = Hashing::new(&b"abc"[..]);
        let mut one = [0];
        hashing.read_exact(&mut one).unwrap();
        assert_eq!(
            hashing.finish(2).unwrap(),
            expected,
            "what was not read counts too"
        );
        assert!(Hashing::new(&b"abc"[..]).finish(2).is_err());
    }
}
