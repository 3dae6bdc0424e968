//! A guest: its QEMU, the processes beside it, and its end.

use std::fs::{self, Permissions};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use latlab_wire::channel::clock_page;
use rustix::process::Signal;
use serde_json::json;

use super::accelerator;
use super::channel::{self, Channel};
use super::console::{self, Log};
use super::error::{Error, SOCKET_PATH_BYTES};
use super::fingerprint;
use super::paths::{self, PORTS};
use super::qemu::{self, VmConfig};
use super::qmp::Qmp;
use super::virtiofs;
use crate::sys::cgroup_entry::CgroupEntry;
use crate::sys::file;
use crate::sys::process::{Exit, Process, ProcessId};
use crate::sys::sealed;

/// After SIGKILL QEMU gives its memory back, which an overloaded machine gives little CPU time for.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long QEMU may take to answer a command.
const QMP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the end of a process is waited for after a panic on its console, or after its sockets closed.
const PANIC_GRACE: Duration = Duration::from_millis(500);

/// How long what was started beside QEMU may take to notice that its guest is gone.
const HELPER_GRACE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Vm {
    name: String,
    dir: PathBuf,
    pub(super) process: Process,
    helpers: Vec<Process>,
}

impl Vm {
    /// Starts QEMU and returns at once; [`Vm::channel`] then waits for the guest. QEMU and its helpers belong to the
    /// lab (by label) and to `cgroup`, and outlive this process. Fails when the configuration cannot work, or QEMU
    /// cannot be started.
    pub fn start(config: &VmConfig<'_>, cgroup: Option<&CgroupEntry>) -> Result<Self, Error> {
        check(config)?;
        make_dir(&config.dir)?;
        if config.can_be_saved() {
            fingerprint::note(config)?;
        }
        let mut logs = vec![Log::of_console(&config.dir)];
        logs.push(Log::of_program(paths::log_path(&config.dir)));
        let served = config.virtiofs();
        let paths = served.map(|(index, _)| virtiofs::log_path(&config.dir, index));
        logs.extend(paths.map(Log::of_program));
        let (keeper, pipes) = console::keep(config, cgroup, &logs)?;
        let helpers = virtiofs::Servers::start(config, cgroup, &pipes[2..])?;
        let sockets = listen(&config.dir)?;
        for nic in &config.nics {
            nic.open_to_qemu()?;
        }
        let (console, log) = (&pipes[0], &pipes[1]);
        let mut spawn = config
            .place()?
            .spawn(&config.agent, &config.lab, accelerator::PROGRAM)
            .args(config.arguments())
            .session()
            .descriptor(console.as_fd(), qemu::CONSOLE_FD)
            .descriptor(log.as_fd(), 1)
            .descriptor(log.as_fd(), 2);
        for (socket, number) in sockets.iter().zip(qemu::CONTROL_FD..) {
            spawn = spawn.descriptor(socket.as_fd(), number);
        }
        let clock = sealed::shared_memory(clock_page::PAGE_BYTES as u64)?;
        spawn = spawn.descriptor(clock.as_fd(), qemu::CLOCK_FD);
        for (tap, number) in config.descriptors() {
            spawn = spawn.descriptor(tap, number);
        }
        if let Some(cgroup) = cgroup {
            spawn = spawn.cgroup(cgroup);
        }
        let process = spawn.start()?;
        let mut helpers = helpers.keep();
        helpers.push(keeper);
        Ok(Self {
            name: config.name.clone(),
            dir: config.dir.clone(),
            process,
            helpers,
        })
    }

