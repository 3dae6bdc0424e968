//! latlab on another host, over ssh; on this one, as a child.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::record::Host;
use crate::campaign::shell::quoted;

/// How long a host has to undo what it began, after its connection was closed.
const UNDO_TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);
/// The exit code of ssh when it has no connection.
const NO_CONNECTION: i32 = 255;

/// Runs latlab with the first bytes of stdin as its own. The end of stdin is the end of the connection: latlab is told to
/// end, and undoes what it began.
const WITH_INPUT: &str = r#"set -- LATLAB
[ "$(id -u)" = 0 ] || set -- sudo --non-interactive "$@"
input=$(head -c SIZE)
exec 3<&0
printf '%s\n' "$input" | "$@" 3<&- &
latlab=$!
{ cat <&3; kill -TERM $latlab; } >/dev/null 2>&1 &
watch=$!
status=0
wait $latlab || status=$?
kill $watch 2>/dev/null || true
exit $status
"#;

/// Lines of its version and of its key, and below them the labs there: one connection for all.
const ABOUT: &str = r#"set -- LATLAB
[ "$(id -u)" = 0 ] || set -- sudo --non-interactive "$@"
set -e
"$@" --version
KEY
exec "$@" inspect --here --format json
"#;

const PLAIN: &str = r#"set -- LATLAB
[ "$(id -u)" = 0 ] || set -- sudo --non-interactive "$@"
exec "$@"
"#;

/// The output and exit code of latlab on a host.
#[derive(Debug)]
pub(super) struct Answer {
    pub code: Option<i32>,
    pub output: String,
    errors: String,
}

impl Answer {
    pub fn is_good(&self) -> bool {
        self.code == Some(0)
    }

    /// Whether latlab there failed, and so undid what it began. A lost connection says nothing of that.
    pub fn is_undone(&self) -> bool {
        self.code
            .is_some_and(|code| code != 0 && code != NO_CONNECTION)
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

impl Host {
    /// The shell's words of latlab there with arguments.
    fn words(&self, arguments: &[&str]) -> String {
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
    fn shell(&self, script: &str, options: &[&str]) -> Command {
        let Some(destination) = &self.ssh else {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            return shell;
        };
        let mut ssh = Command::new("ssh");
        ssh.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"])
            .args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"])
            .args(options)
            .args(["--", destination])
            .arg(format!("exec sh -c {}", quoted(script)));
        ssh
    }

    /// latlab there, on the caller's own stdin and stdout.
    pub(super) fn attached(&self, arguments: &[&str], with_terminal: bool) -> Command {
        let options: &[&str] = if with_terminal { &["-tt"] } else { &[] };
        self.shell(&PLAIN.replace("LATLAB", &self.words(arguments)), options)
    }

    /// Runs latlab there to its end.
    pub(super) fn ask(&self, arguments: &[&str]) -> Answer {
        let mut command = self.attached(arguments, false);
        answer(command.stdin(Stdio::null()), None, &AtomicBool::new(false))
    }

    /// Asks for latlab's version, for the machine's public key (an empty line without), and for the labs there.
    pub(super) fn ask_about(&self, with_key: bool) -> Answer {
        let key = match with_key {
            true => r#""$@" host-key"#,
            false => "echo",
        };
        let script = ABOUT
            .replace("KEY", key)
            .replace("LATLAB", &self.words(&[]));
        let mut command = self.shell(&script, &[]);
        answer(command.stdin(Stdio::null()), None, &AtomicBool::new(false))
    }

    /// Runs latlab there with this input. When `stop` is set it is told to end, and waited for.
    pub(super) fn tell(&self, arguments: &[&str], input: &str, stop: &AtomicBool) -> Answer {
        let script = WITH_INPUT
            .replace("SIZE", &input.len().to_string())
            .replace("LATLAB", &self.words(arguments));
        let mut command = self.shell(&script, &[]);
        answer(command.stdin(Stdio::piped()), Some(input), stop)
    }
}

fn answer(command: &mut Command, input: Option<&str>, stop: &AtomicBool) -> Answer {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return Answer {
                code: None,
                output: String::new(),
                errors: format!("{}: {error}", command.get_program().to_string_lossy()),
            };
        }
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut stdin = child.stdin.take();
    thread::scope(|scope| {
        let output = scope.spawn(|| text(stdout));
        let errors = scope.spawn(|| text(stderr));
        if let (Some(stdin), Some(input)) = (&mut stdin, input) {
            // A host that refused the connection reads nothing; its status tells.
            stdin.write_all(input.as_bytes()).ok();
        }
        let status = wait(&mut child, stdin, stop);
        let joined =
            |thread: thread::ScopedJoinHandle<'_, String>| thread.join().unwrap_or_default();
        Answer {
            code: status.and_then(|status| status.code()),
            output: joined(output),
            errors: joined(errors),
        }
    })
}

fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes).ok();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for the end. After `stop` stdin is closed, and what does not end then is killed.
fn wait(
    child: &mut Child,
    stdin: Option<std::process::ChildStdin>,
    stop: &AtomicBool,
) -> Option<ExitStatus> {
    let mut stdin = stdin;
    let mut end: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait().ok()? {
            return Some(status);
        }
        if stop.load(Ordering::Relaxed) && end.is_none() {
            drop(stdin.take());
            end = Some(Instant::now() + UNDO_TIMEOUT);
        }
        if end.is_some_and(|end| Instant::now() > end) {
            child.kill().ok();
        }
        thread::sleep(POLL);
    }
}

/// Does something with each host at once; the results are in their order.
pub(super) fn each<T: Send>(hosts: &[Host], work: impl Fn(&Host) -> T + Sync) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = hosts
            .iter()
            .map(|host| scope.spawn(move || work(host)))
            .collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    })
}
