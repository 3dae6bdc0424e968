//! The host's end of a guest's command channel: processes in the guest as sessions with ordinary
//! readers and writers.
//!
//! **Who may talk when.** QEMU hands a virtio-serial port's socket to one client at a time, yet several
//! `latlab` invocations must reach one guest at once: a deploy that still configures it, a run that
//! measures in it, a person with two terminals. So each guest has [`PORTS`] ports, each a channel of its
//! own; a client takes the first whose lock file it can lock, and keeps the lock as long as it uses the
//! port. The kernel drops the lock with its holder, however that dies; the next client of the port then
//! begins with a preamble and a `Hello`, and the agent ends what the former client had running. The
//! alternative, a broker process for each guest, would be one more process to start, watch, journal and
//! kill, and on the path of every byte. The number is a constant of the guest's hardware; a client that
//! finds all ports taken waits, and is told so when it has waited long enough.
//!
//! **Threads.** A reader thread gives each message to its session; callers block in their session's
//! `read`, `write` and `wait` only. Data waits in the session, at most a window of it (see
//! [`latlab_wire::channel`]), so a session nobody reads stops its own process and nothing else.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use latlab_wire::channel::{
    Decoder, Exec, ExitStatus, MAX_PAYLOAD, Message, NetworkConfig, PREAMBLE_BYTES, Stream,
    UNLIMITED_CREDIT, VERSION, WINDOW_BYTES, encode,
};

use crate::nodes::session;
use crate::sys::file::Lock;

/// Channel ports of a guest, each for one client at a time.
pub const PORTS: usize = 8;
/// How often a wait looks whether the guest still lives.
const HEALTH_INTERVAL: Duration = Duration::from_millis(20);
/// How often a busy set of ports, or a socket that is not there yet, is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);
/// A stream that takes nothing for this long is dead: the guest is stopped, or its agent hangs.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// Consumed output is reported in portions of this.
const CREDIT_BYTES: u32 = WINDOW_BYTES / 4;

/// What can go wrong between the host and a guest's agent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Every port has a client.
    #[error(
        "cannot reach the guest: all {PORTS} channel ports are in use (waited {} s)",
        waited.as_secs()
    )]
    Busy {
        /// How long.
        waited: Duration,
    },
    /// The socket of a port could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Socket {
        /// What was done to it.
        action: &'static str,
        /// The socket or its lock.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The lock of a port could not be used.
    #[error(transparent)]
    Lock(#[from] crate::sys::Error),
    /// No answer in time.
    #[error("the guest's agent did not answer {what} within {:.1} s", after.as_secs_f64())]
    Silent {
        /// What it was asked.
        what: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// The guest ended, or the stream to it did.
    #[error("the channel to the guest is closed: {reason}")]
    Closed {
        /// Why.
        reason: String,
    },
    /// The agent says the guest is unusable.
    #[error("the guest is unusable: {message}")]
    Unusable {
        /// In the agent's words.
        message: String,
    },
    /// The agent is of another version.
    #[error(
        "the guest's agent speaks protocol {agent}, this latlab {VERSION}; deploy the lab again"
    )]
    Version {
        /// The agent's.
        agent: u16,
    },
    /// The agent refused.
    #[error("in the guest: {message}")]
    Refused {
        /// Error number in the guest, or 0.
        errno: u32,
        /// In the agent's words.
        message: String,
    },
    /// The request does not fit.
    #[error(transparent)]
    TooLong(#[from] latlab_wire::channel::TooLong),
}

/// A connection to a guest's agent. Shared freely between threads; sessions keep it alive.
#[derive(Clone)]
pub struct Channel {
    link: Arc<Link>,
    demux: Arc<Demux>,
}

/// The writing half. When the last user drops it the socket closes, which ends the reader thread.
struct Link {
    stream: Mutex<UnixStream>,
    next_session: AtomicU32,
    /// Keeps other clients off this port.
    _lock: Option<Lock>,
}

impl Drop for Link {
    fn drop(&mut self) {
        // Already disconnected is as good.
        let _ = lock(&self.stream).shutdown(Shutdown::Both);
    }
}

/// What the reader thread fills.
#[derive(Default)]
struct Demux {
    state: Mutex<DemuxState>,
    changed: Condvar,
}

