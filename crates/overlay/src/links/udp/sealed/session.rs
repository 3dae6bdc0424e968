//! Keys of a session, and datagrams under them.

use std::time::Instant;

use latlab_wire::overlay::Sealed;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use snow::HandshakeState;

use super::window::Window;

pub(super) struct Session {
    /// Session id in received datagrams.
    pub ours: u32,
    /// Session id in sent datagrams.
    theirs: u32,
    seal_key: LessSafeKey,
    open_key: LessSafeKey,
    pub counter: u64,
    window: Window,
    pub born: Instant,
}

impl Session {
    pub fn new(
        mut noise: HandshakeState,
        ours: u32,
        theirs: u32,
        is_initiator: bool,
        now: Instant,
    ) -> Option<Session> {
        let (first, second) = noise.dangerously_get_raw_split();
        let (seal, open) = if is_initiator {
            (first, second)
        } else {
            (second, first)
        };
        let key = |bytes: [u8; 32]| {
            let key = UnboundKey::new(&AES_256_GCM, &bytes).ok()?;
            Some(LessSafeKey::new(key))
        };
        Some(Session {
            ours,
            theirs,
            seal_key: key(seal)?,
            open_key: key(open)?,
            counter: 0,
            window: Window::new(),
            born: now,
        })
    }

    pub fn write_header(&self, bytes: &mut Vec<u8>) {
        let header = Sealed {
            session: self.theirs,
            counter: self.counter,
        };
        bytes.extend_from_slice(&header.encode());
    }

    pub fn seal(&mut self, bytes: &mut Vec<u8>, start: usize) {
        let (header, plain) = bytes[start..].split_at_mut(Sealed::BYTES);
        let tag = self
            .seal_key
            .seal_in_place_separate_tag(nonce(self.counter), Aad::from(&*header), plain)
            .expect("a datagram is below the maximum of the cipher");
        bytes.extend_from_slice(tag.as_ref());
        self.counter += 1;
    }

    /// Decrypts a datagram in place; returns the length of the plaintext behind the header.
    pub fn open(&mut self, header: Sealed, datagram: &mut [u8]) -> Option<usize> {
        if !self.window.may_be_new(header.counter) {
            return None;
        }
        let (front, sealed) = datagram.split_at_mut(Sealed::BYTES);
        let plain = self
            .open_key
            .open_in_place(nonce(header.counter), Aad::from(&*front), sealed)
            .ok()?;
        self.window.mark(header.counter);
        Some(plain.len())
    }
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}
