//! The host's end of a guest's command channel: processes in the guest as sessions with ordinary
//! readers and writers.
//!
//! **Who may talk when.** QEMU hands a virtio-serial port's socket to one client at a time, yet several
//! `latlab` invocations must reach one guest at once: a deploy that still configures it, a run that
//! measures in it, a person with two terminals. So each guest has `PORTS` ports, each a channel of its
//! own; a client takes the first whose lock file it can lock, and keeps the lock as long as it uses the
//! port. The kernel drops the lock with its holder, however that dies; the next client of the port then
//! begins with a preamble and a `Hello`, and the agent ends what the former client had running. The
//! alternative, a broker process for each guest, would be one more process to start, watch, journal and
//! kill, and on the path of every byte. The number is a constant of the guest's hardware; a client that
//! finds all ports taken waits, and is told so when it has waited long enough.
//!
//! **Threads.** A reader thread gives each message to its session; callers block in their session's
//! `read`, `write` and `wait` only. Data waits in the session, at most a window of it (see
//! [`latlab_wire::channel`]), so a session without a reader stops its own process and nothing else.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use latlab_wire::channel::{
    Exec, ExitStatus, Identity, Message, NetworkConfig, PREAMBLE_BYTES, Renewal, VERSION,
    WINDOW_BYTES, encode,
};

use super::paths::{PORTS, socket_path};
use crate::sync::lock;
use crate::sys::file::Lock;
use demux::Demux;
use error::MAX_OUTPUT;
use link::{Link, Port};
use session::Handle;
use shared::Shared;

mod demux;
pub(crate) mod error;
mod link;
mod session;
mod shared;

pub use error::Error;
pub use session::{Finished, Input, Output, Session, exec_of};

/// How often a wait looks whether the guest still lives.
const HEALTH_INTERVAL: Duration = Duration::from_millis(20);
/// How often a busy set of ports, or a socket that is not there yet, is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);
/// A small file is written within this.
const PUT_TIMEOUT: Duration = Duration::from_secs(20);
/// A stream that takes nothing for this long is dead: the guest is stopped, or its agent hangs.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to a guest's agent. Shared freely between threads; sessions keep it alive.
#[derive(Clone)]
pub struct Channel {
    link: Arc<Link>,
    demux: Arc<Demux>,
}

