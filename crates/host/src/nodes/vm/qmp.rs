//! A small client of QEMU's control socket (QMP): one command, one answer.
//!
//! The socket takes one client at a time, so a connection is made for a purpose and closed. Every read
//! has a deadline: a QEMU that is stopped or hangs makes an error, not a hang.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

/// The longest answer read. QEMU's are short; this only bounds what a broken peer can cost.
const ANSWER_LIMIT_BYTES: u64 = 1024 * 1024;
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} QEMU's control socket {}: {source}", path.display())]
    Socket {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("QEMU did not answer '{command}' within {:.1} s", timeout.as_secs_f64())]
    Silent { command: String, timeout: Duration },
    #[error("QEMU refused '{command}': {description}")]
    Refused {
        command: String,
        description: String,
    },
    #[error("QEMU answered '{command}' with something unexpected: {line}")]
    Malformed { command: String, line: String },
}

/// Most events that are kept. A QEMU that sends more is not ours.
const MAX_EVENTS: usize = 64;

/// News of QEMU's own accord.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub name: String,
    /// QEMU's time of it, since 1970.
    pub at: Duration,
    pub data: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuThread {
    pub vcpu: u32,
    pub tid: u32,
}

pub struct Qmp {
    stream: BufReader<UnixStream>,
    /// Events that came, the newest last.
    events: VecDeque<Event>,
    path: PathBuf,
    timeout: Duration,
}

