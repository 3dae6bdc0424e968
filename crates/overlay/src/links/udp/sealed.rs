//! Encryption of the private form: who the peer is, keys between the two, and datagrams under them.
//!
//! The handshake is Noise_IK (Noise protocol framework, revision 34), as in WireGuard: both sides know
//! the other's public key from the configuration, one round trip makes keys for both directions that
//! later theft of the private keys does not reveal. Datagrams are sealed with AES-256-GCM, which
//! processors have instructions for; the nonce is a counter that the datagram carries.
//!
//! - A **session** is a pair of keys. The side that began it uses it at once; the other uses it from
//!   the first datagram under it on, which proves that the peer has the keys (it is sent empty if need
//!   be). The one before stays valid for what is still under way.
//! - Sessions are renewed after a time and a number of datagrams ([`Policy`]), and when a peer has been
//!   silent for long while it was sent to: it may have forgotten them.
//! - **Replays** are found by a window of 2048 counters behind the largest one (RFC 6479). A handshake
//!   carries the time of its sender, and only later ones are believed; but when the peer has been silent for
//!   as long as makes us begin anew, its clock may have gone back, and any time is.
//! - **Floods** of forged handshakes cost one HMAC each: every handshake carries one over itself, under a key that
//!   only the two hosts can compute (Diffie-Hellman of their long-term keys). It does what WireGuard's mac1 and cookies do
//!   (whitepaper, sections 5.3 and 5.4), and more: there a flooder may know the key of mac1, because a server does not
//!   know who will come. The limit of `ANSWER_EVERY` comes behind it, so strangers cannot use it up.
//! - Whatever is not authentic is dropped and counted, and changes nothing.

mod identity;

use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use latlab_wire::overlay::{Handshake, Sealed};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use snow::{Builder, HandshakeState};

use super::lock;
use crate::frames::Arena;
pub use identity::{Identity, hexadecimal, parse_key};

const NOISE: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
/// Both sides must speak of the same thing.
const PROLOGUE: &[u8] = b"latlab overlay, sealed, 2";
/// The HMAC at the end of a handshake.
const MAC_BYTES: usize = 32;
/// Longest datagram of the handshake.
const MAX_MESSAGE: usize = 256;

/// Handshakes of one peer that are its own and new are answered at most this often.
const ANSWER_EVERY: Duration = Duration::from_millis(20);

/// When sessions are renewed.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Datagrams under one key. Far below what AES-GCM allows for datagrams of this size.
    pub datagrams: u64,
    /// Age at which a new one is negotiated.
    pub renew: Duration,
    /// Age at which nothing is sent or accepted any more.
    pub expire: Duration,
    /// How long an unanswered handshake waits before it is repeated.
    pub retry: Duration,
    /// How long a peer may be silent while it is sent to.
    pub silence: Duration,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            datagrams: 1 << 32,
            renew: Duration::from_secs(120),
            expire: Duration::from_secs(180),
            retry: Duration::from_millis(250),
            silence: Duration::from_secs(5),
        }
    }
}

/// Which counters have been seen: a ring of bits below the largest (RFC 6479).
#[derive(Debug, Clone)]
struct Window {
    next: u64,
    seen: [u64; Self::WORDS],
}

impl Window {
    const WORDS: usize = 33;
    /// One word is always being cleared, so that many counters are told apart.
    const COUNTERS: u64 = (Self::WORDS as u64 - 1) * 64;

    fn new() -> Window {
        Window {
            next: 0,
            seen: [0; Self::WORDS],
        }
    }

    /// Whether a counter may be one that has not been seen; asked before the datagram is opened.
    fn may_be_new(&self, counter: u64) -> bool {
        counter >= self.next || (self.next - counter <= Self::COUNTERS && !self.bit(counter))
    }

    /// Notes a counter of an authentic datagram.
    fn note(&mut self, counter: u64) {
        if counter >= self.next {
            let (old, new) = (self.next / 64, counter / 64);
            // Words that the window moves into hold bits of long ago.
            let fresh = if self.next % 64 == 0 { old } else { old + 1 };
            for word in fresh..=new.min(fresh + Self::WORDS as u64 - 1) {
                self.seen[Self::index(word)] = 0;
            }
            if new >= fresh + Self::WORDS as u64 {
                self.seen = [0; Self::WORDS];
            }
            self.next = counter + 1;
        }
        self.seen[Self::index(counter / 64)] |= 1 << (counter % 64);
    }

