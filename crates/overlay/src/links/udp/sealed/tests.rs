//! Two ends without a network in between: datagrams are delivered, lost, repeated and changed.

use std::sync::Arc;
use std::time::Duration;

use latlab_wire::overlay::Handshake;

use super::sealing::ANSWER_INTERVAL;
use super::window::Window;
use super::*;
use crate::frames::Arena;
use crate::frames::random::Random;
use crate::sync::lock;

/// One end, with its outgoing datagrams.
struct End {
    sealing: Sealing,
    out: Vec<Vec<u8>>,
}

impl End {
    fn pair(policy: Policy) -> (End, End) {
        let [a, b] = [(), ()].map(|()| Arc::new(Identity::generate().unwrap()));
        let end = |own: &Arc<Identity>, other: &Identity| End {
            sealing: Sealing::new(own.clone(), other.public(), policy),
            out: Vec::new(),
        };
        (end(&a, &b), end(&b, &a))
    }

    /// Encrypts a text; false while there are no keys.
    fn seal(&mut self, text: &str) -> bool {
        let (mut plain, mut cipher) = (Arena::default(), Arena::default());
        plain.write(|bytes| bytes.extend_from_slice(text.as_bytes()));
        let out = &mut self.out;
        let sealed = self
            .sealing
            .seal(&plain, &mut cipher, |message| out.push(message.to_vec()));
        self.out
            .extend((0..cipher.len()).map(|piece| cipher.head(piece).to_vec()));
        sealed
    }

    /// Decrypts a datagram: its text, and whether it was refused.
    fn open(&mut self, datagram: &[u8]) -> (Option<String>, bool) {
        let mut bytes = datagram.to_vec();
        let mut parts = vec![0..bytes.len(); 1];
        let (refused, answer) = self.sealing.open(&mut bytes, &mut parts);
        self.out.extend(answer);
        let text = parts
            .first()
            .map(|part| String::from_utf8(bytes[part.clone()].to_vec()).unwrap());
        (text, refused > 0)
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.out)
    }
}

/// Delivers until neither end has anything to send.
fn exchange(a: &mut End, b: &mut End) {
    while !(a.out.is_empty() && b.out.is_empty()) {
        for datagram in a.sent() {
            assert!(!b.open(&datagram).1);
        }
        for datagram in b.sent() {
            assert!(!a.open(&datagram).1);
        }
    }
}

fn talking(policy: Policy) -> (End, End) {
    let (mut a, mut b) = End::pair(policy);
    assert!(!a.seal("too early"));
    exchange(&mut a, &mut b);
    (a, b)
}

fn passes(from: &mut End, to: &mut End, text: &str) {
    assert!(from.seal(text));
    let sent = from.sent();
    let last = sent.last().unwrap();
    assert_eq!(to.open(last), (Some(text.to_string()), false));
    for handshake in &sent[..sent.len() - 1] {
        to.open(handshake);
    }
}

#[test]
fn both_ends_can_send_after_one_round_trip() {
    let (mut a, mut b) = talking(Policy::default());
    for number in 0..100 {
        passes(&mut a, &mut b, &format!("{number} there"));
        passes(&mut b, &mut a, &format!("{number} back"));
    }
}

#[test]
fn both_ends_may_begin_at_once() {
    let (mut a, mut b) = End::pair(Policy::default());
    assert!(!a.seal("") && !b.seal(""));
    exchange(&mut a, &mut b);
    for _ in 0..3 {
        passes(&mut a, &mut b, "there");
        passes(&mut b, &mut a, "back");
    }
}

#[test]
fn replays_and_forgeries_are_refused_and_change_nothing() {
    let (mut a, mut b) = talking(Policy::default());
    a.seal("once");
    let datagram = a.sent().remove(0);
    assert_eq!(b.open(&datagram), (Some("once".into()), false));
    assert_eq!(b.open(&datagram), (None, true), "a replay");
    let mut random = Random(77);
    a.seal("whole");
    let good = a.sent().remove(0);
    for _ in 0..2000 {
        let mut bad = good.clone();
        match random.below(3) {
            0 => {
                let at = random.below(bad.len() as u64) as usize;
                bad[at] ^= 1 << random.below(8);
            }
            1 => bad.truncate(random.below(bad.len() as u64) as usize),
            _ => {
                let more = 1 + random.below(40) as usize;
                bad.extend(random.bytes(more));
            }
        }
        assert_eq!(b.open(&bad), (None, true));
    }
    assert_eq!(b.open(&good), (Some("whole".into()), false));
    assert!(b.out.is_empty());
}

