//! A text for programs to work on: the same bytes in every node and on the host, so that nothing has to be carried
//! there, and so that each side knows what the other must have.
//!
//! The text is like English for a compressor: words of uneven frequency (Zipf's law), the commonest of them real ones,
//! in sentences and paragraphs. `xz -2` makes 0.37 of it.

use std::io::{self, Read, Write};

/// The file of the text, and of what a program made of it, in the directory of a node.
pub const TEXT: &str = "corpus";
pub const MADE: &str = "made";

/// Words of the language; the first are the commonest.
const WORDS: usize = 20_000;
const COMMON: &str = "the of and to in a is that for it was on are as with his they at be this from have or by one had not but \
    what all were when we there can an your which their said if do will each about how up out them then she many some so \
    these would other into has more her two like him see time could no make than first been its who now people my made \
    over did down only way find use may water long little very after words called just where most know get through back \
    much before go good new write our used me man too any day same right look think also around another came come work \
    three word must because does part even place well such here take why things help put years different away again off \
    went old number great tell men say small every found still between name should home big give air line set own under";
const SYLLABLES: [&str; 48] = [
    "ba", "con", "der", "el", "fi", "gra", "hem", "in", "jor", "ker", "lan", "mi", "nor", "ob",
    "per", "qui", "re", "sta", "ti", "un", "ver", "wes", "ex", "yel", "zo", "ment", "tion", "ing",
    "ous", "al", "ern", "ist", "able", "ful", "ly", "ch", "str", "ght", "ea", "ou", "ry", "ck",
    "sh", "pl", "th", "er", "an", "or",
];
const SEED: u64 = 0x6c61_746c_6162_0001;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// Words with their cumulative weights, 1/rank each, in whole numbers: the same on every machine.
struct Language {
    words: Vec<String>,
    weights: Vec<u64>,
}

impl Language {
    fn new(random: &mut Random) -> Language {
        let mut words: Vec<String> = COMMON.split_whitespace().map(String::from).collect();
        while words.len() < WORDS {
            let parts = 2 + random.below(3);
            let syllables = (0..parts).map(|_| SYLLABLES[random.below(48) as usize]);
            words.push(syllables.collect());
        }
        let mut sum = 0;
        let weights = (1..=WORDS as u64).map(|rank| {
            sum += 1_000_000_000 / rank;
            sum
        });
        let weights = weights.collect();
        Language { words, weights }
    }

    fn word(&self, random: &mut Random) -> &str {
        let total = self.weights.last().copied().unwrap_or(1);
        let at = random.below(total);
        let index = self.weights.partition_point(|sum| *sum <= at);
        &self.words[index]
    }
}

/// Writes that many bytes of the text. Fails when they cannot be written.
pub fn write(bytes: u64, out: &mut impl Write) -> io::Result<()> {
    let mut random = Random(SEED);
    let language = Language::new(&mut random);
    let mut left = bytes;
    let mut paragraph = String::new();
    while left > 0 {
        paragraph.clear();
        for _ in 0..3 + random.below(6) {
            sentence(&language, &mut random, &mut paragraph);
        }
        paragraph.push('\n');
        let piece = paragraph
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        out.write_all(&paragraph.as_bytes()[..piece])?;
        left -= piece as u64;
    }
    out.flush()
}

fn sentence(language: &Language, random: &mut Random, text: &mut String) {
    let words = 5 + random.below(18);
    for index in 0..words {
        let word = language.word(random);
        if index == 0 {
            text.push_str(&word[..1].to_ascii_uppercase());
            text.push_str(&word[1..]);
        } else {
            text.push_str(if random.below(12) == 0 { ", " } else { " " });
            text.push_str(word);
        }
    }
    text.push_str(". ");
}

/// Length and FNV-1a hash of what was read or written, as `BYTES HASH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    pub bytes: u64,
    hash: u64,
}

impl Default for Digest {
    fn default() -> Digest {
        Digest {
            bytes: 0,
            hash: 0xcbf2_9ce4_8422_2325,
        }
    }
}

impl Digest {
    /// The digest of that many bytes of the text.
    pub fn of_text(bytes: u64) -> Digest {
        let mut digest = Digest::default();
        // Nothing can fail in memory.
        let _ = write(bytes, &mut digest);
        digest
    }

    /// The digest of all that comes. Fails when it cannot be read.
    pub fn of(input: &mut impl Read) -> io::Result<Digest> {
        let mut digest = Digest::default();
        io::copy(input, &mut digest)?;
        Ok(digest)
    }
}

impl Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:016x}", self.bytes, self.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_same_every_time_and_reads_like_prose() {
        let mut text = Vec::new();
        write(100_000, &mut text).unwrap();
        assert_eq!(text.len(), 100_000);
        assert_eq!(
            Digest::of(&mut &text[..]).unwrap(),
            Digest::of_text(100_000)
        );
        // A change of these bytes makes results of versions differ.
        assert_eq!(
            Digest::of_text(100_000).to_string(),
            "100000 59ab0a4cd2d91aaf"
        );
        let text = String::from_utf8(text).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let share = words.iter().filter(|word| **word == "the").count() as f64 / words.len() as f64;
        assert!((0.05..0.15).contains(&share), "{share}");
    }

    #[test]
    fn a_digest_sees_one_changed_byte_and_a_cut() {
        let mut text = Vec::new();
        write(5000, &mut text).unwrap();
        text[4321] ^= 1;
        assert_ne!(Digest::of(&mut &text[..]).unwrap(), Digest::of_text(5000));
        assert_ne!(Digest::of_text(4999), Digest::of_text(5000));
    }
}