impl Qmp {
    /// Connects and leaves the greeting behind. `timeout` holds for this and for each command. Fails when there is no
    /// QEMU, another client has the socket for too long, or the greeting is none.
    pub fn connect(path: &Path, timeout: Duration) -> Result<Self, Error> {
        let stream = UnixStream::connect(path).map_err(|source| Error::Socket {
            action: "connect to",
            path: path.to_owned(),
            source,
        })?;
        let mut qmp = Self {
            stream: BufReader::new(stream),
            events: VecDeque::new(),
            path: path.to_owned(),
            timeout,
        };
        let deadline = Instant::now() + timeout;
        let mut greeting = qmp.read("the greeting", deadline)?;
        // Events that a client before did not take any more.
        while parse_event(&mut greeting).is_some() {
            greeting = qmp.read("the greeting", deadline)?;
        }
        if greeting.get("QMP").is_none() {
            return Err(malformed("the greeting", &greeting.to_string()));
        }
        qmp.execute("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    /// When the newest event of that name was, since 1970, if one came before the answers so far.
    pub fn event_at(&self, name: &str) -> Option<Duration> {
        let mut newest = self.events.iter().rev();
        newest
            .find(|event| event.name == name)
            .map(|event| event.at)
    }

    /// Waits for an event, or takes one that came already, with those before it. `None` when none came in time.
    pub fn await_event(
        &mut self,
        timeout: Duration,
        wanted: impl Fn(&Event) -> bool,
    ) -> Result<Option<Event>, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            while let Some(event) = self.events.pop_front() {
                if wanted(&event) {
                    return Ok(Some(event));
                }
            }
            match self.read("an event", deadline) {
                Ok(mut message) => {
                    if let Some(event) = parse_event(&mut message) {
                        self.keep(event);
                    }
                }
                Err(Error::Silent { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn keep(&mut self, event: Event) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    pub fn forget_events(&mut self) {
        self.events.clear();
    }

    /// Runs a command and returns what it returns. Events that arrive before the answer are kept by name.
    pub fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value, Error> {
        self.execute_with(command, arguments, &[])
    }

    /// As [`Qmp::execute`], with descriptors that go along (`getfd`).
    pub fn execute_with(
        &mut self,
        command: &str,
        arguments: &Value,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Value, Error> {
        let mut line = json!({"execute": command, "arguments": arguments}).to_string();
        line.push('\n');
        let deadline = Instant::now() + self.timeout;
        self.send(line.as_bytes(), descriptors)
            .map_err(|source| self.socket_error("write to", source))?;
        self.answer(command, deadline)
    }

    fn send(&mut self, line: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let stream = self.stream.get_mut();
        stream.set_write_timeout(Some(self.timeout))?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other("more than one descriptor"));
        }
        let sent = sendmsg(
            &*stream,
            &[IoSlice::new(line)],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        stream.write_all(&line[sent..])
    }

    fn answer(&mut self, command: &str, deadline: Instant) -> Result<Value, Error> {
        loop {
            let mut answer = self.read(command, deadline)?;
            if let Some(event) = parse_event(&mut answer) {
                self.keep(event);
                continue;
            }
            if let Some(result) = answer.get_mut("return") {
                return Ok(result.take());
            }
            if let Some(error) = answer.get("error") {
                let description = error.get("desc").and_then(Value::as_str);
                return Err(Error::Refused {
                    command: command.to_owned(),
                    description: description.unwrap_or("no reason").to_owned(),
                });
            }
        }
    }

    /// The host threads that run the vCPUs, to pin them.
    pub fn vcpu_threads(&mut self) -> Result<Vec<VcpuThread>, Error> {
        let command = "query-cpus-fast";
        let answer = self.execute(command, &json!({}))?;
        parse_vcpus(&answer).ok_or_else(|| malformed(command, &answer.to_string()))
    }

    fn read(&mut self, command: &str, deadline: Instant) -> Result<Value, Error> {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Silent {
                    command: command.to_owned(),
                    timeout: self.timeout,
                });
            }
            let timeout = self.stream.get_ref().set_read_timeout(Some(left));
            timeout.map_err(|source| self.socket_error("read from", source))?;
            match self.stream.fill_buf() {
                Ok([]) => {
                    let source = io::ErrorKind::UnexpectedEof.into();
                    return Err(self.socket_error("read from", source));
                }
                Ok(bytes) => {
                    let end = bytes.iter().position(|b| *b == b'\n');
                    let end = end.map_or(bytes.len(), |at| at + 1);
                    line.extend_from_slice(&bytes[..end]);
                    self.stream.consume(end);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                    _ => return Err(self.socket_error("read from", error)),
                },
            }
            if line.len() as u64 > ANSWER_LIMIT_BYTES {
                return Err(malformed(command, "more than 1 MiB without an end"));
            }
        }
        serde_json::from_slice(&line)
            .map_err(|_| malformed(command, String::from_utf8_lossy(&line).trim()))
    }

    fn socket_error(&self, action: &'static str, source: io::Error) -> Error {
        Error::Socket {
            action,
            path: self.path.clone(),
            source,
        }
    }
}

fn malformed(command: &str, line: &str) -> Error {
    let line: String = line.chars().take(200).collect();
    Error::Malformed {
        command: command.to_owned(),
        line,
    }
}

fn parse_event(message: &mut Value) -> Option<Event> {
    let name = message.get("event")?.as_str()?.to_owned();
    let time = |unit: &str| message.pointer(&format!("/timestamp/{unit}"))?.as_u64();
    let seconds = Duration::from_secs(time("seconds").unwrap_or_default());
    let micros = Duration::from_micros(time("microseconds").unwrap_or_default());
    Some(Event {
        name,
        at: seconds + micros,
        data: message.get_mut("data").map(Value::take).unwrap_or_default(),
    })
}

fn parse_vcpus(answer: &Value) -> Option<Vec<VcpuThread>> {
    let number = |entry: &Value, key: &str| u32::try_from(entry.get(key)?.as_u64()?).ok();
    answer
        .as_array()?
        .iter()
        .map(|entry| {
            let (vcpu, tid) = (number(entry, "cpu-index")?, number(entry, "thread-id")?);
            Some(VcpuThread { vcpu, tid })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Serves one client with these lines: each but the first after one line from the client.
    fn qemu(name: &str, lines: &'static [&'static str]) -> PathBuf {
        let path = std::env::temp_dir().join(format!("latlab-qmp-{name}-{}", std::process::id()));
        // Left by an earlier run with the same process number.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut stream = stream;
            for (index, line) in lines.iter().enumerate() {
                if index > 0 {
                    let mut ignored = String::new();
                    reader.read_line(&mut ignored).unwrap();
                }
                stream.write_all(line.as_bytes()).unwrap();
            }
            let mut rest = String::new();
            let _ = reader.read_line(&mut rest);
        });
        path
    }

    const GREETING: &str = "{\"QMP\": {\"version\": {}}}\r\n";
    const DONE: &str = "{\"return\": {}}\r\n";

    #[test]
    fn events_before_an_answer_are_kept_by_name() {
        let path = qemu(
            "events",
            &[
                GREETING,
                DONE,
                "{\"event\": \"STOP\", \"data\": {\"a\": 1}, \"timestamp\": {\"seconds\": 3, \"microseconds\": 5}}\r\n{\"return\": \
                 [{\"cpu-index\": 0, \"thread-id\": 41, \"target\": \"x86_64\"}]}\r\n",
            ],
        );
        let mut qmp = Qmp::connect(&path, Duration::from_secs(5)).unwrap();
        assert_eq!(
            qmp.vcpu_threads().unwrap(),
            [VcpuThread { vcpu: 0, tid: 41 }]
        );
        assert_eq!(qmp.event_at("STOP"), Some(Duration::from_micros(3_000_005)));
        assert_eq!(qmp.event_at("RESUME"), None);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_refusal_names_the_command() {
        const REFUSAL: &str =
            "{\"error\": {\"class\": \"CommandNotFound\", \"desc\": \"no such thing\"}}\r\n";
        let path = qemu("refusal", &[GREETING, DONE, REFUSAL]);
        let mut qmp = Qmp::connect(&path, Duration::from_secs(5)).unwrap();
        let error = qmp.execute("nonsense", &json!({})).unwrap_err();
        assert_eq!(error.to_string(), "QEMU refused 'nonsense': no such thing");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn events_that_another_client_left_come_before_the_greeting() {
        const LATE: &str = "{\"event\": \"STOP\"}\r\n{\"QMP\": {\"version\": {}}}\r\n";
        let path = qemu("late", &[LATE, DONE]);
        let qmp = Qmp::connect(&path, Duration::from_secs(5)).unwrap();
        assert_eq!(qmp.event_at("STOP"), None, "it is not of this client");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn silence_and_nonsense_are_errors() {
        let path = qemu("silence", &[GREETING, DONE, ""]);
        let mut qmp = Qmp::connect(&path, Duration::from_millis(50)).unwrap();
        assert!(matches!(qmp.vcpu_threads(), Err(Error::Silent { .. })));
        std::fs::remove_file(path).unwrap();
        let path = qemu("nonsense", &["hello\r\n"]);
        let error = Qmp::connect(&path, Duration::from_secs(5)).err().unwrap();
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
        std::fs::remove_file(path).unwrap();
    }
}