#[test]
fn datagrams_may_overtake_each_other_within_the_window() {
    let (mut a, mut b) = talking(Policy::default());
    let mut sent = Vec::new();
    for number in 0..5000_u64 {
        a.seal(&number.to_string());
        sent.append(&mut a.sent());
    }
    let mut random = Random(5);
    for block in sent.chunks_mut(1000) {
        for at in (1..block.len()).rev() {
            block.swap(at, random.below(at as u64 + 1) as usize);
        }
    }
    let mut got = std::collections::HashSet::new();
    for datagram in sent.iter().chain(&sent) {
        if let (Some(text), _) = b.open(datagram) {
            assert!(got.insert(text), "a replay got through");
        }
    }
    assert_eq!(got.len(), 5000);
}

#[test]
fn the_window_tracks_every_counter() {
    let mut random = Random(31);
    for _ in 0..20 {
        let mut window = Window::new();
        let mut seen = std::collections::HashSet::new();
        let mut highest = 0_u64;
        for _ in 0..20_000 {
            let ahead = [3, 70, 3000, 10_000][random.below(4) as usize];
            let counter = (highest + random.below(ahead)).saturating_sub(random.below(2500));
            let old = counter + Window::COUNTERS < highest + 1;
            let new = window.may_be_new(counter);
            assert_eq!(
                new,
                !old && !seen.contains(&counter),
                "{counter} of {highest}"
            );
            if new {
                window.mark(counter);
                seen.insert(counter);
                highest = highest.max(counter);
            }
        }
    }
}

#[test]
fn keys_are_renewed_by_count_and_nothing_is_lost() {
    let (mut a, mut b) = talking(Policy {
        datagrams: 50,
        retry: Duration::ZERO,
        ..Policy::default()
    });
    let number_of = |end: &End| lock(&end.sealing.state).current.as_ref().map(|s| s.ours);
    let first = number_of(&a);
    for round in 0..60 {
        passes(&mut a, &mut b, &round.to_string());
        // Answers are rate-limited.
        if round >= 50 {
            std::thread::sleep(ANSWER_INTERVAL);
        }
        exchange(&mut a, &mut b);
    }
    assert_ne!(number_of(&a), first);
    passes(&mut b, &mut a, "back");
}

#[test]
fn keys_expire() {
    let (mut a, mut b) = talking(Policy::default());
    a.seal("in time");
    let late = a.sent().remove(0);
    // Expired at once: a busy machine would prolong a wait.
    for end in [&mut a, &mut b] {
        end.sealing.policy.expire = Duration::ZERO;
    }
    assert!(!a.seal("too late"));
    assert_eq!(b.open(&late), (None, true));
}

#[test]
fn a_peer_that_lost_its_keys_gets_a_new_handshake() {
    let policy = Policy {
        silence: Duration::ZERO,
        retry: Duration::ZERO,
        ..Policy::default()
    };
    let (mut a, b) = talking(policy);
    let mut again = End {
        sealing: Sealing::new(b.sealing.identity.clone(), b.sealing.peer, policy),
        out: Vec::new(),
    };
    a.seal("lost");
    for datagram in a.sent() {
        again.open(&datagram);
    }
    exchange(&mut a, &mut again);
    passes(&mut a, &mut again, "there you are");
}

#[test]
fn strangers_and_repeated_handshakes_get_no_answer() {
    let (mut a, mut b) = End::pair(Policy::default());
    let (mut stranger, _) = End::pair(Policy::default());
    stranger.sealing = Sealing::new(
        stranger.sealing.identity.clone(),
        b.sealing.identity.public(),
        Policy::default(),
    );
    stranger.seal("");
    let handshake = stranger.sent().remove(0);
    assert_eq!(b.open(&handshake), (None, true));
    a.seal("");
    let handshake = a.sent().remove(0);
    std::thread::sleep(ANSWER_INTERVAL);
    assert!(!b.open(&handshake).1);
    assert_eq!(b.sent().len(), 1);
    std::thread::sleep(ANSWER_INTERVAL);
    assert_eq!(b.open(&handshake), (None, true), "a replay");
    assert!(b.out.is_empty());
}