impl Channel {
    /// Connects to a free port of the guest whose sockets are in `dir`, and waits until its agent answers. `health` is
    /// asked now and then whether waiting still makes sense. Errors: those of `health`; [`Error::Busy`];
    /// [`Error::Silent`] after `timeout`; and failures that the agent reports.
    pub fn open<E: From<Error>>(
        dir: &Path,
        timeout: Duration,
        mut health: impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        let start = Instant::now();
        let port = loop {
            health()?;
            if let Some(port) = free_port(dir)? {
                break port;
            }
            let waited = start.elapsed();
            if waited > timeout {
                return Err(Error::Busy { waited }.into());
            }
            std::thread::sleep(HEALTH_INTERVAL);
        };
        let path = socket_path(dir, port.index);
        let stream = loop {
            match UnixStream::connect(&path) {
                Ok(stream) => break stream,
                Err(error) if start.elapsed() < timeout && is_not_there_yet(&error) => health()?,
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
        let channel = Self::begin(stream, Some(port))?;
        channel.await_hello(timeout.saturating_sub(start.elapsed()), start, &mut health)?;
        Ok(channel)
    }

    /// Speaks to an agent at the other end of a connected socket.
    pub fn on_stream(stream: UnixStream, timeout: Duration) -> Result<Self, Error> {
        let channel = Self::begin(stream, None)?;
        channel.await_hello::<Error>(timeout, Instant::now(), &mut || Ok(()))?;
        Ok(channel)
    }

    fn begin(mut stream: UnixStream, port: Option<Port>) -> Result<Self, Error> {
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
            .set_write_timeout(Some(WRITE_TIMEOUT))
            .and_then(|()| stream.write_all(&greeting))
            .map_err(failed)?;
        let reader = stream.try_clone().map_err(failed)?;
        let demux = Arc::new(Demux::default());
        lock(&demux.state).nonce = nonce;
        let link = Link {
            stream: Mutex::new(stream),
            next_session: AtomicU32::new(1),
            port: Mutex::new(port),
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
        timeout: Duration,
        start: Instant,
        health: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let deadline = Instant::now() + timeout;
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

    /// Starts a process in the guest. A program that cannot be started shows in [`Session::wait_for`]. Fails when the
    /// command does not fit a frame, or the channel is closed.
    pub fn exec(&self, exec: Exec) -> Result<Session, Error> {
        let handle = self.register(WINDOW_BYTES)?;
        let session = handle.number;
        if let Err(error) = self.link.send(&Message::Exec { session, exec }) {
            lock(&self.demux.state).sessions.remove(&session);
            return Err(error);
        }
        Ok(Session::new(handle))
    }

    /// A new session that may send this much input.
    fn register(&self, input_credit: u32) -> Result<Handle, Error> {
        let shared = Shared::new(input_credit);
        let number = self.link.next_session.fetch_add(1, Ordering::Relaxed);
        let mut state = lock(&self.demux.state);
        if let Some(reason) = &state.closed {
            return Err(Error::Closed {
                reason: reason.clone(),
            });
        }
        state.sessions.insert(number, Arc::clone(&shared));
        Ok(Handle {
            link: Arc::clone(&self.link),
            demux: Arc::clone(&self.demux),
            number,
            shared,
        })
    }

    /// Runs a process to its end with `input` on its standard input. Fails when it cannot be started, does not end
    /// within `timeout`, or writes more than `MAX_OUTPUT` (it is then killed).
    pub fn run(&self, exec: Exec, input: &[u8], timeout: Duration) -> Result<Finished, Error> {
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
                let handle = session.handle.clone();
                scope.spawn(move || {
                    let mut bytes = Vec::new();
                    if let Some(mut output) = output {
                        // A closed channel shows in the wait below.
                        let _ = output.by_ref().take(MAX_OUTPUT + 1).read_to_end(&mut bytes);
                        if bytes.len() as u64 > MAX_OUTPUT {
                            let _ = handle.signal(9);
                            handle.abandon();
                        }
                    }
                    bytes
                })
            };
            let (stdout, stderr) = (collect(stdout), collect(stderr));
            let status = session.wait_for(timeout);
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
            if stdout.len().max(stderr.len()) as u64 > MAX_OUTPUT {
                return Err(Error::TooMuch);
            }
            Ok(Finished {
                status: status?,
                stdout,
                stderr,
            })
        })
    }

    /// Writes a file in the guest, atomically.
    ///
    /// # Errors
    /// The guest cannot write it; [`Error::Silent`] after 20 s.
    pub fn put(&self, text: &str, path: &str) -> Result<(), Error> {
        let argv = ["latlab-agent", "put", path].map(str::to_owned).to_vec();
        let mut session = self.exec(Exec {
            argv,
            ..Exec::default()
        })?;
        let stdin = session.stdin.take();
        let written = stdin.map(|mut stdin| stdin.write_all(text.as_bytes()));
        let refused = |message: String| Error::Refused {
            errno: 0,
            message: format!("write {path}: {message}"),
        };
        match session.wait_for(PUT_TIMEOUT)? {
            ExitStatus::Code(0) => written
                .unwrap_or(Ok(()))
                .map_err(|error| refused(error.to_string())),
            status => Err(refused(format!("the agent ended with {status:?}"))),
        }
    }

    /// Sets the guest's network up; returns when its links have carrier.
    ///
    /// # Errors
    /// Refusals of the guest's kernel; [`Error::Silent`] after `timeout`.
    pub fn configure_network(&self, config: NetworkConfig, timeout: Duration) -> Result<(), Error> {
        self.request(
            |session| Message::Network { session, config },
            timeout,
            "the network request",
        )
    }

    /// Has a guest that waits become one of its own; returns when its root is mounted.
    ///
    /// # Errors
    /// A step that failed in the guest; [`Error::Silent`] after `timeout`.
    pub fn identify(&self, identity: Identity, timeout: Duration) -> Result<(), Error> {
        self.request(
            |session| Message::Identify { session, identity },
            timeout,
            "the guest's identity",
        )
    }

    /// Gives a guest that goes on where it was saved random numbers and the time of day.
    ///
    /// # Errors
    /// A step that failed in the guest; [`Error::Silent`] after `timeout`.
    pub fn renew(&self, renewal: Renewal, timeout: Duration) -> Result<(), Error> {
        self.request(
            |session| Message::Renew { session, renewal },
            timeout,
            "the renewal",
        )
    }

    /// Sends a request that is answered once, and waits for the answer.
    fn request(
        &self,
        message: impl FnOnce(u32) -> Message,
        timeout: Duration,
        what: &'static str,
    ) -> Result<(), Error> {
        let handle = self.register(0)?;
        self.link.send(&message(handle.number))?;
        handle.wait_for(timeout, what).map(drop)
    }

    /// Prepares to go on with a guest that moves to the QEMU whose sockets are in `dir`. Nothing is sent meanwhile: what
    /// the old QEMU had not handed to the guest would be lost. Without [`Moving::finish`] nothing changes.
    pub(super) fn begin_move(&self, dir: &Path) -> Result<Moving<'_>, Error> {
        let writer = lock(&self.link.stream);
        let index = lock(&self.link.port).as_ref().map_or(0, |port| port.index);
        let port = take_port(dir, index)?;
        let port = port.ok_or(Error::Busy {
            waited: Duration::ZERO,
        })?;
        let path = socket_path(dir, index);
        let stream = UnixStream::connect(&path).map_err(|source| Error::Socket {
            action: "connect to",
            path,
            source,
        })?;
        Ok(Moving {
            channel: self,
            writer,
            stream,
            port,
        })
    }

