//! Conversations with a hostile end: a guest's agent, a peer with and without the keys, and several clients
//! of the overlay's daemon at once.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::{Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use latlab_host::nodes::vm::channel::Channel;
use latlab_model::overlay::{Overlay, language};
use latlab_overlay::control::Session;
use latlab_overlay::daemon::Daemon;
use latlab_overlay::frames::Arena;
use latlab_overlay::links::udp::sealed::{Identity, Policy, Sealing};
use latlab_wire::channel::{
    Decoder, Exec, ExitStatus, Message, PREAMBLE_BYTES, Stream, VERSION, encode,
};

/// Timeout: an end hangs up when its input is used up.
const TIMEOUT: Duration = Duration::from_secs(5);

fn answer(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Bytes of the input, one after the other; zeroes after its end.
struct Input<'d>(&'d [u8]);

impl<'d> Input<'d> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn take(&mut self, most: usize) -> &'d [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// A guest's next message: of the protocol, often for an existing session, or any bytes.
fn guest_says(input: &mut Input<'_>, nonce: u64) -> Vec<u8> {
    let kind = input.byte();
    let session = u32::from(input.byte() % 5);
    let stream = [Stream::Stdin, Stream::Stdout, Stream::Stderr][usize::from(input.byte() % 3)];
    let bytes = [0, 1, 1 << 16, u32::MAX][usize::from(input.byte() % 4)];
    let text = |input: &mut Input<'_>| {
        let length = input.byte().into();
        String::from_utf8_lossy(input.take(length)).into_owned()
    };
    let message = match kind % 9 {
        0 => {
            let data = vec![b'x'; usize::from(input.byte()) << (kind >> 4)];
            Message::Data {
                session,
                stream,
                data: data[..data.len().min(16_000)].to_vec(),
            }
        }
        1 => Message::End { session, stream },
        2 => Message::Credit {
            session,
            stream,
            bytes,
        },
        3 => Message::Exit {
            session,
            status: ExitStatus::Code(bytes as u8),
        },
        4 => Message::Done { session },
        5 => Message::Failed {
            session,
            errno: bytes,
            message: text(input),
        },
        6 => Message::HelloAck {
            version: VERSION + u16::from(kind >> 7),
            nonce,
            guest_monotonic_ns: 0,
            failure: (kind & 0x40 != 0).then(|| text(input)),
        },
        7 => Message::Hello {
            version: VERSION,
            nonce,
        },
        _ => {
            let length = input.byte().into();
            return input.take(length).to_vec();
        }
    };
    let mut encoded = Vec::new();
    // A message that does not fit is dropped.
    let _ = encode(&message, &mut encoded);
    encoded
}

/// A guest's agent on the other end of the channel: greets correctly or not, then sends anything to two
/// sessions, and hangs up.
pub fn guest_channel(data: &[u8]) -> u64 {
    let (host, mut guest) = UnixStream::pair().expect("a pair of sockets");
    let data = data.to_vec();
    let agent = std::thread::spawn(move || {
        let mut decoder = Decoder::default();
        let mut buffer = [0; 4096];
        let mut nonce = None;
        let mut skipped = 0;
        while nonce.is_none() {
            let Ok(count @ 1..) = guest.read(&mut buffer) else {
                return;
            };
            let from = (PREAMBLE_BYTES - skipped.min(PREAMBLE_BYTES)).min(count);
            skipped += from;
            decoder.push(&buffer[from..count]);
            nonce = decoder.by_ref().find_map(|message| match message {
                Message::Hello { nonce, .. } => Some(nonce),
                _ => None,
            });
        }
        let nonce = nonce.unwrap_or_default();
        let mut input = Input(&data);
        let mut greeting = Vec::new();
        let ack = Message::HelloAck {
            version: VERSION,
            nonce,
            guest_monotonic_ns: 1,
            failure: None,
        };
        if input.byte() % 8 != 7
            && encode(&ack, &mut greeting).is_ok()
            && guest.write_all(&greeting).is_err()
        {
            return;
        }
        while !input.0.is_empty() {
            if guest.write_all(&guest_says(&mut input, nonce)).is_err() {
                return;
            }
        }
        // The host's remaining messages are read, so that it can end.
        drop(guest.shutdown(std::net::Shutdown::Write));
        while matches!(guest.read(&mut buffer), Ok(1..)) {}
    });
    let said = host_side(host);
    agent.join().expect("the agent's side");
    answer(said)
}

