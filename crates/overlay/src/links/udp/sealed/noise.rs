//! Parameters of the handshake.

use snow::Builder;

const NOISE: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
/// Both sides must use the same protocol version.
const PROLOGUE: &[u8] = b"latlab overlay, sealed, 2";

pub(super) fn builder() -> Builder<'static> {
    let parameters = NOISE.parse().expect("a pattern that snow knows");
    Builder::new(parameters)
        .prologue(PROLOGUE)
        .expect("a prologue is set once")
}

/// A random number, such as a session id: an attacker who does not see the datagrams cannot guess it.
pub(super) fn random_u32() -> u32 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() as u32
}
