//! A start of a live system from the network: the boot device once, the power off and on, and the answer on the console.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use latlab_bmc::{BootDevice, Controller, Switch, switch_and_wait};
use latlab_host::live::{Error, Live};
use latlab_model::diagnostic::{plain, shown};
use latlab_model::spec::ManagedHost;

use super::answer;
use crate::args::HostBoot;
use crate::bmc::session::{POLL, Session, create, reason};
use crate::failure::{Failure, Hint, INTERRUPTED, hinted, of_controller};
use crate::{reboot, signals};

/// Time in which a controller opens the console, and in which it switches the power.
const CONTROLLER: Duration = Duration::from_secs(9);
/// The newest bytes of a console, in which the answer is.
const KEPT_BYTES: usize = 64 * 1024;
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Starts the host's live system, and returns the command line that its kernel has, which is the one asked for.
pub(super) fn boot(
    host: &ManagedHost,
    controller: &dyn Controller,
    directory: &Path,
    parameters: &[String],
    args: &HostBoot,
) -> Result<String, Failure> {
    let stop = signals::stop_flag()?;
    let live = Live::open(directory).map_err(hinted(Error::hint))?;
    // The reason of one that is away or refuses is better told than that of a console which does not open.
    controller.power().map_err(of_controller)?;
    let mut ear = Ear::open(host, controller, args, &stop)?;
    let id = id().hint("/proc must be mounted")?;
    let mut words = parameters.to_vec();
    words.push(format!("latlab.boot={id}"));
    let start = || -> Result<(String, Instant), Failure> {
        let wanted = live.boot_with(&words).map_err(hinted(Error::hint))?;
        let pxe = controller.boot_once(BootDevice::Pxe, args.uefi);
        pxe.map_err(of_controller)?;
        let end = Instant::now() + args.wait;
        let cycled = switch_and_wait(&host.name, controller, Switch::Cycle, CONTROLLER);
        cycled.map_err(of_controller)?;
        Ok((wanted, end))
    };
    let said = start().and_then(|(wanted, end)| {
        let said = ear.answer(host, &id, &stop, (end, args.wait))?;
        Ok((wanted, said))
    });
    let (wanted, said) = ear.close(said)?;
    let runs = said.map_err(|reason| {
        let message = format!(
            "the live system of host `{}` cannot start: {}",
            *host.name,
            shown(&plain(&reason))
        );
        Failure::new(message, "its console tells more: `--record FILE`")
    })?;
    match answer::differences(&wanted, &runs) {
        (missing, foreign) if missing.is_empty() && foreign.is_empty() => Ok(runs),
        (missing, foreign) => Err(answer::differs(&host.name, &missing, &foreign)),
    }
}

/// By which the answer is known from that of an earlier start.
fn id() -> io::Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(text.chars().take(8).collect())
}

/// Where the answer is heard.
enum Ear {
    Console {
        session: Session,
        heard: Heard,
    },
    /// The way to a host whose controller has no console.
    Ssh(String),
}

impl Ear {
    /// Opens it before anything is changed, so that nothing that the host says is missed.
    fn open(
        host: &ManagedHost,
        controller: &dyn Controller,
        args: &HostBoot,
        stop: &AtomicBool,
    ) -> Result<Ear, Failure> {
        let command = match (controller.console(), &host.ssh, &args.record) {
            (Ok(command), _, _) => command,
            (Err(_), Some(ssh), None) => return Ok(Ear::Ssh(ssh.value.clone())),
            (Err(error), _, _) => return Err(of_controller(error)),
        };
        if args.take {
            controller.free_console().map_err(of_controller)?;
        }
        let heard = Heard::new(args.record.as_deref())?;
        let mut session = Session::begin(command, heard.clone()).hint("install ipmitool")?;
        let end = Instant::now() + CONTROLLER;
        while !session.is_open() {
            if session.has_ended()? {
                let (_, said) = session.end()?;
                heard.remove_empty();
                return Err(of_controller(reason(host, &said)));
            }
            if Instant::now() >= end || stop.load(Ordering::Relaxed) {
                session.end()?;
                heard.remove_empty();
                let message = format!("the console of host `{}` does not open", *host.name);
                return Err(Failure::new(message, "`--take` ends another session"));
            }
            thread::sleep(POLL);
        }
        Ok(Ear::Console { session, heard })
    }

