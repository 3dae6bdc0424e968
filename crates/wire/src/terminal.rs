//! Input of an interactive command: keys, and the size of the person's terminal.
//!
//! A program of the agent inside the node holds the terminal that the command runs at. Its standard input is a
//! sequence of these frames, and its standard output the terminal's own bytes. So the same program serves every
//! kind of node, and the channel into a guest needs no message for it: nothing more comes from a hostile guest
//! than from any other command.
//!
//! A frame is a kind, a 16-bit length (little endian), and as many bytes: keys as they are, or columns and rows.

/// Most bytes of keys in a frame.
pub const MAX_KEYS: usize = u16::MAX as usize;

const KEYS: u8 = 1;
const SIZE: u8 = 2;
const HEADER: usize = 3;

/// A terminal's size, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub columns: u16,
    pub rows: u16,
}

/// Input of an interactive command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// At most [`MAX_KEYS`] bytes.
    Keys(Vec<u8>),
    Size(Size),
}

impl Input {
    /// The frame.
    ///
    /// # Panics
    /// With more keys than a frame takes.
    pub fn encode(&self) -> Vec<u8> {
        let frame = |kind: u8, payload: &[u8]| {
            let length = u16::try_from(payload.len()).expect("no more than MAX_KEYS");
            let mut frame = vec![kind];
            frame.extend(length.to_le_bytes());
            frame.extend(payload);
            frame
        };
        match self {
            Input::Keys(keys) => frame(KEYS, keys),
            Input::Size(size) => {
                let [a, b] = size.columns.to_le_bytes();
                let [c, d] = size.rows.to_le_bytes();
                frame(SIZE, &[a, b, c, d])
            }
        }
    }
}

/// Frames out of a stream that comes in pieces.
#[derive(Debug, Default)]
pub struct Inputs(Vec<u8>);

impl Inputs {
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole frame; frames of unknown kinds are left out.
    pub fn take(&mut self) -> Option<Input> {
        loop {
            let &[kind, low, high, ..] = self.0.as_slice() else {
                return None;
            };
            let end = HEADER + usize::from(u16::from_le_bytes([low, high]));
            let payload = self.0.get(HEADER..end)?.to_vec();
            self.0.drain(..end);
            match (kind, payload.as_slice()) {
                (KEYS, _) => return Some(Input::Keys(payload)),
                (SIZE, &[a, b, c, d]) => {
                    return Some(Input::Size(Size {
                        columns: u16::from_le_bytes([a, b]),
                        rows: u16::from_le_bytes([c, d]),
                    }));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_however_they_are_cut() {
        let size = Size {
            columns: 300,
            rows: 50,
        };
        let sent = [
            Input::Keys(b"ls\r".to_vec()),
            Input::Size(size),
            Input::Keys(Vec::new()),
            Input::Keys(vec![7; MAX_KEYS]),
        ];
        let mut bytes: Vec<u8> = sent.iter().flat_map(Input::encode).collect();
        // One of a later version.
        bytes.splice(0..0, [9, 1, 0, 0]);
        for piece in [1, 2, 5, 1000, bytes.len()] {
            let mut inputs = Inputs::default();
            let mut got = Vec::new();
            for part in bytes.chunks(piece) {
                inputs.push(part);
                got.extend(std::iter::from_fn(|| inputs.take()));
            }
            assert_eq!(got, sent);
        }
    }

    #[test]
    fn a_size_of_a_wrong_length_is_left_out() {
        let mut inputs = Inputs::default();
        inputs.push(&[SIZE, 1, 0, 80]);
        inputs.push(&Input::Keys(vec![1]).encode());
        assert_eq!(inputs.take(), Some(Input::Keys(vec![1])));
        assert_eq!(inputs.take(), None);
    }
}