fn host_side(host: UnixStream) -> Vec<String> {
    let letters = |text: String| -> String {
        text.chars()
            .filter(char::is_ascii_alphabetic)
            .take(40)
            .collect()
    };
    let channel = match Channel::on_stream(host, TIMEOUT) {
        Ok(channel) => channel,
        Err(error) => return vec![letters(error.to_string())],
    };
    let exec = || Exec {
        argv: vec!["x".into()],
        env: Vec::new(),
        cwd: None,
        uid: None,
        detach: false,
    };
    let mut said = Vec::new();
    // The second session starts while the first goes on, unread.
    let second = channel.exec(exec());
    match channel.run(exec(), b"input", TIMEOUT) {
        Ok(done) => said.push(format!("{:?} {}", done.status, done.stdout.len().min(9))),
        Err(error) => said.push(letters(error.to_string())),
    }
    if let Ok(mut second) = second {
        let mut text = Vec::new();
        if let Some(output) = second.stdout.take() {
            drop(output.take(1 << 16).read_to_end(&mut text));
        }
        let ended = second.wait_for(TIMEOUT);
        said.push(letters(format!("{ended:?}")));
    }
    said
}

/// A conversation of each kind.
pub fn guest_seeds() -> Vec<Vec<u8>> {
    vec![
        vec![0, 0, 2, 1, 0, 5, 3, 2, 0, 0, 3, 1, 0, 0],
        vec![0, 1, 2, 1, 0, 1, 2, 2, 0, 4, 2, 0, 0, 4, 1, 0, 0],
        vec![0, 5, 2, 0, 1, 4, b'n', b'o', b'p', b'e', 2, 1, 0, 3],
        vec![7, 9, 0, 0, 0, 4, b'L', b'L', b'C', b'1', 7, 0, 0, 0],
        vec![
            0, 0x70, 2, 1, 0, 255, 0x70, 2, 1, 0, 255, 0x70, 2, 1, 0, 255,
        ],
    ]
}

static IDENTITIES: LazyLock<[Arc<Identity>; 3]> =
    LazyLock::new(|| [(), (), ()].map(|()| Arc::new(Identity::generate().expect("keys"))));

/// One end of a sealed link, and the frames it has sent.
struct End {
    sealing: Sealing,
    sent: Vec<Vec<u8>>,
}

impl End {
    fn new(own: usize, peer: usize) -> End {
        let policy = Policy {
            retry: Duration::ZERO,
            ..Policy::default()
        };
        End {
            sealing: Sealing::new(
                Arc::clone(&IDENTITIES[own]),
                IDENTITIES[peer].public(),
                policy,
            ),
            sent: Vec::new(),
        }
    }

    fn seal(&mut self, text: &[u8]) {
        let (mut plain, mut cipher) = (Arena::default(), Arena::default());
        plain.write(|bytes| bytes.extend_from_slice(text));
        let sent = &mut self.sent;
        self.sealing
            .seal(&plain, &mut cipher, |message| sent.push(message.to_vec()));
        sent.extend((0..cipher.len()).map(|piece| cipher.head(piece).to_vec()));
    }

    fn open(&mut self, datagram: &[u8]) -> (Vec<Vec<u8>>, u64) {
        let mut bytes = datagram.to_vec();
        let mut parts: Vec<Range<usize>> = vec![0..bytes.len(); 1];
        let (refused, reply) = self.sealing.open(&mut bytes, &mut parts);
        self.sent.extend(reply);
        let texts = parts.iter().map(|part| bytes[part.clone()].to_vec());
        (texts.collect(), refused)
    }
}

/// Two ends of a sealed link and a stranger with different keys, over a network that loses, repeats,
/// reorders, changes and invents datagrams. Every frame that an end accepts was sent by the other one, and is
/// accepted once.
pub fn sealed_handshakes(data: &[u8]) -> u64 {
    let mut input = Input(data);
    let mut ends = [End::new(0, 1), End::new(1, 0), End::new(2, 0)];
    let mut wire: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut said = [Vec::new(), Vec::new()];
    let mut believed = [Vec::new(), Vec::new()];
    let mut answers = Vec::new();
    for count in 0..64_u8 {
        if input.0.is_empty() {
            break;
        }
        let (operation, which) = (input.byte(), usize::from(input.byte()));
        let from = which % 3;
        match operation % 6 {
            0 | 1 => {
                let text = vec![count, from as u8, operation];
                ends[from].seal(&text);
                if from < 2 {
                    said[from].push(text);
                }
            }
            2 if !wire.is_empty() => {
                // Changed in transit.
                let index = which % wire.len();
                let datagram = &mut wire[index].1;
                let place = usize::from(input.byte()) % datagram.len().max(1);
                let bits = input.byte();
                if let Some(byte) = datagram.get_mut(place) {
                    *byte ^= bits;
                }
            }
            3 => {
                let length = input.byte().into();
                wire.push((from, input.take(length).to_vec()));
            }
            _ if !wire.is_empty() => {
                let index = which % wire.len();
                let (sender, datagram) = wire[index].clone();
                // The stranger's datagrams and its copies reach the first end.
                let to = usize::from(sender == 0);
                let (texts, refused) = ends[to].open(&datagram);
                for text in texts {
                    assert!(said[1 - to].contains(&text), "{text:?} was never said");
                    assert!(!believed[to].contains(&text), "{text:?} is believed twice");
                    believed[to].push(text);
                }
                answers.push((to, refused));
                if operation & 0x80 == 0 {
                    wire.remove(index);
                }
            }
            _ => {}
        }
        for (sender, end) in ends.iter_mut().enumerate() {
            wire.extend(end.sent.drain(..).map(|datagram| (sender, datagram)));
        }
        wire.truncate(32);
    }
    answer((answers, believed.map(|all| all.len())))
}

