//! Hosts over ssh. Each measures one part after the other; their directories are copied here.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;

use crate::campaign::progress;
use crate::campaign::record::{CampaignDir, Record};
use crate::failure::{Failure, INTERRUPTED, MEASURED_FAILED, Outcome};
use crate::progress::bar;
use crate::signals;
use crate::ssh::{self, quoted};

/// A host that fails this often in a row gets no further part.
const MAX_FAILURES: u32 = 2;
const POLL: Duration = Duration::from_millis(100);

/// Runs on the host with the campaign's study and record on stdin, and the part's run directory on stdout. The end of
/// stdin is the end of the connection: the part ends with it, and removes its lab. A sudo is root's, and so are the part's
/// files.
const SCRIPT: &str = r#"set -e
directory=$(mktemp -d /tmp/latlab-campaign.XXXXXX)
trap 'rm -rf "$directory" 2>/dev/null || sudo --non-interactive rm -rf "$directory"' EXIT
# tar alone would wait for the end of stdin.
head -c SIZE | tar -x -C "$directory"
mkdir "$directory/parts" "$directory/logs"
set -- LATLAB campaign part "$directory" NUMBER
[ "$(id -u)" = 0 ] || set -- sudo --non-interactive "$@"
exec 3<&0
"$@" </dev/null >&2 3<&- &
part=$!
{ cat <&3; kill -TERM $part || sudo --non-interactive kill -TERM $part; } >/dev/null 2>&1 &
watch=$!
status=0
wait $part || status=$?
kill $watch 2>/dev/null || true
tar -c -C "$directory/parts" .
exit $status
"#;

/// Measures parts until all are measured, no host is left, or a signal comes.
pub fn measure(
    campaign: &CampaignDir,
    record: &Record,
    hosts: &[String],
    parts: Vec<u32>,
) -> Outcome {
    let stop = signals::stop_flag()?;
    let bar = bar(parts.len(), "parts");
    let work = Work {
        campaign,
        record,
        queue: Mutex::new(Queue {
            left: parts.into(),
            under_way: 0,
        }),
        bar: &bar,
        stop: &stop,
    };
    thread::scope(|scope| {
        for host in hosts {
            scope.spawn(|| work.of_host(host));
        }
    });
    bar.finish_and_clear();
    let progress = progress::of_directories(campaign)?;
    let measured = progress.measured.len();
    println!("{measured} of {} parts are measured", record.parts);
    if stop.load(Ordering::Relaxed) {
        let hint = format!("`latlab campaign resume {campaign}` measures the rest");
        return Err(Failure::new("interrupted: what was measured is kept", hint)
            .with_code(Some(INTERRUPTED)));
    }
    if measured < record.parts as usize {
        let hint = format!(
            "{} tells why; then `latlab campaign resume {campaign}`",
            campaign.logs().display()
        );
        return Err(
            Failure::new("not all parts could be measured", hint).with_code(Some(MEASURED_FAILED))
        );
    }
    println!("`latlab merge {campaign}` joins them");
    Ok(ExitCode::SUCCESS)
}

/// Parts that are not measured.
struct Queue {
    left: VecDeque<u32>,
    /// Number of those that hosts have now. Each comes back if its host fails.
    under_way: usize,
}

/// A host's next work.
enum Next {
    Part(u32),
    /// Another host has the last part, and may fail.
    Wait,
    Nothing,
}

struct Work<'a> {
    campaign: &'a CampaignDir,
    record: &'a Record,
    queue: Mutex<Queue>,
    bar: &'a ProgressBar,
    stop: &'a AtomicBool,
}

