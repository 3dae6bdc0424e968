//! The command channel's server: one thread, one poller, any number of clients and processes.
//!
//! One thread, because the agent lives on CPUs that are being measured: it must cost nothing while nothing is asked of
//! it. Everything is polled edge-triggered and every wake-up lets each port and each session do what it can without
//! blocking. Edges matter for virtio-serial ports: one without a client reports a hang-up for as long as there is
//! none, which a level-triggered poller would return again and again.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use latlab_wire::channel::{Exec, ExitStatus, Identity, Message, VERSION};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, wait};

use crate::identity;
use crate::network;
use crate::os;
use crate::port::{Input, Port};
use crate::session::{Session, Turn, start_detached};

/// Tokens above the ports' numbers.
const LISTENER: u64 = u64::MAX;
const OTHER: u64 = u64::MAX - 1;

/// The policy for a port whose client is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clients {
    /// Wait for the next on the same port (virtio-serial).
    Return,
    /// Forget the port; new clients connect (a listening socket).
    Connect,
    /// Stop serving (one inherited socket).
    One,
}

/// The requests that a guest can serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// No root yet: the guest waits for an identity.
    Waiting,
    /// The reason for having no root.
    Unusable(String),
}

pub struct Server {
    poller: OwnedFd,
    signals: OwnedFd,
    clients: Clients,
    listener: Option<UnixListener>,
    ports: BTreeMap<u64, Port>,
    next_port: u64,
    sessions: BTreeMap<(u64, u32), Session>,
    /// Where the round over the sessions begins, so that none is always served first.
    turn: usize,
    readiness: Readiness,
    buffer: Vec<u8>,
    stopped: bool,
}

/// Serves one client on a socket inherited as descriptor number `fd`.
pub fn on_fd(fd: &str) -> Result<(), String> {
    let number = fd
        .parse()
        .map_err(|_| format!("serve: '{fd}' is not a descriptor number"))?;
    let stream = os::inherited(number).map_err(|e| format!("serve: use descriptor {fd}: {e}"))?;
    let mut server = Server::new(Clients::One).map_err(|e| format!("serve: {e}"))?;
    server
        .add_port(stream)
        .and_then(|()| server.run())
        .map_err(|e| format!("serve: {e}"))
}

/// Serves one client on standard input and output, which may be pipes: two threads join them to a socket.
pub fn on_stdio() -> Result<(), String> {
    let serve = || -> io::Result<()> {
        // The server blocks the signals of children, which every thread must inherit.
        let mut server = Server::new(Clients::One)?;
        let (ours, theirs) = UnixStream::pair()?;
        let mut requests = ours.try_clone()?;
        thread::spawn(move || {
            io::copy(&mut io::stdin(), &mut requests).ok();
            // The client's end, whatever ended the copy.
            requests.shutdown(Shutdown::Both).ok();
        });
        thread::spawn(move || answers(&ours));
        server.add_port(theirs.into())?;
        server.run()
    };
    serve().map_err(|e| format!("serve: {e}"))
}

/// Passes on each answer at once.
fn answers(mut from: &UnixStream) {
    let mut buffer = [0; 1 << 16];
    let mut to = io::stdout();
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to
            .write_all(&buffer[..count])
            .and_then(|()| to.flush())
            .is_err()
        {
            from.shutdown(Shutdown::Both).ok();
            return;
        }
    }
}

/// Serves all clients that connect to a socket made at `path`.
pub fn on_socket(path: &str) -> Result<(), String> {
    let serve = || -> io::Result<()> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let mut server = Server::new(Clients::Connect)?;
        server.watch(listener.as_fd(), LISTENER)?;
        server.listener = Some(listener);
        server.run()
    };
    serve().map_err(|e| format!("serve on {path}: {e}"))
}

/// Serves a guest's virtio-serial ports until a client asks for power off.
pub fn on_ports(ports: Vec<OwnedFd>, readiness: Readiness) -> io::Result<()> {
    let mut server = Server::new(Clients::Return)?;
    server.readiness = readiness;
    for port in ports {
        server.add_port(port)?;
    }
    server.run()
}

