//! Running commands inside a container, without its runtime.
//!
//! A command is born in the node's cgroup, in the container's process namespace, and enters
//! its mounts before the program is looked at. It gets the environment, directory, capabilities and
//! seccomp filter that the container was given. It is latlab's own child: its descriptors are the caller's, its
//! status and signals need no go-between.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};

use super::config::{AGENT_INSIDE, Config, PROBE, SYS_NICE};
use super::error::Error;
use super::handle::Container;
use crate::nodes::piped::{PipedSession, Streams};
use crate::nodes::session::Command;
use crate::sys::notify::NotifyFilter;
use crate::sys::process::Process;
use crate::sys::seccomp::Filter;
use crate::sys::spawn::{Confinement, Executable, Root, Spawn};
use crate::sys::{inside, sealed};

impl Container {
    /// Starts a command on the given descriptors. At a terminal it stays in the caller's session, so that the
    /// terminal's keys reach it; otherwise it gets a session of its own. Fails when the container has ended, or the
    /// program is not in it.
    pub fn spawn(&self, command: &Command, streams: Streams<'_>) -> Result<Process, Error> {
        self.spawn_held(command, streams, None)
    }

    /// Starts a command whose connections are held for the supervisor that gets their listener at this socket.
    fn spawn_held(
        &self,
        command: &Command,
        streams: Streams<'_>,
        listener: Option<&OwnedFd>,
    ) -> Result<Process, Error> {
        let (init, root) = self.open_init()?;
        let entry = self.cgroup.entry()?;
        let config = Config::read(&self.dir)?;
        let environment = environment(&config, command);
        let cwd = command.cwd.as_deref();
        let cwd = cwd.unwrap_or_else(|| config.working_directory());
        let program = find_program(root.as_fd(), command, &environment)?;
        let agent = sealed::program(&self.agent)?;
        let mut capabilities = config.capabilities();
        let filter = config.is_filtered().then(|| Filter::new(&capabilities));
        let is_probe = command.argv.len() > 1 && command.argv[..2] == [AGENT_INSIDE, "probe"];
        let held = NotifyFilter::default();
        let confinement = Confinement {
            no_new_privileges: true,
            filter: filter.as_ref().filter(|_| !is_probe),
            held: listener.map(|socket| (&held, socket.as_fd())),
            no_priority: !is_probe && !capabilities.contains(&SYS_NICE),
        };
        let executable = if is_probe {
            // latlab's own, whatever lies at that path now. It sets itself a priority.
            capabilities.extend(PROBE);
            Executable::File(agent.as_fd())
        } else {
            Executable::Launcher(agent.as_fd())
        };
        inside::in_namespaces_of(init.as_fd(), &capabilities, || {
            let mut spawn = Spawn::new(program, &self.lab_id)
                .clean_environment()
                .args(command.argv.get(1..).unwrap_or_default())
                .directory(cwd)
                .root(Root {
                    process: init.as_fd(),
                    directory: root.as_fd(),
                })
                .cgroup(&entry)
                .executable(executable)
                .confine(confinement)
                .descriptor(streams.stdin, 0)
                .descriptor(streams.stdout, 1)
                .descriptor(streams.stderr, 2);
            for (name, value) in &environment {
                spawn = spawn.env(name, value);
            }
            if !rustix::termios::isatty(streams.stdin) {
                spawn = spawn.session();
            }
            Ok(spawn.start()?)
        })
    }

    pub fn start(&self, command: &Command) -> Result<PipedSession, Error> {
        self.start_held(command, None)
    }

    pub(super) fn start_held(
        &self,
        command: &Command,
        listener: Option<&OwnedFd>,
    ) -> Result<PipedSession, Error> {
        PipedSession::start(|streams| self.spawn_held(command, streams, listener))
    }

    /// The container's first process, and its root as that sees it, which is more than its mount namespace
    /// says where the root could not be pivoted.
    pub(super) fn open_init(&self) -> Result<(Process, OwnedFd), Error> {
        let init = Process::open(self.process)?.ok_or(Error::Ended)?;
        let path = PathBuf::from(format!("/proc/{}/root", self.process.pid));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, &path, flags, Mode::empty());
        // Held by pidfd and alive: then it was the container's root that was opened.
        if init.has_ended()? {
            return Err(Error::Ended);
        }
        let root = root.map_err(Error::io("open", &path))?;
        Ok((init, root))
    }
}

/// The container's environment with the command's own over it.
pub(super) fn environment<'a>(config: &'a Config, command: &'a Command) -> Vec<(&'a str, &'a str)> {
    let own = config.process.env.iter();
    let own = own.filter_map(|variable| variable.split_once('='));
    own.chain(command.env.iter().map(|(name, value)| (&**name, &**value)))
        .collect()
}

/// The program's path inside, looked for in the command's own `PATH`.
pub(super) fn find_program(
    root: BorrowedFd<'_>,
    command: &Command,
    environment: &[(&str, &str)],
) -> Result<PathBuf, Error> {
    let name = command.argv.first().map_or("", String::as_str);
    let failed = |reason: &str| Error::Command {
        program: name.to_owned(),
        reason: reason.to_owned(),
    };
    if name.is_empty() {
        return Err(failed("no program is named"));
    }
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let mut variables = environment.iter().rev();
    let path = variables.find(|(name, _)| *name == "PATH");
    let path = path.map_or("", |(_, path)| path);
    let directories = path.split(':').filter(|dir| dir.starts_with('/'));
    let mut files = directories.map(|dir| Path::new(dir).join(name));
    let found = files.find(|file| is_program(root, file));
    found.ok_or_else(|| failed(&format!("not found in PATH={path}")))
}

/// Whether `file` is an executable file below `root`, links followed as they lead inside.
fn is_program(root: BorrowedFd<'_>, file: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(root, file, flags, Mode::empty(), ResolveFlags::IN_ROOT);
    let Ok(opened) = opened else { return false };
    rustix::fs::fstat(&opened).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_mode & 0o111 != 0
    })
}
