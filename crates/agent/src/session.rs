//! One process started for a client, and its three streams.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use latlab_wire::channel::{
    Exec, ExitStatus, MAX_PAYLOAD, Message, Stream, UNLIMITED_CREDIT, WINDOW_BYTES,
};
use rustix::io::{Errno, ioctl_fionbio, ioctl_fionread};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::port::Outbox;
use crate::within;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Consumed input is reported to the sender in portions of at least this, unless there is no more.
const CREDIT_BYTES: u32 = WINDOW_BYTES / 4;

#[derive(Debug, thiserror::Error)]
#[error("{action}: {source}")]
pub struct StartError {
    action: String,
    source: io::Error,
}

impl StartError {
    /// The kernel's error number, or 0.
    pub fn errno(&self) -> u32 {
        self.source.raw_os_error().unwrap_or(0).unsigned_abs()
    }
}

pub struct Session {
    number: u32,
    pid: Pid,
    input: Input,
    outputs: [Output; 2],
    status: Option<ExitStatus>,
}

struct Input {
    pipe: Option<OwnedFd>,
    waiting: VecDeque<u8>,
    ended: bool,
    /// Bytes consumed and not yet reported as credit.
    consumed: u32,
}

struct Output {
    stream: Stream,
    pipe: Option<OwnedFd>,
    /// Bytes the client will still take.
    credit: u32,
    /// Once the process has ended: bytes of its time that the pipe still holds.
    left: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    Idle,
    Progress,
    Over,
}

pub fn start_detached(exec: &Exec) -> Result<(), StartError> {
    let mut command = command(exec)?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // Its end is reaped with all other orphans'.
    let started = command.spawn().map(drop);
    started.map_err(|source| start_error(exec, source))
}

impl Session {
    pub fn start(number: u32, exec: &Exec) -> Result<Self, StartError> {
        let mut command = command(exec)?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|source| start_error(exec, source))?;
        let stdin = child.stdin.take().map(OwnedFd::from);
        let stdout = child.stdout.take().map(OwnedFd::from);
        let stderr = child.stderr.take().map(OwnedFd::from);
        for pipe in [&stdin, &stdout, &stderr].into_iter().flatten() {
            ioctl_fionbio(pipe, true).map_err(|e| start_error(exec, e.into()))?;
        }
        let output = |stream, pipe| Output {
            stream,
            pipe,
            credit: WINDOW_BYTES,
            left: None,
        };
        Ok(Self {
            number,
            pid: Pid::from_child(&child),
            input: Input {
                pipe: stdin,
                waiting: VecDeque::new(),
                ended: false,
                consumed: 0,
            },
            outputs: [
                output(Stream::Stdout, stdout),
                output(Stream::Stderr, stderr),
            ],
            status: None,
        })
    }

    pub fn pid(&self) -> Pid {
        self.pid
    }

    pub fn pipes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let outputs = self
            .outputs
            .iter()
            .filter_map(|output| output.pipe.as_ref());
        self.input.pipe.iter().chain(outputs).map(AsFd::as_fd)
    }

    /// Takes input from the client. False if it sent more than it had credit for.
    pub fn receive(&mut self, data: &[u8]) -> bool {
        if self.input.waiting.len() + data.len() > WINDOW_BYTES as usize {
            return false;
        }
        self.input.waiting.extend(data);
        true
    }

    pub fn end_input(&mut self) {
        self.input.ended = true;
    }

    pub fn add_credit(&mut self, stream: Stream, bytes: u32) {
        if let Some(output) = self
            .outputs
            .iter_mut()
            .find(|output| output.stream == stream)
        {
            // Saturates at UNLIMITED_CREDIT, which is what that value is for.
            output.credit = output.credit.saturating_add(bytes);
        }
    }

    /// Signals the process group, unless the process has ended: its number may be another's by now.
    pub fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        match self.status {
            Some(_) => Ok(()),
            None => kill_process_group(self.pid, signal),
        }
    }

    /// Output that other holders of the pipes write from now on is discarded, or one that never pauses would keep the
    /// session for ever.
    pub fn set_status(&mut self, status: ExitStatus) {
        self.status = Some(status);
        for output in &mut self.outputs {
            // A pipe that does not tell is read until it is empty.
            let left = output.pipe.as_ref().map(ioctl_fionread);
            output.left = Some(left.map_or(0, |left| left.unwrap_or(u64::MAX)));
        }
    }

    /// Moves what can be moved without blocking: at most one frame of each stream.
    pub fn turn(&mut self, outbox: &mut Outbox) -> io::Result<Turn> {
        let mut progress = self.input.turn(self.number, outbox)?;
        let mut drained = true;
        for output in &mut self.outputs {
            match output.turn(self.number, outbox)? {
                OutputTurn::Moved => (progress, drained) = (true, false),
                OutputTurn::Blocked => drained = false,
                OutputTurn::Empty => {}
            }
        }
        let (true, Some(status)) = (drained, self.status) else {
            return Ok(if progress { Turn::Progress } else { Turn::Idle });
        };
        for output in self.outputs.iter().filter(|output| output.pipe.is_some()) {
            outbox.push(&Message::End {
                session: self.number,
                stream: output.stream,
            })?;
        }
        outbox.push(&Message::Exit {
            session: self.number,
            status,
        })?;
        Ok(Turn::Over)
    }
}

