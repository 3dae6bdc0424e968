//! A program in one node: started, waiting, released, ended.
//!
//! Threads read its output to the end, so that it never blocks on a full pipe. Every wait has a timeout.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use latlab_host::lab::Lab;
use latlab_host::nodes::session::{Command, Exit, Session};
use latlab_host::nodes::vm::clock::ClockOffset;
use latlab_wire::begin::{End, READY};

use crate::clock;
use crate::endpoint::{KILL, MAX_OUTPUT, read_all};
use crate::error::Error;
use crate::measured::{Kept, Written};

/// A guest under software emulation takes seconds to load a program over 9p, and eight of them take as many times
/// that on two CPUs.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// A program that makes ready runs for some time on its own.
const PREPARATION_TIMEOUT: Duration = Duration::from_secs(180);
/// From the order to stop to the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks whether a server lives.
const SERVER_LOOK: Duration = Duration::from_millis(500);
/// A client gets this time to say that its server has gone.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Between two questions whether a server answers.
const READY_PAUSE: Duration = Duration::from_millis(100);
/// The end of an output in a message.
const TAIL: usize = 300;

/// A program's end, in its node.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub node: String,
    pub command: String,
    /// On the node's clock.
    pub began_ns: u64,
    pub ended_ns: u64,
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
}

impl Ended {
    pub fn error(&self, what: &str) -> Error {
        said(&self.node, &self.command, what, &self.output, &self.errors)
    }

    #[cfg(test)]
    pub fn saying(text: &str) -> Ended {
        Ended {
            output: text.as_bytes().to_vec(),
            ..Ended::default()
        }
    }

    /// The output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

/// A failure of a program, with the end of what it said.
fn said(node: &str, command: &str, what: &str, output: &[u8], errors: &[u8]) -> Error {
    let is_said = |text: &&[u8]| !text.trim_ascii().is_empty();
    let text = [errors, output].into_iter().find(is_said);
    let tail = text.map_or("it wrote nothing".to_string(), |text| {
        let tail = tail(text);
        let first = first_error(text).filter(|line| !tail.contains(line.as_str()));
        let first = first.map_or(String::new(), |line| format!("its first error: {line}; "));
        format!("{first}the end of its output: {tail}")
    });
    Error::Program {
        node: node.into(),
        command: command.into(),
        what: what.into(),
        tail,
    }
}

/// The first line that tells of an error: others often follow from it.
fn first_error(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let tells = |line: &&str| {
        let line = line.to_ascii_lowercase();
        line.contains("error") || line.contains("fatal")
    };
    let line = text.lines().find(tells)?;
    Some(line.trim().chars().take(TAIL).collect())
}

/// The last lines in one.
fn tail(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.trim().lines().map(str::trim).collect();
    let line = lines.join(" | ");
    let skipped = line.chars().count().saturating_sub(TAIL);
    let kept: String = line.chars().skip(skipped).collect();
    if skipped > 0 {
        format!("…{kept}")
    } else {
        kept
    }
}

/// A session whose output is read by threads.
struct Running {
    job: Job,
    session: Box<dyn Session>,
    stdin: Option<Box<dyn Write + Send>>,
    ready: Receiver<()>,
    output: Receiver<Vec<u8>>,
    errors: Receiver<Vec<u8>>,
    /// Its end was waited for.
    is_over: bool,
}

impl Running {
    fn start(lab: &Lab, job: Job) -> Result<Running, Error> {
        let mut session = lab.start(&job.node, &Command::new(&job.argv))?;
        let stdin = session.take_stdin();
        let (tell, ready) = channel();
        let (send, output) = channel();
        let stdout = session.take_stdout();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(stdout) = stdout {
                let mut stdout = BufReader::new(stdout.take(MAX_OUTPUT));
                stdout.read_until(b'\n', &mut text).ok();
                if text.trim_ascii() == READY.as_bytes() {
                    text.clear();
                    tell.send(()).ok();
                }
                stdout.read_to_end(&mut text).ok();
            }
            drop(tell);
            send.send(text).ok();
        });
        let errors = read_all(session.take_stderr(), MAX_OUTPUT);
        Ok(Running {
            job,
            session,
            stdin,
            ready,
            output,
            errors,
            is_over: false,
        })
    }

    /// Waits for its end until `deadline`, and stops it then: its output, its errors, and how it ended.
    fn finish(&mut self, deadline: Instant) -> (Vec<u8>, Vec<u8>, Option<Exit>) {
        self.finish_beside(deadline, &mut [])
    }

    /// As [`Running::finish`], and no longer than these servers live: a client may wait for ever for one that died.
    fn finish_beside(
        &mut self,
        deadline: Instant,
        servers: &mut [Serving],
    ) -> (Vec<u8>, Vec<u8>, Option<Exit>) {
        self.is_over = true;
        let mut output = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let look = match servers.is_empty() {
                true => left,
                false => left.min(SERVER_LOOK),
            };
            match self.output.recv_timeout(look) {
                Ok(text) => break Some(text),
                Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) if look == left => break None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if servers.iter_mut().any(Serving::has_ended) {
                break self.output.recv_timeout(LAST_WORDS).ok();
            }
        };
        let is_late = output.is_none();
        // The agent's order to stop; others do not read.
        self.stdin.take();
        if is_late {
            output = self.output.recv_timeout(STOP_TIMEOUT).ok();
        }
        if output.is_none() {
            (self.session.signaller())(KILL).ok();
            output = self.output.recv_timeout(STOP_TIMEOUT).ok();
        }
        let exit = self.session.wait_for(STOP_TIMEOUT).unwrap_or(None);
        let errors = self.errors.recv_timeout(STOP_TIMEOUT).unwrap_or_default();
        let exit = if is_late { None } else { exit };
        (output.unwrap_or_default(), errors, exit)
    }
}

