//! Random changes of inputs, keeping inputs with a new answer.

use std::collections::HashSet;

/// SplitMix64: the same inputs from the same seed, for ever.
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }

    /// A part of `length` items, mostly short.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let most = match self.below(4) {
            0 => length - start,
            _ => (length - start).min(16),
        };
        start..start + self.below(most + 1)
    }
}

/// Longest input: most mistakes of parsers show in short ones, which are fast.
const MAX_BYTES: usize = 16 << 10;
/// Inputs kept at most.
const MAX_INPUTS: usize = 2000;
/// Numbers at common limits.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "127",
    "128",
    "255",
    "256",
    "65535",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e-308",
    "0.5",
    "NaN",
];

pub struct Corpus {
    inputs: Vec<Vec<u8>>,
    answers: HashSet<u64>,
    tokens: &'static [&'static str],
}

impl Corpus {
    /// Begins with the seeds.
    pub fn new(seeds: Vec<Vec<u8>>, tokens: &'static [&'static str]) -> Corpus {
        Corpus {
            inputs: seeds,
            answers: HashSet::new(),
            tokens,
        }
    }

    /// The inputs so far.
    pub fn inputs(&self) -> &[Vec<u8>] {
        &self.inputs
    }

    pub fn answers(&self) -> usize {
        self.answers.len()
    }

    /// Records the answer to `input`, and keeps the input if the answer is new.
    pub fn note(&mut self, input: &[u8], answer: u64) {
        if self.answers.insert(answer) && self.inputs.len() < MAX_INPUTS {
            self.inputs.push(input.to_vec());
        }
    }

    /// A new input: an old one with a few changes.
    pub fn next(&self, random: &mut Random) -> Vec<u8> {
        let mut input = random.pick(&self.inputs).cloned().unwrap_or_default();
        for _ in 0..=random.below(4) {
            self.change(&mut input, random);
        }
        input.truncate(MAX_BYTES);
        input
    }

    fn change(&self, input: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(input.len());
        let part = random.range(input.len());
        match random.below(9) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            1 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = random.bits() as u8;
                }
            }
            2 => input.truncate(at),
            3 => drop(input.drain(part)),
            // Repeats a part: lists grow, brackets nest.
            4 => {
                let copy = input[part.clone()].repeat(1 + random.below(64));
                input.splice(part.end..part.end, copy);
            }
            // A part of another input, in place of one here.
            5 => {
                let other = random.pick(&self.inputs).cloned().unwrap_or_default();
                let piece = other[random.range(other.len())].to_vec();
                input.splice(part, piece);
            }
            6 => {
                let token = random.pick(self.tokens).copied().unwrap_or_default();
                input.splice(at..at, token.bytes());
            }
            // A number in place of a number.
            7 => {
                let digits = |b: &u8| b.is_ascii_digit();
                let start = input[at..].iter().position(digits).map_or(at, |s| at + s);
                let count = input[start..].iter().take_while(|b| digits(b)).count();
                let number = random.pick(NUMBERS).copied().unwrap_or_default();
                input.splice(start..start + count, number.bytes());
            }
            _ => {
                let line = |b: &u8| *b == b'\n';
                let start = input[..at].iter().rposition(line).map_or(0, |s| s + 1);
                let end = input[at..]
                    .iter()
                    .position(line)
                    .map_or(input.len(), |e| at + e + 1);
                let line: Vec<u8> = input.drain(start..end).collect();
                let to = random.below(input.len() + 1);
                input.splice(to..to, line);
            }
        }
    }
}

/// A shorter input that still fails, by leaving out ever smaller parts.
pub fn minimised(input: &[u8], fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut best = input.to_vec();
    let mut size = best.len() / 2;
    while size > 0 {
        let mut start = 0;
        while start < best.len() {
            let mut shorter = best.clone();
            shorter.drain(start..(start + size).min(best.len()));
            if fails(&shorter) {
                best = shorter
            } else {
                start += size
            }
        }
        size /= 2;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        let inputs = |seed| {
            let corpus = Corpus::new(vec![b"name: a\nnodes: 12\n".to_vec()], &["x"]);
            let mut random = Random(seed);
            (0..1000)
                .map(|_| corpus.next(&mut random))
                .collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        let different: HashSet<_> = inputs(1).into_iter().collect();
        assert!(different.len() > 500, "{}", different.len());
    }

    #[test]
    fn a_known_bug_is_found_and_made_small() {
        let fails = |input: &[u8]| input.windows(3).any(|w| w == b"[[[");
        let mut corpus = Corpus::new(vec![b"a: [1, 2]\nb: c\n".to_vec()], &[]);
        let mut random = Random(7);
        let found = (0..100_000).find_map(|_| {
            let input = corpus.next(&mut random);
            let answer = input.windows(2).filter(|w| w == b"[[").count();
            corpus.note(&input, answer as u64);
            fails(&input).then_some(input)
        });
        assert_eq!(minimised(&found.expect("a failing input"), fails), b"[[[");
    }

    #[test]
    fn an_empty_corpus_is_no_trouble() {
        let corpus = Corpus::new(Vec::new(), &[]);
        let mut random = Random(1);
        for _ in 0..10_000 {
            assert!(corpus.next(&mut random).len() <= MAX_BYTES);
        }
    }
}
