//! The scripts of a lab's nodes (HVNet's setup, experiment, teardown): `exec` and `setup` when the
//! lab comes up, `run` beside each measurement, `teardown` before it goes.

use std::io::Read;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::deployed::Lab;
use super::error::Error;
use crate::nodes::session::{Command, Exit, Session, Signaller};

/// Most of what a script says that is kept for an error.
const KEPT_BYTES: u64 = 64 << 10;
/// Teardown scripts are asked, not trusted, to end.
const TEARDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// SIGTERM and SIGKILL.
const TERM: i32 = 15;
const KILL: i32 = 9;

/// Runs every node's `exec` commands, then every node's `setup`; the first failure ends it.
/// `before` is asked whether to go on.
pub(super) fn bring_up(lab: &Lab, before: &dyn Fn(&str) -> Result<(), Error>) -> Result<(), Error> {
    for node in &lab.plan().nodes {
        let commands = node.exec.iter().map(|c| ("exec", c));
        for (what, command) in commands.chain(node.setup.iter().map(|s| ("setup", s))) {
            before(&node.name)?;
            let (exit, output) = run(lab, &node.name, command, None)?;
            if !exit.success() {
                return Err(failed(&node.name, what, command, exit, output));
            }
        }
    }
    Ok(())
}

/// Runs every node's `teardown`, each bounded in time. Failures do not keep a lab from going; they
/// are returned, one line each.
pub(super) fn teardown(lab: &Lab) -> Vec<String> {
    let mut failures = Vec::new();
    for node in &lab.plan().nodes {
        let Some(script) = &node.teardown else {
            continue;
        };
        match run(lab, &node.name, script, Some(TEARDOWN_TIMEOUT)) {
            Ok((exit, _)) if exit.success() => {}
            Ok((exit, output)) => {
                failures.push(failed(&node.name, "teardown", script, exit, output).to_string());
            }
            Err(error) => failures.push(error.to_string()),
        }
    }
    failures
}

fn failed(node: &str, what: &'static str, script: &str, exit: Exit, output: String) -> Error {
    let first = script.trim().lines().next().unwrap_or_default();
    Error::Command {
        node: node.to_string(),
        what,
        command: first.chars().take(80).collect(),
        exit,
        output,
    }
}

fn run(
    lab: &Lab,
    node: &str,
    script: &str,
    timeout: Option<Duration>,
) -> Result<(Exit, String), Error> {
    let mut session = lab.start(node, &Command::shell(script))?;
    drop(session.take_stdin());
    let stdout = session.take_stdout();
    let stderr = session.take_stderr();
    let drain = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut stream) = stream {
                stream.by_ref().take(KEPT_BYTES).read_to_end(&mut text).ok();
                // The rest is read, so that the script never blocks, and dropped.
                std::io::copy(&mut stream, &mut std::io::sink()).ok();
            }
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let (out, err) = (drain(stdout), drain(stderr));
    let watch = timeout.map(|timeout| Watch::begin(session.signaller(), timeout));
    let exit = session.wait().map_err(|e| lab.unusable(node, e));
    drop(watch);
    let said = err.join().unwrap_or_default() + &out.join().unwrap_or_default();
    Ok((exit?, said))
}

/// Ends a command that takes too long; dropping it stops the watch.
struct Watch(
    #[allow(dead_code, reason = "its drop ends the watching thread")] std::sync::mpsc::Sender<()>,
);

impl Watch {
    fn begin(signal: Signaller, timeout: Duration) -> Watch {
        let (sender, ended) = channel::<()>();
        std::thread::spawn(move || {
            use std::sync::mpsc::RecvTimeoutError::Timeout;
            if ended.recv_timeout(timeout) == Err(Timeout) {
                signal(KILL).ok();
            }
        });
        Watch(sender)
    }
}

pub struct RunScripts(Vec<Box<dyn Session>>);

impl Lab {
    pub fn run_scripts(&self) -> Result<RunScripts, Error> {
        let mut running = RunScripts(Vec::new());
        for node in &self.plan().nodes {
            let Some(script) = &node.run else { continue };
            let mut session = self.start(&node.name, &Command::shell(script))?;
            drop(session.take_stdin());
            for mut stream in session
                .take_stdout()
                .into_iter()
                .chain(session.take_stderr())
            {
                std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
            }
            running.0.push(session);
        }
        Ok(running)
    }
}

impl Drop for RunScripts {
    fn drop(&mut self) {
        for session in &mut self.0 {
            let signal = session.signaller();
            signal(TERM).ok();
            let watch = Watch::begin(signal, Duration::from_secs(2));
            session.wait().ok();
            drop(watch);
        }
    }
}
