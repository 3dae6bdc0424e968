//! Handshakes with a peer, and its sessions.

use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use latlab_wire::overlay::{Handshake, Sealed};
use ring::hmac;
use snow::{Builder, HandshakeState};

use super::identity::{Identity, hexadecimal};
use super::noise::{builder, random_u32};
use super::policy::Policy;
use super::session::Session;
use crate::frames::Arena;
use crate::sync::lock;

const MAC_BYTES: usize = 32;
const MAX_MESSAGE: usize = 256;

/// Minimum interval between answers to authentic handshakes of one peer.
pub(super) const ANSWER_INTERVAL: Duration = Duration::from_millis(20);

struct Pending {
    ours: u32,
    noise: HandshakeState,
}

#[derive(Default)]
pub(super) struct State {
    /// Used for sending.
    pub current: Option<Session>,
    /// Used for sending before; datagrams under it may be under way.
    previous: Option<Session>,
    /// Initiated by the peer, and not used by it yet.
    next: Option<Session>,
    pending: Option<Pending>,
    pub handshake_sent: Option<Instant>,
    /// Handshakes since the last session that have had no answer yet.
    unanswered: u32,
    last_received: Option<Instant>,
    /// The peer's time in the last accepted handshake, and when it was accepted.
    peer_time: u64,
    accepted: Option<Instant>,
    answered: Option<Instant>,
}

/// The keys of one link, shared by its sending and receiving halves. Locked once per batch.
pub struct Sealing {
    pub(super) identity: Arc<Identity>,
    pub(super) peer: [u8; 32],
    mac: hmac::Key,
    pub(super) policy: Policy,
    /// Nanoseconds since 1970.
    pub(super) clock: fn() -> u64,
    pub(super) state: Mutex<State>,
}

impl std::fmt::Debug for Sealing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealing with {}", hexadecimal(&self.peer))
    }
}

impl Sealing {
    /// No keys yet, with the peer of this public key.
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