#[derive(Default)]
struct DemuxState {
    sessions: HashMap<u32, Arc<Shared>>,
    hello: Option<Hello>,
    nonce: u64,
    pong: Option<(u64, u64)>,
    closed: Option<String>,
}

/// The agent's answer to a greeting.
#[derive(Debug, Clone)]
struct Hello {
    version: u16,
    guest_monotonic_ns: u64,
    failure: Option<String>,
}

/// One session, between its user and the reader thread.
struct Shared {
    state: Mutex<SessionState>,
    changed: Condvar,
}

struct SessionState {
    outputs: [Buffer; 2],
    input_credit: u32,
    result: Option<Result<ExitStatus, Failure>>,
}

#[derive(Default)]
struct Buffer {
    bytes: VecDeque<u8>,
    ended: bool,
    /// Nobody will read it: what comes is thrown away, and the agent need not count it.
    dropped: bool,
    consumed: u32,
}

#[derive(Debug, Clone)]
enum Failure {
    Refused { errno: u32, message: String },
    Closed { reason: String },
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused { errno, message } => Self::Refused { errno, message },
            Failure::Closed { reason } => Self::Closed { reason },
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The socket of channel port `index` in a guest's directory.
pub fn socket_path(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("port{index}.sock"))
}

impl Channel {
    /// Connects to a free port of the guest whose sockets are in `dir`, and waits until its agent
    /// answers. `health` is asked now and then whether waiting still makes sense.
    ///
    /// # Errors
    /// What `health` reports; [`Error::Busy`]; [`Error::Silent`] after `patience`; and what the agent
    /// says of itself.
    pub fn open<E: From<Error>>(
        dir: &Path,
        patience: Duration,
        mut health: impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        let start = Instant::now();
        let (lock, path) = loop {
            health()?;
            if let Some(free) = free_port(dir)? {
                break free;
            }
            let waited = start.elapsed();
            if waited > patience {
                return Err(Error::Busy { waited }.into());
            }
            std::thread::sleep(HEALTH_INTERVAL);
        };
        let stream = loop {
            match UnixStream::connect(&path) {
                Ok(stream) => break stream,
                Err(error) if start.elapsed() < patience && is_not_there_yet(&error) => health()?,
                Err(source) => {
                    return Err(Error::Socket {
                        action: "connect to",
                        path,
                        source,
                    }
                    .into());
                }
            }
            std::thread::sleep(RETRY_INTERVAL);
        };
        let channel = Self::begin(stream, Some(lock))?;
        channel.await_hello(patience.saturating_sub(start.elapsed()), start, &mut health)?;
        Ok(channel)
    }

    /// Speaks to an agent at the other end of a connected socket.
    ///
    /// # Errors
    /// As [`Channel::open`].
    pub fn on_stream(stream: UnixStream, patience: Duration) -> Result<Self, Error> {
        let channel = Self::begin(stream, None)?;
        channel.await_hello::<Error>(patience, Instant::now(), &mut || Ok(()))?;
        Ok(channel)
    }

    fn begin(mut stream: UnixStream, port_lock: Option<Lock>) -> Result<Self, Error> {
        // Differs from that of any former client of the port, whose answer may still be under way.
        let nonce = latlab_nonce();
        let failed = |source| Error::Closed {
            reason: format!("greet the agent: {source}"),
        };
        let mut greeting = vec![0; PREAMBLE_BYTES];
        encode(
            &Message::Hello {
                version: VERSION,
                nonce,
            },
            &mut greeting,
        )?;
        stream
            .set_write_timeout(Some(WRITE_PATIENCE))
            .and_then(|()| stream.write_all(&greeting))
            .map_err(failed)?;
        let reader = stream.try_clone().map_err(failed)?;
        let demux = Arc::new(Demux::default());
        lock(&demux.state).nonce = nonce;
        let link = Link {
            stream: Mutex::new(stream),
            next_session: AtomicU32::new(1),
            _lock: port_lock,
        };
        let channel = Self {
            link: Arc::new(link),
            demux: Arc::clone(&demux),
        };
        std::thread::Builder::new()
            .name("latlab-channel".into())
            .spawn(move || demux.read_from(reader))
            .map_err(failed)?;
        Ok(channel)
    }