    /// The guest started earlier with this name and directory, as this process. Errors: [`Error::GuestEnded`] or
    /// [`Error::GuestPanicked`] when it is no more.
    pub fn attach(name: &str, dir: &Path, id: ProcessId) -> Result<Self, Error> {
        match Process::open(id)? {
            Some(process) => Ok(Self {
                name: name.to_owned(),
                dir: dir.to_owned(),
                process,
                helpers: Vec::new(),
            }),
            None => Err(ended(name, dir, "it is not running any more".into())),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub fn id(&self) -> ProcessId {
        self.process.id()
    }

    /// Processes started beside QEMU (what keeps its console, `virtiofsd`); they end with it.
    pub fn helpers(&self) -> Vec<ProcessId> {
        self.helpers.iter().map(Process::id).collect()
    }

    /// The page of the clock exchange, which QEMU holds.
    pub fn clock_page(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", self.id().pid, qemu::CLOCK_FD))
    }

    /// Whether the guest lives. Errors: [`Error::GuestPanicked`] or [`Error::GuestEnded`] when it does not.
    pub fn health(&self) -> Result<(), Error> {
        if self.process.has_ended()? {
            // Its last lines may still be on their way into the log.
            for helper in &self.helpers {
                helper.wait(HELPER_GRACE)?;
            }
            let how = match self.process.collect()? {
                Some(Exit::Code(code)) => format!("QEMU returned {code}"),
                Some(Exit::Signal(signal)) => format!("QEMU was ended by signal {signal}"),
                None => "QEMU is gone".into(),
            };
            return Err(ended(&self.name, &self.dir, how));
        }
        let console_path = paths::console_path(&self.dir);
        if console::panic_lines(&console_path).is_some() {
            // The panic may still be being printed. A kernel told to stay panicked stays.
            self.process.wait(PANIC_GRACE)?;
            let console = console::panic_lines(&console_path).unwrap_or_default();
            return Err(Error::GuestPanicked {
                name: self.name.clone(),
                console,
            });
        }
        Ok(())
    }

    /// Opens a channel to the guest's agent; the first after the start thereby waits until the guest is up. Other
    /// processes may do the same at the same time. Errors: the guest's end as soon as it is seen;
    /// [`Error::AgentSilent`] after `timeout`.
    pub fn channel(&self, timeout: Duration) -> Result<Channel, Error> {
        let opened = Channel::open(&self.dir, timeout, || self.health());
        opened.map_err(|error| match error {
            Error::Channel(channel::Error::Silent { after, .. }) => self.silent(after),
            // QEMU ended between two looks at its health, or lives and does not even listen.
            Error::Channel(channel::Error::Closed { .. }) => self.health().err().unwrap_or(error),
            Error::Channel(channel::Error::Socket { .. }) => {
                self.health().err().unwrap_or_else(|| self.silent(timeout))
            }
            other => other,
        })
    }

    fn silent(&self, after: Duration) -> Error {
        Error::AgentSilent {
            name: self.name.clone(),
            after,
            console: console::last_lines(&paths::console_path(&self.dir)),
        }
    }

    pub fn qmp(&self) -> Result<Qmp, Error> {
        self.qmp_within(QMP_TIMEOUT)
    }

    /// As [`Vm::qmp`], for a QEMU that may still have to come up.
    pub(super) fn qmp_within(&self, timeout: Duration) -> Result<Qmp, Error> {
        Ok(Qmp::connect(&paths::qmp_path(&self.dir), timeout)?)
    }

    fn tell(&self, command: &str) -> Result<(), Error> {
        self.qmp()?.execute(command, &json!({}))?;
        Ok(())
    }

    /// Stops its virtual CPUs.
    pub fn pause(&self) -> Result<(), Error> {
        self.tell("stop")
    }

    /// Lets its virtual CPUs go on.
    pub fn resume(&self) -> Result<(), Error> {
        self.tell("cont")
    }

    /// Turns the guest off: by its agent if it answers, else by ending QEMU. Returns when the process is gone, at the
    /// latest a few seconds after `timeout`. Fails when not even SIGKILL ended it.
    pub fn stop(&self, timeout: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + timeout;
        let left = || deadline.saturating_duration_since(Instant::now());
        // Each step that fails is followed by a rougher one.
        let asked = self
            .channel(timeout / 2)
            .and_then(|channel| Ok(channel.power_off()?));
        if asked.is_ok() {
            self.process.wait(left())?;
        }
        self.end_within(left().max(Duration::from_secs(1)))
    }

    /// Ends QEMU, without a word to the guest. Fails when not even SIGKILL ended it.
    pub fn end(&self) -> Result<(), Error> {
        self.end_within(QMP_TIMEOUT)
    }

    /// Ends a guest that failed, and returns why. Its own end says more than a socket that was closed.
    pub(super) fn end_because(&self, error: Error) -> Error {
        // A QEMU that gives up closes its sockets before it is gone. One that stays is ended below.
        let own = match error {
            Error::Qmp(_) => self.end_of_its_own(),
            _ => self.health().err(),
        };
        let error = own.unwrap_or(error);
        // The first error is the one to report.
        let _ = self.end();
        error
    }

    /// The error of a QEMU that has ended or is about to; none while it lives.
    pub(super) fn end_of_its_own(&self) -> Option<Error> {
        let _ = self.process.wait(PANIC_GRACE);
        self.health().err()
    }

    fn end_within(&self, timeout: Duration) -> Result<(), Error> {
        if !self.process.has_ended()? {
            if self.tell("quit").is_err() || !self.process.wait(timeout)? {
                self.process.signal(Signal::KILL)?;
            }
            if !self.process.wait(KILL_TIMEOUT)? {
                let (name, dir) = (&self.name, &self.dir);
                let reason = format!("not even by SIGKILL within {} s", KILL_TIMEOUT.as_secs());
                return Err(ended(name, dir, reason));
            }
        }
        // Only a child can be collected; another parent does it elsewhere.
        self.process.collect()?;
        for helper in &self.helpers {
            if !helper.wait(HELPER_GRACE)? {
                helper.signal(Signal::KILL)?;
                helper.wait(HELPER_GRACE)?;
            }
            helper.collect()?;
        }
        Ok(())
    }
}

/// Why a guest that is gone is gone.
fn ended(name: &str, dir: &Path, how: String) -> Error {
    let console = paths::console_path(dir);
    if let Some(console) = console::panic_lines(&console) {
        return Error::GuestPanicked {
            name: name.to_owned(),
            console,
        };
    }
    let mut said = console::last_lines(&paths::log_path(dir));
    if said.is_empty() {
        said = console::last_lines(&console);
    }
    Error::GuestEnded {
        name: name.to_owned(),
        how,
        said,
    }
}

fn check(config: &VmConfig<'_>) -> Result<(), Error> {
    let longest = paths::socket_path(&config.dir, PORTS);
    if longest.as_os_str().len() > SOCKET_PATH_BYTES {
        return Err(Error::PathTooLong {
            dir: config.dir.clone(),
        });
    }
    for share in config.all_shares() {
        if !share.source.is_dir() {
            return Err(Error::NotADirectory {
                source_path: share.source,
            });
        }
        let plain = share.target.starts_with('/') && !share.target.contains(char::is_whitespace);
        if !plain {
            return Err(Error::BadTarget {
                target: share.target,
            });
        }
    }
    Ok(())
}

/// The sockets at which QEMU is controlled and its guest reached, in the order of its descriptors. They are made here,
/// so that QEMU need not be able to write to the guest's directory.
fn listen(dir: &Path) -> Result<Vec<UnixListener>, Error> {
    let ports = (0..PORTS).map(|i| paths::socket_path(dir, i));
    let paths = std::iter::once(paths::qmp_path(dir)).chain(ports);
    paths
        .map(|path| UnixListener::bind(&path).map_err(Error::io("listen at", &path)))
        .collect()
}

/// Makes the guest's directory. What a former guest of
/// the same name left there must not speak for the new one.
fn make_dir(dir: &Path) -> Result<(), Error> {
    fs::create_dir_all(dir)
        .and_then(|()| fs::set_permissions(dir, Permissions::from_mode(0o700)))
        .map_err(Error::io("make directory", dir))?;
    let mut stale: Vec<_> = (0..PORTS).map(|i| paths::socket_path(dir, i)).collect();
    stale.extend([
        paths::qmp_path(dir),
        paths::console_path(dir),
        console::former(&paths::console_path(dir)),
        paths::log_path(dir),
    ]);
    for path in stale {
        file::remove(&path).map_err(Error::io("remove", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_is_gone_says_why() {
        let dir = std::env::temp_dir().join(format!("latlab-vm-ended-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(paths::log_path(&dir), "qemu: first\nqemu: no such device\n").unwrap();
        let error = ended("third", &dir, "QEMU returned 1".into());
        assert_eq!(
            error.to_string(),
            "guest third ended (QEMU returned 1): qemu: no such device"
        );
        fs::write(
            paths::console_path(&dir),
            "[1] Kernel panic - not syncing: x\n",
        )
        .unwrap();
        let error = ended("third", &dir, "QEMU returned 0".into());
        assert!(matches!(error, Error::GuestPanicked { .. }), "{error}");
        assert!(error.hint().unwrap().contains("console.log"));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_former_guest_leaves_nothing_in_the_directory() {
        let dir = std::env::temp_dir().join(format!("latlab-vm-dir-{}", std::process::id()));
        make_dir(&dir).unwrap();
        fs::write(paths::console_path(&dir), "a former guest's words").unwrap();
        make_dir(&dir).unwrap();
        assert!(!paths::console_path(&dir).exists());
        fs::remove_dir_all(dir).unwrap();
    }
}