    /// Encrypts every piece of `plain` into `cipher`; false while there are no keys. `send` gets a handshake when one is
    /// due.
    pub fn seal(&self, plain: &Arena, cipher: &mut Arena, send: impl FnOnce(&[u8])) -> bool {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let state = &mut *state;
        if self.is_handshake_due(state, now) {
            if let Some(message) = self.initiate(state, now) {
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
                session.write_header(bytes);
                bytes.extend_from_slice(plain.head(piece));
                for segment in plain.rest(piece) {
                    segment.append_to(bytes);
                }
                session.seal(bytes, start);
            });
        }
        true
    }

    fn is_handshake_due(&self, state: &State, now: Instant) -> bool {
        let since = |then: Option<Instant>| then.map(|then| now.duration_since(then));
        let retry = self.policy.retry_after(state.unanswered);
        if since(state.handshake_sent).is_some_and(|sent| sent < retry) {
            return false;
        }
        let Some(session) = &state.current else {
            return true;
        };
        let silent = since(state.last_received).is_none_or(|age| age >= self.policy.silence)
            && since(state.handshake_sent).is_none_or(|age| age >= self.policy.silence);
        session.counter >= self.policy.datagrams
            || now.duration_since(session.born) >= self.policy.renew
            || silent
    }

    fn initiate(&self, state: &mut State, now: Instant) -> Option<Vec<u8>> {
        let noise = builder()
            .local_private_key(self.identity.private())
            .and_then(|builder| builder.remote_public_key(&self.peer))
            .and_then(Builder::build_initiator);
        let mut pending = Pending {
            ours: random_u32(),
            noise: noise.ok()?,
        };
        let header = Handshake {
            answer: false,
            sender: pending.ours,
            receiver: 0,
        };
        let message = self.message(header, &mut pending.noise)?;
        state.pending = Some(pending);
        state.handshake_sent = Some(now);
        state.unanswered = state.unanswered.saturating_add(1);
        Some(message)
    }

    /// A handshake datagram: header, time, Noise message, HMAC.
    fn message(&self, header: Handshake, noise: &mut HandshakeState) -> Option<Vec<u8>> {
        let time = (self.clock)().to_be_bytes();
        let mut message = header.encode().to_vec();
        message.extend(time);
        let start = message.len();
        message.resize(MAX_MESSAGE, 0);
        // The time again, authenticated by Noise.
        let len = noise.write_message(&time, &mut message[start..]).ok()?;
        message.truncate(start + len);
        let mac = hmac::sign(&self.mac, &signed_by(&self.identity.public(), &message));
        message.extend_from_slice(mac.as_ref());
        Some(message)
    }

    /// The time and the Noise message of an authentic handshake datagram.
    fn authentic<'a>(&self, datagram: &'a [u8]) -> Option<(u64, &'a [u8])> {
        if datagram.len() > MAX_MESSAGE {
            return None;
        }
        let (signed, mac) = datagram.split_at(datagram.len().checked_sub(MAC_BYTES)?);
        hmac::verify(&self.mac, &signed_by(&self.peer, signed), mac).ok()?;
        let (time, message) = signed.get(Handshake::BYTES..)?.split_first_chunk()?;
        Some((u64::from_be_bytes(*time), message))
    }

    /// Decrypts the datagrams of a message in place; `parts` then lists the plaintexts. Returns how many were not authentic,
    /// and an answer to be sent.
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

    /// Decrypts a datagram in place; returns the length of the plaintext.
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
        state.last_received = Some(now);
        if state
            .next
            .as_ref()
            .is_some_and(|next| next.ours == header.session)
        {
            // The peer has the keys.
            state.previous = state.current.take();
            state.current = state.next.take();
            state.unanswered = 0;
        }
        Some(plain)
    }

    /// Continues a handshake; returns the answer if it was accepted.
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

    /// The peer has answered: starts the session, and confirms it by an empty datagram.
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
        // An answer that Noise refuses invalidates its state, and the handshake starts again. Only the peer can send one.
        let mut pending = state.pending.take()?;
        let mut payload = [0; MAX_MESSAGE];
        pending.noise.read_message(message, &mut payload).ok()?;
        let mut session = Session::new(pending.noise, pending.ours, header.sender, true, now)?;
        let mut empty = Vec::new();
        session.write_header(&mut empty);
        session.seal(&mut empty, 0);
        state.previous = state.current.replace(session);
        state.last_received = Some(now);
        state.unanswered = 0;
        Some(empty)
    }

    fn respond(
        &self,
        state: &mut State,
        header: Handshake,
        (claimed, message): (u64, &[u8]),
        now: Instant,
    ) -> Option<Vec<u8>> {
        let is_silent_since = |then: Option<Instant>| {
            then.is_none_or(|then| now.duration_since(then) >= self.policy.silence)
        };
        let may_have_restarted =
            is_silent_since(state.last_received) && is_silent_since(state.accepted);
        if claimed <= state.peer_time && !may_have_restarted {
            return None;
        }
        // An answer costs more than a thousand datagrams.
        let answered = state.answered.replace(now);
        if answered.is_some_and(|then| now.duration_since(then) < ANSWER_INTERVAL) {
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
        state.peer_time = time;
        state.accepted = Some(now);
        let ours = random_u32();
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

/// The bytes that the HMAC covers: the sender too, so that a reflected datagram is not taken for the peer's.
fn signed_by(sender: &[u8; 32], datagram: &[u8]) -> Vec<u8> {
    [&sender[..], datagram].concat()
}

fn nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// Sends a handshake, which is repeated if it is lost.
pub(in crate::links::udp) fn send_handshake(
    socket: BorrowedFd<'_>,
    message: &[u8],
    to: SocketAddr,
) {
    use rustix::net::{SendFlags, sendto};
    sendto(socket, message, SendFlags::DONTWAIT, &to).ok();
}