    fn await_hello<E: From<Error>>(
        &self,
        patience: Duration,
        start: Instant,
        health: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let deadline = Instant::now() + patience;
        let hello = loop {
            let found = self.demux.wait(Instant::now() + HEALTH_INTERVAL, |state| {
                state.hello.clone()
            });
            match found {
                Ok(Some(hello)) => break hello,
                // The guest's end explains a closed channel better than the channel does.
                Ok(None) => health()?,
                Err(error) => {
                    std::thread::sleep(HEALTH_INTERVAL);
                    health()?;
                    return Err(error.into());
                }
            }
            if Instant::now() > deadline {
                return Err(Error::Silent {
                    what: "the greeting",
                    after: start.elapsed(),
                }
                .into());
            }
        };
        if hello.version != VERSION {
            return Err(Error::Version {
                agent: hello.version,
            }
            .into());
        }
        match hello.failure {
            Some(message) => Err(Error::Unusable { message }.into()),
            None => Ok(()),
        }
    }

    /// The guest's monotonic clock when it answered the greeting, in nanoseconds.
    pub fn guest_monotonic_ns_at_hello(&self) -> u64 {
        lock(&self.demux.state)
            .hello
            .as_ref()
            .map_or(0, |hello| hello.guest_monotonic_ns)
    }

    /// Starts a process in the guest. A program that cannot be started shows in [`Session::wait`].
    ///
    /// # Errors
    /// When the command does not fit a frame, or the channel is closed.
    pub fn exec(&self, exec: Exec) -> Result<Session, Error> {
        let shared = Arc::new(Shared {
            state: Mutex::new(SessionState {
                outputs: Default::default(),
                input_credit: WINDOW_BYTES,
                result: None,
            }),
            changed: Condvar::new(),
        });
        let number = self.register(&shared)?;
        if let Err(error) = self.link.send(&Message::Exec {
            session: number,
            exec,
        }) {
            lock(&self.demux.state).sessions.remove(&number);
            return Err(error);
        }
        let handle = Handle {
            channel: self.clone(),
            number,
            shared,
        };
        Ok(Session {
            stdin: Some(Input {
                handle: handle.clone(),
            }),
            stdout: Some(Output {
                handle: handle.clone(),
                stream: Stream::Stdout,
            }),
            stderr: Some(Output {
                handle: handle.clone(),
                stream: Stream::Stderr,
            }),
            handle,
        })
    }

    fn register(&self, shared: &Arc<Shared>) -> Result<u32, Error> {
        let number = self.link.next_session.fetch_add(1, Ordering::Relaxed);
        let mut state = lock(&self.demux.state);
        if let Some(reason) = &state.closed {
            return Err(Error::Closed {
                reason: reason.clone(),
            });
        }
        state.sessions.insert(number, Arc::clone(shared));
        Ok(number)
    }

    /// Runs a process to its end with `input` on its standard input.
    ///
    /// # Errors
    /// When it cannot be started, or does not end within `patience` (it is then killed).
    pub fn run(&self, exec: Exec, input: &[u8], patience: Duration) -> Result<Finished, Error> {
        let mut session = self.exec(exec)?;
        let (stdin, stdout, stderr) = (
            session.stdin.take(),
            session.stdout.take(),
            session.stderr.take(),
        );
        std::thread::scope(|scope| {
            scope.spawn(move || {
                if let Some(mut stdin) = stdin {
                    // A process that does not read its input is no error; its status tells.
                    let _ = stdin.write_all(input);
                }
            });
            let collect = |output: Option<Output>| {
                scope.spawn(move || {
                    let mut bytes = Vec::new();
                    if let Some(mut output) = output {
                        // A closed channel shows in the wait below.
                        let _ = output.read_to_end(&mut bytes);
                    }
                    bytes
                })
            };
            let (stdout, stderr) = (collect(stdout), collect(stderr));
            let status = session.wait_for(patience);
            if status.is_err() {
                // Ends the three threads. The channel may be the thing that failed; then they end too.
                let _ = session.signal(9);
                session.handle.abandon();
            }
            let joined = |thread: std::thread::ScopedJoinHandle<'_, Vec<u8>>| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            let (stdout, stderr) = (joined(stdout), joined(stderr));
            Ok(Finished {
                status: status?,
                stdout,
                stderr,
            })
        })
    }

