//! Encryption of the private form: identities, keys between two hosts, and datagrams under them.
//!
//! The handshake is Noise_IK (Noise protocol framework, revision 34), as in WireGuard. Both sides know the other's public
//! key from the configuration, and one round trip makes keys for both directions that a later theft of the private keys
//! does not reveal. Datagrams are encrypted with AES-256-GCM, which CPUs have instructions for; the nonce is a counter
//! that the datagram carries.
//!
//! - A **session** is a pair of keys. The initiator uses it at once, the responder from the first datagram under it on,
//!   which proves that the peer has the keys (it is sent empty if need be). The previous session stays valid for
//!   datagrams under way.
//! - Sessions are **renewed** after a time and a number of datagrams ([`Policy`]), and when a peer stays silent while it
//!   is sent to: it may have lost them. A handshake without an answer is repeated, each time after twice as long.
//! - **Replays** are detected by a window of 2048 counters behind the highest one (RFC 6479). A handshake carries its
//!   sender's time, and only later ones are accepted. When the peer has been silent for as long as triggers a new
//!   handshake, its clock may have gone back, and any time is accepted.
//! - **Floods** of forged handshakes cost one HMAC each: every handshake carries one over itself, under a key from the
//!   Diffie-Hellman of both long-term keys. It does what WireGuard's mac1 and cookies do (whitepaper, sections 5.3 and
//!   5.4), and more: there a flooder may know the key of mac1, because a server does not know its clients in advance. The
//!   limit of `ANSWER_INTERVAL` is checked after it, so strangers cannot exhaust it.
//! - Datagrams that are not authentic are dropped and counted, and change nothing.

mod identity;
mod noise;
mod policy;
mod sealing;
mod session;
#[cfg(test)]
mod tests;
mod window;

pub use identity::{Identity, hexadecimal, parse_key};
pub use policy::Policy;
pub use sealing::Sealing;
pub(super) use sealing::send_handshake;