/// Handshakes that succeed, with replays, changes and a stranger.
pub fn sealed_seeds() -> Vec<Vec<u8>> {
    let whole = [0, 0, 4, 0, 4, 0, 4, 0, 0, 0, 4, 0, 0, 1, 4, 0];
    let replayed = [
        0, 0, 0x84, 0, 4, 0, 4, 0, 4, 0, 0, 0, 0x84, 1, 0x84, 1, 4, 1,
    ];
    let stranger = [0, 2, 0x84, 0, 0, 0, 4, 0, 4, 0, 2, 0, 9, 1, 4, 0];
    let made_up = [3, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 4, 0];
    vec![
        whole.to_vec(),
        replayed.to_vec(),
        stranger.to_vec(),
        made_up.to_vec(),
        whole.repeat(3),
    ]
}

/// Several clients; a digit before each line names its client. Commands that would open a socket or an
/// interface are left out.
pub fn control_sessions(data: &[u8]) -> u64 {
    const CLIENTS: usize = 4;
    let text = String::from_utf8_lossy(data);
    let daemon = Daemon::start("fuzz", &Overlay::default()).expect("an empty daemon");
    let daemon = Arc::new(Mutex::new(daemon));
    let mut clients: Vec<Session> = (0..CLIENTS)
        .map(|_| Session::new(Arc::clone(&daemon)))
        .collect();
    let mut answers = Vec::new();
    for line in text.lines().take(48) {
        let who = line.bytes().next().map_or(0, usize::from) % CLIENTS;
        let said = line.get(1..).unwrap_or_default();
        let opens = ["interface", "link", "dispatch"]
            .iter()
            .any(|word| said.contains(word));
        let said_first = said.split_whitespace().next();
        if opens && !matches!(said_first, Some("list" | "move")) {
            continue;
        }
        let before = daemon.lock().expect("the daemon").overlay().0.clone();
        let reply = clients[who].answer(said);
        let last = reply.lines().last().unwrap_or_default();
        let good = last == "ok";
        assert!(
            good || (last.starts_with("error ") && reply.lines().count() == 1),
            "{reply:?}"
        );
        let inside = reply.lines().count() - 1;
        assert_eq!(
            reply.lines().filter(|line| line.starts_with(' ')).count(),
            inside
        );
        let now = daemon.lock().expect("the daemon").overlay().0.clone();
        assert!(good || now == before, "refused, and changed: {said}");
        let written = now.to_string();
        assert_eq!(
            language::parse_file(&written).as_ref(),
            Ok(&now),
            "{written}"
        );
        let words = last.chars().filter(char::is_ascii_alphabetic).take(40);
        answers.push(words.collect::<String>());
        // A client that hangs up in the middle of its draft.
        if said == "exit" {
            clients[who] = Session::new(Arc::clone(&daemon));
        }
    }
    answer(answers)
}

/// Conflicting drafts.
pub fn control_seeds() -> Vec<Vec<u8>> {
    [
        "0begin\n1begin\n0add network a vni 1\n1add network a vni 2\n0commit\n1commit\n1abort\n2show\n",
        "0add network a vni 1\n1delete network a\n0list networks\n0set network a learning off\n0counters\n0matrix\n",
        "0begin\n0add network a vni 1\n0exit\n0commit\n1add network b vni 5 flood 10\n1help\n1counters openmetrics\n",
        "0add network a vni 1\n0hold 02:00:00:00:00:01 limit 9kB for 1s\n1hold 02:00:00:00:00:01 for 1s\n1list holds\n0exit\n1show\n",
        "0hold 02:00:00:00:00:01 02:00:00:00:00:02 for 60s\n1release 02:00:00:00:00:02\n1begin\n1hold 02:00:00:00:00:03 for 1s\n1abort\n1list holds\n",
        "0add network a vni 1\n0move 02:00:00:00:00:01 to interface x revision 1\n0move 02:00:00:00:00:01 to link y network a revision 2\n1list moves\n1counters\n",
        "0begin\n0begin\n0commit\n0commit\n0abort\n3add route x\n3\"\n2list links\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