    /// Asks the guest to turn itself off. It does not answer; its QEMU ends.
    pub fn power_off(&self) -> Result<(), Error> {
        self.link.send(&Message::PowerOff)
    }
}

/// A channel whose guest is about to be another QEMU's.
pub(super) struct Moving<'a> {
    channel: &'a Channel,
    writer: MutexGuard<'a, UnixStream>,
    stream: UnixStream,
    port: Port,
}

impl Moving<'_> {
    /// Goes on with the new QEMU. What the old one had still to give is read first.
    pub fn finish(mut self) -> Result<(), Error> {
        let failed = |source| Error::Closed {
            reason: format!("follow the guest: {source}"),
        };
        let reader = self.stream.try_clone().map_err(failed)?;
        let timeout = self.stream.set_write_timeout(Some(WRITE_TIMEOUT));
        timeout.map_err(failed)?;
        lock(&self.channel.demux.state).successor = Some(reader);
        *self.writer = self.stream;
        *lock(&self.channel.link.port) = Some(self.port);
        Ok(())
    }
}

fn is_not_there_yet(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

/// Locks the first free port.
fn free_port(dir: &Path) -> Result<Option<Port>, Error> {
    let mut free = (0..PORTS).filter_map(|index| take_port(dir, index).transpose());
    free.next().transpose()
}

fn take_port(dir: &Path, index: usize) -> Result<Option<Port>, Error> {
    let lock = Lock::take(&dir.join(format!("port{index}.lock")), Duration::ZERO)?;
    Ok(lock.map(|lock| Port { index, _lock: lock }))
}

/// A number no other client uses: the process and a clock that only grows.
fn latlab_nonce() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    (u64::from(std::process::id()) << 40) ^ (now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