    fn bit(&self, counter: u64) -> bool {
        self.seen[Self::index(counter / 64)] & 1 << (counter % 64) != 0
    }

    fn index(word: u64) -> usize {
        usize::try_from(word % Self::WORDS as u64).unwrap_or(0)
    }
}

/// Keys for both directions.
struct Session {
    /// What the peer writes for this session, and what we write.
    ours: u32,
    theirs: u32,
    seal: LessSafeKey,
    open: LessSafeKey,
    counter: u64,
    window: Window,
    born: Instant,
}

/// A handshake that was begun and not yet answered.
struct Pending {
    ours: u32,
    noise: HandshakeState,
}

#[derive(Default)]
struct State {
    /// What is sent under.
    current: Option<Session>,
    /// What was sent under before; the peer may not have noticed yet.
    previous: Option<Session>,
    /// What the peer began and has not used yet.
    next: Option<Session>,
    pending: Option<Pending>,
    tried: Option<Instant>,
    heard: Option<Instant>,
    /// The time in the last handshake that was believed, and when that was.
    their_time: u64,
    believed: Option<Instant>,
    /// When the peer last began a handshake.
    answered: Option<Instant>,
}

/// The keys of one link, shared by all that send and receive on it. Locked once a batch.
pub struct Sealing {
    identity: Arc<Identity>,
    peer: [u8; 32],
    mac: hmac::Key,
    policy: Policy,
    /// The time, in nanoseconds since 1970.
    clock: fn() -> u64,
    state: Mutex<State>,
}

impl std::fmt::Debug for Sealing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealing with {}", hexadecimal(&self.peer))
    }
}

impl Sealing {
    /// Keys with the peer of that public key, none yet.
    #[must_use]
    pub fn new(identity: Arc<Identity>, peer: [u8; 32], policy: Policy) -> Sealing {
        Sealing {
            mac: identity.mac_key(&peer),
            identity,
            peer,
            policy,
            clock: nanoseconds,
            state: Mutex::default(),
        }
    }

    /// Seals every piece of `plain` into `cipher`. False while there are no keys. `send` is given a
    /// handshake when one is due.
    pub fn seal(&self, plain: &Arena, cipher: &mut Arena, send: impl FnOnce(&[u8])) -> bool {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let state = &mut *state;
        if self.is_handshake_due(state, now) {
            if let Some(message) = self.begin(state, now) {
                send(&message);
            }
        }
        let Some(session) = &mut state.current else {
            return false;
        };
        let count = plain.len() as u64;
        if now.duration_since(session.born) >= self.policy.expire
            || session.counter + count >= self.policy.datagrams * 2
        {
            return false;
        }
        for piece in 0..plain.len() {
            cipher.write(|bytes| {
                let start = bytes.len();
                session.header(bytes);
                bytes.extend_from_slice(plain.head(piece));
                for segment in plain.rest(piece) {
                    segment.append_to(bytes);
                }
                session.close(bytes, start);
            });
        }
        true
    }

    fn is_handshake_due(&self, state: &State, now: Instant) -> bool {
        let since = |then: Option<Instant>| then.map(|then| now.duration_since(then));
        if since(state.tried).is_some_and(|tried| tried < self.policy.retry) {
            return false;
        }
        let Some(session) = &state.current else {
            return true;
        };
        let silent = since(state.heard).is_none_or(|heard| heard >= self.policy.silence)
            && since(state.tried).is_none_or(|tried| tried >= self.policy.silence);
        session.counter >= self.policy.datagrams
            || now.duration_since(session.born) >= self.policy.renew
            || silent
    }

    fn begin(&self, state: &mut State, now: Instant) -> Option<Vec<u8>> {
        let noise = builder()
            .local_private_key(self.identity.private())
            .and_then(|builder| builder.remote_public_key(&self.peer))
            .and_then(Builder::build_initiator);
        let mut pending = Pending {
            ours: number(),
            noise: noise.ok()?,
        };
        let header = Handshake {
            answer: false,
            sender: pending.ours,
            receiver: 0,
        };
        let message = self.message(header, &mut pending.noise)?;
        state.pending = Some(pending);
        state.tried = Some(now);
        Some(message)
    }

