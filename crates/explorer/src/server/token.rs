//! The secret that a request shows. Other users of the machine reach a port on loopback too, and so do the pages of other
//! servers that are open in the same browser.

use std::fmt;
use std::io;

use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};

const BYTES: usize = 24;

pub struct Token(String);

impl Token {
    pub fn draw() -> io::Result<Self> {
        let mut bytes = [0; BYTES];
        // The kernel gives this few at once.
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        Ok(Self(
            bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// Compares digests, whose equal begin says nothing about the token.
    pub fn is(&self, shown: &str) -> bool {
        Sha256::digest(shown) == Sha256::digest(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}
