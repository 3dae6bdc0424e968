//! The deployment on one host: one connection, in which the host first says what it is, and is then told what to deploy.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use latlab_model::plan::Room;
use latlab_model::units::Bytes;

use super::record::Host;
use super::remote::{Answer, text};
use crate::ssh::quoted;

/// How long a host has to undo what it began, after its connection was closed.
const UNDO_TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// Prints lines of the version, of the key, and of the CPUs and the available KiB of memory; then the labs there, and a byte of zero. Then a line of stdin has latlab's
/// arguments, and the bytes behind it are latlab's own stdin. The end of stdin is the end of the connection: latlab is told
/// to end, and undoes what it began. A sudo can be told by root only.
const SCRIPT: &str = r#"set -- LATLAB
[ "$(id -u)" = 0 ] || set -- sudo --non-interactive "$@"
set -e
"$@" --version
KEY
echo "$(getconf _NPROCESSORS_ONLN) $(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)"
"$@" inspect --here --format json
printf '\0'
read -r words
eval "set -- \"\$@\" $words"
input=$(head -c SIZE)
exec 3<&0
printf '%s\n' "$input" | "$@" 3<&- &
latlab=$!
{ cat <&3; kill -TERM $latlab || sudo --non-interactive kill -TERM $latlab; } >/dev/null 2>&1 &
watch=$!
status=0
wait $latlab || status=$?
kill $watch 2>/dev/null || true
exit $status
"#;

/// The words of a host about itself.
#[derive(Debug)]
pub(super) struct About {
    pub version: String,
    /// Its public key; empty if it was not asked for.
    pub key: String,
    pub room: Room,
    /// The output of `inspect --format json`.
    pub labs: String,
}

/// A connection, until it has been told what to deploy. It ends with this.
pub(super) struct Session {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    errors: Option<JoinHandle<String>>,
}

impl Session {
    /// Connects, and asks about the host, also for its key. `size` bytes will be the input. Errors: the answer of a host
    /// that said nothing.
    pub fn open(host: &Host, with_key: bool, size: usize) -> Result<(Session, About), Answer> {
        let key = match with_key {
            true => r#""$@" host-key"#,
            false => "echo",
        };
        let script = SCRIPT
            .replace("KEY", key)
            .replace("SIZE", &size.to_string())
            .replace("LATLAB", &host.words(&[]));
        let mut command = host.shell(&script, &[]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| Answer::not_started(&command, &error))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
            unreachable!("both are pipes");
        };
        let mut session = Session {
            stdin: child.stdin.take(),
            stdout: BufReader::new(stdout),
            errors: Some(std::thread::spawn(move || read(stderr))),
            child,
        };
        let mut said = Vec::new();
        session.stdout.read_until(0, &mut said).ok();
        if said.pop() != Some(0) {
            return Err(session.ended(said, &AtomicBool::new(false)));
        }
        let said = text(&said);
        let mut lines = said.splitn(4, '\n');
        let mut line = || lines.next().unwrap_or_default().to_owned();
        let about = About {
            version: line(),
            key: line(),
            room: room(&line()),
            labs: line(),
        };
        Ok((session, about))
    }

    /// Runs latlab there with this input. When `stop` is set it is told to end, and waited for.
    pub fn tell(mut self, arguments: &[&str], input: &str, stop: &AtomicBool) -> Answer {
        let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
        if let Some(stdin) = &mut self.stdin {
            // A host whose connection has ended reads nothing; its status tells.
            let text = words.join(" ") + "\n" + input;
            stdin.write_all(text.as_bytes()).ok();
        }
        self.ended(Vec::new(), stop)
    }

    /// Waits for the end, and adds to the output that was read.
    fn ended(&mut self, mut output: Vec<u8>, stop: &AtomicBool) -> Answer {
        let (child, stdin, stdout) = (&mut self.child, &mut self.stdin, &mut self.stdout);
        let status = std::thread::scope(|scope| {
            scope.spawn(|| stdout.read_to_end(&mut output));
            wait(child, stdin, stop)
        });
        let errors = self.errors.take().map(JoinHandle::join);
        Answer {
            code: status.and_then(|status| status.code()),
            output: text(&output),
            errors: errors.and_then(Result::ok).unwrap_or_default(),
        }
    }
}

/// The host's script ends when stdin does.
impl Drop for Session {
    fn drop(&mut self) {
        drop(self.stdin.take());
        self.child.wait().ok();
    }
}

/// A host that does not say it has no room.
fn room(line: &str) -> Room {
    let mut numbers = line.split(' ').map(|word| word.parse().ok());
    let mut number = || numbers.next().flatten().unwrap_or(0_u64);
    Room {
        cpus: u32::try_from(number()).unwrap_or(u32::MAX),
        memory: Bytes(number().saturating_mul(1024)),
    }
}

fn read(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).ok();
    text(&bytes)
}

/// Waits for the end. After `stop` stdin is closed, and what does not end then is killed.
fn wait(
    child: &mut Child,
    stdin: &mut Option<ChildStdin>,
    stop: &AtomicBool,
) -> Option<ExitStatus> {
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
        std::thread::sleep(POLL);
    }
}