    /// A handshake's datagram: header, time, the Noise message, HMAC.
    fn message(&self, header: Handshake, noise: &mut HandshakeState) -> Option<Vec<u8>> {
        let time = (self.clock)().to_be_bytes();
        let mut message = header.encode().to_vec();
        message.extend(time);
        let start = message.len();
        message.resize(MAX_MESSAGE, 0);
        // The time once more, where Noise vouches for it.
        let len = noise.write_message(&time, &mut message[start..]).ok()?;
        message.truncate(start + len);
        let mac = hmac::sign(&self.mac, &from(&self.identity.public(), &message));
        message.extend_from_slice(mac.as_ref());
        Some(message)
    }

    /// The time and the Noise message of a handshake's datagram that comes from the peer.
    fn authentic<'a>(&self, datagram: &'a [u8]) -> Option<(u64, &'a [u8])> {
        if datagram.len() > MAX_MESSAGE {
            return None;
        }
        let (said, mac) = datagram.split_at(datagram.len().checked_sub(MAC_BYTES)?);
        hmac::verify(&self.mac, &from(&self.peer, said), mac).ok()?;
        let (time, message) = said.get(Handshake::BYTES..)?.split_first_chunk()?;
        Some((u64::from_be_bytes(*time), message))
    }

    /// Opens the datagrams of a message in place. Afterwards `parts` lists what was in them; how many
    /// were not authentic, and what is to be sent back, if anything.
    pub fn open(&self, bytes: &mut [u8], parts: &mut Vec<Range<usize>>) -> (u64, Option<Vec<u8>>) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let state = &mut *state;
        let (mut refused, mut answer) = (0, None);
        parts.retain_mut(|part| {
            let datagram = &mut bytes[part.clone()];
            if let Ok((header, _)) = Handshake::parse(datagram) {
                match self.handshake(state, header, datagram, now) {
                    Some(message) => answer = Some(message),
                    None => refused += 1,
                }
                return false;
            }
            match self.unseal(state, datagram, now) {
                Some(plain) => {
                    part.start += Sealed::BYTES;
                    part.end = part.start + plain;
                    plain > 0
                }
                None => {
                    refused += 1;
                    false
                }
            }
        });
        (refused, answer)
    }

    /// The length of what was in a datagram, which is now in place of it.
    fn unseal(&self, state: &mut State, datagram: &mut [u8], now: Instant) -> Option<usize> {
        let (header, _) = Sealed::parse(datagram).ok()?;
        let sessions = [&mut state.current, &mut state.previous, &mut state.next];
        let session = sessions
            .into_iter()
            .flatten()
            .find(|session| session.ours == header.session)?;
        if now.duration_since(session.born) >= self.policy.expire {
            return None;
        }
        let plain = session.open(header, datagram)?;
        state.heard = Some(now);
        if state
            .next
            .as_ref()
            .is_some_and(|next| next.ours == header.session)
        {
            // The peer has the keys: from now on we use them too.
            state.previous = state.current.take();
            state.current = state.next.take();
        }
        Some(plain)
    }

    /// Goes on with a handshake; what to send back, if it was believed.
    fn handshake(
        &self,
        state: &mut State,
        header: Handshake,
        datagram: &[u8],
        now: Instant,
    ) -> Option<Vec<u8>> {
        let (time, message) = self.authentic(datagram)?;
        if header.answer {
            self.finish(state, header, message, now)
        } else {
            self.respond(state, header, (time, message), now)
        }
    }

    /// The peer answered: the session is ours to use, and an empty datagram tells it so.
    fn finish(
        &self,
        state: &mut State,
        header: Handshake,
        message: &[u8],
        now: Instant,
    ) -> Option<Vec<u8>> {
        let pending = state.pending.as_ref()?;
        if pending.ours != header.receiver {
            return None;
        }
        // An answer that Noise refuses spoils the state that reads it, and with it the handshake, which is then begun
        // again. Only the peer can send such a one.
        let mut pending = state.pending.take()?;
        let mut payload = [0; MAX_MESSAGE];
        pending.noise.read_message(message, &mut payload).ok()?;
        let mut session = Session::new(pending.noise, pending.ours, header.sender, true, now)?;
        let mut empty = Vec::new();
        session.header(&mut empty);
        session.close(&mut empty, 0);
        state.previous = state.current.replace(session);
        state.heard = Some(now);
        Some(empty)
    }

    fn respond(
        &self,
        state: &mut State,
        header: Handshake,
        (claimed, message): (u64, &[u8]),
        now: Instant,
    ) -> Option<Vec<u8>> {
        let is_long_ago = |then: Option<Instant>| {
            then.is_none_or(|then| now.duration_since(then) >= self.policy.silence)
        };
        let may_be_back = is_long_ago(state.heard) && is_long_ago(state.believed);
        if claimed <= state.their_time && !may_be_back {
            return None;
        }
        // Each costs more than a thousand datagrams do.
        let answered = state.answered.replace(now);
        if answered.is_some_and(|then| now.duration_since(then) < ANSWER_EVERY) {
            state.answered = answered;
            return None;
        }
        let mut noise = builder()
            .local_private_key(self.identity.private())
            .and_then(Builder::build_responder)
            .ok()?;
        let mut payload = [0; MAX_MESSAGE];
        let len = noise.read_message(message, &mut payload).ok()?;
        let time = u64::from_be_bytes(payload[..len].try_into().ok()?);
        if noise.get_remote_static() != Some(&self.peer[..]) || time != claimed {
            return None;
        }
        state.their_time = time;
        state.believed = Some(now);
        let ours = number();
        let answer = Handshake {
            answer: true,
            sender: ours,
            receiver: header.sender,
        };
        let reply = self.message(answer, &mut noise)?;
        state.next = Session::new(noise, ours, header.sender, false, now);
        Some(reply)
    }
}

