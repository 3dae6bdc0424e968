//! An agent that is not ours at the other end of a guest's channel: the owner of a guest owns its agent. Each way is a
//! row of [`WAYS`]; after each the host has an answer or an error, soon, and its memory is its own.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

use latlab_host::nodes::vm::channel::{Channel, Error};
use latlab_wire::channel::{
    Decoder, Exec, ExitStatus, MAX_PAYLOAD, Message, NetworkConfig, Stream, VERSION, WINDOW_BYTES,
    encode,
};

/// Far above what any answer takes: a test that waits this long has found a hang.
const WATCHDOG: Duration = Duration::from_secs(60);
/// The timeout of each call.
const TIMEOUT: Duration = Duration::from_secs(1);

type Attack = fn(&mut Agent);

/// The agent's behaviour once a process was asked for.
const WAYS: [(&str, Attack); 14] = [
    ("noise instead of frames", |agent| {
        agent.raw(&noise(300_000));
    }),
    ("a frame longer than any", |agent| {
        agent.raw(b"LLC1\x05\0\xff\xff\x01\0\0\0");
        agent.raw(&noise(70_000));
    }),
    ("half a frame, then silence", |agent| {
        agent.raw(b"LLC1\x05\0\x40\0\x01\0");
    }),
    ("an exit of sessions that nobody started", |agent| {
        (1000..3000).for_each(|session| agent.exit(session));
    }),
    ("output of sessions that nobody started", |agent| {
        (1000..1100).for_each(|session| agent.output(session, MAX_PAYLOAD));
    }),
    ("more output than the window", |agent| {
        (0..=WINDOW_BYTES as usize / MAX_PAYLOAD + 2).for_each(|_| agent.output(1, MAX_PAYLOAD));
    }),
    ("output without end", |agent| agent.flood()),
    ("credit beyond a number", |agent| {
        for _ in 0..4 {
            let (session, stream, bytes) = (1, Stream::Stdin, u32::MAX);
            agent.say(&Message::Credit {
                session,
                stream,
                bytes,
            });
        }
    }),
    ("greetings over and over", |agent| {
        (0..2000).for_each(|_| agent.greet(0));
    }),
    ("a host's own messages", |agent| {
        agent.say(&Message::PowerOff);
        agent.say(&Message::Hello {
            version: VERSION,
            nonce: 1,
        });
        agent.say(&Message::Signal {
            session: 1,
            signal: 9,
        });
    }),
    ("answers to requests that were not made", |agent| {
        (1000..6000).for_each(|session| agent.say(&Message::Done { session }));
    }),
    ("the end of streams twice, and no exit", |agent| {
        for stream in [
            Stream::Stdout,
            Stream::Stderr,
            Stream::Stdout,
            Stream::Stdin,
        ] {
            agent.say(&Message::End { session: 1, stream });
        }
    }),
    ("two exits", |agent| {
        agent.exit(1);
        agent.exit(1);
    }),
    ("a hang-up in the middle", |agent| agent.hang_up()),
];

struct Agent {
    stream: UnixStream,
    decoder: Decoder,
    nonce: u64,
}

impl Agent {
    /// The next message of the host's, passing over what means nothing here.
    fn next(&mut self) -> Option<Message> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(message) = self.decoder.next() {
                return Some(message);
            }
            match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.decoder.push(&buffer[..count]),
            }
        }
    }

    /// A host that hung up is not an error of the attack's.
    fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    fn say(&mut self, message: &Message) {
        let mut frame = Vec::new();
        encode(message, &mut frame).unwrap();
        self.raw(&frame);
    }

    fn greet(&mut self, more: u64) {
        self.say(&Message::HelloAck {
            version: VERSION,
            nonce: self.nonce + more,
            guest_monotonic_ns: 0,
            failure: None,
        });
    }

    fn exit(&mut self, session: u32) {
        let status = ExitStatus::Code(0);
        self.say(&Message::Exit { session, status });
    }

    fn output(&mut self, session: u32, bytes: usize) {
        self.say(&Message::Data {
            session,
            stream: Stream::Stdout,
            data: vec![b'x'; bytes],
        });
    }

    /// Within its credit, as long as the host reads.
    fn flood(&mut self) {
        let mut credit = u64::from(WINDOW_BYTES);
        loop {
            while credit >= MAX_PAYLOAD as u64 {
                self.output(1, MAX_PAYLOAD);
                credit -= MAX_PAYLOAD as u64;
            }
            match self.next() {
                Some(Message::Credit {
                    bytes,
                    stream: Stream::Stdout,
                    ..
                }) => {
                    credit += u64::from(bytes);
                }
                Some(Message::Signal { .. }) | None => return,
                Some(_) => {}
            }
        }
    }

    fn hang_up(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// A channel to an agent that greets as ours does, and attacks once a process was asked for.
fn hostile(attack: impl FnOnce(&mut Agent) + Send + 'static) -> Channel {
    let (host, guest) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        let mut agent = Agent {
            stream: guest,
            decoder: Decoder::default(),
            nonce: 0,
        };
        while let Some(message) = agent.next() {
            match message {
                Message::Hello { nonce, .. } => {
                    agent.nonce = nonce;
                    agent.greet(0);
                }
                Message::Exec { .. } => break,
                _ => {}
            }
        }
        attack(&mut agent);
        // The agent stays, and says nothing more.
        while agent.next().is_some() {}
    });
    Channel::on_stream(host, TIMEOUT).unwrap()
}

fn exec() -> Exec {
    Exec {
        argv: vec!["true".into()],
        ..Exec::default()
    }
}

/// Runs `work` on a thread of its own; fails if it does not come back.
fn in_time<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    let result = result.recv_timeout(WATCHDOG);
    result.unwrap_or_else(|_| panic!("{name}: the host hangs, or panicked"))
}

#[test]
fn no_agent_keeps_a_command_of_the_hosts_from_ending() {
    // Most of them wait for the host to give up.
    std::thread::scope(|scope| {
        for (name, attack) in WAYS {
            scope.spawn(move || the_host_has_an_answer(name, attack));
        }
    });
}

fn the_host_has_an_answer(name: &str, attack: Attack) {
    let result = in_time(name, move || {
        let channel = hostile(attack);
        let result = channel.run(exec(), b"input", TIMEOUT);
        // A further request ends too, in any state of the channel.
        let _ = channel.configure_network(NetworkConfig::default(), TIMEOUT);
        let _ = channel.power_off();
        result
    });
    println!(
        "{name}: {:?}",
        result.as_ref().map(|finished| finished.status)
    );
    let forged = ["two exits"].contains(&name);
    assert_eq!(result.is_ok(), forged, "{name}: {result:?}");
}

#[test]
fn endless_output_of_a_guest_is_cut_off_and_reported() {
    let result = in_time("output without end", || {
        hostile(Agent::flood).run(exec(), b"", WATCHDOG * 2)
    });
    assert!(matches!(result, Err(Error::TooMuch)), "{result:?}");
}
