//! Commands that the container's first process starts.
//!
//! Such commands belong to it: they outlive the latlab that asked, they end with the container, and a checkpoint of the first
//! process has them. Latlab asks at a pair of sockets of which the first process holds both ends, so a latlab that comes
//! later finds it by the process alone. What runs in the container as root could take the socket as well; it has every
//! right already that a command so started gets.

use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use latlab_wire::channel::{Exec, Message, encode};
use latlab_wire::workload::{ANSWER_BYTES, Answer, HOST_FD};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::config::{Config, OUTPUT_INSIDE};
use super::error::Error;
use super::exec::{environment, find_program};
use super::handle::Container;
use super::start::OUTPUT;
use crate::nodes::output;
use crate::nodes::session::{Command, Detached};
use crate::sys::notify::NotifyFilter;
use crate::sys::process::{LAB_VARIABLE, Process};
use crate::sys::{self, sealed};

/// The first process answers at once; on a machine that thrashes, in seconds.
const TIMEOUT: Duration = Duration::from_secs(30);

impl Container {
    /// Has the first process start a command, whose connections are held for the supervisor that gets their listener at
    /// this socket. Fails when the container has ended, or the program is not in it.
    pub fn detach(&self, command: &Command, listener: Option<&OwnedFd>) -> Result<Detached, Error> {
        let (init, root) = self.open_init()?;
        let config = Config::read(&self.dir)?;
        let environment = environment(&config, command);
        let program = find_program(root.as_fd(), command, &environment)?;
        let cwd = command.cwd.as_deref();
        let cwd = cwd.unwrap_or_else(|| config.working_directory());
        let program = program.to_string_lossy().into_owned();
        let arguments = command.argv.iter().skip(1).cloned();
        let label = |name: &str| name != LAB_VARIABLE;
        let own = environment.iter().filter(|(name, _)| label(name));
        let env = own.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let exec = Exec {
            argv: std::iter::once(program.clone()).chain(arguments).collect(),
            env: env
                .chain([(LAB_VARIABLE.to_owned(), self.lab_id.clone())])
                .collect(),
            cwd: Some(cwd.to_owned()),
            ..Exec::default()
        };
        let directory = open_outputs(root.as_fd())?;
        let (name, file) = output::new_file(directory.as_fd())?;
        let held = listener.map(|socket| {
            let filter = sealed::bytes(&NotifyFilter::default().bytes())?;
            Ok::<_, Error>((filter, socket.as_fd()))
        });
        let held = held.transpose()?;
        let held = held
            .as_ref()
            .map(|(filter, socket)| [filter.as_fd(), *socket]);
        let started = ask(&init, exec, file.as_fd(), held);
        let pid = started.and_then(|answer| match answer {
            Answer::Started(pid) => Ok(pid),
            Answer::NoDirectory(errno) => Err(refused("enter directory", cwd, errno)),
            Answer::NotExecuted(errno) => Err(refused("execute", &program, errno)),
        });
        let pid = pid.inspect_err(|_| {
            // Nothing was written to it.
            let _ = rustix::fs::unlinkat(&directory, &name, rustix::fs::AtFlags::empty());
        })?;
        Ok(Detached {
            pid,
            output: self.dir.join(OUTPUT).join(name),
        })
    }
}

fn refused(action: &'static str, object: &str, errno: i32) -> Error {
    sys::Error::of(action, object)(std::io::Error::from_raw_os_error(errno)).into()
}

/// The directory of outputs, in the container's own mounts: a file opened elsewhere could not be opened again by a
/// restore.
fn open_outputs(root: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    let path = Path::new(OUTPUT_INSIDE);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
    opened.map_err(Error::io("open", path))
}

/// `held` are a filter and a socket for its listener.
fn ask(
    init: &Process,
    exec: Exec,
    output: BorrowedFd<'_>,
    held: Option<[BorrowedFd<'_>; 2]>,
) -> Result<Answer, Error> {
    let socket = pidfd_getfd(init, HOST_FD, PidfdGetfdFlags::empty());
    let socket = socket.map_err(sys::Error::of("take the socket of process", init.id().pid))?;
    let pipe = pipe_with(PipeFlags::CLOEXEC).map_err(sys::Error::of("make", "a pipe"))?;
    let (answers, reply) = pipe;
    let mut request = Vec::new();
    let message = Message::Exec { session: 0, exec };
    encode(&message, &mut request).map_err(|long| Error::Command {
        program: "the command".into(),
        reason: long.to_string(),
    })?;
    let mut files = vec![output, reply.as_fd()];
    files.extend(held.into_iter().flatten());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    // A first process that takes no messages has a full socket one day; no latlab is to wait for it.
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(&socket, &[IoSlice::new(&request)], &mut control, flags)
        .map_err(sys::Error::of("ask", "the first process of the container"))?;
    drop(reply);
    read_answer(answers)
}

fn read_answer(answers: OwnedFd) -> Result<Answer, Error> {
    let silent = || Error::Init("it does not answer".into());
    let timeout = Timespec::try_from(TIMEOUT).ok();
    let mut readable = [PollFd::new(&answers, PollFlags::IN)];
    let ready = poll(&mut readable, timeout.as_ref());
    if ready.map_err(sys::Error::of("wait for", "the first process"))? == 0 {
        return Err(silent());
    }
    // Shorter than what a pipe takes at once, so one that comes is whole.
    let mut bytes = [0; ANSWER_BYTES];
    match File::from(answers).read(&mut bytes) {
        Ok(ANSWER_BYTES) => Answer::parse(bytes).ok_or_else(silent),
        _ => Err(silent()),
    }
}