impl Server {
    fn new(clients: Clients) -> io::Result<Self> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let server = Self {
            poller,
            signals: os::signals(&[libc::SIGCHLD])?,
            clients,
            listener: None,
            ports: BTreeMap::new(),
            next_port: 0,
            sessions: BTreeMap::new(),
            turn: 0,
            readiness: Readiness::Ready,
            buffer: Vec::new(),
            stopped: false,
        };
        server.watch(server.signals.as_fd(), OTHER)?;
        Ok(server)
    }

    fn watch(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        Ok(epoll::add(
            &self.poller,
            fd,
            epoll::EventData::new_u64(token),
            flags,
        )?)
    }

    fn add_port(&mut self, fd: OwnedFd) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        let number = self.next_port;
        self.next_port += 1;
        self.watch(&fd, number)?;
        self.ports.insert(number, Port::new(fd));
        Ok(())
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(64);
        loop {
            let mut progress = self.reap();
            for number in self.ports.keys().copied().collect::<Vec<_>>() {
                progress |= self.serve_port(number)?;
            }
            progress |= self.serve_sessions()?;
            for port in self.ports.values_mut() {
                progress |= port.flush();
            }
            if self.stopped {
                return Ok(());
            }
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let timeout = progress.then_some(&now);
            events.clear();
            match epoll::wait(&self.poller, spare_capacity(&mut events), timeout) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    token => {
                        if let Some(port) = self.ports.get_mut(&token) {
                            port.readable = true;
                        }
                    }
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) {
            self.add_port(stream.into())?;
        }
        Ok(())
    }

    fn serve_port(&mut self, number: u64) -> io::Result<bool> {
        let Some(port) = self.ports.get_mut(&number) else {
            return Ok(false);
        };
        if !port.readable || !port.outbox.has_room() {
            return Ok(false);
        }
        match port.read(&mut self.buffer) {
            Input::None => return Ok(false),
            Input::Some => {}
            Input::Ended => {
                self.end_sessions(number);
                match self.clients {
                    Clients::Return => {
                        if let Some(port) = self.ports.get_mut(&number) {
                            port.client_gone();
                        }
                    }
                    Clients::Connect => drop(self.ports.remove(&number)),
                    Clients::One => self.stopped = true,
                }
                return Ok(false);
            }
        }
        while let Some(message) = self
            .ports
            .get_mut(&number)
            .and_then(|port| port.inbox.next())
        {
            if let Message::Hello { nonce, .. } = message {
                self.greet(number, nonce)?;
            } else if let Some(answer) = self.act(number, message) {
                self.say(number, &answer)?;
            }
        }
        Ok(true)
    }

    fn say(&mut self, number: u64, message: &Message) -> io::Result<()> {
        match self.ports.get_mut(&number) {
            Some(port) => port.outbox.push(message),
            None => Ok(()),
        }
    }

    /// A client begins: what a former one of the port had running ends.
    fn greet(&mut self, number: u64, nonce: u64) -> io::Result<()> {
        self.end_sessions(number);
        let answer = Message::HelloAck {
            version: VERSION,
            nonce,
            guest_monotonic_ns: latlab_probe::now_ns(),
            failure: match &self.readiness {
                Readiness::Unusable(message) => Some(message.clone()),
                Readiness::Ready | Readiness::Waiting => None,
            },
        };
        match self.ports.get_mut(&number) {
            Some(port) => port.answer(&answer),
            None => Ok(()),
        }
    }

    /// Acts on one message; returns what is to be said at once.
    fn act(&mut self, number: u64, message: Message) -> Option<Message> {
        match message {
            Message::Exec { session, exec } => self.start(number, session, &exec),
            Message::Data { session, data, .. } => {
                let process = self.sessions.get_mut(&(number, session))?;
                if process.receive(&data) {
                    return None;
                }
                self.end_session((number, session));
                let message = "the client sent input beyond its credit".into();
                Some(failed(session, 0, message))
            }
            Message::End { session, .. } => {
                self.sessions.get_mut(&(number, session))?.end_input();
                None
            }
            Message::Credit {
                session,
                stream,
                bytes,
            } => {
                self.sessions
                    .get_mut(&(number, session))?
                    .add_credit(stream, bytes);
                None
            }
            Message::Signal { session, signal } => {
                let signal = Signal::from_named_raw(i32::from(signal))?;
                // A group that is gone needs no signal; its end is being reported.
                let _ = self.sessions.get(&(number, session))?.signal(signal);
                None
            }
            Message::Network { session, config } => Some(match network::apply(&config) {
                Ok(()) => Message::Done { session },
                Err(error) => failed(session, error.errno(), error.to_string()),
            }),
            Message::Identify { session, identity } => Some(self.identify(session, &identity)),
            Message::Renew { session, renewal } => Some(match identity::renew(&renewal) {
                Ok(()) => Message::Done { session },
                Err(message) => failed(session, 0, message),
            }),
            Message::PowerOff => {
                self.stopped = true;
                None
            }
            // Greetings are answered elsewhere; what only an agent says means nothing to one.
            Message::Hello { .. }
            | Message::HelloAck { .. }
            | Message::Exit { .. }
            | Message::Done { .. }
            | Message::Failed { .. } => None,
        }
    }

    fn identify(&mut self, session: u32, identity: &Identity) -> Message {
        let taken = match &self.readiness {
            Readiness::Waiting => identity::take(identity),
            Readiness::Ready => identity::change(identity),
            Readiness::Unusable(message) => Err(message.clone()),
        };
        match taken {
            Ok(()) => {
                self.readiness = Readiness::Ready;
                Message::Done { session }
            }
            Err(message) => {
                if self.readiness == Readiness::Waiting {
                    self.readiness = Readiness::Unusable(message.clone());
                }
                failed(session, 0, message)
            }
        }
    }

    fn start(&mut self, number: u64, session: u32, exec: &Exec) -> Option<Message> {
        let failed = |errno, message| Some(failed(session, errno, message));
        match &self.readiness {
            Readiness::Ready => {}
            Readiness::Waiting => return failed(0, "the guest waits for an identity".into()),
            Readiness::Unusable(failure) => return failed(0, failure.clone()),
        }
        if self.sessions.contains_key(&(number, session)) {
            self.end_session((number, session));
            return failed(0, format!("session {session} was started twice"));
        }
        if exec.detach {
            return match start_detached(exec) {
                Ok(()) => Some(Message::Exit {
                    session,
                    status: ExitStatus::Code(0),
                }),
                Err(error) => failed(error.errno(), error.to_string()),
            };
        }
        match Session::start(session, exec) {
            Ok(process) => {
                let watched = process.pipes().try_for_each(|pipe| self.watch(pipe, OTHER));
                self.sessions.insert((number, session), process);
                if let Err(error) = watched {
                    self.end_session((number, session));
                    return failed(0, format!("watch the process's streams: {error}"));
                }
                None
            }
            Err(error) => failed(error.errno(), error.to_string()),
        }
    }

    fn serve_sessions(&mut self) -> io::Result<bool> {
        let mut progress = false;
        let mut keys: Vec<_> = self.sessions.keys().copied().collect();
        if !keys.is_empty() {
            self.turn = self.turn.wrapping_add(1);
            let first = self.turn % keys.len();
            keys.rotate_left(first);
        }
        for key in keys {
            let (Some(session), Some(port)) =
                (self.sessions.get_mut(&key), self.ports.get_mut(&key.0))
            else {
                continue;
            };
            match session.turn(&mut port.outbox)? {
                Turn::Idle => {}
                Turn::Progress => progress = true,
                Turn::Over => {
                    self.sessions.remove(&key);
                    progress = true;
                }
            }
        }
        Ok(progress)
    }

    /// Kills and forgets everything a client started; detached processes are not among it.
    fn end_sessions(&mut self, number: u64) {
        let keys: Vec<_> = self
            .sessions
            .range((number, 0)..=(number, u32::MAX))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            self.end_session(key);
        }
    }

    fn end_session(&mut self, key: (u64, u32)) {
        if let Some(session) = self.sessions.remove(&key) {
            // The process may have just ended; it is reaped either way.
            let _ = session.signal(Signal::KILL);
        }
    }

    /// Collects ended children: sessions' processes and, in a guest, every orphan.
    fn reap(&mut self) -> bool {
        let mut information = [0; 128];
        // The signal's contents do not matter: signals merge, children are asked for one by one.
        let _ = rustix::io::read(&self.signals, &mut information[..]);
        let mut progress = false;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            progress = true;
            let status = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => ExitStatus::Code(code as u8),
                (None, Some(signal)) => ExitStatus::Signal(signal as u8),
                (None, None) => continue,
            };
            let mut sessions = self.sessions.values_mut();
            if let Some(session) = sessions.find(|session| session.pid() == pid) {
                session.set_status(status);
            }
        }
        progress
    }
}

fn failed(session: u32, errno: u32, message: String) -> Message {
    Message::Failed {
        session,
        errno,
        message,
    }
}
