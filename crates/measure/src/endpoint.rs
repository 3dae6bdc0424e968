//! An endpoint of a measurement: a probe running inside a node, and its output.
//!
//! A thread reads the output to its end, so a probe can never block on a full pipe. Every wait has a
//! timeout: a node that dies or a probe that hangs becomes an error.

use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use latlab_host::nodes::session::{Command, Session, Signaller};
use latlab_wire::samples::{Decoder, Message, Ready, Record, Report, SampleKind};

use crate::nodes::{Nodes, NotStarted};

/// A guest under software emulation is slow: touching memory for millions of records takes seconds there.
const SETUP_TIMEOUT: Duration = Duration::from_secs(30);
/// SIGKILL.
pub(crate) const KILL: i32 = 9;
/// Timeout of a process after the end of its output, or after SIGKILL.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Record limit of a probe whose number of records is unknown; some 200 MB.
const MAX_RECORDS: u64 = 4 << 20;
/// A program may flood its standard error; the first lines have the reason.
pub(crate) const MAX_ERRORS: u64 = 1 << 16;
/// Limit on a command's output; even iperf3's with many streams is far below.
pub(crate) const MAX_OUTPUT: u64 = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("node `{node}`: cannot start {what}: {source}")]
    Start {
        node: String,
        what: String,
        source: NotStarted,
    },
    #[error("node `{node}`: {what}: {message}")]
    Probe {
        node: String,
        what: String,
        message: String,
    },
    #[error("node `{node}`: {what} did not {step} within {} s; is the node alive?", after.as_secs())]
    Late {
        node: String,
        what: String,
        step: &'static str,
        after: Duration,
    },
    #[error("node `{node}`: {what}: {source}")]
    Output {
        node: String,
        what: String,
        source: latlab_wire::samples::Error,
    },
}

#[derive(Debug, Default)]
pub struct Output {
    pub records: Vec<(SampleKind, Record)>,
    pub report: Option<Report>,
}

impl Output {
    pub fn of(&self, kind: SampleKind) -> impl Iterator<Item = &Record> {
        self.records
            .iter()
            .filter(move |(k, _)| *k == kind)
            .map(|(_, r)| r)
    }
}

pub struct Endpoint {
    node: String,
    what: String,
    session: Box<dyn Session>,
    signal: Signaller,
    stdin: Option<Box<dyn std::io::Write + Send>>,
    /// The probe's word that it is ready; disconnected at the end of its output.
    events: Receiver<Ready>,
    reader: Option<JoinHandle<Result<Output, ReadError>>>,
    errors: Receiver<Vec<u8>>,
}

enum ReadError {
    Said(String),
    Wire(latlab_wire::samples::Error),
}

impl Endpoint {
    /// Starts `latlab-agent probe ARGS` in `node`.
    pub fn start<N: Nodes>(lab: &N, node: &str, args: &[String]) -> Result<Endpoint, Error> {
        Endpoint::start_with_limit(lab, node, args, MAX_RECORDS)
    }