impl Input {
    fn turn(&mut self, session: u32, outbox: &mut Outbox) -> io::Result<bool> {
        let mut progress = false;
        if let Some(pipe) = &self.pipe {
            let (waiting, _) = self.waiting.as_slices();
            match if waiting.is_empty() {
                Ok(0)
            } else {
                rustix::io::write(pipe, waiting)
            } {
                Ok(count) => {
                    progress = count > 0;
                    self.waiting.drain(..count);
                    self.consumed += count as u32;
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                // The process closed its input.
                Err(_) => self.pipe = None,
            }
        }
        if self.pipe.is_none() {
            // Input that will never be read counts as consumed, or the client would wait for credit for ever.
            progress |= !self.waiting.is_empty();
            self.consumed += self.waiting.len() as u32;
            self.waiting.clear();
        }
        if self.ended && self.waiting.is_empty() {
            self.pipe = None;
        }
        if self.consumed > 0 && (self.consumed >= CREDIT_BYTES || self.waiting.is_empty()) {
            let bytes = std::mem::take(&mut self.consumed);
            outbox.push(&Message::Credit {
                session,
                stream: Stream::Stdin,
                bytes,
            })?;
        }
        Ok(progress)
    }
}

enum OutputTurn {
    Moved,
    Blocked,
    Empty,
}

impl Output {
    fn turn(&mut self, session: u32, outbox: &mut Outbox) -> io::Result<OutputTurn> {
        let Some(pipe) = &self.pipe else {
            return Ok(OutputTurn::Empty);
        };
        if self.left == Some(0) {
            return Ok(OutputTurn::Empty);
        }
        let left = self.left.unwrap_or(u64::MAX);
        let limit = (MAX_PAYLOAD as u64).min(self.credit.into()).min(left) as usize;
        if limit == 0 || !outbox.has_room() {
            return Ok(OutputTurn::Blocked);
        }
        let mut data = vec![0; limit];
        match rustix::io::read(pipe, &mut data[..]) {
            Ok(0) => {
                self.pipe = None;
                outbox.push(&Message::End {
                    session,
                    stream: self.stream,
                })?;
                Ok(OutputTurn::Moved)
            }
            Ok(count) => {
                data.truncate(count);
                if self.credit != UNLIMITED_CREDIT {
                    self.credit -= count as u32;
                }
                self.left = self.left.map(|left| left - count as u64);
                outbox.push(&Message::Data {
                    session,
                    stream: self.stream,
                    data,
                })?;
                Ok(OutputTurn::Moved)
            }
            Err(Errno::INTR) => Ok(OutputTurn::Moved),
            Err(_) => Ok(OutputTurn::Empty),
        }
    }
}

fn command(exec: &Exec) -> Result<Command, StartError> {
    let Some((program, arguments)) = exec.argv.split_first() else {
        return Err(start_error(exec, io::ErrorKind::InvalidInput.into()));
    };
    let cwd = exec.cwd.as_deref().unwrap_or("/");
    if let Err(source) = std::fs::metadata(cwd) {
        return Err(StartError {
            action: format!("enter directory {cwd}"),
            source,
        });
    }
    let mut command = command_of(program);
    command
        .args(arguments)
        .current_dir(cwd)
        .process_group(0)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", "/root")
        .env("TERM", "dumb")
        .envs(exec.env.iter().map(|(name, value)| (name, value)));
    if let Some(uid) = exec.uid {
        command.uid(uid).gid(uid);
    } else if within::is_there() {
        // The quiet CPUs of a tuned guest are for commands that the host starts.
        within::start_there(&mut command);
    }
    Ok(command)
}

/// A program of the node, or this one by its name.
pub fn command_of(program: &str) -> Command {
    let mut command = match program {
        "latlab-agent" => Command::new("/proc/self/exe"),
        other => Command::new(other),
    };
    command.arg0(program);
    command
}

fn start_error(exec: &Exec, source: io::Error) -> StartError {
    let program = exec.argv.first().map_or("an empty command", String::as_str);
    StartError {
        action: format!("run {program}"),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::process::{WaitOptions, waitpid};

    use super::*;

    /// The pipe has another writer, which fills it again after each turn.
    #[test]
    fn a_session_ends_with_its_process_also_where_a_pipe_is_never_empty() {
        let exec = Exec {
            argv: vec!["true".into()],
            ..Exec::default()
        };
        let mut session = Session::start(1, &exec).unwrap();
        session.add_credit(Stream::Stdout, UNLIMITED_CREDIT);
        let pipe = session.outputs[0].pipe.as_ref().unwrap().as_raw_fd();
        let mut other = File::options()
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(format!("/proc/self/fd/{pipe}"))
            .unwrap();
        let mut fill = || while other.write(&[0; 4096]).is_ok() {};
        waitpid(Some(session.pid()), WaitOptions::empty()).unwrap();
        fill();
        session.set_status(ExitStatus::Code(0));
        let mut turn = || {
            let turn = session.turn(&mut Outbox::default()).unwrap();
            fill();
            turn == Turn::Over
        };
        assert!((0..1000).any(|_| turn()), "the session goes on");
    }
}