/// What the HMAC of a datagram is of: its sender too, so that what is sent back to its sender is not taken for the other's.
fn from(sender: &[u8; 32], datagram: &[u8]) -> Vec<u8> {
    [&sender[..], datagram].concat()
}

fn nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// What a session is called: by chance, so that nobody who does not see the datagrams can name it.
fn number() -> u32 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() as u32
}

impl Session {
    fn new(
        mut noise: HandshakeState,
        ours: u32,
        theirs: u32,
        began: bool,
        now: Instant,
    ) -> Option<Session> {
        let (first, second) = noise.dangerously_get_raw_split();
        let (seal, open) = if began {
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
            seal: key(seal)?,
            open: key(open)?,
            counter: 0,
            window: Window::new(),
            born: now,
        })
    }

    /// Writes the header of the next datagram.
    fn header(&self, bytes: &mut Vec<u8>) {
        let header = Sealed {
            session: self.theirs,
            counter: self.counter,
        };
        bytes.extend_from_slice(&header.encode());
    }

    /// Seals what follows the header at `start`, and counts.
    fn close(&mut self, bytes: &mut Vec<u8>, start: usize) {
        let (header, plain) = bytes[start..].split_at_mut(Sealed::BYTES);
        let tag = self
            .seal
            .seal_in_place_separate_tag(nonce(self.counter), Aad::from(&*header), plain)
            .expect("a datagram is shorter than what the cipher takes");
        bytes.extend_from_slice(tag.as_ref());
        self.counter += 1;
    }

    /// Opens a datagram in place; the length of what was in it, behind the header.
    fn open(&mut self, header: Sealed, datagram: &mut [u8]) -> Option<usize> {
        if !self.window.may_be_new(header.counter) {
            return None;
        }
        let (front, sealed) = datagram.split_at_mut(Sealed::BYTES);
        let plain = self
            .open
            .open_in_place(nonce(header.counter), Aad::from(&*front), sealed)
            .ok()?;
        self.window.note(header.counter);
        Some(plain.len())
    }
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn builder() -> Builder<'static> {
    let parameters = NOISE.parse().expect("a pattern that snow knows");
    Builder::new(parameters)
        .prologue(PROLOGUE)
        .expect("a prologue is set once")
}

/// Sends a handshake. It is repeated when it gets lost.
pub(super) fn send(socket: BorrowedFd<'_>, message: &[u8], to: SocketAddr) {
    use rustix::net::{SendFlags, sendto};
    sendto(socket, message, SendFlags::DONTWAIT, &to).ok();
}

#[cfg(test)]
mod tests;