/// An answer comes later than the next handshake is due, time and again while there is traffic.
#[test]
fn an_answer_that_is_under_way_for_long_is_waited_for() {
    let retry = Duration::from_secs(100);
    let (mut a, mut b) = End::pair(Policy {
        retry,
        longest_retry: 10 * retry,
        ..Policy::default()
    });
    let pass = |end: &End, time: Duration| {
        let mut state = lock(&end.sealing.state);
        state.handshake_sent = state.handshake_sent.map(|sent| sent - time);
    };
    let mut answers = Vec::new();
    for _ in 0..2 {
        assert!(!a.seal("too early"));
        let handshake = a.sent().remove(0);
        std::thread::sleep(ANSWER_INTERVAL);
        assert!(!b.open(&handshake).1);
        answers.append(&mut b.sent());
        pass(&a, retry);
    }
    assert!(!a.seal("too early"));
    assert!(a.sent().is_empty(), "the second handshake has more time");
    assert_eq!(a.open(&answers[0]), (None, true), "of the first");
    assert!(!a.open(&answers[1]).1);
    exchange(&mut a, &mut b);
    passes(&mut a, &mut b, "there");
    passes(&mut b, &mut a, "back");
}

/// Forged handshakes do not consume the peer's rate limit, and a forged answer invalidates no handshake.
#[test]
fn floods_of_forged_handshakes_do_not_starve_the_peer() {
    let (mut a, mut b) = End::pair(Policy::default());
    let mut random = Random(3);
    assert!(!a.seal(""));
    let genuine = a.sent().remove(0);
    let mut forge = |like: &[u8], to: &mut End| {
        for _ in 0..200 {
            let mut forged = like.to_vec();
            let behind = Handshake::BYTES as u64;
            let at = behind + random.below(like.len() as u64 - behind);
            forged[at as usize] ^= 1 << random.below(8);
            assert_eq!(to.open(&forged), (None, true));
        }
    };
    forge(&genuine, &mut b);
    // A reflected handshake is not taken for the peer's.
    assert_eq!(a.open(&genuine), (None, true));
    assert!(!b.open(&genuine).1, "the peer was starved");
    let answer = b.sent().remove(0);
    forge(&answer, &mut a);
    assert!(!a.open(&answer).1, "the handshake was spoiled");
    exchange(&mut a, &mut b);
    passes(&mut b, &mut a, "here");
}

/// A restarted peer with an older clock is accepted after its silence, and not before: until then it could be a replay.
#[test]
fn a_peer_whose_clock_went_back_is_accepted_after_silence() {
    let (mut a, mut b) = talking(Policy::default());
    let mut restarted = End {
        sealing: Sealing::new(
            a.sealing.identity.clone(),
            a.sealing.peer,
            Policy::default(),
        ),
        out: Vec::new(),
    };
    restarted.sealing.clock = || 1_000_000_000;
    passes(&mut a, &mut b, "alive");
    std::thread::sleep(ANSWER_INTERVAL);
    restarted.seal("");
    let early = restarted.sent().remove(0);
    assert_eq!(b.open(&early), (None, true));
    // The silence is long enough.
    b.sealing.policy.silence = Duration::ZERO;
    assert!(!b.open(&early).1);
    b.sealing.policy.silence = Policy::default().silence;
    exchange(&mut restarted, &mut b);
    passes(&mut restarted, &mut b, "back");
}

#[test]
fn keys_are_parsed_as_they_are_formatted() {
    let identity = Identity::generate().unwrap();
    let file = std::env::temp_dir().join(format!("latlab-key-{}", std::process::id()));
    std::fs::write(&file, identity.private_text() + "\n").unwrap();
    let read = Identity::read(&file).unwrap();
    assert_eq!(read.public(), identity.public());
    std::fs::write(&file, "0123").unwrap();
    assert!(Identity::read(&file).is_err());
    std::fs::remove_file(&file).unwrap();
    let text = hexadecimal(&identity.public());
    assert_eq!(parse_key(&text), Some(identity.public()));
    assert_eq!(parse_key(&text.replace(&text[..1], "g")), None);
}