    /// Writes everything from `source` to a file in the guest, atomically, with this mode.
    ///
    /// # Errors
    /// When either side's file fails; nothing is left half written in the guest.
    pub fn put(&self, source: &mut dyn Read, path: &str, mode: u32) -> Result<(), Error> {
        let mut session = self.exec(agent(&["put", path, &format!("{mode:o}")]))?;
        let copied = session
            .stdin
            .take()
            .map_or(Ok(0), |mut stdin| io::copy(source, &mut stdin));
        if let Err(error) = &copied
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            // Without this the agent would take the end of a failed copy for the end of the file.
            session.signal(9)?;
        }
        session.finish_tool()?;
        copied.map(|_| ()).map_err(|error| Error::Refused {
            errno: error.raw_os_error().unwrap_or(0).unsigned_abs(),
            message: format!("send the content of {path}: {error}"),
        })
    }

    /// Copies a file of the guest to `target`; returns how many bytes it had.
    ///
    /// # Errors
    /// When either side's file fails.
    pub fn get(&self, path: &str, target: &mut dyn Write) -> Result<u64, Error> {
        let mut session = self.exec(agent(&["get", path]))?;
        drop(session.stdin.take());
        let copied = session
            .stdout
            .take()
            .map_or(Ok(0), |mut stdout| io::copy(&mut stdout, target));
        session.finish_tool()?;
        copied.map_err(|error| Error::Refused {
            errno: error.raw_os_error().unwrap_or(0).unsigned_abs(),
            message: format!("receive the content of {path}: {error}"),
        })
    }

    /// Sets the guest's network up; returns when its links have carrier.
    ///
    /// # Errors
    /// What the guest's kernel refused; [`Error::Silent`] after `patience`.
    pub fn configure_network(
        &self,
        config: NetworkConfig,
        patience: Duration,
    ) -> Result<(), Error> {
        let shared = Arc::new(Shared {
            state: Mutex::new(SessionState {
                outputs: Default::default(),
                input_credit: 0,
                result: None,
            }),
            changed: Condvar::new(),
        });
        let number = self.register(&shared)?;
        let handle = Handle {
            channel: self.clone(),
            number,
            shared,
        };
        self.link.send(&Message::Network {
            session: number,
            config,
        })?;
        handle.wait_for(patience, "the network request").map(|_| ())
    }

    /// Round trip to the agent, and its monotonic clock (nanoseconds) when it answered.
    ///
    /// # Errors
    /// [`Error::Silent`] after `patience`.
    pub fn ping(&self, patience: Duration) -> Result<(Duration, u64), Error> {
        let token = latlab_nonce();
        let start = Instant::now();
        self.link.send(&Message::Ping { token })?;
        let answer = self.demux.wait(start + patience, |state| {
            state.pong.filter(|(answered, _)| *answered == token)
        })?;
        match answer {
            Some((_, guest_ns)) => Ok((start.elapsed(), guest_ns)),
            None => Err(Error::Silent {
                what: "a ping",
                after: start.elapsed(),
            }),
        }
    }

    /// Asks the guest to turn itself off. It does not answer; its QEMU ends.
    ///
    /// # Errors
    /// When the channel is closed.
    pub fn power_off(&self) -> Result<(), Error> {
        self.link.send(&Message::PowerOff)
    }
}

/// A command of the agent's own.
fn agent(arguments: &[&str]) -> Exec {
    let argv = std::iter::once("latlab-agent").chain(arguments.iter().copied());
    Exec {
        argv: argv.map(str::to_owned).collect(),
        ..Exec::default()
    }
}

