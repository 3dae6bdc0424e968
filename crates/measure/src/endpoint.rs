//! One end of a measurement: a probe running inside a node, and what it said.
//!
//! Its output is read by a thread of its own until it ends, so a probe can never block on a full
//! pipe, and every wait has an end: a node that dies or a probe that hangs becomes an error.

use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use latlab_host::lab::Lab;
use latlab_host::nodes::session::{Command, Session, Signaller};
use latlab_wire::samples::{Decoder, Message, Ready, Record, Report, SampleKind};

/// How long a probe may take to set up: a guest under software emulation is slow, and touching
/// memory for millions of records takes seconds there.
const SETUP: Duration = Duration::from_secs(30);
/// SIGKILL, which nothing survives.
const KILL: i32 = 9;
/// How long a process may take to end after its output did, or after it was killed.
const EXIT: Duration = Duration::from_secs(10);
/// Records of a probe that was not told how many it will have; some 200 MB.
const MAX_RECORDS: u64 = 4 << 20;
/// A command's output is read up to here; even iperf3's of many streams is far below.
const MOST_OUTPUT: u64 = 64 << 20;

/// Why an end point gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command could not be started.
    #[error("node `{node}`: cannot start {what}: {source}")]
    Start {
        /// Where.
        node: String,
        /// What.
        what: String,
        /// Why.
        source: Box<latlab_host::lab::Error>,
    },
    /// The probe itself says that it failed.
    #[error("node `{node}`: {what}: {message}")]
    Probe {
        /// Where.
        node: String,
        /// What.
        what: String,
        /// Its words.
        message: String,
    },
    /// It did not do its next step in time.
    #[error("node `{node}`: {what} did not {step} within {} s; is the node alive?", after.as_secs())]
    Late {
        /// Where.
        node: String,
        /// What.
        what: String,
        /// What was awaited.
        step: &'static str,
        /// How long.
        after: Duration,
    },
    /// Its output cannot be read.
    #[error("node `{node}`: {what}: {source}")]
    Output {
        /// Where.
        node: String,
        /// What.
        what: String,
        /// Why.
        source: latlab_wire::samples::Error,
    },
}

/// What a probe left.
#[derive(Debug, Default)]
pub struct Output {
    /// Its records by kind, in order.
    pub records: Vec<(SampleKind, Record)>,
    /// Its report.
    pub report: Option<Report>,
}

impl Output {
    /// The records of one kind.
    pub fn of(&self, kind: SampleKind) -> impl Iterator<Item = &Record> {
        self.records
            .iter()
            .filter(move |(k, _)| *k == kind)
            .map(|(_, r)| r)
    }
}

/// What the reading thread passes on.
enum Event {
    Ready(Box<Ready>),
    End,
}

/// A probe running in a node.
pub struct EndPoint {
    node: String,
    what: String,
    session: Box<dyn Session>,
    signal: Signaller,
    stdin: Option<Box<dyn std::io::Write + Send>>,
    events: Receiver<Event>,
    reader: Option<JoinHandle<Result<Output, ReadError>>>,
    errors: Receiver<String>,
}

enum ReadError {
    Said(String),
    Wire(latlab_wire::samples::Error),
}

impl EndPoint {
    /// Starts `latlab-agent probe ARGS` in `node`.
    ///
    /// # Errors
    /// When it cannot be started there.
    pub fn start(lab: &Lab, node: &str, args: &[String]) -> Result<EndPoint, Error> {
        EndPoint::start_with_room(lab, node, args, MAX_RECORDS)
    }