impl Work<'_> {
    fn of_host(&self, host: &str) {
        let mut failures = 0;
        while failures < MAX_FAILURES && !self.stop.load(Ordering::Relaxed) {
            let number = match self.next() {
                Next::Part(number) => number,
                Next::Wait => {
                    thread::sleep(POLL);
                    continue;
                }
                Next::Nothing => return,
            };
            let measured = self.measure(host, number);
            self.give_back(measured.is_err().then_some(number));
            match measured {
                Ok(()) => {
                    failures = 0;
                    self.bar.inc(1);
                }
                Err(reason) => {
                    failures += 1;
                    if !self.stop.load(Ordering::Relaxed) {
                        let line = format!("{host}: part {number}: {reason}");
                        self.bar.suspend(|| eprintln!("{line}"));
                    }
                }
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Next {
        let mut queue = self.queue();
        match queue.left.pop_front() {
            Some(number) => {
                queue.under_way += 1;
                Next::Part(number)
            }
            None if queue.under_way > 0 => Next::Wait,
            None => Next::Nothing,
        }
    }

    /// Ends a host's work on a part, which the next host gets if it is not measured.
    fn give_back(&self, number: Option<u32>) {
        let mut queue = self.queue();
        queue.under_way -= 1;
        if let Some(number) = number {
            queue.left.push_front(number);
        }
    }

    /// One part on one host, or the reason why there is none.
    fn measure(&self, host: &str, number: u32) -> Result<(), String> {
        let log = self.campaign.logs().join(format!("{number}-{host}.log"));
        let incoming = self.campaign.parts().join(format!(".{number}-{host}"));
        let copied = self.copy(host, number, &log, &incoming);
        let kept = copied.and_then(|()| self.keep(number, &incoming));
        fs::remove_dir_all(&incoming).ok();
        kept.map_err(|error| format!("{error}; see {}", log.display()))
    }

    /// Starts the part, and unpacks what it measured into `incoming`.
    fn copy(&self, host: &str, number: u32, log: &Path, incoming: &Path) -> io::Result<()> {
        match fs::remove_dir_all(incoming) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir(incoming)?,
        }
        let log = File::options().create(true).append(true).open(log)?;
        let packed = Command::new("tar")
            .args(["--create", "--directory"])
            .arg(self.campaign.root())
            .args(["campaign.json", "study.yaml"])
            .stderr(Stdio::null())
            .output()?
            .stdout;
        let script = SCRIPT
            .replace("SIZE", &packed.len().to_string())
            .replace("LATLAB", &quoted(&self.record.latlab.to_string_lossy()))
            .replace("NUMBER", &number.to_string());
        let mut ssh = ssh::script(host, &script, &[])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let (stdin, stdout) = (ssh.stdin.take(), ssh.stdout.take());
        let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else {
            unreachable!("both are pipes");
        };
        let mut unpacked = Command::new("tar")
            .args(["--extract", "--no-same-owner", "--directory"])
            .arg(incoming)
            .stdin(stdout)
            .stderr(Stdio::null())
            .spawn()?;
        // A host that refused the connection reads nothing; its status tells.
        stdin.write_all(&packed).ok();
        let status = self.wait(&mut ssh);
        drop(stdin);
        let is_unpacked = unpacked.wait()?.success();
        match status?.code() {
            Some(0 | 1) if !is_unpacked => Err(io::Error::other(
                "its files could not be written here; is the disk full?",
            )),
            // A part with failed trials is measured.
            Some(0 | 1) => Ok(()),
            Some(255) => Err(io::Error::other("no connection")),
            Some(code) => Err(io::Error::other(format!("ended with {code}"))),
            None => Err(io::Error::other("interrupted")),
        }
    }

    /// Waits for the end of ssh, and ends it after a signal.
    fn wait(&self, ssh: &mut Child) -> io::Result<std::process::ExitStatus> {
        loop {
            if let Some(status) = ssh.try_wait()? {
                return Ok(status);
            }
            if self.stop.load(Ordering::Relaxed) {
                ssh.kill()?;
                return ssh.wait();
            }
            thread::sleep(POLL);
        }
    }

    /// Moves the run directories that came. Two hosts may have made one name in the same second.
    fn keep(&self, number: u32, incoming: &Path) -> io::Result<()> {
        let mut count = 0;
        for entry in fs::read_dir(incoming)? {
            let entry = entry?;
            let name = format!("{}-part{number}", entry.file_name().to_string_lossy());
            fs::rename(entry.path(), self.campaign.parts().join(name))?;
            count += 1;
        }
        match count {
            0 => Err(io::Error::other("nothing was measured")),
            _ => Ok(()),
        }
    }
}