/// A trial that fails leaves no program behind.
impl Drop for Running {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.stdin.take();
        if !matches!(self.session.wait_for(STOP_TIMEOUT), Ok(Some(_))) {
            (self.session.signaller())(KILL).ok();
            self.session.wait_for(STOP_TIMEOUT).ok();
        }
    }
}

/// A command and the node that runs it.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub node: String,
    /// As messages show it.
    pub shown: String,
    pub argv: Vec<String>,
}

/// Letters of a command in a message.
const SHOWN: usize = 200;

impl Job {
    /// A command that messages show as it is.
    pub fn of(node: &str, argv: Vec<String>) -> Job {
        let line = argv.join(" ");
        let mut shown: String = line.chars().take(SHOWN).collect();
        if shown.len() < line.len() {
            shown.push('…');
        }
        Job {
            node: node.to_owned(),
            shown,
            argv,
        }
    }

    /// The job failed, or wrote something else than it should.
    pub fn error(&self, what: &str, output: &[u8], errors: &[u8]) -> Error {
        said(&self.node, &self.shown, what, output, errors)
    }

    pub fn shown_as(self, shown: impl Into<String>) -> Job {
        Job {
            shown: shown.into(),
            ..self
        }
    }
}

/// Runs all jobs at once, and waits for the end of all: what each wrote, and nothing for one without a command. What one
/// that fails wrote is kept.
pub(super) fn run_all(
    lab: &Lab,
    jobs: &[Job],
    servers: &mut [Serving],
    kept: &mut Kept,
) -> Result<Vec<String>, Error> {
    let start = |job: &Job| match job.argv.is_empty() {
        true => Ok(None),
        false => Running::start(lab, job.clone()).map(Some),
    };
    let mut started: Vec<Option<Running>> = jobs.iter().map(start).collect::<Result<_, Error>>()?;
    for one in started.iter_mut().flatten() {
        one.stdin.take();
    }
    let deadline = Instant::now() + PREPARATION_TIMEOUT;
    let mut texts = Vec::new();
    for one in started {
        let Some(mut one) = one else {
            texts.push(String::new());
            continue;
        };
        let (output, errors, exit) = one.finish_beside(deadline, servers);
        let what = match exit {
            Some(exit) if exit.success() => {
                texts.push(String::from_utf8_lossy(&output).into_owned());
                continue;
            }
            Some(exit) => format!("failed ({exit})"),
            None => format!("did not end within {} s", PREPARATION_TIMEOUT.as_secs()),
        };
        let error = one.job.error(&what, &output, &errors);
        kept.programs.push(Written {
            node: one.job.node.clone(),
            output,
            errors,
        });
        return Err(error);
    }
    Ok(texts)
}

/// A server in the background, which its agent ends with all that it started.
pub(super) struct Serving {
    running: Running,
    /// A session tells its end once.
    has_ended: bool,
}

/// Starts a server and waits until it answers: until `ready`, in the node of its client, succeeds.
pub(super) fn serve(lab: &Lab, job: &Job, ready: &Job, kept: &mut Kept) -> Result<Serving, Error> {
    let mut waiting = wait_in_all(lab, std::slice::from_ref(job))?;
    let Some(mut waiting) = waiting.pop() else {
        return Err(Error::Nothing(job.node.clone()));
    };
    // A time that has passed is now.
    waiting.begin(0)?;
    let mut serving = Serving {
        running: waiting.0,
        has_ended: false,
    };
    let deadline = Instant::now() + PREPARATION_TIMEOUT;
    loop {
        let mut asking = Running::start(lab, ready.clone())?;
        asking.stdin.take();
        let (output, errors, exit) = asking.finish(deadline);
        if exit.is_some_and(Exit::success) {
            return Ok(serving);
        }
        serving.check(Duration::ZERO, kept)?;
        if Instant::now() >= deadline {
            let seconds = PREPARATION_TIMEOUT.as_secs();
            let what = format!("found no answer of the server within {seconds} s");
            serving.stop(kept);
            return Err(ready.error(&what, &output, &errors));
        }
        std::thread::sleep(READY_PAUSE);
    }
}