    /// The same for a probe that hands over this many records at most, as its rate and duration have it. One that sends
    /// more is not ours, or not well: it is not listened to any more, for it would fill the host's memory.
    ///
    /// # Errors
    /// As [`EndPoint::start`].
    pub fn start_with_room(
        lab: &Lab,
        node: &str,
        args: &[String],
        max_records: u64,
    ) -> Result<EndPoint, Error> {
        let what = format!("probe {}", args.first().map_or("", String::as_str));
        let mut argv = vec![lab.agent(node), "probe".to_string()];
        argv.extend_from_slice(args);
        let failed = |source| Error::Start {
            node: node.into(),
            what: what.clone(),
            source,
        };
        let mut session = lab
            .start(node, &Command::new(argv))
            .map_err(|e| failed(e.into()))?;
        let stdin = session.take_stdin();
        let stdout = session.take_stdout();
        let stderr = session.take_stderr();
        let (send, events) = channel();
        let reader = std::thread::spawn(move || {
            let result = stdout.map_or(Ok(Output::default()), |s| {
                read(s, max_records, &mut |ready| {
                    drop(send.send(Event::Ready(Box::new(ready))));
                })
            });
            drop(send.send(Event::End));
            result
        });
        let (say, errors) = channel();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            // A few lines say it all; a probe that floods its standard error is not listened to.
            stderr.map(|s| s.take(1 << 16).read_to_end(&mut text));
            drop(say.send(String::from_utf8_lossy(&text).trim().to_string()));
        });
        let signal = session.signaller();
        Ok(EndPoint {
            node: node.into(),
            what,
            session,
            signal,
            stdin,
            events,
            reader: Some(reader),
            errors,
        })
    }

    /// Waits until it is set up.
    ///
    /// # Errors
    /// When it fails or does not get there.
    pub fn ready(&mut self) -> Result<Ready, Error> {
        match self.events.recv_timeout(SETUP) {
            Ok(Event::Ready(ready)) => Ok(*ready),
            Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => match self.collect() {
                Err(error) => Err(error),
                Ok(_) => Err(self.said("it ended before it was ready".into())),
            },
            Err(RecvTimeoutError::Timeout) => Err(self.late("get ready", SETUP)),
        }
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// When it fails, or does not end within `patience`.
    pub fn finish(mut self, patience: Duration) -> Result<Output, Error> {
        let deadline = Instant::now() + patience;
        loop {
            match self
                .events
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(Event::Ready(_)) => {}
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return self.collect(),
                Err(RecvTimeoutError::Timeout) => return Err(self.late("end", patience)),
            }
        }
    }

    /// Ends its input, which asks it to stop, and waits until it did.
    ///
    /// # Errors
    /// As [`EndPoint::finish`].
    pub fn stop(mut self, patience: Duration) -> Result<Output, Error> {
        self.stdin.take();
        self.finish(patience)
    }

    fn collect(&mut self) -> Result<Output, Error> {
        let result = self.reader.take().map(JoinHandle::join);
        if matches!(result, Some(Ok(Err(_)))) {
            // It may have more to say, for ever.
            (self.signal)(KILL).ok();
        }
        let exit = match self.session.wait_for(EXIT) {
            Ok(Some(exit)) => Ok(exit),
            Ok(None) => {
                (self.signal)(KILL).ok();
                Err(format!(
                    "it did not end within {} s after its output",
                    EXIT.as_secs()
                ))
            }
            Err(source) => Err(source.to_string()),
        };
        let errors = self.errors.recv_timeout(EXIT).unwrap_or_default();
        match result {
            Some(Ok(Ok(output))) => match exit {
                Ok(exit) if exit.success() => Ok(output),
                Ok(exit) if errors.is_empty() => Err(self.said(exit.to_string())),
                Ok(_) => Err(self.said(errors)),
                Err(reason) => Err(self.said(reason)),
            },
            Some(Ok(Err(ReadError::Said(message)))) => Err(self.said(message)),
            // Text instead of messages means that something else than a probe answered.
            Some(Ok(Err(ReadError::Wire(_)))) if !errors.is_empty() => Err(self.said(errors)),
            Some(Ok(Err(ReadError::Wire(source)))) => Err(Error::Output {
                node: self.node.clone(),
                what: self.what.clone(),
                source,
            }),
            _ => Err(self.said("its output was lost".into())),
        }
    }

    fn said(&self, message: String) -> Error {
        Error::Probe {
            node: self.node.clone(),
            what: self.what.clone(),
            message,
        }
    }

    fn late(&self, step: &'static str, after: Duration) -> Error {
        Error::Late {
            node: self.node.clone(),
            what: self.what.clone(),
            step,
            after,
        }
    }
}

impl Drop for EndPoint {
    /// An end point that is not needed any more is ended, whatever the reason.
    fn drop(&mut self) {
        self.stdin.take();
        if self.reader.is_some() {
            // It may have ended already; then there is nothing to signal.
            (self.signal)(KILL).ok();
            self.session.wait_for(EXIT).ok();
        }
    }
}

fn read(
    mut stream: impl Read,
    max_records: u64,
    on_ready: &mut dyn FnMut(Ready),
) -> Result<Output, ReadError> {
    let mut decoder = Decoder::new();
    let mut output = Output::default();
    let mut said = None;
    let mut buffer = vec![0; 1 << 16];
    loop {
        // A stream that breaks is a stream that ended; the exit status says why.
        let count = stream.read(&mut buffer).unwrap_or(0);
        if count == 0 {
            break;
        }
        decoder.push(&buffer[..count]);
        while let Some(message) = decoder.next_message().map_err(ReadError::Wire)? {
            match message {
                Message::Ready(ready) => on_ready(ready),
                Message::Samples(s) => {
                    let all = output.records.len() + s.records.len();
                    if all as u64 > max_records {
                        let said = format!("it sent more than {max_records} records");
                        return Err(ReadError::Said(said));
                    }
                    let records = s.records.into_iter().map(|r| (s.kind, r));
                    output.records.extend(records);
                }
                Message::Report(report) => output.report = Some(*report),
                Message::Error(text) => said = Some(text),
                Message::Progress(_) => {}
            }
        }
    }
    if let Some(text) = said {
        return Err(ReadError::Said(text));
    }
    decoder.finish().map_err(ReadError::Wire)?;
    Ok(output)
}

/// What a command says until it ends. None when it has not ended by then: it is killed.
pub(crate) fn output(session: &mut dyn Session, patience: Duration) -> Option<String> {
    drop(session.take_stdin());
    let (send, output) = channel();
    let stdout = session.take_stdout();
    std::thread::spawn(move || {
        let mut text = String::new();
        stdout.map(|s| s.take(MOST_OUTPUT).read_to_string(&mut text));
        send.send(text).ok();
    });
    let text = output.recv_timeout(patience).ok();
    match text {
        Some(_) => drop(session.wait_for(patience)),
        // A node that hangs would not say that it ended either.
        None => drop((session.signaller())(KILL)),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_wire::samples::encode_samples;

    /// The same bytes over and over.
    struct Endless(Vec<u8>, usize);

    impl Read for Endless {
        fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
            let count = (&self.0[self.1..]).read(target)?;
            self.1 = (self.1 + count) % self.0.len();
            Ok(count)
        }
    }

    #[test]
    fn a_probe_that_sends_records_for_ever_is_cut_off() {
        let mut block = Vec::new();
        encode_samples(SampleKind::Sink, &[Record::default(); 100], &mut block);
        match read(Endless(block, 0), 1_050, &mut |_| ()) {
            Err(ReadError::Said(text)) => assert_eq!(text, "it sent more than 1050 records"),
            _ => panic!("taken for a result"),
        }
    }
}