fn is_not_there_yet(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

/// Locks the first port nobody uses.
fn free_port(dir: &Path) -> Result<Option<(Lock, PathBuf)>, Error> {
    for index in 0..PORTS {
        let lock = Lock::take(&dir.join(format!("port{index}.lock")), Duration::ZERO)?;
        if let Some(lock) = lock {
            return Ok(Some((lock, socket_path(dir, index))));
        }
    }
    Ok(None)
}

/// A number no other client uses: the process and a clock that only grows.
fn latlab_nonce() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    (u64::from(std::process::id()) << 40) ^ (now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

impl Link {
    fn send(&self, message: &Message) -> Result<(), Error> {
        let mut frame = Vec::new();
        encode(message, &mut frame)?;
        let mut stream = lock(&self.stream);
        stream.write_all(&frame).map_err(|source| {
            // A frame may be half out: nothing that follows would be understood.
            let _ = stream.shutdown(Shutdown::Both);
            Error::Closed {
                reason: format!("write to the guest: {source}"),
            }
        })
    }
}

impl Demux {
    /// The reader thread. It never writes: a full pipe towards the guest may wait for the guest to be
    /// read from, so whoever reads must not wait for a writer.
    fn read_from(&self, mut stream: UnixStream) {
        let mut decoder = Decoder::default();
        let mut buffer = vec![0; 64 * 1024];
        let reason = 'read: loop {
            match stream.read(&mut buffer) {
                Ok(0) => break "the guest ended".to_owned(),
                Ok(count) => decoder.push(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break format!("read from the guest: {error}"),
            }
            for message in decoder.by_ref() {
                if let Err(reason) = self.deliver(message) {
                    break 'read reason;
                }
            }
        };
        let _ = stream.shutdown(Shutdown::Both);
        let mut state = lock(&self.state);
        for session in state.sessions.drain().map(|(_, session)| session) {
            session.finish(Err(Failure::Closed {
                reason: reason.clone(),
            }));
        }
        state.closed = Some(reason);
        self.changed.notify_all();
    }

    fn deliver(&self, message: Message) -> Result<(), String> {
        let mut state = lock(&self.state);
        match message {
            Message::HelloAck {
                version,
                nonce,
                guest_monotonic_ns,
                failure,
            } => {
                if nonce == state.nonce {
                    state.hello = Some(Hello {
                        version,
                        guest_monotonic_ns,
                        failure,
                    });
                    self.changed.notify_all();
                }
            }
            // Before our own greeting is answered, everything is a former client's.
            _ if state.hello.is_none() => {}
            Message::Pong {
                token,
                guest_monotonic_ns,
            } => {
                state.pong = Some((token, guest_monotonic_ns));
                self.changed.notify_all();
            }
            Message::Data {
                session,
                stream,
                data,
            } => {
                let Some(shared) = state.sessions.get(&session).cloned() else {
                    return Ok(());
                };
                drop(state);
                shared.receive(stream, &data)?;
            }
            Message::End { session, stream } => {
                if let Some(shared) = state.sessions.get(&session) {
                    shared.end(stream);
                }
            }
            Message::Credit { session, bytes, .. } => {
                if let Some(shared) = state.sessions.get(&session) {
                    shared.add_credit(bytes);
                }
            }
            Message::Exit { session, status } => {
                if let Some(shared) = state.sessions.remove(&session) {
                    shared.finish(Ok(status));
                }
            }
            Message::Done { session } => {
                if let Some(shared) = state.sessions.remove(&session) {
                    shared.finish(Ok(ExitStatus::Code(0)));
                }
            }
            Message::Failed {
                session,
                errno,
                message,
            } => {
                if let Some(shared) = state.sessions.remove(&session) {
                    shared.finish(Err(Failure::Refused { errno, message }));
                }
            }
            // What only a host says means nothing to one.
            Message::Hello { .. }
            | Message::Exec { .. }
            | Message::Signal { .. }
            | Message::Network { .. }
            | Message::Ping { .. }
            | Message::PowerOff => {}
        }
        Ok(())
    }

    /// Waits until `look` finds something, the deadline passes (`None`) or the channel closes.
    fn wait<T>(
        &self,
        deadline: Instant,
        look: impl Fn(&DemuxState) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let mut state = lock(&self.state);
        loop {
            if let Some(found) = look(&state) {
                return Ok(Some(found));
            }
            if let Some(reason) = &state.closed {
                return Err(Error::Closed {
                    reason: reason.clone(),
                });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl SessionState {
    fn output(&mut self, stream: Stream) -> &mut Buffer {
        &mut self.outputs[usize::from(stream == Stream::Stderr)]
    }
}

impl Shared {
    /// Stores output, unless nobody wants it. An agent that sends more than it may is not ours.
    fn receive(&self, stream: Stream, data: &[u8]) -> Result<(), String> {
        let mut state = lock(&self.state);
        let buffer = state.output(stream);
        if buffer.dropped {
            return Ok(());
        }
        if buffer.bytes.len() + data.len() > WINDOW_BYTES as usize {
            return Err("the agent sent output beyond its credit".into());
        }
        buffer.bytes.extend(data);
        self.changed.notify_all();
        Ok(())
    }

    fn end(&self, stream: Stream) {
        lock(&self.state).output(stream).ended = true;
        self.changed.notify_all();
    }

    fn add_credit(&self, bytes: u32) {
        let mut state = lock(&self.state);
        state.input_credit = state.input_credit.saturating_add(bytes);
        self.changed.notify_all();
    }

    fn finish(&self, result: Result<ExitStatus, Failure>) {
        let mut state = lock(&self.state);
        for buffer in &mut state.outputs {
            buffer.ended = true;
        }
        state.result.get_or_insert(result);
        self.changed.notify_all();
    }

    fn wait<'a>(&self, state: MutexGuard<'a, SessionState>) -> MutexGuard<'a, SessionState> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's number and state, shared by its parts.
#[derive(Clone)]
struct Handle {
    channel: Channel,
    number: u32,
    shared: Arc<Shared>,
}

impl Handle {
    fn wait_for(&self, patience: Duration, what: &'static str) -> Result<ExitStatus, Error> {
        let start = Instant::now();
        let mut state = lock(&self.shared.state);
        loop {
            if let Some(result) = &state.result {
                return result.clone().map_err(Error::from);
            }
            let left = patience.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(Error::Silent {
                    what,
                    after: patience,
                });
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives the session up on this side, so that its readers and writers end.
    fn abandon(&self) {
        lock(&self.channel.demux.state)
            .sessions
            .remove(&self.number);
        self.shared.finish(Err(Failure::Closed {
            reason: "the session was given up".into(),
        }));
    }

    fn signal(&self, signal: u8) -> Result<(), Error> {
        self.channel.link.send(&Message::Signal {
            session: self.number,
            signal,
        })
    }
}

/// A process in the guest.
pub struct Session {
    /// Its standard input; dropping it is the end of the input.
    pub stdin: Option<Input>,
    /// Its standard output. Dropped, what comes is thrown away.
    pub stdout: Option<Output>,
    /// Its standard error.
    pub stderr: Option<Output>,
    handle: Handle,
}

/// What [`Channel::run`] returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How the process ended.
    pub status: ExitStatus,
    /// All its standard output.
    pub stdout: Vec<u8>,
    /// All its standard error.
    pub stderr: Vec<u8>,
}

impl Session {
    /// Sends a signal (numbered as on Linux/x86) to the process and its group.
    ///
    /// # Errors
    /// When the channel is closed.
    pub fn signal(&self, signal: u8) -> Result<(), Error> {
        self.handle.signal(signal)
    }

    /// Waits for its end. Its output should be read meanwhile, or dropped: a process that cannot write
    /// does not end.
    ///
    /// # Errors
    /// [`Error::Refused`] when it could not be started; [`Error::Closed`] when the guest went away.
    pub fn wait(&self) -> Result<ExitStatus, Error> {
        let mut state = lock(&self.handle.shared.state);
        loop {
            if let Some(result) = &state.result {
                return result.clone().map_err(Error::from);
            }
            state = self.handle.shared.wait(state);
        }
    }

    /// Waits for its end, but no longer than `patience`.
    ///
    /// # Errors
    /// As [`Session::wait`], and [`Error::Silent`].
    pub fn wait_for(&self, patience: Duration) -> Result<ExitStatus, Error> {
        self.handle.wait_for(patience, "with the process's end")
    }

    /// Ends one of the agent's own small programs: its words on failure become the error.
    fn finish_tool(mut self) -> Result<(), Error> {
        drop((self.stdin.take(), self.stdout.take()));
        let mut words = String::new();
        if let Some(mut stderr) = self.stderr.take() {
            // A closed channel shows in the wait.
            let _ = stderr.read_to_string(&mut words);
        }
        match self.wait()? {
            ExitStatus::Code(0) => Ok(()),
            status => {
                let words = words.trim().trim_start_matches("latlab-agent: ");
                let message = if words.is_empty() {
                    format!("ended with {status:?}")
                } else {
                    words.into()
                };
                Err(Error::Refused { errno: 0, message })
            }
        }
    }
}

/// Writes a process's standard input.
pub struct Input {
    handle: Handle,
}

impl Write for Input {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let mut state = lock(&self.handle.shared.state);
        let count = loop {
            if state.result.is_some() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if state.input_credit > 0 {
                break data.len().min(MAX_PAYLOAD).min(state.input_credit as usize);
            }
            state = self.handle.shared.wait(state);
        };
        state.input_credit -= count as u32;
        drop(state);
        let (session, data) = (self.handle.number, data[..count].to_vec());
        let message = Message::Data {
            session,
            stream: Stream::Stdin,
            data,
        };
        self.handle
            .channel
            .link
            .send(&message)
            .map_err(io::Error::other)?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        let message = Message::End {
            session: self.handle.number,
            stream: Stream::Stdin,
        };
        // On a closed channel there is nobody to tell.
        let _ = self.handle.channel.link.send(&message);
    }
}

/// Reads a process's output.
pub struct Output {
    handle: Handle,
    stream: Stream,
}

impl Read for Output {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let mut state = lock(&self.handle.shared.state);
        while state.output(self.stream).bytes.is_empty() {
            if let Some(Err(Failure::Closed { reason })) = &state.result {
                return Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    reason.clone(),
                ));
            }
            if state.output(self.stream).ended {
                return Ok(0);
            }
            state = self.handle.shared.wait(state);
        }
        let running = state.result.is_none();
        let buffer = state.output(self.stream);
        let count = buffer.bytes.read(target)?;
        buffer.consumed += count as u32;
        let bytes = buffer.consumed;
        if running && bytes >= CREDIT_BYTES {
            buffer.consumed = 0;
            drop(state);
            let (session, stream) = (self.handle.number, self.stream);
            // On a closed channel no more will come; what is here can still be read.
            let _ = self.handle.channel.link.send(&Message::Credit {
                session,
                stream,
                bytes,
            });
        }
        Ok(count)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let mut state = lock(&self.handle.shared.state);
        let running = state.result.is_none();
        let buffer = state.output(self.stream);
        buffer.dropped = true;
        buffer.bytes.clear();
        let ended = buffer.ended;
        drop(state);
        if running && !ended {
            let (session, stream) = (self.handle.number, self.stream);
            let credit = Message::Credit {
                session,
                stream,
                bytes: UNLIMITED_CREDIT,
            };
            // On a closed channel there is nobody to tell.
            let _ = self.handle.channel.link.send(&credit);
        }
    }
}

impl session::Session for Session {
    fn take_stdin(&mut self) -> Option<Box<dyn Write + Send>> {
        self.stdin.take().map(|stdin| Box::new(stdin) as _)
    }

    fn take_stdout(&mut self) -> Option<Box<dyn Read + Send>> {
        self.stdout.take().map(|stdout| Box::new(stdout) as _)
    }

    fn take_stderr(&mut self) -> Option<Box<dyn Read + Send>> {
        self.stderr.take().map(|stderr| Box::new(stderr) as _)
    }

    fn signaller(&self) -> session::Signaller {
        let handle = self.handle.clone();
        Box::new(move |signal| {
            let signal = u8::try_from(signal)?;
            Ok(handle.signal(signal)?)
        })
    }

    fn wait(&mut self) -> Result<session::Exit, session::Error> {
        Ok(match Session::wait(self)? {
            ExitStatus::Code(code) => session::Exit::Code(code.into()),
            ExitStatus::Signal(signal) => session::Exit::Signal(signal.into()),
        })
    }
}

/// A node's command in the channel's terms.
pub fn exec_of(command: &session::Command) -> Exec {
    Exec {
        argv: command.argv.clone(),
        env: command
            .env
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        cwd: command.cwd.clone(),
        ..Exec::default()
    }
}
