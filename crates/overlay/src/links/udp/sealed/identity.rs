//! Key pairs of hosts.

use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ring::hmac;
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};

use super::noise::{builder, random_u32};

const MAC_LABEL: &[u8] = b"latlab overlay, sealed, 2: handshakes";

#[derive(Clone)]
pub struct Identity {
    private: [u8; 32],
    public: [u8; 32],
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity {}", hexadecimal(&self.public))
    }
}

impl Identity {
    pub fn generate() -> io::Result<Identity> {
        let pair = builder().generate_keypair().map_err(io::Error::other)?;
        let (Some(private), Some(public)) = (key_of(&pair.private), key_of(&pair.public)) else {
            return Err(io::Error::other("a key of another length"));
        };
        Ok(Identity { private, public })
    }

    /// Makes a key and keeps it in a file that only its owner may read. The file is whole when it appears. Errors: one that
    /// is there.
    pub fn create(file: &Path) -> io::Result<Identity> {
        let identity = Identity::generate()?;
        let unfinished = file.with_extension(format!("{}.new", std::process::id()));
        let mut private = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)?;
        let written = writeln!(private, "{}", identity.private_text())
            .and_then(|()| std::fs::hard_link(&unfinished, file));
        std::fs::remove_file(&unfinished)?;
        written.map(|()| identity)
    }

    /// Reads a private key, in hexadecimal, from a file.
    pub fn read(file: &Path) -> io::Result<Identity> {
        let text = std::fs::read_to_string(file)?;
        let private = parse_key(text.trim()).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "not a key of 64 hexadecimal digits",
            )
        })?;
        let dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519);
        let mut dh = dh.ok_or_else(|| io::Error::other("no Curve25519"))?;
        dh.set(&private);
        let public = key_of(dh.pubkey()).ok_or_else(|| io::Error::other("a long key"))?;
        Ok(Identity { private, public })
    }

    pub(super) fn private(&self) -> &[u8; 32] {
        &self.private
    }

    /// The key under which handshakes between this host and a peer are authenticated.
    pub(super) fn mac_key(&self, peer: &[u8; 32]) -> hmac::Key {
        let mut shared = [0; 32];
        let secret = DefaultResolver
            .resolve_dh(&DHChoice::Curve25519)
            .and_then(|mut dh| {
                dh.set(&self.private);
                dh.dh(peer, &mut shared).ok()
            });
        if secret.is_none() {
            // No handshake with such a peer succeeds either, so a secret key is as good.
            shared = random();
        }
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &shared), MAC_LABEL);
        hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
    }

    #[must_use]
    pub fn public(&self) -> [u8; 32] {
        self.public
    }

    /// The private key in hexadecimal.
    #[must_use]
    pub fn private_text(&self) -> String {
        hexadecimal(&self.private)
    }
}

fn key_of(bytes: &[u8]) -> Option<[u8; 32]> {
    bytes.try_into().ok()
}

#[must_use]
pub fn parse_key(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut key = [0; 32];
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(key)
}

#[must_use]
pub fn hexadecimal(key: &[u8; 32]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    for word in bytes.chunks_mut(4) {
        word.copy_from_slice(&random_u32().to_ne_bytes());
    }
    bytes
}