    /// Waits for the command line that the host runs with, or why its live system failed. Errors: nothing was heard.
    fn answer(
        &mut self,
        host: &ManagedHost,
        id: &str,
        stop: &AtomicBool,
        (end, limit): (Instant, Duration),
    ) -> Result<Result<String, String>, Failure> {
        loop {
            let (found, pause) = match self {
                Ear::Console { session, heard } => {
                    let has_ended = session.has_ended()?;
                    let found = heard.find(id);
                    if found.is_none() && has_ended {
                        let message = format!("the console of host `{}` ended", *host.name);
                        return Err(Failure::new(
                            message,
                            "the host goes on: ask its controller",
                        ));
                    }
                    (found, POLL)
                }
                Ear::Ssh(destination) => (ask(destination, id), ASK_AGAIN),
            };
            if let Some(found) = found {
                return Ok(found);
            }
            if stop.load(Ordering::Relaxed) {
                let message = format!("host `{}` was not waited for", *host.name);
                let failure = Failure::new(message, "it goes on: ask its console");
                return Err(failure.with_code(Some(INTERRUPTED)));
            }
            if Instant::now() >= end {
                return Err(self.silence(host, limit));
            }
            thread::sleep(pause);
        }
    }

    fn silence(&self, host: &ManagedHost, limit: Duration) -> Failure {
        let (name, seconds) = (host.name.value.as_str(), limit.as_secs());
        let message = format!("the live system of host `{name}` did not answer within {seconds} s");
        let hint = match self {
            Ear::Ssh(destination) => {
                format!("does it have an ssh server, and is it `{destination}`?")
            }
            Ear::Console { heard, .. } => match heard.last_words() {
                Some(words) => format!("its console's last words: `{words}`"),
                None => "its console is silent: is the kernel's the controller's? `latlab image \
                         --console`"
                    .into(),
            },
        };
        Failure::new(message, hint)
    }

    fn close<T>(self, said: Result<T, Failure>) -> Result<T, Failure> {
        match self {
            Ear::Ssh(_) => said,
            Ear::Console { session, .. } => {
                let ended = session.end();
                let said = said?;
                ended?;
                Ok(said)
            }
        }
    }
}

/// The command line that a host tells by ssh, if it is that of this start.
fn ask(destination: &str, id: &str) -> Option<Result<String, String>> {
    let line = reboot::answer(destination, "cat /proc/cmdline")?;
    let line = line.trim().to_owned();
    let word = format!("latlab.boot={id}");
    line.split_whitespace()
        .any(|w| w == word)
        .then_some(Ok(line))
}

/// The console's output.
#[derive(Clone)]
struct Heard(Arc<Mutex<Inner>>);

struct Inner {
    text: Vec<u8>,
    record: Option<(PathBuf, File)>,
}

impl Heard {
    fn new(record: Option<&Path>) -> Result<Heard, Failure> {
        let record = record
            .map(|path| Ok::<_, Failure>((path.to_owned(), create(path)?)))
            .transpose()?;
        Ok(Heard(Arc::new(Mutex::new(Inner {
            text: Vec::new(),
            record,
        }))))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn find(&self, id: &str) -> Option<Result<String, String>> {
        self.with(|inner| answer::find(&inner.text, id))
    }

    fn last_words(&self) -> Option<String> {
        self.with(|inner| answer::last_words(&inner.text))
    }

    /// Removes a recording of nothing.
    fn remove_empty(&self) {
        self.with(|inner| {
            if let Some((path, _)) = &inner.record {
                // A file that stays is an empty one.
                let _ = fs::remove_file(path);
            }
        });
    }
}

impl Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|inner| {
            if let Some((_, file)) = &mut inner.record {
                file.write_all(bytes)?;
            }
            inner.text.extend_from_slice(bytes);
            let excess = inner.text.len().saturating_sub(KEPT_BYTES);
            inner.text.drain(..excess);
            Ok(bytes.len())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
