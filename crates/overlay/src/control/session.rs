//! A client's session: lines in, answers out, independent of sockets.

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard};

use latlab_model::overlay::language::{HELP, parse};
use latlab_model::overlay::{Command, ListWhat, Overlay};

use crate::daemon::{Daemon, Error, Holder};
use crate::sync::lock;

struct Draft {
    overlay: Overlay,
    revision: u64,
}

pub struct Session {
    daemon: Arc<Mutex<Daemon>>,
    draft: Option<Draft>,
    /// The owner of its holds and of adaptation, once it has either.
    holder: Option<Holder>,
}

/// An answer's lines, or an error's column, message and hint.
type Answer = Result<String, (usize, String, String)>;

impl Session {
    #[must_use]
    pub const fn new(daemon: Arc<Mutex<Daemon>>) -> Session {
        Session {
            daemon,
            draft: None,
            holder: None,
        }
    }

    pub fn answer(&mut self, line: &str) -> String {
        match self.carry_out(line) {
            Ok(lines) => {
                let mut out = String::new();
                for line in lines.lines() {
                    let _ = writeln!(out, " {line}");
                }
                out.push_str("ok\n");
                out
            }
            Err((column, message, hint)) => format!("error {column}: {message} ({hint})\n"),
        }
    }

    fn daemon(&self) -> MutexGuard<'_, Daemon> {
        // After a panic the daemon is consistent: it changes its state only after all steps that can fail.
        lock(&self.daemon)
    }

    fn carry_out(&mut self, line: &str) -> Answer {
        let current = match &self.draft {
            Some(draft) => draft.overlay.clone(),
            None => self.daemon().overlay().0.clone(),
        };
        let command = parse(line, &current)
            .map_err(|mistake| (mistake.column, mistake.message, mistake.hint))?;
        match command {
            None => Ok(String::new()),
            Some(Command::Begin) => self.begin(),
            Some(Command::Commit) => self.commit(),
            Some(Command::Abort) => match self.draft.take() {
                Some(_) => Ok(String::new()),
                None => Err(nothing_begun()),
            },
            Some(Command::List(what)) => Ok(list(&current, what, &self.daemon())),
            Some(Command::Show) => Ok(self.show(&current)),
            Some(Command::Help) => Ok(HELP.into()),
            Some(Command::Counters { openmetrics }) => {
                let statistics = self
                    .daemon()
                    .statistics()
                    .map_err(|died| failed(&died.into()))?;
                Ok(if openmetrics {
                    statistics.openmetrics()
                } else {
                    statistics.text()
                })
            }
            Some(Command::Matrix) => self.matrix(),
            Some(command @ (Command::Hold(_) | Command::Release(_) | Command::Move(_))) => {
                self.relocate(&command)
            }
            Some(Command::Adapt) => {
                let holder = self.holder();
                done(self.daemon().adapt(holder))
            }
            Some(change) => self.change(&change),
        }
    }

    /// The configuration, and what else is in force, as comments: what is shown stays a file of commands.
    fn show(&self, current: &Overlay) -> String {
        let mut out = current.to_string();
        let daemon = self.daemon();
        for (what, lines) in [("hold", daemon.list_holds()), ("move", daemon.list_moves())] {
            for line in lines.lines() {
                let _ = writeln!(out, "# {what} {line}");
            }
        }
        out
    }

    fn holder(&mut self) -> Holder {
        *self.holder.get_or_insert_with(Holder::unique)
    }

    fn relocate(&mut self, command: &Command) -> Answer {
        if self.draft.is_some() {
            let hint = "`commit` or `abort` first; each of its own takes effect at once";
            let message = "holds and moves are no part of a change of the configuration";
            return Err((1, message.into(), hint.into()));
        }
        let holder = self.holder();
        let mut daemon = self.daemon();
        done(match command {
            Command::Hold(hold) => daemon.hold(holder, hold),
            Command::Release(addresses) => daemon.release(addresses),
            Command::Move(wanted) => daemon.move_addresses(wanted),
            _ => Ok(()),
        })
    }

    fn begin(&mut self) -> Answer {
        if self.draft.is_some() {
            let hint = "`commit` or `abort` it first".into();
            return Err((1, "something has begun already".into(), hint));
        }
        let daemon = self.daemon();
        let (overlay, revision) = daemon.overlay();
        let overlay = overlay.clone();
        drop(daemon);
        self.draft = Some(Draft { overlay, revision });
        Ok(String::new())
    }

    fn commit(&mut self) -> Answer {
        let draft = self.draft.take().ok_or_else(nothing_begun)?;
        done(self.daemon().install(draft.overlay, draft.revision))
    }

    fn change(&mut self, change: &Command) -> Answer {
        let refused = |refusal: latlab_model::overlay::Refusal| (1, refusal.message, refusal.hint);
        if let Some(draft) = &mut self.draft {
            draft.overlay.apply(change).map_err(refused)?;
            return Ok(String::new());
        }
        let mut daemon = self.daemon();
        let (overlay, revision) = daemon.overlay();
        let mut overlay = overlay.clone();
        overlay.apply(change).map_err(refused)?;
        done(daemon.install(overlay, revision))
    }

    fn matrix(&self) -> Answer {
        let daemon = self.daemon();
        let matrix = daemon.matrix().map_err(|died| failed(&died.into()))?;
        let mut out = String::new();
        for (vni, source, destination, carried) in matrix.pairs() {
            let network = match daemon.overlay().0.network_of(vni) {
                Some((name, _)) => name.to_string(),
                None => format!("vni-{vni}"),
            };
            let (frames, bytes) = (carried.frames, carried.bytes);
            let _ = writeln!(
                out,
                "{network} {source} {destination} frames {frames} bytes {bytes}"
            );
        }
        let rest = matrix.rest();
        if rest.frames > 0 {
            let (frames, bytes) = (rest.frames, rest.bytes);
            let _ = writeln!(out, "others frames {frames} bytes {bytes}");
        }
        Ok(out)
    }
}

impl Drop for Session {
    /// A connection that is gone does not keep frames waiting, nor another from adapting.
    fn drop(&mut self) {
        if let Some(holder) = self.holder {
            self.daemon().end_all_of(holder);
        }
    }
}

fn nothing_begun() -> (usize, String, String) {
    (1, "nothing has begun".into(), "say `begin` first".into())
}

fn done(result: Result<(), Error>) -> Answer {
    match result {
        Ok(()) => Ok(String::new()),
        Err(error) => Err(failed(&error)),
    }
}

fn failed(error: &Error) -> (usize, String, String) {
    (1, error.to_string(), error.hint())
}

fn list(overlay: &Overlay, what: ListWhat, daemon: &Daemon) -> String {
    let mut out = String::new();
    match what {
        ListWhat::Networks => {
            for (name, network) in &overlay.networks {
                let _ = writeln!(out, "{name} {network}");
            }
        }
        ListWhat::Interfaces => {
            for (name, interface) in &overlay.interfaces {
                let _ = write!(out, "{name} {interface}");
                // As a comment, so that the line stays a valid command.
                if let Some(trouble) = daemon.trouble(name) {
                    let _ = write!(out, " # trouble: {}", trouble.replace('\n', " "));
                }
                out.push('\n');
            }
        }
        ListWhat::Links => {
            for (name, link) in &overlay.links {
                let _ = writeln!(out, "{name} {}", link.kind);
            }
        }
        ListWhat::Holds => out = daemon.list_holds(),
        ListWhat::Moves => out = daemon.list_moves(),
        ListWhat::Routes => {
            for route in &overlay.routes {
                let _ = writeln!(out, "{route}");
            }
        }
    }
    out
}