impl Serving {
    fn has_ended(&mut self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    fn ends_within(&mut self, timeout: Duration) -> bool {
        let mut ended = || self.running.session.wait_for(timeout);
        self.has_ended = self.has_ended || matches!(ended(), Ok(Some(_)));
        self.has_ended
    }

    /// Fails when it ended by itself or does so within `timeout`, with its last words.
    pub fn check(&mut self, timeout: Duration, kept: &mut Kept) -> Result<(), Error> {
        if !self.ends_within(timeout) {
            return Ok(());
        }
        let (text, errors, _) = self.running.finish(Instant::now() + STOP_TIMEOUT);
        let (output, end) = divided(text);
        let by_itself = "ended by itself";
        let what = end.map_or(by_itself.to_owned(), |end| described(end, by_itself));
        let error = self.running.job.error(&what, &output, &errors);
        kept.servers.push(self.written(output, errors));
        Err(error)
    }

    /// Ends it, and keeps what it wrote.
    pub fn stop(mut self, kept: &mut Kept) {
        if !self.running.is_over {
            let (text, errors, _) = self.running.finish(Instant::now());
            let written = self.written(divided(text).0, errors);
            kept.servers.push(written);
        }
    }

    fn written(&self, output: Vec<u8>, errors: Vec<u8>) -> Written {
        Written {
            node: self.running.job.node.clone(),
            output,
            errors,
        }
    }
}

/// The output of a program that the agent ran, and its end.
fn divided(text: Vec<u8>) -> (Vec<u8>, Option<End>) {
    match End::split(&text) {
        Some((output, end)) => (output.to_vec(), Some(end)),
        None => (text, None),
    }
}

/// An end with a status, and what that is called, or by a signal.
fn described(end: End, with_status: &str) -> String {
    match end.code {
        Some(code) => format!("{with_status} (exit status {code})"),
        None => format!("was killed by signal {}", end.signal.unwrap_or(0)),
    }
}

/// A program that waits for its time to begin.
pub(super) struct Waiting(Running);

/// Starts all jobs at once, each of which waits.
pub(super) fn wait_in_all(lab: &Lab, jobs: &[Job]) -> Result<Vec<Waiting>, Error> {
    let start = |job: &Job| {
        let mut argv = vec![lab.agent(&job.node), "begin".to_string()];
        argv.extend_from_slice(&job.argv);
        let job = job.clone();
        Running::start(lab, Job { argv, ..job })
    };
    let mut started: Vec<Running> = jobs.iter().map(start).collect::<Result<_, Error>>()?;
    for one in &mut started {
        if one.ready.recv_timeout(START_TIMEOUT).is_err() {
            let (output, errors, _) = one.finish(Instant::now());
            return Err(one.job.error("was not ready to begin", &output, &errors));
        }
    }
    Ok(started.into_iter().map(Waiting).collect())
}

impl Waiting {
    /// The node's clock beside the host's; `None` where it is the same.
    pub fn clock(&self, lab: &Lab) -> Result<Option<ClockOffset>, Error> {
        clock::to_host(lab, &self.0.job.node)
    }

    /// Has it begin at this time of its node's clock.
    pub fn begin(&mut self, at_ns: u64) -> Result<(), Error> {
        let one = &mut self.0;
        let stdin = one.stdin.as_mut();
        let written = stdin.map(|stdin| writeln!(stdin, "{at_ns}").and_then(|()| stdin.flush()));
        match written {
            Some(Ok(())) => Ok(()),
            _ => Err(one.job.error("ended before it began", b"", b"")),
        }
    }

    /// Waits for its end, or that of one of its servers: what it wrote, and whether it failed or did not end in time.
    pub fn finish(
        mut self,
        deadline: Instant,
        timeout: Duration,
        servers: &mut [Serving],
    ) -> (Ended, Result<(), Error>) {
        let one = &mut self.0;
        let (text, errors, exit) = one.finish_beside(deadline, servers);
        let (output, end) = divided(text);
        let ended = Ended {
            node: one.job.node.clone(),
            command: one.job.shown.clone(),
            began_ns: end.map_or(0, |end| end.began_ns),
            ended_ns: end.map_or(0, |end| end.ended_ns),
            output,
            errors,
        };
        let failure = match (exit, end) {
            (None, _) => format!("did not end within {timeout:?}"),
            (_, None) => "could not run".to_owned(),
            (_, Some(End { code: Some(0), .. })) => return (ended, Ok(())),
            (_, Some(end)) => described(end, "failed"),
        };
        let error = ended.error(&failure);
        (ended, Err(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_end_of_what_a_program_said() {
        let error = said(
            "a",
            "x --y",
            "failed (exit status 3)",
            b"long ago\n",
            b"one\ntwo\n",
        );
        let text = error.to_string();
        assert_eq!(
            text,
            "node `a`: `x --y` failed (exit status 3); the end of its output: one | two"
        );
        let words = "[ERROR] no space\n".to_owned() + &"so it ends\n".repeat(100);
        let first = said("a", "x", "failed", b"", words.as_bytes());
        assert!(
            first
                .to_string()
                .contains("; its first error: [ERROR] no space; the end of its output: …")
        );
        let long = tail("é".repeat(1000).as_bytes());
        assert_eq!(long.chars().count(), TAIL + 1);
        let silent = said("a", "x", "failed", b" \n", b"");
        assert!(silent.to_string().ends_with("it wrote nothing"));
    }
}