    /// As `start`, with a limit on records that follows from rate and duration. Reading stops beyond it: a
    /// faulty or foreign program would fill the host's memory.
    pub fn start_with_limit<N: Nodes>(
        lab: &N,
        node: &str,
        args: &[String],
        max_records: u64,
    ) -> Result<Endpoint, Error> {
        let what = format!("probe {}", args.first().map_or("", String::as_str));
        let mut argv = vec![lab.agent(node), "probe".to_string()];
        argv.extend_from_slice(args);
        let failed = |source| Error::Start {
            node: node.into(),
            what: what.clone(),
            source,
        };
        let mut session = lab.start(node, &Command::new(argv)).map_err(failed)?;
        let stdin = session.take_stdin();
        let stdout = session.take_stdout();
        let errors = read_all(session.take_stderr(), MAX_ERRORS);
        let (send, events) = channel();
        let reader = std::thread::spawn(move || {
            stdout.map_or(Ok(Output::default()), |s| {
                read(s, max_records, &mut |ready| drop(send.send(ready)))
            })
        });
        let signal = session.signaller();
        Ok(Endpoint {
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

    /// Waits until the probe is set up. Fails when the probe fails, or is not ready in time.
    pub fn ready(&mut self) -> Result<Ready, Error> {
        match self.events.recv_timeout(SETUP_TIMEOUT) {
            Ok(ready) => Ok(ready),
            Err(RecvTimeoutError::Disconnected) => match self.collect() {
                Err(error) => Err(error),
                Ok(_) => Err(self.said("it ended before it was ready".into())),
            },
            Err(RecvTimeoutError::Timeout) => Err(self.late("get ready", SETUP_TIMEOUT)),
        }
    }

    /// Waits until the probe ends by itself. Fails when the probe fails, or does not end within `timeout`.
    pub fn finish(mut self, timeout: Duration) -> Result<Output, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            match self
                .events
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return self.collect(),
                Err(RecvTimeoutError::Timeout) => return Err(self.late("end", timeout)),
            }
        }
    }

    /// Closes the probe's input, which asks it to stop, and waits for its end.
    pub fn stop(mut self, timeout: Duration) -> Result<Output, Error> {
        self.stdin.take();
        self.finish(timeout)
    }

    fn collect(&mut self) -> Result<Output, Error> {
        let result = self.reader.take().map(JoinHandle::join);
        if matches!(result, Some(Ok(Err(_)))) {
            // A faulty probe may write for ever.
            (self.signal)(KILL).ok();
        }
        let exit = match self.session.wait_for(EXIT_TIMEOUT) {
            Ok(Some(exit)) => Ok(exit),
            Ok(None) => {
                (self.signal)(KILL).ok();
                Err(format!(
                    "it did not end within {} s after its output",
                    EXIT_TIMEOUT.as_secs()
                ))
            }
            Err(source) => Err(source.to_string()),
        };
        let errors = trimmed(&self.errors.recv_timeout(EXIT_TIMEOUT).unwrap_or_default());
        match result {
            Some(Ok(Ok(output))) => match exit {
                Ok(exit) if exit.success() => Ok(output),
                Ok(exit) if errors.is_empty() => Err(self.said(exit.to_string())),
                Ok(_) => Err(self.said(errors)),
                Err(reason) => Err(self.said(reason)),
            },
            Some(Ok(Err(ReadError::Said(message)))) => Err(self.said(message)),
            // Text instead of messages comes from another program than a probe.
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

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stdin.take();
        if self.reader.is_some() {
            // A probe that has ended already cannot be signalled.
            (self.signal)(KILL).ok();
            self.session.wait_for(EXIT_TIMEOUT).ok();
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
        // A broken stream counts as ended; the exit status says why.
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

/// A command's output until its end; `None` after the timeout, when it is killed.
pub(crate) fn output(session: &mut dyn Session, timeout: Duration) -> Option<String> {
    drop(session.take_stdin());
    let output = read_all(session.take_stdout(), MAX_OUTPUT);
    let text = output.recv_timeout(timeout).ok();
    match text {
        Some(_) => drop(session.wait_for(timeout)),
        // A node that hangs would not report the command's end either.
        None => drop((session.signaller())(KILL)),
    }
    text.map(|text| String::from_utf8(text).unwrap_or_default())
}

/// Reads a stream to its end, up to a limit, in a thread: a program never blocks on a full pipe.
pub(crate) fn read_all(stream: Option<Box<dyn Read + Send>>, limit: u64) -> Receiver<Vec<u8>> {
    let (send, all) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.map(|stream| stream.take(limit).read_to_end(&mut bytes));
        send.send(bytes).ok();
    });
    all
}

pub(crate) fn trimmed(text: &[u8]) -> String {
    String::from_utf8_lossy(text).trim().to_string()
}

pub(crate) fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
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
