//! latlab on another host, over ssh; on this one, as a child.

use std::collections::BTreeMap;
use std::io;
use std::panic::resume_unwind;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use serde::de::DeserializeOwned;

use super::record::{Host, Record};
use crate::failure::{AT_FAULT, INTERRUPTED};
use crate::ssh::{self, quoted};

/// The exit code of ssh when it has no connection.
const NO_CONNECTION: i32 = 255;

const PLAIN: &str = r#"set -- LATLAB
[ "$(id -u)" = 0 ] || set -- sudo --non-interactive "$@"
exec "$@"
"#;

/// The output and exit code of latlab on a host.
#[derive(Debug)]
pub(super) struct Answer {
    pub code: Option<i32>,
    pub output: String,
    pub errors: String,
}

impl Answer {
    pub fn not_started(command: &Command, error: &io::Error) -> Answer {
        Answer {
            code: None,
            output: String::new(),
            errors: format!("{}: {error}", command.get_program().to_string_lossy()),
        }
    }

    /// The end of a command that was started.
    pub fn of(output: io::Result<Output>) -> Answer {
        match output {
            Ok(output) => Answer {
                code: output.status.code(),
                output: text(&output.stdout),
                errors: text(&output.stderr),
            },
            Err(error) => Answer {
                code: None,
                output: String::new(),
                errors: error.to_string(),
            },
        }
    }

    pub fn is_good(&self) -> bool {
        self.code == Some(0)
    }

    /// Whether latlab there failed, and says that it began nothing or undid it. A lost connection says nothing of that, and
    /// neither does a latlab that was killed.
    pub fn is_undone(&self) -> bool {
        let undone = [AT_FAULT, INTERRUPTED].map(i32::from);
        self.code.is_some_and(|code| undone.contains(&code))
    }

    /// The reason of a failure, in a line.
    pub fn reason(&self) -> String {
        let said = self.message().map(|(line, _)| line.trim());
        match (self.code, said) {
            (Some(NO_CONNECTION), Some(why)) => format!("no connection: {why}"),
            (Some(NO_CONNECTION), None) => "no connection".into(),
            (_, Some(why)) => why.strip_prefix("latlab: ").unwrap_or(why).into(),
            (Some(code), None) => format!("latlab ended with {code}"),
            (None, None) => "latlab was killed".into(),
        }
    }

    /// The hint to that reason.
    pub fn hint(&self) -> Option<&str> {
        self.message()?.1?.trim().strip_prefix("hint: ")
    }

    /// The line that tells what is wrong, and the next: the first mistake of the lab's text, else the last error, else
    /// the last line.
    fn message(&self) -> Option<(&str, Option<&str>)> {
        let lines = self.errors.lines().filter(|line| !line.trim().is_empty());
        let lines: Vec<&str> = lines.collect();
        let mistake = lines
            .iter()
            .position(|line| line.starts_with("standard input:"));
        let error = || lines.iter().rposition(|line| line.starts_with("latlab: "));
        let at = mistake.or_else(error).or(lines.len().checked_sub(1))?;
        Some((lines[at], lines.get(at + 1).copied()))
    }
}

/// Documents that the hosts of a record printed as JSON, by their names. Errors: why the first has none, and a hint.
pub(super) fn printed<T: DeserializeOwned>(
    record: &Record,
    answers: &[Answer],
) -> Result<BTreeMap<String, T>, (String, String)> {
    let mut all = BTreeMap::new();
    for (host, answer) in record.hosts.iter().zip(answers) {
        match serde_json::from_str(&answer.output) {
            Ok(document) if answer.is_good() => drop(all.insert(host.name.clone(), document)),
            _ => {
                let hint = answer.hint().unwrap_or("nothing was changed");
                let message = format!("host `{}`: {}", host.name, answer.reason());
                return Err((message, hint.to_owned()));
            }
        }
    }
    Ok(all)
}

impl Host {
    /// The shell's words of latlab there with arguments.
    pub(super) fn words(&self, arguments: &[&str]) -> String {
        let own = || match self.ssh {
            Some(_) => "latlab".to_string(),
            None => {
                let here = std::env::current_exe().unwrap_or_else(|_| "latlab".into());
                quoted(&here.to_string_lossy())
            }
        };
        let mut words = self.latlab.clone().unwrap_or_else(own);
        for argument in arguments {
            words += " ";
            words += &quoted(argument);
        }
        words
    }

    /// A shell's script on the host.
    pub(super) fn shell(&self, script: &str, options: &[&str]) -> Command {
        let Some(destination) = &self.ssh else {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            return shell;
        };
        ssh::script(destination, script, options)
    }

    /// latlab there, on the caller's own stdin and stdout.
    pub(super) fn attached(&self, arguments: &[&str], with_terminal: bool) -> Command {
        let options: &[&str] = if with_terminal { &["-tt"] } else { &[] };
        self.shell(&PLAIN.replace("LATLAB", &self.words(arguments)), options)
    }

    /// Starts latlab there, with pipes.
    pub(super) fn start(&self, arguments: &[&str]) -> io::Result<Child> {
        let mut command = self.attached(arguments, false);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        pipes.stderr(Stdio::piped()).spawn()
    }

    /// Runs latlab there to its end.
    pub(super) fn ask(&self, arguments: &[&str]) -> Answer {
        let mut command = self.attached(arguments, false);
        match command.stdin(Stdio::null()).output() {
            Err(error) => Answer::not_started(&command, &error),
            output => Answer::of(output),
        }
    }
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Does something with each at once; the results are in their order.
pub(super) fn each<I: Send, T: Send>(
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = items
            .into_iter()
            .map(|item| scope.spawn(move || work(item)))
            .collect();
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        let done = joined.map(|done| done.unwrap_or_else(|panic| resume_unwind(panic)));
        done.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::NOT_UNDONE;

    #[test]
    fn only_latlabs_own_word_says_that_nothing_is_left() {
        let is_undone = |code| {
            let answer = Answer {
                code,
                output: String::new(),
                errors: String::new(),
            };
            answer.is_undone()
        };
        assert!(is_undone(Some(2)) && is_undone(Some(130)));
        // Deployed, not undone, panicked, killed, no connection, a host that is not waited for.
        for code in [0, i32::from(NOT_UNDONE), 101, 137, NO_CONNECTION] {
            assert!(!is_undone(Some(code)), "{code}");
        }
        assert!(!is_undone(None));
    }
}
